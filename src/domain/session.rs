//! Who is expected to be heard, and by whom: sessions, promises, and what follows when they are
//! broken.
//!
//! A session costs no writes while nothing changes: the replica that holds it listens, and only
//! where it is held is written. What a replica believes of a session becomes true by a commit.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::app::Unit;
use super::status::{Kind, Status, StatusKey};
use super::time::Timestamp;

/// Names a process that serves, for as long as it runs.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct ReplicaId(pub u64);

/// Names a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SessionId {
    /// The replica that holds it.
    pub replica: ReplicaId,
    /// Which of that replica's, never used twice.
    pub number: u64,
}

/// How a unit is expected to be heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Presence {
    /// It speaks when it has something to say.
    #[default]
    Unbound,
    /// It holds a session; whoever holds the other end hears it.
    Connected(SessionId),
    /// It is to be heard within this time of when it was last heard: so it promised, or its session
    /// has ended and it is given the time to open another.
    Promised(Duration),
}

impl Unit {
    /// The session it holds, if it holds one.
    pub fn session(&self) -> Option<SessionId> {
        match self.presence {
            Presence::Connected(session) => Some(session),
            Presence::Unbound | Presence::Promised(_) => None,
        }
    }

    /// Whether a status is what an incarnation before this one pulled: the last known.
    pub fn has_outlived(&self, key: &StatusKey, status: &Status) -> bool {
        self.outlived_count != 0 && self.is_newer_than(key, status)
    }

    /// Whether a status was pulled by an incarnation before this one.
    pub(super) fn is_newer_than(&self, key: &StatusKey, status: &Status) -> bool {
        key.kind == Kind::Pull && status.incarnation < self.incarnation
    }

    /// When time alone changes it: it is quiet if its promise passes, and lost if it then stays
    /// silent; and it is to be told what it was promised.
    pub(super) fn deadline(&self) -> Option<Timestamp> {
        let silence = self.silence_deadline();
        silence.into_iter().chain(self.next_callback()).min()
    }

    /// When it is quiet, or lost, if it says nothing until then.
    pub(super) fn silence_deadline(&self) -> Option<Timestamp> {
        self.silence_ends.or(match self.presence {
            Presence::Promised(ttl) if self.quiet_since.is_none() && self.lost_since.is_none() => {
                Some(self.last_seen.after(ttl).max(self.not_before))
            }
            _ => None,
        })
    }

    /// This unit without the session it had, given the time to be heard again.
    pub(super) fn expected_within(self, ttl: Duration, now: Timestamp) -> Unit {
        let presence = Presence::Promised(ttl);
        let not_before = Timestamp::default();
        Unit { presence, last_seen: now, not_before, session_ended: true, ..self }
    }

    /// What a lost unit was silent after, in words.
    pub(super) fn why_lost(&self) -> &'static str {
        match self.presence {
            _ if self.departed => "it has left, and nobody has taken over",
            Presence::Promised(_) if self.session_ended => "no word since its session ended",
            Presence::Promised(_) => "not heard within its ttl",
            Presence::Unbound | Presence::Connected(_) => "silent since its last ttl passed",
        }
    }

    /// By how much its deadline may be later than the store knows: being heard is written only once
    /// it is news by this much.
    pub(super) fn unwritten_max(&self) -> Duration {
        match self.presence {
            Presence::Promised(ttl) => ttl / 3,
            _ => Duration::ZERO,
        }
    }

    /// This unit as somebody wrote it, in place of what is known of it here: who wrote it may have
    /// heard it less recently, and been less patient.
    pub(super) fn replayed(mut self, known: Option<Unit>) -> Unit {
        self.last_seen_written = self.last_seen;
        let is_same = |u: &Unit| u.incarnation == self.incarnation && u.presence == self.presence;
        if let Some(known) = known.filter(is_same) {
            self.last_seen = self.last_seen.max(known.last_seen);
            self.not_before = self.not_before.max(known.not_before);
            // One that gives no incarnation may have been removed and have begun anew.
            if self.incarnation != 0 {
                self.last_answer = self.last_answer.max(known.last_answer);
            }
        }
        self
    }

    /// Whether a word of this incarnation changes nothing of the unit itself.
    pub(super) fn is_well(&self, incarnation: u64) -> bool {
        let is_missed = self.lost_since.or(self.uncertain_since).or(self.quiet_since).is_some();
        incarnation <= self.incarnation
            && !is_missed
            && !(self.departed || self.session_ended || self.is_overdue())
            && self.silence_ends.is_none()
    }

    /// Whether being heard `now` is to be written.
    pub(super) fn is_news(&self, now: Timestamp) -> bool {
        let unwritten_max = self.unwritten_max();
        !unwritten_max.is_zero() && unwritten_max <= now.since(self.last_seen_written)
    }
}
