//! `marks`: many marks that end at the same moment. Measures how long until a watcher has received
//! each application without them.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use anyhow::{Context, bail, ensure};
use bellwether::proto::v1::application_service_client::ApplicationServiceClient;
use bellwether::proto::v1::report_service_client::ReportServiceClient;
use bellwether::proto::v1::watch_applications_response::Event;
use bellwether::proto::v1::{
    AggregatedStatus, DeleteApplicationRequest, Level, Mark, MarkKind, ReportStatusRequest,
    SetMarkRequest, StatusReport, WatchApplicationsRequest, WatchApplicationsResponse,
};
use futures_util::stream::{self, StreamExt, TryStreamExt};
use hdrhistogram::Histogram;
use tokio::time::Instant;
use tonic::transport::Channel;
use tonic::{Status, Streaming};

use crate::Load;
use crate::delay::{self, DelayRow, DelaySide};
use crate::ingest::Store;
use crate::machine::Machine;
use crate::replicas::Peer;
use crate::report::Report;
use crate::rounds::{self, Contender};
use crate::scalar::{AnyRow, Done, ScalarRow, ScalarSide, Target};
use crate::testbed::Testbed;
use crate::{open_loop, runtime};

/// Flags of `marks`.
#[derive(Debug, clap::Args)]
pub struct Marks {
    /// Marks that end together, half of them acknowledged problems, half planned work
    #[arg(long, default_value_t = 100_000)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub marks: u64,
    /// Applications that they are spread over; each takes 64
    #[arg(long, default_value_t = 1_600, value_name = "COUNT")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub applications: u64,
    /// Store of our server
    #[arg(long, value_enum, default_value_t = Store::Embedded)]
    pub store: Store,
    /// The load of each measurement.
    #[command(flatten)]
    pub load: Load,
}

/// The limit for the end and publication of all marks.
const ALL_TARGET_SECONDS: f64 = 1.0;
/// Calls open at once while marks are set.
const SETTING_MAX: usize = 512;
/// One mark in so many is set first, to estimate the time for all.
const PILOTS_ONE_IN: u64 = 50;
/// The least time between the last call and the end of the marks.
const LEAD_MIN: Duration = Duration::from_secs(3);
/// A later call is too late for this end.
const LEFT_MIN: Duration = Duration::from_secs(1);
/// Attempts to choose that end, each twice as far away as the last.
const LEADS_MAX: u32 = 4;
/// How early a mark may end: its end has whole milliseconds.
const EARLY_MAX: Duration = Duration::from_millis(3);
/// A watch without events for this long counts as stuck.
const QUIET_MAX: Duration = Duration::from_secs(30);

/// Runs the command.
pub async fn run(args: Marks) -> anyhow::Result<()> {
    let site = args.load.site()?;
    let machine = Machine::look(&site.directory);
    let testbed = Testbed::start(args.store, Peer::None, "", &site).await?;
    let (address, connections) = (testbed.server.grpc, args.load.connections as usize);
    let (marks, applications) = (args.marks, args.applications.min(args.marks));
    let name = Testbed::name();
    let contenders = [Contender::new(name.clone(), move |first| {
        let fleet = Fleet { namespace: format!("marks-{first:x}"), marks, applications };
        Box::pin(runtime::apart(fleet.end_together(address, connections)))
    })];
    let measured = rounds::alternate(&contenders, args.load.rounds).await?;
    let rounds = measured.first().context("nothing was measured")?;
    let all = |round: &Histogram<u64>| round.max() as f64 / 1e6;
    let until_all = ScalarRow::compare(
        format!("All ended marks of {applications} applications published"),
        "seconds",
        ScalarSide::greatest(&name, rounds.iter().map(all).collect()),
        None,
        Some(Target::AtMost(ALL_TARGET_SECONDS)),
    );
    let each = DelayRow::compare(
        "From the end of its marks until a watcher knows, each application",
        DelaySide::spanning(&name, &rounds.iter().collect::<Vec<_>>())?,
        None,
        None,
    );
    let sent = Done {
        workers: args.marks,
        peer_workers: 0,
        connections: args.load.connections,
        rounds: args.load.rounds,
        how: format!(
            "marks, {}; all end in the same moment, from which times count",
            testbed.place(args.store),
        ),
    };
    let rows = vec![AnyRow::Scalar(until_all), AnyRow::Delay(each)];
    Report { machine, sent, rows }.print(args.load.json)
}

