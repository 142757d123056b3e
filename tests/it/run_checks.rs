//! `run` with monitoring plugins: a real server, the real binary, plugins of Debian and scripts.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;

use bellwether::proto::v1;
use serde_json::Value;
use tempfile::TempDir;

use crate::cli::{self, Said, json, ok};
use crate::interop::have;
use crate::runner::{Runner, holds};
use crate::server::Server;

/// Where Debian has the plugins.
const PLUGINS: &str = "/usr/lib/nagios/plugins";

/// Runs a shell script as a plugin, once.
fn once(server: &Server, component: &str, script: &str) -> Said {
    let line = ["run", "web/0", "--component", component, "--timeout", "1s", "--"];
    cli::run(server, &[&line[..], &["sh", "-c", script]].concat())
}

/// Returns what a command prints, or nothing if the application does not exist yet.
fn shown(server: &Server, line: &[&str]) -> Value {
    serde_json::from_str(&cli::run(server, line).out).unwrap_or_default()
}

/// Returns the status of a component.
fn status(server: &Server, component: &str) -> Option<Value> {
    let why = shown(server, &["why", "web", "-o", "json"]);
    let of = |value: &Value| value["ref"]["component"] == component && value["ref"]["target"] == "";
    let is_status = |value: &&Value| of(value) && value["ref"]["kind"] != "STATUS_KIND_UNSPECIFIED";
    let all = std::iter::once(&why["winner"]).chain(why["beaten"].as_array()?);
    let found: Vec<&Value> = all.filter(is_status).collect();
    found.first().map(|value| (*value).clone())
}

/// Returns the open error of a component.
fn fault(server: &Server, component: &str) -> Option<Value> {
    let faults = json(server, &["faults", "web", "-o", "json"]);
    let found = faults["faults"].as_array()?.iter().find(|f| f["component"] == component);
    found.cloned()
}

