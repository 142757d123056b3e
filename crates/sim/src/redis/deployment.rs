//! Servers that belong together: a master, its replicas, their disks, and the connections to them.
//!
//! Time moves in steps ([`Deployment::advance`]). A replica has an effect of its master after its
//! lag; a disk has it after the next flush, one each second by default, as `appendfsync everysec`.

use std::collections::{BTreeMap, VecDeque};

use super::command::{self, Wanted};
use super::server::Server;
use super::state::State;
use super::{Command, Reply, Text, Witness};

/// How often the append-only file is flushed, in microseconds.
const FLUSH_EVERY: u64 = 1_000_000;
/// Pipelines that wait on a connection: a client that sends more does not wait for answers.
const PIPELINES_MAX: usize = 4096;

/// The number of a server.
pub type NodeId = usize;
/// The number of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Connection(pub u64);

/// The answer to a pipeline.
#[derive(Debug, PartialEq)]
pub struct Answer {
    /// Where it was sent.
    pub connection: Connection,
    /// The number that its sender gave it.
    pub pipeline: u64,
    /// The replies, one for each command.
    pub replies: Vec<Reply>,
}

/// The number of servers, and how they are set up.
#[derive(Debug, Clone, Copy)]
pub struct Nodes {
    /// The number of replicas.
    pub replicas: usize,
    /// How long an effect takes to a replica, in microseconds.
    pub lag: u64,
}

/// What a server keeps for those that follow it: its effects since it became a master.
#[derive(Default)]
struct Log {
    /// The number of effects before the first kept one.
    begin: u64,
    /// The effects, each with its time.
    effects: VecDeque<(u64, Command)>,
}

impl Log {
    fn end(&self) -> u64 {
        self.begin + self.effects.len() as u64
    }
}

struct Node {
    server: Server,
    log: Log,
    /// The master that it follows, and how many of its effects it has; `None` for a master.
    follows: Option<(NodeId, u64)>,
    /// What its append-only file has: a copy, and how many of its effects are in it.
    disk: (State, u64),
    flushed: u64,
    lag: u64,
    /// Nothing arrives from its master.
    is_cut: bool,
    /// It does not run. What was sent to it is executed later.
    is_frozen: bool,
    /// How far its clock is ahead, in microseconds.
    ahead: i64,
}

/// A pipeline that is executed.
struct Pipeline {
    number: u64,
    commands: VecDeque<Command>,
    replies: Vec<Reply>,
    /// The commands since `MULTI`.
    queued: Option<Vec<Command>>,
    /// Until when the first command waits.
    waits_until: Option<u64>,
}

struct Client {
    node: NodeId,
    pipelines: VecDeque<Pipeline>,
    /// The number of effects after its last write.
    written: u64,
}

/// The servers.
pub struct Deployment {
    witness: Option<Witness>,
    nodes: Vec<Node>,
    now: u64,
    clients: BTreeMap<Connection, Client>,
    next: u64,
    histories: u64,
    answers: Vec<Answer>,
    closed: Vec<Connection>,
}

impl Deployment {
    /// Returns an empty master with its replicas.
    pub fn new(nodes: Nodes, now: u64) -> Deployment {
        let mut new = Deployment {
            witness: None,
            nodes: Vec::new(),
            now,
            clients: BTreeMap::new(),
            next: 1,
            histories: 0,
            answers: Vec::new(),
            closed: Vec::new(),
        };
        for node in 0..=nodes.replicas {
            let mut server = Server::new(new.history());
            server.state.is_replica = node != 0;
            new.nodes.push(Node {
                server,
                log: Log::default(),
                follows: (node != 0).then_some((0, 0)),
                disk: (State::default(), 0),
                flushed: now,
                lag: nodes.lag,
                is_cut: false,
                is_frozen: false,
                ahead: 0,
            });
        }
        new
    }

    /// Lets a witness see each call of a script from now on.
    pub fn witness(&mut self, witness: Witness) {
        self.witness = Some(witness);
    }

    /// Returns the state of a server, for checks.
    pub fn state(&self, node: NodeId) -> &State {
        &self.nodes[node].server.state
    }

    /// Moves the time forward, to `now` in microseconds.
    pub fn advance(&mut self, now: u64) {
        self.now = self.now.max(now);
        for node in 0..self.nodes.len() {
            self.replicate(node);
            self.flush(node);
        }
        let waiting: Vec<Connection> = self.clients.keys().copied().collect();
        for connection in waiting {
            self.execute(connection);
        }
        self.trim_logs();
    }

