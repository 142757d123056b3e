//! `bench replicas`: how long from a report on one replica until a watcher of another knows, over
//! one Redis. Beside it etcd, put through some connections and watched through another.

use std::future::ready;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use futures_util::StreamExt;
use prost::Message;
use tonic::Status;
use tonic::transport::Channel;

use crate::bench::Load;
use crate::bench::delay::{DelayRow, DelaySent, DelaySide, Way};
use crate::bench::etcd::{self, Etcd, Puts};
use crate::bench::load::Work;
use crate::bench::machine::Machine;
use crate::bench::pending::Delays;
use crate::bench::redis::{self, Fsync, Redis};
use crate::bench::relay::{self, Plan, Relay, Seen};
use crate::bench::report::Report;
use crate::bench::rounds::{self, Contender, Progress};
use crate::bench::server::{Place, Server};
use crate::proto::v1::application_service_client::ApplicationServiceClient;
use crate::proto::v1::report_service_client::ReportServiceClient;
use crate::proto::v1::watch_applications_response::Event;
use crate::proto::v1::{Application, Level, ReportStatusRequest, StatusKind, StatusReport};
use crate::proto::v1::{WatchApplicationsRequest, WatchApplicationsResponse};

/// Flags of `bench replicas`.
#[derive(Debug, clap::Args)]
pub struct Replicas {
    /// Reports per second
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub rate: u32,
    /// When Redis tells its disk to keep what it has written
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = Fsync::Everysec)]
    pub fsync: Fsync,
    /// What to measure beside it
    #[arg(long, value_enum, default_value_t = Peer::Etcd)]
    pub peer: Peer,
    /// How much is sent.
    #[command(flatten)]
    pub load: Load,
}

/// What to measure beside ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Peer {
    /// One etcd
    Etcd,
    /// Nothing
    None,
}

/// At the default rate each application changes every 1.3 s, so that hardly any event stands for
/// more than one report.
const APPLICATIONS: u64 = 256;

/// What comes before the number of a report in its message.
const MESSAGE: &str = "serving, request ";

/// What is measured of each side.
const WAYS: [Way; 4] = [
    Way {
        name: "from sending to the watcher's event",
        delay: |delays| &delays.due_to_seen,
        is_watched: true,
    },
    Way {
        name: "from acknowledgement to the watcher's event",
        delay: |delays| &delays.acknowledged_to_seen,
        is_watched: true,
    },
    Way {
        name: "from sending to acknowledgement",
        delay: |delays| &delays.due_to_acknowledged,
        is_watched: false,
    },
    Way {
        name: "by the load itself, from when it was due until it was sent",
        delay: |delays| &delays.due_to_sent,
        is_watched: false,
    },
];

/// Runs the command: starts the sides, measures them in turn, prints the report.
pub async fn run(args: Replicas) -> anyhow::Result<()> {
    let parent = args.load.data_directory();
    let machine = Machine::look(&parent);
    let started = Started::start(&args, &parent).await?;
    let request_bytes = report(0).encoded_len();
    let ours = format!("bellwether {}", env!("CARGO_PKG_VERSION"));
    let plan = args.plan(&started.first, &started.second);
    let mut contenders = vec![contender(ours, Reports, plan.clone())];
    if let Some(etcd) = &started.etcd {
        let plan = Plan { writes: etcd.address, watcher: etcd.address, ..plan };
        let puts = Puts::of(request_bytes, APPLICATIONS);
        contenders.push(contender(format!("etcd {}", etcd.version), puts, plan));
    }
    let measured = rounds::alternate(&contenders, args.load.rounds).await?;
    let names: Vec<&str> = contenders.iter().map(|contender| contender.name.as_str()).collect();
    let rows = WAYS.iter().map(|way| started.row(&args, way, &names, &measured));
    let rows: Vec<DelayRow> = rows.collect::<anyhow::Result<_>>()?;
    Report { machine, sent: args.sent(request_bytes), rows }.print(args.load.json)
}

/// What runs for a measurement. Fields are dropped in their order: our servers before their Redis.
struct Started {
    first: Server,
    second: Server,
    redis: Redis,
    etcd: Option<Etcd>,
}

impl Started {
    async fn start(args: &Replicas, parent: &Path) -> anyhow::Result<Started> {
        // Before anything is started: not having them is the likeliest failure.
        let etcd_binary = (args.peer == Peer::Etcd).then(etcd::find).transpose()?;
        let redis_binary = redis::find()?;
        let progress = Progress::new();
        progress.say("starting servers");
        let redis = Redis::start(&redis_binary, args.fsync, parent).await?;
        let place = Place::Redis(redis.url());
        let first = Server::start(&place, parent).await?;
        let second = Server::start(&place, parent).await?;
        let etcd = match &etcd_binary {
            Some(binary) => Some(Etcd::start(binary, parent).await?),
            None => None,
        };
        Ok(Started { first, second, redis, etcd })
    }

