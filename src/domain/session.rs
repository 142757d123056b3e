//! Presence of units: sessions, contact promises, and the consequences of a broken one.
//!
//! A session costs no writes while nothing changes: the replica that holds it detects silence, and
//! only the holder is stored. A replica's view of a session takes effect by a commit.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::app::Unit;
use super::status::{Kind, Status, StatusKey};
use super::time::Timestamp;

/// Identifies a server process for its lifetime.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct ReplicaId(pub u64);

/// Identifies a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SessionId {
    /// The replica that holds it.
    pub replica: ReplicaId,
    /// Number of the session within that replica, never reused.
    pub number: u64,
}

/// How a unit is expected to keep contact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Presence {
    /// No expectation: the unit reports when it needs to.
    #[default]
    Unbound,
    /// An open session; the replica that holds it detects silence.
    Connected(SessionId),
    /// Contact within this time of the last one: the unit promised it, or its session has closed
    /// and it has this time to open another.
    Promised(Duration),
}

impl Unit {
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
    pub(super) fn is_newer_than(&self, key: &StatusKey, status: &Status) -> bool {
        key.kind == Kind::Pull && status.incarnation < self.incarnation
    }

    /// Returns when time alone changes the unit: it becomes quiet or lost, or a callback is due.
    pub(super) fn deadline(&self) -> Option<Timestamp> {
        let silence = self.silence_deadline();
        silence.into_iter().chain(self.next_callback()).min()
    }

    /// Returns when the unit becomes quiet, or lost, without a report.
    pub(super) fn silence_deadline(&self) -> Option<Timestamp> {
        self.silence_ends.or(match self.presence {
            Presence::Promised(ttl) if self.quiet_since.is_none() && self.lost_since.is_none() => {
                Some(self.last_seen.after(ttl).max(self.not_before))
            }
            _ => None,
        })
    }

    /// Returns this unit after its session closed, with `ttl` for the next contact.
    pub(super) fn expected_within(self, ttl: Duration, now: Timestamp) -> Unit {
        let presence = Presence::Promised(ttl);
        let not_before = Timestamp::default();
        Unit { presence, last_seen: now, not_before, session_ended: true, ..self }
    }

    /// Returns why a unit is lost, as text.
    pub(super) fn why_lost(&self) -> &'static str {
        match self.presence {
            _ if self.departed => "it has left without a successor",
            Presence::Promised(_) if self.session_ended => "no report since its session ended",
            Presence::Promised(_) => "no contact within its ttl",
            Presence::Unbound | Presence::Connected(_) => "silent since its last ttl passed",
        }
    }

    /// Returns by how much the deadline may be later than the stored one: a contact is written only
    /// if it is later than the stored one by this much.
    pub(super) fn unwritten_max(&self) -> Duration {
        match self.presence {
            Presence::Promised(ttl) => ttl / 3,
            _ => Duration::ZERO,
        }
    }

    /// Returns this unit, as another replica wrote it, merged with the local state: that replica
    /// may have older contacts and shorter deadlines.
    pub(super) fn replayed(mut self, known: Option<Unit>) -> Unit {
        self.last_seen_written = self.last_seen;
        let is_same = |u: &Unit| u.incarnation == self.incarnation && u.presence == self.presence;
        if let Some(known) = known.filter(is_same) {
            self.last_seen = self.last_seen.max(known.last_seen);
            self.not_before = self.not_before.max(known.not_before);
            // A unit without an incarnation may have been removed and have begun again.
            if self.incarnation != 0 {
                self.last_answer = self.last_answer.max(known.last_answer);
            }
        }
        self
    }

    /// Returns whether a contact of this incarnation leaves the unit unchanged.
    pub(super) fn is_well(&self, incarnation: u64) -> bool {
        let is_missed = self.lost_since.or(self.uncertain_since).or(self.quiet_since).is_some();
        incarnation <= self.incarnation
            && !is_missed
            && !(self.departed || self.session_ended || self.is_overdue())
            && self.silence_ends.is_none()
    }

    /// Returns whether a contact at `now` must be written.
    pub(super) fn is_news(&self, now: Timestamp) -> bool {
        let unwritten_max = self.unwritten_max();
        !unwritten_max.is_zero() && unwritten_max <= now.since(self.last_seen_written)
    }
}
