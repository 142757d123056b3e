//! The client address of a connection, and its usage over all of its connections.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::service::intake::budget::Budget;

/// An address, as used for shares: IPv6 by its first 64 bits, which is the network of one machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Peer(IpAddr);

impl Peer {
    /// Returns the peer of an address.
    pub fn of(address: IpAddr) -> Peer {
        match address.to_canonical() {
            IpAddr::V6(v6) if !v6.is_loopback() => {
                let network = v6.to_bits() >> 64 << 64;
                Peer(IpAddr::V6(Ipv6Addr::from_bits(network)))
            }
            other => Peer(other),
        }
    }

    /// Returns the address; for a network its first address.
    pub fn address(self) -> IpAddr {
        self.0
    }

    /// Returns whether the peer is on this machine.
    pub fn is_local(self) -> bool {
        self.0.is_loopback()
    }
}

impl std::fmt::Display for Peer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            IpAddr::V6(network) if !network.is_loopback() => write!(f, "{network}/64"),
            other => write!(f, "{other}"),
        }
    }
}

/// Kinds of streams that are limited for each peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Watch streams.
    Watch,
    /// Watches on multiplexed streams.
    MultiplexedWatch,
    /// Health watches.
    HealthWatch,
    /// Sessions of workers.
    Session,
}

const KINDS: usize = 4;

/// Usage of one peer.
#[derive(Debug)]
pub struct Tally {
    /// The peer.
    pub peer: Peer,
    /// Connections, changed under the lock of the gate.
    pub(super) connections: AtomicUsize,
    /// Bytes of messages that are not complete.
    pub(super) bytes: Arc<Budget>,
    held: [AtomicUsize; KINDS],
}

impl Tally {
    pub(super) fn new(peer: Peer, bytes: Arc<Budget>) -> Tally {
        let held = std::array::from_fn(|_| AtomicUsize::new(0));
        Tally { peer, connections: AtomicUsize::new(0), bytes, held }
    }

    /// Returns an empty share of a kind.
    pub fn share(self: &Arc<Tally>, kind: Kind) -> Share {
        Share { tally: self.clone(), kind, count: 0 }
    }

    /// Returns how many of a kind the peer has.
    pub fn held(&self, kind: Kind) -> usize {
        self.held[kind as usize].load(Ordering::Relaxed)
    }
}

/// A number of streams that counts for a peer until it is dropped.
#[derive(Debug)]
pub struct Share {
    tally: Arc<Tally>,
    kind: Kind,
    count: usize,
}

impl Share {
    /// Adds one if the peer has fewer than `max`; returns whether it did.
    pub fn grow(&mut self, max: usize) -> bool {
        let held = &self.tally.held[self.kind as usize];
        let is_free = held.fetch_add(1, Ordering::Relaxed) < max;
        match is_free {
            true => self.count += 1,
            false => drop(held.fetch_sub(1, Ordering::Relaxed)),
        }
        is_free
    }

    /// Returns the part above `count`.
    pub fn shrink_to(&mut self, count: usize) {
        let less = self.count.saturating_sub(count);
        self.count -= less;
        self.tally.held[self.kind as usize].fetch_sub(less, Ordering::Relaxed);
    }

    /// Returns the peer of the share.
    pub fn peer(&self) -> Peer {
        self.tally.peer
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_peer_and_so_is_a_network_of_ipv6() {
        let peer = |text: &str| Peer::of(text.parse().unwrap());
        assert_eq!(peer("10.0.0.1"), peer("::ffff:10.0.0.1"));
        assert_ne!(peer("10.0.0.1"), peer("10.0.0.2"));
        assert_eq!(peer("2001:db8:1:2:3::4"), peer("2001:db8:1:2:ffff::"));
        assert_ne!(peer("2001:db8:1:2::"), peer("2001:db8:1:3::"));
        assert_eq!(peer("2001:db8:1:2:3::4").to_string(), "2001:db8:1:2::/64");
        assert_eq!(peer("::1").to_string(), "::1");
        assert!(peer("127.8.9.1").is_local() && peer("::1").is_local());
        assert!(!peer("10.0.0.1").is_local() && !peer("::2").is_local());
    }

    #[test]
    fn a_share_is_counted_until_it_is_dropped() {
        let peer = Peer::of("10.0.0.1".parse().unwrap());
        let tally = Arc::new(Tally::new(peer, Budget::new("bytes", 1)));
        let mut first = tally.share(Kind::Watch);
        let mut second = tally.share(Kind::Watch);
        assert!(first.grow(3) && first.grow(3) && second.grow(3));
        assert!(!first.grow(3) && !second.grow(3));
        assert!(tally.share(Kind::Session).grow(1), "another kind");
        first.shrink_to(1);
        assert_eq!(tally.held(Kind::Watch), 2);
        drop(second);
        assert_eq!(tally.held(Kind::Watch), 1);
        drop(first);
        assert_eq!((tally.held(Kind::Watch), tally.held(Kind::Session)), (0, 0));
    }
}
