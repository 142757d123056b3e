//! One process of a replica: the real aggregator, sessions, hub and Redis store over simulated
//! servers and a simulated network.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bellwether::aggregator::{self, Aggregator};
use bellwether::domain::command::Command;
use bellwether::domain::unit::Reporter;
use bellwether::session::{self, Hello, Inbound, OpenError, Outbound, Sessions, Welcome};
use bellwether::store::Store;
use bellwether::telemetry::Metrics;
use bellwether::watch::{Filter, Hub, Item, Limits, Scope, Start, Token};
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, mpsc};
use tokio_stream::wrappers::ReceiverStream;

use crate::judge::Member;
use crate::lock;
use crate::network::{Delivery, Link, Network, Node};
use crate::server::Shape;
use crate::store;

/// Messages of a worker that wait for its session.
const INBOUND_MAX: usize = 256;
/// Messages of a session that wait for the network, as in the server.
const OUTBOUND_MAX: usize = 16;
/// Messages of a watch on the way to a client that has not read them.
const UNREAD_MAX: usize = 8;

/// A message of a worker; a refusal is a text.
pub type FromWorker = Inbound<String>;
/// A message to a worker.
pub type ToWorker = Outbound<String>;

/// One process.
pub struct Process {
    /// The place of the replica.
    pub place: usize,
    /// The number of the process among all of the run.
    pub generation: u64,
    /// Starts tasks of this process.
    pub handle: Handle,
    /// The store.
    pub store: Arc<dyn Store>,
    /// The aggregator.
    pub aggregator: Aggregator,
    /// The sessions.
    pub sessions: Sessions,
    /// The hub.
    pub hub: Arc<Hub>,
    /// Whether the process stands still: it reads no message.
    pub is_frozen: AtomicBool,
    network: Network,
    workers: Mutex<BTreeMap<Link, Desk>>,
    readers: Mutex<BTreeMap<Link, Arc<Semaphore>>>,
}

/// The replica's end of a session.
struct Desk {
    author: Reporter,
    member: Member,
    inbound: mpsc::Sender<FromWorker>,
}

/// The processes by the place of their replica.
pub type Processes = Arc<Mutex<Vec<Option<Arc<Process>>>>>;

/// What a client of a link receives.
pub enum ToClient {
    /// A message of a session.
    Session(ToWorker),
    /// A message of a watch.
    Watch(Item),
}

/// The sending end of a link's client.
pub type ClientEnd = mpsc::UnboundedSender<ToClient>;

impl Process {
    /// Starts a process, as `App::build` does. Must be called on its machine.
    pub async fn start(
        network: Network,
        (place, generation): (usize, u64),
        shape: Shape,
    ) -> Arc<Process> {
        let store = store::open(network.clone(), (place, generation), shape).await;
        let limits = Limits::default();
        let hub = Hub::new(store.epoch(), store.buckets(), store.is_shared(), limits)
            .with_time(store.now());
        let hub = Arc::new(hub);
        store.follow(hub.clone());
        // A short idle time, so that tasks of applications end and start again, in every second
        // process before its store has applied what they wrote.
        let idle_after = Duration::from_secs(if generation.is_multiple_of(2) { 2 } else { 20 });
        let options = aggregator::Options { idle_after, ..aggregator::Options::default() };
        let metrics = Metrics::disabled;
        let aggregator = Aggregator::start(store.clone(), options, metrics());
        let options = session::Options::default();
        let sessions =
            Sessions::start(store.clone(), aggregator.clone(), hub.clone(), options, metrics());
        Arc::new(Process {
            place,
            generation,
            handle: Handle::current(),
            is_frozen: AtomicBool::default(),
            store,
            aggregator,
            sessions,
            hub,
            network,
            workers: Mutex::default(),
            readers: Mutex::default(),
        })
    }

    fn way(&self, client: Node) -> (Node, Node) {
        (Node::Replica(self.place), client)
    }

