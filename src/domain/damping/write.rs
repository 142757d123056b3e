//! Results of latched or damped components: the visible report changes only when necessary, and the
//! last report is stored by a quiet commit.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::domain::damping::decide::Reported;
use crate::domain::damping::flapping::Swings;
use crate::domain::draft::Draft;
use crate::domain::policy::Config;
use crate::domain::status::{Status, StatusKey};
use crate::domain::transition::Cause;

impl Draft<'_> {
    /// Returns whether this status may be latched or damped.
    pub(in crate::domain) fn may_hold(&self, key: &StatusKey, status: &Status) -> bool {
        let config = &self.head.config;
        status.held.is_some() || config.latch_of(key).is_some() || config.damping_of(key).is_some()
    }

    /// Applies one more result to an existing status. Returns whether a visible value changed.
    pub(in crate::domain) fn take_result(
        &mut self,
        key: Arc<StatusKey>,
        said: Option<Reported>,
    ) -> bool {
        let Some(old) = self.with_swings(&key) else {
            return false;
        };
        let incarnation = self.unit(&key.unit).map_or(0, |unit| unit.incarnation);
        let new = old.after_result(&self.head.config, &key, said, incarnation, self.now);
        if let Some(new) = &new
            && is_repeat(&old, new)
        {
            let repeated = Arc::new(Status { swings: new.swings, ..old.clone() });
            if let Some(until) = new.expire_time {
                self.refresh(&key, &repeated, until);
            }
            if new.swings != old.swings {
                self.note_swings(&key, new.swings);
            }
            return false;
        }
        let cause = if new.is_some() { Cause::Reported } else { Cause::Replaced };
        self.put_result(key, &old, new, cause)
    }

    /// Returns the statuses, missing from a pull set, that a latch or damping keeps.
    pub(in crate::domain) fn held_without(
        &self,
        keys: &BTreeSet<Arc<StatusKey>>,
    ) -> BTreeSet<Arc<StatusKey>> {
        let stays = |key: &&Arc<StatusKey>| {
            let may = self.status(key).is_some_and(|status| self.may_hold(key, status));
            let status = may.then(|| self.with_swings(key)).flatten();
            let config = &self.head.config;
            status.is_some_and(|s| s.after_result(config, key, None, 0, self.now).is_some())
        };
        keys.iter().filter(stays).cloned().collect()
    }

    /// Ends flapping once the level has not changed for long enough: the last report becomes
    /// visible.
    pub(in crate::domain) fn calm(&mut self, key: &Arc<StatusKey>) {
        let is_over = |s: &Status| s.flapping().is_some_and(|f| f.calm_time <= self.now);
        let Some(old) = self.with_swings(key).filter(is_over) else {
            return;
        };
        let new = old.settled(&self.head.config, key, true, self.now);
        self.put_result(key.clone(), &old, new, Cause::FlappingEnded);
    }

    /// Applies a changed configuration: statuses that are no longer latched or damped show their
    /// last report.
    pub(in crate::domain) fn release(&mut self, before: &Config) {
        let config = &self.head.config;
        let same = config.latches == before.latches
            && config.damping == before.damping
            && config.policy == before.policy;
        if same {
            return;
        }
        let is_of_interest = |s: &Status| s.held.is_some() || s.swings != Swings::default();
        let known = self.base.statuses.iter().chain(self.statuses.written());
        let keys: BTreeSet<Arc<StatusKey>> =
            known.filter(|(_, status)| is_of_interest(status)).map(|(k, _)| k.clone()).collect();
        for key in keys {
            let Some(old) = self.with_swings(&key) else {
                continue;
            };
            let new = old.settled(&self.head.config, &key, false, self.now);
            if new.as_ref() != Some(&old) {
                self.put_result(key, &old, new, Cause::Configured);
            }
        }
    }

    /// Returns a status with the results of this draft that are not written.
    pub(in crate::domain) fn with_swings(&self, key: &StatusKey) -> Option<Status> {
        let status = self.status(key)?;
        let swings = self.swings.get(key).copied().unwrap_or(status.swings);
        Some(Status { swings, ..(**status).clone() })
    }

    /// Stores a result without a level change: in the drafted status if there is one, else in
    /// memory.
    fn note_swings(&mut self, key: &Arc<StatusKey>, swings: Swings) {
        let drafted = self.statuses.get_mut(key);
        match drafted.and_then(|drafted| drafted.after.as_mut()) {
            Some(status) => Arc::make_mut(status).swings = swings,
            _ => {
                self.swings.insert(key.clone(), swings);
            }
        }
    }

    /// Writes a status that is or was latched or damped; quietly if readers see no difference.
    fn put_result(
        &mut self,
        key: Arc<StatusKey>,
        old: &Status,
        new: Option<Status>,
        cause: Cause,
    ) -> bool {
        self.swings.remove(&key);
        let new = new.map(|new| Status { expire_time_written: new.expire_time, ..new });
        if let Some(new) = &new
            && new.looks_like(old)
        {
            self.put_status_quietly(key, Arc::new(new.clone()));
            return false;
        }
        let new = new.map(|new| Status { update_time: self.now, ..new });
        let flaps = new.as_ref().is_some_and(|new| new.flapping().is_some());
        match (old.flapping().is_some(), flaps) {
            (false, true) => self.log_always(&key, Some(old), new.as_ref(), Cause::FlappingBegan),
            (true, false) => self.log_always(&key, Some(old), new.as_ref(), Cause::FlappingEnded),
            _ => self.log_status(&key, Some(old), new.as_ref(), cause),
        }
        self.put_status(key, new.map(Arc::new));
        true
    }
}

/// Returns whether a result changed only the deadline and the number of results.
fn is_repeat(old: &Status, new: &Status) -> bool {
    let Status { expire_time, expire_time_written, swings, .. } = old.clone();
    Status { expire_time, expire_time_written, swings, ..new.clone() } == *old
}
