//! What a measurement says: for each row ours, the peer, their ratio with its spread, the target.

use std::fmt::Display;
use std::io::Write;

use anyhow::Context;
use serde::{Deserialize, Serialize};

use crate::bench::load::Measured;
use crate::bench::machine::Machine;

/// All that a command measured, and on what.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report<S, R> {
    /// Where it was measured. Only ratios mean anything beyond this machine.
    pub machine: Machine,
    /// What was sent, the same to each side: [`Sent`], where as much as goes is sent.
    pub sent: S,
    /// One for each comparison: [`Row`], where what counts is how much.
    pub rows: Vec<R>,
}

/// What was sent by a closed loop, the same to each side.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Sent {
    /// Bytes of one encoded request.
    pub request_bytes: usize,
    /// Distinct statuses, or keys.
    pub keys: u64,
    /// Applications that they belong to.
    pub applications: u64,
    /// Connections.
    pub connections: u32,
    /// Calls open at once on each connection.
    pub in_flight: u32,
    /// Rounds, in each of which each side was measured once.
    pub rounds: u32,
    /// Seconds of one measurement.
    pub seconds: u64,
    /// Seconds of load before it that do not count.
    pub warm_up_seconds: u64,
}

/// One comparison.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// What was done.
    pub work: String,
    /// Ours.
    pub ours: Side,
    /// What a user would pick instead; absent if we were measured alone.
    pub peer: Option<Side>,
    /// Ours to the peer's.
    pub ratio: Option<Ratio>,
    /// The least ratio aimed at; absent for a row that is only reported.
    pub target: Option<f64>,
    /// What became of the target.
    pub verdict: Verdict,
}

/// What one side did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Side {
    /// Name and version.
    pub name: String,
    /// What it did per second, over all rounds: calls that were acknowledged, unless the row says
    /// otherwise.
    pub per_second: f64,
    /// The same of each round.
    pub per_second_by_round: Vec<f64>,
    /// Half of the calls took at most this long; absent for what is no call.
    pub p50_seconds: Option<f64>,
    /// All but one in a hundred took at most this long.
    pub p99_seconds: Option<f64>,
}

/// Ours to the peer's.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// Over all rounds.
    pub value: f64,
    /// The least of one round.
    pub min: f64,
    /// The greatest of one round.
    pub max: f64,
}

/// What became of a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The ratio is at least the target.
    Met,
    /// It is less.
    NotMet,
    /// There is no target.
    Reported,
    /// There is a target and nothing to compare with.
    NotCompared,
}

impl Row {
    /// Compares two sides; both have as many rounds.
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
    /// Writes it to stdout, as JSON or for people.
    pub fn print(&self, json: bool) -> anyhow::Result<()> {
        let mut text = match json {
            true => serde_json::to_string_pretty(self).context("write the report as JSON")?,
            false => self.to_string(),
        };
        if json {
            text.push('\n');
        }
        // Not `print!`, which panics when the reader is gone.
        Ok(std::io::stdout().write_all(text.as_bytes())?)
    }
}

impl Side {
    /// Sums up the rounds of one side.
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

    /// What was only counted, in rounds of one length.
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

    /// Of figures over all rounds, with the spread of those `by_round`, ours and the peer's. None
    /// if one of the peer's is nothing at all: there is no such ratio.
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
