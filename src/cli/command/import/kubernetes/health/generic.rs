//! Kinds without rules of their own: their conditions by polarity, then the words of their state.
//! Only what says that it is well, and nothing against it, is active.

use serde_json::Value;

use crate::cli::command::import::kubernetes::health::verdict::Verdict;
use crate::cli::command::import::kubernetes::health::words::{self, Word};
use crate::cli::command::import::kubernetes::health::{kstatus, of_state};
use crate::cli::command::import::kubernetes::object::{Condition, Object, conditions};
use crate::proto::v1::Level;

/// Fields of `status` with the state of the object as a word.
const STATES: [&str; 24] = [
    "phase",
    "state",
    "status",
    "health",
    "currentState",
    "currentPhase",
    "printableStatus",
    "deploymentStatus",
    "jobManagerDeploymentStatus",
    "sync",
    "result",
    "healthStatus",
    "provisioningState",
    "lifecycleState",
    "clusterState",
    "syncStatus",
    "appState",
    "compliant",
    "jobState",
    "applicationState",
    "jobStatus",
    "runStatus",
    "readyStatus",
    "overallStatus",
];

/// Fields of `status` with the text of an error.
const ERRORS: [&str; 5] = ["error", "errorMessage", "failureReason", "failureMessage", "lastError"];

/// Fields of `status` that count replicas.
const REPLICAS: [&str; 5] =
    ["readyReplicas", "availableReplicas", "updatedReplicas", "replicas", "ready"];

/// How deep states of parts are searched, and in how many entries of a list.
const DEPTH_MAX: usize = 6;
const PARTS_MAX: usize = 200;

/// One statement of an object about itself, the worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Weight {
    Failed,
    NotGood,
    Busy,
    /// A state that no list has.
    NotUnderstood,
    Suspended,
    Good,
}

impl From<Word> for Weight {
    fn from(word: Word) -> Weight {
        match word {
            Word::Failed => Weight::Failed,
            Word::NotGood => Weight::NotGood,
            Word::Busy => Weight::Busy,
            Word::Suspended => Weight::Suspended,
            Word::Good => Weight::Good,
        }
    }
}

/// Returns the health of an object of any kind.
pub fn assess(object: &Object) -> Verdict {
    if let Some(found) = kstatus::general(object) {
        return of_state(found);
    }
    for field in ["suspend", "paused", "suspended"] {
        if object.is(&["spec", field]) {
            let verdict = Verdict::new(Level::Active, "Suspended", "suspended");
            return verdict.field(format!("spec.{field}=true"));
        }
    }
    let statements = statements(object);
    let worst = statements.into_iter().min_by_key(|(weight, _)| *weight);
    let Some((weight, verdict)) = worst else {
        let message = format!("a {} does not say whether it is well", object.kind());
        return Verdict::new(Level::Waiting, "HealthUnknown", &message).field("status");
    };
    // What is not good and under way gets good: `Ready=False` beside `Issuing=True`.
    match weight == Weight::NotGood && object.conditions().iter().any(is_work) {
        true => Verdict { level: Level::Maintenance, ..verdict },
        false => verdict,
    }
}

/// Returns all that an object says about itself.
fn statements(object: &Object) -> Vec<(Weight, Verdict)> {
    let mut all = Vec::new();
    let generation = object.number(&["metadata", "generation"]);
    for condition in object.conditions() {
        let is_old = condition.observed.is_some()
            && generation.is_some()
            && condition.observed != generation;
        let weight = if is_old { Some(Weight::Busy) } else { of_condition(&condition) };
        all.extend(weight.map(|weight| (weight, Verdict::of(level(weight), &condition))));
    }
    let status = object.at(&["status"]);
    for field in STATES {
        let value = status.get(field).unwrap_or(&Value::Null);
        let of_part = ["state", "status", "phase"].iter().find_map(|name| value.get(name));
        let state = of_part.unwrap_or(value).as_str().unwrap_or_default();
        if !state.is_empty() {
            all.push(of_word(field, state, object));
        }
    }
    for field in ERRORS {
        let text = object.text(&["status", field]);
        if !text.is_empty() {
            let verdict = Verdict::new(Level::Error, "", text).field(format!("status.{field}"));
            all.push((Weight::Failed, verdict));
        }
    }
    for field in ["ready", "healthy"] {
        let weight = match status.get(field) {
            Some(Value::Bool(true)) => Weight::Good,
            Some(Value::Bool(false)) => Weight::NotGood,
            _ => continue,
        };
        let word = if weight == Weight::Good { field.to_string() } else { format!("not {field}") };
        all.push((weight, Verdict::new(level(weight), "", &word).field(format!("status.{field}"))));
    }
    all.extend(replicas(object));
    parts(status, "status", 0, &mut all);
    all
}

/// Returns a statement if there are fewer replicas than wanted.
fn replicas(object: &Object) -> Option<(Weight, Verdict)> {
    let wanted = object.at(&["spec", "replicas"]).as_i64()?;
    REPLICAS.iter().find_map(|field| {
        let there = object.at(&["status", field]).as_i64().filter(|there| *there < wanted)?;
        let message = format!("{field}: {there} of {wanted}");
        let verdict = Verdict::new(Level::Maintenance, "LessReplicas", &message);
        Some((Weight::Busy, verdict.field(format!("status.{field}"))))
    })
}

