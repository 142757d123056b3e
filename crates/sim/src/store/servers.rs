//! The servers of Redis as one process reaches them: requests and answers cross the network, where
//! they may be lost, late, or overtake each other.
//!
//! As the links of a server do it, a task looks every second for the serving master, and asks
//! whether the connection to it answers.

use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use bellwether::domain::transition::Transition;
use bellwether::store::redis::RedisStore;
use bellwether::store::redis::inspect::app_of;
use bellwether::store::redis::link::{Dedicated, Kind, LinkError, Master, Servers, is_unserved};
use redis::{Arg, Pipeline, Value};
use tokio::sync::{Notify, oneshot, watch};
use tokio::time::timeout;

use crate::lock;
use crate::network::{Delivery, Network, Node};
use crate::redis::{Command, Connection, NodeId, Text};
use crate::server::Server;

/// How long a request waits for its answer, as in a server.
const ANSWER_MAX: Duration = Duration::from_secs(1);
/// How often the serving master is looked for.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How many checks in a row may have no answer.
const TIMEOUTS_MAX: u32 = 2;
/// How long a process that starts waits for its first connection.
const START_MAX: Duration = Duration::from_secs(10);

/// The transitions of commits, by their marks.
type Sent = Vec<((Text, Text), Arc<Transition>)>;

/// The servers, as a process reaches them.
pub(super) struct ProcessServers {
    wire: Arc<Wire>,
    masters: watch::Sender<Option<Master>>,
    live: Mutex<Option<Socket>>,
    look: Notify,
    /// The store over these servers, which has the transitions of the commits that are sent.
    store: OnceLock<Weak<RedisStore>>,
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

#[async_trait::async_trait]
impl bellwether::store::redis::link::Connection for Socket {
    async fn run(&self, pipeline: &Pipeline) -> Result<Vec<Value>, LinkError> {
        self.send(commands_of(pipeline), Sent::new()).await
    }
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
    /// Returns the servers, and keeps a connection to the serving master for as long as they are
    /// used.
    pub(super) fn start(network: Network, place: usize, generation: u64) -> Arc<ProcessServers> {
        let servers = Arc::new(ProcessServers {
            wire: Arc::new(Wire { network, place, generation }),
            masters: watch::Sender::new(None),
            live: Mutex::default(),
            look: Notify::new(),
            store: OnceLock::new(),
        });
        tokio::spawn(supervise(Arc::downgrade(&servers)));
        servers
    }

    /// Takes the transitions of commits from this store.
    pub(super) fn watch(&self, store: &Arc<RedisStore>) {
        // Set once, after the start.
        let _ = self.store.set(Arc::downgrade(store));
    }

    /// Returns the transitions of the commits among commands.
    fn transitions(&self, commands: &[Command]) -> Sent {
        let mut sent = Sent::new();
        let Some(store) = self.store.get().and_then(Weak::upgrade) else { return sent };
        for command in commands {
            // EVALSHA digest 7 keys name base writer sequence
            let [_, _, count, _, _, _, _, _, _, _, app, _, writer, sequence, ..] =
                command.as_slice()
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

    fn socket(&self) -> Option<Socket> {
        lock(&self.live).clone()
    }

    /// Looks for the serving master. Returns whether it answers.
    async fn look(&self) -> bool {
        let serving = self.wire.ask("serving", |server| server.redis().serving()).await;
        let Some((node, history)) = serving else { return false };
        let known = self.masters.borrow().clone();
        let number = known.as_ref().map_or(0, |master| master.connection);
        let address = format!("redis-{node}:6379");
        let is_known = known.is_some_and(|m| m.address == address && m.replid == history);
        if is_known && let Some(socket) = self.socket() {
            let ping = vec![vec![b"PING".to_vec()]];
            return socket.send(ping, Sent::new()).await.is_ok();
        }
        self.lose();
        let Some(line) = self.wire.connect(node).await else { return false };
        *lock(&self.live) = Some(Socket { line, patience: ANSWER_MAX });
        let (run_id, replid) = (history.clone(), history);
        let master = Master { address, run_id, replid, connection: number + 1 };
        self.masters.send_replace(Some(master));
        true
    }

    fn lose(&self) {
        *lock(&self.live) = None;
        if self.masters.borrow().is_some() {
            self.masters.send_replace(None);
        }
    }
}

async fn supervise(servers: Weak<ProcessServers>) {
    let mut timeouts = 0;
    loop {
        let Some(servers) = servers.upgrade() else { return };
        timeouts = if servers.look().await { 0 } else { timeouts + 1 };
        if TIMEOUTS_MAX <= timeouts {
            servers.lose();
        }
        // A request to look again ends the pause.
        let _ = timeout(LOOK_EVERY, servers.look.notified()).await;
    }
}

#[async_trait::async_trait]
impl Servers for ProcessServers {
    fn kind(&self) -> Kind {
        Kind::Sentinel
    }

    async fn run(&self, _: &str, pipeline: &Pipeline) -> Result<Vec<Value>, LinkError> {
        if pipeline.is_empty() {
            return Ok(Vec::new());
        }
        if self.store.get().is_none() {
            // A process that starts waits for its first connection.
            let mut masters = self.masters.subscribe();
            let _ = timeout(START_MAX, masters.wait_for(Option::is_some)).await;
        }
        let away = || LinkError::Away { reason: "Redis is away".to_string() };
        let socket = self.socket().ok_or_else(away)?;
        let commands = commands_of(pipeline);
        let sent = self.transitions(&commands);
        let answers = socket.send(commands, sent).await;
        if answers.as_ref().map_or(true, |answers| answers.iter().any(is_unserved)) {
            self.look.notify_one();
        }
        answers
    }

    async fn dedicated(&self, _: &str, patience: Duration) -> Result<Dedicated, LinkError> {
        let away = || LinkError::Away { reason: "Redis is away".to_string() };
        let master = self.masters.borrow().clone().ok_or_else(away)?;
        let node = master.address.trim_start_matches("redis-").split(':').next();
        let node: NodeId = node.and_then(|node| node.parse().ok()).ok_or_else(away)?;
        let line = self.wire.connect(node).await.ok_or_else(away)?;
        Ok(Dedicated { connection: Arc::new(Socket { line, patience }), master })
    }

    fn master(&self, _: &str) -> watch::Receiver<Option<Master>> {
        self.masters.subscribe()
    }

    fn health(&self) -> Result<(), String> {
        self.socket().map(drop).ok_or_else(|| "Redis is away".to_string())
    }

    fn look_again(&self) {
        self.look.notify_one();
    }

    fn close(&self) {
        self.lose();
    }
}
