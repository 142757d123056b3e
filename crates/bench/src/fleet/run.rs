//! The changes of a fleet, from each report to the last event about it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use hdrhistogram::Histogram;

use super::plan::Plan;
use super::queue::{Nanos, Random, Station, count, durations};

/// What a run has measured.
pub struct Ran {
    /// Reports, each of which is a change.
    pub changes: u64,
    /// Masters, replicas, upper relays, relays.
    pub kinds: [KindRan; 4],
    /// From a report to its acknowledgement.
    pub acknowledged: Histogram<u64>,
    /// From a report to the last event of a relay about it.
    pub seen: Histogram<u64>,
}

/// What the stations of one kind did.
pub struct KindRan {
    /// The share of the time in which the busiest one worked.
    pub utilization: f64,
    /// How long work waited.
    pub waits: Histogram<u64>,
}

/// Where a change is next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    /// At the replica that serves the application.
    Decide,
    /// At the master of the bucket.
    Write,
    /// At a replica that reads the log.
    Follow(usize),
    /// At a relay that follows a replica.
    Upper(usize),
    /// At a relay that serves watchers.
    Relay(usize),
}

/// A change that arrives somewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Arrival {
    at: Nanos,
    /// When the report was sent: reports are in order of this.
    sent: Nanos,
    step: Step,
    replica: usize,
    master: usize,
}

struct World<'a> {
    plan: &'a Plan,
    stations: [Vec<Station>; 4],
    waits: [Histogram<u64>; 4],
    arrivals: BinaryHeap<Reverse<Arrival>>,
    ran: (Histogram<u64>, Histogram<u64>),
    hop: Nanos,
}

/// Changes under way, at all places together, with which no more reports come: some thirty times
/// those of a fleet that keeps up. One with too few cores would have more and more.
const ARRIVALS_MAX: usize = 100_000;

const MASTER: usize = 0;
const REPLICA: usize = 1;
const UPPER: usize = 2;
const RELAY: usize = 3;

/// Runs reports for this long, and what they cause to its end.
pub fn run(plan: &Plan, seconds: u64) -> Ran {
    let stations = |count: u64, cores: u64| {
        (0..count).map(|_| Station::new(cores as usize)).collect::<Vec<_>>()
    };
    let mut world = World {
        plan,
        stations: [
            stations(plan.masters, 1),
            stations(plan.replicas, plan.replica_cores),
            stations(plan.upper_relays, plan.upper_cores),
            stations(plan.relays, plan.relay_cores),
        ],
        waits: std::array::from_fn(|_| durations()),
        arrivals: BinaryHeap::new(),
        ran: (durations(), durations()),
        hop: nanos(plan.hop),
    };
    let mut random = Random(1);
    let mut end = seconds * 1_000_000_000;
    let (mut now, mut changes) = (0, 0);
    loop {
        now += random.until_next(plan.changes as f64);
        if ARRIVALS_MAX < world.arrivals.len() {
            end = now;
        }
        if end <= now {
            break;
        }
        changes += 1;
        world.work_until(now);
        world.arrivals.push(Reverse(Arrival {
            at: now,
            sent: now,
            step: Step::Decide,
            replica: random.below(plan.replicas as usize),
            master: random.below(plan.masters as usize),
        }));
    }
    world.work_until(Nanos::MAX);
    let World { stations, waits, ran: (acknowledged, seen), .. } = world;
    let mut kinds = stations.iter().zip(waits).map(|(stations, waits)| {
        let busiest = stations.iter().map(|station| station.utilization(end));
        KindRan { utilization: busiest.fold(0.0, f64::max), waits }
    });
    let kinds = std::array::from_fn(|_| kinds.next().expect("four kinds"));
    Ran { changes, kinds, acknowledged, seen }
}

fn nanos(micros: f64) -> Nanos {
    (micros * 1000.0) as Nanos
}

impl World<'_> {
    /// Does what arrives before this time.
    fn work_until(&mut self, time: Nanos) {
        while let Some(Reverse(next)) = self.arrivals.peek().copied()
            && next.at < time
        {
            self.arrivals.pop();
            self.work(next);
        }
    }

    fn work(&mut self, arrival: Arrival) {
        let (costs, relays) = (&self.plan.costs, self.plan.relays as usize);
        let Arrival { at, sent, step, replica, master } = arrival;
        match step {
            Step::Decide => {
                let done = self.take(REPLICA, replica, at, costs.decide);
                self.send(arrival, done, Step::Write);
            }
            Step::Write => {
                // A lane sends what has queued meanwhile as one pipeline.
                let is_alone = !self.stations[MASTER][master].is_busy(at);
                let cost = if is_alone { costs.write_alone } else { costs.write_together };
                let done = self.take(MASTER, master, at, cost);
                count(&mut self.ran.0, done.saturating_add(self.hop) - sent);
                for follower in 0..self.plan.replicas as usize {
                    self.send(arrival, done, Step::Follow(follower));
                }
            }
            Step::Follow(follower) => {
                let follows = if follower == replica { 0.0 } else { costs.follow };
                let replicas = self.plan.replicas as usize;
                let uppers = (follower..self.plan.upper_relays as usize).step_by(replicas);
                let sends = uppers.clone().count() as f64 * costs.send;
                let done = self.take(REPLICA, follower, at, follows + sends);
                for upper in uppers {
                    self.send(arrival, done, Step::Upper(upper));
                }
            }
            Step::Upper(upper) => {
                let below = (upper..relays).step_by(self.plan.upper_relays as usize);
                let sends = below.clone().count() as f64 * costs.send;
                let done = self.take(UPPER, upper, at, costs.relay + sends);
                for relay in below {
                    self.send(arrival, done, Step::Relay(relay));
                }
            }
            Step::Relay(relay) => {
                let cost = costs.relay + self.plan.events() * costs.event;
                let done = self.take(RELAY, relay, at, cost);
                count(&mut self.ran.1, done.saturating_add(self.hop) - sent);
            }
        }
    }

    /// Lets a station work. Returns when it is done.
    fn take(&mut self, kind: usize, station: usize, at: Nanos, micros: f64) -> Nanos {
        let (waited, done) = self.stations[kind][station].take(at, nanos(micros));
        count(&mut self.waits[kind], waited);
        done
    }

    fn send(&mut self, arrival: Arrival, done: Nanos, step: Step) {
        self.arrivals.push(Reverse(Arrival { at: done.saturating_add(self.hop), step, ..arrival }));
    }
}