fn start(server: &Server, line: &[&str]) -> Runner {
    let mut command = cli::command(server, line);
    Runner(command.stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
}

fn script(dir: &Path, name: &str, text: &str) -> String {
    let path = dir.join(name);
    std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    path.to_str().unwrap().to_string()
}

#[test]
fn one_run_reports_what_the_plugin_found_and_exits_with_0() {
    let server = Server::ephemeral();
    for (code, level, message) in [
        (0, "LEVEL_ACTIVE", "all well"),
        (1, "LEVEL_WAITING", "all well; a=5 passes 3"),
        (2, "LEVEL_ERROR", "all well; a=5 passes 4"),
    ] {
        let said = once(&server, "load", &format!("echo 'LOAD X - no'; exit {code}"));
        assert_eq!(said.code, Some(0), "{}", said.err);
        let text = format!("echo 'LOAD OK - all well|a=5;3;4 b=1'; exit {code}");
        let said = once(&server, "load", &text);
        assert!(said.err.contains(message), "{}", said.err);
        let found = status(&server, "load").unwrap();
        assert_eq!((&found["level"], &found["message"]), (&level.into(), &message.into()));
    }
    // The command line may have secrets.
    let why = ok(&server, &["why", "web", "-o", "json"]);
    assert!(!why.contains("all well|a=5"), "{why}");
    let line = ["run", "web/0", "--show-command", "--", "sh", "-c", "echo OK: secret; exit 1"];
    ok(&server, &line);
    assert!(ok(&server, &["why", "web", "-o", "json"]).contains("sh -c 'echo OK: secret"));
}

#[test]
fn a_plugin_without_a_result_is_an_error_and_the_status_before_it_stays() {
    let server = Server::ephemeral();
    for (script, code) in [
        ("echo 'X UNKNOWN - no route'; exit 3", "UNKNOWN"),
        ("exit 4", "RESERVED_4"),
        ("kill -9 $$", "SIGNAL_9"),
        ("trap '' TERM; while :; do :; done", "TIMEOUT"),
        ("exit 126", "NOT_EXECUTABLE"),
        ("exit 127", "NOT_FOUND"),
    ] {
        // An error that comes back soon would count as the same.
        let component = code.to_lowercase();
        assert_eq!(once(&server, &component, "echo fine").code, Some(0));
        let said = once(&server, &component, script);
        assert_eq!(said.code, Some(0), "{}", said.err);
        assert!(said.err.contains(code), "{}", said.err);
        let found = fault(&server, &component).unwrap_or_else(|| panic!("no error for {script}"));
        let fault = &found["last"];
        assert_eq!((&fault["system"], &fault["code"]), (&"plugin".into(), &code.into()), "{found}");
        assert_eq!(status(&server, &component).unwrap()["message"], "fine");
        // A result ends the error.
        assert_eq!(once(&server, &component, "echo fine").code, Some(0));
        assert_eq!(fault_count(&server), 0, "{script}");
    }
    let said = cli::run(&server, &["run", "web/0", "--", "/nowhere/check_disk"]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    let why = ok(&server, &["why", "web"]);
    assert!(why.contains("install the plugin"), "{why}");
    assert!(ok(&server, &["status", "web"]).contains("blocked"), "{why}");
}

fn fault_count(server: &Server) -> usize {
    json(server, &["faults", "web", "-o", "json"])["faults"].as_array().map_or(0, Vec::len)
}

#[test]
fn a_definition_that_is_wrong_is_refused_before_anything_runs() {
    let server = Server::ephemeral();
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("checks.toml");
    std::fs::write(&file, "[[check]]\nunit = \"web/0\"\nevry = \"1s\"\n").unwrap();
    let file = file.to_str().unwrap();
    for (line, expected) in [
        (&["run", "web/0"][..], "nothing to run"),
        (&["run", "--file", file], "line 3"),
        (&["run", "--file", "/nowhere"], "cannot read /nowhere"),
        (&["run", "web", "--", "true"], "`web` names no unit"),
        (&["run", "web/0", "--every", "11d", "--", "true"], "interval"),
        (&["run", "web/0", "--warning-as", "error", "--", "true"], "warning"),
        (&["run", "web/0", "--parallel", "0", "--", "true"], "parallel"),
        (&["run", "web/0", "--file", file], "cannot be used with"),
    ] {
        let said = cli::run(&server, line);
        assert_eq!(said.code, Some(2), "{line:?}: {}", said.err);
        assert!(said.err.contains(expected), "{expected:?} is not in: {}", said.err);
    }
}

/// Several checks of two units: each runs again and again, one run of a check at a time; SIGTERM
/// ends the sessions.
#[test]
fn checks_of_a_file_repeat_over_a_session_of_their_unit() {
    let server = Server::ephemeral();
    let dir = TempDir::new().unwrap();
    let counts = script(
        dir.path(),
        "check_counts",
        "cd \"$(dirname \"$0\")\"; mkdir busy || echo twice >> log; echo run >> log\n\
         echo \"COUNTS OK - $(grep -c run log) runs\"; rmdir busy; exit $(cat code)",
    );
    std::fs::write(dir.path().join("code"), "0").unwrap();
    let checks = format!(
        "[[check]]\nunit = \"web/0\"\ncommand = [{counts:?}]\nevery = \"1s\"\n\
         [[check]]\nunit = \"web/0\"\ncommand = [\"true\"]\nevery = \"1s\"\n\
         [[check]]\nunit = \"db/0\"\ncommand = [\"false\"]\nevery = \"1s\"\n"
    );
    let file = dir.path().join("checks.toml");
    std::fs::write(&file, checks).unwrap();
    let runner = start(&server, &["run", "--file", file.to_str().unwrap()]);
    let log = || std::fs::read_to_string(dir.path().join("log")).unwrap_or_default();
    holds("the third run", || 3 <= log().matches("run").count());
    assert!(!log().contains("twice"), "{}", log());
    let message = || status(&server, "counts").map(|found| found["message"].to_string());
    holds("its message", || message().is_some_and(|text| text.contains(" runs")));
    holds("the other unit", || ok(&server, &["status", "db"]).contains("waiting"));
    std::fs::write(dir.path().join("code"), "2").unwrap();
    holds("the change", || ok(&server, &["status", "web"]).contains("error"));
    assert!(unit(&server)["connected"] == true, "{}", unit(&server));
    // A unit that is gone is not checked, nor brought back.
    ok(&server, &["remove", "db/0"]);
    runner.signal("TERM");
    assert_eq!(runner.end(), Some(0));
    holds("the goodbye", || unit(&server)["connected"] != true);
    assert!(!ok(&server, &["status", "-o", "name"]).contains("db/0"));
}

fn unit(server: &Server) -> Value {
    let units = shown(server, &["status", "web", "-o", "json"]);
    let units = units["applications"][0]["units"].as_array().cloned().unwrap_or_default();
    units.into_iter().find(|unit| unit["name"] == "web/0").unwrap_or_default()
}

#[test]
fn a_runner_that_dies_leaves_no_plugin_and_shows() {
    let server = Server::ephemeral();
    let dir = TempDir::new().unwrap();
    let slow = script(dir.path(), "check_slow", "cd \"$(dirname \"$0\")\"; echo $$ > pid; echo OK");
    let runner = start(&server, &["run", "web/0", "--every", "1s", "--", &slow]);
    holds("a session", || unit(&server)["connected"] == true);
    holds("a status", || status(&server, "slow").is_some_and(|s| s["level"] == "LEVEL_ACTIVE"));
    runner.signal("KILL");
    holds("the end of its session", || unit(&server)["connected"] != true);
    holds("a stale status", || unit(&server)["freshness"] != "FRESHNESS_FRESH");
}

/// The server asks for a new result, and the check runs before its time.
#[tokio::test(flavor = "multi_thread")]
async fn a_question_of_the_server_runs_the_check() {
    let server = Server::ephemeral();
    let dir = TempDir::new().unwrap();
    let counts = script(
        dir.path(),
        "check_n",
        "cd \"$(dirname \"$0\")\"; echo run >> log; echo \"N OK - $(grep -c run log)\"",
    );
    let _runner = start(&server, &["run", "web/0", "--every", "1h", "--", &counts]);
    let is = |text: &str| status(&server, "n").is_some_and(|found| found["message"] == text);
    holds("the first run", || is("1"));
    holds("a session", || unit(&server)["connected"] == true);
    let question = v1::CollectApplicationRequest {
        application: "web".into(),
        recompute: true,
        deadline: Some(prost_types::Duration { seconds: 20, nanos: 0 }),
        ..Default::default()
    };
    let mut applications = server.applications().await;
    let answer = applications.collect_application(question).await.unwrap().into_inner();
    assert_eq!((answer.asked_count, answer.answered_count), (1, 1));
    assert!(is("2"), "the answer is newer than the question");
}

/// The table of verdicts with the plugins of Debian.
#[test]
fn plugins_of_debian_give_their_verdicts() {
    if !have(&format!("{PLUGINS}/check_dummy")) {
        return;
    }
    let server = Server::ephemeral();
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = closed.local_addr().unwrap().port().to_string();
    drop(closed);
    let open = server.grpc.port().to_string();
    for (line, level) in [
        ("check_dummy 0", "LEVEL_ACTIVE"),
        ("check_dummy 1 words", "LEVEL_WAITING"),
        ("check_dummy 2", "LEVEL_ERROR"),
        ("check_load -w 999,999,999 -c 999,999,999", "LEVEL_ACTIVE"),
        ("check_disk -w 0 -c 0 -p /", "LEVEL_ACTIVE"),
        ("check_disk -w 100% -c 0 -p /", "LEVEL_WAITING"),
        ("check_disk -w 100% -c 100% -p /", "LEVEL_ERROR"),
        ("check_procs -c 1:", "LEVEL_ACTIVE"),
        ("check_procs -c 100000:", "LEVEL_ERROR"),
        (&format!("check_tcp -H 127.0.0.1 -p {open}"), "LEVEL_ACTIVE"),
        (&format!("check_tcp -H 127.0.0.1 -p {port}"), "LEVEL_ERROR"),
    ] {
        let line = format!("{PLUGINS}/{line}");
        let words: Vec<&str> = line.split(' ').collect();
        ok(&server, &[&["run", "web/0", "--component", "c", "--"], &words[..]].concat());
        let found = status(&server, "c").unwrap();
        assert_eq!(found["level"], level, "{line}: {found}");
        let message = found["message"].as_str().unwrap();
        assert!(!message.contains('|') && !message.starts_with("DISK"), "{message}");
    }
    ok(
        &server,
        &["run", "web/0", "--component", "c", "--", &format!("{PLUGINS}/check_dummy"), "3"],
    );
    assert_eq!(fault(&server, "c").unwrap()["last"]["code"], "UNKNOWN");
}

/// A plugin that is `bellwether check` itself: what Icinga would read, read again.
#[test]
fn a_check_of_an_application_is_a_plugin_too() {
    let server = Server::ephemeral();
    ok(&server, &["report", "db/0", "--level", "active"]);
    for (level, expected) in
        [("active", "LEVEL_ACTIVE"), ("maintenance", "LEVEL_WAITING"), ("blocked", "LEVEL_ERROR")]
    {
        ok(&server, &["report", "db/0", "--level", level, "-m", "words", "--action", "act"]);
        let check = [crate::server::BINARY, "check", "db", "--nagios"];
        ok(&server, &[&["run", "web/0", "--component", "db", "--"], &check[..]].concat());
        assert_eq!(status(&server, "db").unwrap()["level"], expected, "{level}");
    }
    let check = [crate::server::BINARY, "check", "nothing", "--nagios"];
    ok(&server, &[&["run", "web/0", "--component", "db", "--"], &check[..]].concat());
    assert_eq!(fault(&server, "db").unwrap()["last"]["code"], "UNKNOWN");
}
