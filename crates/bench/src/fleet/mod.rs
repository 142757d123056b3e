//! `fleet`: simulates the queues of a fleet that is too large to run: from a report through a
//! replica, Redis, the other replicas and two levels of relays to the watchers.
//!
//! ```text
//!  report -> replica -> master -> every replica -> upper relay -> relay -> watchers
//!            decide     write     follow, send     relay, send    relay, events
//! ```
//!
//! `plan.rs` has the costs, which are measured, `queue.rs` the stations, and `run.rs` the changes.

mod plan;
mod queue;
mod run;

use std::fmt::{self, Display, Formatter};

use anyhow::ensure;
use serde::Serialize;

use crate::figure::{duration, thousands};
use plan::{Memory, Plan};

/// Flags of `fleet`.
#[derive(Debug, clap::Args)]
pub struct FleetArgs {
    /// The fleet.
    #[command(flatten)]
    plan: Plan,
    /// Simulated seconds
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

/// The stations of one kind.
#[derive(Debug, Clone, Serialize)]
struct Row {
    kind: &'static str,
    count: u64,
    cores: u64,
    /// The share of the time in which the cores of the busiest station work.
    utilization: f64,
    /// Seconds for which work waits: 99 of 100 wait less.
    wait_p99: f64,
    /// The bytes of memory of one of them; of all masters of Redis together.
    memory_bytes: u64,
}

/// What was simulated.
#[derive(Debug, Serialize)]
struct Simulated {
    plan: Plan,
    changes: u64,
    rows: Vec<Row>,
    /// Seconds from a report to its acknowledgement.
    acknowledged: Quantiles,
    /// Seconds from a report to the last event of a relay about it.
    seen: Quantiles,
}

/// Seconds.
#[derive(Debug, Clone, Serialize)]
struct Quantiles {
    p50: f64,
    p99: f64,
    longest: f64,
}

/// Runs the command.
pub async fn run(args: FleetArgs) -> anyhow::Result<()> {
    let (plan, seconds) = (args.plan, args.seconds);
    let all = plan.applications;
    ensure!(plan.interest <= all, "there are {all} applications; give --interest 1 to {all}");
    // On a thread of its own, so that Ctrl-C ends it.
    let report = tokio::task::spawn_blocking(move || simulate(plan, seconds)).await?;
    match args.json {
        true => println!("{}", serde_json::to_string_pretty(&report)?),
        false => print!("{report}"),
    }
    let over = report.rows.iter().filter(|row| 1.0 <= row.utilization).map(|row| row.kind);
    let over: Vec<&str> = over.collect();
    let names = over.join(", ");
    ensure!(over.is_empty(), "too few cores: {names}; what waits there grows without a limit");
    Ok(())
}

fn simulate(plan: Plan, seconds: u64) -> Simulated {
    let ran = run::run(&plan, seconds);
    let Memory { redis, replica, upper_relay, relay } = plan.memory();
    let kinds = [
        ("masters of Redis", plan.masters, 1, redis),
        ("replicas", plan.replicas, plan.replica_cores, replica),
        ("upper relays", plan.upper_relays, plan.upper_cores, upper_relay),
        ("relays", plan.relays, plan.relay_cores, relay),
    ];
    let rows =
        kinds.into_iter().zip(&ran.kinds).map(|((kind, count, cores, memory_bytes), ran)| {
            let wait_p99 = ran.waits.value_at_quantile(0.99) as f64 / 1e9;
            Row { kind, count, cores, utilization: ran.utilization, wait_p99, memory_bytes }
        });
    let rows = rows.collect();
    let [acknowledged, seen] = [&ran.acknowledged, &ran.seen].map(|durations| Quantiles {
        p50: durations.value_at_quantile(0.5) as f64 / 1e9,
        p99: durations.value_at_quantile(0.99) as f64 / 1e9,
        longest: durations.max() as f64 / 1e9,
    });
    Simulated { plan, changes: ran.changes, rows, acknowledged, seen }
}

impl Display for Simulated {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let plan = &self.plan;
        let [statuses, changes, watchers] =
            [plan.applications * plan.statuses, plan.changes, plan.watchers];
        let [statuses, changes, watchers] =
            [statuses, changes, watchers].map(|number| thousands(number as f64));
        writeln!(f, "Fleet  {statuses} statuses, {changes} changes/s, {watchers} watchers\n")?;
        writeln!(f, "                      count  cores   busy  p99 wait   memory")?;
        for Row { kind, count, cores, utilization, wait_p99, memory_bytes } in &self.rows {
            let (busy, wait) = (100.0 * utilization, duration(*wait_p99));
            let gigabytes = *memory_bytes as f64 / 1e9;
            writeln!(f, "  {kind:18}{count:7}{cores:7}{busy:6.0}%{wait:>10}{gigabytes:6.1} GB")?;
        }
        writeln!(f)?;
        for (name, Quantiles { p50, p99, longest }) in
            [("acknowledged", &self.acknowledged), ("seen by watchers", &self.seen)]
        {
            let [p50, p99, longest] = [p50, p99, longest].map(|seconds| duration(*seconds));
            writeln!(f, "  {name:18}p50 {p50}, p99 {p99}, longest {longest}")?;
        }
        let cores: u64 = self.rows.iter().map(|row| row.count * row.cores).sum();
        let memory: u64 = self.rows.iter().map(|row| row.memory_bytes * row.machines()).sum();
        let memory = memory as f64 / 1e9;
        writeln!(f, "\n  {cores} cores, {memory:.0} GB, without the replicas of Redis")
    }
}

impl Row {
    /// Returns how many times its memory is there.
    fn machines(&self) -> u64 {
        if self.kind == "masters of Redis" { 1 } else { self.count }
    }
}
