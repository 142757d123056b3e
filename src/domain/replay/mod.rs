//! Replay: a committed transition is applied to the state.

mod need;

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::domain::model::app::{AppState, Due, Head};
use crate::domain::model::bytes::Bytes;
use crate::domain::model::contribution::{Ranking, fault_rank, own_ranks, status_rank, unit_ranks};
use crate::domain::model::fault::{Fault, FaultKey};
use crate::domain::model::index::Index;
use crate::domain::model::mark::{Mark, MarkId};
use crate::domain::model::name::{AppName, OperationId, UnitName};
use crate::domain::model::operation::Operation;
use crate::domain::model::outage::Outages;
use crate::domain::model::rank::Rank;
use crate::domain::model::request::Remembered;
use crate::domain::model::revision::Revision;
use crate::domain::model::status::{Status, StatusKey};
use crate::domain::model::time::Timestamp;
use crate::domain::model::transition::{Transition, Write};
use crate::domain::model::unit::Unit;
use crate::domain::model::unit::presence::Presence;

/// The stored records of one application.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Records {
    /// The head.
    pub head: Head,
    /// The epoch floor; see [`AppState::epoch_floor`].
    pub epoch_floor: u64,
    /// The units.
    pub units: Vec<(UnitName, Unit)>,
    /// The statuses.
    pub statuses: Vec<(StatusKey, Status)>,
    /// The open faults.
    pub faults: Vec<(FaultKey, Fault)>,
    /// The stored answers.
    pub requests: Vec<(Arc<str>, Remembered)>,
    /// The operations.
    pub operations: Vec<(OperationId, Arc<Operation>)>,
    /// The payloads that are stored here.
    pub payloads: Vec<(OperationId, Bytes)>,
    /// The leader's data.
    pub data: Vec<(Arc<str>, Bytes)>,
    /// The marks.
    pub marks: Vec<(MarkId, Arc<Mark>)>,
}

impl Records {
    /// Returns records with a head only.
    pub fn of_head(head: Head) -> Records {
        Records { head, ..Records::default() }
    }
}

/// A status that changed its rank: its key, the old and the new value.
type Moved<'t> = (&'t Arc<StatusKey>, Option<Arc<Status>>, Option<&'t Arc<Status>>);

impl AppState {
    /// Builds the state from its stored records.
    pub fn load(name: AppName, records: Records) -> AppState {
        let mut state = AppState::empty(name, records.head.revision);
        state.head = Arc::new(records.head);
        state.epoch_floor = records.epoch_floor;
        let units = records.units.into_iter();
        state.units = units.map(|(name, unit)| (name, Box::new(unit))).collect();
        for unit in state.units.values_mut() {
            unit.last_seen_written = unit.last_seen;
            // The memory store returns units as they were committed, with the `not_before` of the
            // writer. Other stores do not store this field.
            unit.not_before = None;
        }
        for (mut key, mut status) in records.statuses {
            if let Some((unit, _)) = state.units.get_key_value(&key.unit) {
                // All records of a unit share one copy of its name: such names compare without
                // reading the text.
                key.unit = unit.clone();
            }
            status.expire_time_written = status.expire_time;
            state.statuses.insert(&Arc::new(key), Arc::new(status));
        }
        for (key, fault) in records.faults {
            state.faults.put(Arc::new(key), Some(Arc::new(fault)));
        }
        for (id, remembered) in records.requests {
            state.requests.insert(id, remembered);
        }
        for (id, operation) in records.operations {
            state.operations.put(&id, Some(&operation));
        }
        for (id, payload) in records.payloads {
            state.operations.put_payload(&id, Some(&payload));
        }
        state.data = records.data.into_iter().collect();
        for (id, mark) in records.marks {
            state.marks.put(&id, Some(mark));
        }
        state.add_missing_counts();
        state.rebuild();
        state
    }

    /// Takes over the outages of the store. All deadlines move by those after their begin
    /// ([`Deadlines`](crate::domain::model::deadline::Deadlines)).
    pub fn note_outages(&mut self, outages: &Arc<Outages>) {
        if !Arc::ptr_eq(&self.outages, outages) {
            let is_same = self.outages == *outages;
            self.outages = outages.clone();
            if !is_same {
                self.collect_due();
            }
        }
    }

