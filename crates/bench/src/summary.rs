//! The rows of several measurements as one table: one line of figures for each row with a target.

use std::collections::BTreeSet;
use std::fmt::{self, Display, Formatter};
use std::io::Write;

use anyhow::Context;
use serde::Serialize;
use serde::ser::{SerializeStruct, Serializer};
use serde_json::Value;

use crate::Load;
use crate::figure::{duration, number, thousands};
use crate::machine::Machine;
use crate::peers;
use crate::report::{Ratio, Report, Verdict};
use crate::scalar::AnyRow;

/// All results, with the machine.
#[derive(Debug)]
pub struct Summary {
    /// The machine.
    pub machine: Machine,
    /// The load of each measurement.
    pub load: Load,
    /// The duration in seconds.
    pub seconds: u64,
    /// The result of each command.
    pub ran: Vec<Ran>,
}

/// The result of one command.
#[derive(Debug, Serialize)]
pub struct Ran {
    /// The number of the row among the targets.
    pub row: u32,
    /// The command line.
    pub command: String,
    /// The duration, including the start of servers and the creation of statuses.
    pub seconds: f64,
    /// The report, or the reason of a failure.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// The outcome of a command.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The rows, including those without a target.
    Report(Box<Report<Value, AnyRow>>),
    /// The reason of the failure.
    Failed(String),
}

/// Columns of the whole table, the width limit of a Markdown line here.
const COLUMNS_MAX: usize = 118;
/// The columns of a label in the head.
const HEAD_COLUMNS: usize = 9;
/// The least columns of the first column, the work.
const WORK_COLUMNS_MIN: usize = 24;

impl Summary {
    /// Writes the table to stdout, as JSON or for people.
    pub fn print(&self, json: bool) -> anyhow::Result<()> {
        let text = match json {
            true => serde_json::to_string_pretty(self).context("write the table as JSON")? + "\n",
            false => self.to_string(),
        };
        // Not `print!`, which panics when the reader has closed the pipe.
        Ok(std::io::stdout().write_all(text.as_bytes())?)
    }

    /// Returns the names of the peers, each once.
    fn peers(&self) -> BTreeSet<&str> {
        let reports = self.ran.iter().filter_map(|ran| match &ran.outcome {
            Outcome::Report(report) => Some(report),
            Outcome::Failed(_) => None,
        });
        let peers = reports.flat_map(|report| &report.rows).filter_map(AnyRow::peer);
        peers.filter(|peer| !peer.starts_with("bellwether")).collect()
    }

    /// Returns the figures of each row with a target, and the reason of each failure.
    fn lines(&self) -> Vec<Line> {
        let mut lines = Vec::new();
        for ran in &self.ran {
            let row = if ran.row == 0 { "-".to_string() } else { ran.row.to_string() };
            match &ran.outcome {
                Outcome::Report(report) => {
                    let is_shown = |row: &&AnyRow| {
                        ran.command.ends_with(peers::COMMAND) || row.verdict() != Verdict::Reported
                    };
                    let rows = report.rows.iter().filter(is_shown);
                    lines.extend(rows.map(|of| Line { row: row.clone(), ..of.line() }));
                }
                Outcome::Failed(reason) => {
                    let verdict = "failed".to_string();
                    let work = format!("{}: {reason}", ran.command);
                    lines.push(Line { row, work, verdict, ..Line::default() });
                }
            }
        }
        lines
    }
}

impl Serialize for Summary {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut summary = serializer.serialize_struct("Summary", 7)?;
        summary.serialize_field("machine", &self.machine)?;
        summary.serialize_field("peers", &self.peers())?;
        summary.serialize_field("rounds", &self.load.rounds)?;
        summary.serialize_field("seconds_each", &self.load.seconds)?;
        summary.serialize_field("warm_up_seconds", &self.load.warm_up)?;
        summary.serialize_field("seconds", &self.seconds)?;
        summary.serialize_field("measurements", &self.ran)?;
        summary.end()
    }
}

/// A line of the table.
#[derive(Debug, Default, PartialEq)]
struct Line {
    row: String,
    work: String,
    ours: String,
    peer: String,
    ratio: String,
    target: String,
    verdict: String,
}

impl Line {
    /// Returns the narrow columns, in their order.
    fn figures(&self) -> [&str; 5] {
        [&self.ours, &self.peer, &self.ratio, &self.target, &self.verdict]
    }
}

impl AnyRow {
    fn verdict(&self) -> Verdict {
        match self {
            AnyRow::Delay(row) => row.verdict,
            AnyRow::Rate(row) => row.verdict,
            AnyRow::Scalar(row) => row.verdict,
        }
    }

