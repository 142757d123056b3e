//! A row that is neither a rate nor a delay: one number of each round, with its target.

use std::borrow::Cow;
use std::fmt::{self, Display, Formatter};

use serde::{Deserialize, Serialize};

use crate::delay::DelayRow;
use crate::figure::{number, thousands};
use crate::report::{Ratio, Row, Verdict};

/// One comparison.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScalarRow {
    /// The counted quantity.
    pub work: String,
    /// The unit of the number.
    pub unit: Cow<'static, str>,
    /// The side of Bellwether.
    pub ours: ScalarSide,
    /// The alternative of a user; absent if Bellwether was measured alone.
    pub peer: Option<ScalarSide>,
    /// Our number divided by the peer's.
    pub ratio: Option<Ratio>,
    /// The target; absent for a row that is only reported.
    pub target: Option<Target>,
    /// The result against the target.
    pub verdict: Verdict,
}

/// The number of one side.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScalarSide {
    /// Name and version.
    pub name: String,
    /// The number over all rounds.
    pub value: f64,
    /// The number of each round.
    pub by_round: Vec<f64>,
}

/// A condition for the number.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// Ours is at most this.
    AtMost(f64),
    /// Ours is at least this.
    AtLeast(f64),
    /// Ours is at least this many times the peer's.
    RatioAtLeast(f64),
    /// Ours is at most this many times the peer's.
    RatioAtMost(f64),
}

/// A row of a measurement with rows of several kinds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum AnyRow {
    /// Delays.
    Delay(DelayRow),
    /// Rates.
    Rate(Row),
    /// A number.
    Scalar(ScalarRow),
}

impl ScalarSide {
    /// Returns a side with the average of its rounds.
    pub fn mean(name: &str, by_round: Vec<f64>) -> ScalarSide {
        let value = by_round.iter().sum::<f64>() / by_round.len() as f64;
        ScalarSide { name: name.to_string(), value, by_round }
    }

    /// Returns a side with the greatest number of its rounds.
    pub fn greatest(name: &str, by_round: Vec<f64>) -> ScalarSide {
        let value = by_round.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        ScalarSide { name: name.to_string(), value, by_round }
    }
}

impl ScalarRow {
    /// Compares two sides with the same number of rounds.
    pub fn compare(
        work: impl Into<String>,
        unit: impl Into<Cow<'static, str>>,
        ours: ScalarSide,
        peer: Option<ScalarSide>,
        target: Option<Target>,
    ) -> ScalarRow {
        let ratio = peer.as_ref().and_then(|peer| {
            Ratio::paired(ours.value, peer.value, (&ours.by_round, &peer.by_round))
        });
        let is_met = match target {
            None => None,
            Some(Target::AtMost(most)) => Some(ours.value <= most),
            Some(Target::AtLeast(least)) => Some(least <= ours.value),
            Some(Target::RatioAtLeast(least)) => ratio.map(|ratio| least <= ratio.value),
            Some(Target::RatioAtMost(most)) => ratio.map(|ratio| ratio.value <= most),
        };
        let verdict = match (target, is_met) {
            (None, _) => Verdict::Reported,
            (Some(_), None) => Verdict::NotCompared,
            (Some(_), Some(true)) => Verdict::Met,
            (Some(_), Some(false)) => Verdict::NotMet,
        };
        let (work, unit) = (work.into(), unit.into());
        ScalarRow { work, unit, ours, peer, ratio, target, verdict }
    }
}

impl Display for ScalarRow {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let sides: Vec<&ScalarSide> = [&self.ours].into_iter().chain(&self.peer).collect();
        let width = sides.iter().map(|side| side.name.chars().count()).max().unwrap_or(0);
        let column = self.unit.chars().count().max(10);
        writeln!(f, "{}", self.work)?;
        writeln!(f, "  {:width$}  {:>column$}  each round", "", self.unit)?;
        for ScalarSide { name, value, by_round } in sides {
            let rounds: Vec<String> = by_round.iter().copied().map(number).collect();
            let (value, rounds) = (number(*value), rounds.join("  "));
            writeln!(f, "  {name:width$}  {value:>column$}  {rounds}")?;
        }
        if let Some(Ratio { value, min, max }) = self.ratio {
            let name = "ratio";
            writeln!(f, "  {name:width$}  {value:>column$.2}  {min:.2} to {max:.2} by round")?;
        }
        let target = self.target.map_or("none".to_string(), |target| target.to_string());
        writeln!(f, "  {:width$}  {target:>column$}  {}", "target", self.verdict.words())
    }
}

