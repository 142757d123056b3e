//! What the stored events of an application say about its levels and its units over time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::domain::level::Level;
use crate::domain::model::app::Head;
use crate::domain::model::history::{Cause, StatusEvent, Subject};
use crate::domain::model::name::UnitName;
use crate::domain::model::policy::LostUnits;
use crate::domain::model::status::Freshness;
use crate::domain::model::time::Timestamp;
use crate::domain::model::uptime::planned::Planned;
use crate::domain::model::uptime::span::{Span, Spans};
use crate::domain::model::uptime::{LevelChange, Timeline};

/// The reason of an application whose units are uncertain.
const UNCERTAIN: &str = "Uncertain";

/// What is known of an application beside its events.
#[derive(Debug, Clone, Copy)]
pub struct Now {
    /// Its level, and since when it has it.
    pub level: (Level, Timestamp),
    /// When it began.
    pub create_time: Timestamp,
    /// What the store keeps of its own events.
    pub kept: Kept,
    /// Since when a unit is stale or lost, if one is.
    pub silent_since: Option<Timestamp>,
    /// Since when planned work on the whole application is under way, if it is.
    pub planned_since: Option<Timestamp>,
    /// Since when a unit is uncertain, if one is.
    pub uncertain_since: Option<Timestamp>,
    /// What lost units contribute.
    pub lost_units: LostUnits,
    /// The time.
    pub at: Timestamp,
}

/// What a store keeps of the own events of an application.
#[derive(Debug, Clone, Copy)]
pub struct Kept {
    /// The time of the oldest one, if there is one.
    pub oldest: Option<Timestamp>,
    /// The number of those that are kept.
    pub count: u64,
    /// The number of all that there were.
    pub ever: u64,
    /// The number that is kept at most.
    pub count_max: u64,
    /// The age of those that are kept.
    pub age_max: Duration,
}

impl Kept {
    fn is_whole(&self) -> bool {
        self.ever <= self.count
    }

    /// Returns since when no event has been dropped.
    fn whole_since(&self, now: Timestamp) -> Timestamp {
        let oldest = self.oldest.unwrap_or(now);
        match self.count < self.count_max {
            // By their age alone, since more would fit.
            true => oldest.min(now.before(self.age_max)),
            false => oldest,
        }
    }
}

impl Now {
    /// Returns what the head of an application says, without its units and its events.
    pub fn of_head(head: &Head, at: Timestamp) -> Now {
        Now {
            level: (head.summary.level, head.summary.since),
            create_time: head.create_time,
            kept: Kept { oldest: None, count: 0, ever: 0, count_max: 0, age_max: Duration::ZERO },
            silent_since: None,
            planned_since: None,
            uncertain_since: None,
            lost_units: head.config.lost_units,
            at,
        }
    }

    /// Returns since when every change of the level is known.
    fn known_since(&self, is_changed: bool) -> Timestamp {
        let (_, since) = self.level;
        match (self.kept.is_whole(), is_changed) {
            // The first change says that nothing was known before it.
            (true, true) => Timestamp::default(),
            (true, false) => self.create_time,
            (false, true) => self.kept.whole_since(self.at),
            (false, false) => self.kept.whole_since(self.at).min(since),
        }
    }
}

impl Timeline {
    /// Returns what events say, the oldest first.
    pub fn of<'e>(events: impl IntoIterator<Item = &'e StatusEvent>, now: Now) -> Timeline {
        let mut changes = Vec::new();
        let (mut units, mut silent, mut uncertain) =
            (Units::new(now.lost_units), Flag::default(), Flag::default());
        let (mut marks, mut planned) = (Planned::default(), Flag::default());
        for event in events {
            changes.extend(level_change(event));
            units.see(event);
            marks.see(event);
            planned.set(marks.is_any(), event.time);
            silent.set(units.is_any(Silence::is_silent), event.time);
            uncertain.set(units.is_any(|silence| silence.is_uncertain), event.time);
        }
        Timeline {
            known_since: now.known_since(!changes.is_empty()),
            changes,
            current: Some(now.level.0),
            planned: planned.spans(now.planned_since, now.at),
            silent: silent.spans(now.silent_since, now.at),
            uncertain: uncertain.spans(now.uncertain_since, now.at),
        }
    }
}

