//! The history of an application: events of its visible changes, each with its cause. A change of
//! numbers in a text, of an order or of a waiting position adds none.

use serde::{Deserialize, Serialize};

use crate::domain::level::Level;
use crate::domain::model::limits::CHANGE_BYTES_MAX;
use crate::domain::model::name::{OperationId, PartName, UnitName};
use crate::domain::model::revision::Revision;
use crate::domain::model::status::{Freshness, Kind, StatusKey};
use crate::domain::model::time::Timestamp;

/// The cause of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cause {
    /// A report.
    Reported,
    /// A new pull set did not contain the status.
    Replaced,
    /// The status was cleared.
    Cleared,
    /// The ttl of a status passed, or the time of a promised contact.
    Expired,
    /// The unit was silent for too long.
    UnitLost,
    /// The unit reported again.
    UnitReturned,
    /// The unit was removed.
    UnitRemoved,
    /// The configuration changed.
    Configured,
    /// The leader set the status.
    LeaderSet,
    /// The leader withdrew the status.
    LeaderCleared,
    /// The application was deleted.
    Deleted,
    /// The derived status changed as a result.
    Derived,
    /// The store may have lost the last reports of the unit, or a later lease of the leader.
    Doubted,
    /// A new incarnation of the unit has begun, which also ends what the one before reported after
    /// it announced its stop.
    UnitReplaced,
    /// The status passed from a leaving unit to its successor.
    HandedOver,
    /// The status began to flap, so the worst report stays visible.
    FlappingBegan,
    /// The flapping ended, and the last report is visible again.
    FlappingEnded,
    /// An operation changed its state.
    Operation,
    /// A unit met an error.
    ErrorReported,
    /// A fault reached its next stage.
    FaultPersists,
    /// The failed target works again.
    ErrorResolved,
    /// An operator released a hold to retry.
    HoldRetried,
    /// An operator released a hold without the failed target.
    HoldSkipped,
    /// A unit leads because it requested it.
    LeaderClaimed,
    /// A unit leads because an operator decided so.
    LeaderTransferred,
    /// A unit leads no longer: it stepped back, or left.
    LeaderReleased,
    /// A unit leads no longer: it did not renew its lease.
    LeaderExpired,
    /// The lease of the leader that set the status ended.
    LeaderEnded,
    /// The worker of a unit announced that it stops.
    UnitStopping,
    /// The end of a status has come.
    Ended,
    /// An operator set a mark, or changed it.
    MarkSet,
    /// The start of a mark has come.
    MarkBegan,
    /// A mark ended.
    MarkEnded,
}

/// The subject of an event.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Subject {
    /// The unit; `""` for the application itself.
    pub unit: UnitName,
    /// The component.
    pub component: PartName,
    /// The key.
    pub key: PartName,
    /// The kind of a status; `None` for a unit as a whole, the leader's status, an operation or a
    /// fault.
    pub kind: Option<Kind>,
    /// The target of a fault. Not written if empty.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub target: Box<str>,
}

impl Subject {
    /// Returns the subject for a unit as a whole, or with `""` for the leader's status.
    pub fn unit(unit: &UnitName) -> Subject {
        Subject { unit: unit.clone(), ..Subject::default() }
    }

    /// Returns the subject for an operation of a unit, or with `""` of the application.
    pub fn operation(unit: &UnitName, id: &OperationId) -> Subject {
        Subject {
            unit: unit.clone(),
            component: PartName::operation(),
            key: id.as_key(),
            ..Subject::default()
        }
    }

    /// Returns the subject for a status.
    pub fn status(key: &StatusKey) -> Subject {
        Subject {
            unit: key.unit.clone(),
            component: key.component.clone(),
            key: key.key.clone(),
            kind: Some(key.kind),
            ..Subject::default()
        }
    }
}

/// One event of the history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatusEvent {
    /// Time.
    pub time: Timestamp,
    /// The revision of the change.
    pub revision: Revision,
    /// The changed subject; `None` for the status of the application.
    pub subject: Option<Subject>,
    /// Level before, if there was one.
    pub from: Option<Level>,
    /// Level after, if there is one.
    pub to: Option<Level>,
    /// Message after.
    pub message: Box<str>,
    /// Reason after.
    pub reason: Box<str>,
    /// Freshness after.
    pub freshness: Freshness,
    /// The cause.
    pub cause: Cause,
    /// Other changed values. Not written if empty, so that the stored form of most events is
    /// unchanged.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<Change>,
}

/// A value that changed with an event: a setting, the leader, a hold, the state of an operation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// Name of the value on the wire: `policy`, `leader`, `hold`.
    pub field: Box<str>,
    /// Value before, at most [`CHANGE_BYTES_MAX`] bytes; empty if there was none.
    pub from: Box<str>,
    /// Value after, at most [`CHANGE_BYTES_MAX`] bytes; empty if there is none.
    pub to: Box<str>,
}

impl Change {
    /// Returns a change, with its texts cut to the limit.
    pub fn new(field: &str, from: &str, to: &str) -> Change {
        Change { field: field.into(), from: cut(from).into(), to: cut(to).into() }
    }
}

/// Returns the start of a text, at most [`CHANGE_BYTES_MAX`] bytes.
fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(CHANGE_BYTES_MAX)]
}

/// Bytes of an event beside its texts.
const LINE_BYTES: u64 = 128;

impl StatusEvent {
    /// Returns whether the event is the application's own: about its derived status, its
    /// configuration, its leaders, its marks or its operations. These have a budget of their own,
    /// so that no noise of a status evicts them, be it of a unit or of the leader.
    pub fn is_own(&self) -> bool {
        let is_of_application = |subject: &Subject| subject.unit.is_application();
        match self.cause {
            Cause::LeaderClaimed
            | Cause::LeaderTransferred
            | Cause::LeaderReleased
            | Cause::LeaderExpired
            | Cause::LeaderEnded
            | Cause::MarkSet
            | Cause::MarkBegan
            | Cause::MarkEnded => true,
            Cause::Doubted => self.subject.is_none() || self.is_about_leader(),
            Cause::Operation => self.subject.as_ref().is_none_or(is_of_application),
            _ => self.subject.is_none(),
        }
    }

    /// Returns whether the leader changed with the event.
    pub fn is_about_leader(&self) -> bool {
        self.changes.iter().any(|change| &*change.field == "leader")
    }

    /// Returns an event with only a time, a revision and a cause.
    pub(in crate::domain) fn new(time: Timestamp, revision: Revision, cause: Cause) -> StatusEvent {
        StatusEvent {
            time,
            revision,
            subject: None,
            from: None,
            to: None,
            message: "".into(),
            reason: "".into(),
            freshness: Freshness::Fresh,
            cause,
            changes: Vec::new(),
        }
    }

    /// Returns this event with a unit as a whole as its subject, or with `""` the leader's status.
    pub(in crate::domain) fn of_unit(self, unit: &UnitName) -> StatusEvent {
        StatusEvent { subject: Some(Subject::unit(unit)), ..self }
    }

    /// Returns the estimated bytes of the event.
    pub(in crate::domain) fn size(&self) -> u64 {
        LINE_BYTES + (self.message.len() + self.reason.len()) as u64
    }
}
