//! The client address of a connection, and its usage over all of its connections.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::service::caller::budget::Budget;
use crate::service::caller::outgoing;
use crate::service::code::ApiError;

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

/// Who uses something: an address, or a principal.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Owner {
    /// An address.
    Peer(Peer),
    /// A principal, as the roles name it.
    Principal(Arc<str>),
}

impl std::fmt::Display for Owner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Owner::Peer(peer) => peer.fmt(f),
            Owner::Principal(name) => f.write_str(name),
        }
    }
}

/// Kinds of what is limited for each owner.
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
    /// Connections of a principal; those of an address are counted by the gate.
    Connection,
    /// Open unary calls.
    Call,
}

const KINDS: usize = 6;

/// How many of each kind an owner has.
#[derive(Debug)]
pub struct Holder {
    /// The owner.
    pub owner: Owner,
    held: [AtomicUsize; KINDS],
}

impl Holder {
    /// Creates the counts of an owner that has nothing.
    pub fn new(owner: Owner) -> Holder {
        Holder { owner, held: std::array::from_fn(|_| AtomicUsize::new(0)) }
    }

    fn take(&self, kind: Kind, max: usize) -> bool {
        let held = &self.held[kind as usize];
        let is_free = held.fetch_add(1, Ordering::Relaxed) < max;
        if !is_free {
            self.give_back(kind, 1);
        }
        is_free
    }

    fn give_back(&self, kind: Kind, count: usize) {
        self.held[kind as usize].fetch_sub(count, Ordering::Relaxed);
    }
}

/// Usage of one peer.
#[derive(Debug)]
pub struct Tally {
    /// The peer.
    pub peer: Peer,
    /// Connections, changed under the lock of the gate.
    pub(in crate::service) connections: AtomicUsize,
    /// Bytes of messages that are not complete.
    pub(in crate::service) bytes: Arc<Budget>,
    /// Bytes of answers under way.
    pub(in crate::service) answers: Arc<outgoing::Budget>,
    pub(in crate::service) holder: Arc<Holder>,
}

impl Tally {
    pub(in crate::service) fn new(
        peer: Peer,
        bytes: Arc<Budget>,
        answers: Arc<outgoing::Budget>,
    ) -> Tally {
        let holder = Arc::new(Holder::new(Owner::Peer(peer)));
        Tally { peer, connections: AtomicUsize::new(0), bytes, answers, holder }
    }

    /// Returns whether something counts for the peer that outlives its connections.
    pub(in crate::service) fn is_in_use(self: &Arc<Tally>) -> bool {
        1 < Arc::strong_count(self) || 1 < Arc::strong_count(&self.holder)
    }
}

/// A number of streams or calls that counts for an address, and for a principal if one is known,
/// until it is dropped.
#[derive(Debug)]
pub struct Share {
    holders: [Option<Arc<Holder>>; 2],
    kind: Kind,
    count: usize,
}

/// An owner at its limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Full {
    /// The owner.
    pub owner: Owner,
    /// The limit.
    pub max: usize,
}

impl Full {
    /// Returns the failure: what there are too many of, the names of the limits on an address and
    /// on a principal, and what to do.
    pub fn problem(
        self,
        what: &str,
        names: (&'static str, &'static str),
        advice: &str,
    ) -> ApiError {
        let Full { owner, max } = self;
        let (kind, limit) = match owner {
            Owner::Peer(_) => ("address", names.0),
            Owner::Principal(_) => ("principal", names.1),
        };
        let text = format!(
            "{max} {what} of {owner} are open already, which is the share of one {kind}; {advice}"
        );
        ApiError::too_many(text, limit, max)
    }
}

impl Share {
    /// Returns an empty share of an owner, and of a principal too if one is given.
    pub fn new(holder: &Arc<Holder>, principal: Option<&Arc<Holder>>, kind: Kind) -> Share {
        Share { holders: [Some(holder.clone()), principal.cloned()], kind, count: 0 }
    }

    /// Adds one if each owner has fewer than its limit.
    ///
    /// # Errors
    /// The owner that is at its limit.
    pub fn grow(&mut self, per_peer_max: usize, per_principal_max: usize) -> Result<(), Full> {
        for (at, holder) in self.holders.iter().flatten().enumerate() {
            let max = match holder.owner {
                Owner::Peer(_) => per_peer_max,
                Owner::Principal(_) => per_principal_max,
            };
            if !holder.take(self.kind, max) {
                let taken = self.holders.iter().flatten().take(at);
                taken.for_each(|holder| holder.give_back(self.kind, 1));
                return Err(Full { owner: holder.owner.clone(), max });
            }
        }
        self.count += 1;
        Ok(())
    }

    /// Gives back the part above `count`.
    pub fn shrink_to(&mut self, count: usize) {
        let less = self.count.saturating_sub(count);
        self.count -= less;
        self.holders.iter().flatten().for_each(|holder| holder.give_back(self.kind, less));
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

    fn holder(owner: Owner) -> Arc<Holder> {
        Arc::new(Holder::new(owner))
    }

    fn held(holder: &Holder, kind: Kind) -> usize {
        holder.held[kind as usize].load(Ordering::Relaxed)
    }

    #[test]
    fn a_share_is_counted_until_it_is_dropped() {
        let peer = holder(Owner::Peer(Peer::of("10.0.0.1".parse().unwrap())));
        let mut first = Share::new(&peer, None, Kind::Watch);
        let mut second = Share::new(&peer, None, Kind::Watch);
        let grow = |share: &mut Share| share.grow(3, 0).is_ok();
        assert!(grow(&mut first) && grow(&mut first) && grow(&mut second));
        assert!(!grow(&mut first) && !grow(&mut second));
        assert!(grow(&mut Share::new(&peer, None, Kind::Session)), "another kind");
        first.shrink_to(1);
        assert_eq!(held(&peer, Kind::Watch), 2);
        drop(second);
        assert_eq!(held(&peer, Kind::Watch), 1);
        drop(first);
        assert_eq!((held(&peer, Kind::Watch), held(&peer, Kind::Session)), (0, 0));
    }

    #[test]
    fn a_share_counts_for_the_address_and_for_the_principal() {
        let (near, far) = ["10.0.0.1", "10.0.0.2"]
            .map(|a| holder(Owner::Peer(Peer::of(a.parse().unwrap()))))
            .into();
        let principal = holder(Owner::Principal("token:ci".into()));
        let share = |peer| Share::new(peer, Some(&principal), Kind::Watch);
        let (mut one, mut other) = (share(&near), share(&far));
        assert!(one.grow(2, 3).is_ok() && one.grow(2, 3).is_ok());
        assert_eq!(one.grow(2, 3), Err(Full { owner: near.owner.clone(), max: 2 }));
        assert!(other.grow(2, 3).is_ok());
        assert_eq!(other.grow(2, 3), Err(Full { owner: principal.owner.clone(), max: 3 }));
        assert_eq!(
            (held(&near, Kind::Watch), held(&far, Kind::Watch)),
            (2, 1),
            "refused costs none"
        );
        drop(one);
        assert_eq!(held(&principal, Kind::Watch), 1);
    }
}
