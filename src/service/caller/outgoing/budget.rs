//! One budget of bytes of answers under way, with the calls that wait for room in it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

/// Short answers may exceed a budget by the budget divided by this number, so that a report is
/// still answered beside long answers that are not taken.
const RESERVE: usize = 8;

/// Calls that wait for one budget at the same time. Each keeps its stream and its request, which
/// are no part of the budget.
const WAITING_MAX: usize = 256;

/// A limit, the bytes in use, and who waits for less of them. Each change of a count is a single
/// step that all threads see in one order: otherwise a call could start to wait while the last
/// bytes are given back.
#[derive(Debug)]
pub struct Budget {
    /// The configuration key of the limit.
    pub limit: &'static str,
    /// The limit, in bytes.
    pub max: usize,
    used: AtomicUsize,
    waiting: AtomicUsize,
    freed: Notify,
}

/// A budget without room.
#[derive(Debug, Clone)]
pub struct Full(pub Arc<Budget>);

/// How far an answer may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// To the limit.
    Limit,
    /// Into the reserve for short answers.
    Reserve,
    /// Half above the limit: an owner that uses little, when others have filled the server.
    Half,
}

impl Budget {
    /// Creates a budget of `max` bytes, set by the configuration key `limit`.
    pub fn new(limit: &'static str, max: usize) -> Arc<Budget> {
        let (used, waiting) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Arc::new(Budget { limit, max, used, waiting, freed: Notify::new() })
    }

    /// Returns the bytes in use.
    pub fn used(&self) -> usize {
        self.used.load(Ordering::SeqCst)
    }

    /// Returns the bytes in use with those of `reach`.
    fn end(&self, reach: Reach) -> usize {
        let more = match reach {
            Reach::Limit => 0,
            Reach::Reserve => self.max / RESERVE,
            Reach::Half => self.max / 2,
        };
        self.max.saturating_add(more)
    }

    /// Returns whether even the reserve is in use.
    pub(super) fn is_full(&self) -> bool {
        self.end(Reach::Reserve) <= self.used()
    }

    /// Takes bytes if there are enough. A single answer above the limit fits into an empty budget:
    /// otherwise a low limit would refuse it for ever.
    pub(super) fn take(&self, bytes: usize, reach: Reach) -> bool {
        let end = self.end(reach);
        // No more than fits at any time: another call would be refused for bytes that go again.
        let taken = self.used.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |before| {
            let fits = before == 0 || bytes <= end.saturating_sub(before);
            fits.then(|| before + bytes)
        });
        taken.is_ok()
    }

    /// Takes bytes that exist already.
    pub(super) fn force(&self, bytes: usize) {
        self.used.fetch_add(bytes, Ordering::SeqCst);
    }

    /// Gives bytes back, and wakes the call that has waited longest.
    pub(super) fn give_back(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::SeqCst);
        self.pass_on();
    }

    /// Wakes the next call that waits: there may be room for it too.
    pub(super) fn pass_on(&self) {
        if 0 < self.waiting.load(Ordering::SeqCst) {
            self.freed.notify_one();
        }
    }

    /// Waits until bytes were given back, unless `has_room` finds room first. Returns false if too
    /// many wait already and `may_refuse`.
    pub(super) async fn freed(&self, may_refuse: bool, has_room: impl FnOnce() -> bool) -> bool {
        let waiting = Waiting::begin(self);
        if may_refuse && WAITING_MAX <= waiting.before {
            return false;
        }
        let mut freed = std::pin::pin!(self.freed.notified());
        freed.as_mut().enable();
        // What was given back before the count of those that wait woke none of them.
        if !has_room() {
            freed.await;
        }
        true
    }
}

/// A call that waits.
struct Waiting<'a> {
    budget: &'a Budget,
    before: usize,
}

impl Waiting<'_> {
    fn begin(budget: &Budget) -> Waiting<'_> {
        let before = budget.waiting.fetch_add(1, Ordering::SeqCst);
        Waiting { budget, before }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.budget.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}
