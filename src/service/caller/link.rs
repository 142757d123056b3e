//! State of one connection: its open calls, the start of its idle time, and the usage of its peer.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::peer::{Kind, Peer, Share, Tally};
use crate::service::caller::budget::Budgets;
use crate::service::caller::outgoing::Room;
use crate::service::caller::{Account, Slot};

/// State that the gate and the task of a connection share. Only its own connection changes it, at
/// each call.
#[derive(Debug)]
pub(in crate::service) struct Link {
    /// Grows with each connection.
    pub(in crate::service) id: u64,
    pub(in crate::service) tally: Arc<Tally>,
    budgets: Budgets,
    /// For the answers.
    room: Arc<Room>,
    calls: AtomicUsize,
    /// Milliseconds from `start` to the end of the last call, or to the start of the connection.
    idle_since: AtomicU64,
    start: Instant,
    emptied: Notify,
    evicted: Notify,
    /// Calls whose handler has not answered yet.
    working: AtomicUsize,
    /// Bytes that the client took, in total.
    taken: Arc<AtomicU64>,
    /// The account of the newest call.
    slot: Slot,
}

impl Link {
    /// Creates the state. Times are relative to `start`, which is the same for all connections.
    pub(in crate::service) fn new(
        id: u64,
        tally: Arc<Tally>,
        budgets: Budgets,
        room: Arc<Room>,
        start: Instant,
    ) -> Link {
        let link = Link {
            id,
            tally,
            budgets,
            room,
            calls: AtomicUsize::new(0),
            idle_since: AtomicU64::new(0),
            start,
            emptied: Notify::new(),
            evicted: Notify::new(),
            working: AtomicUsize::new(0),
            taken: Arc::default(),
            slot: Slot::default(),
        };
        link.stamp();
        link
    }

    fn stamp(&self) {
        let millis = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.idle_since.store(millis, Ordering::Relaxed);
    }

    /// Returns the start of the idle time; `None` while a call is open.
    pub(in crate::service) fn idle_since(&self) -> Option<u64> {
        let is_idle = self.calls.load(Ordering::Relaxed) == 0;
        is_idle.then(|| self.idle_since.load(Ordering::Relaxed))
    }

    /// Asks the task of the connection to end it.
    pub(in crate::service) fn evict(&self) {
        self.evicted.notify_one();
    }

    /// Resolves when the connection must end.
    pub(in crate::service) async fn evicted(&self) {
        self.evicted.notified().await;
    }

    /// Returns the count of the bytes that the client took, to be increased.
    pub(in crate::service) fn taken(&self) -> Arc<AtomicU64> {
        self.taken.clone()
    }

    /// Resolves when no handler works and the client took no byte for about `grace`: it does not
    /// read the answers of its open calls.
    pub(in crate::service) async fn stalled_for(&self, grace: Duration) {
        loop {
            let taken = self.taken.load(Ordering::Relaxed);
            tokio::time::sleep(grace).await;
            let is_working = 0 < self.working.load(Ordering::Relaxed);
            if !is_working && self.taken.load(Ordering::Relaxed) == taken {
                return;
            }
        }
    }

    /// Resolves when no call has been open for about `grace`.
    pub(in crate::service) async fn idle_for(&self, grace: Duration) {
        loop {
            let emptied = self.emptied.notified();
            match self.idle_since() {
                None => emptied.await,
                Some(since) => {
                    tokio::time::sleep(grace).await;
                    if self.idle_since() == Some(since) {
                        return;
                    }
                }
            }
        }
    }
}

/// The caller of a call: an extension of every request.
#[derive(Debug, Clone)]
pub struct Caller {
    link: Arc<Link>,
    /// `None`: no limit of one caller holds.
    account: Option<Arc<Account>>,
}

impl Caller {
    pub(in crate::service) fn new(link: Arc<Link>) -> Caller {
        Caller { link, account: None }
    }