    /// Opens a session whose messages pass through a link.
    pub async fn open(
        self: Arc<Process>,
        hello: Hello,
        (link, client): (Link, Node),
        end: ClientEnd,
    ) -> Result<Welcome, OpenError> {
        let member = (hello.app.clone(), hello.who.unit.clone());
        let (session, welcome) = self.sessions.open(hello).await?;
        let (inbound, from_worker) = mpsc::channel(INBOUND_MAX);
        let (outbound, mut to_worker) = mpsc::channel::<ToWorker>(OUTBOUND_MAX);
        let author = session.reporter();
        lock(&self.workers).insert(link, Desk { author, member, inbound });
        tokio::spawn(async move {
            let run = session.run(ReceiverStream::new(from_worker), outbound);
            let pass = async {
                while let Some(word) = to_worker.recv().await {
                    let end = end.clone();
                    let deliver = move || drop(end.send(ToClient::Session(word)));
                    let deliver = Delivery::Run(Box::new(deliver));
                    self.network.send_on(link, self.way(client), "word", deliver);
                }
            };
            tokio::join!(run, pass);
            lock(&self.workers).remove(&link);
            let deliver = Delivery::Run(Box::new(move || drop(end)));
            self.network.send_on(link, self.way(client), "end", deliver);
        });
        Ok(welcome)
    }

    /// Takes a message of a worker; `None` is the end of its stream.
    pub fn take(&self, link: Link, word: Option<FromWorker>) {
        let mut workers = lock(&self.workers);
        let Some(Desk { author, member, inbound }) = workers.get(&link) else { return };
        match word {
            Some(mut word) => {
                if let Inbound::Command { command, .. } = &mut word {
                    sign(command, author);
                }
                let is_well = !self.is_frozen.load(Ordering::SeqCst) && self.store.health().is_ok();
                if inbound.try_send(word).is_ok() && is_well {
                    lock(&self.network.judge).on_contact(member.clone());
                }
            }
            None => drop(workers.remove(&link)),
        }
    }

    /// Watches all applications over a link. Returns why it is refused.
    pub fn watch(
        self: &Arc<Process>,
        token: Option<String>,
        (link, client): (Link, Node),
        end: ClientEnd,
    ) -> Result<(), String> {
        let start = match token.as_deref().map(Token::decode) {
            None => Start::Snapshot,
            Some(Ok(token)) => Start::Resume(token),
            Some(Err(error)) => return Err(error.to_string()),
        };
        let watcher = self.hub.watch(Filter::of(Scope::All), start);
        let mut watcher = watcher.map_err(|error| error.to_string())?;
        let unread = Arc::new(Semaphore::new(UNREAD_MAX));
        lock(&self.readers).insert(link, unread.clone());
        let process = self.clone();
        tokio::spawn(async move {
            while let Ok(permit) = unread.acquire().await {
                permit.forget();
                let Ok(item) = watcher.next().await else { break };
                let end = end.clone();
                let deliver = move || drop(end.send(ToClient::Watch(item)));
                let deliver = Delivery::Run(Box::new(deliver));
                process.network.send_on(link, process.way(client), "item", deliver);
            }
            lock(&process.readers).remove(&link);
            let deliver = Delivery::Run(Box::new(move || drop(end)));
            process.network.send_on(link, process.way(client), "end", deliver);
        });
        Ok(())
    }

    /// Closes a link whose client is gone.
    pub fn close(&self, link: Link) {
        self.take(link, None);
        self.has_read(link, false);
    }

    /// Records that the client of a watch has read a message; `false` ends the watch.
    pub fn has_read(&self, link: Link, goes_on: bool) {
        let readers = lock(&self.readers);
        match readers.get(&link) {
            Some(unread) if goes_on => unread.add_permits(1),
            Some(unread) => unread.close(),
            None => {}
        }
    }
}

/// Names the session as the author of a command, as `service::worker` does.
fn sign(command: &mut Command, author: &Reporter) {
    if let Command::Report(reporter, ..)
    | Command::Replace(reporter, ..)
    | Command::ClaimLeadership(reporter, _)
    | Command::StepBack(reporter) = command
    {
        *reporter = author.clone();
    }
}
