//! The faults of a run: which come, how long each lasts, and how the world heals.

use std::collections::BTreeMap;

use crate::network::{Network, Node, Weather};
use crate::randomness::Dice;
use crate::redis::ShardId;
use crate::server::{Reach, Server};

/// The mean time between two faults, in milliseconds.
const EVERY: u64 = 7_000;

/// A fault that the world has to make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Harm {
    /// Ends the process of a replica; another one starts after this time.
    Kill(usize, u64),
    /// Ends all processes; others start after this time.
    KillAll(u64),
    /// Ends the only process with its machine: what the disk was not told to keep may be gone.
    LosePower(u64),
    /// Lets the process of a replica stand still.
    Freeze(usize, u64),
}

/// The faults of a run.
pub struct Faults {
    dice: Dice,
    network: Network,
    is_shared: bool,
    replicas: usize,
    clients: usize,
    next: u64,
    /// What ends, and when.
    ends: BTreeMap<(u64, u64), End>,
    begun: u64,
    turns: Option<Turns>,
    /// When all processes end, and the shard with the failover.
    end_of_all: Option<(u64, ShardId)>,
    /// What damages the log next, and when.
    damage: Option<(u64, Reach)>,
    /// The number of faults by name.
    pub counts: BTreeMap<&'static str, u64>,
}

/// A replica that is restarted again and again.
#[derive(Debug, Clone, Copy)]
struct Turns {
    replica: usize,
    /// When it is killed next, and for the last time.
    next: u64,
    last: u64,
    /// How long it runs, and how long it is down.
    runs: u64,
    pause: u64,
}

#[derive(Debug, Clone, Copy)]
enum End {
    Block(Node, Node),
    Weather,
    StoreWeather,
    Full,
    DatabaseFails,
    Damage,
    ReplicaCut(ShardId),
}

impl Faults {
    /// Returns the faults of a run.
    pub fn new(
        dice: Dice,
        network: Network,
        is_shared: bool,
        (replicas, clients): (usize, usize),
    ) -> Faults {
        let (ends, counts) = (BTreeMap::new(), BTreeMap::new());
        let (next, begun) = (EVERY, 0);
        let (turns, end_of_all, damage) = (None, None, None);
        Faults {
            dice,
            network,
            is_shared,
            replicas,
            clients,
            next,
            ends,
            begun,
            turns,
            end_of_all,
            damage,
            counts,
        }
    }

    /// Ends the faults that are over, and begins one if it is due.
    pub fn step(&mut self, now: u64, server: &mut Server) -> Option<Harm> {
        while let Some(entry) = self.ends.first_entry()
            && entry.key().0 <= now
        {
            let end = entry.remove();
            self.end(end, server);
        }
        if let Some((_, reach)) = self.damage.take_if(|(at, _)| *at <= now) {
            let is_damaged = server.disk().damage(reach);
            self.network.note(format_args!("damage in {reach:?}: {is_damaged}"));
        }
        let harm = self.harm(now, server);
        if let (Some(Harm::Kill(_, pause) | Harm::LosePower(pause)), false) = (harm, self.is_shared)
        {
            self.damage_after_end(now, pause, server);
        }
        harm
    }

    fn harm(&mut self, now: u64, server: &mut Server) -> Option<Harm> {
        if let Some((_, shard)) = self.end_of_all.take_if(|(at, _)| *at <= now) {
            return self.end_all(shard, server);
        }
        if let Some(turns) = self.turns.filter(|turns| turns.next <= now) {
            let next = now + turns.pause + turns.runs;
            self.turns = (next <= turns.last).then_some(Turns { next, ..turns });
            return Some(Harm::Kill(turns.replica, turns.pause));
        }
        if now < self.next {
            return None;
        }
        self.next = now + self.dice.between(200, 2 * EVERY);
        self.begin(now, server)
    }

    /// Ends all faults; none comes after this.
    pub fn heal(&mut self, server: &mut Server) {
        (self.next, self.turns) = (u64::MAX, None);
        self.damage = None;
        if let Some((_, shard)) = self.end_of_all.take() {
            server.redis().cut_replica(shard, false);
        }
        for (_, end) in std::mem::take(&mut self.ends) {
            self.end(end, server);
        }
        self.network.note(format_args!("healed"));
    }

    fn end(&self, end: End, server: &mut Server) {
        self.network.note(format_args!("over: {end:?}"));
        self.network.with(|network| match end {
            End::Block(from, to) => drop(network.blocked.remove(&(from, to))),
            End::Weather => network.weather = Weather::default(),
            End::StoreWeather => network.store_weather = Weather::default(),
            End::Full => server.set_full(false),
            End::DatabaseFails => server.disk().fail_database(false),
            End::Damage => server.disk().mend(),
            End::ReplicaCut(shard) => server.redis().cut_replica(shard, false),
        });
    }

