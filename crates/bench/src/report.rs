//! The report of a measurement: for each row ours, the peer, their ratio with its spread, the
//! target.

use std::fmt::Display;
use std::io::Write;

use anyhow::Context;
use serde::{Deserialize, Serialize};

use crate::load::Measured;
use crate::machine::Machine;

/// The results of a command, with the machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report<S, R> {
    /// The machine. Only ratios have a meaning beyond it.
    pub machine: Machine,
    /// The load, the same for each side: [`Sent`] for a closed loop.
    pub sent: S,
    /// One row for each comparison: [`Row`] for rates.
    pub rows: Vec<R>,
}

/// The load of a closed loop, the same for each side.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Sent {
    /// Bytes of one encoded request.
    pub request_bytes: usize,
    /// Distinct statuses, or keys.
    pub keys: u64,
    /// Applications of the statuses.
    pub applications: u64,
    /// Connections.
    pub connections: u32,
    /// Calls open at once on each connection.
    pub in_flight: u32,
    /// Rounds, in each of which each side was measured once.
    pub rounds: u32,
    /// Seconds of one measurement.
    pub seconds: u64,
    /// Seconds of load before it, which are not counted.
    pub warm_up_seconds: u64,
}

/// One comparison.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The measured work.
    pub work: String,
    /// The side of Bellwether.
    pub ours: Side,
    /// The alternative of a user; absent if Bellwether was measured alone.
    pub peer: Option<Side>,
    /// Our rate divided by the peer's.
    pub ratio: Option<Ratio>,
    /// The least ratio that is the target; absent for a row that is only reported.
    pub target: Option<f64>,
    /// The result against the target.
    pub verdict: Verdict,
}

/// The rate of one side.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Side {
    /// Name and version.
    pub name: String,
    /// The rate per second over all rounds: acknowledged calls, unless the row says otherwise.
    pub per_second: f64,
    /// The rate of each round.
    pub per_second_by_round: Vec<f64>,
    /// The median of the calls in seconds; absent if the row does not count calls.
    pub p50_seconds: Option<f64>,
    /// The 99th percentile of the calls in seconds.
    pub p99_seconds: Option<f64>,
}

/// Our figure divided by the peer's.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// Over all rounds.
    pub value: f64,
    /// The least ratio of one round.
    pub min: f64,
    /// The greatest ratio of one round.
    pub max: f64,
}

/// The result against a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The target is met.
    Met,
    /// The target is not met.
    NotMet,
    /// There is no target.
    Reported,
    /// There is a target, but no peer to compare with.
    NotCompared,
}

impl Row {
    /// Compares two sides with the same number of rounds.
    pub fn compare(work: &str, ours: Side, peer: Option<Side>, target: Option<f64>) -> Row {
        let ratio = peer.as_ref().and_then(|peer| Ratio::of(&ours, peer));
        let verdict = match (target, ratio) {
            (None, _) => Verdict::Reported,
            (Some(_), None) => Verdict::NotCompared,
            (Some(target), Some(ratio)) if ratio.value >= target => Verdict::Met,
            (Some(_), Some(_)) => Verdict::NotMet,
        };
        Row { work: work.to_string(), ours, peer, ratio, target, verdict }
    }
}

impl<S: Serialize + Display, R: Serialize + Display> Report<S, R> {
    /// Writes the report to stdout, as JSON or for people.
    pub fn print(&self, json: bool) -> anyhow::Result<()> {
        let mut text = match json {
            true => serde_json::to_string_pretty(self).context("write the report as JSON")?,
            false => self.to_string(),
        };
        if json {
            text.push('\n');
        }
        // Not `print!`, which panics when the reader has closed the pipe.
        Ok(std::io::stdout().write_all(text.as_bytes())?)
    }
}

