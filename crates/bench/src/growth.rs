//! `growth`: the cost of a report in an application with many statuses beside one with few,
//! and the time to explain an application with many units.
//!
//! It measures the real server, because a copy or a scan may hide in any layer, and counts the
//! processor time of its process, because the load shares the machine.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use bellwether::proto::v1::application_service_client::ApplicationServiceClient;
use bellwether::proto::v1::connect_request::Message as Said;
use bellwether::proto::v1::report_service_client::ReportServiceClient;
use bellwether::proto::v1::{ConnectRequest, ConnectResponse, ExplainApplicationRequest};
use bellwether::proto::v1::{ExplainApplicationResponse, Level, ReportStatusRequest};
use bellwether::proto::v1::{StatusKind, StatusReport};
use futures_util::stream::{self, StreamExt, TryStreamExt};
use tonic::transport::Channel;
use tonic::{Status, Streaming};

use crate::Load;
use crate::cold::Lines;
use crate::cost::Cost;
use crate::delay::{DelayRow, DelaySide};
use crate::figure::thousands;
use crate::ingest::Store;
use crate::load::{self, Measured, Plan, Work};
use crate::machine::Machine;
use crate::open_loop;
use crate::pipelined::{self, Exchange, Messages};
use crate::replicas::Peer;
use crate::report::{Report, Row, Side};
use crate::rounds::{self, Contender, Progress};
use crate::scalar::{AnyRow, Done, ScalarRow, ScalarSide};
use crate::streams::Reports;
use crate::testbed::Testbed;

/// Flags of `growth`.
#[derive(Debug, clap::Args)]
pub struct Growth {
    /// Statuses of the large application
    #[arg(long, default_value_t = 100_000)]
    #[arg(value_parser = clap::value_parser!(u64).range(1000..=100_000))]
    pub statuses: u64,
    /// Units of the application that is explained
    #[arg(long, default_value_t = 10_000)]
    #[arg(value_parser = clap::value_parser!(u64).range(200..=100_000))]
    pub units: u64,
    /// Store of our server
    #[arg(long, value_enum, default_value_t = Store::Memory)]
    pub store: Store,
    /// The load of each measurement.
    #[command(flatten)]
    pub load: Load,
}

/// Statuses, or units, of the small application.
const FEW: u64 = 100;
/// Streams on each connection, each of a unit of its own.
const STREAMS: usize = 4;
/// The lines of memory that a report in the large application reads beyond one in the small one.
const LINES: Lines = Lines { count: 34, mib: 34, ratio_max: 1.0 };
/// The limit of the 99th percentile of an explanation.
const EXPLAIN_TARGET_SECONDS: f64 = 0.0005;
/// Calls open at once while units report for the first time.
const FILLING_MAX: usize = 64;
/// Attempts to report every status once, each for twice as long as the last.
const FILLS_MAX: u32 = 7;
/// Contributions on a page by default.
const PAGE: usize = 100;

/// Runs the command.
pub async fn run(args: Growth) -> anyhow::Result<()> {
    let site = args.load.site()?;
    let machine = Machine::look(&site.directory);
    let testbed = Testbed::start(args.store, Peer::None, "", &site).await?;
    let (great, small) = (args.reports("great", args.statuses), args.reports("small", FEW));
    let progress = Progress::new();
    progress.say("reporting every status once");
    for reports in [great, small] {
        fill(&testbed, &args, reports).await?;
    }
    for units in [args.units, FEW] {
        Explained(units).report(&testbed, &args.load).await?;
    }
    drop(progress);
    let named = |count, of| format!("{}, {} {of}", Testbed::name(), thousands(count as f64));
    let reporting = [
        reporting(named(args.statuses, "statuses"), &testbed, &args, great),
        reporting(named(FEW, "statuses"), &testbed, &args, small),
    ];
    let measured = rounds::alternate(&reporting, args.load.rounds).await?;
    let costs = reporting.iter().zip(&measured);
    let [great, small] = pair(costs.map(|(c, rounds)| (&*c.name, &rounds[..])))?;
    let mut rows = report_rows(&testbed.place(args.store), great, small)?;
    let explaining = [
        explaining(named(args.units, "units"), &testbed, &args, args.units),
        explaining(named(FEW, "units"), &testbed, &args, FEW),
    ];
    let measured = rounds::alternate(&explaining, args.load.rounds).await?;
    let calls = explaining.iter().zip(&measured);
    let [many, few] = pair(calls.map(|(c, rounds)| (&*c.name, &rounds[..])))?;
    rows.push(explain_row(many, few)?);
    Report { machine, sent: args.done(), rows }.print(args.load.json)
}

