//! A store in memory, which ends with the process: the reference model, and `--ephemeral`.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use crate::domain::bytes::Bytes;
use crate::domain::fault::{Fault, FaultKey};
use crate::domain::mark::{Mark, MarkId};
use crate::domain::name::{AppName, OperationId, UnitName};
use crate::domain::operation::Operation;
use crate::domain::outage::Outages;
use crate::domain::replay::Records;
use crate::domain::request::Remembered;
use crate::domain::status::set::Statuses;
use crate::domain::time::Timestamp;
use crate::domain::transition::{Transition, Write};
use crate::domain::unit::presence::ReplicaId;
use crate::sync::lock;

use super::clock::Clock;
use super::heads::{Heads, Observers};
use super::{
    Applied, Broadcast, CommitError, ConflictCause, Epoch, Moment, NumberedEvent, Observer,
    REPLICA_FORGOTTEN_AFTER, ReadError, Retention, Space, Store, Version, merged, random_store_id,
};

/// A store in the memory of this process: one handle on it.
pub struct MemoryStore {
    replica: ReplicaId,
    is_shared: bool,
    closed: AtomicBool,
    memory: Arc<Memory>,
}

/// The data, and what all handles have in common.
struct Memory {
    retention: Retention,
    clock: Clock,
    outages: Arc<Outages>,
    epoch: Epoch,
    contents: Mutex<Contents>,
}

#[derive(Default)]
struct Contents {
    heads: Heads,
    observers: Observers,
    apps: HashMap<AppName, AppRecords>,
    beats: BTreeMap<ReplicaId, Timestamp>,
}

#[derive(Default)]
struct AppRecords {
    units: BTreeMap<UnitName, crate::domain::unit::Unit>,
    statuses: Statuses,
    faults: BTreeMap<Arc<FaultKey>, Arc<Fault>>,
    requests: BTreeMap<Arc<str>, Remembered>,
    operations: BTreeMap<OperationId, Arc<Operation>>,
    payloads: BTreeMap<OperationId, Bytes>,
    data: BTreeMap<Arc<str>, Bytes>,
    marks: BTreeMap<MarkId, Arc<Mark>>,
    events: VecDeque<NumberedEvent>,
    own_events: VecDeque<NumberedEvent>,
}

impl MemoryStore {
    /// Returns an empty store.
    pub fn new(retention: Retention) -> MemoryStore {
        let memory = Memory {
            retention,
            clock: Clock::starting_from(Timestamp::default()),
            outages: Arc::default(),
            epoch: Epoch { store_id: random_store_id(), losses: 0 },
            contents: Mutex::default(),
        };
        MemoryStore::over(Arc::new(memory))
    }

    fn over(memory: Arc<Memory>) -> MemoryStore {
        let replica = ReplicaId(random_store_id());
        MemoryStore { replica, is_shared: false, closed: AtomicBool::default(), memory }
    }

    /// Makes the store behave as if other processes could commit to it too.
    #[must_use]
    pub fn shared(self) -> MemoryStore {
        MemoryStore { is_shared: true, ..self }
    }

    /// Opens the same data as another process would.
    #[must_use]
    pub fn another(&self) -> MemoryStore {
        MemoryStore { is_shared: self.is_shared, ..MemoryStore::over(self.memory.clone()) }
    }

    fn lock(&self) -> MutexGuard<'_, Contents> {
        // Only an observer can panic while the lock is held, and the store is consistent before it
        // calls one.
        lock(&self.memory.contents)
    }

    fn is_open(&self) -> Result<(), CommitError> {
        let (applied, retry_after) = (Applied::No, Duration::from_secs(1));
        self.health().map_err(|reason| CommitError::Unavailable { reason, applied, retry_after })
    }
}

#[async_trait::async_trait]
impl Store for MemoryStore {
    fn now(&self) -> Timestamp {
        self.memory.clock.now()
    }

    fn moment(&self) -> Moment {
        // The store ends with its process, so no deadline outlives an outage.
        let now = self.now();
        Moment { now, judged: now, outages: self.memory.outages.clone() }
    }

    fn epoch(&self) -> Epoch {
        self.memory.epoch
    }

    fn epoch_floor(&self, _: &AppName) -> u64 {
        0
    }

    fn buckets(&self) -> u16 {
        1
    }

    fn is_shared(&self) -> bool {
        self.is_shared
    }

    async fn load(&self, app: &AppName) -> Result<Records, ReadError> {
        let memory = self.lock();
        let head = (*memory.heads.head(app)).clone();
        let Some(records) = memory.apps.get(app) else { return Ok(Records::of_head(head)) };
        let statuses = records.statuses.iter();
        let faults = records.faults.iter();
        Ok(Records {
            epoch_floor: 0,
            head,
            units: records.units.clone().into_iter().collect(),
            statuses: statuses.map(|(key, status)| ((**key).clone(), (**status).clone())).collect(),
            faults: faults.map(|(key, fault)| ((**key).clone(), (**fault).clone())).collect(),
            requests: records.requests.clone().into_iter().collect(),
            operations: records.operations.clone().into_iter().collect(),
            payloads: records.payloads.clone().into_iter().collect(),
            data: records.data.clone().into_iter().collect(),
            marks: records.marks.clone().into_iter().collect(),
        })
    }

    async fn release(&self, _: &AppName) {}

