//! A report as text: borderless, numbers to the right, one block for each row.

use std::fmt::{self, Display, Formatter};

use crate::delay::{DelayRow, DelaySent, DelaySide, Watcher};
use crate::figure::{duration, thousands};
use crate::report::{Ratio, Report, Row, Sent, Side, Verdict};

impl<S: Display, R: Display> Display for Report<S, R> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "Machine  {}", self.machine)?;
        writeln!(f, "Sent     {}", self.sent)?;
        for row in &self.rows {
            write!(f, "\n{row}")?;
        }
        Ok(())
    }
}

impl Display for Sent {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let keys = thousands(self.keys as f64);
        let Sent { request_bytes, applications, .. } = self;
        let Sent { connections, in_flight, rounds, seconds, warm_up_seconds, .. } = self;
        write!(
            f,
            "requests of {request_bytes} bytes over {keys} statuses of {applications} \
             applications;\n\
             \x20        {connections} connections x {in_flight} in flight; \
             {rounds} x {seconds} s after {warm_up_seconds} s of warm-up, in turn",
        )
    }
}

impl Display for DelaySent {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let rate = thousands(f64::from(self.per_second));
        let DelaySent { request_bytes, applications, .. } = self;
        let DelaySent { connections, rounds, seconds, warm_up_seconds, .. } = self;
        write!(
            f,
            "{rate} requests of {request_bytes} bytes a second over {applications} applications, \
             one status each;\n\
             \x20        {connections} connections; \
             {rounds} x {seconds} s after {warm_up_seconds} s of warm-up, in turn",
        )
    }
}

impl Display for DelayRow {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let sides: Vec<&DelaySide> = [&self.ours].into_iter().chain(&self.peer).collect();
        let width = sides.iter().map(|side| side.name.chars().count()).max().unwrap_or(0);
        writeln!(f, "{}", self.work)?;
        write!(f, "  {:width$}  {:>8}  {:>8}  {:>8}  ", "", "p50", "p90", "p99")?;
        writeln!(f, "{:>8}  p99 of each round", "max")?;
        for side in sides {
            let name = &side.name;
            let figures = [side.p50_seconds, side.p90_seconds, side.p99_seconds, side.max_seconds];
            let [p50, p90, p99, max] = figures.map(duration);
            let rounds: Vec<String> =
                side.p99_seconds_by_round.iter().map(|s| duration(*s)).collect();
            let rounds = rounds.join("  ");
            writeln!(f, "  {name:width$}  {p50:>8}  {p90:>8}  {p99:>8}  {max:>8}  {rounds}")?;
            if let Some(Watcher { seen_first, overtaken }) = side.watcher {
                let [count, first, overtaken] =
                    [side.count, seen_first, overtaken].map(|n| thousands(n as f64));
                writeln!(
                    f,
                    "  {:width$}  of {count}: {first} seen before acknowledged, \
                     {overtaken} by the event of a later one",
                    "",
                )?;
            }
        }
        for (name, ratio) in [("ratio of p50", self.ratio_p50), ("ratio of p99", self.ratio_p99)] {
            if let Some(Ratio { value, min, max }) = ratio {
                writeln!(f, "  {name:width$}  {value:>8.2}  {min:.2} to {max:.2} by round")?;
            }
        }
        let target = self.target_seconds.map_or("none".to_string(), duration);
        let also =
            self.ratio_p99_max.map_or(String::new(), |max| format!(", <= {max} x the peer:"));
        let verdict = self.verdict.words();
        writeln!(f, "  {:width$}  {target:>8}{also}  {verdict}", "target")
    }
}