    /// Returns the caller with its account.
    #[must_use]
    pub fn with_account(&self, account: Arc<Account>) -> Caller {
        Caller { link: self.link.clone(), account: Some(account) }
    }

    /// Returns the account, if the caller has one.
    pub fn account(&self) -> Option<&Arc<Account>> {
        self.account.as_ref()
    }

    /// Returns the place for the account of the connection's newest call.
    pub fn slot(&self) -> &Slot {
        &self.link.slot
    }

    /// Returns the budgets of the caller's requests.
    pub fn budgets(&self) -> &Budgets {
        &self.link.budgets
    }

    /// Returns the room for the caller's answers.
    pub fn room(&self) -> &Arc<Room> {
        &self.link.room
    }

    /// Returns the address of the peer; for an IPv6 network its first address.
    pub fn address(&self) -> IpAddr {
        self.peer().address()
    }

    /// Returns the peer.
    pub fn peer(&self) -> Peer {
        self.link.tally.peer
    }

    /// Returns an empty share of a kind that is limited for each peer and each principal.
    pub fn share(&self, kind: Kind) -> Share {
        let principal = self.account.as_ref().and_then(|account| account.principal());
        Share::new(&self.link.tally.holder, principal, kind)
    }

    /// Counts a call as open until the returned value is dropped, and its handler as working until
    /// it has answered.
    pub(in crate::service) fn begin_call(&self) -> OpenCall {
        self.link.calls.fetch_add(1, Ordering::Relaxed);
        self.link.working.fetch_add(1, Ordering::Relaxed);
        OpenCall { link: self.link.clone(), is_working: true }
    }
}

/// An open call.
#[derive(Debug)]
pub(in crate::service) struct OpenCall {
    link: Arc<Link>,
    is_working: bool,
}

impl OpenCall {
    /// Notes that the handler has answered.
    pub(in crate::service) fn answered(&mut self) {
        if std::mem::take(&mut self.is_working) {
            self.link.working.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        self.answered();
        // Before the count, so that a connection without calls never has an old time.
        self.link.stamp();
        if self.link.calls.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.link.emptied.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::caller::Peer;
    use crate::service::caller::budget::Budget;
    use crate::service::caller::outgoing;

    fn mk_link() -> Arc<Link> {
        let answers = || outgoing::Budget::new("answers", 1);
        let peer = Peer::of([10, 0, 0, 1].into());
        let tally = Arc::new(Tally::new(peer, Budget::new("bytes", 1), answers()));
        let room = Room::of_connection(answers(), answers(), answers(), Duration::ZERO);
        Arc::new(Link::new(1, tally, Arc::from([]), room, Instant::now()))
    }

    #[tokio::test]
    async fn a_connection_is_idle_once_its_last_call_has_ended() {
        let caller = Caller::new(mk_link());
        assert!(caller.link.idle_since().is_some());
        let (first, second) = (caller.begin_call(), caller.begin_call());
        drop(first);
        assert_eq!(caller.link.idle_since(), None);
        let link = caller.link.clone();
        let idle = tokio::spawn(async move { link.idle_for(Duration::from_millis(1)).await });
        tokio::task::yield_now().await;
        assert!(!idle.is_finished());
        drop(second);
        idle.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_stalls_once_no_handler_works_and_no_byte_is_taken() {
        let link = mk_link();
        let grace = Duration::from_secs(1);
        let is_stalled =
            async || tokio::time::timeout(3 * grace / 2, link.stalled_for(grace)).await.is_ok();
        let mut call = Caller::new(link.clone()).begin_call();
        assert!(!is_stalled().await, "its handler works");
        call.answered();
        assert!(is_stalled().await, "an open call alone is no work");
        let taken = link.taken();
        let (stalled, ()) = tokio::join!(is_stalled(), async {
            tokio::time::sleep(grace / 2).await;
            taken.fetch_add(1, Ordering::Relaxed);
        });
        assert!(!stalled);
        assert!(is_stalled().await);
    }
}
