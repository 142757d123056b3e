//! The messages of the command line about silence, history, actions, errors and an unresponsive
//! server, each against the real server.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::Stdio;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::cli::{Running, command, json, ok, run};
use crate::server::{DEADLINE, Server};

/// Repeats the command until its output contains these words.
fn until(server: &Server, line: &[&str], words: &str) -> String {
    let start = Instant::now();
    loop {
        let said = run(server, line);
        if said.out.contains(words) {
            return said.out;
        }
        assert!(start.elapsed() < DEADLINE, "{words:?} is not in: {}{}", said.out, said.err);
    }
}

#[test]
fn one_answer_to_whether_a_stale_unit_is_active() {
    let server = Server::ephemeral();
    ok(&server, &["report", "a/0", "--level", "active", "--ttl", "1s"]);
    let status = until(&server, &["status"], "(1 stale !)");
    assert!(status.contains("  1 silent\n"), "{status}");
    assert!(status.contains("a    active    0/1"), "{status}");
    assert_eq!(run(&server, &["status", "--exit-status"]).code, Some(13));
    let waited = run(&server, &["wait", "a", "--timeout", "1s"]);
    assert_eq!(waited.code, Some(124), "{}", waited.err);
    assert!(waited.err.contains("a active, but 1 unit stale (a/0, silent for "), "{}", waited.err);
    let waited = run(&server, &["wait", "a", "--timeout", "10s", "--allow-stale"]);
    assert_eq!(waited.code, Some(0), "{}", waited.err);
    ok(&server, &["report", "a/0", "--level", "active"]);
    assert_eq!(run(&server, &["wait", "a", "--timeout", "10s"]).code, Some(0));
    assert_eq!(run(&server, &["status", "--exit-status"]).code, Some(0));
}

#[test]
fn a_status_ends_at_its_time() {
    let server = Server::ephemeral();
    ok(&server, &["report", "a/0", "--level", "active"]);
    let waiting = ["report", "a/0", "--component", "job", "--level", "waiting"];
    for span in ["0s", "31d"] {
        let refused = run(&server, &[&waiting[..], &["--ends-after", span]].concat());
        assert!(refused.err.contains("give 1 s to 2592000 s"), "{}", refused.err);
    }
    ok(&server, &[&waiting[..], &["--ends-after", "10m"]].concat());
    let why = ok(&server, &["why", "a"]);
    assert!(why.contains("(until "), "{why}");
    let explained = json(&server, &["why", "a", "-o", "json"]);
    assert!(explained["winner"]["endTime"].is_string(), "{explained}");
    ok(&server, &[&waiting[..], &["--ends-after", "1s"]].concat());
    let log = until(&server, &["log", "a"], "waiting -> ended at its time");
    assert!(log.contains("a/0 job  waiting -> ended"), "{log}");
    assert_eq!(run(&server, &["wait", "a", "--timeout", "10s"]).code, Some(0));
    assert_eq!(run(&server, &["status", "--exit-status"]).code, Some(0));
}

#[test]
fn the_log_has_an_event_for_each_end_of_a_session() {
    let server = Server::ephemeral();
    ok(&server, &["report", "web/0", "--level", "blocked", "-m", "no db", "--action", "add it"]);
    ok(&server, &["configure", "web", "--policy", "openstack"]);
    ok(&server, &["leader", "claim", "web/0", "--lease", "5m"]);
    ok(&server, &["clear", "web/0"]);
    let fault = ["error", "web/0", "--component", "db", "--system", "http", "--code", "400"];
    ok(&server, &[&fault[..], &["--own-request"]].concat());
    ok(&server, &["resolve", "web/0", "--component", "db", "--retry", "--reason", "restored"]);
    ok(&server, &["leader", "release", "web/0"]);
    let log = ok(&server, &["log", "web"]);
    assert!(log.starts_with("Time       What "), "{log}");
    for words in [
        "web/0     blocked: no db",
        "web       configured: policy juju -> openstack",
        "web       leader: none -> web/0 (epoch 1)",
        "web/0     blocked -> cleared",
        "held -> to be retried: \"restored\"",
        "web       leader: web/0 -> none",
    ] {
        assert!(log.contains(words), "{words:?} is not in:\n{log}");
    }
    assert!(log.contains("  operator\n"), "{log}");
    assert!(!log.contains("gone"), "{log}");
}