    /// One delay of all sides, ours first.
    fn row(
        &self,
        args: &Replicas,
        way: &Way,
        names: &[&str],
        measured: &[Vec<Delays>],
    ) -> anyhow::Result<DelayRow> {
        let (version, fsync) = (&self.redis.version, args.fsync.name());
        let beside = self.etcd.as_ref().map_or("", |_| ", beside etcd with fsync");
        let name = way.name;
        let work = format!("Two replicas over Redis {version} with AOF {fsync}{beside}: {name}");
        let sides = names.iter().zip(measured);
        let mut sides = sides.map(|(name, rounds)| DelaySide::of(name, rounds, way));
        let ours = sides.next().context("our side was not measured")??;
        let peer = sides.next().transpose()?;
        Ok(DelayRow::compare(&work, ours, peer, None))
    }
}

impl Replicas {
    fn plan(&self, first: &Server, second: &Server) -> Plan {
        Plan {
            writes: first.grpc,
            watcher: second.grpc,
            connections: self.load.connections as usize,
            rate: self.rate,
            keys: APPLICATIONS,
            warm_up: self.load.warm_up(),
            window: self.load.window(),
        }
    }

    fn sent(&self, request_bytes: usize) -> DelaySent {
        DelaySent {
            request_bytes,
            per_second: self.rate,
            applications: APPLICATIONS,
            connections: self.load.connections,
            rounds: self.load.rounds,
            seconds: self.load.seconds,
            warm_up_seconds: self.load.warm_up,
        }
    }
}

fn contender<W: Relay>(name: String, work: W, plan: Plan) -> Contender<Delays> {
    let work = Arc::new(work);
    Contender::new(name, move |first| {
        let round = relay::run(work.clone(), plan.clone(), first);
        Box::pin(async move {
            let delays = round.await?;
            delays.check()?;
            Ok(delays)
        })
    })
}

/// Reports of which each changes its application.
struct Reports;

impl Work for Reports {
    async fn call(&self, channel: Channel, sequence: u64) -> Result<(), Status> {
        let mut client = ReportServiceClient::new(channel);
        let answer = client.report_status(report(sequence)).await?.into_inner();
        match answer.changed {
            true => Ok(()),
            false => Err(Status::data_loss("a report that changes its status changed nothing")),
        }
    }
}

impl Relay for Reports {
    async fn watch(&self, channel: Channel) -> Result<Seen, Status> {
        let mut client = ApplicationServiceClient::new(channel);
        let request = WatchApplicationsRequest::default();
        let mut answers = client.watch_applications(request).await?.into_inner();
        loop {
            let answer = answers.message().await?;
            let answer = answer.ok_or_else(|| Status::aborted("closed within the snapshot"))?;
            if let Some(Event::SnapshotComplete(_)) = answer.event {
                break;
            }
        }
        Ok(answers.filter_map(|answer| ready(seen(answer).transpose())).boxed())
    }
}

/// The number of the report that an event tells of, if it tells of one.
fn seen(answer: Result<WatchApplicationsResponse, Status>) -> Result<Option<u64>, Status> {
    match answer?.event {
        Some(Event::Upserted(application)) => match sequence(&application) {
            Some(sequence) => Ok(Some(sequence)),
            None => Err(Status::data_loss(format!("not what was reported: {application:?}"))),
        },
        _ => Ok(None),
    }
}

fn sequence(application: &Application) -> Option<u64> {
    let message = &application.status.as_ref()?.message;
    u64::from_str_radix(message.strip_prefix(MESSAGE)?, 16).ok()
}

/// The report number `sequence`, always as long: of the only unit of its application.
fn report(sequence: u64) -> ReportStatusRequest {
    let application = format!("app-{:03}", sequence % APPLICATIONS);
    ReportStatusRequest {
        unit: format!("{application}/0"),
        application,
        status: Some(StatusReport {
            kind: StatusKind::Push.into(),
            level: Level::Active.into(),
            message: format!("{MESSAGE}{sequence:016x}"),
            ..StatusReport::default()
        }),
        ..ReportStatusRequest::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::v1::AggregatedStatus;

    #[test]
    fn a_report_is_known_by_the_message_of_its_application() {
        for number in [0, 255, 256, u64::MAX] {
            let message = report(number).status.unwrap().message;
            let status = Some(AggregatedStatus { message, ..Default::default() });
            let application = Application { status, ..Default::default() };
            assert_eq!(sequence(&application), Some(number));
        }
        assert_eq!(sequence(&Application::default()), None);
    }
}
