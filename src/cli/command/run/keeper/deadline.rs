//! The rule that makes an operation safe: its command is dead before another worker may begin.
//!
//! ```text
//!  renewed                            term_at         kill_at    end of the lease
//!  |--- a heartbeat each third ---------|--- grace -----|-- 5 s --|
//! ```
//!
//! The lease counts from the *sending* of the last heartbeat that was acknowledged, so the one of
//! the server ends later.

use std::time::Duration;

use crate::cli::command::run::keeper::message::ToKeeper;
use crate::cli::span;

/// The time between the kill and the end of the lease.
const MARGIN: Duration = Duration::from_secs(5);
/// With the margin and one second for SIGTERM and SIGKILL, one lost heartbeat ends nothing.
const RESERVE: Duration = Duration::from_secs(6);
/// Heartbeats in a lease.
pub const RENEWALS_PER_LEASE: u32 = 3;
const LENGTH_MIN: Duration = Duration::from_secs(30);
const LENGTH_MAX: Duration = Duration::from_secs(3_600);

/// How long an operation is held without a heartbeat, and how long its command has to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    /// The length.
    pub length: Duration,
    /// The time between SIGTERM and SIGKILL.
    pub grace: Duration,
}

impl Lease {
    /// Returns a lease with spans that are within their limits.
    ///
    /// # Errors
    /// A sentence with the limits.
    pub fn new(length: Duration, grace: Duration) -> Result<Lease, String> {
        if !(LENGTH_MIN..=LENGTH_MAX).contains(&length) {
            return Err("the lease is not within 30s and 1h".to_string());
        }
        let grace_max = length / RENEWALS_PER_LEASE - RESERVE;
        if grace_max < grace {
            let (length, max) = (span::exact(length), span::exact(grace_max));
            return Err(format!("with a lease of {length}, --grace is at most {max}"));
        }
        Ok(Lease { length, grace })
    }

    /// Returns a lease of these milliseconds, as the runner passes them on.
    pub fn of_millis(length: u64, grace: u64) -> Lease {
        Lease { length: Duration::from_millis(length), grace: Duration::from_millis(grace) }
    }

    /// Returns when the command gets SIGTERM.
    pub fn term_at(&self, renewed: Duration) -> Duration {
        renewed + self.length.saturating_sub(self.grace + MARGIN)
    }

    /// Returns when the command gets SIGKILL.
    pub fn kill_at(&self, renewed: Duration) -> Duration {
        renewed + self.length.saturating_sub(MARGIN)
    }
}

/// What the group of the command gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The request to end.
    Term,
    /// The end.
    Kill,
}

/// When the command ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    lease: Lease,
    renewed: Duration,
    /// When the runner asked for the end.
    asked: Option<Duration>,
    /// Whether it asked for a kill.
    is_kill: bool,
    /// When SIGTERM was sent.
    termed: Option<Duration>,
    is_killed: bool,
}

impl Plan {
    /// Returns the plan for a lease that was renewed at a time.
    pub fn new(lease: Lease, renewed: Duration) -> Plan {
        Plan { lease, renewed, asked: None, is_kill: false, termed: None, is_killed: false }
    }

    /// Takes a message of the runner.
    pub fn take(&mut self, message: ToKeeper, now: Duration) {
        match message {
            ToKeeper::Renewed(at) => self.renewed = self.renewed.max(at),
            ToKeeper::End => self.asked = self.asked.or(Some(now)),
            ToKeeper::Kill => self.is_kill = true,
        }
    }

    /// Returns when the next step is due, if there is one.
    pub fn next(&self) -> Option<Duration> {
        self.next_step().map(|(at, _)| at)
    }

    fn next_step(&self) -> Option<(Duration, Step)> {
        let kill_at = self.lease.kill_at(self.renewed);
        match self.termed {
            _ if self.is_killed => None,
            _ if self.is_kill => Some((Duration::ZERO, Step::Kill)),
            Some(termed) => Some((kill_at.min(termed + self.lease.grace), Step::Kill)),
            None => {
                let at = self.lease.term_at(self.renewed);
                Some((self.asked.map_or(at, |asked| asked.min(at)), Step::Term))
            }
        }
    }

