//! Closed-loop load: each connection keeps a number of calls open, and sends the next when one
//! ends.
//!
//! One single-threaded runtime per core has a share of the connections each: a shared pool would
//! measure its own queues, and the runtime of the caller may have one thread only.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, bail};
use hdrhistogram::Histogram;
use tokio::sync::{Barrier, oneshot};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tonic::Status;
use tonic::transport::{Channel, Endpoint};

/// The call that one side repeats.
pub trait Work: Send + Sync + 'static {
    /// Sends call number `sequence` and waits for its acknowledgement. Each number is used once.
    fn call(
        &self,
        channel: Channel,
        sequence: u64,
    ) -> impl Future<Output = Result<(), Status>> + Send;
}

/// The load of one measurement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Connections.
    pub connections: usize,
    /// Calls open at once on each connection.
    pub in_flight: usize,
    /// Time before the window, which is not counted.
    pub warm_up: Duration,
    /// Time in which completed calls are counted.
    pub window: Duration,
}

/// The results of a load.
#[derive(Debug, Clone)]
pub struct Measured {
    /// Calls acknowledged within the window.
    pub acknowledged: u64,
    /// Length of the window.
    pub window: Duration,
    /// Microseconds that those calls took.
    pub latencies: Histogram<u64>,
    /// Failures by their message, warm-up included.
    pub failures: BTreeMap<String, u64>,
}

/// Longest latency that is recorded; a longer call counts as this long.
const LATENCY_MICROS_MAX: u64 = 60_000_000;

/// How long calls may take to end after the window. A server that takes longer counts as stuck.
const ANSWER_DEADLINE: Duration = Duration::from_secs(10);

/// A connection with this many failures ends its load: the run has failed, and more failures add
/// nothing.
const FAILURES_MAX: u64 = 10_000;

/// Pause after a failure, so that a server that refuses everything is not called in a tight loop.
const FAILURE_DELAY: Duration = Duration::from_millis(10);

impl Measured {
    /// Returns empty results.
    pub fn empty(window: Duration) -> anyhow::Result<Measured> {
        Ok(Measured {
            acknowledged: 0,
            window,
            latencies: Histogram::new_with_bounds(1, LATENCY_MICROS_MAX, 3)?,
            failures: BTreeMap::new(),
        })
    }

    /// Returns the acknowledged calls per second.
    pub fn per_second(&self) -> f64 {
        self.acknowledged as f64 / self.window.as_secs_f64()
    }

    /// Counts one acknowledged call.
    pub fn acknowledge(&mut self, latency: Duration) {
        self.acknowledged += 1;
        self.latencies.saturating_record(latency.as_micros() as u64);
    }

    /// Counts one failed call.
    pub fn fail(&mut self, status: &Status) {
        let what = format!("{:?}: {}", status.code(), status.message());
        *self.failures.entry(what).or_default() += 1;
    }

    /// Adds the results of another worker in the same window.
    pub fn merge(&mut self, other: &Measured) -> anyhow::Result<()> {
        self.acknowledged += other.acknowledged;
        self.latencies.add(&other.latencies)?;
        for (failure, count) in &other.failures {
            *self.failures.entry(failure.clone()).or_default() += count;
        }
        Ok(())
    }

    /// Fails if any call failed, with the messages and their counts.
    pub fn check(&self) -> anyhow::Result<()> {
        let count: u64 = self.failures.values().sum();
        if count == 0 {
            return Ok(());
        }
        let said = self.failures.iter().map(|(what, count)| format!("\n  {count} x {what}"));
        bail!("{count} calls failed:{}", said.collect::<String>());
    }
}

/// Runs `plan` against the server at `url`. Calls are numbered from `first`. Dropping the future
/// ends the load.
pub async fn run<W: Work>(
    work: Arc<W>,
    url: String,
    plan: Plan,
    first: u64,
) -> anyhow::Result<Measured> {
    run_at(work, Endpoint::from_shared(url)?, plan, first).await
}

/// Runs `plan` against an endpoint, which may have TLS.
pub async fn run_at<W: Work>(
    work: Arc<W>,
    endpoint: Endpoint,
    plan: Plan,
    first: u64,
) -> anyhow::Result<Measured> {
    let endpoint = endpoint.tcp_nodelay(true).connect_timeout(ANSWER_DEADLINE);
    let share = Share { work, endpoint, plan: plan.clone(), first };
    on_threads(&plan, move |part| share.clone().run(part)).await
}

/// The share of one thread.
pub struct Part {
    /// The numbers of its connections.
    pub connections: Vec<usize>,
    /// A barrier at which the threads wait until all have connected.
    pub connected: Arc<Barrier>,
}

/// Distributes the connections of a plan over single-threaded runtimes, one per core, and adds up
/// their results. Dropping the future ends them.
pub async fn on_threads<F, R>(plan: &Plan, share: F) -> anyhow::Result<Measured>
where
    F: Fn(Part) -> R + Clone + Send + 'static,
    R: Future<Output = anyhow::Result<Measured>>,
{
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = cores.min(plan.connections);
    let stop = CancellationToken::new();
    let _stop_when_dropped = stop.clone().drop_guard();
    let connected = Arc::new(Barrier::new(threads));
    let mut answers = Vec::new();
    for thread in 0..threads {
        let connections = (thread..plan.connections).step_by(threads).collect();
        let part = Part { connections, connected: connected.clone() };
        answers.push(start(share.clone(), part, stop.clone())?);
    }
    let mut total = Measured::empty(plan.window)?;
    // The first failure ends all threads: the others may be waiting for it to connect.
    let answers = answers.into_iter().map(|answer| async { answer.await.context("load thread")? });
    for measured in futures_util::future::try_join_all(answers).await? {
        total.merge(&measured)?;
    }
    Ok(total)
}

