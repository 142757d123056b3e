//! Tests on objects of real clusters, and on the cases of others.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::cli::command::import::cluster::ClusterArgs;
use crate::cli::command::import::facts::{ImportFacts, Placed};
use crate::cli::command::import::kubernetes::health::kstatus;
use crate::cli::command::import::kubernetes::object::Object;
use crate::cli::command::import::kubernetes::rules::HealthRules;
use crate::cli::command::import::kubernetes::{health, read};
use crate::cli::level;
use crate::proto::v1::Level;

fn now() -> Timestamp {
    "2026-02-24T12:00:00Z".parse().expect("a time")
}

/// Formats a line for each status, and the notes.
fn script(facts: &ImportFacts) -> String {
    let Placed::Apart(namespaces) = &facts.applications else { panic!("namespaces") };
    let mut lines = String::new();
    for (namespace, applications) in namespaces {
        for (name, application) in applications {
            for unit in &application.units {
                for status in &unit.set.statuses {
                    let (level, unit) = (level::word(status.level), &unit.name);
                    let less = if status.priority < 0 { " less" } else { "" };
                    let component = format!("{}{less}", status.component);
                    let texts = [&status.reason, &status.message, &status.action, &status.check];
                    let texts = texts.map(String::as_str).join(" | ");
                    lines += &format!("{namespace}/{name} {unit} [{component}] {level}: {texts}\n");
                }
            }
        }
    }
    for note in facts.notes.iter().chain(&facts.unshown) {
        lines += &format!("note: {note}\n");
    }
    lines
}

fn script_of(text: &str) -> String {
    script(
        &read(text, &ClusterArgs::default(), &mut HealthRules::default(), now())
            .expect("a document"),
    )
}

#[test]
fn a_cluster() {
    let text = include_str!("../../../../../tests/data/kubernetes/cluster.json");
    let expected = include_str!("../../../../../tests/data/kubernetes/cluster.expected");
    let found = script_of(text);
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write("tests/data/kubernetes/cluster.expected", &found).expect("a file");
    }
    assert_eq!(found, expected);
}

/// The word of Argo CD for a level.
fn health_word(level: Level, reason: &str) -> &'static str {
    match level {
        Level::Active if reason == "Suspended" => "Suspended",
        Level::Maintenance if reason == "Paused" => "Suspended",
        Level::Active | Level::Terminated => "Healthy",
        Level::Error | Level::Blocked => "Degraded",
        Level::Waiting if reason == "HealthUnknown" => "Unknown",
        _ => "Progressing",
    }
}

/// Compares with the cases of others, a line of JSON each, in the file that
/// `BELLWETHER_HEALTH_CASES` names: `{suite, name, object, expected, message}`.
#[test]
#[ignore = "tests/sources/cases fetches the cases of others"]
fn the_cases_of_others() {
    let path = std::env::var("BELLWETHER_HEALTH_CASES").expect("the file of the cases");
    let text = std::fs::read_to_string(path).expect("cases");
    let (mut right, mut total) = (BTreeMap::<&str, usize>::new(), BTreeMap::<&str, usize>::new());
    let (mut unwell, mut false_active) = (0, Vec::new());
    let cases: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("a case")).collect();
    for case in &cases {
        let word = |name: &str| case[name].as_str().expect("a text");
        let (suite, name, expected) = (word("suite"), word("name"), word("expected"));
        *total.entry(suite).or_default() += 1;
        let mut object = case["object"].clone();
        // Some cases of others have objects without a name, which no cluster has.
        if object["metadata"]["name"].is_null() {
            object["metadata"]["name"] = json!("x");
        }
        let object = Object::new(object).expect("an object");
        let found = if suite == "kstatus" {
            let state = kstatus::compute(&object, Timestamp::now()).state;
            format!("{state:?}")
        } else {
            let whole = health::assess(&object, Timestamp::now());
            let parts = health::containers(&object).into_iter().map(|(_, verdict)| verdict);
            let mut worse =
                parts.filter(|part| matches!(part.level, Level::Error | Level::Blocked));
            let verdict = worse.next().unwrap_or(whole);
            health_word(verdict.level, &verdict.reason).to_string()
        };
        let is_right = found == expected
            || found == "Unknown" && matches!(expected, "Progressing" | "Missing");
        *right.entry(suite).or_default() += usize::from(is_right);
        if !is_right && suite != "argo-cd" {
            println!("{suite} {name}: {found}, expected {expected}");
        }
        let is_unwell = !matches!(expected, "Healthy" | "Suspended" | "Current");
        if suite == "argo-cd" && is_unwell {
            unwell += 1;
            if matches!(found.as_str(), "Healthy" | "Suspended") {
                false_active.push(name.to_string());
            }
        }
    }
    for name in &false_active {
        println!("argo-cd {name}: called active");
    }
    for (suite, total) in &total {
        println!("{suite}: {} of {total} right", right.get(suite).copied().unwrap_or(0));
    }
    println!("argo-cd: {} of {unwell} that are not healthy are called active", false_active.len());
    assert_eq!(right.get("kstatus"), total.get("kstatus"), "kstatus whole");
    assert!(false_active.len() * 20 <= unwell, "at most 5 %");
    assert!(total["argo-cd"] * 62 <= right["argo-cd"] * 100, "at least 62 %");
}

#[test]
fn the_failures_of_a_release_of_flux_are_labels() {
    let labels = |kind: &str, status: Value| {
        let object = json!({"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": kind,
            "metadata": {"name": "r", "namespace": "n"}, "status": status});
        let cluster = ClusterArgs::default();
        let facts = read(&object.to_string(), &cluster, &mut HealthRules::default(), now());
        let Placed::Apart(namespaces) = facts.expect("an object").applications else { panic!() };
        namespaces["n"]["r"].units[0].set.statuses[0].labels.clone()
    };
    let status = json!({"failures": 3, "installFailures": 0, "upgradeFailures": "2"});
    let expected = [("failures", "3"), ("upgrade-failures", "2")];
    let expected = expected.map(|(name, count)| (name.to_string(), count.to_string()));
    assert_eq!(labels("HelmRelease", status.clone()), BTreeMap::from(expected));
    assert!(labels("HelmRelease", json!({"failures": -1, "upgradeFailures": {}})).is_empty());
    assert!(labels("HelmChart", status).is_empty());
}

#[test]
fn an_object_that_says_nothing_is_not_active() {
    for status in [json!(null), json!({}), json!({"colour": "blue"}), json!({"conditions": 3})] {
        let object = json!({"apiVersion": "a.b/v1", "kind": "Thing", "metadata": {"name": "t"},
            "status": status});
        let verdict = health::assess(&Object::new(object).expect("an object"), now());
        assert_eq!((verdict.level, verdict.reason.as_str()), (Level::Waiting, "HealthUnknown"));
    }
}
