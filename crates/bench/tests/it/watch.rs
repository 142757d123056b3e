//! The measurements of watches, once and as short as possible.

use serde_json::Value;

use crate::program::bench;
use crate::rows::{available, measure, positive, row};

#[test]
fn a_change_to_many_watchers() {
    if !available(&["etcd"]) {
        return;
    }
    let report = measure(&["fanout", "--watchers", "200", "--connections", "3"]);
    for (work, least) in
        [("a stream each, beside a plain tonic", 1.8), ("100 on each stream", 25.0)]
    {
        let row = row(&report, work);
        assert!(positive(&row["ours"]["value"]) && positive(&row["peer"]["value"]), "{row}");
        assert!(positive(&row["ratio"]["value"]), "{row}");
        assert_eq!(row["target"]["ratio_at_least"], least);
    }
    assert_eq!(report["sent"]["watchers"], 200);
}

#[test]
fn readers_of_events_over_http() {
    let report = measure(&["events", "--watchers", "100"]);
    for work in ["Bytes of the server for each reader", "From a report to 99 of 100 readers"] {
        let row = row(&report, work);
        assert!(row["ours"]["value"].is_number() && row["target"]["at_most"].is_number(), "{row}");
    }
    assert!(positive(&row(&report, "From a report to 99")["ours"]["value"]), "{report}");
    assert_eq!(report["sent"]["watchers"], 100);
}

#[test]
fn one_shape_alone_needs_no_peer() {
    let report = measure(&["fanout", "--watchers", "100", "--shape", "single", "--alone"]);
    assert_eq!(report["rows"].as_array().unwrap().len(), 1);
    let row = row(&report, "a stream each");
    assert_eq!((&row["peer"], &row["verdict"]), (&Value::Null, &"not_compared".into()));
}

#[test]
fn memory_of_what_is_idle_kept_and_unread() {
    let line = [
        "memory",
        "--watchers",
        "200",
        "--statuses",
        "500",
        "--applications",
        "500",
        "--events",
        "640",
    ];
    let report = measure(&line);
    let single = row(&report, "with a stream of its own");
    assert!(positive(&single["ours"]["value"]) && positive(&single["peer"]["value"]), "{single}");
    for work in ["one of 100", "beyond its own words", "has stopped reading"] {
        let row = row(&report, work);
        assert!(row["ours"]["value"].is_number() && row["target"]["at_most"].is_number(), "{row}");
    }
}

#[test]
fn watchers_go_on_after_a_replica_is_lost() {
    if !available(&["redis-server"]) {
        return;
    }
    check_storm(&[], "replica");
}

#[test]
fn watchers_go_on_after_a_relay_is_lost() {
    check_storm(&["--relays"], "relay");
}

fn check_storm(flags: &[&str], one: &str) {
    let line = [&["storm", "--watchers", "200", "--connections", "2"], flags].concat();
    let report = measure(&line);
    for shape in ["a stream each", "100 a stream"] {
        let current = format!("all watchers are current at the other {one}");
        for work in [current, format!("Memory of that {one}")] {
            let rows = report["rows"].as_array().unwrap();
            let of = |row: &&Value| {
                let said = row["work"].as_str().unwrap();
                said.contains(&work) && said.ends_with(shape)
            };
            let found: Vec<&Value> = rows.iter().filter(of).collect();
            assert_eq!(found.len(), 1, "{work}, {shape}");
            assert!(positive(&found[0]["ours"]["value"]), "{}", found[0]);
        }
    }
}

#[test]
fn a_crowd_that_cannot_be_shared_out_is_refused() {
    let output = bench(&["fanout", "--watchers", "150"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("a multiple of 100"), "{said}");
}

#[test]
fn watchers_behind_relays() {
    let line = ["relay", "--watchers", "20", "--relays", "2", "--crowd", "200"];
    let report = measure(&line);
    for work in ["watchers at the server", "watchers at one relay", "watchers at two levels"] {
        let row = row(&report, work);
        assert!(positive(&row["ours"]["p99_seconds"]), "{row}");
    }
    for work in ["without relays", "with 2 relays", "of a relay for a change"] {
        let row = row(&report, work);
        assert!(row["ours"]["value"].is_number(), "{row}");
    }
}
