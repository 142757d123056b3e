//! Operations as part of the state of an application.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::begin::{Begin, may_begin};
use super::command::{NewOperation, Order, What};
use super::refused::Refused;
use super::transition::Call;
use super::words::OperationStatus;
use super::{Bytes, Operation, Reason, State};
use crate::domain::app::{AppState, Due};
use crate::domain::apply::Effect;
use crate::domain::callback::Topic;
use crate::domain::command::{Rejected, Reporter};
use crate::domain::draft::Draft;
use crate::domain::limits::{OPERATION_KEPT, OPERATIONS_FINISHED_MAX};
use crate::domain::name::{OperationId, PartName, UnitName};
use crate::domain::time::Timestamp;
use crate::domain::transition::{Cause, Change, StatusEvent, Subject, Write};

/// The operations of an application, with the payloads that are stored here.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Operations {
    records: BTreeMap<OperationId, Arc<Operation>>,
    payloads: BTreeMap<OperationId, Bytes>,
}

impl Operations {
    /// Returns one operation.
    pub fn get(&self, id: &OperationId) -> Option<&Arc<Operation>> {
        self.records.get(id)
    }

    /// Returns the payload of an operation, if it is stored here.
    pub fn payload(&self, id: &OperationId) -> Option<&Bytes> {
        self.payloads.get(id)
    }

    /// Returns all operations, by id.
    pub fn iter(&self) -> impl Iterator<Item = (&OperationId, &Arc<Operation>)> {
        self.records.iter()
    }

    /// Returns the payloads stored here, by id.
    pub fn payloads(&self) -> impl Iterator<Item = (&OperationId, &Bytes)> {
        self.payloads.iter()
    }

    /// Returns the operation that was begun or retried last: it gives the application's operation
    /// status, and is the only one that may be open.
    pub fn last(&self) -> Option<(&OperationId, &Arc<Operation>)> {
        self.records.iter().max_by_key(|(_, operation)| operation.turn)
    }

    /// Returns the open operation, if there is one.
    pub fn open(&self) -> Option<(&OperationId, &Arc<Operation>)> {
        self.last().filter(|(_, operation)| operation.is_open())
    }

    /// Returns the operations, the last begun or retried first.
    pub fn latest_first(&self) -> Vec<(&OperationId, &Arc<Operation>)> {
        let mut all: Vec<_> = self.records.iter().collect();
        all.sort_by_key(|(_, operation)| std::cmp::Reverse(operation.turn));
        all
    }

    /// Returns the open operation for a unit that begins: with its payload, unless another unit
    /// holds it.
    pub fn pending(&self, unit: &UnitName) -> Option<Pending> {
        let (id, operation) = self.open()?;
        let is_theirs = operation.holder().is_none_or(|holder| holder == unit);
        let payload = self.payload(id).filter(|_| is_theirs).cloned();
        Some(Pending { id: id.clone(), operation: operation.clone(), payload })
    }

    /// Returns advice for the client that superseded an operation.
    pub fn advice(&self, begun: &Operation) -> Vec<String> {
        let before = self.records.iter().filter(|(_, o)| o.turn < begun.turn);
        let touched = before.max_by_key(|(_, o)| o.turn).filter(|(_, o)| o.touched);
        let say = |(id, operation): (&OperationId, &Arc<Operation>)| {
            format!(
                "operation {id}, {}, had changed something when it failed: make sure that this \
                 one starts from there",
                operation.title()
            )
        };
        touched.map(say).into_iter().collect()
    }

    /// Writes or removes a record.
    pub(in crate::domain) fn put(&mut self, id: &OperationId, record: Option<&Arc<Operation>>) {
        match record {
            Some(record) => drop(self.records.insert(id.clone(), record.clone())),
            None => drop(self.records.remove(id)),
        }
    }

    /// Writes or removes a payload.
    pub(in crate::domain) fn put_payload(&mut self, id: &OperationId, payload: Option<&Bytes>) {
        match payload {
            Some(payload) => drop(self.payloads.insert(id.clone(), payload.clone())),
            None => drop(self.payloads.remove(id)),
        }
    }

    /// Restarts every lease at `from`, and every wait for a worker: the server could not receive
    /// before.
    pub(in crate::domain) fn grant_grace(&mut self, from: Timestamp) {
        for operation in self.records.values_mut().filter(|o| o.next_due().is_some()) {
            let operation = Arc::make_mut(operation);
            let earliest = from.after(operation.lease_duration);
            if let Some(lease) = &mut operation.lease {
                lease.expire_time = lease.expire_time.max(earliest);
            }
            operation.unclaimed_since = operation.unclaimed_since.map(|since| since.max(from));
        }
    }

