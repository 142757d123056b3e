//! The store as one process has it: the real trait over the simulated network.
//!
//! As the Redis store it sends a commit again until it is answered, reads the log of the store,
//! acknowledges a commit after it has read it back, and compares its view after each failover.

mod reader;
mod view;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bellwether::domain::name::AppName;
use bellwether::domain::outage::Outages;
use bellwether::domain::replay::Records;
use bellwether::domain::revision::Revision;
use bellwether::domain::time::Timestamp;
use bellwether::domain::transition::Transition;
use bellwether::domain::unit::presence::ReplicaId;
use bellwether::store::moment::OUTAGE_MIN;
use bellwether::store::{
    Applied, Broadcast, Bucket, CommitError, Epoch, Moment, NumberedEvent, Observer, ReadError,
    Space, Store, Version,
};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use crate::lock;
use crate::network::{Delivery, Network, Node};
use crate::server::bucket::bucket_of;
use crate::server::time::{Answer, Ask};
use crate::server::{Refusal, Server, Shape};

use view::{Facts, View};

/// How long one request waits for its answer.
const ANSWER_MAX: Duration = Duration::from_secs(1);
/// How long a commit is sent again.
const COMMIT_MAX: Duration = Duration::from_secs(5);
const RETRY_PAUSE: Duration = Duration::from_millis(100);
/// How long a commit may take to come back by the log.
const TOLD_MAX: Duration = Duration::from_secs(5);
/// How long a conflict waits for the commits that it missed.
const MISSED_MAX: Duration = Duration::from_millis(200);
/// How long a load waits until a new master is compared.
const COMPARED_MAX: Duration = Duration::from_secs(2);
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The store of one process.
pub struct SimStore {
    network: Network,
    /// Its place.
    place: usize,
    replica: ReplicaId,
    shape: Shape,
    facts: Arc<Facts>,
    view: Mutex<View>,
    /// Counts the changes of the view.
    moved: watch::Sender<u64>,
    suspicions: watch::Sender<u64>,
    trouble: Mutex<Option<String>>,
    closed: AtomicBool,
    sequence: AtomicU64,
    clock: Mutex<Reading>,
}

/// The time of the store at a moment of this process, and the latest time given.
struct Reading {
    time: Timestamp,
    at: Instant,
    latest: Timestamp,
    /// Up to when the outages are known.
    asked: Instant,
    outages: Arc<Outages>,
}

impl Reading {
    fn now(&mut self) -> Timestamp {
        let now = self.time.after(Instant::now().saturating_duration_since(self.at));
        self.latest = self.latest.max(now);
        self.latest
    }
}

impl SimStore {
    /// Connects to the store, and reads what it has. Must be called on the machine of the process.
    pub async fn open(
        network: Network,
        place: usize,
        replica: ReplicaId,
        shape: Shape,
    ) -> Arc<SimStore> {
        let (zero, now) = (Timestamp::default(), Instant::now());
        let reading =
            Reading { time: zero, at: now, latest: zero, asked: now, outages: Arc::default() };
        let facts = Arc::new(Facts::default());
        let store = Arc::new(SimStore {
            network,
            place,
            replica,
            shape,
            view: Mutex::new(View::new(shape.buckets, facts.clone())),
            facts,
            moved: watch::Sender::default(),
            suspicions: watch::Sender::default(),
            trouble: Mutex::default(),
            closed: AtomicBool::default(),
            sequence: AtomicU64::new(0),
            clock: Mutex::new(reading),
        });
        // A process gets an answer before it asks for the time: a store that stalls executes no
        // such request of a process that has ended meanwhile.
        while !(store.connect().await && store.read_time(zero).await) {
            sleep(RETRY_PAUSE).await;
        }
        tokio::spawn(reader::follow(store.clone()));
        tokio::spawn(reader::follow_time(store.clone()));
        store
    }

