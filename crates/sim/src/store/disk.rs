//! The store of a process on a disk of the simulation: the trait over the simulated network.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use bellwether::domain::app::Head;
use bellwether::domain::name::AppName;
use bellwether::domain::outage::Outages;
use bellwether::domain::replay::Records;
use bellwether::domain::revision::Revision;
use bellwether::domain::time::Timestamp;
use bellwether::domain::transition::Transition;
use bellwether::domain::unit::presence::ReplicaId;
use bellwether::store::moment::OUTAGE_MIN;
use bellwether::store::{
    Applied, Broadcast, Bucket, Change, CommitError, ConflictCause, Epoch, Moment, NumberedEvent,
    Observer, Position, ReadError, Space, Store, Version,
};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout};

use crate::lock;
use crate::network::{Delivery, Link, Network, Node};
use crate::server::time::{Answer, Ask};
use crate::server::{Disk, DiskCommit, Refusal, Server};

/// How long a commit or a read waits.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// The interval between signs of life: each start counts the time since the last one as an outage.
const TIME_EVERY: Duration = Duration::from_millis(250);
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The store of one process.
pub(super) struct DiskStore {
    network: Network,
    place: usize,
    /// The way to the disk: what is sent on it stays in order.
    link: Link,
    epoch: Epoch,
    view: Arc<Mutex<View>>,
    closed: AtomicBool,
    clock: Mutex<Reading>,
}

/// What the process has read of the disk.
struct View {
    heads: BTreeMap<Position, Change>,
    positions: BTreeMap<AppName, Position>,
    forgotten: Position,
    observers: Vec<Arc<dyn Observer>>,
}

impl View {
    fn put(&mut self, change: Change) {
        if let Some(old) = self.positions.insert(change.app.clone(), change.position) {
            self.heads.remove(&old);
        }
        self.heads.insert(change.position, Change { transition: None, ..change });
    }

    fn take(&mut self, change: &Change, pruned: Option<(Position, Revision)>) {
        self.put(change.clone());
        self.observers.iter().for_each(|observer| observer.on_change(change));
        if let Some((up_to, _)) = pruned {
            self.forgotten = up_to;
            for (_, gone) in self.heads.extract_if(..=up_to, |_, change| change.head.deleted) {
                self.positions.remove(&gone.app);
            }
            self.observers.iter().for_each(|observer| observer.on_prune(Bucket(0), up_to));
        }
    }

    /// Replaces the head after a quiet commit.
    fn refresh(&mut self, transition: &Transition) {
        let position = self.positions.get(&transition.app);
        let known = position.and_then(|position| self.heads.get_mut(position));
        if let Some(known) = known.filter(|known| known.head.revision == transition.base) {
            known.head = transition.head.clone();
        }
    }
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

/// The way of a process to its disk.
#[derive(Clone)]
struct Way {
    network: Network,
    place: usize,
    link: Link,
}

impl Way {
    /// Asks the disk. `on_answer` runs at the process, even if it has stopped waiting.
    async fn ask<T: Send + 'static>(
        &self,
        label: &'static str,
        patience: Duration,
        ask: impl FnOnce(&mut Disk) -> T + Send + 'static,
        on_answer: impl FnOnce(&T) + Send + 'static,
    ) -> Option<T> {
        let (sender, answered) = oneshot::channel();
        let (network, link, me) = (self.network.clone(), self.link, Node::Replica(self.place));
        let at_disk = move |server: &mut Server| {
            let answer = ask(server.disk());
            let back = move || {
                on_answer(&answer);
                let _ = sender.send(answer);
            };
            network.send_on(link, (Node::Store, me), label, Delivery::Run(Box::new(back)));
        };
        let ask = Delivery::Store(Box::new(at_disk));
        self.network.send_on(self.link, (me, Node::Store), label, ask);
        timeout(patience, answered).await.ok()?.ok()
    }
}

impl DiskStore {
    /// Opens the store, and reads what it has. Must be called on the machine of the process.
    pub(super) async fn open(network: Network, place: usize) -> Arc<dyn Store> {
        let link = network.new_link();
        let way = Way { network: network.clone(), place, link };
        let found = loop {
            if let Some(found) = way.ask("open", Duration::MAX, |disk| disk.open(), |_| ()).await {
                break found;
            }
        };
        let (zero, now) = (Timestamp::default(), Instant::now());
        let reading =
            Reading { time: zero, at: now, latest: zero, asked: now, outages: Arc::default() };
        let mut view = View {
            heads: BTreeMap::new(),
            positions: BTreeMap::new(),
            forgotten: found.forgotten,
            observers: Vec::new(),
        };
        found.heads.into_iter().for_each(|change| view.put(change));
        let store = Arc::new(DiskStore {
            network,
            place,
            link,
            epoch: found.epoch,
            view: Arc::new(Mutex::new(view)),
            closed: AtomicBool::new(false),
            clock: Mutex::new(reading),
        });
        store.read_time(zero).await;
        tokio::spawn(follow_time(Arc::downgrade(&store)));
        store
    }

