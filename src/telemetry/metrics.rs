//! Every instrument of the process except those of the calls (`rpc.rs`): names, units, labels.
//!
//! Labels come from closed sets only, never from names of applications or units: the number of
//! series must not depend on what is reported. Counters that change with each report are plain
//! atomics that the readers read at collection, so that counting costs nanoseconds.

use std::sync::Arc;
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry::metrics::{Meter, MeterProvider, NoopMeterProvider};

use super::blockers::BlockerGauges;
use super::commit::CommitInstruments;
use super::exemplar::Exemplars;
use super::fleet::{self, FleetCounts};
use super::instrument::{
    Ages, Counter, CounterBy, HeldCount, Instrument, Readout, Refusals, Supplied, UpDown,
};
use super::label::{
    CommitResult, ConnectionEnd, OffloadedWork, PanicPlace, ReportResult, ResyncCause,
    SecurityRefusal, UntakenEnd,
};
use super::process;
use super::relay::{RelayGauges, RelayState};
use super::rpc::{RpcInstruments, RpcMethod};
use super::space::SpaceGauges;
use crate::domain::classify::finding::Class;

/// The instruments of this process; cheap to clone.
#[derive(Clone)]
pub struct Metrics(Arc<Instruments>);

struct Instruments {
    table: Table,
    commits: CommitInstruments,
    space: SpaceGauges,
    blockers: BlockerGauges,
    relay: RelayGauges,
    fleet: Readout<FleetCounts>,
    rpc: RpcInstruments,
}

