//! `repeats`: repeated reports acknowledged per second through Redis, beside the same through
//! the memory store. A repeat writes nothing in either; through Redis it is compared with the store
//! first, so the ratio is the price of that comparison.

use std::net::SocketAddr;
use std::sync::Arc;

use bellwether::proto::v1::connect_request::Message as Inbound;
use bellwether::proto::v1::report_service_client::ReportServiceClient;
use bellwether::proto::v1::{ConnectRequest, ConnectResponse};
use tonic::transport::Channel;
use tonic::{Status, Streaming};

use crate::both_ways::{BothWays, Comparison};
use crate::ingest;
use crate::load::{self, Measured, Work};
use crate::machine::Machine;
use crate::pipelined::{Exchange, Messages};
use crate::redis::{self, Fsync, Redis};
use crate::rounds::{Contender, Progress};
use crate::server::{Place, Server};
use crate::streams::{Reports, checked, pipelining};

/// Flags of `repeats`.
#[derive(Debug, clap::Args)]
pub struct Repeats {
    /// The load of both ways.
    #[command(flatten)]
    pub both: BothWays,
}

/// The least ratios to repeats without comparison.
const STREAMS_TARGET: f64 = 0.8;
const UNARY_TARGET: f64 = 0.7;

/// Runs the command: starts both sides, measures them in turn, prints the report.
pub async fn run(args: Repeats) -> anyhow::Result<()> {
    let site = args.both.load.site()?;
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
    let work =
        |what: &str| format!("{what}, compared with Redis {}, beside no comparison", redis.version);
    let on_streams = Comparison {
        work: work("Repeats on workers' streams"),
        sides: sides.map(|(name, address)| args.on_streams(name, address)),
        target: STREAMS_TARGET,
    };
    let unary = Comparison {
        work: work("Repeats by unary ReportStatus"),
        sides: sides.map(|(name, address)| args.unary(name, address)),
        target: UNARY_TARGET,
    };
    args.both.print(machine, [on_streams, unary]).await
}

impl Repeats {
    fn on_streams(&self, name: &str, address: SocketAddr) -> Contender<Measured> {
        let plan = self.both.load.plan(self.both.in_flight);
        pipelining(
            named(name),
            address,
            Repeated(self.both.reports()),
            plan,
            self.both.streams as usize,
        )
    }

    fn unary(&self, name: &str, address: SocketAddr) -> Contender<Measured> {
        let plan = self.both.load.plan(self.both.calls);
        Contender::new(named(name), move |first| {
            let url = format!("http://{address}");
            Box::pin(checked(load::run(Arc::new(Calls), url, plan.clone(), first)))
        })
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
