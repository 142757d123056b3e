//! Every instrument of the process except those of the calls (`rpc.rs`): names, units, labels.
//!
//! Labels come from closed sets only, never from names of applications or units: the number of
//! series must not depend on what is reported. Counters that change with each report are plain
//! atomics that the readers read at collection, so that counting costs nanoseconds.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::slice;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry::metrics::{Histogram, Meter, MeterProvider, NoopMeterProvider};

use super::exemplar::Exemplars;
use super::files::{self, Ages};
use super::instrument::{Counters, Labels, NO_LABELS, counters, labels, up_down};
use super::offload::{OffloadInstruments, OffloadedWork, WaitingWork};
use super::process;
use super::rpc::{RpcInstruments, RpcMethod};
use super::space::SpaceGauges;
use crate::domain::classify::finding::Class;
use crate::domain::level::{LEVELS, Level};

/// Buckets of a commit in seconds. A commit is mostly one fsync: 0.1 ms on a good disk, seconds on
/// a failing one.
const COMMIT_SECONDS: &[f64] = &[
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5,
    5.0, 10.0,
];

const ERRORS: &str = "Errors that workers reported, by class.";

const BATCH_COMMANDS: &[f64] = &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0];

/// The result of one report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportResult {
    /// The report changed a record.
    Changed,
    /// The report repeated the stored status.
    Repeated,
    /// The report was refused.
    Rejected,
}

/// The result of one commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommitResult {
    /// The commit is durable.
    Ok,
    /// Another writer committed first.
    Conflict,
    /// The store reported an error other than a conflict.
    Failed,
}

impl CommitResult {
    /// The words, in the order of the variants.
    const WORDS: [&str; 3] = ["ok", "conflict", "failed"];

    /// Returns the word for labels and spans.
    pub fn word(self) -> &'static str {
        CommitResult::WORDS[self as usize]
    }
}

/// Why a connection was refused, or ended in favour of another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionEnd {
    /// Every place has an open call.
    Full,
    /// The peer already has its share.
    Share,
    /// The client did not complete the HTTP/2 handshake in time.
    Unfinished,
    /// The connection had no open call for the longest time.
    Idle,
    /// A connection of the ops port had to end for another one of it.
    Ops,
}

/// What was ended because its peer took nothing of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UntakenEnd {
    /// A stream of HTTP/2.
    Stream,
    /// A connection.
    Connection,
}

/// Why a call is refused before its handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecurityRefusal {
    /// The caller is not known.
    Credentials,
    /// The caller may not do this.
    Rights,
}

/// Where the server panicked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PanicPlace {
    /// In the handler of a call.
    Call,
    /// In the task of an application.
    Application,
}

/// The counts at each level, in the order of [`Level::ALL`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FleetCounts {
    /// Applications by their derived level.
    pub applications: [u64; LEVELS],
    /// Units that are stale, lost and uncertain.
    pub silent_units: [u64; 3],
    /// Units by their derived level.
    pub units: [u64; LEVELS],
    /// Contributions by level: statuses, errors, operations and overrides.
    pub statuses: [u64; LEVELS],
    /// Open errors.
    pub faults: u64,
    /// Applications with a leader that was elected here.
    pub leaders: u64,
}

/// The words for the units of [`FleetCounts::silent_units`].
pub(super) const FRESHNESS: [&str; 3] = ["stale", "lost", "uncertain"];

/// What is read at each collection, once the server has set it.
pub(super) type Readout<T> = Arc<OnceLock<Box<dyn Fn() -> T + Send + Sync>>>;

/// The instruments of this process; cheap to clone.
#[derive(Clone)]
pub struct Metrics(Arc<Instruments>);

