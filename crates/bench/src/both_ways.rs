//! The comparison of two servers by reports on streams and by unary reports.

use prost::Message;

use crate::Load;
use crate::ingest;
use crate::load::Measured;
use crate::machine::Machine;
use crate::report::{Report, Row, Sent, Side};
use crate::rounds::{self, Contender};
use crate::streams::Reports;

/// Applications that workers are spread over.
const APPLICATIONS: u64 = 64;

/// Flags of a comparison on streams and by unary calls.
#[derive(Debug, clap::Args)]
pub struct BothWays {
    /// Streams on each connection, each of a worker of its own
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub streams: u32,
    /// Unacknowledged reports on each stream
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub in_flight: u32,
    /// Unary calls open at once on each connection
    #[arg(long, default_value_t = 128, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub calls: u32,
    /// Distinct statuses on streams
    #[arg(long, default_value_t = 10_000)]
    #[arg(value_parser = clap::value_parser!(u64).range(64..=250_000))]
    pub keys: u64,
    /// The load of each measurement.
    #[command(flatten)]
    pub load: Load,
}

/// A measurement of two sides in turn: the work in words, the sides, the least ratio.
pub struct Comparison {
    /// The work.
    pub work: String,
    /// The sides, ours first.
    pub sides: [Contender<Measured>; 2],
    /// The least ratio.
    pub target: f64,
}

impl BothWays {
    /// Returns the reports of all streams.
    pub fn reports(&self) -> Reports {
        let streams = u64::from(self.streams * self.load.connections);
        Reports { streams, keys: self.keys, name: "streamed", applications: APPLICATIONS }
    }

    /// Measures the comparisons one after the other, and prints the report.
    pub async fn print(&self, machine: Machine, all: [Comparison; 2]) -> anyhow::Result<()> {
        let mut rows = Vec::new();
        for Comparison { work, sides, target } in all {
            let measured = rounds::alternate(&sides, self.load.rounds).await?;
            let names = sides.iter().map(|contender| contender.name.as_str());
            let sides = names.zip(&measured).map(|(name, rounds)| Side::of(name, rounds.iter()));
            let mut sides = sides.collect::<anyhow::Result<Vec<Side>>>()?.into_iter();
            if let Some(ours) = sides.next() {
                rows.push(Row::compare(&work, ours, sides.next(), Some(target)));
            }
        }
        Report { machine, sent: self.sent(), rows }.print(self.load.json)
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
