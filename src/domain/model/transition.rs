//! Transitions: the record writes, events and in-memory changes of one commit. Replaying a
//! transition gives the same state.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::domain::model::app::Head;
use crate::domain::model::bytes::Bytes;
use crate::domain::model::fault::{Fault, FaultKey};
use crate::domain::model::history::StatusEvent;
use crate::domain::model::mark::{Mark, MarkId};
use crate::domain::model::name::{AppName, OperationId, UnitName};
use crate::domain::model::operation::Operation;
use crate::domain::model::request::Remembered;
use crate::domain::model::revision::Revision;
use crate::domain::model::status::flapping::Swings;
use crate::domain::model::status::{Status, StatusKey};
use crate::domain::model::time::Timestamp;
use crate::domain::model::unit::Unit;

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

    /// Returns whether the transition makes room in the store: it deletes the application, or it
    /// removes at least as many records as it writes. A stored answer does not count.
    pub fn makes_room(&self) -> bool {
        let removed = self.writes.iter().filter(|write| write.is_removal()).count();
        let answers =
            self.writes.iter().filter(|write| matches!(write, Write::Request(_, Some(_))));
        let written = self.writes.len() - removed - answers.count();
        self.is_deletion() || (0 < removed && written <= removed)
    }

    /// Returns the events with their places in the history.
    pub fn placed_events(&self) -> impl Iterator<Item = (EventPlace, &StatusEvent)> {
        let new_own = self.events.iter().filter(|event| event.is_own()).count() as u64;
        let mut own = self.head.own_events.saturating_sub(new_own);
        (self.first_event()..).zip(&self.events).map(move |(number, event)| {
            let is_own = event.is_own();
            let others = number.saturating_sub(own);
            let rank = if is_own { own } else { others };
            own += u64::from(is_own);
            (EventPlace { number, is_own, rank }, event)
        })
    }

    /// Returns whether the transition deletes the application. A transition of an already deleted
    /// application does not.
    pub fn is_deletion(&self) -> bool {
        self.head.deleted && self.moves_revision()
    }
}

/// The place of an event in the history of its application.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventPlace {
    /// The number among all events.
    pub number: u64,
    /// Whether the event is the application's own, see [`StatusEvent::is_own`].
    pub is_own: bool,
    /// The number among the own events, or among the others.
    pub rank: u64,
}

/// A record to write or, with `None`, to remove. A deletion of the application removes all records
/// first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Write {
    /// A unit. Boxed like an answer, because a write of a status is the most frequent one and
    /// smaller.
    Unit(UnitName, Option<Box<Unit>>),
    /// A status.
    Status(Arc<StatusKey>, Option<Arc<Status>>),
    /// An open fault.
    Fault(Arc<FaultKey>, Option<Arc<Fault>>),
    /// A stored answer.
    Request(Arc<str>, Option<Box<Remembered>>),
    /// An operation.
    Operation(OperationId, Option<Arc<Operation>>),
    /// The payload of an operation.
    Payload(OperationId, Option<Bytes>),
    /// A key of the leader's data.
    Data(Arc<str>, Option<Bytes>),
    /// A mark.
    Mark(MarkId, Option<Arc<Mark>>),
}

impl Write {
    /// Returns whether the record is removed.
    pub fn is_removal(&self) -> bool {
        match self {
            Write::Unit(_, value) => value.is_none(),
            Write::Status(_, value) => value.is_none(),
            Write::Fault(_, value) => value.is_none(),
            Write::Request(_, value) => value.is_none(),
            Write::Operation(_, value) => value.is_none(),
            Write::Payload(_, value) => value.is_none(),
            Write::Data(_, value) => value.is_none(),
            Write::Mark(_, value) => value.is_none(),
        }
    }
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
