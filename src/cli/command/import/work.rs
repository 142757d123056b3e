//! Work of a source that was cut off, as an operation of the unit: begun and released by an import,
//! completed or cancelled by a later one. The unit has it as its own operation, so it is never in
//! the way of one of the application, and goes with the unit.

use std::borrow::Cow;

use crate::domain::limits::LABEL_BYTES_MAX;
use crate::domain::message::cut_bytes;
use crate::proto::v1::{Operation, OperationKind, OperationState};

/// The label of an imported status: the operation that an import has begun for its unit. A later
/// import reads the operations of an application only if one of its units has this label.
pub const IMPORTED_OPERATION: &str = "imported-operation";

/// Returns the value of the label for an operation: a label is shorter than an id may be.
pub fn label_of(id: &str) -> Cow<'_, str> {
    cut_bytes(id, LABEL_BYTES_MAX)
}

/// What a document says about the work on a unit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum WorkFacts {
    /// The source knows no work.
    #[default]
    NotStated,
    /// Work that may still go on.
    UnderWay {
        /// The id that its operation has, if it has one.
        id: String,
    },
    /// Work that was cut off.
    CutOff(CutOff),
    /// No work is under way.
    Ended {
        /// The version that is in place.
        in_place: Option<String>,
    },
}

/// Work that was cut off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CutOff {
    /// The id of its operation.
    pub id: String,
    /// The kind of work.
    pub kind: OperationKind,
    /// The version that it leads to.
    pub target: String,
    /// How far it came, for a person.
    pub progress: String,
}

/// What an import does about the operation of a unit.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct WorkPlan<'o> {
    /// The operation that is done.
    pub completed: Option<&'o Operation>,
    /// The operation whose work will not be continued.
    pub cancelled: Option<&'o Operation>,
    /// The work that becomes an operation.
    pub begun: Option<&'o CutOff>,
    /// The id of the operation that is open afterwards, and that an import has to end.
    pub open: Option<String>,
}

/// Decides about the work of a unit. `recorded` is the operation that an earlier import has begun;
/// `operations` are those of the application.
pub fn decide<'o>(
    work: &'o WorkFacts,
    unit: &str,
    recorded: Option<&str>,
    operations: &'o [Operation],
) -> WorkPlan<'o> {
    let own = operations.iter().find(|operation| operation.unit == unit && is_open(operation));
    let recorded =
        own.filter(|own| recorded.is_some_and(|label| label == label_of(&own.operation_id)));
    let plan = match recorded {
        Some(recorded) => end(work, recorded),
        None => WorkPlan::default(),
    };
    match work {
        WorkFacts::CutOff(new)
            if plan.open.is_none() && may_begin(new, &plan, unit, operations) =>
        {
            WorkPlan { begun: Some(new), open: Some(new.id.clone()), ..plan }
        }
        WorkFacts::CutOff(new) if own.is_some_and(|own| own.operation_id == new.id) => {
            WorkPlan { open: Some(new.id.clone()), ..plan }
        }
        _ => plan,
    }
}

/// Decides about an operation that an earlier import has begun.
fn end<'o>(work: &WorkFacts, recorded: &'o Operation) -> WorkPlan<'o> {
    use OperationState::{Interrupted, RetryWait};
    let id = &recorded.operation_id;
    let stays = match work {
        // An operation does not end because a source stops to know of it.
        WorkFacts::NotStated => true,
        WorkFacts::UnderWay { id: of_work } => of_work == id,
        WorkFacts::CutOff(new) => new.id == *id,
        WorkFacts::Ended { .. } => false,
    };
    // A worker that holds it ends it.
    if stays || is_held(recorded) {
        return WorkPlan { open: Some(id.clone()), ..WorkPlan::default() };
    }
    let in_place = match work {
        WorkFacts::Ended { in_place: Some(version) } => *version == recorded.target_version,
        _ => false,
    };
    match recorded.state() {
        Interrupted | RetryWait if in_place => {
            WorkPlan { completed: Some(recorded), ..WorkPlan::default() }
        }
        _ => WorkPlan { cancelled: Some(recorded), ..WorkPlan::default() },
    }
}

/// Returns whether work that was cut off becomes an operation: only once, and not if another
/// operation is open that may be the same work, as one of `bellwether run` is.
fn may_begin(new: &CutOff, plan: &WorkPlan<'_>, unit: &str, operations: &[Operation]) -> bool {
    let is_over = |o: &Operation| plan.cancelled.is_some_and(|c| c.operation_id == o.operation_id);
    operations.iter().filter(|operation| !is_over(operation)).all(|operation| {
        let concerns = operation.unit.is_empty() || operation.unit == unit;
        operation.operation_id != new.id && !(concerns && is_open(operation))
    })
}

