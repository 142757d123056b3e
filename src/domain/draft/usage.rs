//! The usage after a draft, for the limits on all applications together.

use crate::domain::model::history::StatusEvent;
use crate::domain::model::limits::Limits;
use crate::domain::model::usage::{StoredCounts, Usage};

/// The usage of an application after a draft, as far as its head counts it, and that of all others.
pub struct UsageDraft {
    /// The usage of all other applications.
    pub others: Usage,
    /// The usage of all other applications of the namespace.
    pub others_in_namespace: Usage,
    counts: StoredCounts,
    /// New events about units, and the application's own.
    events: (u64, u64),
}

impl UsageDraft {
    pub(in crate::domain) fn new(counts: StoredCounts) -> UsageDraft {
        let none = Usage::default();
        UsageDraft { others: none, others_in_namespace: none, counts, events: (0, 0) }
    }

    /// Returns the usage of this application.
    pub fn counts(&self) -> StoredCounts {
        self.counts
    }

    pub(in crate::domain) fn count_status(&mut self, was: bool, is: bool) {
        self.counts.statuses += u64::from(is);
        self.counts.statuses -= u64::from(was);
    }

    pub fn count_operation(&mut self, was: bool, is: bool) {
        self.counts.operations += u64::from(is);
        self.counts.operations -= u64::from(was);
    }

    /// Counts a record that replaces another one.
    pub fn count_bytes(&mut self, old: u64, new: u64) {
        let bytes = &mut self.counts.record_bytes;
        *bytes = bytes.saturating_sub(old).saturating_add(new);
    }

    /// Returns the number of new events, and of the application's own among them.
    pub(in crate::domain) fn new_events(&self) -> (u64, u64) {
        let (others, own) = self.events;
        (others + own, own)
    }

    /// Counts an event of the history, and clears its texts if all histories together are at their
    /// limit: the event is kept, and no command is rejected because of the history. `before` has
    /// the numbers of earlier events, and of the application's own among them.
    pub(in crate::domain) fn count_event(
        &mut self,
        event: &mut StatusEvent,
        before: (u64, u64),
        limits: &Limits,
    ) {
        let all = self.others.history_bytes.saturating_add(self.counts.history_bytes);
        if limits.total.history_bytes <= all {
            event.message = "".into();
            event.reason = "".into();
        }
        let (others, own) = (before.0 - before.1 + self.events.0, before.1 + self.events.1);
        let (others_max, own_max) = (limits.events_max, limits.own_events_max);
        let (kind, kind_max) = if event.is_own() { (own, own_max) } else { (others, others_max) };
        // A new event over the limit drops an old one, of average size.
        let kept = || (others.min(others_max) + own.min(own_max)).max(1);
        let old = if kind < kind_max.max(1) { 0 } else { self.counts.history_bytes / kept() };
        self.counts.history_bytes = self.counts.history_bytes - old + event.size();
        match event.is_own() {
            true => self.events.1 += 1,
            false => self.events.0 += 1,
        }
    }
}
