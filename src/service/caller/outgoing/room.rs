//! The budgets that an answer counts against together, and its share of them.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::budget::{Budget, Full, Reach};
use super::size;

/// An address that uses less than this is served even if others have filled the server.
const MODEST_BYTES: usize = 1 << 20;

/// The budgets of one connection: its own, that of its peer, that of the server. Or the budget of
/// one principal.
#[derive(Debug)]
pub struct Room {
    /// From the narrowest to the widest.
    own: Box<[Arc<Budget>]>,
    /// That of the server.
    total: Option<Arc<Budget>>,
    wait_max: Duration,
}

impl Room {
    /// Creates the room of a connection.
    pub fn of_connection(
        own: Arc<Budget>,
        peer: Arc<Budget>,
        total: Arc<Budget>,
        wait_max: Duration,
    ) -> Arc<Room> {
        Arc::new(Room { own: Box::from([own, peer]), total: Some(total), wait_max })
    }

    /// Creates the room of a principal.
    pub fn of_principal(budget: Arc<Budget>, wait_max: Duration) -> Arc<Room> {
        Arc::new(Room { own: Box::from([budget]), total: None, wait_max })
    }

    /// Returns whether a budget has no room for even a short answer.
    fn full(&self) -> Option<&Arc<Budget>> {
        let is_modest = self.is_modest();
        let total = self.total.as_ref().filter(|_| !is_modest);
        self.own.iter().chain(total).find(|budget| budget.is_full())
    }

    /// Returns whether the widest owner uses little.
    fn is_modest(&self) -> bool {
        self.own.last().is_some_and(|budget| budget.used() < MODEST_BYTES)
    }

    fn take(&self, bytes: usize) -> Result<(), Full> {
        let reach = if bytes <= size::CALL { Reach::Reserve } else { Reach::Limit };
        // Before its own bytes count.
        let of_total = if self.is_modest() { Reach::Half } else { reach };
        let own = self.own.iter().map(|budget| (budget, reach));
        let all = own.chain(self.total.iter().map(|budget| (budget, of_total)));
        for (at, (budget, reach)) in all.enumerate() {
            if !budget.take(bytes, reach) {
                self.own.iter().take(at).for_each(|taken| taken.give_back(bytes));
                return Err(Full(budget.clone()));
            }
        }
        Ok(())
    }

    fn each(&self, change: impl Fn(&Budget)) {
        self.own.iter().chain(&self.total).for_each(|budget| change(budget));
    }

    /// Waits until no budget is full.
    pub async fn opened(self: Arc<Room>) {
        let mut waited = None;
        while let Some(full) = self.full().cloned() {
            full.freed(false, || !full.is_full()).await;
            waited = Some(full);
        }
        waited.into_iter().for_each(|budget| budget.pass_on());
    }

    /// Returns whether no budget is full.
    pub fn is_open(&self) -> bool {
        self.full().is_none()
    }
}

/// Bytes of one answer; they are given back when this value is dropped.
#[derive(Debug)]
pub struct Share {
    room: Arc<Room>,
    bytes: usize,
}

impl Share {
    /// Takes room for an answer.
    ///
    /// # Errors
    /// The first budget that has none.
    pub fn take(room: &Arc<Room>, bytes: usize) -> Result<Share, Full> {
        room.take(bytes)?;
        Ok(Share { room: room.clone(), bytes })
    }

    /// Takes room for an answer as soon as there is some.
    ///
    /// # Errors
    /// The budget that had none for the time that a call waits, or for which too many wait.
    pub async fn wait(room: &Arc<Room>, bytes: usize) -> Result<Share, Full> {
        let until = Instant::now() + room.wait_max;
        loop {
            let full = match Share::take(room, bytes) {
                Ok(share) => {
                    room.each(Budget::pass_on);
                    return Ok(share);
                }
                Err(full) => full,
            };
            let mut found = None;
            let waited = full.0.freed(true, || {
                found = Share::take(room, bytes).ok();
                found.is_some()
            });
            let waited = timeout_at(until, waited).await;
            if let Some(found) = found {
                return Ok(found);
            }
            if waited != Ok(true) {
                return Err(full);
            }
        }
    }

    /// Counts bytes that exist already.
    pub fn force(room: &Arc<Room>, bytes: usize) -> Share {
        room.each(|budget| budget.force(bytes));
        Share { room: room.clone(), bytes }
    }

    /// Counts this many bytes from now on.
    pub fn resize(&mut self, bytes: usize) {
        match bytes.checked_sub(self.bytes) {
            Some(0) => {}
            Some(more) => self.room.each(|budget| budget.force(more)),
            None => self.room.each(|budget| budget.give_back(self.bytes - bytes)),
        }
        self.bytes = bytes;
    }

    /// Returns what the share is of.
    pub fn room(&self) -> &Arc<Room> {
        &self.room
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.resize(0);
    }
}
