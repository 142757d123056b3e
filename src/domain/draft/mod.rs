//! A draft: the state of an application, overlaid with the changes of a batch of commands. The
//! state itself changes only when the draft's transition is committed.
//!
//! Each topic has a part of the draft with private fields. The methods here keep the parts
//! consistent with each other; the rules of a topic are functions in `rules`.

mod abandoned;
mod contacts;
mod data;
mod event_log;
mod fault;
mod head;
mod key_counts;
mod mark;
mod marked;
mod need;
mod operation;
mod quorum;
mod request;
mod status;
mod statuses;
mod summary;
mod unit;
mod usage;

use std::collections::BTreeSet;
use std::hash::Hash;
use std::sync::Arc;

use indexmap::Equivalent;

use crate::domain::draft::contacts::Contacts;
use crate::domain::draft::data::DataDraft;
use crate::domain::draft::fault::FaultDraft;
use crate::domain::draft::head::HeadDraft;
use crate::domain::draft::key_counts::KeyCounts;
use crate::domain::draft::mark::MarkDraft;
use crate::domain::draft::operation::OperationDraft;
use crate::domain::draft::request::RequestDraft;
use crate::domain::draft::status::StatusDraft;
use crate::domain::draft::unit::UnitDraft;
use crate::domain::draft::usage::UsageDraft;
use crate::domain::model::app::{AppState, Due};
use crate::domain::model::contribution::Ranking;
use crate::domain::model::deadline::Deadlines;
use crate::domain::model::fault::{Fault, FaultKey};
use crate::domain::model::history::StatusEvent;
use crate::domain::model::leadership::next_count;
use crate::domain::model::limits::Limits;
use crate::domain::model::name::{PartName, UnitName};
use crate::domain::model::status::{KeyParts, Status, StatusKey};
use crate::domain::model::time::Timestamp;
use crate::domain::model::transition::Transition;
use crate::domain::model::unit::Unit;
use crate::domain::model::usage::Usage;

/// The changes of a batch of commands, on top of a committed state.
pub struct Draft<'a> {
    pub(super) base: &'a AppState,
    pub(super) limits: &'a Limits,
    pub(super) now: Timestamp,
    /// Up to when deadlines are judged; see [`judge_until`](Draft::judge_until).
    pub(super) judged: Timestamp,
    pub(super) head: HeadDraft<'a>,
    pub(super) units: UnitDraft<'a>,
    pub(super) statuses: StatusDraft,
    pub(super) faults: FaultDraft<'a>,
    pub(super) operations: OperationDraft<'a>,
    pub(super) marks: MarkDraft<'a>,
    pub(super) data: DataDraft<'a>,
    pub(super) requests: RequestDraft<'a>,
    pub(super) contacts: Contacts,
    pub(super) usage: UsageDraft,
    pub(super) key_counts: KeyCounts,
    events: Vec<StatusEvent>,
}