    /// Returns the answers since the last call.
    pub fn take_answers(&mut self) -> Vec<Answer> {
        std::mem::take(&mut self.answers)
    }

    /// Returns the connections that servers have closed since the last call.
    pub fn take_closed(&mut self) -> Vec<Connection> {
        std::mem::take(&mut self.closed)
    }

    /// Connects to a server.
    pub fn connect(&mut self, node: NodeId) -> Connection {
        let connection = Connection(self.next);
        self.next += 1;
        let client = Client { node, pipelines: VecDeque::new(), written: 0 };
        self.clients.insert(connection, client);
        connection
    }

    /// Closes a connection. What was sent and not executed is never executed.
    pub fn close(&mut self, connection: Connection) {
        self.clients.remove(&connection);
    }

    /// Sends a pipeline. Returns whether the connection is open.
    pub fn send(&mut self, to: Connection, pipeline: u64, commands: Vec<Command>) -> bool {
        let Some(client) = self.clients.get_mut(&to) else { return false };
        if PIPELINES_MAX <= client.pipelines.len() {
            self.clients.remove(&to);
            self.closed.push(to);
            return false;
        }
        client.pipelines.push_back(Pipeline {
            number: pipeline,
            replies: Vec::with_capacity(commands.len()),
            commands: commands.into(),
            queued: None,
            waits_until: None,
        });
        self.execute(to);
        true
    }

    /// Makes a replica a master, with what it has. Its former master stays one until it follows.
    pub fn promote(&mut self, node: NodeId) {
        self.replicate(node);
        let history = self.history();
        let promoted = &mut self.nodes[node];
        promoted.follows = None;
        promoted.server.state.is_replica = false;
        promoted.server.state.history = history;
        promoted.server.forget_scripts();
    }

    /// Makes a server a replica of another one: it takes over all that it has.
    pub fn follow(&mut self, node: NodeId, master: NodeId) {
        let (from, end) = {
            let from = &self.nodes[master];
            (from.server.state.keys.clone(), from.log.end())
        };
        let history = self.nodes[master].server.state.history.clone();
        let follower = &mut self.nodes[node];
        follower.server.state.keys = from.clone();
        follower.server.state.is_replica = true;
        follower.server.state.history = history;
        follower.follows = Some((master, end));
        follower.log = Log::default();
        follower.disk = (State { keys: from, ..State::default() }, 0);
        // Redis answers clients that wait with an error, and closes their connections.
        let is_waiting = |client: &Client| {
            client.node == node && client.pipelines.iter().any(|one| one.waits_until.is_some())
        };
        self.close_where(is_waiting);
    }

    /// Restarts a server from its append-only file. It loses what was not flushed.
    pub fn restart(&mut self, node: NodeId) {
        let history = self.history();
        let restarted = &mut self.nodes[node];
        let keys = restarted.disk.0.keys.clone();
        let (is_full, is_replica) =
            (restarted.server.state.is_full, restarted.server.state.is_replica);
        restarted.server = Server::new(history);
        restarted.server.state = State {
            keys,
            is_full,
            is_replica,
            history: std::mem::take(&mut restarted.server.state.history),
            ..State::default()
        };
        restarted.log = Log::default();
        restarted.disk.1 = 0;
        restarted.is_frozen = false;
        self.close_where(|client| client.node == node);
        let followers: Vec<NodeId> = (0..self.nodes.len())
            .filter(|&other| self.nodes[other].follows.is_some_and(|(master, _)| master == node))
            .collect();
        match self.nodes[node].follows {
            Some((master, _)) => self.follow(node, master),
            None => followers.into_iter().for_each(|follower| self.follow(follower, node)),
        }
    }

    /// Sets whether a server runs. What was sent to one that stands still is executed later.
    pub fn freeze(&mut self, node: NodeId, is_frozen: bool) {
        self.nodes[node].is_frozen = is_frozen;
    }

    /// Sets whether effects arrive at a replica, and after what time, in microseconds.
    pub fn set_replication(&mut self, node: NodeId, is_cut: bool, lag: u64) {
        (self.nodes[node].is_cut, self.nodes[node].lag) = (is_cut, lag);
    }

    /// Sets whether a server has no memory left.
    pub fn set_full(&mut self, node: NodeId, is_full: bool) {
        self.nodes[node].server.state.is_full = is_full;
    }

