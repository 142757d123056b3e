//! Intervals of time that include their start and exclude their end.

use crate::domain::model::time::Timestamp;

/// One interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    /// The first moment.
    pub start: Timestamp,
    /// The first moment after it.
    pub end: Timestamp,
}

/// The union of intervals: in order, and none touches another.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Spans(Vec<Span>);

impl Spans {
    /// Returns the intervals, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Span> {
        self.0.iter()
    }

    /// Returns whether a moment is in one of them.
    pub fn contains(&self, at: Timestamp) -> bool {
        let later = self.0.partition_point(|span| span.end <= at);
        self.0.get(later).is_some_and(|span| span.start <= at)
    }
}

impl FromIterator<Span> for Spans {
    fn from_iter<I: IntoIterator<Item = Span>>(spans: I) -> Spans {
        let mut given: Vec<Span> = spans.into_iter().filter(|span| span.start < span.end).collect();
        given.sort_unstable();
        let mut union: Vec<Span> = Vec::new();
        for span in given {
            match union.last_mut().filter(|last| span.start <= last.end) {
                Some(last) => last.end = last.end.max(span.end),
                None => union.push(span),
            }
        }
        Spans(union)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span((start, end): (u64, u64)) -> Span {
        Span { start: Timestamp::new(start), end: Timestamp::new(end) }
    }

    #[test]
    fn intervals_that_overlap_or_touch_are_one() {
        let given = [(6, 10), (8, 12), (10, 14), (3, 3), (20, 18), (16, 20), (18, 22)];
        let spans: Spans = given.into_iter().map(span).collect();
        assert!(spans.iter().copied().eq([(6, 14), (16, 22)].map(span)));
        for (at, is_inside) in [(5, false), (6, true), (13, true), (14, false), (16, true)] {
            assert_eq!(spans.contains(Timestamp::new(at)), is_inside, "{at}");
        }
        assert!(!spans.contains(Timestamp::new(22)));
        assert!(!Spans::default().contains(Timestamp::new(0)));
    }
}