    /// Returns the step that is due, and counts it as done.
    pub fn due(&mut self, now: Duration) -> Option<Step> {
        let (at, step) = self.next_step()?;
        if now < at {
            return None;
        }
        // After a sleep of the machine, no time is left for SIGTERM.
        if step == Step::Kill || self.lease.kill_at(self.renewed) <= now {
            self.is_killed = true;
            return Some(Step::Kill);
        }
        self.termed = Some(now);
        Some(step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    const LEASE: Lease = Lease { length: seconds(60), grace: seconds(10) };
    /// The renewal of the plans below.
    const RENEWED: Duration = seconds(1_000);

    #[test]
    fn one_lost_heartbeat_ends_nothing() {
        for length in [30, 31, 60, 61, 3_600] {
            let grace = seconds(length) / 3 - RESERVE;
            let lease = Lease::new(seconds(length), grace).unwrap();
            let two_thirds = seconds(length) * 2 / 3;
            assert!(RENEWED + two_thirds < lease.term_at(RENEWED), "{length}");
            assert!(Lease::new(seconds(length), grace + seconds(1)).is_err(), "{length}");
        }
        for length in [0, 29, 3_601] {
            assert!(Lease::new(seconds(length), seconds(1)).is_err(), "{length}");
        }
        let error = Lease::new(seconds(30), seconds(5)).unwrap_err();
        assert_eq!(error, "with a lease of 30s, --grace is at most 4s");
    }

    /// Each step of a plan with its time, as a clock of one second sees it.
    fn steps(mut plan: Plan, messages: &[(u64, ToKeeper)], until: u64) -> Vec<(u64, Step)> {
        let mut steps = Vec::new();
        for second in 1_000..until {
            for (at, message) in messages {
                if *at == second {
                    plan.take(*message, seconds(second));
                }
            }
            steps.extend(plan.due(seconds(second)).map(|step| (second, step)));
        }
        steps
    }

    #[test]
    fn the_command_is_dead_before_the_lease_ends() {
        let plan = Plan::new(LEASE, RENEWED);
        let all = steps(plan.clone(), &[], 1_100);
        assert_eq!(all, [(1_045, Step::Term), (1_055, Step::Kill)]);
        // A heartbeat moves both, and an older one nothing.
        let renewed = [
            (1_020, ToKeeper::Renewed(seconds(1_019))),
            (1_025, ToKeeper::Renewed(seconds(1_001))),
        ];
        let all = steps(plan.clone(), &renewed, 1_100);
        assert_eq!(all, [(1_064, Step::Term), (1_074, Step::Kill)]);
        // One that comes after SIGTERM stops no kill.
        let late = [(1_046, ToKeeper::Renewed(seconds(1_046)))];
        let all = steps(plan, &late, 1_100);
        assert_eq!(all, [(1_045, Step::Term), (1_055, Step::Kill)]);
    }

    #[test]
    fn a_request_to_end_gives_the_grace_and_no_more_than_the_lease() {
        let plan = Plan::new(LEASE, RENEWED);
        let all = steps(plan.clone(), &[(1_003, ToKeeper::End), (1_005, ToKeeper::End)], 1_100);
        assert_eq!(all, [(1_003, Step::Term), (1_013, Step::Kill)]);
        let all = steps(plan.clone(), &[(1_044, ToKeeper::End)], 1_100);
        assert_eq!(all, [(1_044, Step::Term), (1_054, Step::Kill)]);
        let all = steps(plan.clone(), &[(1_003, ToKeeper::Kill)], 1_100);
        assert_eq!(all, [(1_003, Step::Kill)]);
        let both = [(1_003, ToKeeper::End), (1_004, ToKeeper::Kill)];
        assert_eq!(steps(plan, &both, 1_100), [(1_003, Step::Term), (1_004, Step::Kill)]);
    }

    #[test]
    fn the_first_thing_after_a_sleep_is_the_kill() {
        let mut plan = Plan::new(LEASE, RENEWED);
        assert_eq!(plan.due(seconds(1_044)), None);
        assert_eq!(plan.due(seconds(9_000)), Some(Step::Kill));
        assert_eq!((plan.due(seconds(9_001)), plan.next()), (None, None));
    }
}
