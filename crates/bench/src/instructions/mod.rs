//! `instructions`: the cost of a report in the core in instructions, counted by valgrind. The
//! counts are the same on a busy machine, so they show a regression that times would hide.

mod calls;
mod streams;

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, bail};
use bellwether::domain::command::Request;
use futures_util::future::try_join_all;
use serde::Serialize;
use tokio::process::Command;

use crate::figure::thousands;
use crate::fixture::Fixture;
use crate::machine::Machine;
use crate::report::Report;
use crate::rounds::Progress;
use crate::scalar::{ScalarRow, ScalarSide, Target};
use crate::{page, process, server};

pub use calls::{CountedCalls, run as run_calls};
pub use streams::{CountedStreams, run as run_streams};

/// Flags of `instructions`.
#[derive(Debug, clap::Args)]
pub struct Instructions {
    /// Statuses of the application, and of a smaller one that it is compared with
    #[arg(long, num_args = 1..=2, default_values_t = [100_000, 100], value_name = "COUNT")]
    #[arg(value_parser = clap::value_parser!(u64).range(100..=1_000_000))]
    pub statuses: Vec<u64>,
    /// Reports that are counted
    #[arg(long, default_value_t = 1280)]
    #[arg(value_parser = clap::value_parser!(u64).range(64..=1_000_000))]
    pub reports: u64,
    /// Also write the rows into this Markdown file, between its two markers
    #[arg(long, value_name = "FILE")]
    pub page: Option<PathBuf>,
    /// Print the report as JSON
    #[arg(long)]
    pub json: bool,
}

/// Flags of the command that valgrind runs.
#[derive(Debug, clap::Args)]
pub struct Counted {
    /// Statuses of the application
    #[arg(long)]
    pub statuses: u64,
    /// Reports that are counted
    #[arg(long)]
    pub reports: u64,
    /// Reports in each commit
    #[arg(long)]
    pub batch: u64,
}

/// Reports in a commit: one alone, and the mailbox of a busy application.
const BATCHES: [u64; 2] = [1, 64];
/// The block of the page that holds the rows.
const PAGE_BLOCK: &str = "bench instructions";
/// Only instructions in functions with these names count.
const COUNTED: [&str; 3] = ["*counted_reports*", "*counted_calls*", "*counted_streams*"];
/// Reports in a chunk of a worker's stream: as many as the server takes at once.
const CHUNK: u64 = 256;
/// How many times the instructions of a gRPC call the layer of the other protocols may cost.
const LAYER_MAX: f64 = 1.01;
/// Calls with things that others lack, with the flag of the things and their number.
const WITH: [(&str, &str, u64); 2] = [
    ("A gRPC call whose status has two needs", "needs", 2),
    ("A gRPC call that changes a level in an application with 64 marks", "marks", 64),
];
/// How many times the instructions of a call without such things they may cost.
const WITH_RATIO_MAX: f64 = 1.10;
/// The text of callgrind before the number of instructions.
const COLLECTED: &str = "Collected :";

/// The load.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct How {
    /// Reports that were counted.
    pub reports: u64,
    /// The version that valgrind reports.
    pub valgrind: String,
}

impl std::fmt::Display for How {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let reports = thousands(self.reports as f64);
        write!(f, "{reports} reports, spread over all statuses of one application; ")?;
        write!(f, "counted by {}", self.valgrind)
    }
}

/// Runs the command.
pub async fn run(args: Instructions) -> anyhow::Result<()> {
    let valgrind = process::find("valgrind").context(
        "valgrind is not on the PATH; install it (Debian, Ubuntu: apt-get install valgrind)",
    )?;
    if let Some(path) = &args.page {
        page::check(path, PAGE_BLOCK)?;
    }
    let machine = Machine::look(&std::env::temp_dir());
    let progress = Progress::new();
    progress.say("counting, which takes a minute or two");
    let kinds = BATCHES.iter().flat_map(|&batch| args.statuses.iter().map(move |&s| (batch, s)));
    // In parallel: other processes do not change a count.
    let counts = kinds.map(|(batch, statuses)| {
        let reports = args.reports.next_multiple_of(batch);
        let (valgrind, counted) = (&valgrind, Counted { statuses, reports, batch });
        async move {
            let each = count(valgrind, &counted.arguments()).await? as f64 / reports as f64;
            let name = format!("{} statuses", thousands(statuses as f64));
            anyhow::Ok(ScalarSide::mean(&name, vec![each]))
        }
    });
    let mut sides = try_join_all(counts).await?.into_iter();
    let mut rows = Vec::new();
    for batch in BATCHES {
        let work = match batch {
            1 => "A report that changes a level, alone in its commit".to_string(),
            _ => format!("A report that changes a level, {batch} in a commit"),
        };
        let mut of = sides.by_ref().take(args.statuses.len());
        let great = of.next().context("nothing was counted")?;
        rows.push(ScalarRow::compare(work, "instructions", great, of.next(), None));
    }
    let (layered, bare) = tokio::try_join!(
        call(&valgrind, args.reports, true),
        call(&valgrind, args.reports, false)
    )?;
    rows.push(ScalarRow::compare(
        "A gRPC call that changes a level, in all layers",
        "instructions",
        layered,
        Some(bare),
        Some(Target::RatioAtMost(LAYER_MAX)),
    ));
    for (work, things, count) in WITH {
        let (with, without) = tokio::try_join!(
            call_with(&valgrind, args.reports, things, count),
            call_with(&valgrind, args.reports, things, 0)
        )?;
        let target = Some(Target::RatioAtMost(WITH_RATIO_MAX));
        rows.push(ScalarRow::compare(work, "instructions", with, Some(without), target));
    }
    let streamed = stream(&valgrind, args.reports.next_multiple_of(CHUNK)).await?;
    let work = format!("A report on a worker's stream, {CHUNK} in a chunk, in all layers");
    rows.push(ScalarRow::compare(work, "instructions", streamed, None, None));
    drop(progress);
    let sent = How { reports: args.reports, valgrind: version(&valgrind).await? };
    let report = Report { machine, sent, rows };
    if let Some(path) = &args.page {
        page::write(path, PAGE_BLOCK, &report.to_string())?;
    }
    report.print(args.json)
}

