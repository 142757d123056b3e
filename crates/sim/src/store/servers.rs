//! The servers of Redis as one process reaches them: requests and answers cross the network, where
//! they may be lost, late, or overtake each other.
//!
//! As the links of a server do it, a task looks every second for the serving masters, and asks
//! whether the connections to them answer.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use bellwether::domain::transition::Transition;
use bellwether::store::redis::RedisStore;
use bellwether::store::redis::inspect::app_of;
use bellwether::store::redis::link::{
    Dedicated, Kind, LinkError, Master, Servers, is_unserved, slot_of,
};
use redis::{Arg, Pipeline, Value};
use tokio::sync::{Notify, oneshot, watch};
use tokio::time::timeout;

use crate::lock;
use crate::network::{Delivery, Network, Node};
use crate::redis::{Command, Connection, NodeId, Text};
use crate::server::{Server, View};

/// How long a request waits for its answer, as in a server.
const ANSWER_MAX: Duration = Duration::from_secs(1);
/// How often the serving masters are looked for.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How many checks in a row may have no answer.
const TIMEOUTS_MAX: u32 = 2;
/// How long a process that starts waits for its first connection.
const START_MAX: Duration = Duration::from_secs(10);

/// The transitions of commits, by their marks.
type Sent = Vec<((Text, Text), Arc<Transition>)>;

/// The servers, as a process reaches them.
pub(super) struct ProcessServers {
    kind: Kind,
    wire: Arc<Wire>,
    routes: Mutex<Routes>,
    look: Notify,
    store: Arc<StoreOver>,
}

/// The store over the servers, which has the transitions of the commits that are sent.
type StoreOver = OnceLock<Weak<RedisStore>>;

/// The connections, and which slots each serves.
#[derive(Default)]
struct Routes {
    slots: Vec<(RangeInclusive<u16>, NodeId)>,
    links: BTreeMap<NodeId, Link>,
    followed: BTreeMap<u16, watch::Sender<Option<Master>>>,
    /// The number of connections that were made.
    connections: u64,
}

/// A connection to a master.
#[derive(Clone)]
struct Link {
    socket: Socket,
    master: Master,
    /// How many checks in a row had no answer.
    timeouts: u32,
}

impl Routes {
    fn node(&self, slot: u16) -> Option<NodeId> {
        self.slots.iter().find(|(slots, _)| slots.contains(&slot)).map(|(_, node)| *node)
    }

    fn link(&self, slot: u16) -> Option<&Link> {
        self.links.get(&self.node(slot)?)
    }

    fn follow(&mut self, slot: u16) -> watch::Receiver<Option<Master>> {
        let now = self.link(slot).map(|link| link.master.clone());
        self.followed.entry(slot).or_insert_with(|| watch::Sender::new(now)).subscribe()
    }

    /// Ends the links that do not answer, and notifies the receivers whose master changed.
    fn publish(&mut self) {
        self.links.retain(|_, link| link.timeouts < TIMEOUTS_MAX);
        for (slot, followed) in &self.followed {
            let now = self.link(*slot).map(|link| link.master.clone());
            followed.send_if_modified(|known| {
                let is_news = *known != now;
                *known = now;
                is_news
            });
        }
    }

    /// Takes the masters of a new view. The links to others end.
    fn take(&mut self, view: &View) {
        self.slots.clone_from(&view.slots);
        let serves = |node: &NodeId, link: &Link| {
            view.histories.get(node).is_some_and(|history| *history == link.master.replid)
        };
        self.links.retain(|node, link| serves(node, link));
        self.publish();
    }
}

/// The way between a process and the servers.
struct Wire {
    network: Network,
    place: usize,
    generation: u64,
}

impl Wire {
    /// Asks the servers. Returns nothing if the request or its answer is lost.
    async fn ask<T: Send + 'static>(
        self: &Arc<Wire>,
        label: &'static str,
        ask: impl FnOnce(&mut Server) -> T + Send + 'static,
    ) -> Option<T> {
        let (sender, answered) = oneshot::channel();
        let (wire, me) = (self.clone(), Node::Replica(self.place));
        let at_store = move |server: &mut Server| {
            let answer = ask(server);
            let back = Delivery::Run(Box::new(move || drop(sender.send(answer))));
            wire.network.send((Node::Store, me), label, back);
        };
        let ask = Delivery::Store(Box::new(at_store));
        self.network.send((me, Node::Store), label, ask);
        timeout(ANSWER_MAX, answered).await.ok()?.ok()
    }

    async fn connect(self: &Arc<Wire>, node: NodeId) -> Option<Arc<Line>> {
        let generation = self.generation;
        let opened = self.ask("connect", move |server| server.redis().connect(node, generation));
        Some(Arc::new(Line { wire: self.clone(), connection: opened.await? }))
    }
}