/// The applications of one round, in a namespace of their own.
#[derive(Debug, Clone)]
struct Fleet {
    namespace: String,
    marks: u64,
    applications: u64,
}

impl Fleet {
    async fn end_together(
        self,
        address: SocketAddr,
        connections: usize,
    ) -> anyhow::Result<Histogram<u64>> {
        let channels = open_loop::connect(address, connections).await?;
        self.report(&channels).await?;
        let start = Instant::now();
        let pilots = self.marks.div_ceil(PILOTS_ONE_IN);
        self.set(&channels, pilots, End::after(Duration::from_secs(3600))).await?;
        let all = start.elapsed() * u32::try_from(self.marks.div_ceil(pilots)).unwrap_or(u32::MAX);
        // Half as long again: a mark costs more in an application that has some.
        let mut lead = LEAD_MIN + all.mul_f64(1.5);
        let mut end = End::after(lead);
        for _ in 0..LEADS_MAX {
            self.set(&channels, self.marks, end).await?;
            if Instant::now() + LEFT_MIN <= end.at {
                break;
            }
            lead *= 2;
            end = End::after(lead);
        }
        ensure!(Instant::now() < end.at, "marks take too long to set; give fewer --marks");
        let watcher = open_loop::connect(address, 1).await?.remove(0);
        let watch = self.watch(watcher.clone()).await?;
        let delays = self.ended(watch, end.at).await?;
        self.delete(&channels).await?;
        Ok(delays)
    }

    fn application(&self, number: u64) -> String {
        format!("app-{:05}", number % self.applications)
    }

    /// Reports a problem of each application.
    async fn report(&self, channels: &[Channel]) -> anyhow::Result<()> {
        let calls = stream::iter(0..self.applications).map(|number| {
            let channel = channels[number as usize % channels.len()].clone();
            let application = self.application(number);
            let request = ReportStatusRequest {
                namespace: self.namespace.clone(),
                unit: format!("{application}/0"),
                application,
                status: Some(StatusReport {
                    level: Level::Blocked.into(),
                    message: "no database".into(),
                    ..StatusReport::default()
                }),
                ..ReportStatusRequest::default()
            };
            async move { ReportServiceClient::new(channel).report_status(request).await.map(drop) }
        });
        let made: Result<(), Status> = calls.buffer_unordered(SETTING_MAX).try_collect().await;
        made.context("report each application once")
    }

    /// Sets the first marks, with this end.
    async fn set(&self, channels: &[Channel], count: u64, end: End) -> anyhow::Result<()> {
        let calls = stream::iter(0..count).map(|number| {
            let channel = channels[number as usize % channels.len()].clone();
            let request = self.mark(number, end);
            async move {
                if end.at < Instant::now() + LEFT_MIN {
                    // Too late for this moment: all are set again for a later one.
                    return Ok(());
                }
                ApplicationServiceClient::new(channel).set_mark(request).await.map(drop)
            }
        });
        let made: Result<(), Status> = calls.buffer_unordered(SETTING_MAX).try_collect().await;
        made.context("set marks")
    }

    fn mark(&self, number: u64, end: End) -> SetMarkRequest {
        let application = self.application(number);
        let turn = number / self.applications;
        let kind = match turn % 2 {
            0 => MarkKind::Planned,
            _ => MarkKind::Acknowledged,
        };
        SetMarkRequest {
            namespace: self.namespace.clone(),
            mark: Some(Mark {
                mark_id: format!("mark-{turn}"),
                kind: kind.into(),
                unit: format!("{application}/0"),
                end_time: Some(end.time.into()),
                reason: "new disks".into(),
                author: "bench".into(),
                ..Mark::default()
            }),
            application,
            ..SetMarkRequest::default()
        }
    }

