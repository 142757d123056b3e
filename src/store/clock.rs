//! A clock that never goes back.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use tokio::time::Instant;

use crate::domain::time::Timestamp;

/// A clock that starts at the wall clock and advances with monotonic time: a wall clock that is set
/// while the process runs moves no deadline. In a test that pauses tokio's time, it follows that
/// time.
#[derive(Debug)]
pub struct Clock {
    start: Timestamp,
    started: Instant,
    latest: AtomicU64,
}

impl Clock {
    /// Starts at the wall clock, or at `floor` if that is later. `floor` is the latest time before
    /// a restart.
    pub fn starting_from(floor: Timestamp) -> Clock {
        Clock::starting_at(wall_clock(), floor)
    }

    /// Starts at this time of the wall clock, or at `floor` if that is later.
    pub(crate) fn starting_at(wall: Timestamp, floor: Timestamp) -> Clock {
        let start = floor.max(wall);
        Clock { start, started: Instant::now(), latest: AtomicU64::new(start.millis()) }
    }

    /// Returns the time. It is never earlier than a time returned before, to any thread.
    pub fn now(&self) -> Timestamp {
        let now = self.start.after(self.started.elapsed());
        let before = self.latest.fetch_max(now.millis(), Ordering::Relaxed);
        Timestamp::new(now.millis().max(before))
    }

    /// Returns the latest time that `now` returned. A restarted store must not start before it.
    pub fn latest(&self) -> Timestamp {
        Timestamp::new(self.latest.load(Ordering::Relaxed))
    }
}

/// Returns the time of the wall clock.
pub(crate) fn wall_clock() -> Timestamp {
    let wall = SystemTime::now().duration_since(UNIX_EPOCH);
    Timestamp::new(0).after(wall.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_clock_follows_the_time_of_tokio() {
        let clock = Clock::starting_from(Timestamp::new(0));
        let start = clock.now();
        tokio::time::advance(Duration::from_secs(90)).await;
        assert_eq!(clock.now(), start.after(Duration::from_secs(90)));
        assert_eq!(clock.latest(), clock.now());
    }

    #[test]
    fn a_later_floor_wins_and_no_runtime_is_needed() {
        let floor = Timestamp::new(u64::MAX / 2);
        assert!(floor <= Clock::starting_from(floor).now());
        let wall = Clock::starting_from(Timestamp::new(0)).now();
        assert!(Timestamp::new(1_700_000_000_000) < wall && wall < floor);
    }
}