impl Now {
    /// Returns whether the application has planned work, a silent unit or an uncertain one.
    fn is_any_open(&self) -> bool {
        [self.planned_since, self.silent_since, self.uncertain_since].iter().any(Option::is_some)
    }
}

/// Returns a timeline that was read as of `read`, until `at`. Nothing has changed since, so what
/// was so then is still so.
pub fn until(timeline: &Arc<Timeline>, read: &Now, at: Timestamp) -> Arc<Timeline> {
    if !read.is_any_open() {
        return timeline.clone();
    }
    let since = Span { start: read.at, end: at };
    let extended = |spans: &Spans, is_open: Option<Timestamp>| {
        spans.iter().copied().chain(is_open.map(|_| since)).collect()
    };
    Arc::new(Timeline {
        planned: extended(&timeline.planned, read.planned_since),
        silent: extended(&timeline.silent, read.silent_since),
        uncertain: extended(&timeline.uncertain, read.uncertain_since),
        ..(**timeline).clone()
    })
}

/// Returns the change of the level of an application that an event is, if it is one.
fn level_change(event: &StatusEvent) -> Option<LevelChange> {
    let is_of_application = event.subject.is_none();
    if !is_of_application || !matches!(event.cause, Cause::Derived | Cause::Deleted) {
        return None;
    }
    let is_uncertain = event.to == Some(Level::Waiting) && &*event.reason == UNCERTAIN;
    let to = event.to.filter(|_| !is_uncertain);
    Some(LevelChange { at: event.time, from: event.from, to })
}

/// The silence of the units, as their events say.
struct Units {
    lost_units: LostUnits,
    silent: BTreeMap<UnitName, Silence>,
}

/// The silence of a unit.
#[derive(Default)]
struct Silence {
    is_quiet: bool,
    is_lost: bool,
    is_uncertain: bool,
    stale: BTreeSet<(Box<str>, Box<str>, bool)>,
}

impl Silence {
    fn is_silent(&self) -> bool {
        self.is_quiet || self.is_lost || !self.stale.is_empty()
    }
}

impl Units {
    fn new(lost_units: LostUnits) -> Units {
        Units { lost_units, silent: BTreeMap::new() }
    }

    fn is_any(&self, is_it: impl Fn(&Silence) -> bool) -> bool {
        self.silent.values().any(is_it)
    }

    fn see(&mut self, event: &StatusEvent) {
        let Some(subject) = &event.subject else {
            if event.cause == Cause::Deleted {
                self.silent.clear();
            }
            return;
        };
        if subject.unit.is_application() {
            return;
        }
        if event.cause == Cause::UnitRemoved {
            self.silent.remove(&subject.unit);
            return;
        }
        let counts_lost = self.lost_units != LostUnits::Ignore;
        let silence = self.silent.entry(subject.unit.clone()).or_default();
        match is_whole_unit(subject) {
            true => {
                silence.is_quiet = event.freshness == Freshness::Stale;
                silence.is_lost = event.freshness == Freshness::Lost && counts_lost;
                silence.is_uncertain = event.freshness == Freshness::Uncertain;
            }
            false => silence.see_status(subject, event.freshness),
        }
        if !silence.is_silent() && !silence.is_uncertain {
            self.silent.remove(&subject.unit);
        }
    }
}

impl Silence {
    fn see_status(&mut self, subject: &Subject, freshness: Freshness) {
        let Some(kind) = subject.kind else { return };
        let is_pull = kind == crate::domain::model::status::Kind::Pull;
        let key = (subject.component.as_str().into(), subject.key.as_str().into(), is_pull);
        match freshness {
            Freshness::Stale => self.stale.insert(key),
            _ => self.stale.remove(&key),
        };
    }
}

