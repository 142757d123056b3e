//! `peers`: puts per second of the etcd that the rows are measured beside, and of another version
//! of it on the PATH, such as that of the distribution.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use prost::Message;

use crate::Load;
use crate::etcd::{self, Etcd, Puts};
use crate::ingest::{self, KEYS};
use crate::load;
use crate::machine::Machine;
use crate::process;
use crate::report::{Report, Row, Sent, Side};
use crate::rounds::{self, Contender, Progress};
use crate::streams::checked;

/// The command, whose row has no target, and is in the table because the others rest on it.
pub const COMMAND: &str = "peers";

/// Flags of `peers`.
#[derive(Debug, clap::Args)]
pub struct Peers {
    /// Puts open at once on each connection
    #[arg(long, default_value_t = 128, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub in_flight: u32,
    /// The load of each measurement.
    #[command(flatten)]
    pub load: Load,
}

/// Runs the command.
pub async fn run(args: Peers) -> anyhow::Result<()> {
    let directory = args.load.data_directory();
    let machine = Machine::look(&directory);
    let request_bytes = ingest::report(0).encoded_len();
    let progress = Progress::new();
    progress.say("starting servers");
    let mut members = Vec::new();
    for binary in [Some(etcd::find()?), other()].into_iter().flatten() {
        members.push(Etcd::start(&binary, &directory).await?);
    }
    drop(progress);
    let contenders: Vec<_> = members
        .iter()
        .map(|member| {
            let puts = Arc::new(Puts::of(request_bytes, KEYS));
            let (url, plan) =
                (format!("http://{}", member.address), args.load.plan(args.in_flight));
            Contender::new(format!("etcd {}", member.version), move |first| {
                Box::pin(checked(load::run(puts.clone(), url.clone(), plan.clone(), first)))
            })
        })
        .collect();
    let measured = rounds::alternate(&contenders, args.load.rounds).await?;
    let named = contenders.iter().zip(&measured);
    let mut sides = named.map(|(side, rounds)| Side::of(&side.name, rounds.iter()));
    let first = sides.next().context("no etcd was measured")??;
    let other = sides.next().transpose()?;
    let beside = other.as_ref().map_or(String::new(), |side| format!(", beside {}", side.name));
    let work = format!("Puts with fsync of {}, the peer of these rows{beside}", first.name);
    let rows = vec![Row::compare(&work, first, other, None)];
    Report { machine, sent: args.sent(request_bytes), rows }.print(args.load.json)
}

/// Returns an etcd on the PATH that is not the one that the rows are measured beside.
fn other() -> Option<PathBuf> {
    let mut found = process::find_all("etcd").into_iter();
    let first = found.next()?;
    found.find(|file| file.canonicalize().ok() != first.canonicalize().ok())
}

impl Peers {
    fn sent(&self, request_bytes: usize) -> Sent {
        Sent {
            request_bytes,
            keys: KEYS,
            applications: ingest::APPLICATIONS,
            connections: self.load.connections,
            in_flight: self.in_flight,
            rounds: self.load.rounds,
            seconds: self.load.seconds,
            warm_up_seconds: self.load.warm_up,
        }
    }
}
