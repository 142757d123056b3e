//! Units: their records, the contact that they promised, and the callbacks that they requested.
//!
//! A callback is part of the unit's record, so it outlives sessions and servers. Once it is due,
//! the replica that holds the unit's session notifies the worker, and notifies it again in each new
//! session until the callback is cancelled. The server plans the retry of a target; the worker
//! requests a callback with a key of its own.

pub mod departure;
pub mod presence;
pub mod refused;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::domain::model::name::{PartName, UnitName};
use crate::domain::model::operation::words::OperationStatus;
use crate::domain::model::revision::Revision;
use crate::domain::model::status::{Freshness, Kind, Status, StatusKey};
use crate::domain::model::time::Timestamp;
use crate::domain::model::unit::departure::Departure;
use crate::domain::model::unit::presence::{Presence, SessionId};

/// The state of a unit beside its statuses.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Unit {
    /// The newest incarnation; 0 if the unit never gave one.
    pub incarnation: u64,
    /// Last contact; the stored value is as of the last other change of the record.
    pub last_seen: Timestamp,
    /// Number of statuses.
    pub status_count: u32,
    /// Number of statuses with a ttl.
    pub ttl_count: u32,
    /// Number of statuses past their ttl.
    pub stale_count: u32,
    /// Since when at least one status is past its ttl.
    pub stale_since: Option<Timestamp>,
    /// When the unit is lost if it does not report before. Of a lost stateless unit: when it is
    /// removed if as many successors are fresh.
    pub silence_ends: Option<Timestamp>,
    /// Since when the unit is lost.
    pub lost_since: Option<Timestamp>,
    /// Since when the unit is uncertain: the store may have lost its last reports.
    #[serde(default)]
    pub uncertain_since: Option<Timestamp>,
    /// How the unit is expected to keep contact.
    #[serde(default)]
    pub presence: Presence,
    /// Since when an expected contact is missing.
    #[serde(default)]
    pub quiet_since: Option<Timestamp>,
    /// Whether the unit gets a new name each time it is replaced.
    #[serde(default)]
    pub stateless: bool,
    /// Labels that the unit gave.
    #[serde(default)]
    pub labels: BTreeMap<Box<str>, Box<str>>,
    /// When the incarnation began.
    #[serde(default)]
    pub began: Timestamp,
    /// Number of statuses pulled from an earlier incarnation: the last known ones until the unit
    /// answers a pull.
    #[serde(default)]
    pub outlived_count: u32,
    /// Whether the unit is about to go, or has gone.
    #[serde(default)]
    pub departure: Departure,
    /// When the unit last answered a pull of all its statuses; the stored value is as of the last
    /// other change of the record.
    #[serde(default)]
    pub last_answer: Timestamp,
    /// The callbacks that the unit has requested, with their times.
    #[serde(default)]
    pub callbacks: Callbacks,
    /// Whether the session has ended without a report since.
    #[serde(default)]
    pub session_ended: bool,
    /// Position among the units that wait to lead.
    #[serde(default)]
    pub candidate: Option<u64>,
    /// Revision at which the newest session was opened; 0 if that is not known. It stays after the
    /// end of the session, so that no older session can follow it.
    #[serde(default)]
    pub session_since: Revision,
    /// The status that the latest operation of the unit contributes. Not written if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<Box<OperationStatus>>,
    /// The stored value of `last_seen`.
    #[serde(skip)]
    pub last_seen_written: Timestamp,
    /// Deadlines of this unit do not fire before this time, because other replicas may have newer
    /// contacts. In a record that begins a new promise, the zero
    /// time, which ends an earlier bound.
    #[serde(skip)]
    pub not_before: Option<Timestamp>,
}

impl Unit {
    /// Returns whether the unit broke every promise of contact or repetition, so that `lost_after`
    /// counts from now. A unit with an open session is never overdue: its session detects silence.
    pub(in crate::domain) fn is_overdue(&self) -> bool {
        match self.presence {
            Presence::Connected(_) => false,
            Presence::Promised(_) => self.quiet_since.is_some(),
            Presence::Unbound => 0 < self.ttl_count && self.stale_count == self.ttl_count,
        }
    }

