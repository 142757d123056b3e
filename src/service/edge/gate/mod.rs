//! Admits connections, and ends others to free a place.
//!
//! ```text
//!  accept --> unfinished --preface, SETTINGS--> open: idle or with calls
//!                 |  the oldest of the peer       |  then the longest idle one ends
//!                 |  that has most ends first     |
//! ```
//!
//! A connection takes a place at accept. No connection keeps a place without using it: connections
//! that have not completed the HTTP/2 handshake end for a new one, and so do those without a call
//! for the longest time. A connection with an open call never ends for another one.
//!
//! The ops port has a gate of its own. Its connections stay unfinished, because each has one short
//! request: so a new one always finds a place.

mod unfinished;

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use unfinished::Unfinished;

use crate::service::caller::budget::Budget;
use crate::service::caller::outgoing::{self, Room};
use crate::service::caller::{Caller, Link, Peer, Tally};
use crate::service::log_limit::Sparse;
use crate::sync::lock;
use crate::telemetry::{ConnectionEnd, Metrics};

/// Limits of connections and of the messages on them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Connections at the same time.
    pub connections_max: usize,
    /// Connections of one peer at the same time: an IPv4 address or an IPv6 network of 64 bits.
    pub per_peer_max: usize,
    /// Connections at the same time that have not completed the HTTP/2 handshake.
    pub unfinished_max: usize,
    /// Bytes of incomplete messages on one connection.
    pub bytes_per_connection_max: usize,
    /// Bytes of incomplete messages of one peer.
    pub bytes_per_peer_max: usize,
    /// Bytes of incomplete messages in total.
    pub bytes_max: usize,
    /// Bytes of answers under way.
    pub answers: outgoing::Limits,
}

/// Places that are reserved for peers on this machine, so that an operator can always connect.
const LOCAL_PLACES_MAX: usize = 16;

/// An eviction ends as many idle connections at once as there are places, divided by this number,
/// so that few new connections have to scan all of them.
const CLEARED_SHARE: usize = 512;

/// Shortest time between two log lines about refused connections.
const LOG_PERIOD: Duration = Duration::from_secs(60);

/// Admits connections. Cheap to clone. Each change of the maps is a single step, so a poisoned lock
/// is safe to use.
#[derive(Clone)]
pub struct Gate(Arc<Mutex<State>>);

struct State {
    limits: Limits,
    metrics: Metrics,
    start: Instant,
    /// Bytes of all incomplete messages.
    bytes: Arc<Budget>,
    /// Bytes of all answers under way.
    answers: Arc<outgoing::Budget>,
    next: u64,
    /// All connections by age, including the unfinished ones.
    open: BTreeMap<u64, Arc<Link>>,
    unfinished: Unfinished,
    peers: HashMap<Peer, Arc<Tally>>,
    turned_away: Sparse,
    refused: usize,
    cleared: usize,
}

impl Gate {
    /// Creates a gate with these limits.
    pub fn new(limits: Limits, metrics: Metrics) -> Gate {
        let answers = outgoing::Budget::new("answer_bytes_max", limits.answers.max);
        let read = answers.clone();
        metrics.observe_answers(move || read.used() as u64);
        Gate(Arc::new(Mutex::new(State {
            answers,
            bytes: Budget::new("incomplete_bytes_max", limits.bytes_max),
            limits,
            metrics,
            start: Instant::now(),
            next: 0,
            open: BTreeMap::new(),
            unfinished: Unfinished::default(),
            peers: HashMap::new(),
            turned_away: Sparse::new(LOG_PERIOD),
            refused: 0,
            cleared: 0,
        })))
    }

    /// Returns the total byte budget, for calls without a connection of the gate.
    pub fn bytes(&self) -> Arc<Budget> {
        lock(&self.0).bytes.clone()
    }

    /// Reserves a place for a connection from this address. If there is none, ends another
    /// connection.
    ///
    /// # Errors
    /// If every place, or the share of the peer, is used up by connections with open calls.
    pub fn admit(&self, address: IpAddr) -> Result<Seat, ConnectionEnd> {
        let peer = Peer::of(address);
        let mut state = lock(&self.0);
        let (refused, limit) = match state.admit(peer) {
            Ok(link) => return Ok(Seat { gate: self.clone(), link }),
            Err(refused) => refused,
        };
        state.refused += 1;
        state.metrics.connection_ended(refused);
        let noted = state.turned_away.note();
        drop(state);
        if let Some(count) = noted {
            let text = "connections were refused: all places have open calls";
            tracing::warn!(%peer, limit, count, "{text}");
        }
        Err(refused)
    }

    /// Returns a sentence about the places in use, for people.
    pub fn text(&self) -> String {
        let State { open, unfinished, limits, refused, cleared, .. } = &*lock(&self.0);
        format!(
            "{} of {} open, {} of them unfinished; since the start {refused} refused, {cleared} \
             ended to make room",
            open.len(),
            limits.connections_max,
            unfinished.len()
        )
    }
}