    async fn watch(
        &self,
        channel: Channel,
    ) -> anyhow::Result<Streaming<WatchApplicationsResponse>> {
        let namespace = self.namespace.clone();
        let request = WatchApplicationsRequest { namespace, ..Default::default() };
        let mut client = ApplicationServiceClient::new(channel);
        Ok(client.watch_applications(request).await.context("watch")?.into_inner())
    }

    /// Measures how long after `end` a watcher received each application without a mark.
    async fn ended(
        &self,
        mut watch: Streaming<WatchApplicationsResponse>,
        end: Instant,
    ) -> anyhow::Result<Histogram<u64>> {
        let mut delays = delay::histogram()?;
        let mut ended: HashSet<String> = HashSet::new();
        while (ended.len() as u64) < self.applications {
            let quiet_until = end.max(Instant::now()) + QUIET_MAX;
            let answer = tokio::time::timeout_at(quiet_until, watch.message()).await;
            let answer = answer.with_context(|| {
                let (known, all) = (ended.len(), self.applications);
                format!("only {known} of {all} applications changed, and nothing more happens")
            })?;
            let application = match answer?.context("the watch has ended")?.event {
                Some(Event::Upserted(application)) => application,
                Some(Event::Drain(_)) | None => bail!("the server drains the watch"),
                Some(_) => continue,
            };
            let now = Instant::now();
            if application.status.as_ref().is_some_and(is_marked) || !ended.insert(application.name)
            {
                continue;
            }
            ensure!(end <= now + EARLY_MAX, "marks ended before their time");
            delay::record(&mut delays, now.saturating_duration_since(end), 1);
        }
        Ok(delays)
    }

    /// Deletes the applications, so that the next round starts with the same server.
    async fn delete(&self, channels: &[Channel]) -> anyhow::Result<()> {
        let calls = stream::iter(0..self.applications).map(|number| {
            let mut client =
                ApplicationServiceClient::new(channels[number as usize % channels.len()].clone());
            let request = DeleteApplicationRequest {
                namespace: self.namespace.clone(),
                application: self.application(number),
                ..DeleteApplicationRequest::default()
            };
            async move { client.delete_application(request).await.map(drop) }
        });
        let made: Result<(), Status> = calls.buffer_unordered(SETTING_MAX).try_collect().await;
        made.context("delete the applications")
    }
}

/// Returns whether a mark decides what an application shows.
fn is_marked(status: &AggregatedStatus) -> bool {
    status.planned || status.acknowledged || status.level() != Level::Blocked
}

/// The end of marks, by both clocks.
#[derive(Debug, Clone, Copy)]
struct End {
    at: Instant,
    time: SystemTime,
}

impl End {
    fn after(left: Duration) -> End {
        End { at: Instant::now() + left, time: SystemTime::now() + left }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_application_has_marks_of_both_kinds_that_end_together() {
        let fleet = Fleet { namespace: "n".into(), marks: 12, applications: 3 };
        let end = End::after(Duration::from_secs(60));
        let made: Vec<_> = (0..fleet.marks).map(|number| fleet.mark(number, end)).collect();
        let mark = |request: &SetMarkRequest| request.mark.clone().unwrap();
        let names: HashSet<_> = made
            .iter()
            .map(|request| (request.application.clone(), mark(request).mark_id))
            .collect();
        assert_eq!(names.len(), 12);
        let of_one = made.iter().filter(|request| request.application == "app-00001").map(mark);
        let planned = of_one.filter(|mark| mark.kind() == MarkKind::Planned).count();
        assert_eq!(planned, 2);
        assert!(made.iter().all(|request| mark(request).end_time == Some(end.time.into())));
    }

    #[test]
    fn an_application_is_marked_until_both_kinds_have_ended() {
        let status = |level: Level, planned, acknowledged| AggregatedStatus {
            level: level.into(),
            planned,
            acknowledged,
            ..AggregatedStatus::default()
        };
        assert!(is_marked(&status(Level::Maintenance, true, true)));
        assert!(is_marked(&status(Level::Blocked, false, true)));
        assert!(!is_marked(&status(Level::Blocked, false, false)));
    }
}
