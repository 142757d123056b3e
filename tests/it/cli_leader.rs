//! `leader`, `data` and the leader mark in `status`: output, exit codes, and the error message of
//! each mistake.

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::Instant;

use serde_json::Value;

use crate::cli::{Running, command, json, ok, run};
use crate::server::{DEADLINE, Server};

/// Checks the exit code of a command line and its output.
fn check(server: &Server, line: &[&str], code: i32, words: &str) {
    let said = run(server, line);
    assert_eq!(said.code, Some(code), "{line:?}: {}{}", said.out, said.err);
    assert!(said.err.contains(words), "{words:?} is not in: {}", said.err);
    assert!(!said.err.contains("panicked"), "{}", said.err);
    assert_eq!(said.out, "", "a mistake is no output");
}

/// Two units without a session.
fn two_units() -> Server {
    let server = Server::ephemeral();
    for unit in ["web/0", "web/1"] {
        ok(&server, &["report", unit, "--level", "active"]);
    }
    server
}

#[test]
fn one_leads_one_waits_and_the_lease_is_handed_on() {
    let server = two_units();
    assert_eq!(ok(&server, &["leader", "get", "web"]), "nobody leads\n");
    let claimed = ok(&server, &["leader", "claim", "web/0", "--lease", "2m"]);
    assert!(claimed.starts_with("web/0 leads, epoch 1, until "), "{claimed}");
    assert!(claimed.ends_with(" unless renewed, for 2m at a time\n"), "{claimed}");
    check(&server, &["leader", "claim", "web/1"], 7, "stay and ask again [LEASE_HELD]");
    let got = ok(&server, &["leader", "get", "web"]);
    assert!(got.starts_with("web/0 leads, epoch 1, "), "{got}");
    assert!(got.ends_with("\n1. in line: web/1\n"), "{got}");
    let released = run(&server, &["leader", "release", "web/0"]);
    assert_eq!((released.code, &*released.out), (Some(0), ""));
    assert_eq!(released.err, "web/0 no longer leads; web/1 does (epoch 2)\n");
    let got = json(&server, &["leader", "get", "web", "-o", "json"]);
    assert_eq!((&got["lease"]["unit"], &got["leaseEpoch"]), (&"web/1".into(), &"2".into()));
    let lease = json(&server, &["leader", "transfer", "web/0", "-o", "json"]);
    assert_eq!((&lease["unit"], &lease["leaseEpoch"]), (&"web/0".into(), &"3".into()));
}

#[test]
fn the_leader_is_marked_in_the_status() {
    let server = two_units();
    let lines = |mark: &str| {
        let status = ok(&server, &["status", "web"]);
        status.lines().filter(|line| line.starts_with(mark)).count()
    };
    assert_eq!((lines("web/0*  active"), lines("web/1*  active")), (0, 0));
    ok(&server, &["leader", "claim", "web/1", "--lease", "5m"]);
    assert_eq!((lines("web/0   active"), lines("web/1*  active")), (1, 1));
    ok(&server, &["leader", "transfer", "web/0"]);
    assert_eq!((lines("web/0*  active"), lines("web/1   active")), (1, 1));
    ok(&server, &["leader", "release", "web/0"]);
    assert_eq!(lines("web/0*"), 0);
}

/// A charm claims leadership before its first report.
#[test]
fn a_claim_comes_before_the_first_report() {
    let server = Server::ephemeral();
    check(&server, &["leader", "get", "new"], 3, "[APPLICATION_NOT_FOUND]");
    let claimed = ok(&server, &["leader", "claim", "new/0"]);
    assert!(claimed.starts_with("new/0 leads, epoch 1, until "), "{claimed}");
    ok(&server, &["data", "set", "new/0", "a=1"]);
    assert_eq!(ok(&server, &["data", "get", "new", "a"]), "1");
    assert!(ok(&server, &["status", "new"]).contains("new/0*"));
}

#[test]
fn each_mistake_about_leaders_has_its_error() {
    let server = two_units();
    for (line, code, words) in [
        (&["leader", "transfer", "nobody/0"][..], 3, "[APPLICATION_NOT_FOUND]"),
        (&["leader", "get", "web/0"], 2, "`web/0` is a unit: name its application"),
        (&["leader", "claim", "web"], 2, "`web` names no unit: write web/0"),
        (&["leader", "claim", "web/0", "--lease", "1s"], 2, "give 2 s to 300 s"),
        (&["leader", "claim", "web/0", "--lease", "6m"], 2, "[INVALID_VALUE]"),
        (&["leader", "transfer", "web/7"], 3, "[UNIT_NOT_FOUND]"),
        (&["leader", "transfer"], 2, "write APP/UNIT"),
    ] {
        check(&server, line, code, words);
    }
    ok(&server, &["leader", "claim", "web/0", "--lease", "5m"]);
    let epoch = ["leader", "release", "web/0", "--epoch", "9"];
    check(&server, &epoch, 7, "its lease has 1, or is over [NOT_LEADER]");
}

#[test]
fn a_lost_unit_is_not_made_the_leader() {
    let server = two_units();
    ok(&server, &["configure", "web", "--lost-after", "1s"]);
    ok(&server, &["report", "web/0", "--level", "active", "--ttl", "1s"]);
    let is_lost = || ok(&server, &["status", "web"]).contains("unit web/0 lost");
    let start = Instant::now();
    while !is_lost() {
        assert!(start.elapsed() < DEADLINE, "{}", ok(&server, &["status", "web"]));
    }
    check(
        &server,
        &["leader", "transfer", "web/0"],
        2,
        "web/0 is lost or has left; transfer to one",
    );
    assert_eq!(ok(&server, &["leader", "get", "web"]), "nobody leads\n");
}