impl Display for Target {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Target::AtMost(most) => write!(f, "<= {}", number(*most)),
            Target::AtLeast(least) => write!(f, ">= {}", number(*least)),
            Target::RatioAtLeast(least) => write!(f, ">= {least:.2} x"),
            Target::RatioAtMost(most) => write!(f, "<= {most:.2} x"),
        }
    }
}

impl Display for AnyRow {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            AnyRow::Delay(row) => row.fmt(f),
            AnyRow::Rate(row) => row.fmt(f),
            AnyRow::Scalar(row) => row.fmt(f),
        }
    }
}

/// The load, the same for each side.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Done {
    /// Workers, or units without a session.
    pub workers: u64,
    /// The peer's number, which may be lower where the peer takes too long; 0 without a peer.
    pub peer_workers: u64,
    /// Connections to each side.
    pub connections: u32,
    /// Rounds, in each of which each side was measured once.
    pub rounds: u32,
    /// A description of the other parameters.
    pub how: String,
}

impl Display for Done {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Done { workers, peer_workers: _, connections, rounds, how } = self;
        let workers = thousands(*workers as f64);
        writeln!(f, "{workers} workers over {connections} connections, {rounds} rounds in turn;")?;
        write!(f, "         {how}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(ours: &[f64], peer: Option<&[f64]>, target: Option<Target>) -> ScalarRow {
        let peer = peer.map(|peer| ScalarSide::mean("etcd 3.4.23", peer.to_vec()));
        let ours = ScalarSide::mean("bellwether 0.1.0", ours.to_vec());
        ScalarRow::compare("Heartbeats", "per CPU second", ours, peer, target)
    }

    #[test]
    fn verdicts() {
        let cases = [
            (None, None, Verdict::Reported),
            (None, Some(Target::AtMost(4.0)), Verdict::Met),
            (None, Some(Target::AtMost(3.9)), Verdict::NotMet),
            (None, Some(Target::AtLeast(4.0)), Verdict::Met),
            (None, Some(Target::AtLeast(4.1)), Verdict::NotMet),
            (None, Some(Target::RatioAtLeast(2.0)), Verdict::NotCompared),
            (Some(&[2.0, 2.0][..]), Some(Target::RatioAtLeast(2.0)), Verdict::Met),
            (Some(&[2.0, 3.0]), Some(Target::RatioAtLeast(2.0)), Verdict::NotMet),
            (Some(&[2.0, 3.0]), Some(Target::RatioAtMost(1.6)), Verdict::Met),
            (Some(&[2.0, 3.0]), Some(Target::RatioAtMost(1.5)), Verdict::NotMet),
            (None, Some(Target::RatioAtMost(1.5)), Verdict::NotCompared),
        ];
        for (peer, target, expected) in cases {
            assert_eq!(row(&[3.0, 5.0], peer, target).verdict, expected, "{target:?}");
        }
        assert_eq!(ScalarSide::greatest("x", vec![1.0, 3.0, 2.0]).value, 3.0);
    }

    #[test]
    fn a_row_beside_its_peer() {
        let target = Some(Target::RatioAtLeast(8.0));
        let expected = "\
Heartbeats
                    per CPU second  each round
  bellwether 0.1.0         100,000  90,000  110,000
  etcd 3.4.23               10,000  9,000  11,000
  ratio                      10.00  10.00 to 10.00 by round
  target                 >= 8.00 x  met
";
        let row = row(&[90_000.0, 110_000.0], Some(&[9_000.0, 11_000.0]), target);
        assert_eq!(row.to_string(), expected);
    }
}
