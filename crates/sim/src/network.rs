//! The simulated network between clients, replicas and the store.
//!
//! A packet is a closure that runs at its target. A call may be lost, delayed and overtaken; the
//! packets of a link (a connection) stay in order, and a link that meets a partition is dead.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};

use crate::judge::Judge;
use crate::randomness::Dice;
use crate::server::Server;
use crate::trace::Trace;

/// The time after which a server finds out that a link is cut. Most sessions end before, because
/// their workers are silent.
const NOTICED_AFTER: u64 = 60_000;

/// The number of a link.
pub type Link = u64;

/// An end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Node {
    /// A worker, watcher or operator.
    Client(usize),
    /// A replica, by its place; processes of one place follow one another.
    Replica(usize),
    /// The store.
    Store,
}

/// What a packet does at its target.
pub enum Delivery {
    /// At the store.
    Store(Box<dyn FnOnce(&mut Server) + Send>),
    /// At a client or a replica.
    Run(Box<dyn FnOnce() + Send>),
}

struct Packet {
    from: Node,
    to: Node,
    label: &'static str,
    link: Option<Link>,
    delivery: Delivery,
}

/// The faults of the network, in per mille of the packets.
#[derive(Debug, Clone, Copy, Default)]
pub struct Weather {
    /// Packets of calls that are lost.
    pub lost: u64,
    /// Packets that arrive late.
    pub late: u64,
}

/// The state of the network.
pub struct State {
    now: u64,
    sequence: u64,
    next_link: Link,
    queue: BTreeMap<(u64, u64), Packet>,
    in_order: BTreeMap<(Link, bool), u64>,
    dead: BTreeSet<Link>,
    /// Links that were cut, each with the time at which its server finds out.
    cuts: VecDeque<(u64, Link)>,
    /// Directions in which nothing arrives.
    pub blocked: BTreeSet<(Node, Node)>,
    /// The faults of calls between clients and replicas.
    pub weather: Weather,
    /// The faults of calls between replicas and the store.
    pub store_weather: Weather,
    /// No group of the log is applied to the database of a disk before this time.
    applier_stalls_until: u64,
    /// The store answers nothing before this time.
    pub store_stalls_until: u64,
    dice: Dice,
    /// The trace of the run.
    pub trace: Trace,
    /// Packets that arrived.
    pub delivered: u64,
    /// Packets that were lost.
    pub lost: u64,
    /// The longest queue.
    pub queued_max: usize,
}

/// The network. Cheap to clone.
#[derive(Clone)]
pub struct Network {
    state: Arc<Mutex<State>>,
    /// The checks of the run.
    pub judge: Arc<Mutex<Judge>>,
}

impl Network {
    /// Returns a network without faults.
    pub fn new(dice: Dice, trace: Trace, judge: Arc<Mutex<Judge>>) -> Network {
        let state = State {
            now: 0,
            sequence: 0,
            next_link: 1,
            queue: BTreeMap::new(),
            in_order: BTreeMap::new(),
            dead: BTreeSet::new(),
            cuts: VecDeque::new(),
            blocked: BTreeSet::new(),
            weather: Weather::default(),
            store_weather: Weather::default(),
            applier_stalls_until: 0,
            store_stalls_until: 0,
            dice,
            trace,
            delivered: 0,
            lost: 0,
            queued_max: 0,
        };
        Network { state: Arc::new(Mutex::new(state)), judge }
    }

    /// Changes the state of the network.
    pub fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut crate::lock(&self.state))
    }

    /// Writes a line to the trace.
    pub fn note(&self, text: std::fmt::Arguments<'_>) {
        self.with(|state| state.trace.note(state.now, text));
    }

    /// Returns the number of a new link.
    pub fn new_link(&self) -> Link {
        self.with(|state| {
            state.next_link += 1;
            state.next_link
        })
    }

    /// Ends a link: nothing more arrives on it.
    pub fn cut(&self, link: Link) {
        self.with(|state| state.cut(link));
    }

    /// Sends a packet of a call: it may be lost, and another one may overtake it.
    pub fn send(&self, (from, to): (Node, Node), label: &'static str, delivery: Delivery) {
        let packet = Packet { from, to, label, link: None, delivery };
        self.with(|state| state.send(packet));
    }

    /// Sends a packet on a link.
    pub fn send_on(
        &self,
        link: Link,
        (from, to): (Node, Node),
        label: &'static str,
        delivery: Delivery,
    ) {
        let packet = Packet { from, to, label, link: Some(link), delivery };
        self.with(|state| state.send(packet));
    }

    /// Delivers what is due.
    pub fn deliver(&self, now: u64, server: &mut Server) {
        self.with(|state| state.now = now);
        while let Some(delivery) = self.with(|state| state.next_due()) {
            match delivery {
                Delivery::Store(run) => run(server),
                Delivery::Run(run) => run(),
            }
        }
    }
}

