//! The planned work on a whole application, as its events say.

use std::collections::BTreeSet;

use crate::domain::model::history::{Cause, StatusEvent};
use crate::domain::model::mark::{Mark, MarkKind};

/// The marks of planned work in force that cover the whole application.
#[derive(Default)]
pub(super) struct Planned {
    ids: BTreeSet<Box<str>>,
}

impl Planned {
    /// Returns whether any is in force.
    pub(super) fn is_any(&self) -> bool {
        !self.ids.is_empty()
    }

    /// Follows an event.
    pub(super) fn see(&mut self, event: &StatusEvent) {
        match event.cause {
            Cause::Deleted if event.subject.is_none() => self.ids.clear(),
            Cause::MarkSet | Cause::MarkBegan | Cause::MarkEnded => self.see_mark(event),
            _ => {}
        }
    }

    fn see_mark(&mut self, event: &StatusEvent) {
        let is_all = event.subject.as_ref().is_some_and(|subject| subject.unit.is_application());
        if !is_all || *event.reason != *MarkKind::Planned.reason() {
            return;
        }
        let change = |field| event.changes.iter().find(|change| &*change.field == field);
        let Some(id) = change("mark_id").map(|change| change.to.clone()) else { return };
        let is_begun = change("mark").is_some_and(|change| &*change.to == Mark::IN_FORCE);
        match is_begun {
            true => self.ids.insert(id),
            false => self.ids.remove(&id),
        };
    }
}
