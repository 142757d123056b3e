//! The cases of `tests/data/marks.yaml`, of which `tests/domain/marks.rs` shows that the server has
//! these states: what a receiver is sent.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::*;
use crate::cli::level;

#[derive(Deserialize)]
struct Case {
    id: String,
    steps: Vec<Step>,
}

#[derive(Deserialize)]
struct Step {
    at: u64,
    #[serde(default = "web")]
    app: String,
    #[serde(default)]
    report: BTreeMap<String, String>,
    clear: Option<String>,
    remove_unit: Option<String>,
    lose: Option<String>,
    set: Option<SetMark>,
    expect: Expected,
}

#[derive(Deserialize)]
struct SetMark {
    id: String,
    kind: String,
}

#[derive(Deserialize)]
struct Expected {
    level: String,
    in_force: Vec<String>,
    acknowledged: Option<bool>,
    planned: Option<bool>,
    #[serde(default)]
    ended: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Answer {
    id: String,
    told: BTreeMap<String, Vec<String>>,
    recovery: String,
}

fn web() -> String {
    "web".to_string()
}

/// What is known of an application between two steps.
#[derive(Default)]
struct Known {
    contributions: BTreeMap<String, String>,
    revision: u64,
}

impl Known {
    fn apply(&mut self, step: &Step) {
        self.revision += 1;
        self.contributions.extend(step.report.clone());
        if let Some(part) = &step.clear {
            self.contributions.remove(part);
        }
        if let Some(unit) = &step.remove_unit {
            self.contributions.retain(|part, _| part.split(' ').next() != Some(unit.as_str()));
        }
    }

    /// Returns the part with the worst level.
    fn winner(&self) -> StatusRef {
        let order = ["error", "blocked", "maintenance", "waiting", "active", "terminated"];
        let place = |level: &String| order.iter().position(|word| word == level).unwrap_or(9);
        let worst = self.contributions.iter().min_by_key(|(_, level)| place(level));
        let part = worst.map(|(part, _)| part.as_str()).unwrap_or_default();
        let (unit, component) = part.split_once(' ').unwrap_or((part, ""));
        let (unit, component) = (unit.to_string(), component.to_string());
        StatusRef { unit, component, ..StatusRef::default() }
    }
}

/// Returns what is sent in a case, by application.
fn told(case: &Case) -> BTreeMap<String, Vec<String>> {
    let mut world = World::new(vec![mk_route("all")]);
    let mut known: BTreeMap<String, Known> = BTreeMap::new();
    let mut acknowledgements: BTreeSet<String> = BTreeSet::new();
    for step in &case.steps {
        world.pass(step.at);
        if let Some(mark) = &step.set
            && mark.kind == "acknowledged"
        {
            acknowledgements.insert(mark.id.clone());
        }
        let app = known.entry(step.app.clone()).or_default();
        app.apply(step);
        let level = level::parse(&step.expect.level).unwrap();
        let is_ill = !matches!(level, Level::Active | Level::Terminated | Level::Unknown);
        let is_ack = |id: &String| acknowledgements.contains(id);
        let acknowledged = step.expect.in_force.iter().any(is_ack);
        let planned = step.expect.in_force.iter().any(|id| !is_ack(id));
        let expired = step.expect.ended.iter().any(|(id, how)| is_ack(id) && how == "expired");
        world.take(Fact {
            winner: app.winner(),
            silent: step.lose.is_some(),
            acknowledged: is_ill && step.expect.acknowledged.unwrap_or(acknowledged),
            planned: is_ill && step.expect.planned.unwrap_or(planned),
            acknowledgement_expired: expired,
            ..mk_fact(&step.app, app.revision, level)
        });
    }
    let mut told: BTreeMap<String, Vec<String>> =
        known.into_keys().map(|app| (app, Vec::new())).collect();
    for got in &world.got {
        let words = told.get_mut(&got.application).unwrap();
        words.push(got.kind.word().to_string());
    }
    told
}

#[test]
fn each_case_of_marks_is_sent_as_it_should_be() {
    let read = include_str!("../../../../../../tests/data/marks.yaml");
    let cases: Vec<Case> = yaml_serde::from_str(read).unwrap();
    let read = include_str!("../../../../../../tests/data/marks-told.yaml");
    let answers: Vec<Answer> = yaml_serde::from_str(read).unwrap();
    assert_eq!(cases.len(), answers.len());
    for (case, answer) in cases.iter().zip(&answers) {
        assert_eq!(case.id, answer.id);
        let told = told(case);
        assert_eq!(told, answer.told, "{}", case.id);
        let count = |kind: &str| told.values().flatten().filter(|word| *word == kind).count();
        let recovery = match (count("problem"), count("resolved")) {
            (0, _) => "not owed",
            (_, 0) => "not ended",
            _ => "told",
        };
        assert_eq!(recovery, answer.recovery, "{}", case.id);
    }
}