/// A connection, which ends when it is dropped.
struct Line {
    wire: Arc<Wire>,
    connection: Connection,
}

impl Drop for Line {
    fn drop(&mut self) {
        let (connection, me) = (self.connection, Node::Replica(self.wire.place));
        let close = move |server: &mut Server| server.redis().close(connection);
        let close = Delivery::Store(Box::new(close));
        self.wire.network.send((me, Node::Store), "close", close);
    }
}

/// A connection with the time that its answers may take.
#[derive(Clone)]
struct Socket {
    line: Arc<Line>,
    patience: Duration,
}

impl Socket {
    /// Sends commands, with the transitions of the commits among them, for the checks.
    async fn send(&self, commands: Vec<Command>, sent: Sent) -> Result<Vec<Value>, LinkError> {
        let (sender, answered) = oneshot::channel();
        let (wire, connection) = (self.line.wire.clone(), self.line.connection);
        let me = Node::Replica(wire.place);
        let network = wire.network.clone();
        let at_store = move |server: &mut Server| {
            let asked = move |values: Option<Vec<Value>>| {
                let back = Delivery::Run(Box::new(move || drop(sender.send(values))));
                network.send((Node::Store, me), "answer", back);
            };
            let servers = server.redis();
            sent.into_iter().for_each(|(mark, transition)| servers.note(mark, transition));
            servers.send(connection, commands, Box::new(asked));
        };
        let ask = Delivery::Store(Box::new(at_store));
        wire.network.send((me, Node::Store), "ask", ask);
        match timeout(self.patience, answered).await {
            Ok(Ok(Some(values))) => Ok(values),
            Ok(_) => Err(ambiguous("the connection ended")),
            Err(_) => Err(ambiguous("no answer in time")),
        }
    }
}

/// A connection for reads and waits that block, and for the commits before such a wait.
struct OwnSocket {
    socket: Socket,
    store: Arc<StoreOver>,
}

#[async_trait::async_trait]
impl bellwether::store::redis::link::Connection for OwnSocket {
    async fn run(&self, pipeline: &Pipeline) -> Result<Vec<Value>, LinkError> {
        let commands = commands_of(pipeline);
        let sent = transitions(&self.store, &commands);
        self.socket.send(commands, sent).await
    }
}

/// Returns the transitions of the commits among commands.
fn transitions(store: &StoreOver, commands: &[Command]) -> Sent {
    let mut sent = Sent::new();
    let Some(store) = store.get().and_then(Weak::upgrade) else { return sent };
    for command in commands {
        // EVALSHA digest 7 keys name base writer sequence
        let [_, _, count, _, _, _, _, _, _, _, app, _, writer, sequence, ..] = command.as_slice()
        else {
            continue;
        };
        if count != b"7" {
            continue;
        }
        let mark = [writer.as_slice(), sequence].join(&b':');
        let mark = String::from_utf8_lossy(&mark).into_owned();
        let found = app_of(app).and_then(|app| store.under_way(&mark, &app));
        sent.extend(found.map(|found| ((writer.clone(), sequence.clone()), found)));
    }
    sent
}

fn ambiguous(reason: &str) -> LinkError {
    LinkError::Ambiguous { reason: reason.to_string() }
}

fn commands_of(pipeline: &Pipeline) -> Vec<Command> {
    let words = |arg: Arg<&[u8]>| match arg {
        Arg::Simple(word) => word.to_vec(),
        _ => b"0".to_vec(),
    };
    pipeline.cmd_iter().map(|command| command.args_iter().map(words).collect()).collect()
}

impl ProcessServers {
    /// Starts to look for the masters. The servers are looked for as long as they are used.
    pub(super) fn start(
        network: Network,
        (place, generation): (usize, u64),
        kind: Kind,
    ) -> Arc<ProcessServers> {
        let servers = Arc::new(ProcessServers {
            kind,
            wire: Arc::new(Wire { network, place, generation }),
            routes: Mutex::default(),
            look: Notify::new(),
            store: Arc::default(),
        });
        tokio::spawn(supervise(Arc::downgrade(&servers)));
        servers
    }