/// The name and the rounds of one side.
type Rounds<'a, M> = (&'a str, &'a [M]);

fn pair<'a, M>(sides: impl Iterator<Item = Rounds<'a, M>>) -> anyhow::Result<[Rounds<'a, M>; 2]> {
    let sides: Vec<_> = sides.collect();
    sides.try_into().ok().context("not both sides were measured")
}

/// Returns the row of processor time, then that of the rate of reports.
fn report_rows(
    place: &str,
    great: Rounds<'_, Cost>,
    small: Rounds<'_, Cost>,
) -> anyhow::Result<Vec<AnyRow>> {
    let micros = |rounds: &[Cost]| -> Vec<f64> {
        rounds.iter().filter_map(|round| round.micros(0)).collect()
    };
    let processor = |(name, rounds): Rounds<'_, Cost>| ScalarSide::mean(name, micros(rounds));
    let pairs = micros(great.1).into_iter().zip(micros(small.1));
    let beyond = pairs.map(|(great, small)| (great - small).max(0.0)).collect();
    let rate =
        |(name, rounds): Rounds<'_, Cost>| Side::of(name, rounds.iter().map(|round| &round.calls));
    let cost = ScalarRow::compare(
        format!("Processor time for a report that changes a level, {place}"),
        "microseconds",
        processor(great),
        Some(processor(small)),
        None,
    );
    let work = format!(
        "Processor time for such a report beyond one in the small application, {place}, beside \
         reads of as many lines that are in no cache"
    );
    let lines = LINES.beside(work, beyond)?;
    let work = format!("Reports of one application that change a level, {place}");
    let rates = Row::compare(&work, rate(great)?, Some(rate(small)?), None);
    Ok(vec![AnyRow::Scalar(cost), lines, AnyRow::Rate(rates)])
}

fn explain_row(many: Rounds<'_, Measured>, few: Rounds<'_, Measured>) -> anyhow::Result<AnyRow> {
    let side = |(name, rounds): Rounds<'_, Measured>| {
        DelaySide::spanning(name, &rounds.iter().map(|r| &r.latencies).collect::<Vec<_>>())
    };
    let work = "ExplainApplication, the first page, one call after another";
    let target = Some(EXPLAIN_TARGET_SECONDS);
    Ok(AnyRow::Delay(DelayRow::compare(work, side(many)?, Some(side(few)?), target)))
}

impl Growth {
    fn reports(&self, name: &'static str, keys: u64) -> Reports {
        let streams = STREAMS as u64 * u64::from(self.load.connections);
        Reports { streams, keys, name, applications: 1 }
    }

    fn plan(&self, window: Duration) -> Plan {
        let connections = self.load.connections as usize;
        // At most as many messages under way as the small application has statuses: a commit with
        // two reports of one status costs less, which has nothing to do with size.
        let in_flight = (FEW as usize / (connections * STREAMS)).max(1);
        Plan { connections, in_flight, warm_up: self.load.warm_up(), window }
    }

    fn done(&self) -> Done {
        let in_flight = self.plan(self.load.window()).in_flight;
        Done {
            workers: STREAMS as u64 * u64::from(self.load.connections),
            peer_workers: STREAMS as u64 * u64::from(self.load.connections),
            connections: self.load.connections,
            rounds: self.load.rounds,
            how: format!(
                "a stream each with {in_flight} reports under way, spread over all statuses of \
                 one application;\n         {} s each after {} s of warm-up",
                self.load.seconds, self.load.warm_up,
            ),
        }
    }
}

fn reporting(name: String, testbed: &Testbed, args: &Growth, reports: Reports) -> Contender<Cost> {
    let (address, id) = (testbed.server.grpc, testbed.server.id());
    let (plan, exchange) = (args.plan(args.load.window()), Arc::new(Changes(reports)));
    Contender::new(name, move |first| {
        let url = format!("http://{address}");
        let plan = plan.clone();
        let reports = pipelined::run(exchange.clone(), url, plan.clone(), STREAMS, first);
        Box::pin(Cost::of(reports, vec![id], plan))
    })
}