struct Instruments {
    reports: Counters,
    errors: Counters,
    commits: Counters,
    commit_duration: Histogram<f64>,
    commit_batch_size: Histogram<u64>,
    connections: Arc<AtomicI64>,
    connections_ended: Counters,
    answer_bytes: Readout<u64>,
    untaken: Counters,
    watch_streams: Arc<AtomicI64>,
    watch_coalesced: Counters,
    sessions: Arc<AtomicI64>,
    observer_suspects: Arc<AtomicI64>,
    stale_files: Arc<AtomicI64>,
    file_ages: Ages,
    security_refusals: Counters,
    panics: Counters,
    limit_refusals: Readout<BTreeMap<String, u64>>,
    space: SpaceGauges,
    offload: OffloadInstruments,
    fleet: Readout<FleetCounts>,
    rpc: RpcInstruments,
}

impl Metrics {
    /// Registers every instrument with `meter`.
    pub(super) fn new(meter: &Meter, version: &str, exemplars: Exemplars) -> Self {
        own_process(meter, version);
        let up_down = |name, description| up_down(meter, name, description);
        let counters = |name, description, labels| counters(meter, name, description, labels);
        let results = labels("result", ["changed", "repeated", "rejected"]);
        let commit_results = labels("result", CommitResult::WORDS);
        let classes = Class::ALL.map(|class| class.word().to_ascii_lowercase());
        let classes = labels("class", classes);
        let instruments = Instruments {
            reports: counters("bellwether.reports", "Reports received.", results),
            errors: counters("bellwether.errors", ERRORS, classes),
            commits: counters("bellwether.commits", "Commits tried.", commit_results),
            commit_duration: meter
                .f64_histogram("bellwether.commit.duration")
                .with_unit("s")
                .with_description("Time until the store answered a commit.")
                .with_boundaries(COMMIT_SECONDS.to_vec())
                .build(),
            commit_batch_size: meter
                .u64_histogram("bellwether.commit.batch_size")
                .with_unit("{command}")
                .with_description("Commands that one commit carried.")
                .with_boundaries(BATCH_COMMANDS.to_vec())
                .build(),
            connections: up_down("bellwether.connections", "Connections that are open."),
            connections_ended: counters(
                "bellwether.connections.refused",
                "Connections that were refused, or ended to make room for another one.",
                labels("reason", ["full", "share", "unfinished", "idle", "ops"]),
            ),
            answer_bytes: answer_bytes(meter),
            untaken: untaken(meter),
            watch_streams: up_down("bellwether.watch.streams", "Watch streams that are open."),
            sessions: up_down("bellwether.sessions", "Sessions of workers that are open."),
            observer_suspects: up_down(
                "bellwether.observer.suspects",
                "Applications in self-preservation: so many of their units vanished at once that \
                 none is judged.",
            ),
            security_refusals: counters(
                "bellwether.security.refusals",
                "Calls that were refused: the caller is not known, or may not do it.",
                labels("reason", ["credentials", "rights"]),
            ),
            panics: counters(
                "bellwether.panics",
                "Bugs of the server that ended a call or the task of an application.",
                labels("place", ["call", "application"]),
            ),
            stale_files: up_down(
                "bellwether.security.stale_files",
                "Sets of security files that are invalid or silent; earlier ones are in force.",
            ),
            file_ages: files::register(meter),
            watch_coalesced: counters(
                "bellwether.watch.coalesced",
                "Changes that were conflated for a slow watcher.",
                NO_LABELS.to_vec(),
            ),
            limit_refusals: limit_refusals(meter),
            space: SpaceGauges::new(meter),
            offload: OffloadInstruments::new(meter),
            fleet: fleet(meter),
            rpc: RpcInstruments::new(meter, exemplars),
        };
        Self(Arc::new(instruments))
    }

    /// Returns instruments that no reader collects.
    pub fn disabled() -> Self {
        Self::new(&NoopMeterProvider::new().meter("bellwether"), "", Exemplars::default())
    }