    /// Takes the transitions of commits from this store.
    pub(super) fn watch(&self, store: &Arc<RedisStore>) {
        // Set once, after the start.
        let _ = self.store.set(Arc::downgrade(store));
    }

    /// Looks for the serving masters, and asks whether they answer.
    async fn look(&self) {
        let view = self.wire.ask("serving", |server| server.redis().view()).await;
        let Some(view) = view else {
            let mut routes = lock(&self.routes);
            routes.links.values_mut().for_each(|link| link.timeouts += 1);
            return routes.publish();
        };
        lock(&self.routes).take(&view);
        for (node, history) in view.histories {
            let known = lock(&self.routes).links.get(&node).map(|link| link.socket.clone());
            match known {
                Some(socket) => {
                    let ping = vec![vec![b"PING".to_vec()]];
                    let answers = socket.send(ping, Sent::new()).await.is_ok();
                    if let Some(link) = lock(&self.routes).links.get_mut(&node) {
                        link.timeouts = if answers { 0 } else { link.timeouts + 1 };
                    }
                }
                None => self.connect(node, history).await,
            }
            lock(&self.routes).publish();
        }
    }

    async fn connect(&self, node: NodeId, history: String) {
        let Some(line) = self.wire.connect(node).await else { return };
        let socket = Socket { line, patience: ANSWER_MAX };
        let mut routes = lock(&self.routes);
        routes.connections += 1;
        let master = Master {
            address: address_of(node),
            run_id: history.clone(),
            replid: history,
            connection: routes.connections,
        };
        routes.links.insert(node, Link { socket, master, timeouts: 0 });
    }

    fn link(&self, tag: &str) -> Result<Link, LinkError> {
        lock(&self.routes).link(slot_of(tag)).cloned().ok_or_else(away)
    }
}

fn address_of(node: NodeId) -> String {
    format!("redis-{node}:6379")
}

fn away() -> LinkError {
    LinkError::Away { reason: "Redis is away".to_string() }
}

async fn supervise(servers: Weak<ProcessServers>) {
    loop {
        let Some(servers) = servers.upgrade() else { return };
        servers.look().await;
        // A request to look again ends the pause.
        let _ = timeout(LOOK_EVERY, servers.look.notified()).await;
    }
}

#[async_trait::async_trait]
impl Servers for ProcessServers {
    fn kind(&self) -> Kind {
        self.kind
    }

    async fn run(&self, tag: &str, pipeline: &Pipeline) -> Result<Vec<Value>, LinkError> {
        if pipeline.is_empty() {
            return Ok(Vec::new());
        }
        if self.store.get().is_none() {
            // A process that starts waits for its first connection.
            let mut masters = self.master(tag);
            let _ = timeout(START_MAX, masters.wait_for(Option::is_some)).await;
        }
        let Link { socket, .. } = self.link(tag)?;
        let commands = commands_of(pipeline);
        let sent = transitions(&self.store, &commands);
        let answers = socket.send(commands, sent).await;
        if answers.as_ref().map_or(true, |answers| answers.iter().any(is_unserved)) {
            self.look.notify_one();
        }
        answers
    }

    async fn dedicated(&self, tag: &str, patience: Duration) -> Result<Dedicated, LinkError> {
        let Link { master, .. } = self.link(tag)?;
        let node = lock(&self.routes).node(slot_of(tag)).ok_or_else(away)?;
        let line = self.wire.connect(node).await.ok_or_else(away)?;
        let own = OwnSocket { socket: Socket { line, patience }, store: self.store.clone() };
        Ok(Dedicated { connection: Arc::new(own), master })
    }

    fn master(&self, tag: &str) -> watch::Receiver<Option<Master>> {
        lock(&self.routes).follow(slot_of(tag))
    }

    fn health(&self) -> Result<(), String> {
        let routes = lock(&self.routes);
        let is_whole = routes.slots.iter().all(|(_, node)| routes.links.contains_key(node));
        let is_there = is_whole && !routes.slots.is_empty();
        is_there.then_some(()).ok_or_else(|| "Redis is away".to_string())
    }

    fn look_again(&self) {
        self.look.notify_one();
    }

    fn close(&self) {
        let mut routes = lock(&self.routes);
        routes.links.clear();
        routes.publish();
    }
}
