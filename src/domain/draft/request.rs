//! The stored answers of a draft, and the fences of units that it removes.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::domain::model::limits::Limits;
use crate::domain::model::name::UnitName;
use crate::domain::model::policy::Config;
use crate::domain::model::request::log::{AnswerExpiry, RequestLog};
use crate::domain::model::request::{Outcome, Remembered, fence_id};
use crate::domain::model::revision::Revision;
use crate::domain::model::time::Timestamp;
use crate::domain::model::transition::Write;

/// The answers after a draft.
pub struct RequestDraft<'a> {
    base: &'a RequestLog,
    now: Timestamp,
    expiry: AnswerExpiry<'a>,
    written: BTreeMap<Arc<str>, Remembered>,
}

impl<'a> RequestDraft<'a> {
    pub fn new(base: &'a RequestLog, now: Timestamp, expiry: AnswerExpiry<'a>) -> RequestDraft<'a> {
        RequestDraft { base, now, expiry, written: BTreeMap::new() }
    }

    /// Lets answers expire up to this time only.
    pub fn judge_until(&mut self, judged: Timestamp) {
        self.expiry.judged = judged;
    }

    /// Returns the valid answer for an id.
    pub fn get(&self, id: &str) -> Option<&Remembered> {
        self.written.get(id).or_else(|| self.base.answer(id, self.expiry))
    }

    /// Adds an answer.
    pub fn put(&mut self, id: Arc<str>, answer: Remembered) {
        self.written.insert(id, answer);
    }

    /// Completes the answers that have the configuration of this revision: later requests of the
    /// draft may have changed it.
    pub fn set_config(&mut self, revision: Revision, config: &Arc<Config>) {
        for answer in self.written.values_mut() {
            if let Some(known) = &mut answer.config
                && answer.outcome.revision == revision
            {
                *known = config.clone();
            }
        }
    }

    /// Returns the newest incarnation of a unit that was removed recently; 0 if it had none.
    pub fn fence(&self, unit: &UnitName) -> Option<u64> {
        Some(self.get(&fence_id(unit))?.outcome.incarnation)
    }

    /// Returns when a unit was removed, if that was recently; not if its application was deleted.
    pub fn removed_at(&self, unit: &UnitName) -> Option<Timestamp> {
        self.get(&fence_id(unit)).filter(|fence| fence.outcome.changed).map(|fence| fence.time)
    }

    /// Adds the fence of a removed unit, so that its late reports do not create it again.
    pub fn put_fence(&mut self, unit: &UnitName, incarnation: u64) {
        let incarnation = incarnation.max(self.fence(unit).unwrap_or_default());
        let outcome = Outcome { incarnation, changed: true, ..Outcome::default() };
        self.put(fence_id(unit), Remembered::of(self.now, outcome));
    }

    /// Returns the answers to write and to remove.
    pub fn into_writes(self, limits: &Limits) -> impl Iterator<Item = Write> {
        let base = self.base;
        // Once at the end: a draft that evicts answers must still find all of its own.
        let forgotten = base.surplus(&self.written, limits, self.expiry);
        let forgotten = forgotten.into_iter().map(|id| Write::Request(id, None));
        // An answer that replaces an expired one removes that one first; an answer without a
        // removal is the first for its id.
        let written = self.written.into_iter().flat_map(|(id, answer)| {
            let old = base.get(&id).map(|_| Write::Request(id.clone(), None));
            old.into_iter().chain([Write::Request(id, Some(answer.into()))])
        });
        written.chain(forgotten)
    }
}
