//! Errors that alternate with successes: each ends before it shows, and the target still does not
//! work.
//!
//! ```text
//!   error, success, error, success, error, success, error
//!          1               2               3        '-- the fault is intermittent: waiting is
//!                                                   shown until no error came for `hard_after`
//! ```
//!
//! The times at which errors ended are kept in memory, like the results of damping: a replica that
//! loads an application counts from then on. An intermittent fault is stored.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::domain::model::fault::FaultKey;
use crate::domain::model::limits::{FaultSettings, INTERMITTENT_COUNT_MAX};
use crate::domain::model::time::Timestamp;

/// Targets of one application whose ended errors are counted. Above it, those that ended first are
/// dropped.
const TARGETS_MAX: usize = 256;

/// The course of an intermittent fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Intermittent {
    /// When the first of the errors that alternate with successes came.
    pub since: Timestamp,
    /// Whether the last result was a success: the fault ends with its stage.
    pub recovered: bool,
}

/// The ended errors of an application: for each target when the last ones ended, as far as this
/// process has seen it.
#[derive(Debug, Clone, Default)]
pub struct Relapses {
    by_target: BTreeMap<Arc<FaultKey>, VecDeque<Timestamp>>,
}

/// A state that was loaded is equal to one that has seen errors end: no record has these times.
impl PartialEq for Relapses {
    fn eq(&self, _: &Relapses) -> bool {
        true
    }
}

impl Eq for Relapses {}

impl Relapses {
    /// Counts an error of a target that ended `now`.
    pub(in crate::domain) fn count(&mut self, key: &Arc<FaultKey>, now: Timestamp) {
        if TARGETS_MAX <= self.by_target.len() && !self.by_target.contains_key(key) {
            let first = self.by_target.iter().min_by_key(|(_, ends)| ends.back());
            let first = first.map(|(key, _)| key.clone());
            first.map(|key| self.by_target.remove(&key));
        }
        let ends = self.by_target.entry(key.clone()).or_default();
        if INTERMITTENT_COUNT_MAX as usize <= ends.len() {
            ends.pop_front();
        }
        ends.push_back(now);
    }

    /// Forgets the errors of a target that ended.
    pub(in crate::domain) fn forget(&mut self, key: &FaultKey) {
        self.by_target.remove(key);
    }

    /// Returns since when the errors of a target alternate with successes, if another error that
    /// comes `now` makes its fault intermittent.
    pub(in crate::domain) fn since(
        &self,
        key: &FaultKey,
        settings: &FaultSettings,
        now: Timestamp,
    ) -> Option<Timestamp> {
        let count = settings.intermittent_count.min(INTERMITTENT_COUNT_MAX) as usize;
        let ends = self.by_target.get(key)?;
        let first = ends.get(ends.len().checked_sub(count.max(1))?)?;
        (count != 0 && now.since(*first) <= settings.hard_after).then_some(*first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::model::name::UnitName;

    fn mk_key(n: usize) -> Arc<FaultKey> {
        let unit = UnitName::new(&format!("web/{n}")).unwrap();
        Arc::new(FaultKey::first_of(&unit, None))
    }

    fn at(seconds: u64) -> Timestamp {
        Timestamp::new(seconds * 1000)
    }

    #[test]
    fn the_ends_of_the_last_ten_minutes_count() {
        let settings = FaultSettings::default();
        let (mut relapses, key) = (Relapses::default(), mk_key(0));
        for end in [10, 20, 30] {
            assert_eq!(relapses.since(&key, &settings, at(end)), None);
            relapses.count(&key, at(end));
        }
        assert_eq!(relapses.since(&key, &settings, at(610)), Some(at(10)));
        assert_eq!(relapses.since(&key, &settings, at(611)), None);
        relapses.count(&key, at(611));
        assert_eq!(relapses.since(&key, &settings, at(612)), Some(at(20)));
        let never = FaultSettings { intermittent_count: 0, ..settings.clone() };
        assert_eq!(relapses.since(&key, &never, at(612)), None);
        relapses.forget(&key);
        assert_eq!(relapses.since(&key, &settings, at(612)), None);
    }

    #[test]
    fn the_targets_that_ended_last_are_kept() {
        let mut relapses = Relapses::default();
        for n in 0..TARGETS_MAX + 5 {
            relapses.count(&mk_key(n), at(n as u64));
        }
        assert_eq!(relapses.by_target.len(), TARGETS_MAX);
        assert!(!relapses.by_target.contains_key(&mk_key(4)));
        assert!(relapses.by_target.contains_key(&mk_key(5)));
        for end in 0..100 {
            relapses.count(&mk_key(5), at(end));
        }
        assert_eq!(relapses.by_target[&mk_key(5)].len(), INTERMITTENT_COUNT_MAX as usize);
    }
}
