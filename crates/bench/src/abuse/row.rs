//! The result of an attack, its verdict, and the table.

use std::fmt::{self, Display, Formatter};

use serde::Serialize;

use super::attack::Bounds;
use super::counts::Sent;
use super::innocent::Served;
use super::probes::Probed;
use crate::figure::{duration, thousands};
use crate::machine::Machine;

/// Bytes of log in a second above which an attack could fill a disk.
const LOG_MAX: u64 = 64 << 10;

/// All results.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The machine.
    pub machine: Machine,
    /// Length of each attack.
    pub seconds: u64,
    /// One row for each attack.
    pub rows: Vec<Row>,
}

impl Report {
    /// Creates a report without rows.
    pub fn new(machine: Machine, seconds: u64) -> Report {
        Report { machine, seconds, rows: Vec::new() }
    }
}

/// The result of an attack.
#[derive(Debug, Serialize)]
pub struct Row {
    /// The name of the attack.
    pub attack: &'static str,
    /// What it counts.
    pub unit: &'static str,
    /// What it sent.
    pub sent: Sent,
    /// Connections that the attacker could hold.
    pub connections_max: usize,
    /// The innocent client before the attack.
    pub before: Served,
    /// The innocent client during the attack.
    pub during: Served,
    /// The probes during the attack.
    pub probed: Probed,
    /// Memory of the server before the attack, in bytes.
    pub memory_before: u64,
    /// The most memory of the server during the attack.
    pub memory_peak: u64,
    /// Memory of the server when it was given back, at most 10 s after the attack.
    pub memory_after: u64,
    /// Cores that the server used during the attack.
    pub cpu: f64,
    /// Bytes of log during the attack.
    pub log_bytes: u64,
    /// The verdict.
    pub verdict: Verdict,
}

/// Whether the server holds.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The innocent client was served, and memory and log are bounded.
    Holds,
    /// What went wrong.
    Harmed(String),
}

impl Verdict {
    /// Returns whether the server holds.
    pub fn holds(&self) -> bool {
        *self == Verdict::Holds
    }
}

impl Row {
    /// Returns the row with its verdict.
    pub fn judged(mut self, seconds: u64, recovered: bool, bounds: Bounds) -> Row {
        let grown = |to: u64| to.saturating_sub(self.memory_before);
        let problems = [
            (!recovered, "no new client was served afterwards".to_string()),
            (self.during.calls == 0, "the innocent client made no call".to_string()),
            (0 < self.during.failed, format!("{} innocent calls failed", self.during.failed)),
            (bounds.p99 < self.during.p99, "the innocent client waited".to_string()),
            (0 < self.probed.failed, format!("{} probes failed", self.probed.failed)),
            (bounds.memory < grown(self.memory_peak), "memory".to_string()),
            (
                bounds.memory_after < grown(self.memory_after),
                "memory is not given back".to_string(),
            ),
            (LOG_MAX * seconds < self.log_bytes, "log".to_string()),
        ];
        let found: Vec<String> =
            problems.into_iter().filter(|(is_found, _)| *is_found).map(|(_, text)| text).collect();
        if !found.is_empty() {
            self.verdict = Verdict::Harmed(found.join(", "));
        }
        self
    }

    fn cells(&self) -> [String; 8] {
        let Row { sent, before, during, .. } = self;
        let mebibytes = |bytes: u64| thousands(bytes as f64 / f64::from(1 << 20));
        let count = |number: u64| thousands(number as f64);
        let verdict = match &self.verdict {
            Verdict::Holds => "holds".to_string(),
            Verdict::Harmed(text) => format!("**{text}**"),
        };
        [
            self.attack.to_string(),
            format!(
                "{} {}, {} MiB, {} connections, {} ended by the server",
                count(sent.units),
                self.unit,
                mebibytes(sent.bytes),
                count(sent.connections),
                count(sent.ended),
            ),
            format!("{} / {}", duration(before.p50), duration(before.p99)),
            format!("{} / {}", duration(during.p50), duration(during.p99)),
            format!("{} of {}", self.probed.made - self.probed.failed, self.probed.made),
            format!(
                "{} -> {} -> {} MiB, {:.2}",
                mebibytes(self.memory_before),
                mebibytes(self.memory_peak),
                mebibytes(self.memory_after),
                self.cpu
            ),
            format!("{} KiB", thousands(self.log_bytes as f64 / 1024.0)),
            verdict,
        ]
    }
}

const HEAD: [&str; 8] =
    ["Attack", "Sent", "p50 / p99 before", "during", "Probes", "RSS, cores", "Log", "Verdict"];

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "Machine  {}", self.machine)?;
        writeln!(f, "Attacks  {} s each, every one against a server of its own\n", self.seconds)?;
        writeln!(f, "| {} |", HEAD.join(" | "))?;
        writeln!(f, "|{}", "---|".repeat(HEAD.len()))?;
        for row in &self.rows {
            writeln!(f, "| {} |", row.cells().join(" | "))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abuse::attack::STRICT;

    fn row() -> Row {
        Row {
            attack: "pings",
            unit: "frames",
            sent: Sent { connections: 8, ended: 0, bytes: 1 << 20, units: 1234 },
            connections_max: 100,
            before: Served { calls: 10, failed: 0, p50: 0.001, p99: 0.002 },
            during: Served { calls: 10, failed: 0, p50: 0.001, p99: 0.02 },
            memory_before: 20 << 20,
            memory_peak: 30 << 20,
            memory_after: 21 << 20,
            probed: Probed { made: 25, failed: 0, longest: 0.01 },
            cpu: 0.5,
            log_bytes: 100,
            verdict: Verdict::Holds,
        }
    }

    #[test]
    fn harm_is_named() {
        assert!(row().judged(5, true, STRICT).verdict.holds());
        let failed = Served { calls: 3, failed: 2, p50: 0.1, p99: 5.0 };
        let cases = [
            (row().judged(5, false, STRICT), "no new client"),
            (Row { during: failed, ..row() }.judged(5, true, STRICT), "2 innocent calls failed"),
            (Row { during: Served::default(), ..row() }.judged(5, true, STRICT), "made no call"),
            (
                Row { probed: Probed { made: 9, failed: 3, longest: 1.0 }, ..row() }
                    .judged(5, true, STRICT),
                "3 probes failed",
            ),
            (
                Row { memory_after: 60 << 20, ..row() }.judged(5, true, STRICT),
                "memory is not given back",
            ),
            (Row { memory_peak: 2 << 30, ..row() }.judged(5, true, STRICT), "memory"),
            (Row { log_bytes: 1 << 20, ..row() }.judged(5, true, STRICT), "log"),
        ];
        for (row, expected) in cases {
            let Verdict::Harmed(text) = row.verdict else { panic!("no harm: {expected}") };
            assert!(text.contains(expected), "{text}");
        }
    }

    #[test]
    fn the_table_is_markdown() {
        let row = row().cells().join(" | ");
        let expected = "pings | 1,234 frames, 1 MiB, 8 connections, 0 ended by the server | \
                        1.00 ms / 2.00 ms | 1.00 ms / 20.0 ms | 25 of 25 | \
                        20 -> 30 -> 21 MiB, 0.50 | 0 KiB | holds";
        assert_eq!(row, expected);
    }
}
