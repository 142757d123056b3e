//! The clock since the boot, which counts the time in which the machine sleeps, and a timer on it.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime,
    timerfd_create, timerfd_settime,
};
use tokio::io::unix::AsyncFd;

/// Returns the time since the boot.
pub fn now() -> Duration {
    let time = clock_gettime(ClockId::Boottime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

/// A timer that fires at a time of this clock, even if the machine sleeps until then.
#[derive(Debug)]
pub struct BootTimer(AsyncFd<OwnedFd>);

impl BootTimer {
    /// Creates a timer that is not set.
    ///
    /// # Errors
    /// If the system has no more file descriptors.
    pub fn new() -> io::Result<BootTimer> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Boottime, flags)?;
        // Its successor is unsafe, for types that change their descriptor; this one owns it.
        #[expect(deprecated)]
        let timer = AsyncFd::new(timer)?;
        Ok(BootTimer(timer))
    }

    /// Sets the time at which it fires: at once if that has passed, never for `None`.
    ///
    /// # Errors
    /// If the system refuses the time.
    pub fn set(&self, at: Option<Duration>) -> io::Result<()> {
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        let value = at.map_or(zero, |at| Timespec {
            tv_sec: at.as_secs().cast_signed(),
            // All zeros would turn the timer off.
            tv_nsec: i64::from(at.subsec_nanos().max(1)),
        });
        let spec = Itimerspec { it_interval: zero, it_value: value };
        timerfd_settime(self.0.get_ref(), TimerfdTimerFlags::ABSTIME, &spec)?;
        Ok(())
    }

    /// Waits until it fires. Cancel safe.
    pub async fn fired(&self) {
        loop {
            let Ok(mut ready) = self.0.readable().await else { return };
            let mut count = [0_u8; 8];
            let read = rustix::io::read(self.0.get_ref(), &mut count);
            ready.clear_ready();
            if read.is_ok() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_timer_fires_at_its_time_and_at_once_after_it() {
        let timer = BootTimer::new().unwrap();
        let at = now() + Duration::from_millis(20);
        timer.set(Some(at)).unwrap();
        timer.fired().await;
        assert!(at <= now());
        timer.set(Some(Duration::ZERO)).unwrap();
        timer.fired().await;
        timer.set(None).unwrap();
        let never = tokio::time::timeout(Duration::from_millis(20), timer.fired());
        assert!(never.await.is_err(), "a timer that is not set fires");
    }
}
