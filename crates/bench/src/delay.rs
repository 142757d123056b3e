//! The report of a measurement of delays: the delays of each side and their ratio. Less is better.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::pending::Delays;
use crate::report::{Ratio, Verdict};

/// The load at a fixed rate, the same for each side.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DelaySent {
    /// Bytes of one encoded request.
    pub request_bytes: usize,
    /// Requests per second.
    pub per_second: u32,
    /// Applications, or keys; each has one status.
    pub applications: u64,
    /// Connections that requests were spread over; the watcher has one more.
    pub connections: u32,
    /// Rounds, in each of which each side was measured once.
    pub rounds: u32,
    /// Seconds of one measurement.
    pub seconds: u64,
    /// Seconds of load before it, which are not counted.
    pub warm_up_seconds: u64,
}

/// One comparison.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DelayRow {
    /// The start and the end of the delay.
    pub work: String,
    /// The side of Bellwether.
    pub ours: DelaySide,
    /// The alternative of a user; absent if Bellwether was measured alone.
    pub peer: Option<DelaySide>,
    /// Our median divided by the peer's.
    pub ratio_p50: Option<Ratio>,
    /// Our 99th percentile divided by the peer's.
    pub ratio_p99: Option<Ratio>,
    /// The limit of our 99th percentile in seconds; absent for a row that is only reported.
    pub target_seconds: Option<f64>,
    /// The most that our 99th percentile may be, as a share of the peer's; absent for no limit.
    #[serde(default)]
    pub ratio_p99_max: Option<f64>,
    /// The result against the target.
    pub verdict: Verdict,
}

/// The delays of one side.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DelaySide {
    /// Name and version.
    pub name: String,
    /// The number of delays.
    pub count: u64,
    /// The median in seconds.
    pub p50_seconds: f64,
    /// The 90th percentile in seconds.
    pub p90_seconds: f64,
    /// The 99th percentile in seconds.
    pub p99_seconds: f64,
    /// The longest delay in seconds.
    pub max_seconds: f64,
    /// The median of each round.
    pub p50_seconds_by_round: Vec<f64>,
    /// The 99th percentile of each round.
    pub p99_seconds_by_round: Vec<f64>,
    /// Facts about the watcher; absent for a delay that ends before it.
    pub watcher: Option<Watcher>,
}

/// How the watcher received the writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watcher {
    /// Writes that the watcher received before they were acknowledged.
    pub seen_first: u64,
    /// Writes that the watcher received only by the event of a later one.
    pub overtaken: u64,
}

/// One of the delays that a load measures.
pub struct Way {
    /// The start and the end of the delay.
    pub name: &'static str,
    /// Selects its microseconds.
    pub delay: fn(&Delays) -> &Histogram<u64>,
    /// Whether the delay ends at the watcher.
    pub is_watched: bool,
}

impl DelayRow {
    /// Compares two sides with the same number of rounds.
    pub fn compare(
        work: &str,
        ours: DelaySide,
        peer: Option<DelaySide>,
        target_seconds: Option<f64>,
    ) -> DelayRow {
        let verdict = match target_seconds {
            None => Verdict::Reported,
            Some(target) if ours.p99_seconds <= target => Verdict::Met,
            Some(_) => Verdict::NotMet,
        };
        let ratio = |whole: fn(&DelaySide) -> f64, by_round: fn(&DelaySide) -> &[f64]| {
            let peer = peer.as_ref()?;
            Ratio::paired(whole(&ours), whole(peer), (by_round(&ours), by_round(peer)))
        };
        let ratio_p50 = ratio(|side| side.p50_seconds, |side| &side.p50_seconds_by_round);
        let ratio_p99 = ratio(|side| side.p99_seconds, |side| &side.p99_seconds_by_round);
        let work = work.to_string();
        let ratio_p99_max = None;
        DelayRow { work, ours, peer, ratio_p50, ratio_p99, target_seconds, ratio_p99_max, verdict }
    }

    /// Returns the row with the extra condition that our 99th percentile is at most this share of
    /// the peer's.
    #[must_use]
    pub fn at_most_of_peer(self, max: f64) -> DelayRow {
        let verdict = match (self.verdict, self.ratio_p99) {
            (Verdict::Met, None) => Verdict::NotCompared,
            (Verdict::Met, Some(ratio)) if max < ratio.value => Verdict::NotMet,
            (verdict, _) => verdict,
        };
        DelayRow { ratio_p99_max: Some(max), verdict, ..self }
    }
}

