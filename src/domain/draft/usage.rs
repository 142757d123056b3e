//! The usage after a draft, for the limits on all applications together.

use crate::domain::history::StatusEvent;
use crate::domain::limits::Limits;
use crate::domain::usage::{Kept, Usage};

/// The usage of an application after a draft, as far as its head counts it, and that of all others.
pub struct UsageDraft {
    beside: Usage,
    beside_in_namespace: Usage,
    kept: Kept,
}

impl UsageDraft {
    pub(super) fn new(kept: Kept) -> UsageDraft {
        let none = Usage::default();
        UsageDraft { beside: none, beside_in_namespace: none, kept }
    }

    pub(super) fn set_beside(&mut self, others: Usage) {
        self.beside = others;
    }

    pub(super) fn set_beside_in_namespace(&mut self, others: Usage) {
        self.beside_in_namespace = others;
    }

    /// Returns the usage of all other applications.
    pub fn beside(&self) -> &Usage {
        &self.beside
    }

    /// Returns the usage of all other applications of the namespace.
    pub fn beside_in_namespace(&self) -> &Usage {
        &self.beside_in_namespace
    }

    /// Returns the usage of this application.
    pub fn kept(&self) -> Kept {
        self.kept
    }

    pub(super) fn count_status(&mut self, was: bool, is: bool) {
        self.kept.statuses += u64::from(is);
        self.kept.statuses -= u64::from(was);
    }

    pub fn count_operation(&mut self, was: bool, is: bool) {
        self.kept.operations += u64::from(is);
        self.kept.operations -= u64::from(was);
    }

    /// Counts a record that replaces another one.
    pub fn count_bytes(&mut self, old: u64, new: u64) {
        let bytes = &mut self.kept.record_bytes;
        *bytes = bytes.saturating_sub(old).saturating_add(new);
    }

    /// Counts event number `number` of the history, and clears its texts if all histories together
    /// are at their limit: the event is kept, and no command is rejected because of the history.
    pub(super) fn count_event(&mut self, event: &mut StatusEvent, number: u64, limits: &Limits) {
        let all = self.beside.history_bytes.saturating_add(self.kept.history_bytes);
        if limits.total.history_bytes <= all {
            event.message = "".into();
            event.reason = "".into();
        }
        let max = limits.events_max.max(1);
        // A new event over the limit drops an old one, of average size.
        let old = if number < max { 0 } else { self.kept.history_bytes / max };
        self.kept.history_bytes = self.kept.history_bytes - old + event.size();
    }
}