#[test]
fn a_followed_log_prints_each_event_once() {
    let server = Server::ephemeral();
    ok(&server, &["report", "web/0", "--level", "active"]);
    let mut command = command(&server, &["log", "web", "--follow", "-o", "json"]);
    let mut following = Running(command.stdout(Stdio::piped()).spawn().unwrap());
    let mut lines = BufReader::new(following.0.stdout.take().unwrap()).lines();
    let mut next = || -> Value { serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap() };
    let mut levels = vec![next()["level"].clone(), next()["level"].clone()];
    ok(&server, &["report", "web/0", "--level", "error", "-m", "down"]);
    levels.extend([next()["level"].clone(), next()["level"].clone()]);
    ok(&server, &["report", "web/0", "--level", "blocked", "-m", "stuck"]);
    levels.push(next()["level"].clone());
    let expected = ["LEVEL_ACTIVE", "LEVEL_ACTIVE", "LEVEL_ERROR", "LEVEL_ERROR", "LEVEL_BLOCKED"];
    assert_eq!(levels, expected);
}

#[test]
fn a_log_followed_without_the_past_prints_new_events_only() {
    let server = Server::ephemeral();
    ok(&server, &["report", "web/0", "--level", "active", "-m", "before"]);
    let follow = ["log", "web", "--follow", "--limit", "0", "-o", "json"];
    let mut command = command(&server, &follow);
    let mut following = Running(command.stdout(Stdio::piped()).spawn().unwrap());
    let mut lines = BufReader::new(following.0.stdout.take().unwrap()).lines();
    let (send, printed) = mpsc::channel();
    std::thread::spawn(move || send.send(lines.next().unwrap().unwrap()));
    let start = Instant::now();
    let line = (0_usize..).find_map(|n| {
        // The command prints nothing when it starts to follow.
        let level = ["blocked", "active"][n % 2];
        ok(&server, &["report", "web/0", "--level", level, "-m", "after"]);
        assert!(start.elapsed() < DEADLINE, "no event is printed");
        printed.recv_timeout(Duration::from_millis(100)).ok()
    });
    let line = line.unwrap();
    assert!(line.contains("after"), "{line}");
}

#[test]
fn each_action_is_printed_under_its_own_status() {
    let server = Server::ephemeral();
    let cert = ["--component", "cert", "--level", "blocked", "-m", "the certificate has expired"];
    ok(&server, &[&["report", "w/0"], &cert[..]].concat());
    let db = ["--component", "db", "--level", "blocked", "-m", "no database"];
    ok(&server, &[&["report", "w/0", "--action", "juju integrate w pg"], &db[..]].concat());
    let status = ok(&server, &["status", "w"]);
    let lines: Vec<&str> = status.lines().collect();
    let action = lines.iter().position(|line| line.contains("juju integrate w pg")).unwrap();
    assert!(lines[action - 1].contains("db         no database"), "{status}");
    assert!(lines.iter().any(|l| l.starts_with("w/0   blocked") && l.contains("cert")), "{status}");
}

#[test]
fn the_action_of_an_error_is_shown_where_the_error_is() {
    let server = Server::ephemeral();
    let what = ["error", "v/0", "--component", "db", "--target", "pg", "--system", "http"];
    let said = ok(&server, &[&what[..], &["--code", "403", "--user-input", "-m", "no"]].concat());
    let action = said.lines().find_map(|line| line.strip_prefix("action   "));
    let action = action.unwrap_or_else(|| panic!("no action in:\n{said}"));
    let status = ok(&server, &["status", "v"]);
    assert!(status.contains(&format!("-> action: {action}\n")), "{status}");
    assert!(ok(&server, &["why", "v"]).contains(action));
    let given = [&what[..], &["--code", "403", "--user-input", "--action", "ask them"]].concat();
    assert!(ok(&server, &given).contains("\naction   ask them\n"));
}

#[test]
fn a_release_prints_its_effect() {
    let server = Server::ephemeral();
    for unit in ["web/0", "web/1"] {
        ok(&server, &["report", unit, "--level", "active"]);
    }
    let release = |unit: &str| {
        let said = run(&server, &["leader", "release", unit]);
        assert_eq!((said.code, &*said.out), (Some(0), ""), "{}", said.err);
        said.err
    };
    assert_eq!(release("web/0"), "no change: web/0 did not lead\n");
    ok(&server, &["leader", "claim", "web/0", "--lease", "5m"]);
    run(&server, &["leader", "claim", "web/1", "--lease", "5m"]);
    assert_eq!(release("web/1"), "no change: web/1 did not lead; web/0 does (epoch 1)\n");
    assert_eq!(release("web/0"), "web/0 no longer leads; web/1 does (epoch 2)\n");
    assert_eq!(release("web/1"), "web/1 no longer leads; nobody does\n");
}

