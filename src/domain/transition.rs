//! What one commit changes: record writes, history, and what to tell others. Replaying it gives the
//! same state.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::app::{Head, Unit};
use super::bytes::Bytes;
use super::fault::{Fault, FaultKey};
use super::flapping::Swings;
use super::limits::CHANGE_BYTES_MAX;
use super::name::{AppName, OperationId, PartName, UnitName};
use super::operation::Operation;
use super::request::Remembered;
use super::revision::Revision;
use super::status::{Freshness, Kind, Level, Status, StatusKey};
use super::time::Timestamp;

/// A change of one application from one revision to the next, or at one revision if nobody needs to
/// be told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transition {
    /// Which application.
    pub app: AppName,
    /// The revision it was decided on; the store refuses it at any other.
    pub base: Revision,
    /// How many quiet commits there had been; see [`Head::quiet_commits`].
    pub base_quiet: u64,
    /// See [`AppState::counts_above`](super::app::AppState::counts_above); the store refuses the
    /// transition where another number applies.
    pub counts_above: u64,
    /// The head after it; `head.revision` is `base` if nothing that is shown changed.
    pub head: Arc<Head>,
    /// Records to write or remove.
    pub writes: Vec<Write>,
    /// What to add to the history.
    pub events: Vec<StatusEvent>,
    /// Deadlines that a repeat moved, who was heard, results that say nothing new: kept in memory
    /// only.
    pub heard: Heard,
    /// When it was decided, by the store's clock.
    pub time: Timestamp,
}

impl Transition {
    /// Whether there is anything for the store to do.
    pub fn is_durable(&self) -> bool {
        self.moves_revision() || !self.writes.is_empty()
    }

    /// Whether anything that is shown changed.
    pub fn moves_revision(&self) -> bool {
        self.head.revision != self.base
    }

    /// Number of its first event; the others follow it.
    pub fn first_event(&self) -> u64 {
        self.head.next_event - self.events.len() as u64
    }

    /// Whether it removes the application; what leaves a deleted one as it is does not.
    pub fn is_deletion(&self) -> bool {
        self.head.deleted && self.moves_revision()
    }
}

/// One record written or, with `None`, removed. A deletion of the application removes all records
/// first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Write {
    /// A unit.
    Unit(UnitName, Option<Unit>),
    /// A status.
    Status(Arc<StatusKey>, Option<Arc<Status>>),
    /// An open fault.
    Fault(Arc<FaultKey>, Option<Arc<Fault>>),
    /// A remembered answer.
    Request(Arc<str>, Option<Remembered>),
    /// An operation.
    Operation(OperationId, Option<Arc<Operation>>),
    /// The payload of an operation.
    Payload(OperationId, Option<Bytes>),
    /// A key of the leader's data.
    Data(Arc<str>, Option<Bytes>),
}

/// What a report changes without a trace in the store.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heard {
    /// Units that spoke.
    pub units: Vec<UnitName>,
    /// Statuses that were repeated, with their new deadline.
    pub deadlines: Vec<(Arc<StatusKey>, Timestamp)>,
    /// Units that said all there is to pull.
    #[serde(default)]
    pub answers: Vec<UnitName>,
    /// Damped statuses of which a result had the same level as the one before.
    #[serde(default)]
    pub swings: Vec<(Arc<StatusKey>, Swings)>,
}

/// Why something moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cause {
    /// A report said so.
    Reported,
    /// A new pull set did not have it.
    Replaced,
    /// It was cleared.
    Cleared,
    /// Its ttl passed.
    Expired,
    /// Its unit was silent for too long.
    UnitLost,
    /// Its unit spoke again.
    UnitReturned,
    /// Its unit was removed.
    UnitRemoved,
    /// The configuration changed.
    Configured,
    /// The leader set it.
    LeaderSet,
    /// The leader withdrew it.
    LeaderCleared,
    /// The application was deleted.
    Deleted,
    /// It follows from the rest.
    Derived,
    /// The store may have lost what the unit said last.
    Doubted,
    /// A new incarnation of the unit has begun.
    UnitReplaced,
    /// It passed from a unit that left to its successor.
    HandedOver,
    /// Its level moves so often that the worse one stays.
    FlappingBegan,
    /// It is shown again as it was said last.
    FlappingEnded,
    /// An operation moved.
    Operation,
    /// An error was met.
    ErrorReported,
    /// An error has been met for so long, or so often, that it shows.
    FaultPersists,
    /// What failed works.
    ErrorResolved,
    /// An operator let a component try again.
    HoldRetried,
    /// An operator let a component go on without what failed.
    HoldSkipped,
    /// It leads: it asked to.
    LeaderClaimed,
    /// It leads: an operator decided so.
    LeaderTransferred,
    /// It leads no longer: it stepped back, or left.
    LeaderReleased,
    /// It leads no longer: it did not renew its lease.
    LeaderExpired,
    /// Set by a leader that leads no longer.
    LeaderEnded,
}

/// What an event is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subject {
    /// The unit; `""` for what the leader set.
    pub unit: UnitName,
    /// The component.
    pub component: PartName,
    /// The key.
    pub key: PartName,
    /// The kind; `None` for the unit as a whole, for what the leader set and for an operation.
    pub kind: Option<Kind>,
    /// What was asked or acted on, of an error that is open. Not written if empty.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub target: Box<str>,
}

impl Subject {
    /// A unit as a whole, or with `""` what the leader set.
    pub fn unit(unit: &UnitName) -> Subject {
        Subject {
            unit: unit.clone(),
            component: PartName::default(),
            key: PartName::default(),
            kind: None,
            target: Box::default(),
        }
    }

    /// An operation.
    pub fn operation(id: &OperationId) -> Subject {
        Subject {
            unit: UnitName::application(),
            component: PartName::operation(),
            key: id.as_key(),
            kind: None,
            target: Box::default(),
        }
    }

    /// A status.
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

/// One line of history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatusEvent {
    /// When.
    pub time: Timestamp,
    /// With which revision.
    pub revision: Revision,
    /// What moved; `None` for the status of the application.
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
    /// Why it moved.
    pub cause: Cause,
    /// What moved beside the level. Not written if empty, so that most events keep their bytes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<Change>,
}

/// A value that an event moved: a setting, the leader, a hold, the state of an operation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// Which value, as the wire names it: `policy`, `leader`, `hold`.
    pub field: Box<str>,
    /// Value before, at most [`CHANGE_BYTES_MAX`] bytes; empty if there was none.
    pub from: Box<str>,
    /// Value after, at most [`CHANGE_BYTES_MAX`] bytes; empty if there is none.
    pub to: Box<str>,
}

impl Change {
    /// A value that moved, its texts cut to their limit.
    pub fn new(field: &str, from: &str, to: &str) -> Change {
        Change { field: field.into(), from: cut(from).into(), to: cut(to).into() }
    }
}

/// The start of a text, at most [`CHANGE_BYTES_MAX`] bytes of it.
fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(CHANGE_BYTES_MAX)]
}
