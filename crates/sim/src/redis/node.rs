//! A server with what it keeps for those that follow it, and its disk.

use std::collections::VecDeque;

use super::Command;
use super::server::Server;
use super::state::State;

/// The number of a server.
pub type NodeId = usize;

/// How often the append-only file is flushed, in microseconds.
const FLUSH_EVERY: u64 = 1_000_000;

/// What a server keeps for those that follow it: its effects since it became a master.
#[derive(Default)]
pub struct Log {
    /// The number of effects before the first kept one.
    begin: u64,
    /// The effects, each with its time.
    effects: VecDeque<(u64, Command)>,
}

impl Log {
    /// Returns the number of all effects.
    pub fn end(&self) -> u64 {
        self.begin + self.effects.len() as u64
    }

    /// Appends effects.
    pub fn extend(&mut self, now: u64, effects: Vec<Command>) {
        self.effects.extend(effects.into_iter().map(|effect| (now, effect)));
    }

    /// Returns the effects after this many.
    pub fn after(&self, count: u64) -> impl Iterator<Item = &(u64, Command)> {
        let from = usize::try_from(count.saturating_sub(self.begin)).unwrap_or(usize::MAX);
        self.effects.iter().skip(from)
    }

    /// Drops the effects before this number.
    pub fn trim(&mut self, needed: u64) {
        while self.begin < needed && self.effects.pop_front().is_some() {
            self.begin += 1;
        }
    }
}

/// The place of a replica in the log of its master.
#[derive(Debug, Clone, Copy)]
pub struct Follows {
    /// The master.
    pub master: NodeId,
    /// How many of its effects the replica has.
    pub has: u64,
    /// How many of them the disk of the replica has.
    pub on_disk: u64,
}

/// A server.
pub struct Node {
    /// What executes commands.
    pub server: Server,
    /// Its effects.
    pub log: Log,
    /// What it follows; `None` for a master.
    pub follows: Option<Follows>,
    /// What its append-only file has: a copy, and how many of its effects are in it.
    pub disk: (State, u64),
    flushed: u64,
    /// How long an effect of its master takes to it.
    pub lag: u64,
    /// Nothing arrives from its master.
    pub is_cut: bool,
    /// It does not run. What was sent to it is executed later.
    pub is_frozen: bool,
    /// How far its clock is ahead, in microseconds.
    pub ahead: i64,
}

impl Node {
    /// Returns an empty server.
    pub fn new(history: String, follows: Option<Follows>, lag: u64, now: u64) -> Node {
        let mut server = Server::new(history);
        server.state.is_replica = follows.is_some();
        Node {
            server,
            log: Log::default(),
            follows,
            disk: (State::default(), 0),
            flushed: now,
            lag,
            is_cut: false,
            is_frozen: false,
            ahead: 0,
        }
    }

    /// Takes over all that a master has, and follows it.
    pub fn follow(&mut self, master: NodeId, from: &Node) {
        let (keys, end) = (from.server.state.keys.clone(), from.log.end());
        self.server.state.keys = keys.clone();
        self.server.state.is_replica = true;
        self.server.state.history = from.server.state.history.clone();
        self.follows = Some(Follows { master, has: end, on_disk: end });
        self.log = Log::default();
        self.disk = (State { keys, ..State::default() }, 0);
    }

    /// Becomes a master with what it has.
    pub fn promote(&mut self, history: String) {
        self.follows = None;
        self.server.state.is_replica = false;
        self.server.state.history = history;
        self.server.forget_scripts();
    }

    /// Starts again from its append-only file. It loses what was not flushed.
    pub fn restart(&mut self, history: String) {
        let state = &self.server.state;
        let restarted = State {
            keys: self.disk.0.keys.clone(),
            is_full: state.is_full,
            is_replica: state.is_replica,
            history,
            ..State::default()
        };
        self.server = Server::new(String::new());
        self.server.state = restarted;
        self.log = Log::default();
        self.disk.1 = 0;
        self.is_frozen = false;
    }

    /// Executes effects of its master that have arrived.
    pub fn repeat(&mut self, arrived: Vec<Command>, now: u64) {
        if let Some(follows) = &mut self.follows {
            follows.has += arrived.len() as u64;
        }
        arrived.iter().for_each(|effect| self.server.state.repeat(effect));
        self.log.extend(now, arrived);
    }

    /// Writes its effects to its disk, once in a while.
    pub fn flush(&mut self, now: u64) {
        if self.is_frozen || now < self.flushed + FLUSH_EVERY {
            return;
        }
        self.flushed = now;
        self.sync();
    }

    /// Writes its effects to its disk.
    pub fn sync(&mut self) {
        let (disk, done) = &mut self.disk;
        self.log.after(*done).for_each(|(_, effect)| disk.repeat(effect));
        *done = self.log.end();
        if let Some(follows) = &mut self.follows {
            follows.on_disk = follows.has;
        }
    }
}
