//! Who is at the other end of a connection, and what it has in use over all of its connections.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::service::intake::budget::Budget;

/// An address, as shares are counted: IPv6 by its first 64 bits, which is what one machine has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Peer(IpAddr);

impl Peer {
    /// The peer that an address belongs to.
    pub fn of(address: IpAddr) -> Peer {
        match address.to_canonical() {
            IpAddr::V6(v6) if !v6.is_loopback() => {
                let network = v6.to_bits() >> 64 << 64;
                Peer(IpAddr::V6(Ipv6Addr::from_bits(network)))
            }
            other => Peer(other),
        }
    }

    /// Its address; of a network the first one.
    pub fn address(self) -> IpAddr {
        self.0
    }

    /// Whether it is on this machine.
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

/// What a peer can have many of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Watch streams.
    Watch,
    /// Watches on streams of many.
    MultiplexedWatch,
    /// Health watches.
    HealthWatch,
    /// Sessions of workers.
    Session,
}

const KINDS: usize = 4;

/// What one peer has in use.
#[derive(Debug)]
pub struct Tally {
    /// Whose it is.
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

    /// Nothing of a kind yet.
    pub fn share(self: &Arc<Tally>, kind: Kind) -> Share {
        Share { tally: self.clone(), kind, count: 0 }
    }

    /// How many of a kind the peer has.
    pub fn held(&self, kind: Kind) -> usize {
        self.held[kind as usize].load(Ordering::Relaxed)
    }
}

/// What counts for a peer until it is dropped.
#[derive(Debug)]
pub struct Share {
    tally: Arc<Tally>,
    kind: Kind,
    count: usize,
}

impl Share {
    /// One more, if the peer has fewer than `max`.
    pub fn grow(&mut self, max: usize) -> bool {
        let held = &self.tally.held[self.kind as usize];
        let is_free = held.fetch_add(1, Ordering::Relaxed) < max;
        match is_free {
            true => self.count += 1,
            false => drop(held.fetch_sub(1, Ordering::Relaxed)),
        }
        is_free
    }

    /// Gives back what is above `count`.
    pub fn shrink_to(&mut self, count: usize) {
        let less = self.count.saturating_sub(count);
        self.count -= less;
        self.tally.held[self.kind as usize].fetch_sub(less, Ordering::Relaxed);
    }

    /// Whose it is.
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
