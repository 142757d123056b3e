//! Tests on what `systemctl show` of systemd 252 prints.

use crate::cli::command::import::facts::{Applications, ImportFacts, Placed};
use crate::cli::command::import::systemd::read;
use crate::cli::level;

const HOST: &str = include_str!("../../../../../tests/data/systemd/host.txt");

fn together(facts: &ImportFacts) -> &Applications {
    match &facts.applications {
        Placed::Together(None, applications) => applications,
        apart => panic!("no namespace is named: {apart:?}"),
    }
}

fn script(facts: &ImportFacts) -> String {
    let mut lines = String::new();
    for (name, application) in together(facts) {
        for unit in &application.units {
            for status in &unit.set.statuses {
                let place = [status.component.as_str(), status.key.as_str()].join("/");
                let level = level::word(status.level);
                let parts = [
                    name.as_str(),
                    &unit.name,
                    &place,
                    level,
                    &status.reason,
                    &status.message,
                    &status.action,
                ];
                lines += parts.join(" | ").trim_end_matches([' ', '|']);
                lines += "\n";
            }
        }
    }
    lines
}

#[test]
fn the_units_of_a_host() {
    let facts = read(HOST, "db-1").expect("a document");
    let expected = include_str!("../../../../../tests/data/systemd/host.expected");
    assert_eq!(script(&facts), expected);
    let notes = [
        "not imported, without a name that an application can have: -.mount",
        "not imported, with the name of another one: masked.service",
    ];
    assert_eq!(facts.notes, notes);
    let since = together(&facts)["web"].units[0].set.statuses[0].observe_time;
    assert_eq!(since.map(|at| at.seconds), Some(1_764_245_000));
}

#[test]
fn every_state_that_is_not_active_is_not_shown_as_active() {
    let states = ["reloading", "inactive", "failed", "activating", "deactivating", "new-word"];
    for state in states {
        for load in ["loaded", "not-found", "masked", ""] {
            let text = format!("Id=a.service\nLoadState={load}\nActiveState={state}\n");
            let facts = read(&text, "h").expect("a document");
            let status = &together(&facts)["a"].units[0].set.statuses[0];
            assert_ne!(level::word(status.level), "active", "{load} {state}");
        }
    }
}