    /// Asks the store. Returns nothing if the request or its answer is lost.
    async fn ask<T: Send + 'static>(
        &self,
        label: &'static str,
        patience: Duration,
        ask: impl FnOnce(&mut Server) -> T + Send + 'static,
    ) -> Option<T> {
        let (sender, answered) = tokio::sync::oneshot::channel();
        let (network, me) = (self.network.clone(), Node::Replica(self.place));
        let at_store = move |server: &mut Server| {
            let answer = ask(server);
            let back = Delivery::Run(Box::new(move || drop(sender.send(answer))));
            network.send((Node::Store, me), label, back);
        };
        let ask = Delivery::Store(Box::new(at_store));
        self.network.send((me, Node::Store), label, ask);
        timeout(patience, answered).await.ok()?.ok()
    }

    async fn read_time(&self, known: Timestamp) -> bool {
        let asked = Instant::now();
        let (own, is_alone) = (self.replica, !self.shape.is_shared);
        let acts = self.health().is_ok() && self.moment().is_certain();
        let ask = Ask { known, own, acts, is_alone };
        let tell = move |server: &mut Server| server.tell_time(ask);
        // A disk that stands still holds its writer up: there is no second request.
        let patience = if self.shape.is_shared { ANSWER_MAX } else { Duration::MAX };
        let Some(Answer { time, outages }) = self.ask("time", patience, tell).await else {
            return false;
        };
        let half = asked.elapsed() / 2;
        let mut clock = lock(&self.clock);
        (clock.time, clock.at) = (time, asked + half);
        (clock.asked, clock.outages) = (asked, outages);
        true
    }

    /// Compares the view with the store as it is now, and takes over the differences.
    async fn connect(&self) -> bool {
        let seen = lock(&self.view).seen();
        let greeting = self.ask("greet", ANSWER_MAX, move |server| server.greet(&seen)).await;
        let Some(greeting) = greeting else { return false };
        lock(&self.view).greet(greeting);
        self.bump();
        true
    }

    fn bump(&self) {
        self.moved.send_modify(|count| *count += 1);
    }

    /// Waits until the view has a property.
    async fn until(&self, holds: impl Fn(&View) -> bool) {
        let mut moved = self.moved.subscribe();
        while !holds(&lock(&self.view)) {
            // The sender lives as long as the store.
            let _ = moved.changed().await;
        }
    }

    fn bucket_of(&self, app: &AppName) -> Bucket {
        bucket_of(app, self.shape.buckets)
    }

    async fn await_missed(&self, app: &AppName, current: Revision) {
        let bucket = self.bucket_of(app);
        let reached = self.until(|view| current <= view.revision(bucket, app));
        let _ = timeout(MISSED_MAX, reached).await;
    }

    async fn refused(&self, app: &AppName, refusal: Refusal) -> CommitError {
        match refusal {
            Refusal::Conflict(current, cause) => {
                if cause == bellwether::store::ConflictCause::Master {
                    self.suspicions.send_modify(|count| *count += 1);
                }
                self.await_missed(app, current).await;
                CommitError::Conflict { current, cause }
            }
            Refusal::Full => unavailable("no space is left", Applied::Maybe),
        }
    }

    fn is_open(&self) -> Result<(), CommitError> {
        match self.closed.load(Ordering::SeqCst) {
            true => Err(unavailable("store is closed", Applied::No)),
            false => Ok(()),
        }
    }
}

fn unavailable(reason: &str, applied: Applied) -> CommitError {
    CommitError::Unavailable { reason: reason.to_string(), applied, retry_after: RETRY_AFTER }
}

fn no_answer() -> ReadError {
    ReadError::Unavailable { reason: "the store does not answer".to_string() }
}

#[async_trait::async_trait]
impl Store for SimStore {
    fn now(&self) -> Timestamp {
        lock(&self.clock).now()
    }

    fn moment(&self) -> Moment {
        let mut clock = lock(&self.clock);
        let now = clock.now();
        let judged = match clock.asked.elapsed() < OUTAGE_MIN {
            true => now,
            false => clock.time.min(now),
        };
        Moment { now, judged, outages: clock.outages.clone() }
    }

    fn epoch(&self) -> Epoch {
        self.facts.epoch()
    }

    fn epoch_floor(&self, _: &AppName) -> u64 {
        self.facts.floor()
    }

    fn buckets(&self) -> u16 {
        self.shape.buckets
    }

    fn is_shared(&self) -> bool {
        self.shape.is_shared
    }

