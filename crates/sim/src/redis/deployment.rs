//! Servers that belong together: a master, its replicas, their disks, and the connections to them.
//!
//! Time moves in steps ([`Deployment::advance`]). A replica has an effect of its master after its
//! lag; a disk has it after the next flush, one each second by default, as `appendfsync everysec`.

use std::collections::{BTreeMap, VecDeque};
use std::ops::RangeInclusive;

use bellwether::store::redis::link::SLOTS;

use super::command::{self, Wanted};
use super::node::{Follows, Node, NodeId};
use super::slots::{ShardId, Slots, copy_of, keys_of, slot};
use super::state::State;
use super::{Command, Reply, Text, Witness};

/// Pipelines that wait on a connection: a client that sends more does not wait for answers.
const PIPELINES_MAX: usize = 4096;

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
    /// The number of shards. More than one are a cluster.
    pub shards: usize,
    /// The number of replicas of each shard. The servers of a shard follow one another.
    pub replicas: usize,
    /// How long an effect takes to a replica, in microseconds.
    pub lag: u64,
}

/// A pipeline that is executed.
struct Pipeline {
    number: u64,
    commands: VecDeque<Command>,
    replies: Vec<Reply>,
    /// The commands since `MULTI`; `None` in it after a command that this server does not serve.
    queued: Option<Option<Vec<Command>>>,
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
    /// The servers of each shard.
    in_shard: usize,
    /// The slots of a cluster.
    slots: Option<Slots>,
    now: u64,
    clients: BTreeMap<Connection, Client>,
    next: u64,
    histories: u64,
    answers: Vec<Answer>,
    closed: Vec<Connection>,
}

