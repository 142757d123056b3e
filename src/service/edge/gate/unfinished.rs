//! Connections whose handshakes are not complete, by age and by peer. Each change and each question
//! costs a logarithm, because a peer can open tens of thousands of them in a second.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use crate::service::caller::{Link, Peer};

/// The order in which peers give up a connection, the first of them last: the one with the most
/// connections; of these a peer of another machine before one of this machine, so that an operator
/// can always connect; of these the one with the oldest connection.
type Rank = (usize, bool, Reverse<u64>);

/// The connections.
#[derive(Debug, Default)]
pub(super) struct Unfinished {
    links: HashMap<u64, Arc<Link>>,
    of_peer: HashMap<Peer, BTreeSet<u64>>,
    /// The oldest connection of each peer.
    ranks: BTreeMap<Rank, u64>,
}

impl Unfinished {
    pub(super) fn len(&self) -> usize {
        self.links.len()
    }

    pub(super) fn insert(&mut self, link: &Arc<Link>) {
        self.links.insert(link.id, link.clone());
        self.change(link.tally.peer, |ids| ids.insert(link.id));
    }

    /// Removes a connection. Returns false if it is not here.
    pub(super) fn remove(&mut self, link: &Link) -> bool {
        let found = self.links.remove(&link.id).is_some();
        if found {
            self.change(link.tally.peer, |ids| ids.remove(&link.id));
        }
        found
    }

    /// Returns the oldest connection of a peer: a real client has completed the handshake by then.
    pub(super) fn oldest_of(&self, peer: Peer) -> Option<Arc<Link>> {
        let oldest = self.of_peer.get(&peer)?.first()?;
        self.links.get(oldest).cloned()
    }

    /// Returns the oldest connection of the peer that has most. A peer with fewer keeps its own,
    /// however many connections the others open.
    pub(super) fn oldest_of_most(&self) -> Option<Arc<Link>> {
        let (_, oldest) = self.ranks.last_key_value()?;
        self.links.get(oldest).cloned()
    }

    fn change(&mut self, peer: Peer, change: impl FnOnce(&mut BTreeSet<u64>) -> bool) {
        let ids = self.of_peer.entry(peer).or_default();
        if let Some((rank, _)) = ranked(peer, ids) {
            self.ranks.remove(&rank);
        }
        change(ids);
        match ranked(peer, ids) {
            Some((rank, oldest)) => drop(self.ranks.insert(rank, oldest)),
            None => drop(self.of_peer.remove(&peer)),
        }
    }
}

/// Returns the rank of a peer with these connections, and the oldest of them.
fn ranked(peer: Peer, ids: &BTreeSet<u64>) -> Option<(Rank, u64)> {
    let oldest = *ids.first()?;
    Some(((ids.len(), !peer.is_local(), Reverse(oldest)), oldest))
}
