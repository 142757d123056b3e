//! The stored answers of an application, bounded in number and time.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::Arc;

use crate::domain::model::limits::{Limits, REQUEST_TTL};
use crate::domain::model::name::UnitName;
use crate::domain::model::outage::Outages;
use crate::domain::model::request::{Remembered, is_fence};
use crate::domain::model::time::Timestamp;

/// The answers of one application, bounded in number and time, and the fences of removed units.
/// Both protect against late requests, and both are dropped once no request can be that late.
/// Answers and fences are counted separately: neither evicts the other.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequestLog {
    answers: BTreeMap<Arc<str>, Remembered>,
    /// The answers in order of time; the fences separately.
    by_time: ByTime,
    fences_by_time: ByTime,
    /// The answers without the fences, by the unit whose limit they count for.
    by_unit: BTreeMap<UnitName, ByTime>,
}

type ByTime = BTreeSet<(Timestamp, Arc<str>)>;

/// The time by which answers expire. Outages do not count, because no request could be repeated
/// then. So a clock of the store that is set ahead, which is an outage, ends no answer.
#[derive(Clone, Copy)]
pub(in crate::domain) struct AnswerExpiry<'a> {
    /// Up to when the outages are known.
    pub(in crate::domain) judged: Timestamp,
    pub(in crate::domain) outages: &'a Outages,
}

impl AnswerExpiry<'_> {
    /// Returns whether an answer given at `at` has expired, whether or not it is still stored.
    fn is_over(&self, at: Timestamp) -> bool {
        REQUEST_TTL <= self.judged.since(at) && REQUEST_TTL <= self.outages.uptime(at, self.judged)
    }
}

impl RequestLog {
    /// Returns the answer for this id that has not expired.
    pub(in crate::domain) fn answer(
        &self,
        id: &str,
        expiry: AnswerExpiry<'_>,
    ) -> Option<&Remembered> {
        self.get(id).filter(|answer| !expiry.is_over(answer.time))
    }

    /// Returns the answers that have not expired.
    pub(in crate::domain) fn standing<'a>(
        &'a self,
        expiry: AnswerExpiry<'a>,
    ) -> impl Iterator<Item = (&'a Arc<str>, &'a Remembered)> {
        self.answers.iter().filter(move |(_, answer)| !expiry.is_over(answer.time))
    }

    /// Returns the stored answer for this id, whatever its age.
    pub fn get(&self, id: &str) -> Option<&Remembered> {
        self.answers.get(id)
    }

    /// Adds an answer.
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

    /// Removes an answer.
    pub fn remove(&mut self, id: &str) {
        let Some((id, old)) = self.answers.remove_entry(id) else { return };
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

    /// Returns the ids to drop when `new` is added: expired ones and those over a limit, except ids
    /// that `new` replaces.
    pub(in crate::domain) fn surplus(
        &self,
        new: &BTreeMap<Arc<str>, Remembered>,
        limits: &Limits,
        expiry: AnswerExpiry<'_>,
    ) -> Vec<Arc<str>> {
        let added = new.iter().filter(|(id, _)| !self.answers.contains_key(*id));
        let (fences, answers): (Vec<_>, Vec<_>) = added.partition(|(id, _)| is_fence(id));
        // A replacement of all units needs a fence for each.
        let fences_max = limits.request_ids_max.max(limits.units_max);
        let mut surplus = self.surplus_fences(fences.len(), fences_max, expiry);
        surplus.extend(self.surplus_answers(&answers, limits, expiry));
        surplus.retain(|id| !new.contains_key(id));
        surplus
    }

    fn surplus_fences(&self, new: usize, max: usize, expiry: AnswerExpiry<'_>) -> Vec<Arc<str>> {
        if new == 0 {
            return Vec::new();
        }
        let too_many = (self.fences_by_time.len() + new).saturating_sub(max);
        let oldest = self.fences_by_time.iter().enumerate();
        let surplus = oldest.take_while(|(n, (at, _))| *n < too_many || expiry.is_over(*at));
        surplus.map(|(_, (_, id))| id.clone()).collect()
    }

    /// Returns the answers over a limit. A unit over its own limit loses its oldest answers. Over
    /// the limit of the application, the unit with the most answers loses its oldest: no unit can
    /// evict the answers of another.
    fn surplus_answers(
        &self,
        new: &[(&Arc<str>, &Remembered)],
        limits: &Limits,
        expiry: AnswerExpiry<'_>,
    ) -> Vec<Arc<str>> {
        if new.is_empty() {
            return Vec::new();
        }
        let mut added: BTreeMap<&UnitName, usize> = BTreeMap::new();
        for (_, answer) in new {
            *added.entry(&answer.unit).or_default() += 1;
        }
        let old = self.by_time.iter().take_while(|(at, _)| expiry.is_over(*at));
        let mut surplus: Vec<Arc<str>> = old.map(|(_, id)| id.clone()).collect();
        let kept = |unit| {
            let of_unit = self.by_unit.get(unit).into_iter().flatten();
            of_unit.skip_while(|(at, _)| expiry.is_over(*at))
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
