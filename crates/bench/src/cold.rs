//! `cold-lines`: the time of a read of memory that is not in the caches. It is the limit of a row
//! whose difference is such memory: a program that does nothing else cannot read it faster.

use std::fmt::{self, Display, Formatter};
use std::hint::black_box;
use std::time::Instant;

use anyhow::Context;
use serde::Serialize;

use crate::figure::thousands;
use crate::machine::Machine;
use crate::report::Report;
use crate::scalar::{AnyRow, ScalarRow, ScalarSide, Target};

/// Flags of `cold-lines`.
#[derive(Debug, clap::Args)]
pub struct Cold {
    /// Memory that is read, in MiB; by default that of 100,000 statuses
    #[arg(long, default_value_t = 34, value_parser = clap::value_parser!(u64).range(1..=4096))]
    pub mib: u64,
    /// Reads in each round
    #[arg(long, default_value_t = READS)]
    #[arg(value_parser = clap::value_parser!(u64).range(1000..=1_000_000_000))]
    pub reads: u64,
    /// How often each is measured, in turn
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub rounds: u32,
    /// Print the report as JSON
    #[arg(long)]
    pub json: bool,
}

/// Reads in a round.
const READS: u64 = 4_000_000;
/// The bytes of a line of the caches.
const LINE_BYTES: usize = 64;
/// The seed of the order.
const SEED: u64 = 0x9e37_79b9_7f4a_7c15;

/// A line that names the line to read next.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line(usize);

/// The load.
#[derive(Debug, Serialize)]
struct Reads {
    mib: u64,
    reads: u64,
    rounds: u32,
}

impl Display for Reads {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Reads { mib, reads, rounds } = self;
        let reads = thousands(*reads as f64);
        write!(f, "{reads} reads of lines at random in {mib} MiB, {rounds} rounds in turn")
    }
}

/// Lines that work reads although no cache has them.
#[derive(Debug, Clone, Copy)]
pub struct Lines {
    /// The lines, counted as docs/performance.md describes.
    pub count: u32,
    /// The memory that they are spread over, in MiB.
    pub mib: u64,
    /// The most that the work may take, relative to reads of as many lines.
    pub ratio_max: f64,
}

impl Lines {
    /// Returns the row of this work beside reads of as many lines, each at a place that the one
    /// before names.
    pub fn beside(self, work: String, micros: Vec<f64>) -> anyhow::Result<AnyRow> {
        let lines = lines(self.mib)?;
        let read = || nanoseconds(READS, || follow(&lines, READS)) * f64::from(self.count) / 1e3;
        // The system gives pages at the first use.
        read();
        let reads = micros.iter().map(|_| read()).collect();
        let ours = ScalarSide::mean(&format!("bellwether {}", bellwether::VERSION), micros);
        let peer = ScalarSide::mean(&format!("{} lines of memory", self.count), reads);
        let target = Some(Target::RatioAtMost(self.ratio_max));
        let row = ScalarRow::compare(work, "microseconds", ours, Some(peer), target);
        Ok(AnyRow::Scalar(row))
    }
}

/// Runs the command.
pub fn run(args: &Cold) -> anyhow::Result<()> {
    let machine = Machine::look(&std::env::temp_dir());
    let lines = lines(args.mib)?;
    let (mut chained, mut free) = (Vec::new(), Vec::new());
    // The first of each is not counted: the system gives pages at the first use.
    for round in 0..=args.rounds {
        let of_chained = nanoseconds(args.reads, || follow(&lines, args.reads));
        let of_free = nanoseconds(args.reads, || jump(&lines, args.reads));
        if 0 < round {
            chained.push(of_chained);
            free.push(of_free);
        }
    }
    let row = |work: &str, rounds| {
        let side = ScalarSide::mean("this machine", rounds);
        ScalarRow::compare(work, "nanoseconds", side, None, None)
    };
    let rows = vec![
        row("A read that says where the next one is", chained),
        row("A read, many at the same time", free),
    ];
    let sent = Reads { mib: args.mib, reads: args.reads, rounds: args.rounds };
    Report { machine, sent, rows }.print(args.json)
}

/// Returns the lines of that much memory.
fn lines(mib: u64) -> anyhow::Result<Vec<Line>> {
    let bytes = usize::try_from(mib << 20).context("more memory than there is")?;
    Ok(circle(bytes / LINE_BYTES))
}

/// Returns the next number of a sequence that looks random.
fn next(seed: &mut u64) -> u64 {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    *seed
}

/// Returns lines that lead through each of them, in an order that looks random, and back.
fn circle(count: usize) -> Vec<Line> {
    let mut seed = SEED;
    let mut order: Vec<usize> = (0..count).collect();
    for place in (1..count).rev() {
        order.swap(place, next(&mut seed) as usize % (place + 1));
    }
    let mut lines = vec![Line(0); count];
    for (place, line) in order.iter().enumerate() {
        lines[*line] = Line(order[(place + 1) % count]);
    }
    lines
}

fn follow(lines: &[Line], reads: u64) -> usize {
    (0..reads).fold(0, |line, _| lines[line].0)
}

fn jump(lines: &[Line], reads: u64) -> usize {
    let mut seed = SEED;
    (0..reads).fold(0, |sum, _| sum ^ lines[next(&mut seed) as usize % lines.len()].0)
}

fn nanoseconds(reads: u64, work: impl Fn() -> usize) -> f64 {
    let start = Instant::now();
    black_box(work());
    start.elapsed().as_secs_f64() * 1e9 / reads as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_lead_through_each_of_them_and_back() {
        let lines = circle(1000);
        let mut seen = vec![false; 1000];
        let mut line = 0;
        for _ in 0..1000 {
            assert!(!std::mem::replace(&mut seen[line], true), "{line} comes twice");
            line = lines[line].0;
        }
        assert_eq!((line, follow(&lines, 1000)), (0, 0));
    }
}
