//! `all`: measures every row of the targets, one after another, and prints one table.
//!
//! Each row is the command that a user would run, in a process of its own: a command that fails, or
//! that uses up the memory, does not affect the others.

use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::io::AsyncReadExt;
use tokio::process::{Child, Command};
use tokio::time::Instant;

use crate::machine::Machine;
use crate::report::Report;
use crate::rounds::Progress;
use crate::scalar::AnyRow;
use crate::site::Site;
use crate::summary::{Outcome, Ran, Summary};
use crate::{Load, page, peers, server};

/// Flags of `all`.
#[derive(Debug, clap::Args)]
pub struct All {
    /// Only these rows of the targets
    #[arg(long, value_delimiter = ',', value_name = "ROW")]
    pub only: Vec<u32>,
    /// The least load, to check that every row works; such figures mean nothing
    #[arg(long)]
    pub quick: bool,
    /// Also write the table into this Markdown file, between its two markers
    #[arg(long, value_name = "FILE")]
    pub page: Option<PathBuf>,
    /// The load of each measurement.
    #[command(flatten)]
    pub load: Load,
}

/// A command that measures a row.
struct Run {
    /// The number of the row among the targets.
    row: u32,
    /// The arguments after `bellwether-bench`.
    line: &'static str,
    /// Arguments added with `--quick`.
    quick: &'static str,
}

/// The commands in the order of the targets. A further row is a line here.
const RUNS: &[Run] = &[
    Run { row: 0, line: peers::COMMAND, quick: "--in-flight 8" },
    Run { row: 1, line: "streams --store redis", quick: "--keys 1000" },
    Run { row: 2, line: "streams --store embedded", quick: "--keys 1000" },
    Run { row: 3, line: "ingest --store redis,memory", quick: "--in-flight 8" },
    Run { row: 4, line: "streams --store memory", quick: "--keys 1000" },
    Run { row: 5, line: "fanout", quick: "--watchers 200" },
    Run { row: 6, line: "watchers", quick: "--rate 100 --watchers 4" },
    Run { row: 7, line: "silence", quick: "--units 60 --leases 30 --applications 3" },
    Run { row: 8, line: "heartbeats", quick: "--workers 20 --interval 1" },
    Run {
        row: 9,
        line: "memory",
        quick: "--watchers 200 --statuses 500 --applications 500 --events 2000",
    },
    Run { row: 10, line: "growth", quick: "--statuses 1000 --units 200" },
    Run { row: 11, line: "collect", quick: "--workers 100 --deadline 400" },
    Run { row: 12, line: "loss", quick: "--workers 30 --jitter 50" },
    Run { row: 12, line: "storm", quick: "--watchers 200" },
    Run { row: 13, line: "written", quick: "--rate 100 --settle 0" },
    Run { row: 14, line: "start", quick: "--statuses 1000" },
    Run { row: 15, line: "repeats", quick: "--keys 1000 --calls 8" },
    Run { row: 16, line: "secured", quick: "--keys 1000 --calls 8" },
    Run { row: 16, line: "json", quick: "--in-flight 8" },
    Run { row: 17, line: "active", quick: "--applications 1000" },
    Run { row: 18, line: "events", quick: "--watchers 200" },
    Run { row: 19, line: "blockers", quick: "--applications 200 --calls 4" },
    Run { row: 20, line: "marks", quick: "--marks 60 --applications 3" },
];

/// A row that takes longer counts as stuck.
const RUN_DEADLINE: Duration = Duration::from_secs(600);
/// How long a measurement may take to remove what it started, after SIGTERM.
const END_DEADLINE: Duration = Duration::from_secs(10);
/// Pause between two checks whether it has ended.
const END_RETRY_DELAY: Duration = Duration::from_millis(20);
/// How often the line on the terminal shows the elapsed time.
const TICK: Duration = Duration::from_secs(1);
/// The block of the page that holds the table.
const PAGE_BLOCK: &str = "bench all";

/// Runs the command.
pub async fn run(args: All) -> anyhow::Result<()> {
    let site = args.load.site()?;
    let machine = Machine::look(&site.directory);
    let wanted = |run: &&Run| args.only.is_empty() || args.only.contains(&run.row);
    let runs: Vec<&Run> = RUNS.iter().filter(wanted).collect();
    ensure!(!runs.is_empty(), "no command measures any of these rows: {:?}", args.only);
    if let Some(path) = &args.page {
        // Checked before minutes are spent.
        page::check(path, PAGE_BLOCK)?;
    }
    let (began, progress) = (Instant::now(), Progress::new());
    let mut ran = Vec::new();
    for (number, run) in (1..).zip(&runs) {
        let what = format!("{number} of {}: row {}, {}", runs.len(), run.row, run.line);
        ran.push(run.run(&args, &site, &what, &progress).await);
    }
    drop(progress);
    let failed = ran.iter().filter(|ran| matches!(ran.outcome, Outcome::Failed(_))).count();
    let seconds = began.elapsed().as_secs();
    let summary = Summary { machine, load: args.sent(), seconds, ran };
    summary.print(args.load.json)?;
    if let Some(path) = &args.page {
        page::write(path, PAGE_BLOCK, &summary.to_string())?;
    }
    ensure!(failed == 0, "{failed} of {} measurements failed; the table says why", runs.len());
    Ok(())
}

