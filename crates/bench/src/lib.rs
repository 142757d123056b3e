//! `bellwether-bench`, the load generator: measures Bellwether beside the alternatives of a user,
//! in turn, in one run.
//!
//! ```text
//!  ingest, silence, ... --start--> server, redis, etcd, echo   (processes, killed when dropped)
//!     |
//!     '--sides--> rounds --A B A B--> load        (closed loop, one thread per core)
//!                    |                pipelined   (the same on open streams)
//!                    |                open_loop   (a fixed rate, with watchers), pending
//!                    |                worker      (simulated workers), lease   (those of etcd)
//!                    |                h2_readers  (watchers that only count)
//!                    '--> report, delay, scalar: rows --> table | JSON
//! ```
//!
//! `site` finds the server under test. To add a row, copy `ingest` for a rate or `replicas` for a
//! delay: the file defines the call ([`load::Work`], [`open_loop::WatchedWork`]), the sides and
//! their targets, and gets rounds, statistics and printing from the other modules. A line in `all`
//! adds it to the table of `docs/performance.md`.

pub mod abuse;
pub mod active;
pub mod all;
pub mod blockers;
pub mod both_ways;
pub mod campaign;
pub mod candidacy;
pub mod changes;
pub mod cold;
pub mod collect;
pub mod commits;
pub mod cost;
pub mod crowd;
pub mod delay;
pub mod echo;
pub mod election;
pub mod etcd;
pub mod events;
pub mod fanout;
pub mod figure;
pub mod fixture;
pub mod fleet;
pub mod following;
pub mod graph;
pub mod growth;
pub mod h2_readers;
pub mod heartbeats;
pub mod ingest;
pub mod instructions;
pub mod json;
pub mod lease;
pub mod load;
pub mod loss;
pub mod machine;
pub mod marks;
pub mod memory;
pub mod needs;
pub mod open_loop;
pub mod page;
pub mod peers;
pub mod pending;
pub mod pipelined;
pub mod process;
pub mod redis;
pub mod relay;
pub mod repeats;
pub mod replicas;
pub mod report;
pub mod rounds;
pub mod runtime;
pub mod scalar;
pub mod secured;
pub mod server;
pub mod silence;
pub mod site;
pub mod sizing;
pub mod start;
pub mod storm;
pub mod streams;
pub mod summary;
pub mod table;
pub mod testbed;
pub mod watchers;
pub mod wire;
pub mod worker;
pub mod written;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::bail;
use tokio::signal::unix::{SignalKind, signal};

use crate::load::Plan;
use crate::site::Site;

/// Measure a Bellwether server beside a peer, on this machine, in one run
#[derive(Debug, clap::Parser)]
#[command(name = "bellwether-bench", version = bellwether::VERSION)]
pub struct Args {
    /// The measurement to run.
    #[command(subcommand)]
    pub command: BenchCommand,
}

/// The measurements.
#[derive(Debug, clap::Subcommand)]
pub enum BenchCommand {
    /// Unary reports acknowledged and commits made per second, beside puts into etcd
    Ingest(ingest::Ingest),
    /// Reports acknowledged per second on workers' streams, beside etcd puts and a stream echo
    Streams(streams::Streams),
    /// Repeats acknowledged per second through Redis, beside a store that compares nothing
    Repeats(repeats::Repeats),
    /// Reports acknowledged per second with TLS and a JWT, beside the same without
    Secured(secured::Secured),
    /// Delay from a report on one replica to a watcher of another over one Redis, beside etcd
    Replicas(replicas::Replicas),
    /// Cost of a change to Redis and to each of several replicas over it
    Following(following::Following),
    /// Delay from a report to its watcher behind relays, and the cost of a relay
    Relay(relay::Relay),
    /// Delay from a report to the watcher of its application, with many of both, beside etcd
    Watchers(watchers::Watchers),
    /// Bytes that reach the disk for each change, beside etcd
    Written(written::Written),
    /// Cost of a report in an application of many statuses, beside one of few
    Growth(growth::Growth),
    /// Time of a list of what blocks, in fleets of applications that need each other
    Blockers(blockers::Blockers),
    /// Cost of a commit with many active applications, beside few
    Active(active::Active),
    /// Time until a server with a million statuses answers, after it was killed
    Start(start::Start),
    /// Puts per second of the etcd that is measured beside, and of another version of it
    Peers(peers::Peers),
    /// The time of a read of memory that is not in the caches
    ColdLines(cold::Cold),
    /// Time until the workers of an application have answered, with some that never do
    Collect(collect::Collect),
    /// Time until units that fall silent together are judged, beside leases in etcd
    Silence(silence::Silence),
    /// Time until marks that end together are gone from every application
    Marks(marks::Marks),
    /// Cost of workers that send only heartbeats, beside keepalives of leases in etcd
    Heartbeats(heartbeats::Heartbeats),
    /// Time until another candidate leads, beside the election of etcd
    Election(election::Election),
    /// Time until workers are back after one of two replicas over one Redis is killed
    Loss(loss::Loss),
    /// Cost of a report in the core in instructions, counted by valgrind
    Instructions(instructions::Instructions),
    /// What an innocent client notices while the server is attacked
    Abuse(abuse::Abuse),
    /// Every measurement with a target, one after another, with one table at the end
    All(all::All),
    /// Throughput and delay of rows 1, 2, 3 and 6 as the load grows, drawn beside the peer
    Graph(graph::Graph),
    /// Events received per second by the watchers of one application, beside plain tonic and etcd
    Fanout(fanout::Fanout),
    /// Memory and delay of many readers of Server-Sent Events over HTTP/1.1
    Events(events::Events),
    /// Unary calls per second with JSON by the Connect protocol, beside gRPC
    Json(json::Json),
    /// Memory of an idle watch, of a stored status, and of a reader that has stopped
    Memory(memory::Memory),
    /// Processor time, memory and disk of a server with fleets of several sizes
    Sizing(sizing::Sizing),
    /// Queues and memory of a fleet that is too large to run, simulated from measured costs
    Fleet(fleet::FleetArgs),
    /// Time until all watchers are current after one of two replicas over one Redis is killed
    Storm(storm::Storm),
    /// The plain tonic echo that other commands start as a peer
    #[command(hide = true)]
    EchoServer,
    /// The work that `instructions` counts
    #[command(hide = true)]
    CountedReports(instructions::Counted),
    /// The calls that `instructions` counts
    #[command(hide = true)]
    CountedCalls(instructions::CountedCalls),
    /// The worker's stream that `instructions` counts
    #[command(hide = true)]
    CountedStreams(instructions::CountedStreams),
}

