//! The command line against the real server: its output and its exit codes.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json as literal};

use crate::server::{BINARY, Server};

pub struct Said {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

pub fn command(server: &Server, line: &[&str]) -> Command {
    let mut command = Command::new(BINARY);
    command
        .args(line)
        .env("BELLWETHER_SERVER", server.url())
        .env_remove("BELLWETHER_NAMESPACE")
        .env_remove("JUJU_UNIT_NAME")
        .env_remove("JUJU_MODEL_NAME");
    command
}

pub fn run(server: &Server, line: &[&str]) -> Said {
    let output = command(server, line).output().unwrap();
    Said {
        code: output.status.code(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Runs a command that must succeed and returns its output.
pub fn ok(server: &Server, line: &[&str]) -> String {
    let said = run(server, line);
    assert_eq!(said.code, Some(0), "{line:?}: {}{}", said.out, said.err);
    said.out
}

pub fn json(server: &Server, line: &[&str]) -> Value {
    serde_json::from_str(&ok(server, line)).unwrap()
}

fn fixture(name: &str) -> String {
    format!("{}/tests/data/juju-status/{name}.json", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn the_first_five_minutes() {
    let server = Server::ephemeral();
    let action = "juju integrate web postgresql";
    let report = ["report", "web/0", "--level", "blocked", "-m", "add a database relation"];
    let said = run(&server, &[&report[..], &["--action", action]].concat());
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(said.err.contains("bellwether why web"), "{}", said.err);
    ok(&server, &["report", "web/1", "--level", "active"]);
    let status = ok(&server, &["status"]);
    let lines: Vec<&str> = status.lines().collect();
    assert!(lines[0].starts_with("Namespace  Server"), "{status}");
    assert_eq!(lines[3], "App  Status   Heard  Since  Message");
    assert!(lines[4].starts_with("web  blocked    2/2"), "{status}");
    assert!(lines[4].ends_with("web/0: add a database relation"), "{status}");
    assert!(status.contains("-> action: juju integrate web postgresql"), "{status}");
    assert!(!status.contains('\u{1b}'), "no colour into a pipe");
    let why = ok(&server, &["why", "web"]);
    assert!(why.starts_with("web is blocked since "), "{why}");
    for expected in [
        "chosen   web/0 -  blocked  add a database relation",
        "rule: highest level under policy juju: blocked over active",
        "beaten   web/1 -  active",
        "action   juju integrate web postgresql",
    ] {
        assert!(why.contains(expected), "{expected:?} is not in:\n{why}");
    }
    let log = ok(&server, &["log", "web"]);
    assert_eq!(log.lines().count(), 4, "{log}");
    let cleared = run(&server, &["clear", "web/0"]);
    assert_eq!(cleared.code, Some(0));
    assert!(ok(&server, &["status"]).contains("web  active"));
}

#[test]
fn advice_comes_with_a_report_that_could_be_better() {
    let server = Server::ephemeral();
    let said = run(&server, &["report", "web/0", "--level", "blocked", "-m", "stuck"]);
    assert_eq!(said.code, Some(0));
    assert!(said.err.contains("say what they must do"), "{}", said.err);
    assert_eq!(said.out, "");
}

#[test]
fn each_outcome_has_its_exit_code() {
    let server = Server::ephemeral();
    ok(&server, &["report", "web/0", "--level", "waiting", "-m", "for db"]);
    let cases: [(&[&str], i32); 9] = [
        (&["status", "--exit-status"], 10),
        (&["why", "nobody"], 3),
        (&["report", "web/0"], 2),
        (&["report", "a b/0", "--level", "active"], 2),
        (&["clear", "web/7"], 3),
        (&["wait", "web", "--for=active", "--timeout", "200ms"], 124),
        (&["wait", "web", "--for=active", "--fail-on", "waiting", "--timeout", "10s"], 6),
        (&["wait", "web", "--for=waiting", "--timeout", "10s"], 0),
        (&["--server", "http://127.0.0.1:1", "status"], 5),
    ];
    for (line, expected) in cases {
        let said = run(&server, line);
        assert_eq!(said.code, Some(expected), "{line:?}: {}{}", said.out, said.err);
        assert!(!said.err.contains("panicked"), "{}", said.err);
    }
    for (level, expected) in [("blocked", 11), ("error", 12), ("unknown", 13), ("active", 0)] {
        ok(&server, &["report", "web/0", "--level", level, "-m", "m"]);
        assert_eq!(run(&server, &["status", "--exit-status"]).code, Some(expected), "{level}");
    }
}

/// A child process that is killed when dropped.
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn wait_ends_when_the_level_comes() {
    let server = Server::ephemeral();
    ok(&server, &["report", "web/0", "--level", "maintenance", "-m", "installing"]);
    let line = ["wait", "web", "--for=active", "--timeout", "30s"];
    let mut waiting = Running(command(&server, &line).stderr(Stdio::piped()).spawn().unwrap());
    let mut progress = BufReader::new(waiting.0.stderr.take().unwrap());
    let mut first = String::new();
    progress.read_line(&mut first).unwrap();
    assert!(first.contains("maintenance"), "{first}");
    ok(&server, &["report", "web/0", "--level", "active"]);
    assert_eq!(waiting.0.wait().unwrap().code(), Some(0));
}

#[test]
fn the_overview_of_all_namespaces_follows_one_name() {
    let server = Server::ephemeral();
    ok(&server, &["-n", "prod", "report", "web/0", "--level", "blocked"]);
    ok(&server, &["-n", "prod", "report", "db/0", "--level", "active"]);
    let mut command = command(&server, &["status", "web", "-A", "--watch", "-o", "json"]);
    let mut watching = Running(command.stdout(Stdio::piped()).spawn().unwrap());
    let out = BufReader::new(watching.0.stdout.take().unwrap());
    let mut documents = serde_json::Deserializer::from_reader(out).into_iter::<Value>();
    let view = documents.next().expect("a view").unwrap();
    let names: Vec<_> = view["applications"].as_array().unwrap().iter().collect();
    assert_eq!(names.len(), 1, "{view}");
    assert_eq!((&names[0]["namespace"], &names[0]["name"]), (&literal!("prod"), &literal!("web")));
}

#[test]
fn watch_prints_a_json_line_for_each_change() {
    let server = Server::ephemeral();
    ok(&server, &["report", "web/0", "--level", "active"]);
    let mut command = command(&server, &["watch"]);
    let mut watching = Running(command.stdout(Stdio::piped()).spawn().unwrap());
    let mut lines = BufReader::new(watching.0.stdout.take().unwrap()).lines();
    let mut next = || -> Value { serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap() };
    assert_eq!(next()["status"]["level"], "LEVEL_ACTIVE");
    ok(&server, &["report", "web/0", "--level", "error", "-m", "down"]);
    let change = next();
    assert_eq!(change["status"]["level"], "LEVEL_ERROR");
    assert_eq!(change["revision"], "2");
    ok(&server, &["delete", "web"]);
    assert_eq!(next()["event"], "removed");
}

#[test]
fn a_real_juju_model_reads_well() {
    let server = Server::ephemeral();
    let said = run(&server, &["import", "juju", &fixture("subordinates")]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(said.err.contains("3 applications, 4 units into namespace t "), "{}", said.err);
    let status = ok(&server, &["-n", "t", "status"]);
    let nrpe = status.lines().find(|line| line.starts_with("nrpe ")).unwrap();
    assert!(nrpe.contains("blocked    2/2"), "{nrpe}");
    assert!(nrpe.contains("Nagios server not configured or related"), "{nrpe}");
    let why = ok(&server, &["-n", "t", "why", "nrpe"]);
    assert!(why.starts_with("nrpe is blocked since 2025-06-08 23:17:02Z"), "{why}");
    assert!(why.contains("the application itself before its units"), "{why}");
    assert!(why.contains("nrpe/1*"), "{why}");
    let application =
        &json(&server, &["-n", "t", "status", "nrpe", "-o", "json"])["applications"][0];
    assert_eq!(application["leader"], "nrpe/1");
    assert_eq!(application["unitCount"], 2);
}

#[test]
fn importing_again_changes_only_what_changed() {
    let server = Server::ephemeral();
    let revision = || {
        let all = json(&server, &["-n", "tt", "status", "-o", "json"]);
        let apps = all["applications"].as_array().unwrap().clone();
        apps.iter().map(|a| (a["name"].clone(), a["revision"].clone())).collect::<Vec<_>>()
    };
    ok(&server, &["import", "juju", &fixture("database-webapp")]);
    let first = revision();
    assert_eq!(first.len(), 2);
    let again = run(&server, &["import", "juju", &fixture("database-webapp")]);
    assert!(again.err.contains("nothing changed"), "{}", again.err);
    assert_eq!(revision(), first);
    // The status of one unit changes; the other application keeps its revision.
    let text = std::fs::read_to_string(fixture("database-webapp")).unwrap();
    let mut document: Value = serde_json::from_str(&text).unwrap();
    let unit = &mut document["applications"]["webapp"]["units"]["webapp/0"];
    unit["workload-status"]["current"] = "error".into();
    import_text(&server, &document.to_string());
    let second = revision();
    assert_eq!(second[0], first[0]);
    assert_ne!(second[1], first[1]);
    // An application that the document no longer contains is deleted.
    document["applications"].as_object_mut().unwrap().shift_remove("webapp");
    import_text(&server, &document.to_string());
    assert_eq!(revision().len(), 1);
}

fn import_text(server: &Server, text: &str) -> Said {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    run(server, &["import", "juju", file.path().to_str().unwrap()])
}

#[test]
fn importing_again_and_again_follows_the_model() {
    let server = Server::ephemeral();
    let text = std::fs::read_to_string(fixture("snappass")).unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), &text).unwrap();
    let path = file.path().to_str().unwrap();
    let line = ["import", "juju", "--every", "1s", "--", "cat", path];
    let _following = Running(command(&server, &line).stderr(Stdio::null()).spawn().unwrap());
    let until = |level: &str| {
        let line = ["-n", "tt", "wait", "snappass-test", "--timeout", "30s", "--for"];
        ok(&server, &[&line[..], &[level]].concat());
    };
    until("active");
    // A truncated document is refused, and the last valid one stays in use.
    std::fs::write(file.path(), &text[..text.len() / 2]).unwrap();
    std::fs::write(file.path(), text.replace("\"active\"", "\"blocked\"")).unwrap();
    until("blocked");
}

#[test]
fn an_application_unreadable_by_juju_is_shown_and_loses_nothing() {
    let server = Server::ephemeral();
    let said = run(&server, &["import", "juju", &fixture("status-errors")]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    for part in ["model", "machine machine-failed", "offer offer-failed"] {
        let note =
            format!("juju could not read {}{part}", if part == "model" { "the " } else { "" });
        assert!(said.err.contains(&note), "{note:?} is not in:\n{}", said.err);
    }
    let status = ok(&server, &["-n", "tt", "status"]);
    for expected in ["app status error!", "remote app status error!", "unit status error!"] {
        assert!(status.contains(expected), "{expected:?} is not in:\n{status}");
    }
}

#[test]
fn malformed_documents_name_the_field_and_import_nothing() {
    let server = Server::ephemeral();
    let text = std::fs::read_to_string(fixture("subordinates")).unwrap();
    let mut document: Value = serde_json::from_str(&text).unwrap();
    let unit = &mut document["applications"]["ubuntu"]["units"]["ubuntu/1"];
    unit["subordinates"]["nrpe/1"]["workload-status"]["current"] = 5.into();
    let half = text[..text.len() / 2].to_string();
    for (text, expected) in [
        (document.to_string(), ["nrpe/1", "current"]),
        (half, ["line", "column"]),
        ("[]".to_string(), ["object", ""]),
    ] {
        let said = import_text(&server, &text);
        assert_eq!(said.code, Some(1), "{}", said.err);
        for word in expected {
            assert!(said.err.contains(word), "{word:?} is not in: {}", said.err);
        }
        let all = json(&server, &["status", "-A", "-o", "json"]);
        assert_eq!(all["applications"].as_array().map(Vec::len), Some(0), "{all}");
    }
}

#[test]
fn completion_and_help_need_no_server() {
    let server = Server::ephemeral();
    for shell in ["bash", "zsh", "fish"] {
        assert!(ok(&server, &["completion", shell]).contains("bellwether"));
    }
    let help = ok(&server, &["--help"]);
    assert!(help.contains("Exit codes"), "{help}");
}
