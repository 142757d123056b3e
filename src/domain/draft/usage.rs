//! The usage after a draft, for the limits on all applications together.

use crate::domain::history::StatusEvent;
use crate::domain::limits::Limits;
use crate::domain::usage::{StoredCounts, Usage};

/// The usage of an application after a draft, as far as its head counts it, and that of all others.
pub struct UsageDraft {
    /// The usage of all other applications.
    pub others: Usage,
    /// The usage of all other applications of the namespace.
    pub others_in_namespace: Usage,
    counts: StoredCounts,
}

impl UsageDraft {
    pub(super) fn new(counts: StoredCounts) -> UsageDraft {
        let none = Usage::default();
        UsageDraft { others: none, others_in_namespace: none, counts }
    }

    /// Returns the usage of this application.
    pub fn counts(&self) -> StoredCounts {
        self.counts
    }

    pub(super) fn count_status(&mut self, was: bool, is: bool) {
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

    /// Counts event number `number` of the history, and clears its texts if all histories together
    /// are at their limit: the event is kept, and no command is rejected because of the history.
    pub(super) fn count_event(&mut self, event: &mut StatusEvent, number: u64, limits: &Limits) {
        let all = self.others.history_bytes.saturating_add(self.counts.history_bytes);
        if limits.total.history_bytes <= all {
            event.message = "".into();
            event.reason = "".into();
        }
        let max = limits.events_max.max(1);
        // A new event over the limit drops an old one, of average size.
        let old = if number < max { 0 } else { self.counts.history_bytes / max };
        self.counts.history_bytes = self.counts.history_bytes - old + event.size();
    }
}