#[test]
fn a_resolve_without_effect_names_what_is_open() {
    let server = Server::ephemeral();
    ok(&server, &["report", "web/0", "--level", "active"]);
    let nothing = run(&server, &["resolve", "web/0", "--component", "db"]);
    assert_eq!(nothing.code, Some(0));
    assert_eq!(nothing.err, "no change: web/0 has no open errors\n");
    let what = ["error", "web/0", "--component", "db", "--target", "pg", "--system", "http"];
    ok(&server, &[&what[..], &["--code", "503"]].concat());
    let other = run(&server, &["resolve", "web/0", "--component", "cache"]);
    assert_eq!(other.code, Some(3), "{}", other.err);
    assert!(other.err.contains("no such error; open are:"), "{}", other.err);
    assert!(other.err.contains("--component db --target pg  (TRANSIENT)"), "{}", other.err);
    let held = ["error", "web/0", "--component", "queue", "--system", "http", "--code", "400"];
    ok(&server, &[&held[..], &["--own-request"]].concat());
    let halted = run(&server, &["-n", "default", "resolve", "web/0", "--component", "queue"]);
    assert_eq!(halted.code, Some(1), "{}", halted.err);
    let hint = "`bellwether resolve web/0 --component queue --retry` tries again, --skip goes on";
    assert!(halted.err.contains(hint), "{}", halted.err);
    assert!(ok(&server, &["why", "web"]).contains(": FATAL; `bellwether resolve web/0"));
}

#[test]
fn errors_of_a_call_name_commands_of_the_same_namespace() {
    let server = Server::ephemeral();
    ok(&server, &["-n", "prod", "report", "web/0", "--level", "active"]);
    for (line, words) in [
        (&["-n", "prod", "why", "api"][..], "`bellwether -n prod status` lists those that exist"),
        (&["-n", "prod", "clear", "web/7"], "`bellwether -n prod status web` lists its units"),
        (&["-n", "prod", "ops", "show", "web", "up"], "`bellwether -n prod ops list web`"),
    ] {
        let said = run(&server, line);
        assert_eq!(said.code, Some(3), "{line:?}: {}", said.err);
        assert!(said.err.contains(words), "{words:?} is not in: {}", said.err);
        for call in ["ListUnits", "ListApplications", "ListOperations"] {
            assert!(!said.err.contains(call), "{}", said.err);
        }
    }
}

#[test]
fn nothing_from_outside_moves_the_terminal() {
    let server = Server::ephemeral();
    let evil = "\u{1b}[31mred\u{202e}der\u{9b}1m";
    let said = run(&server, &["report", "web/0", "--level", "blocked", "-m", evil]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    let unsafe_in = |text: &str| {
        text.chars()
            .find(|c| *c != '\n' && (c.is_control() || ('\u{202a}'..='\u{202e}').contains(c)))
    };
    assert_eq!(unsafe_in(&said.err), None, "{:?}", said.err);
    let unknown = run(&server, &["why", evil]);
    assert_eq!(unsafe_in(&unknown.err), None, "{:?}", unknown.err);
    // With colours, the output would contain the line as it was typed.
    let usage = run(&server, &["--color", "always", evil]);
    assert_eq!((usage.code, unsafe_in(&usage.err)), (Some(2), None), "{:?}", usage.err);
    for line in [
        &["status"][..],
        &["why", "web"],
        &["log", "web"],
        &["status", "-o", "yaml"],
        &["status", "-o", "json"],
        &["log", "web", "-o", "json"],
    ] {
        let out = ok(&server, line);
        assert_eq!(unsafe_in(&out), None, "{line:?}: {out:?}");
    }
    let all = json(&server, &["status", "-o", "json"]);
    let message = all["applications"][0]["status"]["message"].as_str().unwrap();
    assert!(message.contains('\u{202e}'), "JSON keeps the text: {message:?}");
    let document = format!("{{\"applications\": {{}}, \"{evil}\": 1, \"model\": {{\"name\": 5}}}}");
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), document).unwrap();
    let imported = run(&server, &["import", "juju", file.path().to_str().unwrap()]);
    assert_eq!(imported.code, Some(1));
    assert_eq!(unsafe_in(&imported.err), None, "{:?}", imported.err);
}

/// Returns a program that accepts connections and sends nothing.
fn silent_listener() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    (listener, url)
}

#[test]
fn a_silent_server_and_a_missing_server_have_different_errors() {
    let server = Server::ephemeral();
    let (_listener, url) = silent_listener();
    let line = ["--server", &url, "--request-timeout", "500ms", "status"];
    let said = run(&server, &line);
    assert_eq!(said.code, Some(5), "{}", said.err);
    let words = "accepted the connection but did not answer within 0.5 s";
    assert!(said.err.contains(words), "{}", said.err);
    let waited = run(&server, &["--server", &url, "wait", "web", "--timeout", "1s"]);
    assert_eq!(waited.code, Some(5), "{}", waited.err);
    assert!(waited.err.contains("server unreachable for 1s"), "{}", waited.err);
}

