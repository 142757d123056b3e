//! `fanout`: one application changes, and ten thousand watchers receive each change. With a
//! stream each, beside a plain tonic stream of messages of the same length; with a hundred watches
//! on each stream, beside the same number of etcd's on one key.
//!
//! The next change is made when the last one has reached every watcher, so nothing is conflated,
//! and every counted event was delivered.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, ensure};
use bellwether::proto::v1;
use bellwether::proto::v1::report_service_client::ReportServiceClient;
use prost::Message;
use tokio::time::Instant;
use tonic::transport::{Channel, Endpoint};

use crate::Load;
use crate::etcd::{self, Etcd, Puts};
use crate::h2_readers::{Call, Hear, Readers, Watched, frame};
use crate::load::Work;
use crate::machine::Machine;
use crate::report::Report;
use crate::rounds::{self, Contender, Progress};
use crate::scalar::{ScalarRow, ScalarSide, Target};
use crate::server::{Place, Server};
use crate::testbed::Testbed;
use crate::wire::{self, Shared, WatchCreateRequest, WatchRequest};
use crate::{echo, runtime};

/// Flags of `fanout`.
#[derive(Debug, clap::Args)]
pub struct Fanout {
    /// Watchers of the application; a multiple of 100
    #[arg(long, default_value_t = 10_000, value_parser = whole_streams)]
    pub watchers: usize,
    /// The shape of streams to measure
    #[arg(long, value_enum, default_value_t = Shape::Both)]
    pub shape: Shape,
    /// Without plain tonic and etcd
    #[arg(long)]
    pub alone: bool,
    /// The load of each measurement.
    #[command(flatten)]
    pub load: Load,
}

/// How watchers share streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Shape {
    /// A stream each
    Single,
    /// A hundred on each stream
    Multiplexed,
    /// First one, then the other
    Both,
}

/// Watches on each stream.
pub const PER_STREAM: usize = 100;
/// The least ratio of ours with a stream each to plain tonic.
const SINGLE_TARGET: f64 = 1.8;
/// The least ratio of ours with many watches on each stream to etcd.
const MULTIPLEXED_TARGET: f64 = 25.0;
/// How long the watchers may take to open, and to receive one change.
const DEADLINE: Duration = Duration::from_secs(60);

/// Follows one application, or all.
pub const WATCH: &str = "/bellwether.v1.ApplicationService/WatchApplications";
/// The same, with many watches on a stream.
pub const MULTIPLEX: &str = "/bellwether.v1.ApplicationService/MultiplexWatches";

/// Parses the number of watchers.
pub fn whole_streams(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(watchers) if (PER_STREAM..=20_000).contains(&watchers) && watchers % PER_STREAM == 0 => {
            Ok(watchers)
        }
        _ => Err(format!("a multiple of {PER_STREAM}, at most 20000")),
    }
}

/// Runs the command.
pub async fn run(args: Fanout) -> anyhow::Result<()> {
    let site = args.load.site()?;
    let machine = Machine::look(&site.directory);
    let is_single = args.shape != Shape::Multiplexed;
    let is_multiplexed = args.shape != Shape::Single;
    // Checked before anything is started: a missing binary is the likeliest failure.
    let etcd_binary = (is_multiplexed && !args.alone).then(etcd::find).transpose()?;
    let progress = Progress::new();
    progress.say("starting servers");
    let server = Server::start(&Place::Memory, &site).await?;
    let plain = match is_single && !args.alone {
        true => Some(Server::start_echo(&site.directory).await?),
        false => None,
    };
    let etcd = match &etcd_binary {
        Some(binary) => Some(Etcd::start(binary, &site.directory).await?),
        None => None,
    };
    drop(progress);
    let mut rows = Vec::new();
    if is_single {
        let ours = contender(&args, Testbed::name(), Side::Watch, server.grpc);
        let peer = match &plain {
            Some(plain) => {
                let side = Side::Plain(event_bytes(server.grpc).await?);
                Some(contender(&args, "plain tonic".to_string(), side, plain.grpc))
            }
            None => None,
        };
        let beside =
            peer.as_ref().map_or("", |_| ", beside a plain tonic stream of the same bytes");
        let work = format!("Events told to watchers with a stream each{beside}");
        rows.push(row(&args, work, ours, peer, SINGLE_TARGET).await?);
    }
    if is_multiplexed {
        let ours = contender(&args, Testbed::name(), Side::Multiplex, server.grpc);
        let peer = etcd.as_ref().map(|etcd| {
            contender(&args, format!("etcd {}", etcd.version), Side::Etcd, etcd.address)
        });
        let beside = peer.as_ref().map_or("", |_| ", beside as many of etcd's");
        let work = format!("Events told to watchers, {PER_STREAM} on each stream{beside}");
        rows.push(row(&args, work, ours, peer, MULTIPLEXED_TARGET).await?);
    }
    let sent = Watched {
        watchers: args.watchers,
        connections: args.load.connections,
        rounds: args.load.rounds,
        how: format!(
            "one application, memory store, {} s a round; the next change when the last has\n\
             \x20        reached everybody",
            args.load.seconds,
        ),
    };
    Report { machine, sent, rows }.print(args.load.json)
}