impl<'a> Draft<'a> {
    /// Starts a draft on a state, at `now` of the store's clock.
    pub fn new(base: &'a AppState, limits: &'a Limits, now: Timestamp) -> Draft<'a> {
        Draft {
            base,
            limits,
            now,
            judged: now,
            head: HeadDraft::new(&base.head),
            units: UnitDraft::new(&base.units),
            statuses: StatusDraft::default(),
            faults: FaultDraft::new(&base.faults),
            operations: OperationDraft::new(&base.operations),
            marks: MarkDraft::new(&base.marks),
            data: DataDraft::new(&base.data),
            requests: RequestDraft::new(&base.requests, now, base.answer_expiry(now)),
            contacts: Contacts::default(),
            usage: UsageDraft::new(base.head.counts.unwrap_or_default()),
            key_counts: KeyCounts::default(),
            events: Vec::new(),
        }
    }

    /// Judges deadlines up to this time only, because there may be outages after it that are not
    /// known here. Call it before everything else.
    pub fn judge_until(&mut self, judged: Timestamp) {
        self.judged = judged.min(self.now);
        self.requests.judge_until(self.judged);
    }

    /// Returns the deadlines, with the outages of the state.
    pub(super) fn deadlines(&self) -> Deadlines<'a> {
        self.base.deadlines()
    }

    /// Sets the usage of all other applications, and of those in the namespace. Call it before
    /// everything else.
    pub fn set_usage_of_others(&mut self, all: Usage, in_namespace: Usage) {
        (self.usage.others, self.usage.others_in_namespace) = (all, in_namespace);
    }

    pub(super) fn status(
        &self,
        key: &(impl Hash + Equivalent<Arc<StatusKey>>),
    ) -> Option<&Arc<Status>> {
        match self.statuses.get(key) {
            Some(drafted) => drafted.after.as_ref(),
            None => self.base.statuses.get(key),
        }
    }

    /// Returns a status with the results and the deadline that this draft keeps in memory only:
    /// a written record carries them itself.
    pub(super) fn latest(&self, key: &StatusKey) -> Option<Status> {
        let status = self.status(key)?;
        let swings = self.contacts.swings(key).unwrap_or(status.swings);
        let expire_time = status.expire_time.max(self.contacts.deadline(key));
        Some(Status { swings, expire_time, ..(**status).clone() })
    }

    /// Returns a status and its key: the stored one if there is one, else a new one.
    pub(super) fn find(&self, key: KeyParts<'_>) -> (Arc<StatusKey>, Option<Arc<Status>>) {
        let drafted = self.statuses.find(&key).map(|(key, drafted)| (key, drafted.after.as_ref()));
        let stored = || self.base.statuses.find(&key).map(|(key, status)| (key, Some(status)));
        match drafted.or_else(stored) {
            Some((key, status)) => (key.clone(), status.cloned()),
            None => (Arc::new(key.with_name(self.units.known_name(key.unit()))), None),
        }
    }

    pub(super) fn unit(&self, name: &UnitName) -> Option<&Unit> {
        self.units.get(name)
    }

    /// Returns the keys of a unit, or of one of its components, after the draft.
    pub(super) fn keys_of(
        &self,
        unit: &UnitName,
        component: Option<&PartName>,
    ) -> BTreeSet<Arc<StatusKey>> {
        let belongs = |key: &StatusKey| component.is_none_or(|c| key.component == *c);
        let kept = self.base.statuses.of(unit, component).map(|(k, _)| k);
        let drafted = self.statuses.of(unit).map(|(k, _)| k);
        let keys = kept.chain(drafted.filter(|key| belongs(key)));
        keys.filter(|key| self.status(*key).is_some()).cloned().collect()
    }

    /// Writes or removes a unit.
    pub(super) fn put_unit(&mut self, name: UnitName, unit: Option<Unit>) {
        let held_by = |unit: Option<&Unit>| unit.and_then(Unit::session).map(|s| s.replica);
        self.head.count_session(held_by(self.unit(&name)), held_by(unit.as_ref()));
        self.head.mark_visible();
        self.units.put(name, unit);
    }

    /// Writes or removes a fault.
    pub(super) fn put_fault(&mut self, key: Arc<FaultKey>, fault: Option<Arc<Fault>>) {
        let size = |fault: Option<&Arc<Fault>>| fault.map_or(0, |fault| fault.size());
        let old = self.faults.get(&key);
        self.head.count_fault(old.is_some(), fault.is_some());
        self.head.mark_visible();
        self.usage.count_bytes(size(old), size(fault.as_ref()));
        self.faults.put(key, fault);
    }

    /// Returns what ranks the contributions after the draft.
    pub(super) fn ranking(&self) -> Ranking<'_> {
        Ranking { head: &self.head, planned: self.marks.planned() }
    }

    /// Returns whether the draft changes the order of contributions that it does not write.
    pub(super) fn reranks(&self) -> bool {
        self.head.reranks() || self.marks.replans()
    }

    /// Returns when a unit is lost if it does not report from now on.
    pub(super) fn silence_from_now(&self) -> Timestamp {
        self.now.after(self.head.config.lost_after)
    }

    /// Returns the next value of a count that must only rise, even after a data loss.
    pub(super) fn next_count(&self, last: u64) -> u64 {
        let start = (self.head.losses, self.base.epoch_floor);
        next_count(last, start, self.head.data.counts_above)
    }

    /// Ends the draft: derives the status again and returns the transition.
    pub fn finish(mut self) -> Transition {
        self.head.close(self.now);
        self.requests.set_config(self.head.revision, &self.head.config);
        if self.head.is_visible() {
            let reranked = self.reranked();
            let (summary, winner) = self.summary(&reranked);
            self.judge_marks(&reranked, &summary.totals);
            let marks = self.mark_summary(&reranked, winner.as_deref(), &summary);
            self.log_summary(&summary);
            self.head.set_summary(summary);
            self.head.set_next_retry(self.faults.next_retry());
            self.head.set_marks(marks);
            self.head.set_needs(self.stated_needs());
            self.head.set_abandoned_until(self.abandoned_until());
        }
        self.head.set_counts(self.usage.counts());
        let contacts = std::mem::take(&mut self.contacts);
        let memory_only = contacts.settle(&self.statuses, &mut self.units, self.now);
        let next_due = self.next_due();
        let base = self.head.base();
        let head = self.head.into_head(self.usage.new_events(), next_due);
        let units = self.units.into_writes();
        Transition {
            app: self.base.name.clone(),
            base: base.revision,
            base_quiet: base.quiet_commits,
            epoch_floor: self.base.epoch_floor,
            head,
            writes: units
                .chain(self.statuses.into_writes())
                .chain(self.faults.into_writes())
                .chain(self.data.into_writes())
                .chain(self.requests.into_writes(self.limits))
                .chain(self.operations.into_writes())
                .chain(self.marks.into_writes())
                .collect(),
            events: self.events,
            memory_only,
            time: self.now,
        }
    }

    /// Returns the earliest deadline after the draft. The result may be a deadline that a repeat
    /// has moved, which costs one extra check.
    fn next_due(&self) -> Option<Timestamp> {
        let deadlines = self.deadlines();
        let statuses = self.statuses.written().map(|(_, status)| status);
        let of_status = |s: &Status| [deadlines.of_status(s), deadlines.of_calm(s)];
        let kept = self.base.due.iter().find(|(_, due)| self.is_still_due(due));
        let operations = self.operations.iter();
        statuses
            .flat_map(|status| of_status(status).into_iter().flatten())
            .chain(self.units.written().filter_map(|unit| deadlines.of_unit(unit)))
            .chain(self.faults.written().filter_map(|fault| deadlines.of_fault(fault)))
            .chain(self.head.application_status.as_ref().and_then(|s| s.expire_time))
            .chain(operations.filter_map(|(_, o)| deadlines.of_operation(o)))
            .chain(self.head.lease.as_ref().and_then(|lease| deadlines.of_lease(lease)))
            .chain(self.marks.iter().map(|(_, mark)| deadlines.of_mark(mark)))
            .chain(self.head.abandoned_until)
            .chain(kept.map(|(at, _)| *at))
            .min()
    }

    fn is_still_due(&self, due: &Due) -> bool {
        match due {
            Due::Status(key) | Due::Calm(key) => !self.statuses.contains(key),
            Due::Unit(name) => !self.units.contains(name),
            Due::Fault(key) => !self.faults.contains(key),
            Due::ApplicationStatus
            | Due::Lease
            | Due::Abandoned
            | Due::Operation(_)
            | Due::Mark(_) => false,
        }
    }
}
