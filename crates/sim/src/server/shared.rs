//! The servers of Redis of a run, and what the processes have asked: in each shard a master and a
//! replica that change places.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex};

use bellwether::domain::name::AppName;
use bellwether::domain::outage::Outages;
use bellwether::domain::time::Timestamp;
use bellwether::domain::transition::Transition;
use bellwether::store::redis::Durability;
use bellwether::store::redis::inspect::Keys;
use bellwether::store::{Bucket, Position};
use redis::Value;

use crate::judge::Judge;
use crate::randomness::Dice;
use crate::redis::{Answer, Command, Connection, Deployment, NodeId, Nodes, ShardId, Text, slot};

use super::Shape;
use super::app::App;
use super::mirror::{Lost, Mirror};

/// The longest time after which a server notices that a process is gone, in milliseconds.
const NOTICED_AFTER: u64 = 5_000;
/// The time after which a connection ends that its process has closed, in milliseconds.
const CLOSED_AFTER: u64 = 3_000;
/// The longest time for which a former master is away, in milliseconds.
const AWAY_MAX: u64 = 20_000;

/// The state of a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BucketState {
    /// The epoch floor of the serving master, once a process has noted this master.
    pub floor: Option<u64>,
    /// The loss count.
    pub losses: u64,
    /// The last position.
    pub last: Position,
}

/// Which master serves which slots, and the history of each master.
#[derive(Debug, Clone, Default)]
pub struct View {
    /// The slots.
    pub slots: Vec<(RangeInclusive<u16>, NodeId)>,
    /// The histories.
    pub histories: BTreeMap<NodeId, String>,
}

/// A master with its replica.
#[derive(Debug, Clone, Copy)]
struct Shard {
    master: NodeId,
    /// A former master that does not run, and when it comes back as a replica.
    former: Option<(NodeId, u64)>,
}

/// Takes the answer to a pipeline; `None` if the connection has ended.
pub type Asked = Box<dyn FnOnce(Option<Vec<Value>>) + Send>;

/// The servers.
pub struct Servers {
    deployment: Deployment,
    shards: Vec<Shard>,
    keys: Keys,
    shape: Shape,
    mirror: Arc<Mutex<Mirror>>,
    waiting: BTreeMap<(Connection, u64), Asked>,
    next: u64,
    /// The process of each connection, by its generation.
    owners: BTreeMap<Connection, u64>,
    /// Processes that are gone, each with the time when the servers notice it.
    gone: Vec<(u64, u64)>,
    /// Connections that their processes have closed, each with the time when they end.
    closing: Vec<(u64, Connection)>,
    /// The time of the world in milliseconds, and how far the clock of the servers is ahead.
    now: u64,
    ahead: i64,
    is_full: bool,
    lost: Vec<Lost>,
}

impl Servers {
    /// Returns empty masters, each with a replica.
    pub fn new(shape: Shape, time: Timestamp, judge: Arc<Mutex<Judge>>) -> Servers {
        let now = time.millis();
        let mirror = Arc::new(Mutex::new(Mirror::new(shape.buckets, time, judge)));
        let nodes = Nodes { shards: shape.shards, replicas: 1, lag: shape.lag * 1000 };
        let mut deployment = Deployment::new(nodes, now * 1000);
        let witness = mirror.clone();
        deployment.witness(Box::new(move |node, state, command, reply| {
            crate::lock(&witness).on_call(node, state, command, reply);
        }));
        let shard = |shard| Shard { master: 2 * shard, former: None };
        let mut servers = Servers {
            deployment,
            shards: (0..shape.shards).map(shard).collect(),
            keys: Keys::new(shape.buckets),
            shape,
            mirror,
            waiting: BTreeMap::new(),
            next: 0,
            owners: BTreeMap::new(),
            gone: Vec::new(),
            closing: Vec::new(),
            now,
            ahead: 0,
            is_full: false,
            lost: Vec::new(),
        };
        for shard in 0..shape.shards {
            let _ = servers.take_master(shard, None, false);
        }
        servers
    }

    /// Moves the time forward.
    pub fn advance(&mut self, millis: u64) {
        self.now += millis;
        crate::lock(&self.mirror).time = Timestamp::new(self.now);
        self.close_due();
        for shard in 0..self.shards.len() {
            if self.shards[shard].former.is_some_and(|(_, at)| at <= self.now) {
                self.bring_back(shard);
            }
        }
        self.deployment.advance(self.now * 1000);
        self.answer();
    }

    fn close_due(&mut self) {
        let now = self.now;
        for (_, generation) in self.gone.extract_if(.., |(at, _)| *at <= now) {
            let owned = self.owners.iter().filter(|(_, owner)| **owner == generation);
            self.closing.extend(owned.map(|(connection, _)| (now, *connection)));
        }
        let due: Vec<_> = self.closing.extract_if(.., |(at, _)| *at <= now).collect();
        due.into_iter().for_each(|(_, connection)| self.close_now(connection));
    }

