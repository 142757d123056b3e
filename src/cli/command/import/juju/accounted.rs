//! Each fact of a document is a status, a part of one, or a counted note.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::cli::command::import::juju::account::name;
use crate::cli::command::import::juju::{document, status};
use crate::cli::command::import::juju::{facts, origin};
use crate::cli::command::import::plan::{Options, plan};
use crate::cli::command::import::step::ImportStep;
use crate::cli::level;
use crate::proto::v1::StatusReport;

const ALIVE_AGENTS: &str = include_str!("../../../../../tests/data/juju-status/alive-agents.json");
const BROKEN_MACHINES: &str =
    include_str!("../../../../../tests/data/juju-status/broken-machines.json");
const DATABASE_WEBAPP: &str =
    include_str!("../../../../../tests/data/juju-status/database-webapp.json");
const SNAPPASS: &str = include_str!("../../../../../tests/data/juju-status/snappass.json");
const STATUS_ERRORS: &str =
    include_str!("../../../../../tests/data/juju-status/status-errors.json");
const SUBORDINATES: &str = include_str!("../../../../../tests/data/juju-status/subordinates.json");

/// All that an import shows or prints.
#[derive(Default)]
struct Output {
    texts: Vec<String>,
    seconds: BTreeSet<i64>,
    leaders: BTreeSet<String>,
    /// Facts that no status shows, by name.
    noted: BTreeMap<String, usize>,
}

impl Output {
    fn of(text: &str) -> Output {
        let document = document::read(text).expect("a document");
        let (namespace, known) = (document.model.clone(), BTreeMap::new());
        let facts = facts::of(&document);
        let plan = plan(facts, &origin(), Some(&namespace), &known, Options::default());
        let mut output = Output { texts: plan.notes, ..Output::default() };
        for step in plan.steps.into_values().flatten() {
            match step {
                ImportStep::Replace(request) => {
                    output.texts.push(request.namespace);
                    request.statuses.iter().for_each(|report| output.take(report));
                }
                ImportStep::ReplaceOwn(request) => {
                    output.texts.push(request.namespace);
                    request.statuses.iter().for_each(|report| output.take(report));
                }
                ImportStep::Lead(request) => {
                    let leader = request.config.and_then(|config| config.external_leader);
                    output.leaders.insert(leader.expect("a leader").unit);
                }
                step => panic!("an empty namespace needs no {step:?}"),
            }
        }
        output.noted = plan.unshown.as_deref().map(counts).unwrap_or_default();
        output
    }

    fn take(&mut self, report: &StatusReport) {
        let texts = [level::word(report.level), &report.reason, &report.message, &report.key];
        self.texts.extend(texts.map(str::to_string));
        self.texts.extend(report.labels.values().cloned());
        self.seconds.extend(report.observe_time.map(|time| time.seconds));
    }

    fn shows(&self, fact: &Value, path: &[&str]) -> bool {
        match fact {
            Value::Bool(leads) => {
                *path.last().unwrap() == "leader"
                    && self.leaders.contains(path[path.len() - 2]) == *leads
            }
            fact => {
                let text = fact.as_str().map_or_else(|| fact.to_string(), str::to_string);
                let at = status::parse_time(&text).map(jiff::Timestamp::as_second);
                at.is_some_and(|at| self.seconds.contains(&at))
                    || self.texts.iter().any(|shown| shown.contains(&text))
            }
        }
    }
}

/// Parses `facts that no status shows: 3 (unit address 2, model sla 1)`.
fn counts(sentence: &str) -> BTreeMap<String, usize> {
    let (sum, each) = sentence.trim_end_matches(')').split_once(" (").expect("counts");
    let each = each.split(", ").map(|entry| entry.rsplit_once(' ').expect("a count"));
    let each: BTreeMap<String, usize> =
        each.map(|(name, count)| (name.to_string(), count.parse().expect("a number"))).collect();
    assert!(sum.ends_with(&format!(": {}", each.values().sum::<usize>())), "{sentence}");
    each
}

/// Returns all facts below a value, with their paths.
fn facts<'a>(value: &'a Value, path: &[&'a str]) -> Vec<(Vec<&'a str>, &'a Value)> {
    match value {
        Value::Null => Vec::new(),
        Value::String(text) if text.is_empty() => Vec::new(),
        Value::Array(items) => items.iter().flat_map(|item| facts(item, path)).collect(),
        Value::Object(fields) => {
            let inner = |(name, value)| facts(value, &[path, &[String::as_str(name)]].concat());
            fields.iter().flat_map(inner).collect()
        }
        _ => vec![(path.to_vec(), value)],
    }
}

/// Returns how many facts of the document are shown, and how many are noted. Fails on a fact that
/// is neither.
fn account(text: &str) -> (usize, usize) {
    let root: Value = serde_json::from_str(text).expect("JSON");
    let output = Output::of(text);
    let mut by_name: BTreeMap<String, Vec<(Vec<&str>, &Value)>> = BTreeMap::new();
    for (path, fact) in facts(&root, &[]) {
        by_name.entry(name(&path)).or_default().push((path, fact));
    }
    let (mut shown_count, mut noted_count) = (0, 0);
    for (name, facts) in &by_name {
        let noted = output.noted.get(name).copied().unwrap_or_default();
        let (shown, hidden): (Vec<_>, Vec<_>) =
            facts.iter().partition(|(path, fact)| output.shows(fact, path));
        assert!(hidden.len() <= noted, "neither shown nor noted: {name} {hidden:?}, {noted} noted");
        assert!(noted <= facts.len(), "{name}: {noted} noted of {facts:?}");
        assert!(facts.len() <= shown.len() + noted, "{name}");
        shown_count += facts.len() - noted;
        noted_count += noted;
    }
    let unknown: Vec<_> = output.noted.keys().filter(|name| !by_name.contains_key(*name)).collect();
    assert!(unknown.is_empty(), "noted, but not in the document: {unknown:?}");
    (shown_count, noted_count)
}

#[test]
fn every_fact_of_a_document_is_shown_or_noted() {
    let documents =
        [ALIVE_AGENTS, BROKEN_MACHINES, DATABASE_WEBAPP, SNAPPASS, STATUS_ERRORS, SUBORDINATES];
    let expected = [(18, 3), (29, 4), (15, 53), (8, 25), (7, 9), (23, 121)];
    assert_eq!(documents.map(account), expected);
}
