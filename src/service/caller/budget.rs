//! Byte budgets of incomplete messages: for each connection, for each peer and in total. A message
//! that arrives in one piece does not count.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A limit, and the bytes in use. Cheap to share.
#[derive(Debug)]
pub struct Budget {
    /// The configuration key of the limit.
    pub limit: &'static str,
    /// The limit, in bytes.
    pub max: usize,
    used: AtomicUsize,
}

impl Budget {
    /// Creates a budget of `max` bytes, set by the configuration key `limit`.
    pub fn new(limit: &'static str, max: usize) -> Arc<Budget> {
        Arc::new(Budget { limit, max, used: AtomicUsize::new(0) })
    }

    /// Returns the bytes in use.
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    fn take(&self, bytes: usize) -> bool {
        let before = self.used.fetch_add(bytes, Ordering::Relaxed);
        let fits = bytes <= self.max.saturating_sub(before);
        if !fits {
            self.give_back(bytes);
        }
        fits
    }

    fn give_back(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// The budgets of one connection: its own, that of its peer, that of the server.
pub type Budgets = Arc<[Arc<Budget>]>;

/// Bytes of one message; they are returned when this value is dropped.
#[derive(Debug)]
pub(in crate::service) struct Share {
    budgets: Budgets,
    bytes: usize,
}

impl Share {
    /// Creates an empty share.
    pub(in crate::service) fn new(budgets: Budgets) -> Share {
        Share { budgets, bytes: 0 }
    }

    /// Adds bytes. The error is the budget that they would exceed.
    pub(in crate::service) fn grow(&mut self, bytes: usize) -> Result<(), Arc<Budget>> {
        for (at, budget) in self.budgets.iter().enumerate() {
            if !budget.take(bytes) {
                self.budgets[..at].iter().for_each(|taken| taken.give_back(bytes));
                return Err(budget.clone());
            }
        }
        self.bytes += bytes;
        Ok(())
    }

    /// Returns all bytes: the message is complete, and no longer held.
    pub(in crate::service) fn release(&mut self) {
        // The budgets are shared by all connections: a call that held nothing must not touch them.
        if self.bytes == 0 {
            return;
        }
        self.budgets.iter().for_each(|budget| budget.give_back(self.bytes));
        self.bytes = 0;
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.release();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_of_one_budget_takes_nothing_from_another() {
        let (own, all) = (Budget::new("own", 10), Budget::new("all", 15));
        let share = || Share::new(Arc::from([own.clone(), all.clone()]));
        let mut first = share();
        assert!(first.grow(4).is_ok() && first.grow(6).is_ok());
        assert_eq!(first.grow(1).unwrap_err().limit, "own");
        let other = Budget::new("own", 10);
        let mut second = Share::new(Arc::from([other.clone(), all.clone()]));
        assert_eq!(second.grow(6).unwrap_err().limit, "all");
        assert_eq!((own.used(), other.used(), all.used()), (10, 0, 10));
        first.release();
        assert!(second.grow(6).is_ok());
        drop((first, second));
        assert_eq!((own.used(), other.used(), all.used()), (0, 0, 0));
    }
}