impl State {
    /// Returns the number of places that are available to a peer.
    fn places(&self, peer: Peer) -> usize {
        let max = self.limits.connections_max;
        match peer.is_local() {
            true => max,
            false => max - LOCAL_PLACES_MAX.min(max / 8),
        }
    }

    /// Finds or frees a place. The error comes with the name of the limit.
    fn admit(&mut self, peer: Peer) -> Result<Arc<Link>, (ConnectionEnd, &'static str)> {
        let tally = self.tally(peer);
        if self.limits.per_peer_max <= tally.connections.load(Ordering::Relaxed)
            && !self.clear_unfinished(self.unfinished.oldest_of(peer))
            && !self.clear_idle(|link| link.tally.peer == peer)
        {
            return Err((ConnectionEnd::Share, "connections_per_peer_max"));
        }
        if self.limits.unfinished_max <= self.unfinished.len() {
            self.clear_unfinished(self.unfinished.oldest_of_most());
        }
        // First an unfinished one, else idle ones.
        if self.places(peer) <= self.open.len()
            && !self.clear_unfinished(self.unfinished.oldest_of_most())
            && !self.clear_idle(|_| true)
        {
            return Err((ConnectionEnd::Full, "connections_max"));
        }
        self.next += 1;
        let bytes_max = self.limits.bytes_per_connection_max;
        let own = Budget::new("incomplete_bytes_per_connection_max", bytes_max);
        let budgets = Arc::from([own, tally.bytes.clone(), self.bytes.clone()]);
        let answers = self.limits.answers;
        let own =
            outgoing::Budget::new("answer_bytes_per_connection_max", answers.per_connection_max);
        let (of_peer, of_all) = (tally.answers.clone(), self.answers.clone());
        let room = Room::of_connection(own, of_peer, of_all, answers.wait_max);
        tally.connections.fetch_add(1, Ordering::Relaxed);
        let link = Arc::new(Link::new(self.next, tally, budgets, room, self.start));
        self.open.insert(link.id, link.clone());
        self.unfinished.insert(&link);
        self.metrics.connections(1);
        Ok(link)
    }

    /// Returns the usage of a peer, including calls that outlive their connection.
    fn tally(&mut self, peer: Peer) -> Arc<Tally> {
        if 64 + 2 * self.open.len() < self.peers.len() {
            self.peers.retain(|_, tally| tally.is_in_use());
        }
        let max = self.limits.bytes_per_peer_max;
        let bytes = || Budget::new("incomplete_bytes_per_peer_max", max);
        let answers_max = self.limits.answers.per_peer_max;
        let answers = || outgoing::Budget::new("answer_bytes_per_peer_max", answers_max);
        let new = || Arc::new(Tally::new(peer, bytes(), answers()));
        self.peers.entry(peer).or_insert_with(new).clone()
    }

    fn clear_unfinished(&mut self, link: Option<Arc<Link>>) -> bool {
        link.is_some_and(|link| self.clear(&link, ConnectionEnd::Unfinished))
    }

    /// Ends the connections without a call for the longest time. Returns false if all have open
    /// calls.
    fn clear_idle(&mut self, may_go: impl Fn(&Link) -> bool) -> bool {
        let idle = self.open.values().filter(|link| may_go(link));
        let idle = idle.filter_map(|link| Some((link.idle_since()?, link.id)));
        let mut idle: Vec<(u64, u64)> = idle.collect();
        if idle.is_empty() {
            return false;
        }
        let count = (self.open.len() / CLEARED_SHARE).clamp(1, idle.len());
        idle.select_nth_unstable(count - 1);
        for (_, id) in &idle[..count] {
            if let Some(link) = self.open.get(id).cloned() {
                self.clear(&link, ConnectionEnd::Idle);
            }
        }
        true
    }

    fn clear(&mut self, link: &Link, end: ConnectionEnd) -> bool {
        self.cleared += 1;
        self.metrics.connection_ended(end);
        self.leave(link);
        link.evict();
        true
    }

    /// Frees the place, once.
    fn leave(&mut self, link: &Link) {
        self.unfinished.remove(link);
        if self.open.remove(&link.id).is_some() {
            link.tally.connections.fetch_sub(1, Ordering::Relaxed);
            self.metrics.connections(-1);
        }
    }
}

/// The place of a connection, which counts as open until this value is dropped.
pub struct Seat {
    gate: Gate,
    pub(super) link: Arc<Link>,
}

impl Seat {
    /// Marks the HTTP/2 handshake as complete. Returns false if the connection was ended in the
    /// meantime.
    pub fn finished(&self) -> bool {
        lock(&self.gate.0).unfinished.remove(&self.link)
    }

    /// Counts a connection that did not complete the HTTP/2 handshake in time.
    pub fn never_finished(&self) {
        lock(&self.gate.0).metrics.connection_ended(ConnectionEnd::Unfinished);
    }

    /// Resolves when the connection must end.
    pub async fn evicted(&self) {
        self.link.evicted().await;
    }

    /// Returns the caller of its calls.
    pub fn caller(&self) -> Caller {
        Caller::new(self.link.clone())
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        lock(&self.gate.0).leave(&self.link);
    }
}

#[cfg(test)]
mod tests;