#[test]
fn the_leader_keeps_data_that_all_read() {
    let server = two_units();
    ok(&server, &["leader", "claim", "web/0", "--lease", "5m"]);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), b"two\nlines \xff").unwrap();
    let from_file = format!("motd=@{}", file.path().display());
    let set = run(&server, &["data", "set", "web/0", "database.name=web", "a=b=c", &from_file]);
    assert_eq!((set.code, &*set.out), (Some(0), ""), "{}", set.err);
    assert!(set.err.starts_with("changed: etag 1 (revision "), "{}", set.err);
    let got = ok(&server, &["data", "get", "web"]);
    assert_eq!(got, "a              b=c\ndatabase.name  web\nmotd           two lines \u{fffd}\n");
    let value = command(&server, &["data", "get", "web", "motd"]).output().unwrap().stdout;
    assert_eq!(value, b"two\nlines \xff", "a value is printed as it is");
    let same = run(&server, &["data", "set", "web/0", "a=b=c"]);
    assert!(same.err.starts_with("unchanged: etag 1 (revision "), "{}", same.err);
    // An empty value and `rm` have the same effect.
    ok(&server, &["data", "set", "web/0", "a=", "--etag", "1"]);
    check(&server, &["data", "rm", "web/0", "motd", "--etag", "1"], 1, "[ETAG_MISMATCH]");
    ok(&server, &["data", "rm", "web/0", "motd", "--etag", "2", "--epoch", "1"]);
    assert_eq!(ok(&server, &["data", "get", "web"]), "database.name  web\n");
    ok(&server, &["leader", "release", "web/0"]);
    let got = json(&server, &["data", "get", "web", "-o", "json"]);
    assert_eq!((&got["data"]["database.name"], &got["etag"]), (&"d2Vi".into(), &"3".into()));
}

#[test]
fn each_mistake_about_data_has_its_error_and_changes_nothing() {
    let server = two_units();
    check(&server, &["data", "set", "web/0", "a=1"], 7, "no unit does [NOT_LEADER]");
    ok(&server, &["leader", "claim", "web/0", "--lease", "5m"]);
    ok(&server, &["data", "set", "web/0", "a=1"]);
    let file = tempfile::NamedTempFile::new().unwrap();
    let secret = "very-private-".repeat(5042);
    std::fs::write(file.path(), &secret[..65_537]).unwrap();
    let large = format!("a=@{}", file.path().display());
    let long = format!("{}=1", "k".repeat(257));
    for (line, code, words) in [
        (&["data", "set", "web/1", "a=2"][..], 7, "web/0 does, with lease epoch 1 [NOT_LEADER]"),
        (&["data", "set", "web/0", "a=2", "--epoch", "99"], 7, "its lease has 1, or is over"),
        (&["data", "rm", "web/1", "a"], 7, "[NOT_LEADER]"),
        (&["data", "set", "web/7", "a=2"], 7, "[NOT_LEADER]"),
        (&["data", "set", "web/0", "a"], 2, "write KEY=VALUE"),
        (&["data", "set", "web/0", "=2"], 2, "write KEY=VALUE"),
        (&["data", "set", "web/0"], 2, "write KEY=VALUE"),
        (&["data", "set", "web/0", "a=2", "a="], 2, "key \"a\" is given twice"),
        (&["data", "set", "web/0", "a=@/nowhere"], 2, "cannot read /nowhere"),
        (&["data", "set", "web/0", &large], 2, "[VALUE_TOO_LARGE]"),
        (&["data", "set", "web/0", &long], 2, "[VALUE_TOO_LARGE]"),
        (&["data", "set", "web/0", "a=2", "--etag", "99"], 1, "[ETAG_MISMATCH]"),
        (&["data", "get", "web", "b"], 3, "web has no data under the key \"b\""),
        (&["data", "get", "nobody", "b"], 3, "[APPLICATION_NOT_FOUND]"),
    ] {
        check(&server, line, code, words);
    }
    let said = run(&server, &["data", "set", "web/0", &large]).err;
    assert!(!said.contains("very-private"), "{said}");
    let got = json(&server, &["data", "get", "web", "-o", "json"]);
    assert_eq!((&got["data"]["a"], &got["etag"]), (&"MQ==".into(), &"1".into()));
}

#[test]
fn a_watch_of_data_prints_a_line_for_each_change() {
    let server = two_units();
    ok(&server, &["leader", "claim", "web/0", "--lease", "5m"]);
    let mut command = command(&server, &["data", "watch", "web"]);
    let mut watching = Running(command.stdout(Stdio::piped()).spawn().unwrap());
    let mut lines = BufReader::new(watching.0.stdout.take().unwrap()).lines();
    let mut next = || -> Value { serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap() };
    assert_eq!(next()["data"], serde_json::json!({}));
    ok(&server, &["data", "set", "web/0", "a=1"]);
    assert_eq!(next()["data"]["a"], "1");
    // A call that changes nothing sends no event, and neither does a change outside the data.
    ok(&server, &["data", "set", "web/0", "a=1"]);
    ok(&server, &["leader", "transfer", "web/1"]);
    ok(&server, &["data", "rm", "web/1", "a"]);
    let told = next();
    assert_eq!((&told["data"], &told["etag"]), (&serde_json::json!({}), &"2".into()));
}