impl Side {
    /// Summarises the rounds of one side.
    pub fn of<'a>(
        name: &str,
        rounds: impl Iterator<Item = &'a Measured> + Clone,
    ) -> anyhow::Result<Side> {
        let window = rounds.clone().map(|round| round.window).sum();
        let mut total = Measured::empty(window)?;
        for round in rounds.clone() {
            total.merge(round)?;
        }
        let micros = |quantile| total.latencies.value_at_quantile(quantile) as f64 / 1e6;
        Ok(Side {
            name: name.to_string(),
            per_second: total.per_second(),
            per_second_by_round: rounds.map(Measured::per_second).collect(),
            p50_seconds: Some(micros(0.5)),
            p99_seconds: Some(micros(0.99)),
        })
    }

    /// Returns a side that was only counted, in rounds of one length.
    pub fn counted(name: &str, per_second_by_round: Vec<f64>) -> Side {
        let rounds = per_second_by_round.len() as f64;
        Side {
            name: name.to_string(),
            per_second: per_second_by_round.iter().sum::<f64>() / rounds,
            per_second_by_round,
            p50_seconds: None,
            p99_seconds: None,
        }
    }
}

impl Ratio {
    fn of(ours: &Side, peer: &Side) -> Option<Ratio> {
        let by_round = (&*ours.per_second_by_round, &*peer.per_second_by_round);
        Ratio::paired(ours.per_second, peer.per_second, by_round)
    }

    /// Returns the ratio of figures over all rounds, with the spread of those `by_round`, ours and
    /// the peer's. `None` if a figure of the peer is zero: there is no such ratio.
    pub fn paired(ours: f64, peer: f64, by_round: (&[f64], &[f64])) -> Option<Ratio> {
        let pairs = by_round.0.iter().zip(by_round.1);
        let ratios: Vec<f64> = pairs.map(|(ours, peer)| ours / peer).collect();
        let ratio = Ratio {
            value: ours / peer,
            min: ratios.iter().copied().fold(f64::INFINITY, f64::min),
            max: ratios.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        };
        [ratio.value, ratio.min, ratio.max].iter().all(|x| x.is_finite()).then_some(ratio)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn side(rounds: &[u64]) -> Side {
        let rounds: Vec<Measured> = rounds
            .iter()
            .map(|&calls| {
                let mut round = Measured::empty(Duration::from_secs(2)).unwrap();
                for call in 0..calls {
                    round.acknowledge(Duration::from_millis(1 + call % 2));
                }
                round
            })
            .collect();
        Side::of("someone", rounds.iter()).unwrap()
    }

    #[test]
    fn rounds_are_summed_up() {
        let side = side(&[100, 300]);
        assert_eq!(side.per_second, 100.0);
        assert_eq!(side.per_second_by_round, [50.0, 150.0]);
        let (p50, p99) = (side.p50_seconds.unwrap(), side.p99_seconds.unwrap());
        assert!((0.000_999..0.001_001).contains(&p50), "{p50}");
        assert!((0.001_99..0.002_01).contains(&p99), "{p99}");
    }

    #[test]
    fn ratios_pair_the_rounds() {
        let row = Row::compare("x", side(&[200, 100]), Some(side(&[100, 100])), Some(1.5));
        assert_eq!(row.ratio, Some(Ratio { value: 1.5, min: 1.0, max: 2.0 }));
        assert_eq!(row.verdict, Verdict::Met);
    }

    #[test]
    fn verdicts() {
        let verdict = |peer, target| Row::compare("x", side(&[80]), peer, target).verdict;
        assert_eq!(verdict(Some(side(&[100])), Some(0.8)), Verdict::Met);
        assert_eq!(verdict(Some(side(&[101])), Some(0.8)), Verdict::NotMet);
        assert_eq!(verdict(Some(side(&[100])), None), Verdict::Reported);
        assert_eq!(verdict(None, None), Verdict::Reported);
        assert_eq!(verdict(None, Some(0.8)), Verdict::NotCompared);
        assert_eq!(verdict(Some(side(&[0])), Some(0.8)), Verdict::NotCompared);
    }
}