impl Run {
    async fn run(&self, args: &All, site: &Site, what: &str, progress: &Progress) -> Ran {
        let began = Instant::now();
        let ended = async {
            let output = tokio::time::timeout(RUN_DEADLINE, self.output(args, site));
            output.await.unwrap_or_else(|_| bail!("not done within {} s", RUN_DEADLINE.as_secs()))
        };
        tokio::pin!(ended);
        let report = loop {
            progress.say(&format!("{what}, {} s", began.elapsed().as_secs()));
            tokio::select! {
                report = &mut ended => break report,
                () = tokio::time::sleep(TICK) => {}
            }
        };
        let outcome = match report {
            Ok(report) => Outcome::Report(Box::new(report)),
            Err(error) => Outcome::Failed(format!("{error:#}")),
        };
        let seconds = began.elapsed().as_secs_f64();
        let end = if matches!(outcome, Outcome::Report(_)) { "done" } else { "failed" };
        progress.keep(&format!("{what}: {end} after {seconds:.0} s"));
        let command = format!("bellwether-bench {}", self.line);
        Ran { row: self.row, command, seconds, outcome }
    }

    async fn output(&self, args: &All, site: &Site) -> anyhow::Result<Report<Value, AnyRow>> {
        let quick = if args.quick { self.quick } else { "" };
        let words = self.line.split(' ').chain(quick.split_whitespace());
        measure(words.map(str::to_string), &args.sent(), site).await
    }
}

/// Runs a command of this program with this load, in a process of its own, and returns its report.
pub(crate) async fn measure(
    words: impl Iterator<Item = String>,
    load: &Load,
    site: &Site,
) -> anyhow::Result<Report<Value, AnyRow>> {
    let mut command = Command::from(server::own_binary()?);
    command.args(words);
    let Load { seconds, warm_up, rounds, connections, .. } = load;
    command.args(["--seconds", &seconds.to_string(), "--warm-up", &warm_up.to_string()]);
    command.args(["--rounds", &rounds.to_string()]);
    command.args(["--connections", &connections.to_string(), "--json", "--dir"]);
    command.arg(&site.directory).arg("--bellwether").arg(&site.bellwether);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().context("start this program once more")?;
    let (status, said, errors) = Measuring(child).ended().await?;
    if !status.success() {
        let errors = String::from_utf8_lossy(&errors);
        match errors.trim() {
            "" => bail!("it ended without output ({status})"),
            errors => bail!("{}", errors.strip_prefix("error: ").unwrap_or(errors)),
        }
    }
    serde_json::from_slice(&said).context("read its report")
}

impl All {
    /// Returns the load that each command gets.
    fn sent(&self) -> Load {
        match self.quick {
            true => Load { seconds: 1, warm_up: 0, rounds: 1, ..self.load.clone() },
            false => self.load.clone(),
        }
    }
}

/// A measurement in a process of its own. When dropped, it terminates the process and waits for its
/// end.
struct Measuring(Child);

impl Measuring {
    /// Waits for the end; returns the exit status, stdout and stderr.
    async fn ended(mut self) -> anyhow::Result<(ExitStatus, Vec<u8>, Vec<u8>)> {
        let mut stdout = self.0.stdout.take().context("no stdout although it was asked for")?;
        let mut stderr = self.0.stderr.take().context("no stderr although it was asked for")?;
        let (mut said, mut errors) = (Vec::new(), Vec::new());
        let (_, _, status) = tokio::try_join!(
            stdout.read_to_end(&mut said),
            stderr.read_to_end(&mut errors),
            self.0.wait(),
        )?;
        Ok((status, said, errors))
    }
}

impl Drop for Measuring {
    fn drop(&mut self) {
        let id = self.0.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        // `None` once the process has ended.
        let Some(id) = id else { return };
        // SIGKILL would leave its servers running.
        let _ = kill_process(id, Signal::TERM);
        let deadline = Instant::now() + END_DEADLINE;
        while matches!(self.0.try_wait(), Ok(None)) && Instant::now() < deadline {
            std::thread::sleep(END_RETRY_DELAY);
        }
        let _ = self.0.start_kill();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Args;

    #[test]
    fn each_line_is_a_command_that_there_is() {
        use clap::Parser;
        for Run { line, quick, .. } in RUNS {
            let line = format!("bellwether-bench {line} {quick}");
            assert!(Args::try_parse_from(line.split_whitespace()).is_ok(), "{line}");
        }
    }

    #[tokio::test]
    async fn a_measurement_gets_a_signal_to_end_before_it_is_killed() {
        let directory = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        let script = "trap 'touch ended; exit' TERM; echo ready; while :; do sleep 0.01; done";
        command.args(["-c", script]).current_dir(directory.path()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut ready = [0; 6];
        child.stdout.as_mut().unwrap().read_exact(&mut ready).await.unwrap();
        drop(Measuring(child));
        assert!(directory.path().join("ended").exists());
    }
}
