//! Transitions: the record writes, events and in-memory changes of one commit. Replaying a
//! transition gives the same state.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::app::{Head, Unit};
use super::bytes::Bytes;
use super::damping::flapping::Swings;
use super::fault::{Fault, FaultKey};
use super::limits::CHANGE_BYTES_MAX;
use super::name::{AppName, OperationId, PartName, UnitName};
use super::operation::Operation;
use super::request::Remembered;
use super::revision::Revision;
use super::status::{Freshness, Kind, Level, Status, StatusKey};
use super::time::Timestamp;

/// A change of one application from one revision to the next, or at one revision if no visible
/// value changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transition {
    /// The application.
    pub app: AppName,
    /// The revision that the transition is based on; the store rejects it at any other.
    pub base: Revision,
    /// The number of quiet commits that it is based on; see [`Head::quiet_commits`].
    pub base_quiet: u64,
    /// The epoch floor, see [`AppState::epoch_floor`](super::app::AppState::epoch_floor); the
    /// store rejects the transition if its own floor is different.
    pub epoch_floor: u64,
    /// The head after the transition; `head.revision` is `base` if no visible value changed.
    pub head: Arc<Head>,
    /// Records to write or remove.
    pub writes: Vec<Write>,
    /// Events to add to the history.
    pub events: Vec<StatusEvent>,
    /// Changes kept in memory only: deadlines moved by a repeat, contacts, results without a level
    /// change.
    pub memory_only: MemoryOnly,
    /// Time of the decision, by the store's clock.
    pub time: Timestamp,
}

impl Transition {
    /// Returns whether the store must write anything.
    pub fn is_durable(&self) -> bool {
        self.moves_revision() || !self.writes.is_empty()
    }

    /// Returns whether a visible value changed.
    pub fn moves_revision(&self) -> bool {
        self.head.revision != self.base
    }

    /// Returns the number of the first event; the others follow it.
    pub fn first_event(&self) -> u64 {
        self.head.next_event - self.events.len() as u64
    }

    /// Returns whether the transition deletes the application. A transition of an already deleted
    /// application does not.
    pub fn is_deletion(&self) -> bool {
        self.head.deleted && self.moves_revision()
    }
}

/// A record to write or, with `None`, to remove. A deletion of the application removes all records
/// first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Write {
    /// A unit.
    Unit(UnitName, Option<Unit>),
    /// A status.
    Status(Arc<StatusKey>, Option<Arc<Status>>),
    /// An open fault.
    Fault(Arc<FaultKey>, Option<Arc<Fault>>),
    /// A stored answer.
    Request(Arc<str>, Option<Remembered>),
    /// An operation.
    Operation(OperationId, Option<Arc<Operation>>),
    /// The payload of an operation.
    Payload(OperationId, Option<Bytes>),
    /// A key of the leader's data.
    Data(Arc<str>, Option<Bytes>),
}

/// The changes of a report that are not stored.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryOnly {
    /// Units that made contact.
    pub units: Vec<UnitName>,
    /// Repeated statuses with their new deadline.
    pub deadlines: Vec<(Arc<StatusKey>, Timestamp)>,
    /// Units that answered a pull of all their statuses.
    #[serde(default)]
    pub answers: Vec<UnitName>,
    /// Damped statuses with a result of the same level as the one before.
    #[serde(default)]
    pub swings: Vec<(Arc<StatusKey>, Swings)>,
}

/// The cause of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cause {
    /// A report.
    Reported,
    /// A new pull set did not contain the status.
    Replaced,
    /// The status was cleared.
    Cleared,
    /// The ttl passed.
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
    /// The store may have lost the unit's last reports.
    Doubted,
    /// A new incarnation of the unit has begun.
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
    /// A former leader set the status.
    LeaderEnded,
}

/// The subject of an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subject {
    /// The unit; `""` for the leader's status.
    pub unit: UnitName,
    /// The component.
    pub component: PartName,
    /// The key.
    pub key: PartName,
    /// The kind; `None` for the unit as a whole, for the leader's status and for an operation.
    pub kind: Option<Kind>,
    /// The target of a fault. Not written if empty.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub target: Box<str>,
}

impl Subject {
    /// Returns the subject for a unit as a whole, or with `""` for the leader's status.
    pub fn unit(unit: &UnitName) -> Subject {
        Subject {
            unit: unit.clone(),
            component: PartName::default(),
            key: PartName::default(),
            kind: None,
            target: Box::default(),
        }
    }

    /// Returns the subject for an operation.
    pub fn operation(id: &OperationId) -> Subject {
        Subject {
            unit: UnitName::application(),
            component: PartName::operation(),
            key: id.as_key(),
            kind: None,
            target: Box::default(),
        }
    }

    /// Returns the subject for a status.
    pub fn status(key: &StatusKey) -> Subject {
        Subject {
            unit: key.unit.clone(),
            component: key.component.clone(),
            key: key.key.clone(),
            kind: Some(key.kind),
            target: Box::default(),
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
