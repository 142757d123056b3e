//! Answers remembered by request id, so that a retry is applied once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::limits::REQUEST_TTL;
use super::name::UnitName;
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
    /// Fence of the operation that was asked something; else 0.
    #[serde(default)]
    pub fence: u64,
    /// Epoch of the lease that was asked for; else 0.
    #[serde(default)]
    pub lease_epoch: u64,
    /// Version of the data after a change of them; else 0.
    #[serde(default)]
    pub data_version: u64,
}

/// An answer and when it was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remembered {
    /// When.
    pub time: Timestamp,
    /// What.
    pub outcome: Outcome,
}

/// The answers of one application, bounded in number and time. Among them are the fences of
/// removed units: both are there so that what comes late does no harm, and are forgotten when
/// nothing comes as late as that. They are counted apart: neither crowds out the other.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequestLog {
    answers: BTreeMap<Arc<str>, Remembered>,
    /// By time, the fences apart.
    by_time: BTreeSet<(Timestamp, Arc<str>)>,
    fences_by_time: BTreeSet<(Timestamp, Arc<str>)>,
}

/// What fences begin with. No request id holds a control character.
const FENCE: &str = "\u{1}removed ";

/// The id under which the fence of a unit is kept.
pub(super) fn fence_id(unit: &UnitName) -> Arc<str> {
    Arc::from(format!("{FENCE}{unit}"))
}

/// Whether this is the id of a fence.
pub(super) fn is_fence(id: &str) -> bool {
    id.starts_with(FENCE)
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
        self.by_time_mut(&id).insert((remembered.time, id.clone()));
        self.answers.insert(id, remembered);
    }

    /// Forgets an answer.
    pub fn remove(&mut self, id: &str) {
        if let Some((id, old)) = self.answers.remove_entry(id) {
            self.by_time_mut(&id).remove(&(old.time, id));
        }
    }

    fn by_time_mut(&mut self, id: &str) -> &mut BTreeSet<(Timestamp, Arc<str>)> {
        match is_fence(id) {
            true => &mut self.fences_by_time,
            false => &mut self.by_time,
        }
    }

    /// Ids and times of the fences, or of the answers, the oldest first.
    pub(super) fn oldest_first(&self, fences: bool) -> &BTreeSet<(Timestamp, Arc<str>)> {
        match fences {
            true => &self.fences_by_time,
            false => &self.by_time,
        }
    }
}