async fn version(valgrind: &Path) -> anyhow::Result<String> {
    let output = Command::new(valgrind).arg("--version").output().await.context("ask valgrind")?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_string())
}

impl Counted {
    fn arguments(&self) -> Vec<String> {
        let Counted { statuses, reports, batch } = self;
        let of = |flag: &str, value: &u64| [format!("--{flag}"), value.to_string()];
        let flags = [of("statuses", statuses), of("reports", reports), of("batch", batch)];
        [vec!["counted-reports".to_string()], flags.concat()].concat()
    }
}

/// Counts the instructions of a gRPC call.
async fn call(valgrind: &Path, calls: u64, is_layered: bool) -> anyhow::Result<ScalarSide> {
    let mut arguments = vec!["counted-calls".to_string(), "--calls".into(), calls.to_string()];
    arguments.extend(is_layered.then(|| "--layered".to_string()));
    let each = count(valgrind, &arguments).await? as f64 / calls as f64;
    let name = if is_layered { "with JSON, page and gRPC-Web" } else { "gRPC alone" };
    Ok(ScalarSide::mean(name, vec![each]))
}

/// Counts the instructions of a gRPC call with this many needs or marks.
async fn call_with(
    valgrind: &Path,
    calls: u64,
    things: &str,
    number: u64,
) -> anyhow::Result<ScalarSide> {
    let (calls_flag, flag) = (calls.to_string(), format!("--{things}={number}"));
    let arguments = ["counted-calls", "--calls", &calls_flag, &flag];
    let each = count(valgrind, &arguments.map(String::from)).await? as f64 / calls as f64;
    Ok(ScalarSide::mean(&format!("{number} {things}"), vec![each]))
}

/// Counts the instructions of a report on a worker's stream.
async fn stream(valgrind: &Path, reports: u64) -> anyhow::Result<ScalarSide> {
    let (reports_flag, chunk) = (reports.to_string(), CHUNK.to_string());
    let arguments = ["counted-streams", "--reports", &reports_flag, "--chunk", &chunk];
    let each = count(valgrind, &arguments.map(String::from)).await? as f64 / reports as f64;
    Ok(ScalarSide::mean("memory store", vec![each]))
}

/// Counts the instructions of all reports or calls together.
async fn count(valgrind: &Path, arguments: &[String]) -> anyhow::Result<u64> {
    let program = server::own_binary()?;
    let mut command = Command::new(valgrind);
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--collect-atstart=no"]);
    command.args(COUNTED.map(|name| format!("--toggle-collect={name}")));
    command.arg(program.get_program()).args(arguments);
    // It starts no processes of its own, so it may be killed.
    command.stdin(Stdio::null()).kill_on_drop(true);
    let output = command.output().await.context("start valgrind")?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        bail!("valgrind ended ({}):\n{}", output.status, said.trim());
    }
    parse(&said).with_context(|| format!("read what valgrind counted:\n{}", said.trim()))
}

fn parse(said: &str) -> Option<u64> {
    let (_, count) = said.lines().find_map(|line| line.split_once(COLLECTED))?;
    count.trim().parse().ok().filter(|count| *count > 0)
}

/// Runs under valgrind: creates the application, then reports.
pub fn run_counted(args: &Counted) -> anyhow::Result<()> {
    let mut fixture = Fixture::of(args.statuses)?;
    let mut batches = Vec::new();
    for first in (0..args.reports).step_by(usize::try_from(args.batch)?) {
        batches.push(fixture.requests(first, args.batch)?);
    }
    counted_reports(&mut fixture, &batches)
}

/// Commits the batches. Valgrind finds this function by its name.
#[inline(never)]
fn counted_reports(fixture: &mut Fixture, batches: &[Vec<Request>]) -> anyhow::Result<()> {
    for batch in batches {
        fixture.commit(batch)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_is_read() {
        let said = "==7== Events    : Ir\n==7== Collected : 123456\n==7==\n";
        assert_eq!(parse(said), Some(123_456));
        for said in ["", "==7== Collected : 0", "==7== Collected : many"] {
            assert_eq!(parse(said), None, "{said}");
        }
    }
}