impl Display for Row {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let sides: Vec<&Side> = [&self.ours].into_iter().chain(&self.peer).collect();
        let width = sides.iter().map(|side| side.name.chars().count()).max().unwrap_or(0);
        writeln!(f, "{}", self.work)?;
        let (rate, rounds) = ("per second", "each round");
        writeln!(f, "  {:width$}  {rate:>10}  {:>8}  {:>8}  {rounds}", "", "p50", "p99")?;
        for side in sides {
            let rate = thousands(side.per_second);
            let quantile = |seconds: Option<f64>| seconds.map_or("-".to_string(), duration);
            let (p50, p99) = (quantile(side.p50_seconds), quantile(side.p99_seconds));
            let rounds: Vec<_> = side.per_second_by_round.iter().copied().map(thousands).collect();
            let (name, rounds) = (&side.name, rounds.join("  "));
            writeln!(f, "  {name:width$}  {rate:>10}  {p50:>8}  {p99:>8}  {rounds}")?;
        }
        if let Some(ratio) = self.ratio {
            let (value, min, max) = (ratio.value, ratio.min, ratio.max);
            writeln!(f, "  {:width$}  {value:>10.2}  {min:.2} to {max:.2} by round", "ratio")?;
        }
        let (target, verdict) = match self.target {
            Some(target) => (format!("{target:.2}"), self.verdict.words()),
            None => ("none".to_string(), self.verdict.words()),
        };
        writeln!(f, "  {:width$}  {target:>10}  {verdict}", "target")
    }
}

impl Verdict {
    /// Returns the verdict in words.
    pub fn words(self) -> &'static str {
        match self {
            Verdict::Met => "met",
            Verdict::NotMet => "not met",
            Verdict::Reported => "reported only",
            Verdict::NotCompared => "not compared",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(name: &str, per_second_by_round: &[f64]) -> Side {
        Side {
            name: name.to_string(),
            per_second: per_second_by_round.iter().sum::<f64>() / per_second_by_round.len() as f64,
            per_second_by_round: per_second_by_round.to_vec(),
            p50_seconds: Some(0.009_1),
            p99_seconds: Some(0.020_31),
        }
    }

    #[test]
    fn a_row_beside_its_peer() {
        let ours = side("bellwether 0.1.0", &[31_000.0, 33_000.0]);
        let peer = side("etcd 3.4.23", &[15_500.0, 16_500.0]);
        let row = Row::compare("Unary reports", ours, Some(peer), Some(2.0));
        let expected = "\
Unary reports
                    per second       p50       p99  each round
  bellwether 0.1.0      32,000   9.10 ms   20.3 ms  31,000  33,000
  etcd 3.4.23           16,000   9.10 ms   20.3 ms  15,500  16,500
  ratio                   2.00  2.00 to 2.00 by round
  target                  2.00  met
";
        assert_eq!(row.to_string(), expected);
    }

    #[test]
    fn a_row_alone() {
        let row = Row::compare("Unary reports", side("bellwether 0.1.0", &[5.0]), None, None);
        let expected = "\
Unary reports
                    per second       p50       p99  each round
  bellwether 0.1.0           5   9.10 ms   20.3 ms  5
  target                  none  reported only
";
        assert_eq!(row.to_string(), expected);
    }

    #[test]
    fn a_counted_row_has_no_latency() {
        let side = Side::counted("bellwether 0.1.0", vec![4.0, 6.0]);
        let expected = "\
Commits
                    per second       p50       p99  each round
  bellwether 0.1.0           5         -         -  4  6
  target                  none  reported only
";
        assert_eq!(Row::compare("Commits", side, None, None).to_string(), expected);
    }

    #[test]
    fn a_row_of_delays() {
        let side = |name: &str, p99: f64| DelaySide {
            name: name.to_string(),
            count: 2000,
            p50_seconds: 0.001,
            p90_seconds: 0.002,
            p99_seconds: p99,
            max_seconds: 0.3,
            p50_seconds_by_round: vec![0.001, 0.001],
            p99_seconds_by_round: vec![p99, p99],
            watcher: None,
        };
        let watcher = Some(Watcher { seen_first: 1800, overtaken: 3 });
        let ours = DelaySide { watcher, ..side("bellwether 0.1.0", 0.004) };
        let peer = side("etcd 3.4.23", 0.008);
        let row = DelayRow::compare("Report to watcher", ours, Some(peer), Some(0.01));
        let expected = "\
Report to watcher
                         p50       p90       p99       max  p99 of each round
  bellwether 0.1.0   1.00 ms   2.00 ms   4.00 ms    300 ms  4.00 ms  4.00 ms
                    of 2,000: 1,800 seen before acknowledged, 3 by the event of a later one
  etcd 3.4.23        1.00 ms   2.00 ms   8.00 ms    300 ms  8.00 ms  8.00 ms
  ratio of p50          1.00  1.00 to 1.00 by round
  ratio of p99          0.50  0.50 to 0.50 by round
  target             10.0 ms  met
";
        assert_eq!(row.to_string(), expected);
    }
}
