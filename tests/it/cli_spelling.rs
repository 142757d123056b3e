//! Levels in every spelling, lists as lines and names, commands in groups, and the events of `why`,
//! each by the real program.

use std::process::Command;

use crate::cli::{json, ok, run};
use crate::server::{BINARY, Server};

#[test]
fn a_level_has_every_spelling_in_flags_files_and_json() {
    let server = Server::ephemeral();
    for (n, level) in ["blocked", "BLOCKED", "Blocked", "LEVEL_BLOCKED"].into_iter().enumerate() {
        let unit = format!("a/{n}");
        ok(&server, &["report", &unit, "--level", level, "--action", "act"]);
        let set = format!(r#"[{{"component": "file", "level": "{level}", "action": "act"}}]"#);
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), set).unwrap();
        ok(&server, &["replace", &unit, "-f", file.path().to_str().unwrap()]);
    }
    let units = json(&server, &["status", "-o", "json"]);
    let units = units["applications"][0]["units"].as_array().unwrap().clone();
    assert_eq!(units.len(), 4);
    assert!(units.iter().all(|unit| unit["level"] == "LEVEL_BLOCKED"), "{units:?}");
    let refused = run(&server, &["report", "a/0", "--level", "fine"]);
    assert_eq!(refused.code, Some(2));
    for level in ["error", "blocked", "maintenance", "waiting", "active", "terminated", "unknown"] {
        assert!(refused.err.contains(level), "{}", refused.err);
    }
}

#[test]
fn the_json_door_reads_a_level_in_every_spelling() {
    let server = Server::ephemeral();
    let post = |method: &str, body: &str| {
        let url = format!("{}/bellwether.v1.{method}", server.url());
        let sent = ["-s", &url, "-H", "content-type: application/json", "-d", body];
        let output = Command::new("curl").args(sent).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    for level in ["waiting", "WAITING", "Waiting", "LEVEL_WAITING"] {
        let report =
            format!(r#"{{"application": "a", "unit": "a/0", "status": {{"level": "{level}"}}}}"#);
        let answer = post("ReportService/ReportStatus", &report);
        assert!(answer.contains("revision"), "{level}: {answer}");
        let list = format!(r#"{{"levels": ["{level}"]}}"#);
        let answer = post("ApplicationService/ListApplications", &list);
        assert!(answer.contains(r#""level":"LEVEL_WAITING""#), "{level}: {answer}");
    }
    let wrong = r#"{"application": "a", "unit": "a/0", "status": {"level": "fine"}}"#;
    let answer = post("ReportService/ReportStatus", wrong);
    let words = r#"\"fine\" is no level; write one of LEVEL_ERROR, LEVEL_BLOCKED"#;
    assert!(answer.contains("invalid_argument") && answer.contains(words), "{answer}");
    let wrong = r#"{"application": "a", "unit": "a/0", "status": {"levl": "active"}}"#;
    assert!(post("ReportService/ReportStatus", wrong).contains("levl"));
}

#[test]
fn lists_are_lines_and_names() {
    let server = Server::ephemeral();
    for unit in ["web/0", "web/1", "db/0"] {
        ok(&server, &["report", unit, "--level", "active"]);
    }
    assert_eq!(ok(&server, &["status", "-o", "name"]), "db\nweb\n");
    let lines = ok(&server, &["status", "-o", "jsonl"]);
    let lines: Vec<serde_json::Value> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 2);
    assert_eq!((&lines[0]["name"], &lines[1]["name"]), (&"db".into(), &"web".into()));
    assert_eq!(ok(&server, &["namespaces", "-o", "name"]), "default\n");
    assert_eq!(ok(&server, &["log", "web", "-o", "jsonl"]).lines().count(), 3);
    let refused = run(&server, &["log", "web", "-o", "name"]);
    assert_eq!(refused.code, Some(2), "{}", refused.err);
    assert!(refused.err.contains("has no names; use -o jsonl"), "{}", refused.err);
}

#[test]
fn the_help_lists_commands_in_groups() {
    let output = Command::new(BINARY).arg("--help").output().unwrap();
    let help = String::from_utf8(output.stdout).unwrap();
    let places = [
        "Report:",
        "  report ",
        "Read:",
        "  why ",
        "Operate:",
        "  delete ",
        "Serve:",
        "  backup ",
        "Global options:",
        "--server",
        "Examples:",
    ];
    let found: Vec<usize> = places
        .iter()
        .map(|part| help.find(part).unwrap_or_else(|| panic!("no {part} in {help}")))
        .collect();
    assert!(found.is_sorted(), "{help}");
    assert!(!help.contains('\u{1b}'), "no colours in a file");
}

#[test]
fn why_prints_the_last_three_events() {
    let server = Server::ephemeral();
    for level in ["active", "waiting", "active"] {
        ok(&server, &["report", "web/0", "--level", level, "-m", level]);
    }
    ok(&server, &["report", "web/1", "--level", "error", "-m", "broken"]);
    let why = ok(&server, &["why", "web"]);
    let lately = why.split_once("  lately   ").unwrap_or_else(|| panic!("{why}")).1;
    // Two changes of a unit and of its application, of which the oldest is not shown.
    let words =
        ["web    waiting -> active: active", "web/1  error: broken", "active -> error: broken"];
    assert_eq!(lately.lines().count(), 3, "{why}");
    for (line, words) in lately.lines().zip(words) {
        assert!(line.contains(words), "{words:?} in {why}");
    }
    // The events are not part of the answer that JSON shows.
    let why = json(&server, &["why", "web", "-o", "json"]);
    assert!(why["winner"].is_object() && why.get("events").is_none(), "{why}");
    // A name without events has none, and is refused as before.
    assert_eq!(run(&server, &["why", "gone"]).code, Some(3));
}