    fn way(&self) -> Way {
        Way { network: self.network.clone(), place: self.place, link: self.link }
    }

    async fn read_time(&self, known: Timestamp) {
        let asked = Instant::now();
        let (own, acts) = (self.replica(), self.moment().is_certain());
        let ask = Ask { known, own, acts, is_alone: true };
        let tell = move |disk: &mut Disk| disk.tell_time(ask);
        // A disk that stands still holds its writer up: there is no second request.
        let told = self.way().ask("time", Duration::MAX, tell, |_| ()).await;
        let Some(Answer { time, outages }) = told else { return };
        let half = asked.elapsed() / 2;
        let mut clock = lock(&self.clock);
        (clock.time, clock.at) = (time, asked + half);
        (clock.asked, clock.outages) = (asked, outages);
    }

    fn head(&self, app: &AppName) -> Option<Arc<Head>> {
        let view = lock(&self.view);
        let position = view.positions.get(app)?;
        view.heads.get(position).map(|change| change.head.clone())
    }
}

async fn follow_time(store: Weak<DiskStore>) {
    loop {
        sleep(TIME_EVERY).await;
        let Some(store) = store.upgrade() else { return };
        let known = store.now();
        store.read_time(known).await;
    }
}

fn unavailable(reason: &str, applied: Applied) -> CommitError {
    CommitError::Unavailable { reason: reason.to_string(), applied, retry_after: RETRY_AFTER }
}

fn no_answer() -> ReadError {
    ReadError::Unavailable { reason: "the disk does not answer".to_string() }
}

#[async_trait::async_trait]
impl Store for DiskStore {
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
        self.epoch
    }

    fn epoch_floor(&self, _: &AppName) -> u64 {
        0
    }

    fn buckets(&self) -> u16 {
        1
    }

    fn is_shared(&self) -> bool {
        false
    }

    async fn load(&self, app: &AppName) -> Result<Records, ReadError> {
        let name = app.clone();
        let load = move |disk: &mut Disk| disk.load(&name);
        self.way().ask("load", ANSWER_MAX, load, |_| ()).await.ok_or_else(no_answer)
    }

    async fn release(&self, _: &AppName) {}

    async fn commit(&self, transition: Arc<Transition>) -> Result<(), CommitError> {
        if self.closed.load(Ordering::SeqCst) {
            return Err(unavailable("store is closed", Applied::No));
        }
        let (sent, view) = (transition.clone(), Arc::downgrade(&self.view));
        let commit = move |disk: &mut Disk| disk.commit(&sent);
        let on_answer = move |answer: &Result<DiskCommit, Refusal>| {
            let (Some(view), Ok(done)) = (view.upgrade(), answer) else { return };
            let mut view = lock(&view);
            match &done.change {
                Some(change) => view.take(change, done.pruned),
                None if transition.is_durable() => view.refresh(&transition),
                None => {}
            }
        };
        match self.way().ask("commit", ANSWER_MAX, commit, on_answer).await {
            Some(Ok(_)) => Ok(()),
            Some(Err(Refusal::Full)) => Err(unavailable("no space is left", Applied::No)),
            Some(Err(Refusal::Conflict(current))) => {
                Err(CommitError::Conflict { current, cause: ConflictCause::Revision })
            }
            None => Err(unavailable("a commit has no answer", Applied::Maybe)),
        }
    }

    async fn confirm(&self, app: &AppName, version: Version) -> Result<(), CommitError> {
        match self.head(app) {
            Some(head) if head.revision != version.revision => Err(CommitError::Conflict {
                current: head.revision,
                cause: ConflictCause::Revision,
            }),
            _ => Ok(()),
        }
    }

    fn follow(&self, observer: Arc<dyn Observer>) {
        let mut view = lock(&self.view);
        if Position(0) < view.forgotten {
            observer.on_prune(Bucket(0), view.forgotten);
        }
        view.heads.values().for_each(|change| observer.on_change(change));
        view.observers.push(observer);
    }

    async fn events(
        &self,
        app: &AppName,
        before: Option<u64>,
        count_max: usize,
    ) -> Result<Vec<NumberedEvent>, ReadError> {
        let name = app.clone();
        let read = move |disk: &mut Disk| disk.events(&name, before, count_max);
        self.way().ask("events", ANSWER_MAX, read, |_| ()).await.ok_or_else(no_answer)
    }

    fn replica(&self) -> ReplicaId {
        ReplicaId(self.link)
    }

    async fn beat(&self) -> Result<BTreeMap<ReplicaId, Timestamp>, ReadError> {
        Ok(BTreeMap::from([(self.replica(), self.now())]))
    }

    async fn broadcast(&self, notice: Broadcast) -> Result<(), ReadError> {
        let view = lock(&self.view);
        view.observers.iter().for_each(|observer| observer.on_broadcast(&notice));
        Ok(())
    }

    async fn space(&self) -> Option<Space> {
        None
    }

    fn health(&self) -> Result<(), String> {
        Ok(())
    }

    async fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
    }
}
