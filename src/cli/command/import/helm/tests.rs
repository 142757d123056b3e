//! Tests on what `helm list -o json` prints.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::cli::command::import::cluster::ClusterArgs;
use crate::cli::command::import::facts::{ImportFacts, Placed};
use crate::cli::command::import::helm::{LISTED_MAX, read};
use crate::cli::command::import::work::WorkFacts;
use crate::cli::level;
use crate::proto::v1::Level;

const RELEASES: &str = include_str!("../../../../../tests/data/helm/releases.json");
const PENDING_AFTER: Duration = Duration::from_secs(15 * 60);

fn now() -> Timestamp {
    "2026-02-24T12:00:00Z".parse().expect("a time")
}

fn facts(text: &str, cluster: Option<&str>) -> ImportFacts {
    let cluster = ClusterArgs { name: cluster.map(str::to_string) };
    read(text, &cluster, PENDING_AFTER, now()).expect("a document")
}

/// Formats a line for each status with its work, and the notes.
fn script(facts: &ImportFacts) -> String {
    let Placed::Apart(namespaces) = &facts.applications else { panic!("namespaces") };
    let mut lines = String::new();
    for (namespace, applications) in namespaces {
        for (name, application) in applications {
            for unit in &application.units {
                let status = &unit.set.statuses[0];
                let level = level::word(status.level);
                let less = if status.priority < 0 { " less" } else { "" };
                let texts = [&status.reason, &status.message, &status.action, &status.check];
                let texts = texts.map(String::as_str).join(" | ");
                lines += &format!("{namespace}/{name} {}{less} {level}: {texts}\n", unit.name);
                match &unit.work {
                    WorkFacts::CutOff(work) => {
                        let kind = work.kind.as_str_name();
                        lines +=
                            &format!("  {} {kind} {}, {}\n", work.id, work.target, work.progress);
                    }
                    WorkFacts::UnderWay { id } => lines += &format!("  {id} may go on\n"),
                    WorkFacts::Ended { .. } | WorkFacts::NotStated => {}
                }
            }
        }
    }
    for note in facts.notes.iter().chain(&facts.unshown) {
        lines += &format!("note: {note}\n");
    }
    lines
}

#[test]
fn the_releases_of_a_cluster() {
    let found = script(&facts(RELEASES, None));
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write("tests/data/helm/releases.expected", &found).expect("a file");
    }
    assert_eq!(found, include_str!("../../../../../tests/data/helm/releases.expected"));
}

#[test]
fn a_cluster_begins_the_names_of_its_namespaces() {
    let Placed::Apart(namespaces) = facts(RELEASES, Some("east")).applications else { panic!() };
    assert_eq!(namespaces.keys().collect::<Vec<_>>(), ["east.data", "east.shop"]);
}

#[test]
fn only_a_deployed_release_is_active() {
    let statuses = ["failed", "pending-install", "uninstalled", "unknown", "DEPLOYED", "x", "-"];
    for status in statuses {
        let text = format!(
            r#"[{{"name": "a", "namespace": "n", "revision": "1", "status": "{status}"}}]"#
        );
        assert!(!script(&facts(&text, None)).contains("active"), "{status}");
    }
}

#[test]
fn a_list_that_may_have_ended_early_removes_nothing() {
    let list = |count: usize| {
        let one = |n: usize| {
            format!(r#"{{"name": "r{n}", "namespace": "n", "revision": 1, "status": "deployed"}}"#)
        };
        format!("[{}]", (0..count).map(one).collect::<Vec<_>>().join(","))
    };
    for (count, expected) in [(LISTED_MAX - 1, false), (LISTED_MAX, true), (LISTED_MAX + 1, false)]
    {
        let facts = facts(&list(count), None);
        assert_eq!((facts.may_be_cut, facts.notes.len()), (expected, usize::from(expected)));
    }
}

#[test]
fn the_longest_names_of_helm_are_taken() {
    let (name, namespace) = ("r".repeat(53), "n".repeat(63));
    let text = format!(
        r#"[{{"name": "{name}", "namespace": "{namespace}", "revision": "1000",
            "updated": "2026-02-24 09:00:00 +0000 UTC", "status": "pending-upgrade",
            "chart": "{}-1.0.0"}}]"#,
        "c".repeat(500)
    );
    let script = script(&facts(&text, None));
    assert!(script.contains(&format!("helm-{name}-1000 OPERATION_KIND_UPGRADE")), "{script}");
}

/// Compares with the cases of Flux, a line of JSON each, in the file that `BELLWETHER_RELEASES`
/// names: `{name, releases: [{revision, status}], state}`, the newest release first.
#[test]
#[ignore = "tests/sources/releases fetches the cases of Flux"]
fn the_releases_of_flux() {
    let path = std::env::var("BELLWETHER_RELEASES").expect("the file of the cases");
    let text = std::fs::read_to_string(path).expect("cases");
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for line in text.lines() {
        let case: Value = serde_json::from_str(line).expect("a case");
        let (name, state) = (&case["name"], case["state"].as_str().expect("a state"));
        let (revision, status) = (&case["releases"][0]["revision"], &case["releases"][0]["status"]);
        let release = json!([{"name": "r", "namespace": "n", "revision": revision,
            "updated": "2026-02-24T09:00:00Z", "status": status, "chart": "c-1"}]);
        let Placed::Apart(namespaces) = facts(&release.to_string(), None).applications else {
            panic!("namespaces")
        };
        let unit = &namespaces["n"]["r"].units[0];
        let found = &unit.set.statuses[0];
        let (level, is_cut_off) = (found.level(), matches!(unit.work, WorkFacts::CutOff(_)));
        assert_eq!(is_cut_off, state == "Locked", "{name}");
        let expected = match state {
            "Locked" => Level::Blocked,
            "Absent" => Level::Terminated,
            // A test of the chart that failed is not in the list of Helm.
            "Failed" if status == "deployed" => Level::Active,
            "Failed" => Level::Error,
            "InSync" | "OutOfSync" | "Unmanaged" | "Untested" | "Drifted" => Level::Active,
            _ => level,
        };
        assert_eq!(level, expected, "{name}");
        let state = if state.is_empty() { "no state" } else { state };
        *counts.entry(format!("{state} {}", level::word(found.level))).or_default() += 1;
    }
    println!("releases of Flux: {counts:?}");
    assert!(2 <= counts.len(), "cases");
}
