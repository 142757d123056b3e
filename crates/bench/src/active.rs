//! `active`: the processor time of a commit with many active applications beside few. Each commit
//! is to another application, so only work that all commits share can make the difference.

use std::sync::Arc;

use anyhow::Context;
use bellwether::proto::v1::report_service_client::ReportServiceClient;
use bellwether::proto::v1::{Level, ReportStatusRequest, StatusKind, StatusReport};
use futures_util::stream::{self, StreamExt, TryStreamExt};
use tonic::Status;
use tonic::transport::Channel;

use crate::Load;
use crate::cold::Lines;
use crate::cost::Cost;
use crate::figure::thousands;
use crate::ingest::Store;
use crate::load::{self, Plan, Work};
use crate::machine::Machine;
use crate::open_loop;
use crate::replicas::Peer;
use crate::report::Report;
use crate::rounds::{self, Contender, Progress};
use crate::scalar::{AnyRow, Done, ScalarRow, ScalarSide};
use crate::site::Site;
use crate::testbed::Testbed;

/// Flags of `active`.
#[derive(Debug, clap::Args)]
pub struct Active {
    /// Active applications of the one side; the other has 128
    #[arg(long, default_value_t = 100_000)]
    #[arg(value_parser = clap::value_parser!(u64).range(1000..=100_000))]
    pub applications: u64,
    /// Store of our server
    #[arg(long, value_enum, default_value_t = Store::Memory)]
    pub store: Store,
    /// The load of each measurement.
    #[command(flatten)]
    pub load: Load,
}

/// Active applications of the small side.
const FEW: u64 = 128;
/// Calls open at once over all connections. Each is to applications of its own, so that no commit
/// has two reports.
const IN_FLIGHT: u64 = 64;
/// The lines of memory that a commit reads beyond one with few applications.
const LINES: Lines = Lines { count: 112, mib: 600, ratio_max: 1.0 };

/// Runs the command.
pub async fn run(args: Active) -> anyhow::Result<()> {
    let site = args.load.site()?;
    let machine = Machine::look(&site.directory);
    let progress = Progress::new();
    progress.say("reporting once for each application");
    let many = Side::start(args.applications, &args, &site).await?;
    let few = Side::start(FEW, &args, &site).await?;
    drop(progress);
    let sides = [many.contender(&args), few.contender(&args)];
    let measured = rounds::alternate(&sides, args.load.rounds).await?;
    let named = sides.iter().zip(measured);
    let mut named = named.map(|(side, rounds)| ScalarSide::mean(&side.name, rounds));
    let ours = named.next().context("our side was not measured")?;
    let place = many.testbed.place(args.store);
    let work = format!(
        "Processor time of a commit, each to another of {} active applications, beside {FEW}, \
         {place}",
        thousands(args.applications as f64),
    );
    let few = named.next().context("the other side was not measured")?;
    let pairs = ours.by_round.iter().zip(&few.by_round);
    let beyond = pairs.map(|(many, few)| (many - few).max(0.0)).collect();
    let row = ScalarRow::compare(work, "microseconds", ours, Some(few), None);
    let work = format!(
        "Processor time of such a commit beyond one with {FEW} active applications, {place}, \
         beside reads of as many lines that are in no cache"
    );
    let rows = vec![AnyRow::Scalar(row), LINES.beside(work, beyond)?];
    Report { machine, sent: args.done(), rows }.print(args.load.json)
}

/// A server with its active applications.
struct Side {
    applications: u64,
    testbed: Testbed,
}

impl Side {
    async fn start(applications: u64, args: &Active, site: &Site) -> anyhow::Result<Side> {
        let testbed = Testbed::start(args.store, Peer::None, "", site).await?;
        let connections = args.load.connections as usize;
        let channels = open_loop::connect(testbed.server.grpc, connections).await?;
        let reports = args.reports(applications);
        let calls = stream::iter(0..applications).map(|number| {
            let channel = channels[number as usize % channels.len()].clone();
            reports.call(channel, number)
        });
        let all: Result<(), Status> =
            calls.buffer_unordered(IN_FLIGHT as usize).try_collect().await;
        all.context("report once for each application")?;
        Ok(Side { applications, testbed })
    }

    fn contender(&self, args: &Active) -> Contender<f64> {
        let (grpc, id) = (self.testbed.server.grpc, self.testbed.server.id());
        let (plan, work) = (args.plan(), Arc::new(args.reports(self.applications)));
        let name =
            format!("{}, {} applications", Testbed::name(), thousands(self.applications as f64));
        Contender::new(name, move |first| {
            let calls = load::run(work.clone(), format!("http://{grpc}"), plan.clone(), first);
            let cost = Cost::of(calls, vec![id], plan.clone());
            // Each call is a commit, because no other call to its application is open.
            Box::pin(async move { cost.await?.micros(0).context("no processor time was measured") })
        })
    }
}

impl Active {
    fn reports(&self, applications: u64) -> Reports {
        let plan = self.plan();
        Reports { applications, slots: (plan.connections * plan.in_flight) as u64 }
    }

    fn plan(&self) -> Plan {
        let connections = u64::from(self.load.connections);
        Plan {
            connections: self.load.connections as usize,
            in_flight: (IN_FLIGHT / connections).max(1) as usize,
            warm_up: self.load.warm_up(),
            window: self.load.window(),
        }
    }

    fn done(&self) -> Done {
        Done {
            workers: self.applications,
            peer_workers: FEW,
            connections: self.load.connections,
            rounds: self.load.rounds,
            how: format!(
                "unary reports, one application after another, {} on each connection;\n\
                 \x20        {} s each after {} s of warm-up",
                self.plan().in_flight,
                self.load.seconds,
                self.load.warm_up,
            ),
        }
    }
}

/// Reports that each change the status of an application. Each slot of the load, which has one call
/// open, has applications of its own.
#[derive(Clone, Copy)]
struct Reports {
    applications: u64,
    slots: u64,
}

impl Reports {
    /// Returns the application of a call.
    fn application(self, sequence: u64) -> u64 {
        let (turn, slot) = (sequence / self.slots, sequence % self.slots);
        turn % (self.applications / self.slots) * self.slots + slot
    }
}

impl Work for Reports {
    async fn call(&self, channel: Channel, sequence: u64) -> Result<(), Status> {
        let application = format!("one-{:06}", self.application(sequence));
        let request = ReportStatusRequest {
            unit: format!("{application}/0"),
            application,
            status: Some(StatusReport {
                kind: StatusKind::Push.into(),
                level: Level::Active.into(),
                message: format!("serving, request {sequence:016x}"),
                ..StatusReport::default()
            }),
            ..ReportStatusRequest::default()
        };
        ReportServiceClient::new(channel).report_status(request).await.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn each_slot_has_applications_of_its_own() {
        let reports = Reports { applications: 1000, slots: 64 };
        let of_slot =
            |slot: u64| (0..100_u64).map(move |turn| reports.application(turn * 64 + slot));
        let all: HashSet<u64> = (0..64).flat_map(of_slot).collect();
        assert_eq!(all.len(), 15 * 64, "all but the rest of the division");
        assert!(of_slot(3).all(|application| application % 64 == 3 && application < 1000));
    }
}
