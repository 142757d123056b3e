//! The events that a draft adds to the history.

use crate::domain::draft::Draft;
use crate::domain::model::history::{Cause, Change, StatusEvent, Subject};
use crate::domain::model::message::same_text;
use crate::domain::model::need::Needs;
use crate::domain::model::status::{Freshness, Status, StatusKey};
use crate::domain::model::summary::Summary;

impl Draft<'_> {
    /// Adds an event for the change of a status, unless both values mean the same.
    pub(in crate::domain) fn log_status(
        &mut self,
        key: &StatusKey,
        old: Option<&Status>,
        new: Option<&Status>,
        cause: Cause,
    ) {
        if let (Some(old), Some(new)) = (old, new) {
            let same = old.report.level == new.report.level
                && old.stale == new.stale
                && old.report.reason() == new.report.reason()
                && same_text(&old.report.message, &new.report.message)
                && old.report.needs() == new.report.needs();
            if same {
                return;
            }
        }
        self.log_always(key, old, new, cause);
    }

    /// Adds an event for the change of a status.
    pub(in crate::domain) fn log_always(
        &mut self,
        key: &StatusKey,
        old: Option<&Status>,
        new: Option<&Status>,
        cause: Cause,
    ) {
        let text = |f: fn(&Status) -> &str| new.map_or("", f).into();
        self.log(StatusEvent {
            subject: Some(Subject::status(key)),
            from: old.map(|s| s.report.level),
            to: new.map(|s| s.report.level),
            message: text(|s| &s.report.message),
            reason: text(|s| &s.report.details().reason),
            freshness: match new {
                Some(new) if new.stale => Freshness::Stale,
                _ => Freshness::Fresh,
            },
            changes: needs_change(old, new),
            ..self.event(cause)
        });
    }

    /// Returns an event with only a time, a revision and a cause.
    pub(in crate::domain) fn event(&self, cause: Cause) -> StatusEvent {
        StatusEvent::new(self.now, self.base.head.revision.next(), cause)
    }

    pub(in crate::domain) fn log(&mut self, mut event: StatusEvent) {
        let before = (self.head.next_event, self.head.own_events);
        self.usage.count_event(&mut event, before, self.limits);
        self.events.push(event);
    }

    /// Adds an event for a change of the derived status.
    pub(in crate::domain) fn log_summary(&mut self, new: &Summary) {
        let old = &self.head.base().summary;
        if new.level == old.level && same_text(&new.message, &old.message) {
            return;
        }
        let event = StatusEvent {
            from: (!self.head.base().deleted).then_some(old.level),
            to: Some(new.level),
            message: new.message.clone(),
            reason: new.reason.clone(),
            ..self.event(Cause::Derived)
        };
        self.log(event);
    }
}

/// Returns the change of what a status needs, if it changed.
fn needs_change(old: Option<&Status>, new: Option<&Status>) -> Vec<Change> {
    let [old, new] = [old, new].map(|status| status.map(|status| status.report.needs()));
    if old.is_none_or(Needs::is_empty) && new.is_none_or(Needs::is_empty) || old == new {
        return Vec::new();
    }
    let [old, new] = [old, new].map(|needs| needs.map_or_else(String::new, ToString::to_string));
    vec![Change::new("needs", &old, &new)]
}