async fn row(
    args: &Fanout,
    work: String,
    ours: Contender<f64>,
    peer: Option<Contender<f64>>,
    target: f64,
) -> anyhow::Result<ScalarRow> {
    let contenders: Vec<Contender<f64>> = [ours].into_iter().chain(peer).collect();
    let measured = rounds::alternate(&contenders, args.load.rounds).await?;
    let named = contenders.iter().zip(measured);
    let mut sides = named.map(|(contender, rounds)| ScalarSide::mean(&contender.name, rounds));
    let ours = sides.next().context("our side was not measured")?;
    let target = Some(Target::RatioAtLeast(target));
    Ok(ScalarRow::compare(work, "events/s", ours, sides.next(), target))
}

fn contender(args: &Fanout, name: String, side: Side, address: SocketAddr) -> Contender<f64> {
    let round = Round { side, address, watchers: args.watchers, load: args.load.clone() };
    Contender::new(name, move |first| Box::pin(runtime::apart(round.clone().run(first))))
}

/// The sender of the events.
#[derive(Debug, Clone, Copy)]
enum Side {
    Watch,
    Multiplex,
    /// Messages of this many bytes.
    Plain(usize),
    Etcd,
}

#[derive(Clone)]
struct Round {
    side: Side,
    address: SocketAddr,
    watchers: usize,
    load: Load,
}

impl Round {
    /// Measures the events received per second.
    async fn run(self, first: u64) -> anyhow::Result<f64> {
        let channel = Endpoint::from_shared(format!("http://{}", self.address))?.connect().await?;
        self.side.change(&channel, first).await?;
        let ear = Arc::new(Ear { side: self.side, current: AtomicU64::new(0) });
        let connections = self.load.connections as usize;
        let (streams, calls) = (self.side.streams(self.watchers), self.side.call());
        let mut readers =
            Readers::open(self.address, (streams, connections), |_| calls.clone(), &ear);
        let watchers = self.watchers as u64;
        let is_current = |readers: &Readers| match self.side {
            Side::Plain(_) => watchers <= readers.opened(),
            _ => watchers <= ear.current.load(Ordering::Relaxed),
        };
        readers.until(is_current, DEADLINE).await.context("not every watch is open")?;
        let before = readers.events();
        let (start, mut changes) = (Instant::now(), 0);
        let mut counted: Option<(Instant, u64)> = None;
        loop {
            let elapsed = start.elapsed();
            if counted.is_none() && self.load.warm_up() <= elapsed {
                counted = Some((Instant::now(), changes));
            }
            if let Some((from, warm)) = counted
                && self.load.window() <= from.elapsed()
            {
                let (told, seconds) = (readers.events() - before, from.elapsed().as_secs_f64());
                ensure!(told == changes * watchers, "{told} events of {changes} changes");
                return Ok(((changes - warm) * watchers) as f64 / seconds);
            }
            changes += 1;
            self.side.change(&channel, first + changes).await?;
            readers.heard(before + changes * watchers, DEADLINE).await?;
        }
    }
}

impl Side {
    fn streams(self, watchers: usize) -> usize {
        match self {
            Side::Watch | Side::Plain(_) => watchers,
            Side::Multiplex | Side::Etcd => watchers / PER_STREAM,
        }
    }

    fn call(self) -> Call {
        let many =
            |request: &dyn Fn(u64) -> Vec<u8>| (0..PER_STREAM as u64).flat_map(request).collect();
        match self {
            Side::Watch => Call { path: WATCH, requests: frame(&watch()), is_all: true },
            Side::Plain(_) => {
                let requests = frame(&Shared::default());
                Call { path: wire::ECHO_LISTEN, requests, is_all: true }
            }
            Side::Multiplex => {
                let requests = many(&|watch_id| frame(&create(watch_id, watch())));
                Call { path: MULTIPLEX, requests, is_all: false }
            }
            Side::Etcd => {
                let key = Puts::of(0, 1).request(0).key;
                let create_request = Some(WatchCreateRequest { key, range_end: Vec::new() });
                let request = WatchRequest { create_request };
                Call { path: wire::WATCH, requests: many(&|_| frame(&request)), is_all: false }
            }
        }
    }

