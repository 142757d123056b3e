//! `--dry-run`: a command that would remove or take something says what, and changes nothing.

use crate::cli::{ok, run};
use crate::server::Server;

/// Runs a line with `--dry-run`.
fn check(server: &Server, line: &[&str], code: i32, said: &str) {
    let result = run(server, &[line, &["--dry-run"]].concat());
    assert_eq!(result.code, Some(code), "{line:?}: {}", result.err);
    assert!(result.err.contains(said), "{said:?} is not in: {}", result.err);
    assert_eq!(result.out, "", "{line:?}");
    assert_eq!(result.err.contains("; nothing was changed\n"), code == 0, "{}", result.err);
}

/// What a person can see of an application.
fn seen(server: &Server) -> String {
    let lines: [&[&str]; 5] = [
        &["status", "-o", "json"],
        &["log", "web", "-o", "json"],
        &["leader", "get", "web", "-o", "json"],
        // As text: the order of the keys of JSON is not defined.
        &["data", "get", "web"],
        &["ops", "list", "web", "-o", "json"],
    ];
    lines.iter().map(|line| ok(server, line)).collect()
}

#[test]
fn statuses_units_applications_and_marks() {
    let server = Server::ephemeral();
    ok(&server, &["report", "web/0", "--level", "active", "--component", "http"]);
    ok(&server, &["report", "web/0", "--level", "waiting", "--component", "db"]);
    ok(&server, &["ack", "web", "--during", "1h", "-m", "known", "--id", "m"]);
    let before = seen(&server);
    for (line, said) in [
        (&["clear", "web/0", "--component", "db"][..], "would clear 1 status of web/0"),
        (&["clear", "web/0"], "would clear 2 statuses of web/0"),
        (&["remove", "web/0"], "would remove web/0 with 2 statuses"),
        (&["delete", "web"], "would delete web with 1 unit and 2 statuses"),
        (&["unmark", "web", "m"], "would remove mark m of web"),
    ] {
        check(&server, line, 0, said);
    }
    for line in [&["remove", "web/7"][..], &["unmark", "web", "n"], &["delete", "gone"]] {
        check(&server, line, 3, "");
    }
    assert_eq!(seen(&server), before);
}

/// Writes a set of statuses; the file is removed at the end.
fn set(text: &str) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    file
}

#[test]
fn a_set_says_what_it_would_remove() {
    let server = Server::ephemeral();
    let old = set(
        r#"[{"component": "http", "level": "active"}, {"component": "db", "level": "active"}]"#,
    );
    let old = old.path().to_str().unwrap();
    ok(&server, &["replace", "web/0", "-f", old]);
    ok(&server, &["report", "web/0", "--level", "active", "--component", "pushed"]);
    ok(&server, &["leader", "claim", "web/0", "--lease", "5m"]);
    ok(&server, &["app-status", "replace", "web/0", "-f", old]);
    ok(&server, &["app-status", "set", "web/0", "--level", "waiting"]);
    let before = seen(&server);
    let new = set(r#"[{"component": "http", "level": "blocked"}, {"level": "active"}]"#);
    let new = new.path().to_str().unwrap();
    let said = "would give web/0 2 statuses and remove 1 status";
    check(&server, &["replace", "web/0", "-f", new], 0, said);
    check(&server, &["replace", "web/1", "-f", new], 0, "would give web/1 2 statuses and remove 0");
    let said = "would give web 2 statuses and remove 1 status";
    check(&server, &["app-status", "replace", "web/0", "-f", new], 0, said);
    let said = "would clear the status waiting of web";
    check(&server, &["app-status", "clear", "web/0"], 0, said);
    let refused = "web/1 does not lead; web/0 does (epoch 1)";
    check(&server, &["app-status", "clear", "web/1"], 7, refused);
    check(&server, &["app-status", "clear", "web/0", "--epoch", "9"], 7, "web/0 does not lead");
    assert_eq!(seen(&server), before);
    // What it said is what happens.
    let done = run(&server, &["app-status", "replace", "web/0", "-f", new]);
    assert!(done.err.contains("web has 2 statuses, 1 removed"), "{}", done.err);
}

#[test]
fn leadership_and_data_that_would_be_taken() {
    let server = Server::ephemeral();
    for unit in ["web/0", "web/1"] {
        ok(&server, &["report", unit, "--level", "active"]);
    }
    check(&server, &["leader", "claim", "web/0"], 0, "web/0 would lead");
    check(&server, &["leader", "release", "web/0"], 0, "web/0 does not lead; nobody does");
    check(&server, &["data", "rm", "web/0", "a"], 7, "web/0 does not lead; nobody does");
    ok(&server, &["leader", "claim", "web/0", "--lease", "5m"]);
    ok(&server, &["data", "set", "web/0", "a=1", "b=2"]);
    assert_eq!(run(&server, &["leader", "claim", "web/1"]).code, Some(7));
    let before = seen(&server);
    check(&server, &["leader", "claim", "web/0"], 0, "would renew its lease");
    check(&server, &["leader", "claim", "web/1"], 7, "it would stay in line");
    let said = "web/0 would no longer lead; web/1 would";
    check(&server, &["leader", "release", "web/0"], 0, said);
    let said = "web/1 would lead; web/0 would no longer";
    check(&server, &["leader", "transfer", "web/1"], 0, said);
    check(&server, &["leader", "transfer", "web/7"], 3, "there is no unit web/7");
    check(&server, &["data", "rm", "web/0", "a", "gone"], 0, "would remove the key a of web");
    let said = "would set the key c and remove the key b of web";
    check(&server, &["data", "set", "web/0", "a=1", "b=", "c=3"], 0, said);
    check(&server, &["data", "rm", "web/1", "a"], 7, "web/1 does not lead; web/0 does (epoch 1)");
    check(&server, &["data", "rm", "web/0", "a", "--etag", "old"], 1, "read them again");
    assert_eq!(seen(&server), before);
    let released = run(&server, &["leader", "release", "web/0"]);
    assert!(released.err.contains("web/1 does"), "as the dry run said: {}", released.err);
}

#[test]
fn an_operation_that_would_be_cancelled() {
    let server = Server::ephemeral();
    ok(&server, &["report", "web/0", "--level", "active"]);
    ok(&server, &["ops", "begin", "up-v2", "--unit", "web/0", "--to", "v2"]);
    let before = seen(&server);
    let said = "operation up-v2 to v2 is running; its holder web/0 would be asked to stop";
    check(&server, &["ops", "cancel", "web", "up-v2"], 0, said);
    check(&server, &["ops", "cancel", "web", "gone"], 3, "");
    assert_eq!(seen(&server), before);
    ok(&server, &["ops", "complete", "up-v2", "--unit", "web/0"]);
    let refused = "is succeeded, so there is nothing to cancel";
    check(&server, &["ops", "cancel", "web", "up-v2"], 1, refused);
    assert_eq!(run(&server, &["ops", "cancel", "web", "up-v2"]).code, Some(1));
}
