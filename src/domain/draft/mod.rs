//! A draft: the state of an application, overlaid with the changes of a batch of commands. The
//! state itself changes only when the draft's transition is committed.

mod counts;
mod event_log;
pub(in crate::domain) mod statuses;

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::domain::app::{AppState, Head, Unit};
use crate::domain::bytes::Bytes;
use crate::domain::damping::flapping::Swings;
use crate::domain::derive::Summary;
use crate::domain::draft::statuses::DraftedStatuses;
use crate::domain::fault::{Fault, FaultKey};
use crate::domain::limits::Limits;
use crate::domain::message::same_text;
use crate::domain::name::{OperationId, PartName, UnitName};
use crate::domain::operation::Operation;
use crate::domain::operation::record::Operations;
use crate::domain::request::{self, Outcome, Remembered};
use crate::domain::revision::Revision;
use crate::domain::status::{Status, StatusKey};
use crate::domain::time::Timestamp;
use crate::domain::transition::{Cause, MemoryOnly, StatusEvent, Transition, Write};
use crate::domain::usage::{Kept, Usage, size_of};

/// The changes of a batch of commands, on top of a committed state.
pub struct Draft<'a> {
    pub(in crate::domain) base: &'a AppState,
    pub(in crate::domain) limits: &'a Limits,
    pub(in crate::domain) now: Timestamp,
    pub(in crate::domain) head: Head,
    pub(in crate::domain) statuses: DraftedStatuses,
    pub(in crate::domain) units: BTreeMap<UnitName, Option<Unit>>,
    pub(in crate::domain) data: BTreeMap<Arc<str>, Option<Bytes>>,
    /// Number of units after the draft, cached so that a batch of new units does not count them
    /// repeatedly.
    pub(in crate::domain) unit_count: usize,
    /// Cached numbers of keys by unit and component after the draft; see
    /// [`quota`](crate::domain::quota).
    pub(in crate::domain) key_counts: RefCell<BTreeMap<(UnitName, PartName), usize>>,
    pub(in crate::domain) faults: BTreeMap<Arc<FaultKey>, Option<Arc<Fault>>>,
    /// Change in the number of planned retries, by second.
    pub(in crate::domain) tries: BTreeMap<u64, i64>,
    requests: BTreeMap<Arc<str>, Remembered>,
    pub(in crate::domain) events: Vec<StatusEvent>,
    /// The operations after the draft, copied at the first change. The next two fields are the
    /// writes.
    pub(in crate::domain) operations: Cow<'a, Operations>,
    pub(in crate::domain) operation_writes: BTreeMap<OperationId, Option<Arc<Operation>>>,
    pub(in crate::domain) payload_writes: BTreeMap<OperationId, Option<Bytes>>,
    memory_only: MemoryOnly,
    /// Results without a level change, for statuses that the draft does not write.
    pub(in crate::domain) swings: BTreeMap<Arc<StatusKey>, Swings>,
    /// Whether a record without a visible effect changed. If nothing visible changes, the
    /// transition is a quiet commit.
    pub(in crate::domain) held: bool,
    /// Usage of all other applications.
    pub(in crate::domain) beside: Usage,
    /// Usage of this application after the draft, as far as the head counts it.
    pub(in crate::domain) kept: Kept,
    /// Whether a visible value changed, so that the revision moves.
    pub(in crate::domain) changed: bool,
    /// Whether the policy or the leader changed, which can change every rank.
    pub(in crate::domain) reranks: bool,
}