impl State {
    /// Returns the cut links that their servers find out about now.
    pub fn noticed(&mut self) -> Vec<Link> {
        let mut links = Vec::new();
        while self.cuts.front().is_some_and(|(at, _)| *at <= self.now) {
            links.extend(self.cuts.pop_front().map(|(_, link)| link));
        }
        self.dead.retain(|link| !links.contains(link));
        links
    }

    /// Returns how long the next step of a disk takes, in milliseconds, and whether the database
    /// has its turn then.
    pub fn disk_step(&mut self) -> (u64, bool) {
        if self.dice.per_mille(2) {
            self.applier_stalls_until = self.now + self.dice.between(500, 8_000);
        }
        let applies = self.dice.per_mille(500) && self.applier_stalls_until <= self.now;
        (self.dice.between(1, 30), applies)
    }

    /// Returns whether the store stands still.
    pub fn is_store_stalled(&self) -> bool {
        self.now < self.store_stalls_until
    }

    /// Returns what packets that are sent later have a higher number than.
    pub fn sent(&self) -> u64 {
        self.sequence
    }

    /// Drops what a node has sent after this number.
    pub fn drop_after(&mut self, sent: u64, from: Node) {
        self.queue.retain(|(_, sequence), packet| *sequence <= sent || packet.from != from);
    }

    fn cut(&mut self, link: Link) {
        if self.dead.insert(link) {
            self.cuts.push_back((self.now + NOTICED_AFTER, link));
        }
        self.in_order.retain(|(of, _), _| *of != link);
    }

    fn send(&mut self, packet: Packet) {
        let is_store = packet.to == Node::Store || packet.from == Node::Store;
        let weather = if is_store { self.store_weather } else { self.weather };
        let is_lost = packet.link.is_none() && self.dice.per_mille(weather.lost);
        let Packet { label, from, to, .. } = packet;
        if is_lost || packet.link.is_some_and(|link| self.dead.contains(&link)) {
            self.lost += 1;
            self.trace.note(self.now, format_args!("lost {label} {from:?} {to:?}"));
            return;
        }
        let delay = match self.dice.per_mille(weather.late) {
            true => self.dice.between(100, 3000),
            false => self.dice.between(0, 30),
        };
        let mut at = self.now + delay;
        if let Some(link) = packet.link {
            let last = self.in_order.entry((link, to < from)).or_default();
            at = at.max(*last);
            *last = at;
        }
        self.sequence += 1;
        self.queue.insert((at, self.sequence), packet);
        self.queued_max = self.queued_max.max(self.queue.len());
    }

    /// Returns the next packet that arrives now; drops those that do not arrive.
    fn next_due(&mut self) -> Option<Delivery> {
        loop {
            let (at, sequence) = *self.queue.first_key_value()?.0;
            if self.now < at {
                return None;
            }
            let packet = self.queue.remove(&(at, sequence))?;
            let Packet { label, from, to, link, .. } = packet;
            if to == Node::Store && self.now < self.store_stalls_until {
                self.queue.insert((self.store_stalls_until, sequence), packet);
                continue;
            }
            let is_dead = link.is_some_and(|link| self.dead.contains(&link));
            if is_dead || self.blocked.contains(&(from, to)) {
                self.lost += 1;
                self.trace.note(self.now, format_args!("dropped {label} {from:?} {to:?}"));
                link.into_iter().for_each(|link| self.cut(link));
                continue;
            }
            self.delivered += 1;
            self.trace.note(self.now, format_args!("{label} {from:?} {to:?}"));
            return Some(packet.delivery);
        }
    }
}
