//! A candidate of an election, as the measurement sees it: its news, and the request to step back.

use std::sync::Arc;

use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

/// Length of every lease in seconds: the shortest that both sides accept.
pub const LEASE_SECONDS: i64 = 2;
/// Heartbeats of a leader within its lease.
pub const BEATS_PER_LEASE: u32 = 3;

/// The news of a candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum News {
    /// Another candidate leads, and this one waits in line.
    Waits,
    /// The candidate leads.
    Leads,
}

/// The connection of a candidate's task to the measurement.
pub struct Candidacy {
    /// Number of the candidate.
    pub number: u64,
    /// Receiver of its news.
    pub news: mpsc::UnboundedSender<(u64, News, Instant)>,
    /// Notified when it is to release leadership.
    pub release: Arc<Notify>,
}

impl Candidacy {
    /// Sends news to the measurement.
    pub fn tell(&self, news: News) {
        // The measurement may already be over.
        let _ = self.news.send((self.number, news, Instant::now()));
    }

    /// Waits until the candidate is to release leadership.
    pub async fn released(&mut self) {
        self.release.notified().await;
    }
}
