//! How long an application was well within a range of time, from its history.
//!
//! Intervals are half-open. Planned time is taken out of the range first, then what is left of
//! unknown time; the rest is well or not.

pub mod past;
mod planned;
pub mod span;
pub mod timeline;

use std::time::Duration;

use crate::domain::level::{LEVELS, Level};
use crate::domain::model::time::Timestamp;
use crate::domain::model::uptime::span::{Span, Spans};

/// The longest range: as long as events of an application are kept by default.
pub const RANGE_MAX: Duration = Duration::from_secs(400 * 24 * 3600);

/// A change of the level of an application.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LevelChange {
    /// When it changed.
    pub at: Timestamp,
    /// The level before; `None` if nothing was known until then.
    pub from: Option<Level>,
    /// The level from then on; `None` if nothing is known.
    pub to: Option<Level>,
}

/// What is known of an application over time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Timeline {
    /// The changes of its level, the oldest first.
    pub changes: Vec<LevelChange>,
    /// Its level now; `None` if it is not known.
    pub current: Option<Level>,
    /// Since when it is known: before, it did not exist, or its history is no longer stored.
    pub known_since: Timestamp,
    /// Planned work on the whole application.
    pub planned: Spans,
    /// When a unit was stale or lost.
    pub silent: Spans,
    /// When a unit was uncertain, because the store may have lost its last reports.
    pub uncertain: Spans,
}

/// The time of a range, by what the application was.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Uptime {
    /// The time at each level outside of planned time, in wire order. That at level unknown is the
    /// unknown time.
    pub levels: [Duration; LEVELS],
    /// Time in which the application was well.
    pub well: Duration,
    /// Time in which it was not.
    pub not_well: Duration,
    /// Time of planned work.
    pub planned: Duration,
    /// The part of `not_well` in which the level alone would have been well, and a unit was silent.
    pub silent: Duration,
    /// Stretches of time that was not well: each ends where the application is well, or where
    /// planned or unknown time begins.
    pub episodes: u32,
    /// The longest of them.
    pub longest: Duration,
}

/// What a piece of time counts as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Piece {
    Planned,
    Unknown,
    Well(Level),
    NotWell { level: Level, is_silent: bool },
}

impl Uptime {
    /// Returns the unknown time outside of planned time.
    pub fn unknown(&self) -> Duration {
        self.levels[Level::Unknown as usize]
    }

    /// Returns the share of time in which the application was well, in percent; `None` if no time
    /// counts.
    pub fn percent(&self) -> Option<f64> {
        let (well, counted) = (self.well.as_millis(), (self.well + self.not_well).as_millis());
        (counted != 0).then(|| well as f64 * 100.0 / counted as f64)
    }

    fn add(&mut self, part: Piece, length: Duration) {
        match part {
            Piece::Planned => self.planned += length,
            Piece::Unknown => self.levels[Level::Unknown as usize] += length,
            Piece::Well(level) => {
                self.well += length;
                self.levels[level as usize] += length;
            }
            Piece::NotWell { level, is_silent } => {
                self.not_well += length;
                self.levels[level as usize] += length;
                self.silent += if is_silent { length } else { Duration::ZERO };
            }
        }
    }
}

/// Returns the uptime of a range. `serving` are the levels that count as well, beside active and
/// terminated.
pub fn uptime(range: Span, timeline: &Timeline, serving: &[Level]) -> Uptime {
    let mut uptime = Uptime::default();
    let mut episode = Duration::ZERO;
    let mut levels = timeline.levels();
    let mut level = levels.next().and_then(|(_, level)| level);
    let mut next = levels.next();
    for (start, end) in timeline.pieces(range) {
        while let Some((_, new)) = next.filter(|(at, _)| *at <= start) {
            level = new;
            next = levels.next();
        }
        let part = timeline.part(start, level, serving);
        uptime.add(part, end.since(start));
        if !matches!(part, Piece::NotWell { .. }) {
            episode = Duration::ZERO;
            continue;
        }
        uptime.episodes += u32::from(episode.is_zero());
        episode += end.since(start);
        uptime.longest = uptime.longest.max(episode);
    }
    uptime
}

impl Timeline {
    /// Returns the number of its changes and intervals, as a measure of its size.
    pub fn entry_count(&self) -> usize {
        let spans = [&self.planned, &self.silent, &self.uncertain];
        1 + self.changes.len() + spans.into_iter().map(|spans| spans.iter().count()).sum::<usize>()
    }

    /// Returns the levels over time: the first one, with a time that means nothing, then each with
    /// its start.
    fn levels(&self) -> impl Iterator<Item = (Timestamp, Option<Level>)> {
        let known = |level: Option<Level>| level.filter(|level| *level != Level::Unknown);
        let first = self.changes.first().map_or(self.current, |first| first.from);
        let each = self.changes.iter().enumerate().map(move |(n, change)| {
            // A level that the application itself no longer knew at its end is no evidence.
            let is_contradicted = self.changes.get(n + 1).is_some_and(|n| known(n.from).is_none());
            (change.at, known(change.to).filter(|_| !is_contradicted))
        });
        std::iter::once((Timestamp::default(), known(first))).chain(each)
    }

    /// Divides a range at each time at which something changes.
    fn pieces(&self, range: Span) -> Vec<(Timestamp, Timestamp)> {
        let spans = [&self.planned, &self.silent, &self.uncertain];
        let edges = spans.into_iter().flat_map(Spans::iter).flat_map(|span| [span.start, span.end]);
        let changes = self.changes.iter().map(|change| change.at);
        let inner = edges.chain(changes).chain([self.known_since]);
        let inner = inner.filter(|at| range.start < *at && *at < range.end);
        let mut at: Vec<Timestamp> = inner.chain([range.start, range.end]).collect();
        at.sort_unstable();
        at.dedup();
        at.windows(2).map(|pair| (pair[0], pair[1])).collect()
    }

    /// Returns what the time after `start` counts as, until something changes.
    fn part(&self, start: Timestamp, level: Option<Level>, serving: &[Level]) -> Piece {
        if self.planned.contains(start) {
            return Piece::Planned;
        }
        let is_known = self.known_since <= start && !self.uncertain.contains(start);
        let Some(level) = level.filter(|_| is_known) else { return Piece::Unknown };
        let is_good =
            matches!(level, Level::Active | Level::Terminated) || serving.contains(&level);
        match is_good && !self.silent.contains(start) {
            true => Piece::Well(level),
            false => Piece::NotWell { level, is_silent: is_good },
        }
    }
}