fn is_whole_unit(subject: &Subject) -> bool {
    let parts = [subject.component.as_str(), subject.key.as_str(), &*subject.target];
    subject.kind.is_none() && parts.iter().all(|part| part.is_empty())
}

/// A condition over time.
#[derive(Default)]
struct Flag {
    since: Option<Timestamp>,
    spans: Vec<Span>,
    /// When it was last seen.
    seen: Timestamp,
}

impl Flag {
    fn set(&mut self, is_set: bool, at: Timestamp) {
        match (self.since, is_set) {
            (None, true) => self.since = Some(at),
            (Some(start), false) => {
                self.spans.push(Span { start, end: at });
                self.since = None;
            }
            _ => {}
        }
        self.seen = at;
    }

    /// Returns the times at which it was set, given since when it is set now. If it is not, and no
    /// event is its end, it ended at the last event.
    fn spans(mut self, now_since: Option<Timestamp>, now: Timestamp) -> Spans {
        let end = now_since.map_or(self.seen, |_| now);
        let open = self.since.into_iter().chain(now_since).map(|start| Span { start, end });
        self.spans.extend(open);
        self.spans.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::model::history::Change;
    use crate::domain::model::mark::{Mark, MarkKind};
    use crate::domain::model::revision::Revision;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::new(seconds * 1000)
    }

    fn event(seconds: u64, cause: Cause) -> StatusEvent {
        StatusEvent::new(at(seconds), Revision(1), cause)
    }

    fn of_unit(seconds: u64, cause: Cause, freshness: Freshness) -> StatusEvent {
        let unit = UnitName::new("web/0").unwrap();
        StatusEvent { freshness, ..event(seconds, cause).of_unit(&unit) }
    }

    fn derived(seconds: u64, to: Level, reason: &str) -> StatusEvent {
        StatusEvent { to: Some(to), reason: reason.into(), ..event(seconds, Cause::Derived) }
    }

    fn now() -> Now {
        Now {
            level: (Level::Active, at(70)),
            create_time: at(5),
            kept: Kept {
                oldest: Some(at(60)),
                count: 3,
                ever: 3,
                count_max: 3,
                age_max: Duration::from_secs(90),
            },
            silent_since: None,
            planned_since: None,
            uncertain_since: None,
            lost_units: LostUnits::Waiting,
            at: at(100),
        }
    }

    fn spans(spans: &Spans) -> Vec<(u64, u64)> {
        spans.iter().map(|s| (s.start.millis() / 1000, s.end.millis() / 1000)).collect()
    }

    #[test]
    fn a_unit_is_silent_from_its_loss_until_it_returns() {
        let events = [
            of_unit(10, Cause::Expired, Freshness::Stale),
            of_unit(20, Cause::UnitLost, Freshness::Lost),
            of_unit(30, Cause::UnitReturned, Freshness::Fresh),
            of_unit(40, Cause::UnitLost, Freshness::Lost),
            of_unit(50, Cause::UnitRemoved, Freshness::Fresh),
        ];
        let found = Timeline::of(&events, now());
        assert_eq!(spans(&found.silent), [(10, 30), (40, 50)]);
        let ignoring = Now { lost_units: LostUnits::Ignore, ..now() };
        assert_eq!(spans(&Timeline::of(&events, ignoring).silent), [(10, 20)]);
        // What is silent now has been for as long as its record says, if the event is gone.
        let lost = Now { silent_since: Some(at(60)), ..now() };
        assert_eq!(spans(&Timeline::of(&[], lost).silent), [(60, 100)]);
        // Its end was no event.
        assert_eq!(spans(&Timeline::of(&events[..2], now()).silent), [(10, 20)]);
    }

