//! The checks of marks: what the store has agrees with what was acknowledged, and with the time.

use std::collections::{BTreeMap, BTreeSet};

use bellwether::domain::app::AppState;
use bellwether::domain::history::{Cause, StatusEvent};
use bellwether::domain::mark::{Mark, MarkEnd, MarkId, WELL_FOR};
use bellwether::domain::name::AppName;
use bellwether::domain::time::Timestamp;
use bellwether::domain::transition::{Transition, Write};

use crate::level::is_worse;
use crate::server::app::App;

/// A mark of an application.
pub type Place = (AppName, MarkId);

/// What clients know of the marks.
#[derive(Default)]
pub struct Marks {
    /// Marks that are set by an acknowledged call, with the lengths in seconds that they may have:
    /// that of the last acknowledged call, and those of calls after it.
    set: BTreeMap<Place, BTreeSet<u64>>,
    /// Marks that an acknowledged call removed. No call about them is open.
    removed: BTreeSet<Place>,
    /// Marks that a call may have removed.
    asked: BTreeSet<Place>,
    /// How often a mark ended.
    ends: BTreeMap<Place, u64>,
    /// How often an application was deleted.
    deletions: BTreeMap<AppName, u64>,
    /// Marks whose time has come, each with the uptime since when that is so.
    due: BTreeMap<Place, u64>,
    /// Acknowledged calls.
    pub acknowledged: u64,
    /// Ends of marks, by their reasons.
    pub ended: BTreeMap<&'static str, u64>,
}

impl Marks {
    /// Records a call that sets a mark for so many seconds. Returns how often the mark has ended.
    pub fn on_call(&mut self, place: &Place, seconds: u64) -> u64 {
        if let Some(lengths) = self.set.get_mut(place) {
            lengths.insert(seconds);
        }
        self.ends_of(place)
    }

    /// Returns how often a mark has ended, or its application was deleted.
    fn ends_of(&self, place: &Place) -> u64 {
        let ends = self.ends.get(place).copied().unwrap_or_default();
        ends + self.deletions.get(&place.0).copied().unwrap_or_default()
    }

    /// Records an acknowledged call that set a mark. `ends` says how often it had ended before.
    pub fn on_set(&mut self, place: Place, seconds: u64, ends: u64) {
        if self.ends_of(&place) == ends {
            self.set.insert(place, [seconds].into());
        }
    }

    /// Records a call that removes a mark.
    pub fn on_remove(&mut self, place: Place) {
        self.asked.insert(place);
    }

    /// Records that such a call is acknowledged, and that no other call about the mark is open.
    pub fn on_removed(&mut self, place: Place) {
        self.removed.insert(place);
    }

    /// Checks what a commit does to the marks of an application. Returns what is wrong.
    pub fn on_commit(&mut self, known: Option<&App>, t: &Transition) -> Vec<String> {
        let before = |id: &MarkId| known.and_then(|app| app.marked.get(id));
        let mut wrong = Vec::new();
        for write in &t.writes {
            let Write::Mark(id, after) = write else { continue };
            let problem = match (before(id), after) {
                (before, Some(mark)) => {
                    // One that ended in the same commit is another one.
                    let before = before.filter(|_| end_of(id, t).is_none());
                    wrong_change(before.map(|mark| &**mark), mark, t.time)
                }
                (Some(mark), None) => self.on_end(id, mark, known, t),
                (None, None) => Some("is removed, and was not there"),
            };
            wrong.extend(problem.map(|what| format!("mark {id} of {} {what}", t.app)));
        }
        // One that was set and ended in the same commit is not written.
        let writes =
            |id: &str| t.writes.iter().any(|w| matches!(w, Write::Mark(of, _) if **of == *id));
        let ends = t.events.iter().filter(|event| event.cause == Cause::MarkEnded);
        let ids = ends.filter_map(mark_id).filter(|id| !writes(id));
        ids.for_each(|id| *self.ends.entry((t.app.clone(), id.into())).or_default() += 1);
        if t.is_deletion() {
            *self.deletions.entry(t.app.clone()).or_default() += 1;
            self.forget(&t.app);
        }
        wrong
    }