    fn until(&mut self, at: u64, end: End) {
        self.begun += 1;
        self.ends.insert((at, self.begun), end);
    }

    fn begin(&mut self, now: u64, server: &mut Server) -> Option<Harm> {
        let kinds = match &*server {
            Server::Disk(_) => 15,
            Server::Redis(servers) if servers.is_cluster() => 20,
            Server::Redis(_) => 18,
        };
        let replica = self.dice.index(self.replicas);
        let (name, harm) = match self.dice.index(kinds) {
            10 | 11 if !self.is_shared => {
                ("loss of power", Some(Harm::LosePower(self.dice.between(500, 20_000))))
            }
            12 if !self.is_shared => ("database fails", self.fail_database(now, server)),
            13 if !self.is_shared => ("sync that lies", lie_once(server)),
            14 if !self.is_shared => ("damage", self.damage_running(now, server)),
            0 => ("kill", Some(Harm::Kill(replica, self.dice.between(500, 20_000)))),
            1 => ("freeze", Some(Harm::Freeze(replica, self.freeze()))),
            2 => ("partition of clients", self.part_clients(now, replica)),
            3 => ("one client cut off", self.part_client(now, replica)),
            4 => ("lossy network", self.storm(now, End::Weather)),
            5 => ("store stalls", self.stall(now)),
            6 => ("store full", self.fill(now, server)),
            7 => ("clock of the store set", self.set_clock(server)),
            8 | 9 => ("restarts in a loop", self.restart_in_a_loop(now, replica)),
            10 => ("partition of the store", self.part_store(now, replica)),
            11 => ("lossy store", self.storm(now, End::StoreWeather)),
            12 => ("scripts removed", self.forget_scripts(server)),
            13 => (self.restart_master(server), None),
            14 | 15 => (self.failover(now, server), None),
            16 => ("replica of the store cut off", self.cut_replica(now, server)),
            17 => ("end of all at a failover", self.plan_end(now, server)),
            _ => ("slot moved", self.move_slot(server)),
        };
        self.network.note(format_args!("fault: {name} {harm:?}"));
        *self.counts.entry(name).or_default() += 1;
        harm
    }

    fn forget_scripts(&mut self, server: &mut Server) -> Option<Harm> {
        let shard = server.redis().some_shard(&mut self.dice);
        server.redis().forget_scripts(shard);
        None
    }

    /// Lets nothing arrive at a replica of Redis for a while.
    fn cut_replica(&mut self, now: u64, server: &mut Server) -> Option<Harm> {
        let shard = server.redis().some_shard(&mut self.dice);
        server.redis().cut_replica(shard, true);
        let until = now + self.dice.between(500, 10_000);
        self.until(until, End::ReplicaCut(shard));
        None
    }

    fn move_slot(&mut self, server: &mut Server) -> Option<Harm> {
        let lost = server.redis().move_slot(&mut self.dice);
        self.network.note(format_args!("a moved slot loses {lost}"));
        None
    }

