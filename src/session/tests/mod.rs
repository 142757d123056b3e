//! Sessions over the memory store, with the clock paused.

mod callbacks;
mod collect;
mod needs;
mod outage;
mod peers;
mod self_preservation;
mod silence;
mod takeover;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;

use super::*;
use crate::aggregator;
use crate::domain::app::AppState;
use crate::domain::command::{Command, NewStatus, Request};
use crate::domain::level::Level;
use crate::domain::name::{AppName, PartName, UnitName};
use crate::domain::revision::Revision;
use crate::domain::status::report::Report;
use crate::domain::status::{Freshness, Kind};
use crate::domain::unit::{Newcomer, Reporter, Unit};
use crate::store::faulty::FaultyStore;
use crate::store::{MemoryStore, Retention};
use crate::watch;

/// One replica.
struct Replica {
    store: Arc<FaultyStore>,
    aggregator: Aggregator,
    sessions: Sessions,
}

/// The worker's end of a session.
struct Worker {
    say: mpsc::Sender<Inbound<String>>,
    outbound: mpsc::Receiver<Outbound<String>>,
    welcome: Welcome,
    session: JoinHandle<End<String>>,
    seq: u64,
}

fn mk_store() -> Arc<FaultyStore> {
    FaultyStore::over(MemoryStore::new(Retention::default()))
}

fn mk_app(name: &str) -> AppName {
    AppName::new("", name).unwrap()
}

fn mk_unit(name: &str) -> UnitName {
    UnitName::new(name).unwrap()
}

fn mk_status(component: &str, level: Level, message: &str) -> NewStatus {
    let report = Report { level, message: message.into(), ..Report::default() };
    let component = PartName::new(component).unwrap();
    NewStatus { component, key: PartName::default(), report: Arc::new(report), observe_time: None }
}

impl Replica {
    fn new() -> Replica {
        Replica::with(mk_store(), Options::default())
    }

    /// Returns two replicas that share a store.
    fn two() -> [Replica; 2] {
        let store = MemoryStore::new(Retention::default()).shared();
        let stores = [store.another(), store].map(FaultyStore::over);
        stores.map(|store| Replica::with(store, Options::default()))
    }

    fn with(store: Arc<FaultyStore>, options: Options) -> Replica {
        let metrics = Metrics::disabled;
        let aggregator =
            Aggregator::start(store.clone(), aggregator::Options::default(), metrics());
        let hub = Hub::new(store.epoch(), store.buckets(), true, watch::Limits::default());
        let hub = Arc::new(hub);
        store.follow(hub.clone());
        let sessions = Sessions::start(store.clone(), aggregator.clone(), hub, options, metrics());
        Replica { store, aggregator, sessions }
    }

    /// Opens a session for a unit of the application that its name starts with.
    async fn open(&self, unit: &str, incarnation: Option<u64>) -> Result<Worker, OpenError> {
        let app = mk_app(unit.split('/').next().unwrap());
        let (unit, labels) = (mk_unit(unit), BTreeMap::new());
        let who = Newcomer { unit, incarnation, stateless: false, labels };
        let (session, welcome) =
            self.sessions.open(Hello { app, who, may_read: Arc::new(|_| true) }).await?;
        let (say, inbound) = mpsc::channel(1000);
        let (tell, outbound) = mpsc::channel(16);
        let session = tokio::spawn(session.run(ReceiverStream::new(inbound), tell));
        Ok(Worker { say, outbound, welcome, session, seq: 0 })
    }

    async fn worker(&self, unit: &str) -> Worker {
        self.open(unit, None).await.unwrap()
    }

    /// Opens sessions for this number of units of an application, with heartbeats.
    async fn workers(&self, app: &str, count: usize) -> Vec<Worker> {
        let mut workers = Vec::new();
        for n in 0..count {
            workers.push(self.worker(&format!("{app}/{n}")).await);
        }
        workers.iter().for_each(Worker::keep_alive);
        workers
    }

    async fn apply(&self, app: &str, command: Command) {
        let request = Request { id: None, command };
        self.aggregator.apply(&mk_app(app), request).await.unwrap();
    }

    async fn read<T>(&self, app: &str, read: impl FnOnce(&AppState) -> T) -> T {
        self.aggregator.read(&mk_app(app), Revision(0), read).await.unwrap()
    }

    async fn unit(&self, unit: &str) -> Unit {
        let app = unit.split('/').next().unwrap();
        self.read(app, |state| state.unit(&mk_unit(unit)).cloned()).await.expect(unit)
    }

    async fn is_connected(&self, unit: &str) -> bool {
        self.unit(unit).await.session().is_some()
    }

    async fn freshness(&self, unit: &str) -> Freshness {
        self.unit(unit).await.freshness()
    }

    /// Waits until a unit is not connected. Returns the time that this took.
    async fn gone(&self, unit: &str) -> Duration {
        after(async || !self.is_connected(unit).await).await
    }

    fn is_suspect(&self, app: &str) -> bool {
        self.sessions.is_suspect(&mk_app(app))
    }
}

impl Worker {
    async fn say(&self, inbound: Inbound<String>) {
        self.say.send(inbound).await.unwrap();
    }

    /// Sends heartbeats until the session ends.
    fn keep_alive(&self) {
        let say = self.say.downgrade();
        let interval = self.welcome.heartbeat_interval / 2;
        tokio::spawn(async move {
            while let Some(say) = say.upgrade() {
                if say.send(Inbound::Heartbeat).await.is_err() {
                    return;
                }
                drop(say);
                tokio::time::sleep(interval).await;
            }
        });
    }

    fn reporter(&self) -> Reporter {
        // Any unit will do: the session replaces it by its own.
        Reporter::new(mk_unit("somebody/0"), None)
    }

    async fn report(&mut self, level: Level, message: &str) -> u64 {
        self.seq += 1;
        let status = mk_status("", level, message);
        let command = Command::Report(self.reporter(), Kind::Push, status);
        self.say(Inbound::Command { seq: self.seq, command, answers: None }).await;
        self.seq
    }

    /// Answers a question with one status.
    async fn answer(&mut self, question: u64, level: Level, message: &str) -> u64 {
        self.seq += 1;
        let command = Command::Replace(self.reporter(), None, vec![mk_status("", level, message)]);
        self.say(Inbound::Command { seq: self.seq, command, answers: Some(question) }).await;
        self.seq
    }

    /// Returns the next message that is not a question.
    async fn next(&mut self) -> Outbound<String> {
        loop {
            match self.outbound.recv().await.expect("the session has ended") {
                Outbound::Collect(_) => {}
                outbound => return outbound,
            }
        }
    }

    async fn acknowledged(&mut self, seq: u64) -> Revision {
        loop {
            match self.next().await {
                Outbound::Ack { seq: up_to, revision } if seq <= up_to => return revision,
                Outbound::Ack { .. } => {}
                other => panic!("{other:?}"),
            }
        }
    }

    /// Returns the next question: its number and component.
    async fn question(&mut self) -> (u64, Option<PartName>) {
        loop {
            if let Outbound::Collect(question) = self.outbound.recv().await.expect("ended") {
                return (question.id, question.component);
            }
        }
    }

    /// Closes the stream without a goodbye, as when the process is killed.
    async fn lose_sight(self) -> End<String> {
        drop(self.say);
        self.session.await.unwrap()
    }
}

/// Waits for a condition. Returns the time that this took.
async fn after(mut holds: impl AsyncFnMut() -> bool) -> Duration {
    let start = Instant::now();
    while !holds().await {
        assert!(start.elapsed() < Duration::from_secs(3600), "never");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    start.elapsed()
}

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}
