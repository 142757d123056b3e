//! The deliveries of one route: how many are under way, which wait, and the pause after a failure.
//! They begin in the order in which they were owed.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use crate::cli::command::notify::engine::fact::AppRef;
use crate::domain::time::Timestamp;

/// The pause after the first failure; it doubles.
const PAUSE: Duration = Duration::from_secs(1);
/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(300);

/// The deliveries of one route.
#[derive(Debug, Default)]
pub struct Lane {
    at_once_max: usize,
    under_way: usize,
    /// By the order in which they began to wait.
    waiting: BTreeMap<u64, AppRef>,
    places: HashMap<AppRef, u64>,
    next_place: u64,
    failures: u32,
    again_at: Option<Timestamp>,
    is_off: bool,
}

impl Lane {
    /// Creates a lane for so many deliveries at once.
    pub fn new(at_once_max: usize) -> Lane {
        Lane { at_once_max, ..Lane::default() }
    }

    /// Begins a delivery, or notes that it waits.
    pub fn begins(&mut self, subject: &AppRef, now: Timestamp) -> bool {
        // After a failure one delivery tries whether the receiver is back.
        let at_once_max = if self.failures == 0 { self.at_once_max } else { 1 };
        let is_paused = self.again_at.is_some_and(|at| now < at);
        let is_next = self.waiting.values().next().is_none_or(|first| first == subject);
        let begins = is_next && !self.is_off && !is_paused && self.under_way < at_once_max;
        match begins {
            true => {
                self.under_way += 1;
                self.forget(subject);
            }
            false => self.wait(subject),
        }
        begins
    }

    fn wait(&mut self, subject: &AppRef) {
        if !self.places.contains_key(subject) {
            self.places.insert(subject.clone(), self.next_place);
            self.waiting.insert(self.next_place, subject.clone());
            self.next_place += 1;
        }
    }

    /// Ends a delivery that was confirmed.
    pub fn succeeded(&mut self) {
        self.under_way -= 1;
        (self.failures, self.again_at) = (0, None);
    }

    /// Ends a delivery that failed.
    pub fn failed(&mut self, now: Timestamp) {
        self.under_way -= 1;
        // Those that were under way together count once.
        if self.again_at.is_some_and(|at| now < at) {
            return;
        }
        let pause = PAUSE.saturating_mul(1 << self.failures.min(9)).min(PAUSE_MAX);
        self.failures += 1;
        self.again_at = Some(now.after(pause));
    }

    /// Takes that the receiver wants nothing any more.
    pub fn turn_off(&mut self) {
        self.is_off = true;
    }

    /// Forgets what waits for an application.
    pub fn forget(&mut self, subject: &AppRef) {
        if let Some(place) = self.places.remove(subject) {
            self.waiting.remove(&place);
        }
    }

    /// Returns applications that may go on now, as many as there is room for.
    pub fn ready(&self, now: Timestamp) -> Vec<AppRef> {
        let is_paused = self.again_at.is_some_and(|at| now < at);
        if self.is_off || is_paused {
            return Vec::new();
        }
        let at_once_max = if self.failures == 0 { self.at_once_max } else { 1 };
        let room = at_once_max.saturating_sub(self.under_way);
        self.waiting.values().take(room).cloned().collect()
    }

    /// Returns when a waiting delivery may go on.
    pub fn wakes_at(&self) -> Option<Timestamp> {
        self.again_at.filter(|_| !self.waiting.is_empty() && !self.is_off)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delivery_that_waits_begins_before_a_later_one() {
        let mut lane = Lane::new(1);
        let now = Timestamp::new(1_000);
        let [first, second, third] = ["c", "b", "a"].map(|name| AppRef::new("prod", name));
        assert!(lane.begins(&first, now));
        assert!(!lane.begins(&second, now) && !lane.begins(&third, now));
        lane.succeeded();
        assert!(!lane.begins(&third, now), "another one waits for longer");
        assert_eq!(lane.ready(now), std::slice::from_ref(&second));
        assert!(lane.begins(&second, now));
        lane.succeeded();
        lane.forget(&third);
        assert!(lane.ready(now).is_empty() && lane.begins(&first, now));
    }
}