    /// Returns name and version of the peer.
    fn peer(&self) -> Option<&str> {
        match self {
            AnyRow::Delay(row) => row.peer.as_ref().map(|peer| &*peer.name),
            AnyRow::Rate(row) => row.peer.as_ref().map(|peer| &*peer.name),
            AnyRow::Scalar(row) => row.peer.as_ref().map(|peer| &*peer.name),
        }
    }

    fn line(&self) -> Line {
        let (work, unit, ours, peer, ratio, target) = match self {
            AnyRow::Delay(row) => {
                let also = row.ratio_p99_max.map_or(String::new(), |max| format!(", <= {max} x"));
                let target = row.target_seconds.map(|t| format!("<= {}{also}", duration(t)));
                let peer = row.peer.as_ref().map(|peer| duration(peer.p99_seconds));
                let ours = duration(row.ours.p99_seconds);
                (&row.work, "99 of 100", ours, peer, row.ratio_p99, target)
            }
            AnyRow::Rate(row) => {
                let target = row.target.map(|target| format!(">= {target:.2} x"));
                let peer = row.peer.as_ref().map(|peer| thousands(peer.per_second));
                let ours = thousands(row.ours.per_second);
                (&row.work, "per second", ours, peer, row.ratio, target)
            }
            AnyRow::Scalar(row) => {
                let target = row.target.map(|target| target.to_string());
                let peer = row.peer.as_ref().map(|peer| number(peer.value));
                (&row.work, &*row.unit, number(row.ours.value), peer, row.ratio, target)
            }
        };
        Line {
            row: String::new(),
            work: format!("{work} ({unit})"),
            ours,
            peer: peer.unwrap_or("-".to_string()),
            ratio: ratio.map_or("-".to_string(), |Ratio { value, min, max }| {
                format!("{value:.2} ({min:.2} to {max:.2})")
            }),
            target: target.unwrap_or("-".to_string()),
            verdict: self.verdict().words().to_string(),
        }
    }
}

impl Display for Summary {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Load { seconds, warm_up, rounds, connections, .. } = &self.load;
        let peers: Vec<&str> = self.peers().into_iter().collect();
        writeln!(f, "Machine  {}", self.machine)?;
        let beside = wrapped(&peers.join(", "), COLUMNS_MAX - HEAD_COLUMNS);
        writeln!(f, "Beside   {}", beside.join(&format!("\n{:HEAD_COLUMNS$}", "")))?;
        writeln!(
            f,
            "Rounds   {rounds} x {seconds} s after {warm_up} s of warm-up, sides in turn, \
             {connections} connections; {} min {} s in all\n",
            self.seconds / 60,
            self.seconds % 60,
        )?;
        let heads = ["#", "What", "Ours", "Peer", "Ratio (of rounds)", "Target", "Verdict"];
        let [row, work, ours, peer, ratio, target, verdict] = heads.map(str::to_string);
        let mut lines = vec![Line { row, work, ours, peer, ratio, target, verdict }];
        lines.extend(self.lines());
        let mut widths = [0; 5];
        for line in &lines {
            for (width, figure) in widths.iter_mut().zip(line.figures()) {
                *width = figure.chars().count().max(*width);
            }
        }
        // The number, and two blanks before each further column.
        let others = 2 + widths.iter().map(|width| 2 + width).sum::<usize>() + 2;
        let work_columns = COLUMNS_MAX.saturating_sub(others).max(WORK_COLUMNS_MIN);
        for line in &lines {
            let work = wrapped(&line.work, work_columns);
            write!(f, "{:>2}  {:work_columns$}", line.row, work.first().map_or("", |w| w))?;
            let [ours, peer, ratio, target, verdict] = line.figures();
            let [a, b, c, d, _] = widths;
            writeln!(f, "  {ours:>a$}  {peer:>b$}  {ratio:>c$}  {target:>d$}  {verdict}")?;
            for work in work.iter().skip(1) {
                writeln!(f, "    {work}")?;
            }
        }
        Ok(())
    }
}

