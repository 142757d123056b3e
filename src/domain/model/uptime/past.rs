//! The past of an application in slots of time: the worst that it was in each.

use std::time::Duration;

use crate::domain::level::Level;
use crate::domain::model::severity::Severity;
use crate::domain::model::time::Timestamp;
use crate::domain::model::uptime::Timeline;
use crate::domain::model::uptime::span::Span;

/// The shortest slot.
pub const SLOT_MIN: Duration = Duration::from_secs(10);

/// The longest slot.
pub const SLOT_MAX: Duration = Duration::from_secs(24 * 3600);

/// The most slots of one answer.
pub const SLOTS_MAX: u32 = 400;

/// Slots of equal length, one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slots {
    /// The start of the first one.
    pub start: Timestamp,
    /// The length of each: [`SLOT_MIN`] to [`SLOT_MAX`].
    pub length: Duration,
    /// Their number: 1 to [`SLOTS_MAX`].
    pub count: u32,
}

/// What an application was in a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Past {
    /// It had this level.
    Level(Level),
    /// A unit was silent, at a level that is better than blocked.
    Silent,
}

impl Past {
    fn severity(self) -> Severity {
        match self {
            Past::Level(level) => Severity::of(level, false, false),
            Past::Silent => Severity::Silent,
        }
    }
}

impl Slots {
    /// Returns the time of all slots, until `end`.
    fn range(&self, end: Timestamp) -> Span {
        Span { start: self.start, end: self.start.after(self.length * self.count).min(end) }
    }

    /// Returns the number of the slot with a moment at or after the start.
    fn number(&self, at: Timestamp) -> usize {
        (at.since(self.start).as_millis() / self.length.as_millis().max(1)) as usize
    }
}

impl Timeline {
    /// Returns the worst in each slot until `now`; `None` for a slot without a record.
    pub fn past(&self, slots: Slots, now: Timestamp) -> Vec<Option<Past>> {
        let mut worst: Vec<Option<Past>> = vec![None; slots.count as usize];
        let range = slots.range(now);
        if range.end <= range.start {
            return worst;
        }
        let mut changes = self.changes.iter().peekable();
        let mut level = changes.peek().map_or(self.current, |first| first.from);
        for (start, end) in self.pieces(range) {
            while let Some(change) = changes.next_if(|change| change.at <= start) {
                level = change.to;
            }
            let Some(past) = self.past_at(start, level) else { continue };
            let last = slots.number(end.before(Duration::from_millis(1)));
            for slot in &mut worst[slots.number(start)..=last] {
                if slot.is_none_or(|slot| past.severity() < slot.severity()) {
                    *slot = Some(past);
                }
            }
        }
        worst
    }

    fn past_at(&self, at: Timestamp, level: Option<Level>) -> Option<Past> {
        if at < self.known_since {
            return None;
        }
        let is_silent = self.silent.contains(at) || self.uncertain.contains(at);
        match level.map(Past::Level) {
            Some(past) if past.severity() < Severity::Silent => Some(past),
            _ if is_silent => Some(Past::Silent),
            past => past,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::model::uptime::LevelChange;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::new(seconds * 1000)
    }

    fn change(seconds: u64, from: Level, to: Level) -> LevelChange {
        LevelChange { at: at(seconds), from: Some(from), to: Some(to) }
    }

    fn span(start: u64, end: u64) -> Span {
        Span { start: at(start), end: at(end) }
    }

    fn past(timeline: &Timeline, (start, length, count): (u64, u64, u32), now: u64) -> String {
        let slots = Slots { start: at(start), length: Duration::from_secs(length), count };
        let found = timeline.past(slots, at(now));
        let word = |past: &Option<Past>| match past {
            None => "-",
            Some(Past::Silent) => "silent",
            Some(Past::Level(level)) => level.word(),
        };
        found.iter().map(word).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_slot_has_the_worst_level_in_it_and_its_end_is_the_start_of_the_next() {
        let timeline = Timeline {
            changes: vec![
                change(10, Level::Waiting, Level::Active),
                change(25, Level::Active, Level::Error),
                change(30, Level::Error, Level::Active),
            ],
            current: Some(Level::Active),
            known_since: at(5),
            ..Timeline::default()
        };
        assert_eq!(past(&timeline, (0, 10, 5), 45), "waiting active error active active");
        assert_eq!(past(&timeline, (0, 5, 6), 30), "- waiting active active active error");
        assert_eq!(past(&timeline, (10, 10, 4), 25), "active active - -");
        assert_eq!(past(&timeline, (50, 10, 2), 50), "- -");
        let quiet = Timeline { current: Some(Level::Blocked), ..Timeline::default() };
        assert_eq!(past(&quiet, (0, 10, 2), 20), "blocked blocked");
    }

    #[test]
    fn silence_is_worse_than_work_and_milder_than_what_needs_a_person() {
        let timeline = Timeline {
            changes: vec![
                change(10, Level::Active, Level::Maintenance),
                change(20, Level::Maintenance, Level::Blocked),
                change(30, Level::Blocked, Level::Active),
            ],
            silent: [span(5, 35)].into_iter().collect(),
            uncertain: [span(40, 45)].into_iter().collect(),
            ..Timeline::default()
        };
        let expected = "silent silent blocked silent silent active";
        assert_eq!(past(&timeline, (0, 10, 6), 60), expected);
    }
}
