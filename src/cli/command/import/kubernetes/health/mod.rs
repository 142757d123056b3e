//! The health of an object, in the order in which kstatus decides it: what all objects have, the
//! rules of its kind, its conditions, and words. What none of them recognises is never active.

mod builtin;
mod container;
mod delivery;
mod generic;
pub mod kstatus;
mod pod;
mod refusal;
pub mod verdict;
mod words;

use jiff::Timestamp;

use crate::cli::command::import::kubernetes::health::kstatus::{Found, State};
use crate::cli::command::import::kubernetes::health::verdict::Verdict;
use crate::cli::command::import::kubernetes::object::Object;
use crate::proto::v1::Level;

/// What a container of a pod says, beside the pod as a whole.
pub type OfContainer = (String, Verdict);

/// Returns the health of an object.
pub fn assess(object: &Object, now: Timestamp) -> Verdict {
    if let Some(verdict) = terminating(object, now) {
        return verdict;
    }
    delivery::assess(object)
        .or_else(|| builtin::assess(object, now))
        .unwrap_or_else(|| generic::assess(object))
}

/// Returns what the containers of a pod say that is not well.
pub fn containers(object: &Object) -> Vec<OfContainer> {
    let is_pod = object.kind() == "Pod" && object.group().is_empty();
    let is_there = object.text(&["metadata", "deletionTimestamp"]).is_empty();
    if is_pod && is_there { pod::containers(object) } else { Vec::new() }
}

/// Returns the verdict on an object that is being deleted: after its time, a person has to find out
/// who does not remove its finalizers.
pub fn terminating(object: &Object, now: Timestamp) -> Option<Verdict> {
    let field = "metadata.deletionTimestamp";
    if object.text(&["metadata", "deletionTimestamp"]).is_empty() {
        return None;
    }
    // The time already includes the grace period.
    let end = object.time(&["metadata", "deletionTimestamp"]);
    let finalizers: Vec<&str> =
        object.list(&["metadata", "finalizers"]).iter().filter_map(|name| name.as_str()).collect();
    if end.is_some_and(|end| end < now) && !finalizers.is_empty() {
        let names = finalizers.join(", ");
        let message = format!("deleted, and kept by its finalizers: {names}");
        let action = format!("find out why these are not removed: {names}");
        let verdict = Verdict::new(Level::Blocked, "Terminating", &message);
        return Some(verdict.action(action).field(field).since(end));
    }
    let verdict = Verdict::new(Level::Maintenance, "Terminating", "being deleted");
    Some(verdict.field(field).since(end.filter(|end| *end < now)))
}

/// Returns the verdict for a state that kstatus found.
pub fn of_state(found: Found) -> Verdict {
    let level = match found.state {
        State::Current => Level::Active,
        State::InProgress | State::Terminating => Level::Maintenance,
        State::Failed => Level::Error,
    };
    Verdict::new(level, &found.reason, &found.message).field(found.field)
}
