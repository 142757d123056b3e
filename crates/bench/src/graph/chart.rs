//! A chart: lines of points, and the scale that fits them.

/// One row of the graph, with a panel for the throughput and one for the delay.
pub(super) struct Chart {
    /// What is measured.
    pub(super) title: String,
    /// The meaning of a load.
    pub(super) load: &'static str,
    /// Ours first.
    pub(super) lines: Vec<Line>,
}

/// One side.
pub(super) struct Line {
    pub(super) name: String,
    pub(super) points: Vec<Point>,
}

/// One measurement.
#[derive(Clone, Copy)]
pub(super) struct Point {
    pub(super) load: f64,
    pub(super) per_second: f64,
    /// The 99th percentile of the delays in seconds.
    pub(super) p99: f64,
}

/// A logarithmic scale between two powers of ten.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Scale {
    low: i32,
    high: i32,
}

impl Scale {
    /// Returns the smallest scale that has all values; it is at least one power long.
    pub(super) fn of(values: impl Iterator<Item = f64>) -> Scale {
        let logs: Vec<f64> = values.filter(|value| 0.0 < *value).map(f64::log10).collect();
        let least = logs.iter().copied().fold(f64::INFINITY, f64::min);
        let greatest = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        match logs.is_empty() {
            true => Scale { low: 0, high: 1 },
            false => {
                let low = least.floor() as i32;
                Scale { low, high: (greatest.ceil() as i32).max(low + 1) }
            }
        }
    }

    /// Returns the place of a value: 0 at the low end, 1 at the high end.
    pub(super) fn place(self, value: f64) -> f64 {
        (value.log10() - f64::from(self.low)) / f64::from(self.high - self.low)
    }

    /// Returns the powers of ten on the scale.
    pub(super) fn ticks(self) -> impl Iterator<Item = f64> {
        (self.low..=self.high).map(|power| 10_f64.powi(power))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scale_has_all_values() {
        for (values, low, high) in [
            (&[20.0, 300.0][..], 1, 3),
            (&[1000.0], 3, 4),
            (&[0.002, 0.5], -3, 0),
            (&[0.0], 0, 1),
            (&[], 0, 1),
        ] {
            assert_eq!(Scale::of(values.iter().copied()), Scale { low, high }, "{values:?}");
        }
        let scale = Scale { low: 1, high: 3 };
        assert_eq!([scale.place(10.0), scale.place(100.0), scale.place(1000.0)], [0.0, 0.5, 1.0]);
        assert_eq!(scale.ticks().collect::<Vec<_>>(), [10.0, 100.0, 1000.0]);
    }
}