#[test]
fn a_frozen_server_is_reported_within_five_seconds() {
    let server = Server::ephemeral();
    ok(&server, &["report", "web/0", "--level", "waiting"]);
    server.signal("STOP");
    let start = Instant::now();
    let said = run(&server, &["status"]);
    let took = start.elapsed();
    let waited = run(&server, &["--request-timeout", "1s", "wait", "web", "--timeout", "2s"]);
    server.signal("CONT");
    assert_eq!(said.code, Some(5), "{}", said.err);
    assert!(said.err.contains("did not answer within 5 s"), "{}", said.err);
    assert!(took.as_secs() < 12, "{took:?}");
    assert_eq!(waited.code, Some(5), "{}", waited.err);
    assert!(waited.err.contains("did not answer within 1 s"), "{}", waited.err);
    assert!(ok(&server, &["status"]).contains("web"));
}

#[test]
fn a_watch_prints_the_former_level_without_the_configuration() {
    let server = Server::ephemeral();
    ok(&server, &["report", "web/0", "--level", "active"]);
    let mut command = command(&server, &["watch"]);
    let mut watching = Running(command.stdout(Stdio::piped()).spawn().unwrap());
    let mut lines = BufReader::new(watching.0.stdout.take().unwrap()).lines();
    let mut next = || -> Value { serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap() };
    let first = next();
    assert_eq!((first.get("level_changed_from"), first.get("config")), (None, None));
    ok(&server, &["report", "web/0", "--level", "error", "-m", "down"]);
    assert_eq!(next()["level_changed_from"], "LEVEL_ACTIVE");
}

#[test]
fn a_watch_prints_each_change_as_a_line() {
    let server = Server::ephemeral();
    ok(&server, &["report", "web/0", "--level", "active"]);
    let mut command = command(&server, &["watch", "-o", "table"]);
    let mut watching = Running(command.stdout(Stdio::piped()).spawn().unwrap());
    let mut lines = BufReader::new(watching.0.stdout.take().unwrap()).lines();
    let mut next = || lines.next().unwrap().unwrap();
    assert!(next().ends_with("Z  web  active"));
    // A change of the configuration is not an event of the status.
    ok(&server, &["configure", "web", "--default-ttl", "5m"]);
    ok(&server, &["report", "web/0", "--level", "error", "-m", "down"]);
    assert!(next().ends_with("Z  web  active -> error  web/0: down"));
}

#[test]
fn only_problems_and_the_worst_first() {
    let server = Server::ephemeral();
    for (unit, level) in [("a/0", "active"), ("b/0", "waiting"), ("c/0", "error")] {
        ok(&server, &["report", unit, "--level", level]);
    }
    let names = |line: &[&str]| {
        let all = json(&server, &[line, &["-o", "json"]].concat());
        let names = all["applications"].as_array().unwrap().iter();
        names.map(|a| a["name"].as_str().unwrap().to_string()).collect::<Vec<_>>()
    };
    assert_eq!(names(&["status", "--sort", "severity"]), ["c", "b", "a"]);
    assert_eq!(names(&["get", "--problems"]), ["b", "c"]);
    assert_eq!(names(&["ls", "--problems", "--sort", "severity"]), ["c", "b"]);
    for unit in ["b/0", "c/0"] {
        ok(&server, &["report", unit, "--level", "active"]);
    }
    let none = run(&server, &["status", "--problems", "--exit-status"]);
    assert_eq!((none.code, &*none.out), (Some(0), ""));
    assert_eq!(none.err, "no problems\n");
}

#[test]
fn known_problems_come_last_and_stay_among_the_problems() {
    let server = Server::ephemeral();
    for (unit, level) in [("a/0", "error"), ("b/0", "waiting"), ("c/0", "blocked")] {
        ok(&server, &["report", unit, "--level", level]);
    }
    ok(&server, &["ack", "a", "--during", "1h", "-m", "ticket 123"]);
    ok(&server, &["plan", "c", "--during", "1h", "-m", "new disks"]);
    for line in [&["status", "--problems"][..], &["ls", "--problems", "--sort", "severity"]] {
        let all = json(&server, &[line, &["-o", "json"]].concat());
        let names = all["applications"].as_array().unwrap().iter();
        let names: Vec<&str> = names.map(|a| a["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["b", "a", "c"], "{line:?}");
    }
}

#[test]
fn a_wrong_namespace_is_an_error_with_the_namespaces_that_have_applications() {
    let server = Server::ephemeral();
    let none = run(&server, &["-n", "prdo", "status"]);
    assert!(none.err.contains("report the first: bellwether -n prdo report"), "{}", none.err);
    ok(&server, &["-n", "prod", "report", "web/0", "--level", "active"]);
    let said = run(&server, &["-n", "prdo", "status"]);
    let expected = "there are no applications in namespace prdo, but in prod: \
                    `bellwether status -A` shows all\n";
    assert_eq!((said.code, said.err.as_str()), (Some(0), expected));
}
