//! The checks of deadlines: each ends after its length of uptime, however often replicas restart,
//! whatever the clock of the store does.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bellwether::domain::name::AppName;
use bellwether::domain::outage::Outages;
use bellwether::domain::time::Timestamp;
use bellwether::domain::transition::Transition;

use crate::end::{self, Deadline, End};
use crate::host::STEP;
use crate::server::app::App;
use crate::server::time::Answer;

/// A shorter time without a replica may count as uptime: the shortest outage, and the interval
/// between two signs of life.
const GAP_MAX: u64 = 4_500;
/// Something may end so much earlier: the error of a clock, and a jump of it that is followed.
const EARLY_MAX: u64 = 4_000;
/// A process decides by a time that it got from the store at most so long before.
const TOLD_MAX: u64 = 10_000;
/// It must have ended after so much uptime.
const LATE_MAX: u64 = 60_000;
/// And after a process has run for so long: one that starts reads first what is due.
const STEADY_MIN: u64 = 15_000;

/// The uptime of the replicas together, and of each deadline since its begin.
#[derive(Default)]
pub struct Uptime {
    /// The simulated milliseconds in which a replica could act, short gaps included.
    total: u64,
    /// The same when the store told the time: decisions are of such a time, or shortly after it.
    told: BTreeMap<Timestamp, u64>,
    /// The outages that the store told last, and the latest time that it told.
    outages: Arc<Outages>,
    told_last: Timestamp,
    /// When a replica last could, and since when without a gap.
    last: u64,
    since: u64,
    /// The start of the process that has run longest.
    runs_since: u64,
    /// The uptime when a deadline was set.
    begins: BTreeMap<(AppName, End, Timestamp), u64>,
    /// Deadlines whose time has come, each with the uptime since when that is so.
    due: BTreeMap<(AppName, End, Timestamp), u64>,
    /// What has ended by time and was checked, by its name.
    pub ended: BTreeMap<&'static str, u64>,
}

impl Uptime {
    /// Records whether a replica can act, and the start of the process that has run longest.
    pub fn on_step(&mut self, is_up: bool, runs_since: Option<u64>, now: u64) {
        self.runs_since = runs_since.unwrap_or(now);
        if is_up {
            if GAP_MAX <= now - self.last {
                self.since = now;
            }
            self.last = now;
        }
        if now - self.last < GAP_MAX {
            self.total += STEP;
        }
    }

    /// Returns whether replicas had the time to act on what was due at this uptime: without a gap,
    /// because each process reads what is due anew.
    pub fn had_time_since(&self, due: u64) -> bool {
        let is_steady = STEADY_MIN < self.last.saturating_sub(self.runs_since);
        is_steady && LATE_MAX < self.total - due && LATE_MAX < self.last - self.since
    }

    /// Returns for how long a replica could act.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Records that the store tells a replica the time.
    pub fn on_time(&mut self, Answer { time, outages }: &Answer) {
        // A full store cannot record the time: if its clock is set back then, the time is repeated.
        self.told.retain(|told, _| told <= time);
        self.told.entry(*time).or_insert(self.total);
        // Nor can it record the outages then, which other processes still know.
        if self.told_last <= *time {
            (self.outages, self.told_last) = (outages.clone(), *time);
        }
    }

    /// Records that no process is left that knows the time or an outage.
    pub fn on_no_process(&mut self) {
        self.told_last = Timestamp::default();
    }

    /// Returns the uptime at a decision of this time. Its commit may arrive much later, from a
    /// replica that stood still, or at a store that did.
    fn total_at(&self, time: Timestamp) -> u64 {
        let told = self.told.range(..=time).next_back();
        let then = told.map(|(told, total)| total + time.since(*told).as_millis() as u64);
        let later = self.told.range(time..).next().map_or(self.total, |(_, total)| *total);
        then.unwrap_or_default().min(later)
    }

    /// Returns the least uptime at which a replica can have had this time, by one that the store
    /// had given before. A store that stood still may give the same time again afterwards.
    fn least_at(&self, time: Timestamp) -> Option<u64> {
        let told = self.told.range(..=time).rev();
        let passed = told.map(|(told, total)| (time.since(*told).as_millis() as u64, total));
        let recent = passed.take_while(|(passed, _)| *passed < TOLD_MAX);
        recent.map(|(passed, total)| passed + total).min()
    }

    /// Checks what a commit does to the deadlines. Returns what is wrong.
    pub fn on_commit(&mut self, known: Option<&App>, t: &Transition) -> Vec<String> {
        let (mut wrong, total) = (Vec::new(), self.total_at(t.time));
        for end::Change { end, before, after, by_time } in
            end::changes(known, t, &self.outages.clone())
        {
            let new = after.filter(|after| before != Some(*after));
            if by_time && let Some(before) = before {
                wrong.extend(self.on_end(&t.app, &end, before, total));
            }
            let Some(new) = new else { continue };
            if new.begin() == t.time {
                let begin = self.least_at(t.time).map_or(total, |least| least.min(total));
                self.begins.insert((t.app.clone(), end, new.at), begin);
            } else if !end.has_repeats() {
                // Nothing of an outage is written.
                let (begin, now) = (new.begin().millis(), t.time.millis());
                wrong.push(format!("{end:?} of {} is written as of {begin} at {now}", t.app));
            }
        }
        wrong
    }

    /// Checks that a deadline did not pass early.
    fn on_end(&mut self, app: &AppName, end: &End, was: Deadline, total: u64) -> Option<String> {
        let begin = self.begins.get(&(app.clone(), end.clone(), was.at))?;
        let (uptime, length) = (total.saturating_sub(*begin), was.length.as_millis() as u64);
        *self.ended.entry(end.name()).or_default() += 1;
        // The time of the store may be a hundredth faster than a clock.
        let is_early = uptime + EARLY_MAX + length / 50 < length;
        is_early.then(|| format!("{end:?} of {app} ends after {uptime} ms of uptime: {was:?}"))
    }

    /// Returns the deadlines of all applications that have passed long ago without an effect.
    pub fn late(
        &mut self,
        apps: &BTreeMap<AppName, App>,
        (time, outages): (Timestamp, &Outages),
    ) -> Vec<String> {
        let (mut wrong, mut due) = (Vec::new(), BTreeMap::new());
        for (name, app) in apps.iter().filter(|(_, app)| !app.head.deleted) {
            for (end, deadline) in end::all(app) {
                let unwritten =
                    if end.has_repeats() { deadline.length / 3 } else { Duration::ZERO };
                if time < outages.moved(deadline.at, deadline.length).after(unwritten) {
                    continue;
                }
                let place = (name.clone(), end, deadline.at);
                // Not by the time of the store, whose clock may have been set a moment ago.
                let since = self.due.get(&place).copied().unwrap_or(self.total);
                if self.had_time_since(since) {
                    wrong.push(format!("{:?} of {name} has not ended: {deadline:?}", place.1));
                }
                due.insert(place, since);
            }
        }
        self.due = due;
        wrong
    }
}