impl DelaySide {
    /// Summarises one of the delays over the rounds of one side.
    pub fn of(name: &str, rounds: &[Delays], way: &Way) -> anyhow::Result<DelaySide> {
        let mut total = Delays::none()?;
        for round in rounds {
            total.merge(round)?;
        }
        let watcher = Watcher { seen_first: total.seen_first, overtaken: total.overtaken };
        let delays: Vec<&Histogram<u64>> = rounds.iter().map(way.delay).collect();
        let side = DelaySide::spanning(name, &delays)?;
        Ok(DelaySide { watcher: way.is_watched.then_some(watcher), ..side })
    }

    /// Summarises the microseconds of each round.
    pub fn spanning(name: &str, rounds: &[&Histogram<u64>]) -> anyhow::Result<DelaySide> {
        let mut whole = histogram()?;
        for round in rounds {
            whole.add(*round)?;
        }
        let by_round = |q| rounds.iter().map(|round| seconds(round, q)).collect();
        Ok(DelaySide {
            name: name.to_string(),
            count: whole.len(),
            p50_seconds: seconds(&whole, 0.5),
            p90_seconds: seconds(&whole, 0.9),
            p99_seconds: seconds(&whole, 0.99),
            max_seconds: seconds(&whole, 1.0),
            p50_seconds_by_round: by_round(0.5),
            p99_seconds_by_round: by_round(0.99),
            watcher: None,
        })
    }
}

/// Returns a histogram of microseconds up to ten minutes; a longer delay counts as ten minutes.
pub fn histogram() -> anyhow::Result<Histogram<u64>> {
    Ok(Histogram::new_with_bounds(1, 600_000_000, 3)?)
}

/// Records a delay `count` times.
pub fn record(histogram: &mut Histogram<u64>, delay: Duration, count: u64) {
    histogram.saturating_record_n(u64::try_from(delay.as_micros()).unwrap_or(u64::MAX), count);
}

fn seconds(micros: &Histogram<u64>, quantile: f64) -> f64 {
    micros.value_at_quantile(quantile) as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(rounds: &[&[u64]]) -> DelaySide {
        let rounds: Vec<Delays> = rounds
            .iter()
            .map(|micros| {
                let mut round = Delays::none().unwrap();
                micros.iter().for_each(|&micros| round.due_to_seen.saturating_record(micros));
                round.overtaken = 1;
                round
            })
            .collect();
        let way =
            Way { name: "to the watcher", delay: |delays| &delays.due_to_seen, is_watched: true };
        DelaySide::of("someone", &rounds, &way).unwrap()
    }

    #[test]
    fn rounds_are_summed_up() {
        let side = side(&[&[100, 200], &[300, 400]]);
        assert_eq!(side.count, 4);
        assert_eq!(side.watcher, Some(Watcher { seen_first: 0, overtaken: 2 }));
        let figures = [side.p50_seconds, side.p90_seconds, side.p99_seconds, side.max_seconds];
        assert_eq!(figures, [0.0002, 0.0004, 0.0004, 0.0004]);
        assert_eq!(side.p99_seconds_by_round, [0.0002, 0.0004]);
    }

    #[test]
    fn less_is_better() {
        let row = |ours: &[u64], target| {
            DelayRow::compare("x", side(&[ours, &[100]]), Some(side(&[&[200], &[200]])), target)
        };
        let met = row(&[200], Some(0.0002));
        assert_eq!(met.verdict, Verdict::Met);
        assert_eq!(met.ratio_p99, Some(Ratio { value: 1.0, min: 0.5, max: 1.0 }));
        assert_eq!(row(&[201], Some(0.0002)).verdict, Verdict::NotMet);
        assert_eq!(row(&[201], None).verdict, Verdict::Reported);
    }

    #[test]
    fn a_peer_can_be_a_target_too() {
        let row = |ours: &[u64], peer: Option<&[u64]>| {
            let peer = peer.map(|peer| side(&[peer]));
            DelayRow::compare("x", side(&[ours]), peer, Some(0.0002)).at_most_of_peer(1.0).verdict
        };
        assert_eq!(row(&[200], Some(&[200])), Verdict::Met);
        assert_eq!(row(&[200], Some(&[199])), Verdict::NotMet);
        assert_eq!(row(&[201], Some(&[300])), Verdict::NotMet);
        assert_eq!(row(&[200], None), Verdict::NotCompared);
    }
}
