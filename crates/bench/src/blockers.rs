//! `blockers`: the time of ListBlockers in fleets of applications that need each other, and of an
//! explanation with a chain of needs beside one without.
//!
//! Each list waits until the server evaluates the needs anew: within 0.2 s it would answer from the
//! last evaluation, because no application changes.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use bellwether::proto::v1::application_service_client::ApplicationServiceClient;
use bellwether::proto::v1::need::Object;
use bellwether::proto::v1::report_service_client::ReportServiceClient;
use bellwether::proto::v1::{
    ApplicationNeed, ExplainApplicationRequest, Level, ListBlockersRequest, Need,
    ReportStatusRequest, StatusReport,
};
use futures_util::stream::{self, StreamExt, TryStreamExt};
use hdrhistogram::Histogram;
use tonic::Status;
use tonic::transport::Channel;

use crate::Load;
use crate::delay::{self, DelayRow, DelaySide};
use crate::figure::thousands;
use crate::ingest::Store;
use crate::machine::Machine;
use crate::needs;
use crate::open_loop;
use crate::replicas::Peer;
use crate::report::Report;
use crate::rounds::Progress;
use crate::scalar::{AnyRow, Done};
use crate::testbed::Testbed;

/// Flags of `blockers`.
#[derive(Debug, clap::Args)]
pub struct Blockers {
    /// Applications of each fleet
    #[arg(long, num_args = 1..=4, default_values_t = [10_000, 100_000], value_name = "COUNT")]
    #[arg(value_parser = clap::value_parser!(u64).range(100..=200_000))]
    pub applications: Vec<u64>,
    /// Needs of each application that waits
    #[arg(long, default_value_t = 5)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=8))]
    pub needs: u64,
    /// Calls of each kind
    #[arg(long, default_value_t = 100)]
    #[arg(value_parser = clap::value_parser!(u64).range(2..=10_000))]
    pub calls: u64,
    /// The load of each measurement.
    #[command(flatten)]
    pub load: Load,
}

/// Calls open at once while applications report for the first time.
const FILLING_MAX: usize = 64;
/// Pause after which the server evaluates needs anew.
const PAUSE: Duration = Duration::from_millis(250);
/// Applications up to which a list has the shorter limit.
const FEW: u64 = 10_000;
/// The limit of the 99th percentile of a list: of few applications, and of ten times as many.
const LIST_TARGETS_SECONDS: [f64; 2] = [0.05, 0.2];
/// How many times an explanation with a chain may take as long as one without.
const EXPLAIN_RATIO_MAX: f64 = 1.5;

/// Runs the command.
pub async fn run(args: Blockers) -> anyhow::Result<()> {
    let site = args.load.site()?;
    let machine = Machine::look(&site.directory);
    let mut rows = Vec::new();
    for count in &args.applications {
        let testbed = Testbed::start(Store::Memory, Peer::None, "", &site).await?;
        let progress = Progress::new();
        progress.say("reporting every application once");
        let channels = open_loop::connect(testbed.server.grpc, args.load.connections as usize);
        let channels = channels.await?;
        fill(&channels, *count, args.needs).await?;
        progress.say("listing what blocks");
        let mut client = ApplicationServiceClient::new(channels[0].clone());
        rows.push(list_row(&mut client, &args, *count).await?);
        progress.say("explaining");
        rows.push(explain_row(&mut client, &args, *count).await?);
    }
    let how = format!(
        "{} calls of each kind, one after another, {} ms after the last one; {} needs each",
        args.calls,
        PAUSE.as_millis(),
        args.needs
    );
    let connections = args.load.connections;
    let sent = Done { workers: 1, peer_workers: 1, connections, rounds: 1, how };
    Report { machine, sent, rows }.print(args.load.json)
}

/// Reports each application once: first causes, and those that wait for others.
async fn fill(channels: &[Channel], count: u64, needs: u64) -> anyhow::Result<()> {
    let calls = stream::iter(0..count).map(|number| {
        let channel = channels[number as usize % channels.len()].clone();
        let request = report(number, needs);
        async move { ReportServiceClient::new(channel).report_status(request).await.map(drop) }
    });
    let made: Result<(), Status> = calls.buffer_unordered(FILLING_MAX).try_collect().await;
    made.context("report each application once")
}

fn report(number: u64, needs: u64) -> ReportStatusRequest {
    let application = needs::name(number as usize);
    let needed = needs::needed(number as usize, needs as usize);
    let level = if needed.is_empty() { Level::Blocked } else { Level::Waiting };
    let needs = needed.into_iter().map(|to| {
        let application = needs::name(to);
        let needed = ApplicationNeed { application, ..ApplicationNeed::default() };
        Need { object: Some(Object::Application(needed)) }
    });
    ReportStatusRequest {
        unit: format!("{application}/0"),
        application,
        status: Some(StatusReport {
            level: level.into(),
            message: format!("turn {number:06}"),
            needs: needs.collect(),
            ..StatusReport::default()
        }),
        ..ReportStatusRequest::default()
    }
}

async fn list_row(
    client: &mut ApplicationServiceClient<Channel>,
    args: &Blockers,
    count: u64,
) -> anyhow::Result<AnyRow> {
    let mut times = delay::histogram()?;
    for _ in 0..args.calls {
        tokio::time::sleep(PAUSE).await;
        let begun = Instant::now();
        let answer = client.list_blockers(ListBlockersRequest::default()).await?.into_inner();
        delay::record(&mut times, begun.elapsed(), 1);
        ensure!(!answer.blockers.is_empty(), "nothing blocks");
    }
    let work = format!("ListBlockers, the first page, of {} applications", of(count));
    let target = LIST_TARGETS_SECONDS[usize::from(FEW < count)];
    let side = DelaySide::spanning(&Testbed::name(), &[&times])?;
    Ok(AnyRow::Delay(DelayRow::compare(&work, side, None, Some(target))))
}

/// Explains an application with the longest chain beside a first cause, which needs nothing.
async fn explain_row(
    client: &mut ApplicationServiceClient<Channel>,
    args: &Blockers,
    count: u64,
) -> anyhow::Result<AnyRow> {
    let mut sides: Vec<Histogram<u64>> = Vec::new();
    for number in [count as usize - 1, 0] {
        let mut times = delay::histogram()?;
        for _ in 0..args.calls * 10 {
            let application = needs::name(number);
            let request = ExplainApplicationRequest { application, ..Default::default() };
            let begun = Instant::now();
            let answer = client.explain_application(request).await?.into_inner();
            delay::record(&mut times, begun.elapsed(), 1);
            ensure!(answer.causes.is_empty() == (number == 0), "another chain");
        }
        sides.push(times);
    }
    let side = |name, times| DelaySide::spanning(name, &[times]);
    let (with, without) = (side("with causes", &sides[0])?, side("without", &sides[1])?);
    let work = format!("ExplainApplication in a fleet of {} applications", of(count));
    let row = DelayRow::compare(&work, with, Some(without), None);
    Ok(AnyRow::Delay(row.at_most_of_peer(EXPLAIN_RATIO_MAX)))
}

fn of(count: u64) -> String {
    thousands(count as f64)
}