/// Returns what a condition says by its type: `Ready=False` is bad, `Failed=False` is not.
fn of_condition(condition: &Condition<'_>) -> Option<Weight> {
    let kind = words::of(condition.kind);
    let reason = words::of(condition.reason);
    let (holds, fails) = (condition.holds(), condition.fails());
    match kind {
        Some(Word::Failed) => match (holds, fails) {
            (true, _) => Some(Weight::Failed),
            (_, true) => None,
            _ => Some(Weight::Busy),
        },
        Some(Word::Suspended) => holds.then_some(Weight::Suspended),
        Some(Word::Busy) => match (holds, fails, reason) {
            (_, _, Some(Word::Failed)) if holds || fails => Some(Weight::Failed),
            (true, _, Some(Word::Good)) => Some(Weight::Good),
            (_, true, _) => None,
            _ => Some(Weight::Busy),
        },
        kind => {
            let is_negated = kind == Some(Word::NotGood);
            let (is_good, is_bad) = if is_negated { (fails, holds) } else { (holds, fails) };
            match (is_good, is_bad) {
                (true, _) => good(kind, reason),
                (_, true) => Some(bad(condition, kind, reason)),
                _ if condition.status.eq_ignore_ascii_case("unknown") => Some(match reason {
                    Some(Word::Failed) => Weight::Failed,
                    _ => Weight::Busy,
                }),
                _ => Some(Weight::NotUnderstood),
            }
        }
    }
}

/// Returns whether a condition says that work is under way, and does not fail.
fn is_work(condition: &Condition<'_>) -> bool {
    condition.holds()
        && words::of(condition.kind) == Some(Word::Busy)
        && words::of(condition.reason) != Some(Word::Failed)
        && words::of(condition.reason) != Some(Word::Good)
}

/// A condition of a good or an unknown type that holds. Its reason may say otherwise.
fn good(kind: Option<Word>, reason: Option<Word>) -> Option<Weight> {
    match (kind, reason) {
        (Some(Word::Good), Some(Word::Failed)) => Some(Weight::Failed),
        (Some(Word::Good), Some(Word::Busy)) => Some(Weight::Busy),
        (Some(Word::Good), _) => Some(Weight::Good),
        _ => None,
    }
}

/// A condition that says that something good is not so: its reason and its message say whether
/// that is a failure.
fn bad(condition: &Condition<'_>, kind: Option<Word>, reason: Option<Word>) -> Weight {
    let fails = words::tells_failure(condition.message);
    match reason {
        Some(Word::Failed) => Weight::Failed,
        Some(Word::Suspended) => Weight::Suspended,
        Some(Word::Busy) => Weight::Busy,
        _ if fails => Weight::NotGood,
        None if kind.is_none() => Weight::Busy,
        _ if words::tells_work(condition.message) => Weight::Busy,
        _ => Weight::NotGood,
    }
}

fn of_word(field: &str, state: &str, object: &Object) -> (Weight, Verdict) {
    let weight = match words::of(state) {
        Some(Word::NotGood) => Weight::Failed,
        Some(word) => Weight::from(word),
        None => Weight::NotUnderstood,
    };
    let message = object.text(&["status", "message"]);
    let text = if message.is_empty() { state } else { message };
    let reason = if weight == Weight::NotUnderstood { "HealthUnknown" } else { state };
    let verdict = Verdict::new(level(weight), reason, text);
    (weight, verdict.field(format!("status.{field}={state}")))
}

/// Collects what parts of an object say that is not well: listeners, environments, children.
fn parts(value: &Value, path: &str, depth: usize, all: &mut Vec<(Weight, Verdict)>) {
    if DEPTH_MAX <= depth || PARTS_MAX <= all.len() {
        return;
    }
    match value {
        Value::Array(items) => {
            for (at, item) in items.iter().take(PARTS_MAX).enumerate() {
                parts(item, &format!("{path}[{at}]"), depth + 1, all);
            }
        }
        Value::Object(fields) => {
            for (name, inner) in fields {
                let path = format!("{path}.{name}");
                if name == "conditions" {
                    if 0 < depth {
                        part_conditions(inner, &path, all);
                    }
                    continue;
                }
                if 0 < depth && STATES[..4].contains(&name.as_str()) || name == "healthStatus" {
                    part_state(inner, &path, all);
                }
                parts(inner, &path, depth + 1, all);
            }
        }
        _ => {}
    }
}

fn part_conditions(list: &Value, path: &str, all: &mut Vec<(Weight, Verdict)>) {
    for condition in conditions(list) {
        let weight = of_condition(&condition).filter(|weight| *weight < Weight::NotUnderstood);
        all.extend(weight.map(|weight| {
            let verdict = Verdict::of(level(weight), &condition);
            let field = format!("{path}: {}", condition.field());
            (weight, verdict.field(field))
        }));
    }
}

fn part_state(value: &Value, path: &str, all: &mut Vec<(Weight, Verdict)>) {
    let state = value.as_str().unwrap_or_default();
    let weight = match words::of(state) {
        Some(Word::Failed | Word::NotGood) => Weight::Failed,
        Some(Word::Busy) => Weight::Busy,
        _ => return,
    };
    let verdict = Verdict::new(level(weight), state, state);
    all.push((weight, verdict.field(format!("{path}={state}"))));
}

fn level(weight: Weight) -> Level {
    match weight {
        Weight::Failed | Weight::NotGood => Level::Error,
        Weight::Busy => Level::Maintenance,
        Weight::NotUnderstood => Level::Waiting,
        Weight::Suspended | Weight::Good => Level::Active,
    }
}