    /// Sets how far the clock of a server is ahead, in microseconds.
    pub fn set_clock(&mut self, node: NodeId, ahead: i64) {
        self.nodes[node].ahead = ahead;
    }

    /// Removes the scripts of a server, as `SCRIPT FLUSH`.
    pub fn forget_scripts(&mut self, node: NodeId) {
        self.nodes[node].server.forget_scripts();
    }

    /// Returns an id that no history had before: 40 hexadecimal digits.
    fn history(&mut self) -> String {
        self.histories += 1;
        // The first eight digits must differ, because `master.lua` names histories by them.
        format!("{:08x}{:032x}", self.histories.wrapping_mul(0x9e37_79b9) as u32, self.histories)
    }

    fn close_where(&mut self, ends: impl Fn(&Client) -> bool) {
        let ended: Vec<Connection> =
            self.clients.iter().filter(|(_, client)| ends(client)).map(|(&one, _)| one).collect();
        for connection in ended {
            self.clients.remove(&connection);
            self.closed.push(connection);
        }
    }

    /// Brings the effects to a replica that have had time to arrive.
    fn replicate(&mut self, node: NodeId) {
        let Some((master, applied)) = self.nodes[node].follows else { return };
        if self.nodes[node].is_cut || self.nodes[node].is_frozen {
            return;
        }
        let (lag, now) = (self.nodes[node].lag, self.now);
        let log = &self.nodes[master].log;
        let from = usize::try_from(applied.saturating_sub(log.begin)).unwrap_or(usize::MAX);
        let arrived = log.effects.iter().skip(from).take_while(|(at, _)| at + lag <= now);
        let arrived: Vec<Command> = arrived.map(|(_, effect)| effect.clone()).collect();
        let follower = &mut self.nodes[node];
        follower.follows = Some((master, applied + arrived.len() as u64));
        for effect in arrived {
            follower.server.state.repeat(&effect);
            follower.log.effects.push_back((now, effect));
        }
    }

    /// Writes the effects of a server to its disk, once in a while.
    fn flush(&mut self, node: NodeId) {
        let (now, node) = (self.now, &mut self.nodes[node]);
        if node.is_frozen || now < node.flushed + FLUSH_EVERY {
            return;
        }
        node.flushed = now;
        let (disk, done) = &mut node.disk;
        let from = usize::try_from(done.saturating_sub(node.log.begin)).unwrap_or(usize::MAX);
        node.log.effects.iter().skip(from).for_each(|(_, effect)| disk.repeat(effect));
        *done = node.log.end();
    }

    /// Drops the effects that the disk and all replicas have.
    fn trim_logs(&mut self) {
        for node in 0..self.nodes.len() {
            let followers = self.nodes.iter().filter_map(|other| other.follows);
            let followers = followers.filter(|(master, _)| *master == node);
            let needed = followers.map(|(_, applied)| applied).chain([self.nodes[node].disk.1]);
            let needed = needed.min().unwrap_or_default();
            let log = &mut self.nodes[node].log;
            while log.begin < needed && log.effects.pop_front().is_some() {
                log.begin += 1;
            }
        }
    }

    /// Executes what a connection has sent, up to a command that waits.
    fn execute(&mut self, connection: Connection) {
        let Some(client) = self.clients.get(&connection) else { return };
        let node = client.node;
        if self.nodes[node].is_frozen {
            return;
        }
        let clock = self.now.saturating_add_signed(self.nodes[node].ahead);
        self.nodes[node].server.state.micros = clock;
        while let Some(mut pipeline) =
            self.clients.get_mut(&connection).and_then(|client| client.pipelines.pop_front())
        {
            while let Some(command) = pipeline.commands.pop_front() {
                match self.step(connection, &mut pipeline, &command) {
                    Some(reply) => {
                        pipeline.waits_until = None;
                        pipeline.replies.push(reply);
                    }
                    None => {
                        pipeline.commands.push_front(command);
                        let client = self.clients.get_mut(&connection);
                        if let Some(client) = client {
                            client.pipelines.push_front(pipeline);
                        }
                        return;
                    }
                }
            }
            let Pipeline { number, replies, .. } = pipeline;
            self.answers.push(Answer { connection, pipeline: number, replies });
        }
    }