    /// Restarts the master from its append-only file, which lacks its last second.
    fn restart_master(&mut self, server: &mut Server) -> &'static str {
        let shard = server.redis().some_shard(&mut self.dice);
        let lost = server.redis().restart(shard);
        self.network.note(format_args!("restart loses {lost}"));
        if lost == 0 { "restart of the master" } else { "restart of the master with loss" }
    }

    fn failover(&mut self, now: u64, server: &mut Server) -> &'static str {
        let is_lossless = self.dice.per_mille(300);
        let shard = server.redis().some_shard(&mut self.dice);
        let lost = server.redis().failover(shard, is_lossless, &mut self.dice);
        self.network.note(format_args!("failover loses {lost}"));
        let pause = self.dice.between(0, 4000);
        self.network.with(|network| network.store_stalls_until = now + pause);
        if self.dice.per_mille(300) {
            self.set_clock(server);
        }
        if lost == 0 { "failover" } else { "failover with loss" }
    }

    /// Lets nothing arrive at a replica of Redis for some seconds. Then it becomes the master, and
    /// all processes end: nothing is left that knows what it lacks.
    fn plan_end(&mut self, now: u64, server: &mut Server) -> Option<Harm> {
        let shard = server.redis().some_shard(&mut self.dice);
        server.redis().cut_replica(shard, true);
        self.end_of_all.get_or_insert((now + self.dice.between(1_000, 5_000), shard));
        None
    }

    fn end_all(&mut self, shard: ShardId, server: &mut Server) -> Option<Harm> {
        let lost = server.redis().failover(shard, false, &mut self.dice);
        self.network.note(format_args!("all end at a failover that loses {lost}"));
        Some(Harm::KillAll(self.dice.between(500, 5_000)))
    }

    /// Damages what a process leaves, until after the next start; where the next one can find out,
    /// so other damage is undone before.
    fn damage_after_end(&mut self, now: u64, pause: u64, server: &mut Server) {
        server.disk().mend();
        self.damage = Some((now + 5 * crate::host::STEP, Reach::Sector));
        let until = now + pause + self.dice.between(200, 5_000);
        self.until(until, End::Damage);
    }

    /// Damages the log while the database fails, so that the process meets it as it opens both
    /// again.
    fn damage_running(&mut self, now: u64, server: &mut Server) -> Option<Harm> {
        server.disk().fail_database(true);
        let span = self.dice.between(2_000, 15_000);
        self.damage = Some((now + span - 500, Reach::Any));
        self.until(now + span, End::DatabaseFails);
        let until = now + span + self.dice.between(1_000, 8_000);
        self.until(until, End::Damage);
        None
    }

    fn freeze(&mut self) -> u64 {
        // A whole number of steps of the world.
        self.dice.between(10, 2500) * crate::host::STEP
    }

    /// Blocks one direction or both between two nodes.
    fn block(&mut self, until: u64, (one, other): (Node, Node)) {
        let ways: &[(Node, Node)] = match self.dice.index(3) {
            0 => &[(one, other)],
            1 => &[(other, one)],
            _ => &[(one, other), (other, one)],
        };
        for &(from, to) in ways {
            self.network.with(|network| network.blocked.insert((from, to)));
            self.until(until, End::Block(from, to));
        }
        self.network.note(format_args!("blocked {ways:?}"));
    }

    fn part_clients(&mut self, now: u64, replica: usize) -> Option<Harm> {
        let until = now + self.dice.between(1000, 40_000);
        for client in 0..self.clients {
            self.block(until, (Node::Client(client), Node::Replica(replica)));
        }
        None
    }

    fn part_client(&mut self, now: u64, replica: usize) -> Option<Harm> {
        let until = now + self.dice.between(1000, 60_000);
        let client = self.dice.index(self.clients);
        self.block(until, (Node::Client(client), Node::Replica(replica)));
        None
    }

    fn part_store(&mut self, now: u64, replica: usize) -> Option<Harm> {
        let until = now + self.dice.between(500, 40_000);
        self.block(until, (Node::Replica(replica), Node::Store));
        None
    }

    fn storm(&mut self, now: u64, end: End) -> Option<Harm> {
        let weather = Weather { lost: self.dice.between(0, 300), late: self.dice.between(0, 300) };
        self.network.with(|network| match end {
            End::StoreWeather => network.store_weather = weather,
            _ => network.weather = weather,
        });
        let until = now + self.dice.between(1000, 30_000);
        self.until(until, end);
        None
    }

    fn stall(&mut self, now: u64) -> Option<Harm> {
        let until = now + self.dice.between(100, 12_000);
        self.network.with(|network| network.store_stalls_until = until);
        None
    }

    fn fill(&mut self, now: u64, server: &mut Server) -> Option<Harm> {
        server.set_full(true);
        let until = now + self.dice.between(500, 15_000);
        self.until(until, End::Full);
        None
    }

    fn fail_database(&mut self, now: u64, server: &mut Server) -> Option<Harm> {
        server.disk().fail_database(true);
        let until = now + self.dice.between(500, 15_000);
        self.until(until, End::DatabaseFails);
        None
    }

    fn set_clock(&mut self, server: &mut Server) -> Option<Harm> {
        let most = [2_000, 20_000, 60_000, 3_600_000][self.dice.index(4)];
        let by = i64::try_from(self.dice.between(1, most)).unwrap_or_default();
        let by = if self.dice.per_mille(300) { -by } else { by };
        self.network.note(format_args!("clock of the store is set by {by} ms"));
        server.set_clock(by);
        None
    }

    fn restart_in_a_loop(&mut self, now: u64, replica: usize) -> Option<Harm> {
        let (runs, pause) = (self.dice.between(300, 5000), self.dice.between(100, 2000));
        let last = now + self.dice.between(10_000, 60_000);
        self.turns = Some(Turns { replica, next: now, last, runs, pause });
        None
    }
}

fn lie_once(server: &mut Server) -> Option<Harm> {
    server.disk().lie_once();
    None
}