    async fn load(&self, app: &AppName) -> Result<Records, ReadError> {
        let started = Instant::now();
        let bucket = self.bucket_of(app);
        loop {
            let (seen, losses, master) = {
                let view = lock(&self.view);
                (view.revision(bucket, app), view.losses(bucket), view.master)
            };
            let name = app.clone();
            let loaded = self.ask("load", ANSWER_MAX, move |server| server.load(&name)).await;
            let loaded = loaded.ok_or_else(no_answer)?;
            let is_compared = loaded.master == master;
            if loaded.losses <= losses && seen <= loaded.records.head.revision && is_compared {
                return Ok(loaded.records);
            }
            self.suspicions.send_modify(|count| *count += 1);
            let left = COMPARED_MAX.saturating_sub(started.elapsed());
            let compared = self.until(|view| loaded.master <= view.master);
            if left.is_zero() || timeout(left, compared).await.is_err() {
                let reason = "the comparison with a new master is not complete".to_string();
                return Err(ReadError::Unavailable { reason });
            }
        }
    }

    /// The simulated log has all transitions.
    async fn release(&self, _: &AppName) {}

    async fn commit(&self, transition: Arc<Transition>) -> Result<(), CommitError> {
        self.is_open()?;
        let number = self.sequence.fetch_add(1, Ordering::SeqCst) + 1;
        let (mark, started) = ((self.replica.0, number), Instant::now());
        let answer = loop {
            let sent = transition.clone();
            let commit = move |server: &mut Server| server.commit(mark, &sent);
            if let Some(answer) = self.ask("commit", ANSWER_MAX, commit).await {
                break answer;
            }
            if COMMIT_MAX <= started.elapsed() {
                return Err(unavailable("a commit has no answer", Applied::Maybe));
            }
            sleep(RETRY_PAUSE).await;
        };
        let bucket = self.bucket_of(&transition.app);
        match answer {
            Err(refusal) => Err(self.refused(&transition.app, refusal).await),
            Ok(None) => {
                if transition.is_durable() {
                    lock(&self.view).refresh(&transition, bucket);
                }
                Ok(())
            }
            Ok(Some(entry)) => {
                let told = self.until(|view| entry <= view.cursor(bucket));
                let told = timeout(TOLD_MAX, told).await;
                told.map_err(|_| unavailable("a commit is not read back yet", Applied::Yes))
            }
        }
    }

    async fn confirm(&self, app: &AppName, version: Version) -> Result<(), CommitError> {
        self.is_open()?;
        if !self.shape.is_shared {
            return Ok(());
        }
        let name = app.clone();
        let compare = move |server: &mut Server| server.compare(&name, version);
        match self.ask("confirm", ANSWER_MAX, compare).await {
            Some(Ok(())) => Ok(()),
            Some(Err(refusal)) => Err(self.refused(app, refusal).await),
            None => Err(unavailable("a confirmation has no answer", Applied::No)),
        }
    }

    fn follow(&self, observer: Arc<dyn Observer>) {
        lock(&self.view).follow(observer);
    }

    async fn events(
        &self,
        app: &AppName,
        before: Option<u64>,
        count_max: usize,
    ) -> Result<Vec<NumberedEvent>, ReadError> {
        let name = app.clone();
        let read = move |server: &mut Server| {
            let events = server.apps().get(&name).map(|app| app.events.clone());
            let events = events.unwrap_or_default().into_iter().rev();
            let events = events.filter(|e| before.is_none_or(|before| e.number < before));
            events.take(count_max).collect()
        };
        self.ask("events", ANSWER_MAX, read).await.ok_or_else(no_answer)
    }

    fn replica(&self) -> ReplicaId {
        self.replica
    }

    async fn beat(&self) -> Result<BTreeMap<ReplicaId, Timestamp>, ReadError> {
        let (replica, now) = (self.replica, self.now());
        let beaten = self.ask("beat", ANSWER_MAX, move |server| server.beat(replica, now)).await;
        beaten.ok_or_else(no_answer)
    }

    async fn broadcast(&self, notice: Broadcast) -> Result<(), ReadError> {
        let write = move |server: &mut Server| server.broadcast(notice);
        self.ask("broadcast", ANSWER_MAX, write).await.ok_or_else(no_answer)
    }

    async fn space(&self) -> Option<Space> {
        None
    }

    fn health(&self) -> Result<(), String> {
        match &*lock(&self.trouble) {
            Some(trouble) => Err(trouble.clone()),
            None => Ok(()),
        }
    }

    async fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
    }
}
