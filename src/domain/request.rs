//! Answers remembered by request id, so that a retry is applied once.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::command::Rejected;
use super::limits::{Limits, REQUEST_TTL};
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

/// What a request asked: the same id with another fingerprint is another request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fingerprint {
    /// Name of the method, as in the contract on the wire.
    pub method: Arc<str>,
    /// The first 128 bits of the SHA-256 of the decoded request.
    pub digest: [u64; 2],
}

/// The id of a request, with what the request asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestId {
    /// The id under which the answer is remembered.
    pub id: Arc<str>,
    /// `None` answers for any request with this id.
    pub fingerprint: Option<Fingerprint>,
}

impl From<&str> for RequestId {
    /// An id that answers for any request.
    fn from(id: &str) -> RequestId {
        RequestId { id: id.into(), fingerprint: None }
    }
}

/// An answer, when it was given, and to which request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remembered {
    /// When.
    pub time: Timestamp,
    /// What.
    pub outcome: Outcome,
    /// What was asked. `None` in a record of a version that kept none, and in a fence: it answers
    /// for any request.
    #[serde(default)]
    pub fingerprint: Option<Fingerprint>,
    /// The unit that sent the request, for which its ids are counted; `""` for a request of no
    /// unit.
    #[serde(default)]
    pub unit: UnitName,
}

impl Remembered {
    /// An outcome that no request asked for.
    pub(super) fn of(time: Timestamp, outcome: Outcome) -> Remembered {
        Remembered { time, outcome, fingerprint: None, unit: UnitName::application() }
    }

    /// The answer to a repeat of the request. The same id of another request is refused.
    pub(super) fn repeat(&self, asked: &RequestId) -> Result<Outcome, Rejected> {
        match (&self.fingerprint, &asked.fingerprint) {
            (Some(first), Some(now)) if first != now => {
                let (id, method) = (asked.id.clone(), first.method.clone());
                Err(Rejected::RequestIdReused { id, method })
            }
            _ => Ok(self.outcome),
        }
    }
}

/// The answers of one application, bounded in number and time. Among them are the fences of
/// removed units: both are there so that what comes late does no harm, and are forgotten when
/// nothing comes as late as that. They are counted apart: neither crowds out the other.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequestLog {
    answers: BTreeMap<Arc<str>, Remembered>,
    /// By time, the fences apart.
    by_time: ByTime,
    fences_by_time: ByTime,
    /// The answers alone, by the unit that they are counted for.
    by_unit: BTreeMap<UnitName, ByTime>,
}

type ByTime = BTreeSet<(Timestamp, Arc<str>)>;

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
        let entry = (remembered.time, id.clone());
        if is_fence(&id) {
            self.fences_by_time.insert(entry);
        } else {
            self.by_unit.entry(remembered.unit.clone()).or_default().insert(entry.clone());
            self.by_time.insert(entry);
        }
        self.answers.insert(id, remembered);
    }

    /// Forgets an answer.
    pub fn remove(&mut self, id: &str) {
        let Some((id, old)) = self.answers.remove_entry(id) else {
            return;
        };
        let entry = (old.time, id);
        if is_fence(&entry.1) {
            self.fences_by_time.remove(&entry);
            return;
        }
        self.by_time.remove(&entry);
        if let Some(of_unit) = self.by_unit.get_mut(&old.unit) {
            of_unit.remove(&entry);
            if of_unit.is_empty() {
                self.by_unit.remove(&old.unit);
            }
        }
    }

    /// What is forgotten beside `new` answers and fences: what is too old, and what is too much.
    /// Nothing that is replaced.
    pub(super) fn surplus(
        &self,
        new: &BTreeMap<Arc<str>, Remembered>,
        limits: &Limits,
        now: Timestamp,
    ) -> Vec<Arc<str>> {
        let added = new.iter().filter(|(id, _)| !self.answers.contains_key(*id));
        let (fences, answers): (Vec<_>, Vec<_>) = added.partition(|(id, _)| is_fence(id));
        // When all units are replaced, that is a fence for each.
        let fences_max = limits.request_ids_max.max(limits.units_max);
        let mut surplus = self.surplus_fences(fences.len(), fences_max, now);
        surplus.extend(self.surplus_answers(&answers, limits, now));
        surplus.retain(|id| !new.contains_key(id));
        surplus
    }

    fn surplus_fences(&self, new: usize, max: usize, now: Timestamp) -> Vec<Arc<str>> {
        if new == 0 {
            return Vec::new();
        }
        let too_many = (self.fences_by_time.len() + new).saturating_sub(max);
        let oldest = self.fences_by_time.iter().enumerate();
        let surplus = oldest.take_while(|(n, (at, _))| *n < too_many || is_too_old(*at, now));
        surplus.map(|(_, (_, id))| id.clone()).collect()
    }

    /// A unit over its own bound loses its oldest answers. Over the bound of the application the
    /// unit that has most loses its oldest one: no unit can make another one forget.
    fn surplus_answers(
        &self,
        new: &[(&Arc<str>, &Remembered)],
        limits: &Limits,
        now: Timestamp,
    ) -> Vec<Arc<str>> {
        if new.is_empty() {
            return Vec::new();
        }
        let mut added: BTreeMap<&UnitName, usize> = BTreeMap::new();
        for (_, answer) in new {
            *added.entry(&answer.unit).or_default() += 1;
        }
        let old = self.by_time.iter().take_while(|(at, _)| is_too_old(*at, now));
        let mut surplus: Vec<Arc<str>> = old.map(|(_, id)| id.clone()).collect();
        let kept = |unit| {
            let of_unit = self.by_unit.get(unit).into_iter().flatten();
            of_unit.skip_while(|(at, _)| is_too_old(*at, now))
        };
        let mut forgotten: BTreeMap<&UnitName, usize> = BTreeMap::new();
        for (unit, added) in &added {
            let known = kept(unit).count();
            let too_many = (known + added).saturating_sub(limits.request_ids_per_unit_max);
            surplus.extend(kept(unit).take(too_many).map(|(_, id)| id.clone()));
            forgotten.insert(unit, too_many.min(known));
        }
        let too_many = self.by_time.len() + new.len() - surplus.len();
        let mut too_many = too_many.saturating_sub(limits.request_ids_max);
        if too_many == 0 {
            return surplus;
        }
        let mut units: BinaryHeap<_> = BinaryHeap::new();
        for unit in self.by_unit.keys() {
            let gone = forgotten.get(unit).copied().unwrap_or_default();
            let mut rest = kept(unit).skip(gone);
            let added = added.get(unit).copied().unwrap_or_default();
            let count = kept(unit).count() - gone + added;
            units.extend(rest.next().map(|oldest| (count, Reverse((oldest, unit)))));
        }
        while 0 < too_many
            && let Some((count, Reverse((oldest, unit)))) = units.pop()
        {
            surplus.push(oldest.1.clone());
            too_many -= 1;
            let of_unit = self.by_unit.get(unit).into_iter();
            let next = of_unit.flat_map(|of_unit| of_unit.range((Excluded(oldest), Unbounded)));
            let next = next.take(1);
            units.extend(next.map(|oldest| (count - 1, Reverse((oldest, unit)))));
        }
        surplus
    }
}
