//! `repeats`: repeated reports acknowledged per second through Redis, beside the same through
//! the memory store. A repeat writes nothing in either; through Redis it is compared with the store
//! first, so the ratio is the price of that comparison.

use std::net::SocketAddr;
use std::sync::Arc;

use bellwether::proto::v1::connect_request::Message as Inbound;
use bellwether::proto::v1::report_service_client::ReportServiceClient;
use bellwether::proto::v1::{ConnectRequest, ConnectResponse};
use prost::Message;
use tonic::transport::Channel;
use tonic::{Status, Streaming};

use crate::Load;
use crate::ingest;
use crate::load::{self, Measured, Work};
use crate::machine::Machine;
use crate::pipelined::{Exchange, Messages};
use crate::redis::{self, Fsync, Redis};
use crate::report::{Report, Row, Sent, Side};
use crate::rounds::{self, Contender, Progress};
use crate::server::{Place, Server};
use crate::streams::{Reports, checked, pipelining};

/// Flags of `repeats`.
#[derive(Debug, clap::Args)]
pub struct Repeats {
    /// Streams on each connection, each of a worker of its own
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub streams: u32,
    /// Unacknowledged reports on each stream
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub in_flight: u32,
    /// Unary calls open at once on each connection
    #[arg(long, default_value_t = 128, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub calls: u32,
    /// Distinct statuses that are repeated on streams
    #[arg(long, default_value_t = 10_000)]
    #[arg(value_parser = clap::value_parser!(u64).range(64..=250_000))]
    pub keys: u64,
    /// The load of each measurement.
    #[command(flatten)]
    pub load: Load,
}

/// Applications that workers are spread over.
const APPLICATIONS: u64 = 64;
/// The least ratios to repeats without comparison.
const STREAMS_TARGET: f64 = 0.8;
const UNARY_TARGET: f64 = 0.7;

/// Runs the command: starts both sides, measures them in turn, prints the report.
pub async fn run(args: Repeats) -> anyhow::Result<()> {
    let site = args.load.site()?;
    let machine = Machine::look(&site.directory);
    // Checked before anything is started: a missing Redis is the likeliest failure.
    let binary = redis::find()?;
    let progress = Progress::new();
    progress.say("starting servers");
    let redis = Redis::start(&binary, Fsync::Everysec, &site.directory).await?;
    let compared = Server::start(&Place::Redis(redis.url()), &site).await?;
    let alone = Server::start(&Place::Memory, &site).await?;
    drop(progress);
    let sides = [("through Redis", compared.grpc), ("through the memory store", alone.grpc)];
    let on_streams = sides.map(|(name, address)| args.on_streams(name, address));
    let unary = sides.map(|(name, address)| args.unary(name, address));
    let mut rows = Vec::new();
    for (what, contenders, target) in [
        ("Repeats on workers' streams", on_streams, STREAMS_TARGET),
        ("Repeats by unary ReportStatus", unary, UNARY_TARGET),
    ] {
        let measured = rounds::alternate(&contenders, args.load.rounds).await?;
        let names = contenders.iter().map(|contender| contender.name.as_str());
        let sides = names.zip(&measured).map(|(name, rounds)| Side::of(name, rounds.iter()));
        let mut sides = sides.collect::<anyhow::Result<Vec<Side>>>()?.into_iter();
        let work = format!("{what}, compared with Redis {}, beside no comparison", redis.version);
        if let Some(ours) = sides.next() {
            rows.push(Row::compare(&work, ours, sides.next(), Some(target)));
        }
    }
    Report { machine, sent: args.sent(), rows }.print(args.load.json)
}

impl Repeats {
    fn on_streams(&self, name: &str, address: SocketAddr) -> Contender<Measured> {
        let streams = u64::from(self.streams * self.load.connections);
        let reports =
            Reports { streams, keys: self.keys, name: "streamed", applications: APPLICATIONS };
        let plan = self.load.plan(self.in_flight);
        pipelining(named(name), address, Repeated(reports), plan, self.streams as usize)
    }

    fn unary(&self, name: &str, address: SocketAddr) -> Contender<Measured> {
        let plan = self.load.plan(self.calls);
        Contender::new(named(name), move |first| {
            let url = format!("http://{address}");
            Box::pin(checked(load::run(Arc::new(Calls), url, plan.clone(), first)))
        })
    }

    fn sent(&self) -> Sent {
        Sent {
            request_bytes: ingest::report(0).encoded_len(),
            keys: self.keys,
            applications: APPLICATIONS,
            connections: self.load.connections,
            in_flight: self.in_flight * self.streams,
            rounds: self.load.rounds,
            seconds: self.load.seconds,
            warm_up_seconds: self.load.warm_up,
        }
    }
}

fn named(side: &str) -> String {
    format!("bellwether {} {side}", bellwether::VERSION)
}

/// Reports on streams that each repeat the status of their key.
struct Repeated(Reports);

impl Exchange for Repeated {
    type Sent = ConnectRequest;
    type Told = ConnectResponse;

    async fn open(
        &self,
        channel: Channel,
        _: usize,
        messages: Messages<Repeated>,
    ) -> Result<Streaming<ConnectResponse>, Status> {
        Reports::connect(channel, messages).await
    }

    fn hello(&self, stream: usize) -> Option<ConnectRequest> {
        self.0.hello(stream)
    }

    fn message(&self, stream: usize, _: u64, seq: u64) -> ConnectRequest {
        let mut request = self.0.message(stream, 0, seq % self.0.keys_of(stream));
        if let Some(Inbound::Report(report)) = &mut request.message {
            report.seq = seq;
        }
        request
    }

    fn acknowledged(&self, told: ConnectResponse, before: u64) -> Result<u64, Status> {
        self.0.acknowledged(told, before)
    }
}

/// Unary reports that each repeat the status of their unit.
struct Calls;

impl Work for Calls {
    async fn call(&self, channel: Channel, sequence: u64) -> Result<(), Status> {
        let repeat = ingest::report(sequence % ingest::KEYS);
        ReportServiceClient::new(channel).report_status(repeat).await?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_one_message() {
        let reports = Reports { streams: 3, keys: 100, name: "app", applications: 1 };
        let repeated = Repeated(reports);
        let text = |seq| match repeated.message(1, 7, seq).message {
            Some(Inbound::Report(report)) => {
                assert_eq!(report.seq, seq);
                report.statuses
            }
            other => panic!("{other:?}"),
        };
        let keys = reports.keys_of(1);
        assert_eq!(text(5), text(5 + keys));
        assert_ne!(text(5), text(6));
    }
}