    /// Returns the deadlines of the operations.
    pub(in crate::domain) fn due(&self) -> impl Iterator<Item = (Timestamp, Due)> {
        let next = |(id, o): (&OperationId, &Arc<Operation>)| {
            Some((o.next_due()?, Due::Operation(id.clone())))
        };
        self.records.iter().filter_map(next)
    }

    /// Returns the records that outlive the application: one of each open operation, so that its
    /// holder is refused, and its fences are not assigned again.
    pub(in crate::domain) fn orphans(&self, now: Timestamp) -> Vec<Write> {
        let nobody = UnitName::application();
        let kept = self.records.iter().filter(|(_, o)| o.is_open() || o.reason == Reason::Orphaned);
        let orphan = |(id, operation): (&OperationId, &Arc<Operation>)| {
            let mut operation = (**operation).clone();
            operation.lapse(id, now);
            if operation.is_open() {
                operation.orphan(Call { id, by: &nobody, now });
            }
            Write::Operation(id.clone(), Some(Arc::new(operation)))
        };
        kept.map(orphan).collect()
    }
}

/// Unfinished work, as the server sends it to a unit that begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pending {
    /// The id.
    pub id: OperationId,
    /// The operation.
    pub operation: Arc<Operation>,
    /// The payload, if it is stored here and the unit may acquire the operation.
    pub payload: Option<Bytes>,
}

impl AppState {
    /// Returns the operations: the open one and the finished ones.
    pub fn operations(&self) -> &Operations {
        &self.operations
    }
}