    /// Makes change number `sequence`.
    async fn change(self, channel: &Channel, sequence: u64) -> anyhow::Result<()> {
        match self {
            Side::Watch | Side::Multiplex => {
                let mut client = ReportServiceClient::new(channel.clone());
                let answer = client.report_status(report(sequence)).await?.into_inner();
                ensure!(answer.changed, "a report that changes its status changed nothing");
            }
            Side::Plain(bytes) => {
                let echo = echo::Echoes::of(bytes).message();
                let message = Shared { payload: echo.payload.into() };
                let _: Shared = wire::unary(channel.clone(), wire::ECHO_SEND, message).await?;
            }
            Side::Etcd => {
                Puts::of(report(0).encoded_len(), 1).call(channel.clone(), sequence).await?
            }
        }
        Ok(())
    }
}

/// Counts events, and watches that are current.
struct Ear {
    side: Side,
    current: AtomicU64,
}

impl Hear for Ear {
    fn hear(&self, _: usize, message: &[u8]) -> u64 {
        let (events, current) = match self.side {
            Side::Plain(_) => (1, 0),
            // The event is the first field: upserted is 1, snapshot_complete 3, each with a length.
            Side::Watch => (u64::from(message[0] == 0x0a), u64::from(message[0] == 0x1a)),
            Side::Multiplex => multiplexed(message),
            Side::Etcd => match wire::WatchResponse::decode(message) {
                Ok(answer) => (answer.events.len() as u64, u64::from(answer.created)),
                Err(_) => (0, 0),
            },
        };
        self.current.fetch_add(current, Ordering::Relaxed);
        events
    }
}

/// Returns how many watches of a message have a change, and how many are current.
pub fn multiplexed(message: &[u8]) -> (u64, u64) {
    use v1::multiplex_watches_response::Response;
    use v1::watch_applications_response::Event;
    let Ok(answer) = v1::MultiplexWatchesResponse::decode(message) else { return (0, 0) };
    let told = answer.watch_ids.len() as u64;
    match answer.response {
        Some(Response::Event(v1::WatchApplicationsResponse { event, .. })) => match event {
            Some(Event::Upserted(_)) => (told, 0),
            Some(Event::SnapshotComplete(_)) => (0, told),
            _ => (0, 0),
        },
        _ => (0, 0),
    }
}

/// Returns a watch of the application that changes.
fn watch() -> v1::WatchApplicationsRequest {
    v1::WatchApplicationsRequest {
        applications: vec!["hot".to_string()],
        ..v1::WatchApplicationsRequest::default()
    }
}

/// Returns a request that creates a watch on a shared stream.
pub fn create(watch_id: u64, watch: v1::WatchApplicationsRequest) -> v1::MultiplexWatchesRequest {
    let create = v1::CreateWatch { watch_id, watch: Some(watch) };
    let request = v1::multiplex_watches_request::Request::Create(create);
    v1::MultiplexWatchesRequest { request: Some(request) }
}

/// Returns report number `sequence`. All have the same length.
pub fn report(sequence: u64) -> v1::ReportStatusRequest {
    v1::ReportStatusRequest {
        application: "hot".to_string(),
        unit: "hot/0".to_string(),
        status: Some(v1::StatusReport {
            kind: v1::StatusKind::Push.into(),
            level: v1::Level::Active.into(),
            message: format!("serving, request {sequence:016x}"),
            ..v1::StatusReport::default()
        }),
        ..v1::ReportStatusRequest::default()
    }
}

/// Measures the length of one of our events.
async fn event_bytes(address: SocketAddr) -> anyhow::Result<usize> {
    let channel = Endpoint::from_shared(format!("http://{address}"))?.connect().await?;
    Side::Watch.change(&channel, 0).await?;
    let mut client = v1::application_service_client::ApplicationServiceClient::new(channel);
    let mut events = client.watch_applications(watch()).await?.into_inner();
    let first = events.message().await?.context("a watch ended at its begin")?;
    Ok(first.encoded_len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_send_as_much() {
        let echo = echo::Echoes::of(300).message();
        assert_eq!(Shared { payload: echo.payload.into() }.encoded_len(), 300);
        let put = Puts::of(report(0).encoded_len(), 1).request(7);
        assert_eq!(put.encoded_len(), report(7).encoded_len());
    }

    #[test]
    fn events_are_counted_by_watches() {
        use v1::multiplex_watches_response::Response;
        use v1::watch_applications_response::Event;
        let message = |event| {
            let event = v1::WatchApplicationsResponse { event, ..Default::default() };
            let response = Some(Response::Event(event));
            v1::MultiplexWatchesResponse { watch_ids: vec![1, 2, 300], response }.encode_to_vec()
        };
        let upserted = Event::Upserted(v1::Application::default());
        let complete = Event::SnapshotComplete(v1::SnapshotComplete::default());
        assert_eq!(multiplexed(&message(Some(upserted))), (3, 0));
        assert_eq!(multiplexed(&message(Some(complete))), (0, 3));
        assert_eq!(multiplexed(&message(None)), (0, 0));
    }
}