macro_rules! table {
    ($(
        $(#[doc = $about:literal])+
        $method:ident($($value:ident: $type:ty)?) $(-> $answer:ty)?:
            $instrument:ty => $change:ident, $name:literal, $description:literal;
    )+) => {
        /// The instruments that one event changes, each under the name of its method.
        struct Table {
            $($method: $instrument,)+
        }

        impl Table {
            fn register(meter: &Meter) -> Table {
                Table { $($method: Instrument::register(meter, $name, $description),)+ }
            }
        }

        impl Metrics {
            $(
                $(#[doc = $about])+
                pub fn $method(&self $(, $value: $type)?) $(-> $answer)? {
                    self.0.table.$method.$change($($value)?)
                }
            )+
        }
    };
}

// The method of `Metrics` and its value; the instrument and what the method does with it; the name
// and the description of the metric.
table! {
    /// Counts one report.
    report(result: ReportResult): CounterBy<ReportResult> => count,
        "bellwether.reports", "Reports received.";

    /// Counts one error of a class.
    error(class: Class): CounterBy<Class> => count,
        "bellwether.errors", "Errors that workers reported, by class.";

    /// Adds `more` to the open connections; negative when they end.
    connections(more: i64): UpDown => add,
        "bellwether.connections", "Connections that are open.";

    /// Counts a connection that was refused or ended in favour of another one.
    connection_ended(why: ConnectionEnd): CounterBy<ConnectionEnd> => count,
        "bellwether.connections.refused",
        "Connections that were refused, or ended to make room for another one.";

    /// Sets the source of the bytes of answers under way; only the first call of a process has an
    /// effect.
    observe_answers(bytes: impl Fn() -> u64 + Send + Sync + 'static): Supplied<u64> => set,
        "bellwether.answer.bytes",
        "Bytes that answers under way count: reserved, or not taken yet.";

    /// Counts a stream or connection that was ended because its peer took nothing of an answer.
    untaken(what: UntakenEnd): CounterBy<UntakenEnd> => count,
        "bellwether.answers.untaken",
        "Streams and connections that were ended: the peer took nothing of an answer.";

    /// Counts a watch stream as open until the returned value is dropped.
    watch_stream() -> HeldCount: UpDown => hold,
        "bellwether.watch.streams", "Watch streams that are open.";

    /// Counts `changes` that were conflated for a slow watcher.
    watch_coalesced(changes: u64): Counter => add,
        "bellwether.watch.coalesced", "Changes that were conflated for a slow watcher.";

    /// Adds `more` to the open sessions; negative when they end.
    sessions(more: i64): UpDown => add,
        "bellwether.sessions", "Sessions of workers that are open.";

    /// Sets the number of applications under self-preservation: so many of their units vanished
    /// together that none is judged.
    observer_suspects(count: usize): UpDown => set,
        "bellwether.observer.suspects",
        "Applications in self-preservation: so many of their units vanished at once that none is \
         judged.";

    /// Counts a call that was refused before its handler.
    security_refusal(why: SecurityRefusal): CounterBy<SecurityRefusal> => count,
        "bellwether.security.refusals",
        "Calls that were refused: the caller is not known, or may not do it.";

    /// Counts a copy of a relay that starts over.
    relay_resync(cause: ResyncCause): CounterBy<ResyncCause> => count,
        "bellwether.relay.resyncs", "Of a relay: times that its copy started over, by cause.";

    /// Counts a panic that was caught.
    panic(place: PanicPlace): CounterBy<PanicPlace> => count,
        "bellwether.panics",
        "Bugs of the server that ended a call or the task of an application.";

    /// Sets the number of sets of security files that are invalid or do not answer, so that an
    /// earlier set is in force.
    stale_files(count: usize): UpDown => set,
        "bellwether.security.stale_files",
        "Sets of security files that are invalid or silent; earlier ones are in force.";

    /// Sets the source of the times since the security files were last read and valid, by the name
    /// of the set; only the first call of a process has an effect.
    observe_files(ages: impl Fn() -> Ages + Send + Sync + 'static): Supplied<Ages> => set,
        "bellwether.security.files_age",
        "Time since the security files were last read and valid, by set.";

    /// Sets the source of the refusals by limit; only the first call of a process has an effect.
    observe_limits(counts: impl Fn() -> Refusals + Send + Sync + 'static):
        Supplied<Refusals> => set,
        "bellwether.limit.refusals", "Requests that a limit refused, by the name of the limit.";

    /// Counts one piece of large work that begins beside the threads that serve connections.
    offloaded(work: OffloadedWork): CounterBy<OffloadedWork> => count,
        "bellwether.offloaded",
        "Large requests and answers that were decoded or rendered beside the threads that serve \
         connections.";

    /// Counts large work as waiting until the returned value is dropped.
    offload_waiting() -> HeldCount: UpDown => hold,
        "bellwether.offload.waiting", "Large requests and answers that wait for their turn.";
}

impl Metrics {
    /// Registers every instrument with `meter`.
    pub(super) fn new(meter: &Meter, version: &str, exemplars: Exemplars) -> Self {
        own_process(meter, version);
        Self(Arc::new(Instruments {
            table: Table::register(meter),
            commits: CommitInstruments::new(meter),
            space: SpaceGauges::new(meter),
            blockers: BlockerGauges::new(meter),
            relay: RelayGauges::new(meter),
            fleet: fleet::register(meter),
            rpc: RpcInstruments::new(meter, exemplars),
        }))
    }

    /// Returns instruments that no reader collects.
    pub fn disabled() -> Self {
        Self::new(&NoopMeterProvider::new().meter("bellwether"), "", Exemplars::default())
    }

    /// Counts one commit of `commands` commands that took `elapsed`.
    pub fn commit(&self, result: CommitResult, commands: usize, elapsed: Duration) {
        self.0.commits.count(result, commands, elapsed);
    }

    /// Sets the free bytes of the store and its bytes in all; `None`: not known.
    pub fn store_space(&self, space: Option<[u64; 2]>) {
        self.0.space.set(space);
    }

    /// Sets the source of the counts by level; only the first call of a process has an effect.
    ///
    /// `counts` runs several times at each collection, on a thread of the reader: it should take
    /// microseconds, and must not block.
    pub fn observe_fleet(&self, counts: impl Fn() -> FleetCounts + Send + Sync + 'static) {
        let _first_stays = self.0.fleet.set(Box::new(counts));
    }

    /// Sets the number of first causes of each state; `None`: not known.
    pub fn blockers(&self, counts: Option<[u64; 6]>) {
        self.0.blockers.set(counts);
    }

    /// Sets how the copy of a relay is.
    pub fn relay(&self, state: RelayState) {
        self.0.relay.set(state);
    }

    /// Records how long it took to follow the needs of all applications.
    pub fn blockers_evaluated(&self, time: Duration) {
        self.0.blockers.evaluated(time);
    }

    /// Prepares the metrics of one method of the gRPC server.
    pub fn rpc_method(&self, name: &str) -> RpcMethod {
        RpcMethod::new(&self.0.rpc, name)
    }
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