/// Reports until every status exists.
async fn fill(testbed: &Testbed, args: &Growth, reports: Reports) -> anyhow::Result<()> {
    let url = format!("http://{}", testbed.server.grpc);
    let channel = open_loop::connect(testbed.server.grpc, 1).await?.remove(0);
    for attempt in 0..FILLS_MAX {
        let plan = Plan { warm_up: Duration::ZERO, ..args.plan(Duration::from_secs(1 << attempt)) };
        let exchange = Arc::new(Changes(reports));
        let first = u64::from(attempt) << 32;
        pipelined::run(exchange, url.clone(), plan, STREAMS, first).await?.check()?;
        let answer = explain(channel.clone(), format!("{}-00", reports.name)).await?;
        if answer.beaten_count as u64 + 1 == reports.keys {
            return Ok(());
        }
    }
    anyhow::bail!("{} statuses take too long to report; give fewer --statuses", reports.keys)
}

/// Reports on workers' streams that each change the level, and so move the status in the ranking.
struct Changes(Reports);

impl Exchange for Changes {
    type Sent = ConnectRequest;
    type Told = ConnectResponse;

    async fn open(
        &self,
        channel: Channel,
        _: usize,
        messages: Messages<Changes>,
    ) -> Result<Streaming<ConnectResponse>, Status> {
        Reports::connect(channel, messages).await
    }

    fn hello(&self, stream: usize) -> Option<ConnectRequest> {
        self.0.hello(stream)
    }

    fn message(&self, stream: usize, first: u64, seq: u64) -> ConnectRequest {
        let mut request = self.0.message(stream, first, seq);
        let is_odd = (seq / self.0.keys_of(stream)) % 2 == 1;
        if let Some(Said::Report(report)) = &mut request.message {
            let level = if is_odd { Level::Waiting } else { Level::Active };
            report.statuses.iter_mut().for_each(|status| status.level = level.into());
        }
        request
    }

    fn acknowledged(&self, told: ConnectResponse, before: u64) -> Result<u64, Status> {
        self.0.acknowledged(told, before)
    }
}

/// An application with this many units of one status each, explained repeatedly.
#[derive(Debug, Clone, Copy)]
struct Explained(u64);

impl Explained {
    fn application(self) -> String {
        format!("explained-{}", self.0)
    }

    async fn report(self, testbed: &Testbed, load: &Load) -> anyhow::Result<()> {
        let channels = open_loop::connect(testbed.server.grpc, load.connections as usize).await?;
        let calls = stream::iter(0..self.0).map(|number| {
            let channel = channels[number as usize % channels.len()].clone();
            let application = self.application();
            let request = ReportStatusRequest {
                unit: format!("{application}/{number}"),
                application,
                status: Some(StatusReport {
                    kind: StatusKind::Push.into(),
                    level: Level::Blocked.into(),
                    message: format!("waits for relation {number:06}"),
                    ..StatusReport::default()
                }),
                ..ReportStatusRequest::default()
            };
            async move { ReportServiceClient::new(channel).report_status(request).await.map(drop) }
        });
        let made: Result<(), Status> = calls.buffer_unordered(FILLING_MAX).try_collect().await;
        made.context("report each unit once")
    }
}

impl Work for Explained {
    async fn call(&self, channel: Channel, _: u64) -> Result<(), Status> {
        let answer = explain(channel, self.application()).await?;
        match answer.beaten.len() == PAGE.min(self.0 as usize - 1) {
            true => Ok(()),
            false => Err(Status::data_loss("an explanation of something else")),
        }
    }
}

async fn explain(
    channel: Channel,
    application: String,
) -> Result<ExplainApplicationResponse, Status> {
    let request = ExplainApplicationRequest { application, ..Default::default() };
    let mut client = ApplicationServiceClient::new(channel);
    Ok(client.explain_application(request).await?.into_inner())
}

fn explaining(name: String, testbed: &Testbed, args: &Growth, units: u64) -> Contender<Measured> {
    let (url, work) = (format!("http://{}", testbed.server.grpc), Arc::new(Explained(units)));
    let plan = Plan { connections: 1, in_flight: 1, ..args.plan(args.load.window()) };
    Contender::new(name, move |first| {
        let calls = load::run(work.clone(), url.clone(), plan.clone(), first);
        Box::pin(async move {
            let calls = calls.await?;
            calls.check()?;
            ensure!(0 < calls.acknowledged, "no call was answered in time");
            Ok(calls)
        })
    })
}