    /// Counts one report.
    pub fn report(&self, result: ReportResult) {
        self.0.reports[result as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts one error of a class.
    pub fn error(&self, class: Class) {
        self.0.errors[class as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts one commit of `commands` commands that took `elapsed`.
    pub fn commit(&self, result: CommitResult, commands: usize, elapsed: Duration) {
        self.0.commits[result as usize].fetch_add(1, Ordering::Relaxed);
        self.0.commit_duration.record(elapsed.as_secs_f64(), &[]);
        self.0.commit_batch_size.record(commands as u64, &[]);
    }

    /// Adds `more` to the open connections; negative when they end.
    pub fn connections(&self, more: i64) {
        self.0.connections.fetch_add(more, Ordering::Relaxed);
    }

    /// Counts a connection that was refused or ended in favour of another one.
    pub fn connection_ended(&self, why: ConnectionEnd) {
        self.0.connections_ended[why as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a stream or connection that was ended because its peer took nothing of an answer.
    pub fn untaken(&self, what: UntakenEnd) {
        self.0.untaken[what as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Sets the source of the bytes of answers under way; only the first call of a process has an
    /// effect.
    pub fn observe_answers(&self, bytes: impl Fn() -> u64 + Send + Sync + 'static) {
        let _first_stays = self.0.answer_bytes.set(Box::new(bytes));
    }

    /// Counts a watch stream as open until the returned value is dropped.
    #[must_use = "the stream counts as open until this is dropped"]
    pub fn watch_stream(&self) -> WatchStream {
        self.0.watch_streams.fetch_add(1, Ordering::Relaxed);
        WatchStream(Arc::clone(&self.0.watch_streams))
    }

    /// Counts `changes` that were conflated for a slow watcher.
    pub fn watch_coalesced(&self, changes: u64) {
        self.0.watch_coalesced[0].fetch_add(changes, Ordering::Relaxed);
    }

    /// Adds `more` to the open sessions; negative when they end.
    pub fn sessions(&self, more: i64) {
        self.0.sessions.fetch_add(more, Ordering::Relaxed);
    }

    /// Sets the number of applications under self-preservation: so many of their units vanished
    /// together that none is judged.
    pub fn observer_suspects(&self, count: usize) {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        self.0.observer_suspects.store(count, Ordering::Relaxed);
    }

    /// Sets the free bytes of the store and its bytes in all; `None`: not known.
    pub fn store_space(&self, space: Option<[u64; 2]>) {
        self.0.space.set(space);
    }

    /// Counts a call that was refused before its handler.
    pub fn security_refusal(&self, why: SecurityRefusal) {
        self.0.security_refusals[why as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a panic that was caught.
    pub fn panic(&self, place: PanicPlace) {
        self.0.panics[place as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Sets the number of sets of security files that are invalid or do not answer, so that an
    /// earlier set is in force.
    pub fn stale_files(&self, count: usize) {
        self.0.stale_files.store(i64::try_from(count).unwrap_or(i64::MAX), Ordering::Relaxed);
    }

    /// Sets the source of the times since the security files were last read and valid, by the name
    /// of the set; only the first call of a process has an effect.
    pub fn observe_files(
        &self,
        ages: impl Fn() -> BTreeMap<&'static str, Duration> + Send + Sync + 'static,
    ) {
        let _first_stays = self.0.file_ages.set(Box::new(ages));
    }

    /// Sets the source of the counts by level; only the first call of a process has an effect.
    ///
    /// `counts` runs several times at each collection, on a thread of the reader: it should take
    /// microseconds, and must not block.
    pub fn observe_fleet(&self, counts: impl Fn() -> FleetCounts + Send + Sync + 'static) {
        let _first_stays = self.0.fleet.set(Box::new(counts));
    }

    /// Sets the source of the refusals by limit; only the first call of a process has an effect.
    pub fn observe_limits(
        &self,
        counts: impl Fn() -> BTreeMap<String, u64> + Send + Sync + 'static,
    ) {
        let _first_stays = self.0.limit_refusals.set(Box::new(counts));
    }

    /// Counts one piece of large work that begins beside the threads that serve connections.
    pub fn offloaded(&self, work: OffloadedWork) {
        self.0.offload.begun(work);
    }

    /// Counts large work as waiting until the returned value is dropped.
    #[must_use = "the work counts as waiting until this is dropped"]
    pub fn offload_waiting(&self) -> WaitingWork {
        self.0.offload.waiting()
    }

    /// Prepares the metrics of one method of the gRPC server.
    pub fn rpc_method(&self, name: &str) -> RpcMethod {
        RpcMethod::new(&self.0.rpc, name)
    }
}

/// An open watch stream, as counted by [`Metrics::watch_stream`].
#[derive(Debug)]
pub struct WatchStream(Arc<AtomicI64>);

impl Drop for WatchStream {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn untaken(meter: &Meter) -> Counters {
    let text = "Streams and connections that were ended: the peer took nothing of an answer.";
    counters(meter, "bellwether.answers.untaken", text, labels("what", ["stream", "connection"]))
}

fn answer_bytes(meter: &Meter) -> Readout<u64> {
    let bytes = Readout::<u64>::default();
    let read = Arc::clone(&bytes);
    meter
        .u64_observable_gauge("bellwether.answer.bytes")
        .with_description("Bytes that answers under way count: reserved, or not taken yet.")
        .with_callback(move |observer| {
            if let Some(bytes) = read.get() {
                observer.observe(bytes(), &[]);
            }
        })
        .build();
    bytes
}

fn limit_refusals(meter: &Meter) -> Readout<BTreeMap<String, u64>> {
    let refusals = Readout::<BTreeMap<String, u64>>::default();
    let read = Arc::clone(&refusals);
    meter
        .u64_observable_counter("bellwether.limit.refusals")
        .with_description("Requests that a limit refused, by the name of the limit.")
        .with_callback(move |observer| {
            for (limit, count) in read.get().into_iter().flat_map(|counts| counts()) {
                observer.observe(count, &[KeyValue::new("limit", limit)]);
            }
        })
        .build();
    refusals
}

fn fleet(meter: &Meter) -> Readout<FleetCounts> {
    let fleet = Readout::<FleetCounts>::default();
    let gauge = |name, description, labels: Labels, pick: fn(&FleetCounts) -> &[u64]| {
        let fleet = Arc::clone(&fleet);
        meter
            .u64_observable_gauge(name)
            .with_description(description)
            .with_callback(move |observer| {
                let Some(counts) = fleet.get() else { return };
                // A panic here would end the exporting thread silently.
                let Ok(counts) = catch_unwind(AssertUnwindSafe(counts)) else { return };
                for (count, labels) in pick(&counts).iter().zip(&labels) {
                    observer.observe(*count, labels);
                }
            })
            .build();
    };
    let levels = || labels("level", Level::ALL.map(Level::word));
    gauge("bellwether.applications", "Applications by level.", levels(), |c| &c.applications);
    gauge("bellwether.units", "Units by level.", levels(), |c| &c.units);
    gauge("bellwether.statuses", "Contributions by level.", levels(), |c| &c.statuses);
    let silent = labels("freshness", FRESHNESS);
    let text = "Units that are stale, lost or uncertain.";
    gauge("bellwether.units.silent", text, silent, |c| &c.silent_units);
    let total = || NO_LABELS.to_vec();
    gauge("bellwether.faults", "Errors that are open.", total(), |c| slice::from_ref(&c.faults));
    let text = "Applications with a leader that was elected here.";
    gauge("bellwether.leaders", text, total(), |c| slice::from_ref(&c.leaders));
    fleet
}

/// Registers what runs, and what it uses.
fn own_process(meter: &Meter, version: &str) {
    process::register(meter);
    let labels = [
        KeyValue::new("version", version.to_owned()),
        KeyValue::new("revision", env!("BELLWETHER_COMMIT")),
    ];
    meter
        .u64_observable_gauge("bellwether.build_info")
        .with_description("Always 1; the labels say what runs.")
        .with_callback(move |observer| observer.observe(1, &labels))
        .build();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::Telemetry;

    #[track_caller]
    fn assert_line(text: &str, line: &str) {
        assert!(text.lines().any(|each| each == line), "no line {line:?} in\n{text}");
    }

    #[test]
    fn on_prometheus_the_names_are_those_of_the_documentation() {
        let telemetry = Telemetry::local("1.2.3").unwrap();
        let metrics = telemetry.metrics();
        metrics.report(ReportResult::Changed);
        metrics.report(ReportResult::Changed);
        metrics.report(ReportResult::Rejected);
        metrics.error(Class::Transient);
        metrics.commit(CommitResult::Ok, 3, Duration::from_micros(300));
        metrics.watch_coalesced(5);
        metrics.connections(3);
        metrics.connections(-1);
        metrics.connection_ended(ConnectionEnd::Idle);
        let open = metrics.watch_stream();
        drop(metrics.watch_stream());
        let text = telemetry.prometheus().text();
        for line in [
            r#"bellwether_reports_total{result="changed"} 2"#,
            r#"bellwether_reports_total{result="repeated"} 0"#,
            r#"bellwether_reports_total{result="rejected"} 1"#,
            r#"bellwether_errors_total{class="transient"} 1"#,
            r#"bellwether_errors_total{class="fatal"} 0"#,
            r#"bellwether_commits_total{result="ok"} 1"#,
            r#"bellwether_commit_duration_seconds_bucket{le="0.00025"} 0"#,
            r#"bellwether_commit_duration_seconds_bucket{le="0.0005"} 1"#,
            r#"bellwether_commit_batch_size_bucket{le="2"} 0"#,
            r#"bellwether_commit_batch_size_bucket{le="4"} 1"#,
            "bellwether_watch_coalesced_total 5",
            "bellwether_connections 2",
            r#"bellwether_connections_refused_total{reason="idle"} 1"#,
            r#"bellwether_connections_refused_total{reason="full"} 0"#,
            "bellwether_watch_streams 1",
            concat!(
                r#"bellwether_build_info{revision=""#,
                env!("BELLWETHER_COMMIT"),
                r#"",version="1.2.3"} 1"#
            ),
        ] {
            assert_line(&text, line);
        }
        assert!(!text.contains("bellwether_applications"), "counted by nobody yet\n{text}");
        assert!(!text.contains("otel_scope"), "{text}");
        drop(open);
        assert_line(&telemetry.prometheus().text(), "bellwether_watch_streams 0");
    }

    #[test]
    fn the_fleet_is_counted_on_each_scrape() {
        let telemetry = Telemetry::local("1.2.3").unwrap();
        let metrics = telemetry.metrics();
        metrics.observe_fleet(|| FleetCounts {
            applications: [0, 0, 7, 0, 0, 2, 0],
            silent_units: [0, 5, 1],
            units: [0, 0, 9, 0, 0, 3, 1],
            statuses: [1, 0, 20, 0, 0, 3, 1],
            faults: 4,
            leaders: 2,
        });
        let text = telemetry.prometheus().text();
        assert_line(&text, r#"bellwether_applications{level="active"} 7"#);
        assert_line(&text, r#"bellwether_applications{level="error"} 0"#);
        assert_line(&text, r#"bellwether_units{level="blocked"} 3"#);
        assert_line(&text, r#"bellwether_statuses{level="unknown"} 1"#);
        assert_line(&text, "bellwether_faults 4");
        assert_line(&text, "bellwether_leaders 2");
        assert_line(&text, r#"bellwether_units_silent{freshness="lost"} 5"#);
    }

    #[test]
    fn a_fleet_that_cannot_be_counted_leaves_the_rest_readable() {
        let telemetry = Telemetry::local("1.2.3").unwrap();
        let metrics = telemetry.metrics();
        metrics.observe_fleet(|| panic!("on purpose, in a test"));
        for _ in 0..2 {
            let text = telemetry.prometheus().text();
            assert_line(&text, r#"bellwether_reports_total{result="changed"} 0"#);
            assert!(!text.contains("bellwether_applications"), "{text}");
        }
    }

    #[test]
    fn disabled_metrics_can_be_used_like_any() {
        let metrics = Metrics::disabled();
        metrics.report(ReportResult::Repeated);
        metrics.commit(CommitResult::Failed, 1, Duration::ZERO);
        metrics.observe_fleet(FleetCounts::default);
        metrics.rpc_method("a.B/C").call_finished(tonic::Code::Ok, false, Duration::ZERO, None);
    }
}
