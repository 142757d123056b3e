//! `bellwether-sim`: runs whole replicas in simulated time, with faults, from one seed.
//!
//! ```text
//!  clients (one machine) --calls, links--> replica 0..3 (a machine each) --requests--> Redis
//!     workers, watchers,     simulated        real aggregator, sessions,    simulated   small,
//!     operators              network          hub, Redis store              network     scripts
//! ```
//!
//! In some runs one replica has the embedded store instead, over a disk in memory.
//!
//! The world moves in steps of simulated time. In each step it delivers the packets that are due
//! and lets each machine run for as long. All of it is one thread, so one seed gives one trace.

mod client;
mod counts;
mod end;
mod fault;
mod fence;
mod given;
mod host;
mod judge;
mod level;
mod loss;
mod mark;
mod network;
mod process;
mod quorum;
mod randomness;
mod redis;
mod refusal;
mod report;
mod server;
mod store;
mod trace;
mod uptime;
mod world;

use std::collections::BTreeMap;
use std::process::{Command, ExitCode, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use bellwether::store::redis::Durability;
use clap::Parser;

use world::{Plan, Summary};

/// As in the server. A fifth of the time of a run is that of the allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Runs replicas of Bellwether in simulated time, with faults. One seed gives one run.
#[derive(Parser)]
struct Arguments {
    /// Runs this seed alone, in this process: for a debugger, and for --trace
    #[arg(long)]
    seed: Option<u64>,
    /// The first of several seeds
    #[arg(long, default_value_t = 1)]
    from_seed: u64,
    /// The number of seeds
    #[arg(long, default_value_t = 10)]
    seeds: u64,
    /// Simulated minutes of each seed; the last two are without faults, in every fourth seed seven
    #[arg(long, default_value_t = 10)]
    minutes: u64,
    /// Prints the trace of the seed
    #[arg(long, requires = "seed")]
    trace: bool,
    /// Runs each seed twice and compares the traces
    #[arg(long)]
    twice: bool,
    /// Runs no seed after one that failed
    #[arg(long)]
    until_failure: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let ran = match arguments.seed {
        Some(seed) if !arguments.twice => one(seed, &arguments),
        Some(seed) => many(&Arguments { from_seed: seed, seeds: 1, ..arguments }),
        None => many(&arguments),
    };
    match ran {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bellwether-sim: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Locks a mutex. A violation that panics ends the run, so a poisoned lock is used no more.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a seed in this process.
fn one(seed: u64, arguments: &Arguments) -> Result<()> {
    randomness::seed_process(seed);
    let (minutes, prints) = (arguments.minutes, arguments.trace);
    let started = Instant::now();
    let summary = world::run(Plan { seed, minutes, prints })?;
    let seconds = started.elapsed().as_secs_f64();
    println!("{}", line(seed, seconds, &summary));
    let faults = summary.faults.iter().map(|(name, count)| format!("{count} {name}"));
    println!("  faults: {}", faults.collect::<Vec<_>>().join(", "));
    let ends = summary.ends.iter().map(|(what, count)| format!("{count} {what}"));
    println!("  ends by time: {}", ends.collect::<Vec<_>>().join(", "));
    let ends = summary.mark_ends.iter().map(|(why, count)| format!("{count} {why}"));
    println!("  ends of marks: {}", ends.collect::<Vec<_>>().join(", "));
    for violation in &summary.violations {
        println!("  VIOLATION of seed {seed} {violation}");
    }
    if summary.violations.is_empty() {
        return Ok(());
    }
    let repeat = format!("make simulate ARGS=\"--seed {seed} --minutes {minutes} --trace\"");
    bail!("seed {seed} violates an invariant; repeat it with {repeat}")
}

/// Returns a summary as names with numbers.
fn line(seed: u64, seconds: f64, summary: &Summary) -> String {
    let Summary { shape, simulated, faults, events, lost, counts, trace, most, violations, .. } =
        summary;
    let faults: u64 = faults.values().sum();
    let speed = *simulated as f64 / 1000.0 / seconds.max(0.001);
    format!(
        "seed={seed} simulated_s={} took_s={seconds:.2} times_real_time={speed:.0} faults={faults} \
         events={events} lost={lost} commits={} reports={} leader_writes={} operations={} \
         watch_events={} bookmarks={} reads={} needs_met={} stated={} quorums={} marks={} \
         losts={} silences={} folds={} kept={} shards={} waits={} tasks_most={} \
         queued_most={} lines={} trace={:016x} violations={}",
        simulated / 1000,
        counts.commits,
        counts.reports,
        counts.leader_writes,
        counts.operations,
        counts.watch_events,
        counts.bookmarks,
        counts.reads,
        counts.needs_met,
        counts.stated,
        counts.quorums,
        counts.marks,
        counts.losts,
        counts.silences,
        counts.folds,
        counts.kept,
        shape.shards,
        u8::from(shape.durability != Durability::Acknowledged),
        most.0,
        most.1,
        trace.0,
        trace.1,
        violations.len(),
    )
}

/// Runs several seeds, each in a process of its own, so that no seed depends on those before it.
fn many(arguments: &Arguments) -> Result<()> {
    let mut sums: BTreeMap<String, f64> = BTreeMap::new();
    let mut failed = Vec::new();
    let seeds = arguments.from_seed..arguments.from_seed + arguments.seeds;
    for seed in seeds.clone() {
        let (first, ok) = child(seed, arguments.minutes)?;
        print!("{first}");
        let same = match arguments.twice {
            true => trace_of(&first) == trace_of(&child(seed, arguments.minutes)?.0),
            false => true,
        };
        if !same {
            println!("  VIOLATION of seed {seed}: its second run has another trace");
        }
        if !(ok && same) {
            failed.push(seed);
            if arguments.until_failure {
                break;
            }
        }
        for (name, value) in pairs(&first) {
            *sums.entry(name.to_string()).or_default() += value.parse().unwrap_or(0.0);
        }
    }
    let sum = |name: &str| sums.get(name).copied().unwrap_or_default();
    let (simulated, took) = (sum("simulated_s"), sum("took_s"));
    println!(
        "{} seeds from {}: {:.2} simulated days in {took:.0} s, {:.0} times real time; {} faults, \
         {} events, {} commits, {} reports, {} leader writes, {} checkpoints, {} watch events, {} \
         bookmarks, {} needs met, {} marks set, {} units lost, {} times because they had to be; {} \
         folds, {} masters with all that was acknowledged; {} failed{}",
        arguments.seeds,
        seeds.start,
        simulated / 86_400.0,
        simulated / took.max(0.001),
        sum("faults"),
        sum("events"),
        sum("commits"),
        sum("reports"),
        sum("leader_writes"),
        sum("operations"),
        sum("watch_events"),
        sum("bookmarks"),
        sum("needs_met"),
        sum("marks"),
        sum("losts"),
        sum("silences"),
        sum("folds"),
        sum("kept"),
        failed.len(),
        if arguments.twice { "; each ran twice with one trace" } else { "" },
    );
    match failed.is_empty() {
        true => Ok(()),
        false => bail!("seeds {failed:?} failed; continue with --from-seed {}", seeds.end),
    }
}

/// Runs a seed in another process. Returns what it printed, and whether it succeeded.
fn child(seed: u64, minutes: u64) -> Result<(String, bool)> {
    let program = std::env::current_exe().context("cannot find this program")?;
    let mut command = Command::new(program);
    command.arg("--seed").arg(seed.to_string()).arg("--minutes").arg(minutes.to_string());
    let output = command.stderr(Stdio::inherit()).output().context("cannot start a run")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok((text, output.status.success()))
}

fn pairs(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let first = text.lines().next().unwrap_or_default();
    first.split_whitespace().filter_map(|word| word.split_once('='))
}

fn trace_of(text: &str) -> Option<&str> {
    pairs(text).find(|(name, _)| *name == "trace").map(|(_, trace)| trace)
}