    /// Hands out the answers that are there.
    fn answer(&mut self) {
        for Answer { connection, pipeline, replies } in self.deployment.take_answers() {
            if let Some(asked) = self.waiting.remove(&(connection, pipeline)) {
                asked(Some(replies.into_iter().map(|reply| reply.into_value()).collect()));
            }
        }
        for closed in self.deployment.take_closed() {
            self.owners.remove(&closed);
            let ended: Vec<_> =
                self.waiting.extract_if((closed, 0)..=(closed, u64::MAX), |_, _| true).collect();
            ended.into_iter().for_each(|(_, asked)| asked(None));
        }
    }

    /// Returns the masters, as Sentinels or a cluster know them.
    pub fn view(&self) -> View {
        let slots = self.deployment.ranges().into_iter();
        let slots = slots.map(|(slots, shard)| (slots, self.shards[shard].master)).collect();
        let history = |shard: &Shard| (shard.master, self.history(shard.master));
        View { slots, histories: self.shards.iter().map(history).collect() }
    }

    fn history(&self, node: NodeId) -> String {
        self.deployment.state(node).history.clone()
    }

    /// Returns the history of the serving master of a bucket.
    pub fn history_of(&self, bucket: Bucket) -> String {
        self.history(crate::lock(&self.mirror).master(bucket))
    }

    /// Returns whether there are several masters.
    pub fn is_cluster(&self) -> bool {
        1 < self.shards.len()
    }

    /// Returns one of the shards.
    pub fn some_shard(&self, dice: &mut Dice) -> ShardId {
        dice.index(self.shards.len())
    }

    /// Connects a process to a server.
    pub fn connect(&mut self, node: NodeId, generation: u64) -> Connection {
        let connection = self.deployment.connect(node);
        self.owners.insert(connection, generation);
        connection
    }

    /// Closes a connection after a while: until then the servers execute what was sent, even if it
    /// arrives late.
    pub fn close(&mut self, connection: Connection) {
        self.closing.push((self.now + CLOSED_AFTER, connection));
    }

    fn close_now(&mut self, connection: Connection) {
        self.deployment.close(connection);
        self.owners.remove(&connection);
        let ended = self.waiting.extract_if((connection, 0)..=(connection, u64::MAX), |_, _| true);
        ended.for_each(drop);
    }

    /// Records that a process is killed. The servers notice it later, and may execute what it has
    /// sent.
    pub fn on_kill(&mut self, generation: u64, dice: &mut Dice) {
        self.gone.push((self.now + dice.between(0, NOTICED_AFTER), generation));
    }

    /// Sends a pipeline on a connection.
    pub fn send(&mut self, to: Connection, commands: Vec<Command>, asked: Asked) {
        self.next += 1;
        self.waiting.insert((to, self.next), asked);
        if !self.deployment.send(to, self.next, commands)
            && let Some(asked) = self.waiting.remove(&(to, self.next))
        {
            asked(None);
        }
        self.answer();
    }

    /// Records the transition of a commit that is sent.
    pub fn note(&self, mark: (Text, Text), transition: Arc<Transition>) {
        crate::lock(&self.mirror).note(mark, transition);
    }

    /// Returns the applications with their records, as the serving master has them.
    pub fn apps(&self) -> BTreeMap<AppName, App> {
        crate::lock(&self.mirror).apps().clone()
    }

    /// Returns the time of the store, the outages, and the latest sign of life.
    pub fn moment(&self) -> (Timestamp, Arc<Outages>, Timestamp) {
        let micros = (self.now * 1000).saturating_add_signed(self.ahead);
        let mirror = crate::lock(&self.mirror);
        mirror.moment(self.deployment.state(mirror.clock_master), micros)
    }

    /// Returns what the serving master has of a bucket.
    pub fn bucket(&self, bucket: Bucket) -> BucketState {
        let mirror = crate::lock(&self.mirror);
        let state = self.deployment.state(mirror.master(bucket));
        let of = |field: &[u8]| mirror.number_of(state, bucket, field);
        let is_noted = mirror.is_noted(state, bucket);
        BucketState {
            floor: is_noted.then(|| of(b"counts_above")),
            losses: of(b"losses"),
            last: Position(of(b"last")),
        }
    }

    /// Returns whether the servers have no memory left.
    pub fn is_full(&self) -> bool {
        self.is_full
    }

    /// Sets whether the servers have no memory left.
    pub fn set_full(&mut self, is_full: bool) {
        self.is_full = is_full;
        self.nodes().for_each(|node| self.deployment.set_full(node, is_full));
    }

