//! `start`: the time from the start of a server until its first answer, with a million statuses in
//! its store. The server before it was killed with SIGKILL right after a load, so the embedded
//! store has a log that it must read.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use bellwether::proto::v1::ExplainApplicationRequest;
use bellwether::proto::v1::application_service_client::ApplicationServiceClient;
use tokio::time::Instant;
use tonic::transport::Channel;

use crate::Load;
use crate::figure::thousands;
use crate::ingest::Store;
use crate::load::Plan;
use crate::machine::Machine;
use crate::open_loop;
use crate::pipelined;
use crate::replicas::Peer;
use crate::report::Report;
use crate::rounds::Progress;
use crate::scalar::{AnyRow, Done, ScalarRow, ScalarSide, Target};
use crate::server::Server;
use crate::site::Site;
use crate::streams::Reports;
use crate::testbed::Testbed;

/// Flags of `start`.
#[derive(Debug, clap::Args)]
pub struct Start {
    /// Stores of our server; each is measured
    #[arg(long, value_enum, value_delimiter = ',')]
    #[arg(default_values_t = [Store::Embedded, Store::Redis])]
    pub store: Vec<Store>,
    /// Statuses in the store
    #[arg(long, default_value_t = 1_000_000)]
    #[arg(value_parser = clap::value_parser!(u64).range(1000..=1_000_000))]
    pub statuses: u64,
    /// The load of each measurement.
    #[command(flatten)]
    pub load: Load,
}

/// Applications of the statuses.
const APPLICATIONS: u64 = 64;
/// Streams on each connection, each of a unit of its own.
const STREAMS: usize = 32;
/// Unacknowledged reports on each stream.
const IN_FLIGHT: usize = 64;
/// Attempts to report every status once, each for twice as long as the last.
const FILLS_MAX: u32 = 7;
/// The longest time until the first answer.
const SECONDS_TARGET: f64 = 3.0;

/// Runs the command.
pub async fn run(args: Start) -> anyhow::Result<()> {
    let site = args.load.site()?;
    let machine = Machine::look(&site.directory);
    let mut rows = Vec::new();
    for store in &args.store {
        ensure!(*store != Store::Memory, "a memory store is empty after a start");
        rows.extend(args.measure(*store, &site).await?);
    }
    Report { machine, sent: args.done(), rows }.print(args.load.json)
}

impl Start {
    /// Fills a server with this store, crashes it once a round, and returns the rows of the times.
    async fn measure(&self, store: Store, site: &Site) -> anyhow::Result<Vec<AnyRow>> {
        let progress = Progress::new();
        let mut testbed = Testbed::start(store, Peer::None, "", site).await?;
        let name = testbed.place(store);
        progress.say("reporting every status once");
        self.fill(&testbed.server).await?;
        let (mut first, mut all) = (Vec::new(), Vec::new());
        for round in 1..=self.load.rounds {
            progress.say(&format!("round {round} of {}: {name}", self.load.rounds));
            self.report(&testbed.server, self.load.window(), u64::from(round) << 40).await?;
            let began = Instant::now();
            testbed.crash(store, site).await?;
            let channel = open_loop::connect(testbed.server.grpc, 1).await?.remove(0);
            let mut found = statuses(channel.clone(), 0).await?;
            first.push(began.elapsed().as_secs_f64());
            for application in 1..APPLICATIONS {
                found += statuses(channel.clone(), application).await?;
            }
            all.push(began.elapsed().as_secs_f64());
            ensure!(found == self.statuses, "{found} of {} statuses are there", self.statuses);
        }
        let count = thousands(self.statuses as f64);
        let row = |until: &str, by_round, target| {
            let work = format!("From a start with {count} statuses after SIGKILL, {name}: {until}");
            let ours = ScalarSide::greatest(&Testbed::name(), by_round);
            AnyRow::Scalar(ScalarRow::compare(work, "seconds", ours, None, target))
        };
        Ok(vec![
            row("the first application explained", first, Some(Target::AtMost(SECONDS_TARGET))),
            row("every application explained", all, None),
        ])
    }

    /// Reports until every status exists.
    async fn fill(&self, server: &Server) -> anyhow::Result<()> {
        for attempt in 0..FILLS_MAX {
            let window = Duration::from_secs(1 << attempt);
            self.report(server, window, u64::from(attempt) << 32).await?;
            let channel = open_loop::connect(server.grpc, 1).await?.remove(0);
            let mut found = 0;
            for application in 0..APPLICATIONS {
                found += statuses(channel.clone(), application).await?;
            }
            if found == self.statuses {
                return Ok(());
            }
        }
        anyhow::bail!("{} statuses take too long to report; give fewer --statuses", self.statuses)
    }

    async fn report(&self, server: &Server, window: Duration, first: u64) -> anyhow::Result<()> {
        let connections = self.load.connections as usize;
        let streams = STREAMS as u64 * connections as u64;
        let reports =
            Reports { streams, keys: self.statuses, name: "kept", applications: APPLICATIONS };
        let plan = Plan { connections, in_flight: IN_FLIGHT, warm_up: Duration::ZERO, window };
        let url = format!("http://{}", server.grpc);
        pipelined::run(Arc::new(reports), url, plan, STREAMS, first).await?.check()
    }

    fn done(&self) -> Done {
        let streams = STREAMS as u64 * u64::from(self.load.connections);
        Done {
            workers: streams,
            peer_workers: 0,
            connections: self.load.connections,
            rounds: self.load.rounds,
            how: format!(
                "{} statuses of {APPLICATIONS} applications; {} s of reports before each SIGKILL;\n\
                 \x20        the pages of the files are still in the memory of the machine",
                thousands(self.statuses as f64),
                self.load.seconds,
            ),
        }
    }
}

/// Returns the number of statuses of an application.
async fn statuses(channel: Channel, application: u64) -> anyhow::Result<u64> {
    let request = ExplainApplicationRequest {
        application: format!("kept-{application:02}"),
        ..ExplainApplicationRequest::default()
    };
    let answer = ApplicationServiceClient::new(channel).explain_application(request).await;
    let answer = answer.context("explain an application")?.into_inner();
    Ok(u64::try_from(answer.beaten_count)? + 1)
}