/// Returns whether an operation is open, or has failed and was not given up: either is in the way
/// of another one.
pub fn is_open(operation: &Operation) -> bool {
    use OperationState::{Abandoned, Succeeded, Superseded, Unspecified};
    !matches!(operation.state(), Abandoned | Succeeded | Superseded | Unspecified)
}

/// Returns whether a worker holds an operation.
pub fn is_held(operation: &Operation) -> bool {
    use OperationState::{Cancelling, Running, Verifying};
    matches!(operation.state(), Running | Verifying | Cancelling)
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNIT: &str = "release/web";

    fn cut_off(revision: u32) -> WorkFacts {
        WorkFacts::CutOff(CutOff {
            id: format!("helm-web-{revision}"),
            kind: OperationKind::Upgrade,
            target: "web-1.4".to_string(),
            progress: format!("revision {revision}"),
        })
    }

    fn operation(id: &str, unit: &str, state: OperationState) -> Operation {
        Operation {
            operation_id: id.to_string(),
            unit: unit.to_string(),
            target_version: "web-1.4".to_string(),
            state: state.into(),
            ..Operation::default()
        }
    }

    /// Formats a plan: `complete A, cancel B, begin C, open D`.
    fn decided(work: &WorkFacts, recorded: Option<&str>, operations: &[Operation]) -> String {
        let plan = decide(work, UNIT, recorded, operations);
        let of =
            |verb: &str, o: Option<&Operation>| o.map(|o| format!("{verb} {}", o.operation_id));
        let parts = [
            of("complete", plan.completed),
            of("cancel", plan.cancelled),
            plan.begun.map(|new| format!("begin {}", new.id)),
            plan.open.map(|id| format!("open {id}")),
        ];
        parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn work_that_was_cut_off_is_begun_once() {
        use OperationState::{Abandoned, Failed, Interrupted, Running, Succeeded};
        let (label, work) = (Some("helm-web-7"), cut_off(7));
        let own = |state| operation("helm-web-7", UNIT, state);
        for (recorded, operations, expected) in [
            (None, vec![], "begin helm-web-7, open helm-web-7"),
            // An import that ended between its two calls.
            (label, vec![], "begin helm-web-7, open helm-web-7"),
            (None, vec![own(Running)], "open helm-web-7"),
            (label, vec![own(Interrupted)], "open helm-web-7"),
            (label, vec![own(Failed)], "open helm-web-7"),
            // A person has given it up, or finished it.
            (label, vec![own(Abandoned)], ""),
            (label, vec![own(Succeeded)], ""),
            // The work of the application may be the same one, and that of another unit is not.
            (None, vec![operation("helm-1.4", "", Running)], ""),
            (None, vec![operation("helm-1.4", "", Failed)], ""),
            (
                None,
                vec![operation("helm-1.4", "", Succeeded), operation("x", "web/0", Running)],
                "begin helm-web-7, open helm-web-7",
            ),
            (None, vec![operation("mine", UNIT, Interrupted)], ""),
            // A later revision takes the place of an earlier one, unless a worker holds that one.
            (
                Some("helm-web-6"),
                vec![operation("helm-web-6", UNIT, Interrupted)],
                "cancel helm-web-6, begin helm-web-7, open helm-web-7",
            ),
            (Some("helm-web-6"), vec![operation("helm-web-6", UNIT, Running)], "open helm-web-6"),
        ] {
            assert_eq!(decided(&work, recorded, &operations), expected, "{operations:?}");
        }
    }

    #[test]
    fn work_that_ended_is_completed_if_its_target_is_in_place_and_else_cancelled() {
        use OperationState::{Abandoned, Blocked, Failed, Interrupted, Ready, RetryWait, Running};
        let ended =
            |version: Option<&str>| WorkFacts::Ended { in_place: version.map(str::to_string) };
        let under_way = |id: &str| WorkFacts::UnderWay { id: id.to_string() };
        let (done, other) = (ended(Some("web-1.4")), ended(Some("web-1.3")));
        for (work, state, expected) in [
            (&done, Interrupted, "complete helm-web-7"),
            (&done, RetryWait, "complete helm-web-7"),
            (&done, Ready, "cancel helm-web-7"),
            (&done, Failed, "cancel helm-web-7"),
            (&done, Blocked, "cancel helm-web-7"),
            (&done, Abandoned, ""),
            (&done, Running, "open helm-web-7"),
            (&other, Interrupted, "cancel helm-web-7"),
            (&ended(None), Interrupted, "cancel helm-web-7"),
            (&under_way("helm-web-7"), Interrupted, "open helm-web-7"),
            (&under_way("helm-web-8"), Interrupted, "cancel helm-web-7"),
            (&WorkFacts::NotStated, Interrupted, "open helm-web-7"),
        ] {
            let operations = [operation("helm-web-7", UNIT, state)];
            assert_eq!(decided(work, Some("helm-web-7"), &operations), expected, "{state:?}");
            assert_eq!(decided(work, None, &operations), "", "it is not of an import: {state:?}");
        }
    }
}