    /// Returns the freshness of the unit's last reports. Uncertain goes before lost, because the
    /// store may be wrong about the loss of the unit too.
    pub fn freshness(&self) -> Freshness {
        let is_stale =
            self.stale_count != 0 || self.quiet_since.is_some() || self.outlived_count != 0;
        match (self.uncertain_since, self.lost_since) {
            (Some(_), _) => Freshness::Uncertain,
            (None, Some(_)) => Freshness::Lost,
            (None, None) if is_stale => Freshness::Stale,
            (None, None) => Freshness::Fresh,
        }
    }

    /// Returns whether the unit itself contributes beside its statuses and faults, or keeps them
    /// from contributing.
    pub(in crate::domain) fn has_rank(&self) -> bool {
        !self.is_believed() || self.operation.is_some()
    }

    /// Returns whether the unit's last reports contribute: the unit is neither lost nor uncertain.
    pub fn is_believed(&self) -> bool {
        self.lost_since.is_none() && self.uncertain_since.is_none()
    }

    /// Returns whether the unit departed for good while its pushed statuses wait for a successor.
    pub fn has_departed(&self) -> bool {
        self.departure == Departure::Departed
    }

    /// Returns whether the worker of the unit announced that it stops.
    pub fn is_stopping(&self) -> bool {
        matches!(self.departure, Departure::Stopping(_))
    }

    /// Returns the unit's session, if it has one.
    pub fn session(&self) -> Option<SessionId> {
        match self.presence {
            Presence::Connected(session) => Some(session),
            Presence::Unbound | Presence::Promised(_) => None,
        }
    }

    /// Returns whether a status was pulled from an earlier incarnation and is only the last known
    /// one.
    pub fn has_outlived(&self, key: &StatusKey, status: &Status) -> bool {
        self.outlived_count != 0 && self.is_newer_than(key, status)
    }

    /// Returns whether an earlier incarnation supplied a pulled status.
    pub(in crate::domain) fn is_newer_than(&self, key: &StatusKey, status: &Status) -> bool {
        key.kind == Kind::Pull && status.incarnation < self.incarnation
    }

    /// Returns the time within which the unit has promised contact, unless the promise is broken.
    pub(in crate::domain) fn promise(&self) -> Option<Duration> {
        match self.presence {
            Presence::Promised(ttl) if self.quiet_since.is_none() && self.lost_since.is_none() => {
                Some(ttl)
            }
            _ => None,
        }
    }

    /// Returns this unit after its session closed, with `ttl` for the next contact.
    pub(in crate::domain) fn expected_within(self, ttl: Duration, now: Timestamp) -> Unit {
        let presence = Presence::Promised(ttl);
        let not_before = Some(Timestamp::default());
        Unit { presence, last_seen: now, not_before, session_ended: true, ..self }
    }