    /// Checks the end of a mark.
    fn on_end(
        &mut self,
        id: &MarkId,
        mark: &Mark,
        known: Option<&App>,
        t: &Transition,
    ) -> Option<&'static str> {
        let place = (t.app.clone(), id.clone());
        self.set.remove(&place);
        *self.ends.entry(place.clone()).or_default() += 1;
        let event = end_of(id, t);
        let why = event.and_then(|event| event.changes.iter().find(|c| &*c.field == "mark"));
        let is = |end: &&MarkEnd| why.is_some_and(|why| *why.to == *end.word());
        let Some(end) = MarkEnd::ALL.iter().find(is) else { return Some("ends without an event") };
        *self.ended.entry(end.word()).or_default() += 1;
        let unit = mark.cover.unit.clone();
        let is_right = match end {
            MarkEnd::Expired => mark.end <= t.time,
            MarkEnd::Well => {
                mark.begun && mark.well_since.is_some_and(|since| since.after(WELL_FOR) <= t.time)
            }
            MarkEnd::Removed => {
                let is_of = |write: &Write| matches!(write, Write::Unit(of, None) if *of == unit);
                self.asked.contains(&place) || t.writes.iter().any(is_of)
            }
            MarkEnd::Worse => {
                let state = known.map(|known| after(known, t));
                state.is_some_and(|state| is_worse(&state, mark))
            }
        };
        (!is_right).then_some(end.word())
    }

    /// Forgets what was acknowledged of an application.
    pub fn forget(&mut self, app: &AppName) {
        self.set.retain(|(of, _), _| of != app);
        self.removed.retain(|(of, _)| of != app);
    }

    /// Compares the marks of all applications with what was acknowledged, and with the time of the
    /// store. A mark must have begun or ended if replicas had the time since an uptime.
    pub fn compare(
        &mut self,
        apps: &BTreeMap<AppName, App>,
        time: Timestamp,
        (uptime, had_time_since): (u64, impl Fn(u64) -> bool),
    ) -> Vec<String> {
        let find = |(app, id): &Place| apps.get(app).and_then(|app| app.marked.get(id));
        let mut wrong = Vec::new();
        for (place, lengths) in &self.set {
            let length = find(place).map(|mark| mark.end.since(mark.start).as_secs());
            if length.is_none_or(|length| !lengths.contains(&length)) {
                wrong.push(format!("lost: {place:?} lasts {length:?} s, not {lengths:?}"));
            }
        }
        let returned = self.removed.iter().filter(|place| find(place).is_some());
        wrong.extend(returned.map(|place| format!("{place:?} is back after its removal")));
        let mut due = BTreeMap::new();
        for (name, app) in apps.iter().filter(|(_, app)| !app.head.deleted) {
            let is_due = |mark: &Mark| mark.end <= time || !mark.begun && mark.start <= time;
            for (id, mark) in app.marked.iter().filter(|(_, mark)| is_due(mark)) {
                let place = (name.clone(), id.clone());
                let since = self.due.get(&place).copied().unwrap_or(uptime);
                if had_time_since(since) {
                    wrong.push(format!("{place:?} has neither begun nor ended: {mark:?}"));
                }
                due.insert(place, since);
            }
        }
        self.due = due;
        wrong
    }
}

/// Returns the event of the end of a mark in a commit.
pub fn end_of<'t>(id: &MarkId, t: &'t Transition) -> Option<&'t StatusEvent> {
    let is_it = |event: &&StatusEvent| {
        event.cause == Cause::MarkEnded && mark_id(event).is_some_and(|of| *of == **id)
    };
    t.events.iter().find(is_it)
}

fn mark_id(event: &StatusEvent) -> Option<&str> {
    let change = event.changes.iter().find(|change| &*change.field == "mark_id");
    change.map(|change| &*change.to)
}

/// Returns what is wrong with a mark that is set, changed or begun.
fn wrong_change(before: Option<&Mark>, after: &Mark, now: Timestamp) -> Option<&'static str> {
    // Later the time of the store may return to its clock, and be before the start again.
    let begins = after.begun && !before.is_some_and(|before| before.begun);
    if begins && now < after.start {
        return Some("begins before its start");
    }
    let Some(before) = before else {
        return (after.end <= now).then_some("is set after its end");
    };
    let kept = |mark: &Mark| (mark.kind, mark.cover.clone(), mark.acknowledged_level);
    if kept(before) != kept(after) {
        return Some("covers something else");
    }
    (before.begun && (!after.begun || before.start != after.start)).then_some("begins twice")
}

/// Returns an application after a commit.
fn after(known: &App, t: &Transition) -> AppState {
    let mut app = known.clone();
    t.writes.iter().for_each(|write| app.write(write));
    app.head = t.head.clone();
    AppState::load(t.app.clone(), app.records())
}
