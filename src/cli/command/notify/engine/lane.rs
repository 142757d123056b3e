//! The deliveries of one route: how many are under way, which wait, and the pause after a failure.

use std::collections::BTreeSet;
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
    waiting: BTreeSet<AppRef>,
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
        let begins = !self.is_off && !is_paused && self.under_way < at_once_max;
        match begins {
            true => {
                self.under_way += 1;
                self.waiting.remove(subject);
            }
            false => drop(self.waiting.insert(subject.clone())),
        }
        begins
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
        self.waiting.remove(subject);
    }

    /// Returns applications that may go on now, as many as there is room for.
    pub fn ready(&self, now: Timestamp) -> Vec<AppRef> {
        let is_paused = self.again_at.is_some_and(|at| now < at);
        if self.is_off || is_paused {
            return Vec::new();
        }
        let at_once_max = if self.failures == 0 { self.at_once_max } else { 1 };
        let room = at_once_max.saturating_sub(self.under_way);
        self.waiting.iter().take(room).cloned().collect()
    }

    /// Returns when a waiting delivery may go on.
    pub fn wakes_at(&self) -> Option<Timestamp> {
        self.again_at.filter(|_| !self.waiting.is_empty() && !self.is_off)
    }
}
