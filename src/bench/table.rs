//! A report as text: borderless, numbers to the right, one block for each row.

use std::fmt::{self, Display, Formatter};

use crate::bench::report::{Report, Row, Side, Verdict};

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (machine, sent) = (&self.machine, &self.sent);
        writeln!(f, "Machine  {machine}")?;
        writeln!(
            f,
            "Sent     requests of {} bytes over {} statuses of {} applications;",
            sent.request_bytes,
            thousands(sent.keys as f64),
            sent.applications,
        )?;
        writeln!(
            f,
            "         {} connections x {} in flight; {} x {} s after {} s of warm-up, in turn",
            sent.connections, sent.in_flight, sent.rounds, sent.seconds, sent.warm_up_seconds,
        )?;
        for row in &self.rows {
            write!(f, "\n{row}")?;
        }
        Ok(())
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
            let (p50, p99) = (duration(side.p50_seconds), duration(side.p99_seconds));
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
    fn words(self) -> &'static str {
        match self {
            Verdict::Met => "met",
            Verdict::NotMet => "not met",
            Verdict::Reported => "reported only",
            Verdict::NotCompared => "not compared",
        }
    }
}

/// A whole number with commas.
fn thousands(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Three digits and a unit.
fn duration(seconds: f64) -> String {
    let millis = seconds * 1e3;
    match millis {
        ..10.0 => format!("{millis:.2} ms"),
        ..100.0 => format!("{millis:.1} ms"),
        ..1000.0 => format!("{millis:.0} ms"),
        _ => format!("{seconds:.2} s"),
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
            p50_seconds: 0.009_1,
            p99_seconds: 0.020_31,
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
    fn numbers_read_well() {
        let cases = [(0.0, "0"), (999.4, "999"), (1000.0, "1,000"), (1_234_567.0, "1,234,567")];
        for (number, expected) in cases {
            assert_eq!(thousands(number), expected);
        }
        let cases = [(0.000_64, "0.64 ms"), (0.02, "20.0 ms"), (0.25, "250 ms"), (2.0, "2.00 s")];
        for (seconds, expected) in cases {
            assert_eq!(duration(seconds), expected);
        }
    }
}
