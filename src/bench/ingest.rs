//! `bench ingest`: unary reports acknowledged per second, beside etcd puts of as many bytes.

use anyhow::Context;
use prost::Message;
use tonic::Status;
use tonic::transport::Channel;

use crate::bench::Load;
use crate::bench::echo::Echoes;
use crate::bench::etcd::{self, Etcd, Puts};
use crate::bench::load::Work;
use crate::bench::machine::Machine;
use crate::bench::report::{Report, Row, Sent, Side};
use crate::bench::rounds::{self, Contender, Progress};
use crate::bench::server::{Server, Store};
use crate::proto::v1::report_service_client::ReportServiceClient;
use crate::proto::v1::{Level, ReportStatusRequest, StatusKind, StatusReport};

/// Flags of `bench ingest`.
#[derive(Debug, clap::Args)]
pub struct Ingest {
    /// Where our server remembers
    #[arg(long, value_enum, default_value_t = Store::Embedded)]
    pub store: Store,
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
    /// One etcd; with --store memory also a plain tonic echo
    Etcd,
    /// Only the plain tonic echo
    Echo,
    /// Nothing
    None,
}

/// Applications that reports are spread over: enough that no single one is the limit.
const APPLICATIONS: u64 = 64;
/// Units of each. With one status each, as many keys as calls in flight by default: a unit reports
/// again when its last report is acknowledged, as a worker does.
const UNITS: u64 = 16;

/// In memory, what is left besides the call itself must be small.
const ECHO_TARGET: f64 = 0.8;

/// Runs the command: starts the sides, measures them in turn, prints the report.
pub async fn run(args: Ingest) -> anyhow::Result<()> {
    let parent = args.load.data_directory();
    let machine = Machine::look(&parent);
    // Before anything is started: not having it is the likeliest failure.
    let etcd_binary = match args.peer {
        Peer::Etcd => Some(etcd::find()?),
        Peer::Echo | Peer::None => None,
    };
    let wants_echo = match args.peer {
        Peer::Etcd => args.store == Store::Memory,
        Peer::Echo => true,
        Peer::None => false,
    };
    let progress = Progress::new();
    progress.say("starting servers");
    let server = Server::start(args.store, &parent).await?;
    let etcd = match &etcd_binary {
        Some(binary) => Some(Etcd::start(binary, &parent).await?),
        None => None,
    };
    let echo = if wants_echo { Some(Server::start_echo(&parent).await?) } else { None };

    let request_bytes = report(0).encoded_len();
    let ours = format!("bellwether {}", env!("CARGO_PKG_VERSION"));
    let mut contenders = vec![Contender::new(ours, server.grpc, Reports)];
    let mut comparisons = Vec::new();
    if let Some(etcd) = &etcd {
        let puts = Puts::of(request_bytes, APPLICATIONS * UNITS);
        contenders.push(Contender::new(format!("etcd {}", etcd.version), etcd.address, puts));
        comparisons.push(("etcd puts with fsync", None));
    }
    if let Some(echo) = &echo {
        let echoes = Echoes::of(request_bytes);
        contenders.push(Contender::new("plain tonic echo", echo.grpc, echoes));
        let target = (args.store == Store::Memory).then_some(ECHO_TARGET);
        comparisons.push(("plain tonic unary echo", target));
    }
    let measured = rounds::alternate(&contenders, &args.load.plan(), args.load.rounds).await?;
    drop(progress);

    let names = contenders.iter().map(|contender| contender.name.as_str());
    let sides = names.zip(&measured).map(|(name, rounds)| Side::of(name, rounds));
    let sides: Vec<Side> = sides.collect::<anyhow::Result<_>>()?;
    let rows = compare(args.store, &sides, &comparisons);
    let report = Report { machine, sent: sent(&args.load, request_bytes), rows };
    print(&report, args.load.json)
}

/// A row for each peer; the first side is ours.
fn compare(store: Store, sides: &[Side], comparisons: &[(&str, Option<f64>)]) -> Vec<Row> {
    let work = match store {
        Store::Embedded => "Unary ReportStatus, embedded store, fsync before acknowledge",
        Store::Memory => "Unary ReportStatus, memory store",
    };
    let Some((ours, peers)) = sides.split_first() else {
        return Vec::new();
    };
    if peers.is_empty() {
        return vec![Row::compare(work, ours.clone(), None, None)];
    }
    let rows = peers.iter().zip(comparisons).map(|(peer, (beside, target))| {
        let work = format!("{work}, beside {beside}");
        Row::compare(&work, ours.clone(), Some(peer.clone()), *target)
    });
    rows.collect()
}

fn sent(load: &Load, request_bytes: usize) -> Sent {
    Sent {
        request_bytes,
        keys: APPLICATIONS * UNITS,
        applications: APPLICATIONS,
        connections: load.connections,
        in_flight: load.in_flight,
        rounds: load.rounds,
        seconds: load.seconds,
        warm_up_seconds: load.warm_up,
    }
}

fn print(report: &Report, json: bool) -> anyhow::Result<()> {
    use std::io::Write;
    let mut text = match json {
        true => serde_json::to_string_pretty(report).context("write the report as JSON")?,
        false => report.to_string(),
    };
    if json {
        text.push('\n');
    }
    // Not `print!`, which panics when the reader is gone.
    Ok(std::io::stdout().write_all(text.as_bytes())?)
}

/// Reports of which each changes its status: none may be answered from what is known.
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

/// The report number `sequence`, always as long. The message differs from the last one of its unit.
fn report(sequence: u64) -> ReportStatusRequest {
    let key = sequence % (APPLICATIONS * UNITS);
    let (application, unit) = (key % APPLICATIONS, key / APPLICATIONS);
    ReportStatusRequest {
        application: format!("app-{application:02}"),
        unit: format!("app-{application:02}/{unit:02}"),
        status: Some(StatusReport {
            kind: StatusKind::Push.into(),
            level: Level::Active.into(),
            message: format!("serving, request {sequence:016x}"),
            ..StatusReport::default()
        }),
        ..ReportStatusRequest::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn reports_are_as_long_and_spread_and_all_different() {
        let reports: Vec<ReportStatusRequest> = (0..10_000).map(report).collect();
        let lengths: HashSet<usize> = reports.iter().map(Message::encoded_len).collect();
        assert_eq!(lengths, HashSet::from([report(u64::MAX).encoded_len()]));
        let units: HashSet<_> = reports.iter().map(|r| (&r.application, &r.unit)).collect();
        assert_eq!(units.len() as u64, APPLICATIONS * UNITS);
        let messages: HashSet<_> =
            reports.iter().filter_map(|r| r.status.as_ref()).map(|s| &s.message).collect();
        assert_eq!(messages.len(), reports.len());
    }

    #[test]
    fn each_peer_gets_a_row_and_none_gets_one_alone() {
        let side = |name: &str| Side {
            name: name.to_string(),
            per_second: 1.0,
            per_second_by_round: vec![1.0],
            p50_seconds: 0.1,
            p99_seconds: 0.1,
        };
        let peers = [("etcd puts with fsync", None), ("plain tonic unary echo", Some(0.8))];
        let rows = compare(Store::Memory, &[side("ours"), side("etcd"), side("echo")], &peers);
        let targets: Vec<Option<f64>> = rows.iter().map(|row| row.target).collect();
        assert_eq!(targets, [None, Some(0.8)]);
        assert!(rows[1].work.ends_with("beside plain tonic unary echo"), "{}", rows[1].work);
        let rows = compare(Store::Embedded, &[side("ours")], &[]);
        assert_eq!((rows.len(), &rows[0].peer), (1, &None));
    }
}