impl<'a> Draft<'a> {
    /// Starts a draft on a state, at `now` of the store's clock.
    pub fn new(base: &'a AppState, limits: &'a Limits, now: Timestamp) -> Draft<'a> {
        Draft {
            base,
            limits,
            now,
            head: (*base.head).clone(),
            statuses: DraftedStatuses::default(),
            units: BTreeMap::new(),
            data: BTreeMap::new(),
            unit_count: base.units.len(),
            key_counts: RefCell::default(),
            faults: BTreeMap::new(),
            tries: BTreeMap::new(),
            requests: BTreeMap::new(),
            events: Vec::new(),
            operations: Cow::Borrowed(&base.operations),
            operation_writes: BTreeMap::new(),
            payload_writes: BTreeMap::new(),
            memory_only: MemoryOnly::default(),
            swings: BTreeMap::new(),
            held: false,
            beside: Usage::default(),
            kept: base.head.kept.unwrap_or_default(),
            changed: false,
            reranks: false,
        }
    }

    /// Returns the revision that the draft will have if it changes a visible value.
    pub(in crate::domain) fn revision(&self) -> Revision {
        match self.changed {
            true => self.base.head.revision.next(),
            false => self.base.head.revision,
        }
    }

    /// Returns whether a visible value has changed so far.
    pub(in crate::domain) fn is_changed(&self) -> bool {
        self.changed
    }

    /// Returns whether the draft has no changes yet.
    pub fn is_untouched(&self) -> bool {
        let has_contact = self.memory_only != MemoryOnly::default() || !self.swings.is_empty();
        !self.changed && !self.held && self.requests.is_empty() && !has_contact
    }

    pub(in crate::domain) fn status(&self, key: &StatusKey) -> Option<&Arc<Status>> {
        match self.statuses.get(key) {
            Some(drafted) => drafted.after.as_ref(),
            None => self.base.statuses.get(key),
        }
    }

    pub(in crate::domain) fn unit(&self, name: &UnitName) -> Option<&Unit> {
        match self.units.get(name) {
            Some(unit) => unit.as_ref(),
            None => self.base.units.get(name),
        }
    }

    /// Returns the stored copy of a unit's name. Names that share memory compare without reading
    /// the text.
    pub(in crate::domain) fn known_name<'n>(&'n self, name: &'n UnitName) -> &'n UnitName {
        let drafted = || self.units.get_key_value(name).map(|(known, _)| known);
        let known = self.base.units.get_key_value(name).map(|(known, _)| known);
        known.or_else(drafted).unwrap_or(name)
    }

    /// Returns the matching units after the draft. Visits each unit; compares names only for units
    /// that match.
    pub(in crate::domain) fn units_where<'b>(
        &'b self,
        is_wanted: impl Fn(&Unit) -> bool + Copy + 'b,
    ) -> impl Iterator<Item = (&'b UnitName, &'b Unit)> {
        let known = self.base.units.iter().filter(move |(_, unit)| is_wanted(unit));
        let kept = known.filter(|(name, _)| !self.units.contains_key(*name));
        let drafted = self.units.iter().filter_map(|(name, unit)| Some((name, unit.as_ref()?)));
        kept.chain(drafted.filter(move |(_, unit)| is_wanted(unit)))
    }

    pub(in crate::domain) fn unit_count(&self) -> usize {
        self.unit_count
    }

    /// Returns the keys of a unit, or of one of its components, after the draft.
    pub(in crate::domain) fn keys_of(
        &self,
        unit: &UnitName,
        component: Option<&PartName>,
    ) -> BTreeSet<Arc<StatusKey>> {
        let belongs = |key: &StatusKey| component.is_none_or(|c| key.component == *c);
        let kept = self.base.statuses_of(unit, component).map(|(k, _)| k);
        let drafted = self.statuses.of(unit).map(|(k, _)| k);
        let keys = kept.chain(drafted.filter(|key| belongs(key)));
        keys.filter(|key| self.status(key).is_some()).cloned().collect()
    }

    pub(in crate::domain) fn put_unit(&mut self, name: UnitName, unit: Option<Unit>) {
        self.count_session(&name, unit.as_ref());
        self.unit_count += usize::from(unit.is_some());
        self.unit_count -= usize::from(self.unit(&name).is_some());
        self.units.insert(name, unit);
        self.changed = true;
    }

    fn count_session(&mut self, name: &UnitName, unit: Option<&Unit>) {
        let held_by = |unit: Option<&Unit>| unit.and_then(Unit::session).map(|s| s.replica);
        let (old, new) = (held_by(self.unit(name)), held_by(unit));
        if old == new {
            return;
        }
        let sessions = &mut self.head.sessions;
        if let Some(count) = old.and_then(|old| sessions.get_mut(&old)) {
            *count -= 1;
        }
        sessions.retain(|_, count| *count != 0);
        if let Some(new) = new {
            *sessions.entry(new).or_default() += 1;
        }
    }

    /// Writes a unit without a visible change: the revision stays.
    pub(in crate::domain) fn put_unit_quietly(&mut self, name: UnitName, unit: Unit) {
        self.units.insert(name, Some(unit));
    }

    /// Returns when a unit is lost if it does not report from now on.
    pub(in crate::domain) fn silence_from_now(&self) -> Timestamp {
        self.now.after(self.head.config.lost_after)
    }

    /// Moves the deadline of a repeated status. Writes it only if the stored deadline is older by a
    /// third of the ttl. Never moves it back: repeats that other replicas received may have moved
    /// it.
    pub(in crate::domain) fn refresh(
        &mut self,
        key: &Arc<StatusKey>,
        status: &Arc<Status>,
        until: Timestamp,
    ) {
        let until = status.expire_time.map_or(until, |known| known.max(until));
        let written = status.expire_time_written.unwrap_or_default();
        if until.since(written) < status.unwritten_max() {
            self.memory_only.deadlines.push((key.clone(), until));
            return;
        }
        let renewed = Status {
            expire_time: Some(until),
            expire_time_written: Some(until),
            ..(**status).clone()
        };
        let old = self.status(key).cloned();
        self.overlay(key.clone(), old, Some(Arc::new(renewed)));
    }

    /// Writes or removes a status; `old` is its value in the draft so far.
    pub(in crate::domain) fn overlay(
        &mut self,
        key: Arc<StatusKey>,
        old: Option<Arc<Status>>,
        after: Option<Arc<Status>>,
    ) {
        self.kept.statuses += u64::from(after.is_some());
        self.kept.statuses -= u64::from(old.is_some());
        self.count_bytes(size_of(old.as_ref()), size_of(after.as_ref()));
        self.statuses.put(key, old, after);
    }

    pub(in crate::domain) fn hear(&mut self, unit: &UnitName) {
        if self.memory_only.units.last() != Some(unit) {
            self.memory_only.units.push(unit.clone());
        }
    }

    /// Records that the unit answered a pull of all its statuses.
    pub(in crate::domain) fn answered(&mut self, unit: &UnitName) {
        if self.memory_only.answers.last() != Some(unit) {
            self.memory_only.answers.push(unit.clone());
        }
    }

    /// Marks a change of the head; `reranks` if the order of contributions may have changed.
    pub(in crate::domain) fn head_changed(&mut self, reranks: bool) {
        self.changed = true;
        self.reranks |= reranks;
    }

    pub(in crate::domain) fn remembered(&self, id: &str) -> Option<&Remembered> {
        self.requests.get(id).or_else(|| self.base.requests.answer(id, self.now))
    }

    /// Returns the newest incarnation of a unit that was removed recently.
    pub(in crate::domain) fn fence(&self, unit: &UnitName) -> Option<u64> {
        Some(self.remembered(&request::fence_id(unit))?.outcome.incarnation)
    }

    /// Returns whether this incarnation of a unit was removed, or has left for good.
    pub(in crate::domain) fn is_removed(&self, name: &UnitName, incarnation: u64) -> bool {
        match self.unit(name) {
            Some(unit) if unit.departed && incarnation <= unit.incarnation => true,
            // Any other unit began after the removal, so its incarnation is newer.
            Some(unit) if unit.incarnation != 0 => false,
            _ => self.fence(name).is_some_and(|fence| incarnation <= fence),
        }
    }

    /// Removes the mark that a unit answered: the unit is removed, and a later one has not
    /// answered.
    pub(in crate::domain) fn unanswered(&mut self, unit: &UnitName) {
        self.memory_only.answers.retain(|name| name != unit);
    }

    /// Adds a fence, so that late reports of a removed unit do not create it again.
    pub(in crate::domain) fn put_fence(&mut self, unit: &UnitName, incarnation: u64) {
        if incarnation != 0 {
            let outcome = Outcome { incarnation, ..Outcome::default() };
            self.remember(request::fence_id(unit), Remembered::of(self.now, outcome));
        }
    }

    pub(in crate::domain) fn remember(&mut self, id: Arc<str>, answer: Remembered) {
        self.requests.insert(id, answer);
    }

    /// Ends the draft: derives the status again and returns the transition.
    pub fn finish(mut self) -> Transition {
        if !self.changed {
            // Stored only together with other changes: without units, nothing becomes uncertain.
            self.head.losses = self.base.head.losses;
        }
        if self.changed {
            self.head.deleted = false;
            self.head.revision = self.base.head.revision.next();
            self.head.update_time = self.now;
            if self.base.head.deleted {
                self.head.create_time = self.now;
            }
            let old = std::mem::take(&mut self.head.summary);
            self.head.summary = self.summary(&old);
            self.log_summary(&old);
        }
        if self.changed || self.kept != self.base.head.kept.unwrap_or_default() {
            self.head.kept = Some(self.kept);
        }
        if self.held && !self.changed {
            self.head.quiet_commits += 1;
        }
        self.settle_memory_only();
        self.head.next_event += self.events.len() as u64;
        self.head.next_due = self.next_due();
        // Once at the end: a draft that evicts answers must still find all of its own.
        let forgotten = self.base.requests.surplus(&self.requests, self.limits, self.now);
        let operations = self.take_operation_writes();
        let units = self.units.into_iter().map(|(n, u)| Write::Unit(n, u));
        let statuses = self.statuses.into_iter().map(|(k, s)| Write::Status(k, s));
        let faults = self.faults.into_iter().map(|(k, f)| Write::Fault(k, f));
        let data = self.data.into_iter().map(|(key, value)| Write::Data(key, value));
        // An answer that replaces an expired one removes that one first; an answer without a
        // removal is the first for its id.
        let known = &self.base.requests;
        let requests = self.requests.into_iter().flat_map(|(id, answer)| {
            let old = known.get(&id).map(|_| Write::Request(id.clone(), None));
            old.into_iter().chain([Write::Request(id, Some(answer))])
        });
        let forgotten = forgotten.into_iter().map(|id| Write::Request(id, None));
        Transition {
            app: self.base.name.clone(),
            base: self.base.head.revision,
            base_quiet: self.base.head.quiet_commits,
            epoch_floor: self.base.epoch_floor,
            head: Arc::new(self.head),
            writes: units
                .chain(statuses)
                .chain(faults)
                .chain(data)
                .chain(requests)
                .chain(forgotten)
                .chain(operations)
                .collect(),
            events: self.events,
            memory_only: self.memory_only,
            time: self.now,
        }
    }

    /// Drops in-memory changes for records that the draft writes: the record itself carries the
    /// deadline and the last contact.
    fn settle_memory_only(&mut self) {
        let statuses = &self.statuses;
        let is_written = |key: &Arc<StatusKey>| statuses.contains(key);
        self.memory_only.deadlines.retain(|(key, _)| !is_written(key));
        let swings = std::mem::take(&mut self.swings).into_iter();
        self.memory_only.swings = swings.filter(|(key, _)| !is_written(key)).collect();
        for unit in self.units.values_mut().flatten() {
            // Keeps the transition equal to its stored form, which does not have this field.
            unit.last_seen_written = Timestamp::default();
        }
        for name in &self.memory_only.units {
            if let Some(Some(unit)) = self.units.get_mut(name) {
                unit.last_seen = self.now;
            }
        }
        for name in &self.memory_only.answers {
            if let Some(Some(unit)) = self.units.get_mut(name) {
                unit.last_answer = self.now;
            }
        }
    }

    fn log_summary(&mut self, old: &Summary) {
        let new = &self.head.summary;
        if new.level == old.level && same_text(&new.message, &old.message) {
            return;
        }
        let event = StatusEvent {
            from: (!self.base.head.deleted).then_some(old.level),
            to: Some(new.level),
            message: new.message.clone(),
            reason: new.reason.clone(),
            ..self.event(Cause::Derived)
        };
        self.log(event);
    }

    /// Returns the earliest deadline after the draft. The result may be a deadline that a repeat
    /// has moved, which costs one extra check.
    fn next_due(&self) -> Option<Timestamp> {
        let after = || self.statuses.written().map(|(_, status)| status);
        let units = self.units.values().flatten();
        let kept = self.base.due.iter().find(|(_, due)| self.is_still_due(due));
        after()
            .filter(|s| !s.stale)
            .filter_map(|s| s.expire_time)
            .chain(after().filter_map(|s| Some(s.flapping()?.calm_time)))
            .chain(units.filter_map(Unit::deadline))
            .chain(self.faults.values().flatten().filter_map(|fault| fault.deadline()))
            .chain(self.head.application_status.as_ref().and_then(|s| s.expire_time))
            .chain(self.operations.due().map(|(at, _)| at))
            .chain(self.head.lease_ends())
            .chain(kept.map(|(at, _)| *at))
            .min()
    }

    fn is_still_due(&self, due: &super::app::Due) -> bool {
        use crate::domain::app::Due;
        match due {
            Due::Status(key) | Due::Calm(key) => !self.statuses.contains(key),
            Due::Unit(name) => !self.units.contains_key(name),
            Due::Fault(key) => !self.faults.contains_key(key),
            Due::ApplicationStatus | Due::Lease | Due::Operation(_) => false,
        }
    }
}
