//! The one order of severity, in the command line, in its exit codes and on the status page.

use serde_json::Value;

use crate::cli::{json, ok, run};
use crate::ops::fetch;
use crate::server::{DEADLINE, Server};

/// Reports an application for each severity, in an order of names that is another one.
fn report_all(server: &Server) {
    for (name, level) in [
        ("a-active", "active"),
        ("b-ended", "terminated"),
        ("c-waits", "waiting"),
        ("d-works", "maintenance"),
        ("f-blocked", "blocked"),
        ("g-error", "error"),
    ] {
        let unit = format!("{name}/0");
        ok(server, &["report", &unit, "--level", level, "-m", "m", "--action", "act"]);
    }
    ok(server, &["report", "e-silent/0", "--level", "active", "--ttl", "1s"]);
    ok(server, &["report", "h-marked/0", "--level", "active"]);
    let fault = ["error", "h-marked/0", "--component", "db", "--system", "http", "--code", "503"];
    ok(server, &fault);
}

fn names_by_severity(server: &Server) -> Vec<String> {
    let value = json(server, &["status", "--sort", "severity", "-o", "json"]);
    let applications = value["applications"].as_array().unwrap();
    let name = |application: &Value| application["name"].as_str().unwrap().to_string();
    applications.iter().map(name).collect()
}

#[test]
fn the_list_the_page_and_the_counts_have_one_order() {
    let server = Server::ephemeral();
    report_all(&server);
    let begun = std::time::Instant::now();
    while !ok(&server, &["status", "e-silent"]).contains("1 silent") {
        assert!(begun.elapsed() < DEADLINE, "the unit does not become silent");
    }
    let order = [
        "g-error",
        "f-blocked",
        "e-silent",
        "d-works",
        "c-waits",
        "h-marked",
        "a-active",
        "b-ended",
    ];
    assert_eq!(names_by_severity(&server), order);
    let page = fetch(server.grpc, "/").1;
    let places = order.map(|name| page.find(&format!("data-key=\"default/{name}\"")).unwrap());
    assert!(places.is_sorted(), "{places:?}");
    // The page has a switch for each level that occurs.
    let levels = ["error", "blocked", "maintenance", "waiting", "active", "terminated"];
    let places = levels.map(|level| page.find(&format!("id=\"level-{level}\"")).unwrap());
    assert!(places.is_sorted(), "{places:?}");
    let status = ok(&server, &["status"]);
    let counts = "1 error, 1 blocked, 1 silent, 1 maintenance, 1 waiting, 1 marked, 1 active, \
                  1 terminated";
    assert!(status.contains(counts), "{status}");
}

#[test]
fn the_newest_of_equal_severity_is_first() {
    let server = Server::ephemeral();
    for name in ["a", "b", "c"] {
        ok(&server, &["report", &format!("{name}/0"), "--level", "blocked", "-m", "m"]);
    }
    assert_eq!(names_by_severity(&server), ["c", "b", "a"]);
    ok(&server, &["report", "a/0", "--level", "active"]);
    ok(&server, &["report", "a/0", "--level", "blocked", "-m", "again"]);
    assert_eq!(names_by_severity(&server), ["a", "c", "b"]);
    for name in ["b", "c", "a"] {
        ok(&server, &["report", &format!("{name}/0"), "--level", "active"]);
    }
    assert_eq!(names_by_severity(&server), ["a", "b", "c"]);
}

#[test]
fn the_exit_code_is_that_of_the_worst() {
    let server = Server::ephemeral();
    report_all(&server);
    for (gone, expected) in [
        ("", 12),
        ("g-error", 11),
        ("f-blocked", 13),
        ("e-silent", 10),
        ("d-works", 10),
        ("c-waits", 0),
        ("h-marked", 0),
    ] {
        if !gone.is_empty() {
            ok(&server, &["delete", gone]);
        }
        let begun = std::time::Instant::now();
        while run(&server, &["status", "--exit-status"]).code != Some(expected) {
            assert!(begun.elapsed() < DEADLINE, "after {gone}: {expected} is expected");
        }
    }
}