impl Draft<'_> {
    /// Applies a command to an operation. Changes by time are stored even if the command is
    /// refused, and so is the requested next target.
    pub(in crate::domain) fn operate(&mut self, order: &Order) -> Result<Effect, Rejected> {
        self.lapse_operations();
        let call = Call { id: &order.id, by: &order.by, now: self.now };
        self.check_operation_quota(order)?;
        let known = self.operation(&order.id).cloned();
        let known = known.filter(|o| {
            // An operation that was removed with its application may be begun again.
            !(matches!(order.what, What::Begin(_)) && o.reason == Reason::Orphaned)
        });
        let effect = match (&order.what, known) {
            (What::Begin(_), Some(known)) => Effect { fence: known.fence, ..Effect::default() },
            (What::Begin(new), None) => self.begin_operation(call, new)?,
            (_, None) => return Err(Refused::NotFound { id: order.id.clone() }.into()),
            (what, Some(known)) => self.change_operation(call, what, &known)?,
        };
        if self.unit(&order.by).is_some_and(|unit| !unit.departed) {
            // Any call that names a unit is contact with it.
            self.note_contact(&Reporter::new(order.by.clone(), None));
        }
        Ok(effect)
    }

    fn begin_operation(&mut self, call: Call<'_>, new: &NewOperation) -> Result<Effect, Rejected> {
        let now = self.now;
        if let Some(deadline) = new.deadline.filter(|deadline| *deadline <= now) {
            return Err(Refused::DeadlinePassed { deadline, now }.into());
        }
        let before = self.operations.last().map(|(id, o)| (id.clone(), o.clone()));
        let before_call = before.as_ref().map(|(id, o)| (Call { id, ..call }, &**o));
        match may_begin(before_call, new) {
            Begin::Begun => {}
            Begin::Supersedes => {
                if let Some((id, before)) = &before {
                    let mut superseded = (**before).clone();
                    superseded.supersede(Call { id, ..call }, &new.note);
                    self.put_operation(id, superseded);
                }
            }
            Begin::Refused(refused) => {
                let is_next = matches!(refused, Refused::Held { .. } | Refused::ResumeFirst { .. });
                if let Some((id, before)) = before.filter(|_| is_next) {
                    let next_target = new.target_version.clone();
                    self.put_operation(&id, Operation { next_target, ..(*before).clone() });
                }
                return Err(refused.into());
            }
        }
        let fence = self.next_count(self.operation(call.id).map_or(0, |orphan| orphan.fence));
        let turn = before.map_or(0, |(_, before)| before.turn) + 1;
        self.put_operation(call.id, Operation::begin(call, new, fence, turn));
        if let Some(bytes) = &new.bytes {
            self.put_payload(call.id, Some(bytes.clone()));
        }
        self.forget_operations();
        Ok(Effect { changed: true, fence, ..Effect::default() })
    }

    fn change_operation(
        &mut self,
        call: Call<'_>,
        what: &What,
        known: &Arc<Operation>,
    ) -> Result<Effect, Rejected> {
        let last = self.operations.last().map(|(id, o)| (id.clone(), o.clone()));
        if let Some((id, last)) = last.filter(|(id, _)| id != call.id) {
            // This operation is over, and may be retried only once the later one is over too.
            if !matches!(what, What::Retry) {
                return Err(known.refuses(call, "another operation has begun since").into());
            }
            last.is_free(Call { id: &id, ..call })?;
            if last.is_open() {
                let (target, state) = (last.target_version.clone(), last.state);
                return Err(Refused::ResumeFirst { id, target, state }.into());
            }
        }
        // A caller that knows the fence acts for the holder.
        let is_fenced = !matches!(what, What::Acquire { .. } | What::Cancel | What::Retry);
        let holder = known.holder().filter(|_| is_fenced && call.by.is_application()).cloned();
        let call = Call { by: holder.as_ref().unwrap_or(call.by), ..call };
        let mut operation = (**known).clone();
        let answer = match what {
            What::Begin(_) => Ok(()),
            What::Acquire { verify, payload } => {
                operation.acquire(call, *verify, *payload, self.next_count(known.fence))
            }
            What::Heartbeat { fence, checkpoint, progress } => {
                operation.heartbeat(call, *fence, checkpoint.as_ref(), progress.as_deref())
            }
            What::Release { fence } => operation.release(call, *fence),
            What::Complete { fence } => operation.complete(call, *fence),
            What::Fail { fence, failure, touched, retry_after } => {
                operation.fail(call, *fence, failure, *touched, *retry_after)
            }
            What::Verify { fence, observed } => operation.verify(call, *fence, *observed),
            What::Cancel => operation.cancel(call),
            What::Retry => operation.retry(call),
        };
        // Its deadline may have passed while it was held.
        operation.lapse(call.id, self.now);
        if matches!(what, What::Retry) && operation != **known {
            operation.turn = self.operations.last().map_or(0, |(_, last)| last.turn) + 1;
        }
        let changed = operation != **known;
        let fence = operation.fence;
        self.put_operation(call.id, operation);
        answer?;
        Ok(Effect { changed, fence, ..Effect::default() })
    }

    /// Adds a callback for the unit whose attempt failed, at the time of the next attempt; cancels
    /// it once the operation no longer waits.
    fn promise_retry(&mut self, id: &OperationId, old: Option<&Operation>, new: &Operation) {
        let topic = Topic { component: PartName::default(), target: id.as_str().into() };
        let promised = |o: &Operation| {
            let failed = o.history.last().filter(|_| o.state == State::RetryWait)?;
            Some((failed.by.clone(), o.retry_time?))
        };
        let (before, now) = (old.and_then(promised), promised(new));
        if before == now {
            return;
        }
        if let Some((unit, _)) = before {
            self.call_off(&unit, &topic);
        }
        if let Some((unit, at)) = now {
            // An absent unit, or one at its limit of callbacks, gets the operation in its next
            // welcome.
            let _ = self.call_back(&unit, &topic, at, id.as_str());
        }
    }

    pub(in crate::domain) fn operation(&self, id: &OperationId) -> Option<&Arc<Operation>> {
        self.operations.get(id)
    }

    /// Applies the changes of operations by time alone.
    pub(in crate::domain) fn lapse_operations(&mut self) {
        let Some((id, open)) = self.operations.open() else {
            return;
        };
        if open.next_due().is_none_or(|at| self.now < at) {
            return;
        }
        let (id, mut operation) = (id.clone(), (**open).clone());
        operation.lapse(&id, self.now);
        self.put_operation(&id, operation);
    }

    /// Handles a data loss of the store. Returns whether an operation is open.
    pub(in crate::domain) fn reacquire_operations_after_loss(&mut self) -> bool {
        let Some((id, open)) = self.operations.open() else {
            return false;
        };
        let (id, mut operation) = (id.clone(), (**open).clone());
        operation.doubt(&id, self.next_count(open.fence), self.now);
        self.put_operation(&id, operation);
        true
    }

    /// Returns whether a former master of the store assigned the fence of an open operation.
    pub(in crate::domain) fn has_former_fence(&self) -> bool {
        self.operations.open().is_some_and(|(_, open)| open.fence <= self.base.epoch_floor)
    }

    /// Writes a record if it changed, and an event if the change is visible.
    fn put_operation(&mut self, id: &OperationId, new: Operation) {
        let old = self.operation(id).cloned();
        if old.as_deref() == Some(&new) {
            return;
        }
        let has_payload =
            !matches!(new.state, State::Succeeded | State::Superseded | State::Abandoned);
        if !has_payload && self.operations.payload(id).is_some() {
            self.put_payload(id, None);
        }
        let moved = old.as_ref().is_none_or(|old| {
            old.history.last() != new.history.last() || old.next_target != new.next_target
        });
        self.promise_retry(id, old.as_deref(), &new);
        self.log_operation(id, old.as_deref(), &new);
        self.kept.operations += u64::from(old.is_none());
        self.count_bytes(old.as_ref().map_or(0, |old| old.size()), new.size());
        let new = Arc::new(new);
        self.operations.to_mut().put(id, Some(&new));
        self.operation_writes.insert(id.clone(), Some(new));
        let shown = self.operation_status();
        if moved || shown != self.head.operation {
            self.head.operation = shown;
            self.head_changed(false);
        } else {
            // A renewal of the lease is not visible, but other replicas must not overwrite it.
            self.held = true;
        }
    }

    fn put_payload(&mut self, id: &OperationId, payload: Option<Bytes>) {
        let size = |payload: Option<&Bytes>| payload.map_or(0, |payload| payload.len() as u64);
        self.count_bytes(size(self.operations.payload(id)), size(payload.as_ref()));
        self.operations.to_mut().put_payload(id, payload.as_ref());
        self.payload_writes.insert(id.clone(), payload);
    }

    /// Returns the status that the last operation contributes.
    fn operation_status(&self) -> Option<Box<OperationStatus>> {
        let (id, last) = self.operations.last()?;
        let new = last.status(id, self.now)?;
        let old = self.head.operation.as_ref();
        let same = old.filter(|old| old.id == new.id && old.level == new.level);
        let since = same.map_or(new.since, |old| old.since);
        Some(Box::new(OperationStatus { since, ..new }))
    }

    fn log_operation(&mut self, id: &OperationId, old: Option<&Operation>, new: &Operation) {
        if old.is_some_and(|old| old.state == new.state) {
            return;
        }
        let state = |operation: Option<&Operation>| operation.map_or("", |o| o.state.word());
        let holder = |operation: Option<&Operation>| {
            operation.and_then(Operation::holder).map_or("", UnitName::as_str).to_string()
        };
        let mut changes = vec![Change::new("state", state(old), state(Some(new)))];
        let (before, after) = (holder(old), holder(Some(new)));
        if before != after {
            changes.push(Change::new("holder", &before, &after));
        }
        self.log(StatusEvent {
            changes,
            subject: Some(Subject::operation(id)),
            from: old.and_then(Operation::level),
            to: new.level(),
            message: new.message().into(),
            reason: new.reason.word().into(),
            ..self.event(Cause::Operation)
        });
    }

    /// Drops finished operations over the limit, or past their age, the oldest first.
    fn forget_operations(&mut self) {
        let finished = self.operations.iter().filter(|(_, o)| !o.is_open());
        let mut finished: Vec<_> =
            finished.map(|(id, o)| (o.update_time, o.turn, id.clone())).collect();
        finished.sort();
        let too_many = finished.len().saturating_sub(OPERATIONS_FINISHED_MAX);
        let is_old = |at: Timestamp| OPERATION_KEPT <= self.now.since(at);
        let gone: Vec<OperationId> = finished
            .into_iter()
            .enumerate()
            .filter(|(n, (at, _, _))| *n < too_many || is_old(*at))
            .map(|(_, (_, _, id))| id)
            .collect();
        for id in gone {
            self.kept.operations -= 1;
            self.count_bytes(self.operation(&id).map_or(0, |gone| gone.size()), 0);
            self.operations.to_mut().put(&id, None);
            self.operation_writes.insert(id.clone(), None);
            if self.operations.payload(&id).is_some() {
                self.put_payload(&id, None);
            }
        }
    }

    /// Takes the records to write and to remove.
    pub(in crate::domain) fn take_operation_writes(&mut self) -> Vec<Write> {
        let records = std::mem::take(&mut self.operation_writes).into_iter();
        let payloads = std::mem::take(&mut self.payload_writes).into_iter();
        let records = records.map(|(id, record)| Write::Operation(id, record));
        let payloads = payloads.map(|(id, payload)| Write::Payload(id, payload));
        records.chain(payloads).collect()
    }
}