    /// Executes a command. Returns `None` if it waits.
    fn step(
        &mut self,
        connection: Connection,
        pipeline: &mut Pipeline,
        command: &[Text],
    ) -> Option<Reply> {
        let name = command.first().map(|name| name.to_ascii_uppercase()).unwrap_or_default();
        if name != b"EXEC"
            && let Some(queued) = &mut pipeline.queued
        {
            queued.push(command.to_vec());
            return Some(Reply::Status("QUEUED"));
        }
        let arguments = command.get(1..).unwrap_or_default();
        match name.as_slice() {
            b"MULTI" => {
                pipeline.queued = Some(Vec::new());
                Some(Reply::OK)
            }
            b"EXEC" => Some(match pipeline.queued.take() {
                Some(queued) => {
                    Reply::Array(queued.iter().map(|one| self.run(connection, one)).collect())
                }
                None => Reply::Error("ERR EXEC without MULTI".to_string()),
            }),
            b"XREAD" => self.read_streams(connection, pipeline, arguments),
            b"WAIT" | b"WAITAOF" => self.wait(connection, pipeline, &name, arguments),
            _ => Some(self.run(connection, command)),
        }
    }

    fn run(&mut self, connection: Connection, command: &[Text]) -> Reply {
        let Some(client) = self.clients.get_mut(&connection) else { return Reply::Nil };
        let node = &mut self.nodes[client.node];
        let reply = node.server.execute(command);
        if let Some(witness) = &mut self.witness
            && command.first().is_some_and(|name| name == b"EVALSHA")
        {
            witness(client.node, &node.server.state, command, &reply);
        }
        let effects = std::mem::take(&mut node.server.state.effects);
        let has_written = !effects.is_empty();
        node.log.effects.extend(effects.into_iter().map(|effect| (self.now, effect)));
        if has_written {
            client.written = node.log.end();
        }
        reply
    }

    fn read_streams(
        &mut self,
        connection: Connection,
        pipeline: &mut Pipeline,
        arguments: &[Text],
    ) -> Option<Reply> {
        let node = self.clients.get(&connection)?.node;
        let Some(wanted) = command::wanted(arguments) else { return Some(Reply::syntax()) };
        match command::read_after(&mut self.nodes[node].server.state.keys, &wanted) {
            Ok(Some(found)) => Some(found),
            Ok(None) => self.goes_on(pipeline, wanted).then_some(Reply::Nil),
            Err(_) => Some(Reply::Error("WRONGTYPE not a stream".to_string())),
        }
    }

    /// Returns whether a read has waited long enough.
    fn goes_on(&self, pipeline: &mut Pipeline, wanted: Wanted) -> bool {
        let Some(wait) = wanted.wait else { return true };
        self.is_over(pipeline, wait)
    }

    /// Returns whether so many milliseconds (0: for ever) are over.
    fn is_over(&self, pipeline: &mut Pipeline, wait: u64) -> bool {
        let end = if wait == 0 { u64::MAX } else { self.now + wait * 1000 };
        *pipeline.waits_until.get_or_insert(end) <= self.now
    }

    /// `WAIT replicas ms` and `WAITAOF local replicas ms`.
    fn wait(
        &mut self,
        connection: Connection,
        pipeline: &mut Pipeline,
        name: &[u8],
        arguments: &[Text],
    ) -> Option<Reply> {
        let client = self.clients.get(&connection)?;
        let numbers = arguments.iter().map(|text| std::str::from_utf8(text).ok()?.parse().ok());
        let numbers: Option<Vec<u64>> = numbers.collect();
        let (local, replicas, wait) = match (name, numbers.as_deref()) {
            (b"WAIT", Some(&[replicas, wait])) => (0, replicas, wait),
            (b"WAITAOF", Some(&[local, replicas, wait])) => (local, replicas, wait),
            _ => return Some(Reply::syntax()),
        };
        let written = client.written;
        let on_disk = u64::from(written <= self.nodes[client.node].disk.1);
        let followers = self.nodes.iter().filter(|other| {
            !other.is_cut
                && other
                    .follows
                    .is_some_and(|(master, has)| master == client.node && written <= has)
        });
        let reached = followers.count();
        let is_done = local <= on_disk && replicas <= reached as u64;
        if !is_done && !self.is_over(pipeline, wait) {
            return None;
        }
        Some(match name {
            b"WAIT" => Reply::count(reached),
            _ => Reply::Array(vec![Reply::Number(on_disk as i64), Reply::count(reached)]),
        })
    }
}
