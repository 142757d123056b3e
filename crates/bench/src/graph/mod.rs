//! `graph`: throughput and delay as the load grows, ours beside the peer's, as an SVG file.
//!
//! ```text
//!  SWEEPS: a row, its command at several loads --> points --> chart::Chart --> svg --> FILE
//! ```

mod chart;
mod svg;

use std::path::PathBuf;

use anyhow::Context;

use crate::all::measure;
use crate::delay::DelayRow;
use crate::machine::Machine;
use crate::report::Row;
use crate::rounds::Progress;
use crate::scalar::AnyRow;
use crate::{Load, figure};

use chart::{Chart, Line, Point};

/// Flags of `graph`.
#[derive(Debug, clap::Args)]
pub struct Graph {
    /// The file that is written
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
    /// Only these rows of the targets
    #[arg(long, value_delimiter = ',', value_name = "ROW")]
    pub only: Vec<u32>,
    /// The least load, to check that the graph can be made; such figures mean nothing
    #[arg(long)]
    pub quick: bool,
    /// The load of each measurement.
    #[command(flatten)]
    pub load: Load,
}

/// A row of the targets at several loads.
struct Sweep {
    row: u32,
    /// What the row measures.
    title: &'static str,
    /// The arguments after `bellwether-bench`; the load follows.
    line: &'static str,
    /// The loads with the values of the flag at the end of `line`.
    loads: &'static [(f64, u32)],
    /// The meaning of a load.
    load: &'static str,
}

/// The loads of workers' streams: reports open on each connection, by those of each of its eight
/// streams.
const STREAM_LOADS: &[(f64, u32)] = &[(8.0, 1), (32.0, 4), (128.0, 16), (512.0, 64), (2048.0, 256)];

const SWEEPS: &[Sweep] = &[
    Sweep {
        row: 1,
        title: "Reports on workers' streams, Redis with AOF everysec; etcd puts with fsync",
        line: "streams --store redis --in-flight",
        loads: STREAM_LOADS,
        load: "reports open on each of 8 connections (etcd: at most 128)",
    },
    Sweep {
        row: 2,
        title: "Reports on workers' streams, embedded store with fsync; etcd puts with fsync",
        line: "streams --store embedded --in-flight",
        loads: STREAM_LOADS,
        load: "reports open on each of 8 connections (etcd: at most 128)",
    },
    Sweep {
        row: 3,
        title: "Unary reports, Redis with AOF everysec; etcd puts with fsync",
        line: "ingest --store redis --in-flight",
        loads: &[(2.0, 2), (8.0, 8), (32.0, 32), (128.0, 128), (512.0, 512)],
        load: "calls open on each of 8 connections",
    },
    Sweep {
        row: 6,
        title: "Change to watcher, 100 watchers, embedded store with fsync; etcd with fsync",
        line: "watchers --rate",
        loads: &[(1000.0, 1000), (2000.0, 2000), (5000.0, 5000), (10000.0, 10000)],
        load: "changes sent per second",
    },
];

/// Runs the command.
pub async fn run(args: Graph) -> anyhow::Result<()> {
    let site = args.load.site()?;
    let machine = Machine::look(&site.directory);
    let load = match args.quick {
        true => Load { seconds: 1, warm_up: 0, rounds: 1, ..args.load.clone() },
        false => args.load.clone(),
    };
    let progress = Progress::new();
    let mut charts = Vec::new();
    let wanted = |sweep: &&Sweep| args.only.is_empty() || args.only.contains(&sweep.row);
    for sweep in SWEEPS.iter().filter(wanted) {
        let mut lines = Vec::new();
        let count = if args.quick { 1 } else { sweep.loads.len() };
        for (at, value) in &sweep.loads[..count] {
            progress.say(&format!("row {}, {} {value}", sweep.row, sweep.line));
            let words = sweep.line.split(' ').map(str::to_string).chain([value.to_string()]);
            let report = measure(words, &load, &site).await?;
            let row = report.rows.first().context("the command has measured nothing")?;
            add(&mut lines, *at, row, (load.seconds * u64::from(load.rounds)) as f64);
        }
        let Sweep { row, title, load, .. } = sweep;
        charts.push(Chart { title: format!("{row}. {title}"), load, lines });
    }
    drop(progress);
    let mut caption = format!(
        "{} cores for servers and load, {}; load {} before; {} s x {} for each point",
        machine.cores, machine.processor, machine.load, load.seconds, load.rounds
    );
    if !machine.commit.is_empty() {
        caption += &format!("; commit {}", machine.commit);
    }
    let text = svg::draw(&charts, &caption);
    std::fs::write(&args.out, text).with_context(|| format!("write {}", args.out.display()))
}

/// Adds the two sides of a row at one load.
fn add(lines: &mut Vec<Line>, load: f64, row: &AnyRow, seconds: f64) {
    let sides: Vec<(&str, f64, Option<f64>)> = match row {
        AnyRow::Rate(Row { ours, peer, .. }) => [Some(ours), peer.as_ref()]
            .into_iter()
            .flatten()
            .map(|side| (&*side.name, side.per_second, side.p99_seconds))
            .collect(),
        AnyRow::Delay(DelayRow { ours, peer, .. }) => [Some(ours), peer.as_ref()]
            .into_iter()
            .flatten()
            .map(|side| (&*side.name, side.count as f64 / seconds, Some(side.p99_seconds)))
            .collect(),
        AnyRow::Scalar(_) => Vec::new(),
    };
    for (number, (name, per_second, p99_seconds)) in sides.into_iter().enumerate() {
        if lines.len() <= number {
            lines.push(Line { name: name.to_string(), points: Vec::new() });
        }
        lines[number].points.extend(p99_seconds.map(|p99| Point { load, per_second, p99 }));
    }
}

/// Returns a rate for an axis.
fn rate(value: f64) -> String {
    match value {
        v if 1e6 <= v => format!("{} M/s", figure::number(v / 1e6)),
        v if 1e3 <= v => format!("{} k/s", figure::number(v / 1e3)),
        v => format!("{}/s", figure::number(v)),
    }
}

/// Returns a delay for an axis.
fn delay(seconds: f64) -> String {
    match seconds {
        s if s < 1.0 => format!("{} ms", figure::number(s * 1e3)),
        s => format!("{} s", figure::number(s)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Args;

    #[test]
    fn each_line_is_a_command_that_there_is() {
        use clap::Parser;
        for Sweep { line, loads, .. } in SWEEPS {
            for (_, value) in *loads {
                let line = format!("bellwether-bench {line} {value}");
                assert!(Args::try_parse_from(line.split_whitespace()).is_ok(), "{line}");
            }
        }
    }

    #[test]
    fn axes_have_short_labels() {
        assert_eq!([rate(1000.0), rate(2e6), rate(10.0)], ["1 k/s", "2 M/s", "10/s"]);
        assert_eq!([delay(0.001), delay(0.1), delay(1.0)], ["1 ms", "100 ms", "1 s"]);
    }
}
