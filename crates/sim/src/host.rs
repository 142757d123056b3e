//! A simulated machine: a runtime with its own clock, which can drift, stand still and jump.

use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::time::Instant;

/// One step of the world in milliseconds: no packet is faster.
pub const STEP: u64 = 20;

/// A machine.
pub struct Host {
    runtime: Runtime,
    start: Instant,
    /// Millionths by which its clock is fast.
    drift: i64,
    /// Its time since the start, in nanoseconds.
    local: u64,
    /// Simulated milliseconds during which it stood still.
    frozen: u64,
}

impl Host {
    /// Returns a machine whose clock is fast by this many millionths.
    pub fn new(drift: i64) -> std::io::Result<Host> {
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build()?;
        let start = runtime.block_on(async { Instant::now() });
        Ok(Host { runtime, start, drift, local: 0, frozen: 0 })
    }

    /// Returns the handle that starts tasks on this machine.
    pub fn handle(&self) -> Handle {
        self.runtime.handle().clone()
    }

    /// Returns the number of tasks.
    pub fn tasks(&self) -> usize {
        self.runtime.metrics().num_alive_tasks()
    }

    /// Stands still for a while: its tasks do nothing, and its clock goes on. One freeze during
    /// another does not prolong it, unless it ends later.
    pub fn freeze(&mut self, millis: u64) {
        self.frozen = self.frozen.max(millis);
    }

    /// Runs its tasks until its clock has advanced.
    pub fn run(&mut self, millis: u64) {
        let nanos = i128::from(millis) * (1_000_000 + i128::from(self.drift));
        let nanos = u64::try_from(nanos).unwrap_or_default();
        self.local += nanos;
        if self.frozen >= millis {
            self.frozen -= millis;
            if self.frozen == 0 {
                self.catch_up();
            }
            return;
        }
        let until = self.start + Duration::from_millis(self.local / 1_000_000);
        self.runtime.block_on(async { tokio::time::sleep_until(until).await });
    }

    /// Moves the clock over the time during which the machine stood still, in one step.
    fn catch_up(&self) {
        let until = self.start + Duration::from_millis(self.local / 1_000_000);
        self.runtime.block_on(async {
            let missed = until.saturating_duration_since(Instant::now());
            tokio::time::advance(missed).await;
        });
    }
}