fn start<F, R>(
    share: F,
    part: Part,
    stop: CancellationToken,
) -> anyhow::Result<oneshot::Receiver<anyhow::Result<Measured>>>
where
    F: FnOnce(Part) -> R + Send + 'static,
    R: Future<Output = anyhow::Result<Measured>>,
{
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (answer, answered) = oneshot::channel();
    std::thread::Builder::new().name("load".to_string()).spawn(move || {
        let measured = runtime.block_on(async {
            tokio::select! {
                measured = share(part) => measured,
                () = stop.cancelled() => bail!("stopped"),
            }
        });
        // The receiver is gone if the load was stopped.
        let _ = answer.send(measured);
    })?;
    Ok(answered)
}

/// The share of the load of every thread.
struct Share<W> {
    work: Arc<W>,
    endpoint: Endpoint,
    plan: Plan,
    first: u64,
}

impl<W> Clone for Share<W> {
    fn clone(&self) -> Share<W> {
        let Share { work, endpoint, plan, first } = self;
        let (endpoint, plan) = (endpoint.clone(), plan.clone());
        Share { work: work.clone(), endpoint, plan, first: *first }
    }
}

impl<W: Work> Share<W> {
    async fn run(self, part: Part) -> anyhow::Result<Measured> {
        let mut channels = Vec::new();
        for connection in &part.connections {
            let channel = self.endpoint.connect().await.context("connect")?;
            channels.push((*connection, channel));
        }
        part.connected.wait().await;
        let opens = Instant::now() + self.plan.warm_up;
        let closes = opens + self.plan.window;
        let mut slots = JoinSet::new();
        let mut tallies = Vec::new();
        for (connection, channel) in channels {
            // Only the slots of this connection, all on this thread, take this lock.
            let tally = Arc::new(Mutex::new(Measured::empty(self.plan.window)?));
            tallies.push(tally.clone());
            for slot in 0..self.plan.in_flight {
                slots.spawn(drive(Slot {
                    work: self.work.clone(),
                    channel: channel.clone(),
                    next: self.first + (connection * self.plan.in_flight + slot) as u64,
                    step: (self.plan.connections * self.plan.in_flight) as u64,
                    opens,
                    closes,
                    tally: tally.clone(),
                }));
            }
        }
        tokio::time::timeout_at(closes + ANSWER_DEADLINE, slots.join_all()).await.with_context(
            || format!("calls are still open {} s after the end", ANSWER_DEADLINE.as_secs()),
        )?;
        let mut total = Measured::empty(self.plan.window)?;
        for tally in tallies {
            total.merge(&tally.lock().unwrap_or_else(PoisonError::into_inner))?;
        }
        Ok(total)
    }
}

/// One of the calls that a connection keeps open.
struct Slot<W> {
    work: Arc<W>,
    channel: Channel,
    next: u64,
    step: u64,
    opens: Instant,
    closes: Instant,
    tally: Arc<Mutex<Measured>>,
}

async fn drive<W: Work>(mut slot: Slot<W>) {
    let mut now = Instant::now();
    while now < slot.closes {
        let sent = now;
        let answer = slot.work.call(slot.channel.clone(), slot.next).await;
        slot.next += slot.step;
        now = Instant::now();
        match answer {
            Ok(()) if now >= slot.opens && now < slot.closes => {
                let mut tally = slot.tally.lock().unwrap_or_else(PoisonError::into_inner);
                tally.acknowledge(now - sent);
            }
            Ok(()) => {}
            Err(status) => {
                let failures = {
                    let mut tally = slot.tally.lock().unwrap_or_else(PoisonError::into_inner);
                    tally.fail(&status);
                    tally.failures.values().sum::<u64>()
                };
                if failures >= FAILURES_MAX {
                    return;
                }
                tokio::time::sleep(FAILURE_DELAY).await;
                now = Instant::now();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_add_up() {
        let mut total = Measured::empty(Duration::from_secs(2)).unwrap();
        for millis in [1, 3] {
            let mut worker = Measured::empty(Duration::from_secs(2)).unwrap();
            for _ in 0..100 {
                worker.acknowledge(Duration::from_millis(millis));
            }
            total.merge(&worker).unwrap();
        }
        assert_eq!(total.per_second(), 100.0);
        assert!((999..=1001).contains(&total.latencies.value_at_quantile(0.5)));
        assert!((2990..=3010).contains(&total.latencies.value_at_quantile(0.99)));
        total.check().unwrap();
    }

    #[test]
    fn failures_are_counted_and_printed() {
        let mut total = Measured::empty(Duration::from_secs(1)).unwrap();
        let mut worker = total.clone();
        worker.fail(&Status::unavailable("draining"));
        worker.fail(&Status::unavailable("draining"));
        total.merge(&worker).unwrap();
        total.merge(&worker).unwrap();
        let error = total.check().unwrap_err().to_string();
        assert_eq!(error, "4 calls failed:\n  4 x Unavailable: draining");
    }

    struct Refused;

    impl Work for Refused {
        async fn call(&self, _: Channel, _: u64) -> Result<(), Status> {
            Err(Status::unavailable("never sent"))
        }
    }

    #[tokio::test]
    async fn a_missing_server_is_an_error_without_a_wait() {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let plan = Plan {
            connections: 3,
            in_flight: 1,
            warm_up: Duration::ZERO,
            window: Duration::from_secs(60),
        };
        let load = run(Arc::new(Refused), format!("http://{free}"), plan, 0);
        let error = tokio::time::timeout(Duration::from_secs(5), load).await.unwrap().unwrap_err();
        assert!(format!("{error:#}").contains("connect"), "{error:#}");
    }
}