impl Deployment {
    /// Returns empty masters with their replicas.
    pub fn new(nodes: Nodes, now: u64) -> Deployment {
        let Nodes { shards, replicas, lag } = nodes;
        let mut new = Deployment {
            witness: None,
            nodes: Vec::new(),
            in_shard: replicas + 1,
            slots: (1 < shards).then(|| Slots::even(shards)),
            now,
            clients: BTreeMap::new(),
            next: 1,
            histories: 0,
            answers: Vec::new(),
            closed: Vec::new(),
        };
        for node in 0..shards * new.in_shard {
            let master = node - node % new.in_shard;
            let follows = (node != master).then_some(Follows { master, has: 0, on_disk: 0 });
            let history = new.history();
            new.nodes.push(Node::new(history, follows, lag, now));
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
            self.nodes[node].flush(self.now);
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
        self.nodes[node].promote(history);
    }

    /// Makes a server a replica of another one: it takes over all that it has.
    pub fn follow(&mut self, node: NodeId, master: NodeId) {
        if let Ok([follower, from]) = self.nodes.get_disjoint_mut([node, master]) {
            follower.follow(master, from);
        }
        // Redis answers clients that wait with an error, and closes their connections.
        let is_waiting = |client: &Client| {
            client.node == node && client.pipelines.iter().any(|one| one.waits_until.is_some())
        };
        self.close_where(is_waiting);
    }

    /// Restarts a server from its append-only file. It loses what was not flushed.
    pub fn restart(&mut self, node: NodeId) {
        let history = self.history();
        self.nodes[node].restart(history);
        self.close_where(|client| client.node == node);
        let followers: Vec<NodeId> = (0..self.nodes.len())
            .filter(|&other| self.nodes[other].follows.is_some_and(|other| other.master == node))
            .collect();
        match self.nodes[node].follows {
            Some(Follows { master, .. }) => self.follow(node, master),
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

    /// Returns the slots, each range with its shard.
    pub fn ranges(&self) -> Vec<(RangeInclusive<u16>, ShardId)> {
        self.slots.as_ref().map_or_else(|| vec![(0..=SLOTS - 1, 0)], Slots::ranges)
    }

    /// Returns the shard that has a slot.
    pub fn owner_of(&self, slot: u16) -> ShardId {
        self.slots.as_ref().map_or(0, |slots| slots.owner(slot))
    }

    /// Moves a slot with its keys from one master to another, at one moment. Redis moves one key
    /// after the other; a command whose keys are not together is then refused. A server without the
    /// slot removes what it still has of it, as after a failover to a replica that did not receive
    /// the removal.
    pub fn move_slot(&mut self, moved: u16, (from, to): (NodeId, NodeId)) {
        let Some(slots) = &mut self.slots else { return };
        slots.give(moved, to / self.in_shard);
        let copied = copy_of(&self.nodes[from].server.state.keys, moved);
        let [left, gone] = [to, from].map(|node| {
            let keys = self.nodes[node].server.state.keys.keys().filter(|key| slot(key) == moved);
            keys.map(|key| vec![b"DEL".to_vec(), key.clone()]).collect::<Vec<Command>>()
        });
        for (node, commands) in [(to, left), (to, copied), (from, gone)] {
            let node = &mut self.nodes[node];
            commands.iter().for_each(|command| node.server.state.repeat(command));
            node.log.extend(self.now, commands);
        }
    }

    /// Writes all effects of a server to its append-only file.
    pub fn sync(&mut self, node: NodeId) {
        self.nodes[node].sync();
    }

    /// Brings all effects to a replica, even to one that is cut off.
    pub fn catch_up(&mut self, node: NodeId) {
        let Node { is_cut, lag, .. } = self.nodes[node];
        self.set_replication(node, false, 0);
        self.replicate(node);
        self.set_replication(node, is_cut, lag);
    }

    /// Brings the effects to a replica that have had time to arrive.
    fn replicate(&mut self, node: NodeId) {
        let Node { follows, is_cut, is_frozen, lag, .. } = self.nodes[node];
        let Some(Follows { master, has, .. }) = follows.filter(|_| !is_cut && !is_frozen) else {
            return;
        };
        let arrived = self.nodes[master].log.after(has).take_while(|(at, _)| at + lag <= self.now);
        let arrived: Vec<Command> = arrived.map(|(_, effect)| effect.clone()).collect();
        self.nodes[node].repeat(arrived, self.now);
    }

    /// Drops the effects that the disk and all replicas have.
    fn trim_logs(&mut self) {
        for node in 0..self.nodes.len() {
            let followers = self.nodes.iter().filter_map(|other| other.follows);
            let followers = followers.filter(|other| other.master == node).map(|other| other.has);
            let needed = followers.chain([self.nodes[node].disk.1]).min().unwrap_or_default();
            self.nodes[node].log.trim(needed);
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
        if let Some(error) = self.not_served(connection, command) {
            if let Some(queued) = &mut pipeline.queued {
                *queued = None;
            }
            return Some(error);
        }
        if name != b"EXEC"
            && let Some(queued) = &mut pipeline.queued
        {
            queued.iter_mut().for_each(|queued| queued.push(command.to_vec()));
            return Some(Reply::Status("QUEUED"));
        }
        let arguments = command.get(1..).unwrap_or_default();
        match name.as_slice() {
            b"MULTI" => {
                pipeline.queued = Some(Some(Vec::new()));
                Some(Reply::OK)
            }
            b"EXEC" => Some(match pipeline.queued.take() {
                Some(Some(queued)) => {
                    Reply::Array(queued.iter().map(|one| self.run(connection, one)).collect())
                }
                Some(None) => {
                    let text = "EXECABORT Transaction discarded because of previous errors.";
                    Reply::Error(text.to_string())
                }
                None => Reply::Error("ERR EXEC without MULTI".to_string()),
            }),
            b"XREAD" => self.read_streams(connection, pipeline, arguments),
            b"WAIT" | b"WAITAOF" => self.wait(connection, pipeline, &name, arguments),
            _ => Some(self.run(connection, command)),
        }
    }

    /// Returns the error of a command whose keys another server of the cluster has.
    fn not_served(&self, connection: Connection, command: &[Text]) -> Option<Reply> {
        let (slots, client) = (self.slots.as_ref()?, self.clients.get(&connection)?);
        let of_keys: Vec<u16> = keys_of(command).into_iter().map(|key| slot(key)).collect();
        let (&first, others) = of_keys.split_first()?;
        if others.iter().any(|other| *other != first) {
            let text = "CROSSSLOT Keys in request don't hash to the same slot";
            return Some(Reply::Error(text.to_string()));
        }
        let owner = slots.owner(first);
        if owner == client.node / self.in_shard && !self.nodes[client.node].server.state.is_replica
        {
            return None;
        }
        let nodes = owner * self.in_shard..(owner + 1) * self.in_shard;
        let serves = |node: &Node| node.follows.is_none() && !node.is_frozen;
        let master = nodes.into_iter().find(|node| serves(&self.nodes[*node]));
        Some(Reply::Error(format!("MOVED {first} redis-{}:6379", master.unwrap_or_default())))
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
        node.log.extend(self.now, effects);
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
        let followers = self.nodes.iter().filter(|other| !other.is_cut);
        let followers = followers.filter_map(|other| other.follows);
        let followers = followers.filter(|other| other.master == client.node);
        // `WAITAOF` counts the disks of the replicas.
        let has = |other: &Follows| if name == b"WAIT" { other.has } else { other.on_disk };
        let reached = followers.filter(|other| written <= has(other)).count();
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