    /// Sets the clock of the servers ahead, or back, in milliseconds.
    pub fn set_clock(&mut self, by: i64) {
        self.ahead += by * 1000;
        self.nodes().for_each(|node| self.deployment.set_clock(node, self.ahead));
    }

    fn nodes(&self) -> std::ops::Range<NodeId> {
        0..2 * self.shards.len()
    }

    /// Removes the scripts of a serving master.
    pub fn forget_scripts(&mut self, shard: ShardId) {
        self.deployment.forget_scripts(self.shards[shard].master);
    }

    /// Lets nothing arrive at the replica of a shard, or lets it follow again.
    pub fn cut_replica(&mut self, shard: ShardId, is_cut: bool) {
        let replica = other(self.shards[shard].master);
        self.deployment.set_replication(replica, is_cut, self.shape.lag * 1000);
    }

    /// Lets a master end without its last second, and start again. Returns the count of
    /// applications that lost something.
    pub fn restart(&mut self, shard: ShardId) -> usize {
        self.deployment.restart(self.shards[shard].master);
        self.take_master(shard, None, matches!(self.shape.durability, Durability::Synced { .. }))
    }

    /// Gives the role of the master to the replica, which may lack the last writes. The former
    /// master stands still, comes back as a replica, and executes nothing that it got before.
    /// Returns the count of applications that lost something.
    pub fn failover(&mut self, shard: ShardId, is_lossless: bool, dice: &mut Dice) -> usize {
        if self.shards[shard].former.is_some() {
            self.bring_back(shard);
        }
        let from = self.shards[shard].master;
        let to = other(from);
        if is_lossless {
            self.deployment.set_replication(to, false, 0);
        }
        self.deployment.freeze(from, true);
        self.deployment.promote(to);
        let former = Some((from, self.now + dice.between(500, AWAY_MAX)));
        self.shards[shard] = Shard { master: to, former };
        let is_replicated = match self.shape.durability {
            Durability::Acknowledged => false,
            Durability::Replicated { replicas, .. } | Durability::Synced { replicas, .. } => {
                0 < replicas
            }
        };
        self.take_master(shard, None, is_replicated)
    }

    fn bring_back(&mut self, shard: ShardId) {
        if let Some((node, _)) = self.shards[shard].former.take() {
            self.deployment.restart(node);
            self.deployment.follow(node, self.shards[shard].master);
            self.deployment.freeze(node, false);
            self.deployment.set_replication(node, false, self.shape.lag * 1000);
        }
    }

    /// Moves a slot of the store to another shard of the cluster. Returns the count of applications
    /// that lost something, which must be none.
    pub fn move_slot(&mut self, dice: &mut Dice) -> usize {
        let slots: Vec<u16> = self.keys.slots().into_iter().collect();
        let moved = slots[dice.index(slots.len())];
        let from = self.deployment.owner_of(moved);
        let to = (from + 1 + dice.index(self.shards.len() - 1)) % self.shards.len();
        let way = (self.shards[from].master, self.shards[to].master);
        self.deployment.move_slot(moved, way);
        // Redis can lose what was moved, at a failover before the replica has it, or at a restart
        // before it is in the append-only file. Commits from before the move waited for another
        // replica and another file: that loss is none of the store.
        self.deployment.catch_up(other(way.1));
        self.deployment.sync(way.1);
        self.deployment.sync(other(way.1));
        self.take_master(to, Some(moved), true)
    }

    /// Reads again what the master of a shard has, of the buckets that it serves now, or of those
    /// in one slot.
    fn take_master(&mut self, shard: ShardId, only: Option<u16>, is_kept: bool) -> usize {
        let Shard { master, .. } = self.shards[shard];
        let is_of = |key: String| {
            let of = slot(key.as_bytes());
            self.deployment.owner_of(of) == shard && only.is_none_or(|only| only == of)
        };
        let buckets = (0..self.shape.buckets).map(Bucket);
        let buckets: Vec<Bucket> = buckets.filter(|one| is_of(self.keys.state(*one))).collect();
        let mut mirror = crate::lock(&self.mirror);
        if is_of(self.keys.clock()) {
            mirror.clock_master = master;
        }
        let state = (master, self.deployment.state(master));
        let lost = mirror.take_master(&buckets, state, is_kept);
        drop(mirror);
        let count = lost.len();
        self.lost.extend(lost);
        self.answer();
        count
    }

    /// Returns what masters have lost since the last call.
    pub fn take_lost(&mut self) -> Vec<Lost> {
        std::mem::take(&mut self.lost)
    }
}

/// Returns the other server of a shard.
fn other(node: NodeId) -> NodeId {
    node ^ 1
}