/// The load of each measurement and the place of its data: the same for every side.
#[derive(Debug, Clone, clap::Args)]
pub struct Load {
    /// Length of one measurement
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub seconds: u64,
    /// Load before each measurement that is not counted
    #[arg(long, default_value_t = 1, value_name = "SECONDS")]
    #[arg(value_parser = clap::value_parser!(u64).range(..=3600))]
    pub warm_up: u64,
    /// How often each side is measured, in turn
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
    /// Connections to each side
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub connections: u32,
    /// Directory for the data of the sides; must be on a real disk [default: /var/tmp]
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// The server that is measured [default: `bellwether` beside this program]
    #[arg(long, value_name = "FILE", env = "BELLWETHER_BINARY")]
    pub bellwether: Option<PathBuf>,
    /// Print the report as JSON
    #[arg(long)]
    pub json: bool,
}

impl Load {
    /// Returns the server and the directory that these flags name. Fails if there is no server.
    pub fn site(&self) -> anyhow::Result<Site> {
        Site::of(self)
    }

    /// Returns the time before each measurement.
    pub fn warm_up(&self) -> Duration {
        Duration::from_secs(self.warm_up)
    }

    /// Returns the time of one measurement.
    pub fn window(&self) -> Duration {
        Duration::from_secs(self.seconds)
    }

    /// Returns this load, with so many calls or messages open on each connection or stream.
    pub fn plan(&self, in_flight: u32) -> Plan {
        Plan {
            connections: self.connections as usize,
            in_flight: in_flight as usize,
            warm_up: self.warm_up(),
            window: self.window(),
        }
    }

    /// Returns the directory of the data. `/tmp` is in memory on many machines, where an fsync
    /// costs nothing and proves nothing.
    pub fn data_directory(&self) -> PathBuf {
        site::directory(self.dir.as_deref())
    }
}

/// Runs the command. Dropping the future ends the load and every process that it started, so the
/// caller may handle Ctrl-C. SIGTERM and SIGHUP, which would end this process without that cleanup,
/// are handled here.
pub async fn run(args: Args) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hang_up = signal(SignalKind::hangup())?;
    let work = async {
        match args.command {
            BenchCommand::Ingest(ingest) => ingest::run(ingest).await,
            BenchCommand::Streams(streams) => streams::run(streams).await,
            BenchCommand::Repeats(repeats) => repeats::run(repeats).await,
            BenchCommand::Secured(secured) => secured::run(secured).await,
            BenchCommand::Replicas(replicas) => replicas::run(replicas).await,
            BenchCommand::Following(following) => following::run(following).await,
            BenchCommand::Relay(relay) => relay::run(relay).await,
            BenchCommand::Watchers(watchers) => watchers::run(watchers).await,
            BenchCommand::Written(written) => written::run(written).await,
            BenchCommand::Blockers(blockers) => blockers::run(blockers).await,
            BenchCommand::Growth(growth) => growth::run(growth).await,
            BenchCommand::Active(active) => active::run(active).await,
            BenchCommand::Start(start) => start::run(start).await,
            BenchCommand::Peers(peers) => peers::run(peers).await,
            BenchCommand::ColdLines(args) => cold::run(&args),
            BenchCommand::Collect(collect) => collect::run(collect).await,
            BenchCommand::Silence(silence) => silence::run(silence).await,
            BenchCommand::Marks(marks) => marks::run(marks).await,
            BenchCommand::Election(election) => election::run(election).await,
            BenchCommand::Heartbeats(heartbeats) => heartbeats::run(heartbeats).await,
            BenchCommand::Loss(loss) => loss::run(loss).await,
            BenchCommand::Instructions(args) => instructions::run(args).await,
            BenchCommand::Abuse(abuse) => abuse::run(abuse).await,
            BenchCommand::All(all) => all::run(all).await,
            BenchCommand::Graph(graph) => graph::run(graph).await,
            BenchCommand::Fanout(fanout) => fanout::run(fanout).await,
            BenchCommand::Events(events) => events::run(events).await,
            BenchCommand::Json(json) => json::run(json).await,
            BenchCommand::Memory(memory) => memory::run(memory).await,
            BenchCommand::Sizing(sizing) => sizing::run(sizing).await,
            BenchCommand::Fleet(fleet) => fleet::run(fleet).await,
            BenchCommand::Storm(storm) => storm::run(storm).await,
            BenchCommand::EchoServer => echo::serve().await,
            BenchCommand::CountedReports(args) => instructions::run_counted(&args),
            BenchCommand::CountedCalls(args) => instructions::run_calls(&args),
            BenchCommand::CountedStreams(args) => instructions::run_streams(&args),
        }
    };
    tokio::select! {
        result = work => result,
        _ = terminate.recv() => bail!("ended by SIGTERM"),
        _ = hang_up.recv() => bail!("ended by SIGHUP"),
    }
}