    #[test]
    fn planned_work_on_the_whole_application_is_planned_time_and_on_a_unit_it_is_not() {
        let of_mark = |seconds, cause, id: &str, kind: MarkKind, unit: UnitName, state: &str| {
            let changes = vec![Change::new("mark", "", state), Change::new("mark_id", id, id)];
            let reason = kind.reason().into();
            StatusEvent { changes, reason, ..event(seconds, cause).of_unit(&unit) }
        };
        let (all, kind) = (UnitName::application, MarkKind::Planned);
        let unit = || UnitName::new("web/0").unwrap();
        let events = [
            of_mark(10, Cause::MarkSet, "a", kind, all(), "waits"),
            of_mark(20, Cause::MarkBegan, "a", kind, all(), Mark::IN_FORCE),
            of_mark(25, Cause::MarkSet, "b", kind, all(), Mark::IN_FORCE),
            of_mark(30, Cause::MarkEnded, "a", kind, all(), "expired"),
            of_mark(35, Cause::MarkEnded, "b", kind, all(), "removed"),
            of_mark(40, Cause::MarkSet, "c", kind, unit(), Mark::IN_FORCE),
            of_mark(40, Cause::MarkSet, "d", MarkKind::Acknowledged, all(), Mark::IN_FORCE),
            of_mark(50, Cause::MarkSet, "e", kind, all(), Mark::IN_FORCE),
            event(60, Cause::Deleted),
        ];
        assert_eq!(spans(&Timeline::of(&events, now()).planned), [(20, 35), (50, 60)]);
        // The event of its start is no longer stored.
        let under_way = Now { planned_since: Some(at(80)), ..now() };
        let found = Timeline::of(&events, under_way);
        assert_eq!(spans(&found.planned), [(20, 35), (50, 60), (80, 100)]);
    }

    #[test]
    fn a_timeline_goes_on_with_what_was_open_when_it_was_read() {
        let events = [of_unit(40, Cause::UnitLost, Freshness::Lost)];
        let read = Now { silent_since: Some(at(40)), ..now() };
        let timeline = Arc::new(Timeline::of(&events, read));
        let later = until(&timeline, &read, at(130));
        assert_eq!((spans(&later.silent), spans(&later.planned)), (vec![(40, 130)], vec![]));
        let well = Arc::new(Timeline::of(&events[..0], now()));
        assert!(Arc::ptr_eq(&until(&well, &now(), at(130)), &well));
    }

    #[test]
    fn dropped_events_leave_unknown_what_was_before_them() {
        let active = [derived(60, Level::Active, "")];
        let known_since = |events: &[StatusEvent], kept| {
            let known = Timeline::of(events, Now { kept, ..now() });
            known.known_since.millis() / 1000
        };
        let whole = now().kept;
        assert_eq!((known_since(&active, whole), known_since(&[], whole)), (0, 5));
        let dropped = Kept { ever: 4, ..whole };
        assert_eq!((known_since(&active, dropped), known_since(&[], dropped)), (60, 60));
        let aged = Kept { count: 2, ..dropped };
        assert_eq!((known_since(&active, aged), known_since(&[], aged)), (10, 10));
        let none = Kept { oldest: None, count: 0, count_max: 0, ..dropped };
        assert_eq!(known_since(&[], none), 70);
    }

    #[test]
    fn doubt_is_not_known_and_a_change_of_the_configuration_is_no_level() {
        let events = [
            derived(1, Level::Active, ""),
            of_unit(10, Cause::Doubted, Freshness::Uncertain),
            derived(10, Level::Waiting, "Uncertain"),
            event(15, Cause::Configured),
            of_unit(30, Cause::UnitReturned, Freshness::Fresh),
            derived(30, Level::Active, ""),
            event(40, Cause::Deleted),
        ];
        let found = Timeline::of(&events, now());
        let levels: Vec<_> = found.changes.iter().map(|change| change.to).collect();
        assert_eq!(levels, [Some(Level::Active), None, Some(Level::Active), None]);
        assert_eq!(spans(&found.uncertain), [(10, 30)]);
        assert_eq!(spans(&found.silent), []);
    }
}
