//! Answers remembered by request id, so that a retry is applied once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::limits::REQUEST_TTL;
use super::revision::Revision;
use super::time::Timestamp;

/// What became of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Outcome {
    /// Revision at which it is in force.
    pub revision: Revision,
    /// Whether it changed anything.
    pub changed: bool,
    /// Statuses removed or cleared.
    pub removed: u32,
    /// Incarnation of the unit that began or went on with one; else 0.
    #[serde(default)]
    pub incarnation: u64,
}

/// An answer and when it was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remembered {
    /// When.
    pub time: Timestamp,
    /// What.
    pub outcome: Outcome,
}

/// The answers of one application, bounded in number and time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequestLog {
    answers: BTreeMap<Arc<str>, Remembered>,
    by_time: BTreeSet<(Timestamp, Arc<str>)>,
}

/// Whether an answer given at `at` no longer stands: whether it is still kept must not decide.
pub(super) fn is_too_old(at: Timestamp, now: Timestamp) -> bool {
    REQUEST_TTL <= now.since(at)
}

impl RequestLog {
    /// The answer that stands for this id at `now`.
    pub fn answer(&self, id: &str, now: Timestamp) -> Option<&Remembered> {
        self.get(id).filter(|answer| !is_too_old(answer.time, now))
    }

    /// The answers that stand at `now`.
    pub fn standing(&self, now: Timestamp) -> impl Iterator<Item = (&Arc<str>, &Remembered)> {
        let all = self.answers.iter();
        all.filter(move |(_, answer)| !is_too_old(answer.time, now))
    }

    /// The answer kept for this id, however old.
    pub fn get(&self, id: &str) -> Option<&Remembered> {
        self.answers.get(id)
    }

    /// Remembers an answer.
    pub fn insert(&mut self, id: Arc<str>, remembered: Remembered) {
        self.remove(&id);
        self.by_time.insert((remembered.time, id.clone()));
        self.answers.insert(id, remembered);
    }

    /// Forgets an answer.
    pub fn remove(&mut self, id: &str) {
        if let Some((id, old)) = self.answers.remove_entry(id) {
            self.by_time.remove(&(old.time, id));
        }
    }

    /// Ids and times, the oldest first.
    pub fn oldest_first(&self) -> impl Iterator<Item = &(Timestamp, Arc<str>)> {
        self.by_time.iter()
    }

    /// How many are remembered.
    pub fn len(&self) -> usize {
        self.answers.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.answers.is_empty()
    }
}