    /// Extends deadlines, because other replicas may have received repeats that they did not write.
    /// The deadline of a status after its last repeat is later than the stored one by less than
    /// [`Status::unwritten_max`]. The deadline of a unit after its last contact has the same bound,
    /// with its own `unwritten_max`.
    pub fn allow_for_repeats(&mut self) {
        for unit in self.units.values_mut() {
            if let Presence::Promised(ttl) = unit.presence {
                let latest = unit.last_seen_written.after(ttl).after(unit.unwritten_max());
                unit.not_before = unit.not_before.max(Some(latest));
            }
        }
        self.statuses.for_each_mut(|status| {
            let latest = status.expire_time_written.map(|at| at.after(status.unwritten_max()));
            if !status.stale && status.expire_time < latest {
                Arc::make_mut(status).expire_time = latest;
            }
        });
        self.collect_due();
    }

    /// Applies a committed transition to the state.
    pub fn replay(&mut self, transition: &Transition) {
        if transition.is_deletion() {
            let (epoch_floor, outages) = (self.epoch_floor, self.outages.clone());
            let empty = AppState::empty(self.name.clone(), Revision::default());
            *self = AppState { epoch_floor, outages, head: transition.head.clone(), ..empty };
            self.write(transition);
            return;
        }
        if self.head.ranks_otherwise(&transition.head) || self.replans(transition) {
            self.head = transition.head.clone();
            self.write(transition);
            self.rebuild();
        } else {
            self.replay_ranks(transition);
        }
        for unit in &transition.memory_only.units {
            if let Some(unit) = self.units.get_mut(unit) {
                unit.last_seen = unit.last_seen.max(transition.time);
            }
        }
        for unit in &transition.memory_only.answers {
            if let Some(unit) = self.units.get_mut(unit) {
                unit.last_answer = unit.last_answer.max(transition.time);
            }
        }
        for (key, until) in &transition.memory_only.deadlines {
            if let Some(status) = self.statuses.get_mut(key) {
                Arc::make_mut(status).expire_time = Some(*until);
            }
        }
        for (key, swings) in &transition.memory_only.swings {
            if let Some(status) = self.statuses.get_mut(key) {
                Arc::make_mut(status).swings = *swings;
            }
        }
        self.restate(transition);
        self.add_missing_counts();
        self.settle_due(transition.time);
    }

    /// Returns whether a transition may change what planned work covers.
    fn replans(&self, transition: &Transition) -> bool {
        transition.writes.iter().any(|write| {
            let Write::Mark(id, mark) = write else { return false };
            mark.iter().chain(self.marks.get(id)).any(|mark| mark.is_planned())
        })
    }

    /// Writes the records and updates only the ranks that they affect.
    fn replay_ranks(&mut self, transition: &Transition) {
        let whole = self.ranked_before_or_after(transition);
        for unit in &whole {
            let ranks: Vec<Rank> = self.index.of_unit(unit).cloned().collect();
            ranks.iter().for_each(|rank| self.index.remove(rank));
        }
        let faults = transition.writes.iter().filter_map(|write| match write {
            Write::Fault(key, _) if !whole.contains(&key.unit) => Some(key),
            _ => None,
        });
        let old: Vec<Rank> = faults.clone().filter_map(|key| self.rank_of_fault(key)).collect();
        old.iter().for_each(|rank| self.index.remove(rank));
        let ranking = Ranking::of(&self.head, &self.marks);
        own_ranks(ranking).for_each(|rank| self.index.remove(&rank));
        // Not left to come up, as others are: that would be a month later.
        self.head.abandoned_until.map(|at| self.due.remove(&(at, Due::Abandoned)));
        self.head = transition.head.clone();
        let moved = self.write(transition);
        let singles = moved.into_iter().filter(|(key, ..)| !whole.contains(&key.unit));
        for (key, old, new) in singles {
            // Its unit's freshness has not changed, so the current unit gives both ranks.
            let rank = |status: &Arc<Status>| self.rank_as(key, status);
            let (old, new) = (old.as_ref().and_then(rank), new.and_then(rank));
            self.index.replace(&key.unit, old.as_ref(), new);
        }
        let new: Vec<Rank> = faults.filter_map(|key| self.rank_of_fault(key)).collect();
        new.into_iter().for_each(|rank| self.index.insert(rank));
        for unit in &whole {
            self.index_unit(unit);
        }
        let ranking = Ranking::of(&self.head, &self.marks);
        own_ranks(ranking).for_each(|rank| self.index.insert(rank));
    }