/// Breaks words into lines of this many columns; a longer word has a line of its own.
fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= columns => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_string()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    use crate::delay::{DelayRow, DelaySide};
    use crate::report::{Row, Side};
    use crate::scalar::{ScalarRow, ScalarSide, Target};

    fn rows() -> Vec<AnyRow> {
        let side = |name: &str, rate: f64| Side::counted(name, vec![rate]);
        let etcd = Some(side("etcd 3.4.23", 16_000.0));
        let ours = side("bellwether 0.1.0", 480_000.0);
        let aim = Row::compare("Reports on streams", ours.clone(), etcd, Some(25.0));
        let told = Row::compare("Reports, for the record", ours, None, None);
        let delay = |name: &str, p99| DelaySide {
            name: name.to_string(),
            count: 10,
            p50_seconds: 0.001,
            p90_seconds: 0.001,
            p99_seconds: p99,
            max_seconds: 0.3,
            p50_seconds_by_round: vec![0.001],
            p99_seconds_by_round: vec![p99],
            watcher: None,
        };
        let peer = Some(delay("etcd 3.4.23", 0.008));
        let seen = DelayRow::compare("To the watcher", delay("ours", 0.016), peer, Some(0.01));
        let bytes = ScalarSide::mean("ours", vec![4000.0]);
        let bytes = ScalarRow::compare(
            "An idle stream",
            "bytes",
            bytes,
            None,
            Some(Target::AtMost(5120.0)),
        );
        vec![
            AnyRow::Rate(aim),
            AnyRow::Rate(told),
            AnyRow::Delay(seen.at_most_of_peer(1.0)),
            AnyRow::Scalar(bytes),
        ]
    }

    fn summary() -> Summary {
        let machine = Machine::look(Path::new("/"));
        let report =
            Report { machine: machine.clone(), sent: serde_json::Value::Null, rows: rows() };
        // As received from another process.
        let text = serde_json::to_string(&report).unwrap();
        let report = serde_json::from_str(&text).unwrap();
        let ran = |row, outcome| Ran {
            row,
            command: format!("bellwether-bench row-{row}"),
            seconds: 1.0,
            outcome,
        };
        let load = Load {
            seconds: 5,
            warm_up: 1,
            rounds: 2,
            connections: 8,
            dir: None,
            bellwether: None,
            json: false,
        };
        let failed = Outcome::Failed("redis-server is not on the PATH".to_string());
        let ran = vec![ran(1, Outcome::Report(report)), ran(12, failed)];
        Summary { machine, load, seconds: 601, ran }
    }

    #[test]
    fn rows_of_all_kinds_in_one_table() {
        let text = summary().to_string();
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        let table: Vec<String> =
            text.lines().skip_while(|line| !line.starts_with(" #")).map(words).collect();
        let expected = [
            "# What Ours Peer Ratio (of rounds) Target Verdict",
            "1 Reports on streams (per second) 480,000 16,000 30.00 (30.00 to 30.00) >= 25.00 x \
             met",
            "1 To the watcher (99 of 100) 16.0 ms 8.00 ms 2.00 (2.00 to 2.00) <= 10.0 ms, <= 1 x \
             not met",
            "1 An idle stream (bytes) 4,000 - - <= 5,120 met",
        ];
        assert_eq!(table[..4], expected, "{text}");
        assert!(text.contains("failed") && text.contains("PATH"), "{text}");
        assert!(text.contains("Beside   etcd 3.4.23\n"), "{text}");
        assert!(text.contains("10 min 1 s in all"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= COLUMNS_MAX), "{text}");
    }

    #[test]
    fn the_names_of_many_peers_take_several_lines() {
        let mut summary = summary();
        let peer = |number| Some(Side::counted(&format!("peer {number}"), vec![1.0]));
        let ours = || Side::counted("bellwether 0.1.0", vec![1.0]);
        let rows = (10..40).map(|number| Row::compare("Reports", ours(), peer(number), None));
        let rows = rows.map(AnyRow::Rate).collect();
        let (machine, sent) = (summary.machine.clone(), Value::Null);
        summary.ran[0].outcome = Outcome::Report(Box::new(Report { machine, sent, rows }));
        let text = summary.to_string();
        assert!(text.contains("Beside   peer 10, peer 11,"), "{text}");
        assert!(text.contains(",\n         peer "), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= COLUMNS_MAX), "{text}");
    }

    #[test]
    fn all_rows_are_in_the_json() {
        let json = serde_json::to_value(summary()).unwrap();
        let measurements = json["measurements"].as_array().unwrap();
        assert_eq!(measurements[0]["report"]["rows"].as_array().unwrap().len(), 4);
        assert_eq!(measurements[1]["failed"], "redis-server is not on the PATH");
        assert_eq!(json["peers"], serde_json::json!(["etcd 3.4.23"]));
    }

    #[test]
    fn words_are_wrapped() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("a incomprehensible b", 5), ["a", "incomprehensible", "b"]);
    }
}