    /// Returns why a unit is lost, as text.
    pub(in crate::domain) fn why_lost(&self) -> &'static str {
        match self.presence {
            _ if self.has_departed() => "it has left without a successor",
            _ if self.is_stopping() => "it announced its stop and has not come back",
            Presence::Promised(_) if self.session_ended => "no report since its session ended",
            Presence::Promised(_) => "no contact within its ttl",
            Presence::Unbound | Presence::Connected(_) => "silent since its last ttl passed",
        }
    }

    /// Returns by how much the deadline may be later than the stored one: a contact is written only
    /// if it is later than the stored one by this much.
    pub(in crate::domain) fn unwritten_max(&self) -> Duration {
        match self.presence {
            Presence::Promised(ttl) => ttl / 3,
            _ => Duration::ZERO,
        }
    }

    /// Returns this unit, as another replica wrote it, merged with the local state: that replica
    /// may have older contacts and shorter deadlines.
    pub(in crate::domain) fn replayed(mut self, known: Option<Unit>) -> Unit {
        self.last_seen_written = self.last_seen;
        let is_same = |u: &Unit| u.incarnation == self.incarnation && u.presence == self.presence;
        if let Some(known) = known.filter(is_same) {
            self.last_seen = self.last_seen.max(known.last_seen);
            // A commit may end a promise and begin another of the same length.
            if self.not_before != Some(Timestamp::default()) {
                self.not_before = self.not_before.max(known.not_before);
            }
            // A unit without an incarnation may have been removed and have begun again.
            if self.incarnation != 0 {
                self.last_answer = self.last_answer.max(known.last_answer);
            }
        }
        self.not_before = self.not_before.filter(|at| *at != Timestamp::default());
        self
    }

    /// Returns whether a contact of this incarnation leaves the unit unchanged.
    pub(in crate::domain) fn is_well(&self, incarnation: u64) -> bool {
        let is_missed = self.lost_since.or(self.uncertain_since).or(self.quiet_since).is_some();
        incarnation <= self.incarnation
            && !is_missed
            && !(self.has_departed() || self.session_ended || self.is_overdue())
            && self.silence_ends.is_none()
    }

    /// Returns whether a contact at `now` must be written.
    pub(in crate::domain) fn is_news(&self, now: Timestamp) -> bool {
        let unwritten_max = self.unwritten_max();
        !unwritten_max.is_zero() && unwritten_max <= now.since(self.last_seen_written)
    }

    /// Returns the time of the next callback that is not due yet.
    pub(in crate::domain) fn next_callback(&self) -> Option<Timestamp> {
        let open = self.callbacks.values().filter(|callback| !callback.due);
        open.map(|callback| callback.at).min()
    }

    /// Returns the due callbacks: the worker is notified of each until it is cancelled.
    pub fn due_callbacks(&self) -> impl Iterator<Item = (&Topic, &Callback)> {
        self.callbacks.iter().filter(|(_, callback)| callback.due)
    }
}

/// The subject of a callback: one target of a component of the unit, or a key that the worker
/// chose.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Topic {
    /// The component.
    pub component: PartName,
    /// The target that the component asks or acts on; `""` with a key.
    pub target: Box<str>,
    /// The key of a callback that the worker requested; `None` for a retry. Not written then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<PartName>,
}

impl Topic {
    /// Returns the topic of a retry.
    pub fn retry(component: PartName, target: &str) -> Topic {
        Topic { component, target: target.into(), key: None }
    }

    /// Returns the topic of a callback that a worker requests.
    pub fn requested(component: PartName, key: PartName) -> Topic {
        Topic { component, target: "".into(), key: Some(key) }
    }

    /// Returns whether the worker requests the callbacks of this topic.
    pub(in crate::domain) fn is_requested(&self) -> bool {
        self.key.is_some()
    }
}

/// A callback: one that the worker requested, or a retry that the server planned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Callback {
    /// When the worker is notified.
    pub at: Timestamp,
    /// The operation of the callback; `""` if there is none.
    pub operation_id: Box<str>,
    /// Whether the time has come.
    pub due: bool,
    /// The request of the worker; `None` for a retry. Not written then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<CallbackRequest>,
}

/// What a worker said when it requested a callback.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallbackRequest {
    /// The time of the request.
    pub time: Timestamp,
    /// The reason, for people; at most 253 bytes.
    pub reason: Box<str>,
}

/// The callbacks of one unit.
pub type Callbacks = BTreeMap<Topic, Callback>;

/// The sender of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reporter {
    /// The unit.
    pub unit: UnitName,
    /// Its incarnation, if given.
    pub incarnation: Option<u64>,
    /// The session in which the command arrives, if any. Only the newest session is valid.
    pub session: Option<SessionId>,
}

impl Reporter {
    /// Returns a sender outside of any session.
    pub fn new(unit: UnitName, incarnation: Option<u64>) -> Reporter {
        Reporter { unit, incarnation, session: None }
    }
}

/// A unit that begins or continues an incarnation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Newcomer {
    /// The unit.
    pub unit: UnitName,
    /// The incarnation to continue; `None` begins a new one.
    pub incarnation: Option<u64>,
    /// Whether the unit gets a new name each time it is replaced.
    pub stateless: bool,
    /// Labels that the unit gives.
    pub labels: BTreeMap<Box<str>, Box<str>>,
}