    async fn commit(&self, transition: Arc<Transition>) -> Result<(), CommitError> {
        let mut memory = self.lock();
        self.is_open()?;
        let (app, base) = (&transition.app, transition.base);
        if self.is_shared {
            let known = memory.heads.head(app);
            Version::before(&transition).compare(&known)?;
            if memory.apps.get(app).is_some_and(|records| records.has_answered(&transition)) {
                let (current, cause) = (known.revision, ConflictCause::Request);
                return Err(CommitError::Conflict { current, cause });
            }
        }
        let stepped = match transition.is_durable() {
            true => {
                let head = transition.head.clone();
                memory.heads.swap(app, base, head, self.memory.retention.tombstones_max)?
            }
            false => memory.heads.compare(app, base).map(|()| None)?,
        };
        let Some(mut step) = stepped else { return Ok(()) };
        step.change.transition = Some(transition.clone());
        let records = memory.apps.entry(app.clone()).or_default();
        records.write(&transition);
        records.trim(&self.memory.retention, transition.time);
        for gone in &step.forgotten {
            memory.apps.remove(&gone.app);
        }
        memory.observers.notify_of(&step);
        Ok(())
    }

    async fn confirm(&self, app: &AppName, version: Version) -> Result<(), CommitError> {
        self.is_open()?;
        version.compare(&self.lock().heads.head(app))
    }

    fn follow(&self, observer: Arc<dyn Observer>) {
        let memory = &mut *self.lock();
        memory.observers.add(observer, [&memory.heads]);
    }

    async fn events(
        &self,
        app: &AppName,
        before: Option<u64>,
        count_max: usize,
    ) -> Result<Vec<NumberedEvent>, ReadError> {
        let now = self.now();
        let memory = self.lock();
        let Some(records) = memory.apps.get(app) else { return Ok(Vec::new()) };
        let found = |events: &VecDeque<NumberedEvent>, is_own: bool| {
            let budget = self.memory.retention.budget(is_own);
            let found = events
                .iter()
                .rev()
                .skip_while(|e| before.is_some_and(|before| before <= e.number))
                .take_while(|e| budget.is_kept(e.event.time, now))
                .take(count_max);
            found.cloned().collect::<Vec<_>>()
        };
        Ok(merged(found(&records.own_events, true), found(&records.events, false), count_max))
    }

    fn replica(&self) -> ReplicaId {
        self.replica
    }

    async fn beat(&self) -> Result<BTreeMap<ReplicaId, Timestamp>, ReadError> {
        let (now, mut memory) = (self.now(), self.lock());
        memory.beats.insert(self.replica, now);
        memory.beats.retain(|_, at| now.since(*at) <= REPLICA_FORGOTTEN_AFTER);
        Ok(memory.beats.clone())
    }

    async fn broadcast(&self, notice: Broadcast) -> Result<(), ReadError> {
        self.lock().observers.notify(|observer| observer.on_broadcast(&notice));
        Ok(())
    }

    async fn space(&self) -> Option<Space> {
        None
    }

    fn health(&self) -> Result<(), String> {
        match self.closed.load(Ordering::SeqCst) {
            true => Err("store is closed".to_string()),
            false => Ok(()),
        }
    }

    async fn close(&self) {
        // After the commits that hold the lock.
        let _memory = self.lock();
        self.closed.store(true, Ordering::SeqCst);
    }
}

impl AppRecords {
    /// Returns whether the transition answers a request that has an answer already.
    fn has_answered(&self, transition: &Transition) -> bool {
        let mut removed = BTreeSet::new();
        let mut again = transition.writes.iter().filter(|write| match write {
            Write::Request(id, Some(_)) => self.requests.contains_key(id) && !removed.contains(id),
            Write::Request(id, None) => {
                removed.insert(id);
                false
            }
            _ => false,
        });
        !transition.is_deletion() && again.next().is_some()
    }

    fn write(&mut self, transition: &Transition) {
        if transition.is_deletion() {
            let AppRecords { requests, events, own_events, .. } = std::mem::take(self);
            *self = AppRecords { requests, events, own_events, ..AppRecords::default() };
        }
        for write in &transition.writes {
            match write {
                Write::Unit(name, unit) => put(&mut self.units, name, unit.as_deref()),
                Write::Status(key, Some(status)) => {
                    self.statuses.insert(key, status.clone());
                }
                Write::Status(key, None) => drop(self.statuses.remove(key)),
                Write::Fault(key, fault) => put(&mut self.faults, key, fault.as_ref()),
                Write::Request(id, answer) => put(&mut self.requests, id, answer.as_deref()),
                Write::Operation(id, operation) => {
                    put(&mut self.operations, id, operation.as_ref());
                }
                Write::Payload(id, payload) => put(&mut self.payloads, id, payload.as_ref()),
                Write::Data(key, value) => put(&mut self.data, key, value.as_ref()),
                Write::Mark(id, mark) => put(&mut self.marks, id, mark.as_ref()),
            }
        }
        for (place, event) in transition.placed_events() {
            let events = if place.is_own { &mut self.own_events } else { &mut self.events };
            events.push_back(NumberedEvent { number: place.number, event: event.clone() });
        }
    }

    fn trim(&mut self, retention: &Retention, now: Timestamp) {
        for (events, is_own) in [(&mut self.events, false), (&mut self.own_events, true)] {
            let budget = retention.budget(is_own);
            let max = usize::try_from(budget.count_max).unwrap_or(usize::MAX);
            while let Some(first) = events.front()
                && (max < events.len() || !budget.is_kept(first.event.time, now))
            {
                events.pop_front();
            }
        }
    }
}

fn put<K: Clone + Ord, V: Clone>(map: &mut BTreeMap<K, V>, key: &K, value: Option<&V>) {
    match value {
        Some(value) => map.insert(key.clone(), value.clone()),
        None => map.remove(key),
    };
}