    /// Returns the written units that are lost or uncertain, or have an operation, before or after
    /// the transition.
    fn ranked_before_or_after(&self, transition: &Transition) -> BTreeSet<UnitName> {
        let ranked = transition.writes.iter().filter_map(|write| match write {
            Write::Unit(name, unit) => {
                let is = unit.as_ref().is_some_and(|u| u.has_rank());
                let was = self.unit(name).is_some_and(Unit::has_rank);
                (is || was).then(|| name.clone())
            }
            _ => None,
        });
        ranked.collect()
    }

    /// Writes the records. Returns the statuses that changed their rank, with their old and new
    /// values.
    fn write<'t>(&mut self, transition: &'t Transition) -> Vec<Moved<'t>> {
        let mut moved = Vec::new();
        for write in &transition.writes {
            match write {
                Write::Unit(name, Some(unit)) => {
                    let old = self.forget_unit(name);
                    let unit = (**unit).clone().replayed(old);
                    let at = self.deadlines().of_unit(&unit);
                    self.due.extend(at.map(|at| (at, Due::Unit(name.clone()))));
                    self.units.insert(name.clone(), Box::new(unit));
                }
                Write::Unit(name, None) => {
                    self.forget_unit(name);
                }
                Write::Status(key, Some(status)) => {
                    let deadlines = self.deadlines();
                    let (end, calm) = (deadlines.of_status(status), deadlines.of_calm(status));
                    self.due.extend(end.map(|at| (at, Due::Status(key.clone()))));
                    self.due.extend(calm.map(|at| (at, Due::Calm(key.clone()))));
                    let mut kept = status.clone();
                    if kept.expire_time_written != kept.expire_time {
                        // Needed for transitions that another replica wrote.
                        Arc::make_mut(&mut kept).expire_time_written = kept.expire_time;
                    }
                    let old = self.statuses.insert(key, kept);
                    self.forget_deadline(key, old.as_deref(), Some(status));
                    if !old.as_ref().is_some_and(|old| old.ranks_as(status)) {
                        moved.push((key, old, Some(status)));
                    }
                }
                Write::Status(key, None) => {
                    let old = self.statuses.remove(key);
                    self.forget_deadline(key, old.as_deref(), None);
                    moved.push((key, old, None));
                }
                Write::Fault(key, fault) => self.write_fault(key, fault.as_ref(), transition.time),
                Write::Data(key, Some(value)) => {
                    self.data.insert(key.clone(), value.clone());
                }
                Write::Data(key, None) => {
                    self.data.remove(key);
                }
                Write::Request(id, Some(answer)) => {
                    self.requests.insert(id.clone(), (**answer).clone());
                }
                Write::Request(id, None) => self.requests.remove(id),
                Write::Operation(id, operation) => {
                    // Its earlier deadlines are dropped when they come up.
                    self.operations.put(id, operation.as_ref());
                    let deadlines = self.deadlines();
                    let at = operation.as_ref().and_then(|o| deadlines.of_operation(o));
                    self.due.extend(at.map(|at| (at, Due::Operation(id.clone()))));
                }
                Write::Payload(id, payload) => self.operations.put_payload(id, payload.as_ref()),
                Write::Mark(id, mark) => self.write_mark(id, mark.as_ref()),
            }
        }
        for due in [Due::ApplicationStatus, Due::Lease, Due::Abandoned] {
            self.due.extend(self.deadline(&due).map(|at| (at, due)));
        }
        moved
    }

    /// Writes or removes a mark, with its deadline.
    fn write_mark(&mut self, id: &MarkId, mark: Option<&Arc<Mark>>) {
        let deadlines = self.deadlines();
        let old = self.marks.get(id).map(|old| deadlines.of_mark(old));
        let new = mark.map(|mark| deadlines.of_mark(mark));
        old.map(|at| self.due.remove(&(at, Due::Mark(id.clone()))));
        self.due.extend(new.map(|at| (at, Due::Mark(id.clone()))));
        self.marks.put(id, mark.cloned());
    }

    /// Writes or removes a fault, and counts the end of one.
    fn write_fault(&mut self, key: &Arc<FaultKey>, fault: Option<&Arc<Fault>>, now: Timestamp) {
        let deadlines = self.deadlines();
        let old = self.faults.get(key);
        let ended = old.filter(|old| fault.is_none() && old.may_relapse());
        let was_intermittent = ended.map(|ended| ended.intermittent.is_some());
        let old = old.and_then(|fault| deadlines.of_fault(fault));
        let at = fault.and_then(|fault| deadlines.of_fault(fault));
        if let Some(old) = old {
            self.due.remove(&(old, Due::Fault(key.clone())));
        }
        self.due.extend(at.map(|at| (at, Due::Fault(key.clone()))));
        self.faults.put(key.clone(), fault.cloned());
        match was_intermittent {
            Some(true) => self.relapses.forget(key),
            Some(false) => self.relapses.count(key, now),
            None => {}
        }
    }

    /// Removes the deadlines that a status no longer has. Best effort: if a repeat has moved one,
    /// the entry stays until it comes up.
    fn forget_deadline(
        &mut self,
        key: &Arc<StatusKey>,
        old: Option<&Status>,
        new: Option<&Arc<Status>>,
    ) {
        let Some(old) = old else { return };
        let deadlines = self.deadlines();
        // A stale status keeps the time at which it was due, and has the one of its end.
        let fresh = deadlines.of_status(&Status { stale: false, ..old.clone() });
        let new_end = new.and_then(|new| deadlines.of_status(new));
        let new_calm = new.and_then(|new| deadlines.of_calm(new));
        let gone = [fresh, deadlines.of_end(old)].map(|at| at.filter(|at| new_end != Some(*at)));
        let gone_calm = deadlines.of_calm(old).filter(|at| new_calm != Some(*at));
        for at in gone.into_iter().flatten() {
            self.due.remove(&(at, Due::Status(key.clone())));
        }
        gone_calm.map(|at| self.due.remove(&(at, Due::Calm(key.clone()))));
    }

    /// Removes a unit, with its current deadline and the one as of its last write.
    fn forget_unit(&mut self, name: &UnitName) -> Option<Unit> {
        let unit = *self.units.remove(name)?;
        let written = Unit { last_seen: unit.last_seen_written, ..unit.clone() };
        let deadlines = self.deadlines();
        let ends = [deadlines.of_unit(&unit), deadlines.of_unit(&written)];
        for at in ends.into_iter().flatten() {
            self.due.remove(&(at, Due::Unit(name.clone())));
        }
        Some(unit)
    }

    /// Updates the entries of `due` whose time has come, in order: drops an entry without deadline,
    /// moves an entry with a later deadline, and stops at the first entry that is still due.
    fn settle_due(&mut self, now: Timestamp) {
        let mut moved = Vec::new();
        while let Some((at, due)) = self.due.first().cloned() {
            if now < at {
                break;
            }
            let stands = self.deadline(&due);
            if stands.is_some_and(|stands| stands <= now) {
                // Still due: the next expire handles it.
                break;
            }
            self.due.pop_first();
            moved.extend(stands.map(|at| (at, due)));
        }
        self.due.extend(moved);
    }

    /// Returns the current deadline of an entry, if it still has one.
    pub(in crate::domain) fn deadline(&self, due: &Due) -> Option<Timestamp> {
        let deadlines = self.deadlines();
        match due {
            Due::Status(key) => deadlines.of_status(self.statuses.get(key)?),
            Due::Calm(key) => deadlines.of_calm(self.statuses.get(key)?),
            Due::Unit(name) => deadlines.of_unit(self.units.get(name)?),
            Due::Fault(key) => deadlines.of_fault(self.faults.get(key)?),
            Due::ApplicationStatus => self.head.application_status.as_ref()?.expire_time,
            Due::Operation(id) => deadlines.of_operation(self.operations.get(id)?),
            Due::Mark(id) => Some(deadlines.of_mark(self.marks.get(id)?)),
            Due::Lease => deadlines.of_lease(self.head.lease.as_ref()?),
            Due::Abandoned => self.head.abandoned_until,
        }
    }

    /// Returns the rank of a fault, if it contributes.
    pub(in crate::domain) fn rank_of_fault(&self, key: &Arc<FaultKey>) -> Option<Rank> {
        let fault = self.faults.get(key)?;
        fault_rank(self.ranking(), self.unit(&key.unit), key, fault)
    }

    /// Returns the rank of a status with this value, if it contributes.
    pub(in crate::domain) fn rank_as(
        &self,
        key: &Arc<StatusKey>,
        status: &Arc<Status>,
    ) -> Option<Rank> {
        status_rank(self.ranking(), self.unit(&key.unit), key, status)
    }

    fn index_unit(&mut self, name: &UnitName) {
        let statuses = self.statuses.of(name, None);
        let statuses = statuses.filter_map(|(key, status)| self.rank_as(key, status));
        let faults = self.faults.of(name, None).filter_map(|(key, _)| self.rank_of_fault(key));
        let ranks: Vec<Rank> = statuses.chain(faults).collect();
        ranks.into_iter().for_each(|rank| self.index.insert(rank));
        if let Some(unit) = self.units.get(name) {
            let ranking = Ranking::of(&self.head, &self.marks);
            unit_ranks(ranking, name, unit).for_each(|rank| self.index.insert(rank));
        }
    }

    /// Builds the index and the deadlines from the records.
    fn rebuild(&mut self) {
        self.index = match self.marks.planned().is_empty() {
            true => Index::default(),
            false => Index::tallied(),
        };
        let units: Vec<UnitName> = self.units.keys().cloned().collect();
        units.iter().for_each(|unit| self.index_unit(unit));
        self.index_unit(&UnitName::application());
        let ranking = Ranking::of(&self.head, &self.marks);
        own_ranks(ranking).for_each(|rank| self.index.insert(rank));
        self.restate_all();
        self.collect_due();
    }

    fn collect_due(&mut self) {
        let deadlines = self.deadlines();
        let statuses = self.statuses.iter().flat_map(|(key, status)| {
            let end = deadlines.of_status(status).map(|at| (at, Due::Status(key.clone())));
            let calm = deadlines.of_calm(status).map(|at| (at, Due::Calm(key.clone())));
            end.into_iter().chain(calm)
        });
        let units = self.units.iter();
        let units = units.filter_map(|(n, u)| Some((deadlines.of_unit(u)?, Due::Unit(n.clone()))));
        let faults = self.faults.iter();
        let faults =
            faults.filter_map(|(k, f)| Some((deadlines.of_fault(f)?, Due::Fault(k.clone()))));
        let operations = self.operations.iter();
        let operations = operations
            .filter_map(|(id, o)| Some((deadlines.of_operation(o)?, Due::Operation(id.clone()))));
        let marks = self.marks.iter();
        let marks = marks.map(|(id, mark)| (deadlines.of_mark(mark), Due::Mark(id.clone())));
        let single = [Due::ApplicationStatus, Due::Lease, Due::Abandoned].into_iter();
        let single = single.filter_map(|due| Some((self.deadline(&due)?, due)));
        let records = statuses.chain(units).chain(faults).chain(operations);
        self.due = records.chain(marks).chain(single).collect();
    }

    /// Returns every contribution, computed from the records without the index: the reference for
    /// the index.
    pub fn contributions_from_scratch(&self) -> BTreeSet<Rank> {
        let mut scratch = self.clone();
        scratch.rebuild();
        scratch.ranked().cloned().collect()
    }
}
