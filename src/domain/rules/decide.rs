//! The visible report of a latched or damped status after one more result.

use crate::domain::level::Level;
use crate::domain::model::policy::Config;
use crate::domain::model::status::damping::{Damped, Flapping, Reported};
use crate::domain::model::status::flapping::{RESULTS, Swings};
use crate::domain::model::status::place::PlaceInSet;
use crate::domain::model::status::report::Report;
use crate::domain::model::status::{Status, StatusKey};
use crate::domain::model::time::Timestamp;

impl Status {
    /// Returns the flapping state, if the status flaps.
    pub fn flapping(&self) -> Option<Flapping> {
        self.held.as_ref().and_then(|held| held.flapping)
    }

    /// Returns when the flapping ends if the level does not change before.
    pub(in crate::domain) fn calm_time(&self) -> Option<Timestamp> {
        self.flapping().map(|flapping| flapping.calm_time)
    }

    /// Returns the last report; `None`: the last pull set did not contain the status.
    pub fn latest(&self) -> Option<&Report> {
        match &self.held {
            Some(held) => held.latest.as_ref().map(|latest| &*latest.report),
            None => Some(&self.report),
        }
    }

    /// Returns why the status shows a worse level, as text; empty if it does not.
    pub fn held_words(&self, config: &Config, key: &StatusKey) -> String {
        let Some(held) = &self.held else { return String::new() };
        let latest = self.latest().map_or("absent", |report| report.level.word());
        match held.flapping {
            None => {
                let needed = config.latch_of(key).unwrap_or_default();
                format!("latched: {} of {needed} good pulls, now {latest}", held.good_count)
            }
            Some(_) => format!(
                "flapping: {} of the last {RESULTS} results moved the level, now {latest}",
                self.swings.count()
            ),
        }
    }

    /// Returns this status after one more result of this incarnation: the `latest` report, or
    /// `None` if a pull set did not contain the status. Returns `None` if the status leaves.
    pub(in crate::domain) fn after_result(
        &self,
        config: &Config,
        key: &StatusKey,
        latest: Option<Reported>,
        incarnation: u64,
        now: Timestamp,
    ) -> Option<Status> {
        let level = latest.as_ref().map(|latest| latest.report.level);
        let swung = level != self.latest().map(|report| report.level);
        let damping = config.damping_of(key);
        let swings = damping.map_or(Swings::default(), |_| self.swings.then(swung));
        let was = self.flapping();
        let flaps = damping.filter(|damping| {
            swings.exceed(was.map_or(damping.start_percent, |_| damping.stop_percent))
        });
        let flapping = flaps.map(|damping| match was {
            Some(was) if !swung => was,
            _ => Flapping {
                since: was.map_or(now, |was| was.since),
                calm_time: now.after(damping.calm_after),
            },
        });
        let before = self.held.as_ref().map_or(0, |held| held.good_count);
        let good_count = match config.latch_of(key) {
            Some(max) if self.may_latch(config, level) => (before + 1).min(max),
            _ => 0,
        };
        // A missing status is a result too: the visible report stays valid for another ttl.
        let ttl = latest.as_ref().map_or(self.report.ttl, |latest| latest.report.ttl);
        // A missing status moves no end: no report repeated it.
        let end_time = latest.as_ref().map_or(self.end_time, |latest| {
            latest.report.end_after().map(|after| now.after(after))
        });
        let next = Damped { latest, good_count, flapping };
        let status = self.shown(config, key, next, now)?;
        let expire_time = ttl.map(|ttl| now.after(ttl));
        // The answering incarnation confirms the visible report, so it is not outlived.
        Some(Status { swings, stale: false, expire_time, end_time, incarnation, ..status })
    }

    /// Returns this status under another configuration, or once its flapping is calm.
    pub(in crate::domain) fn settled(
        &self,
        config: &Config,
        key: &StatusKey,
        is_calm: bool,
        now: Timestamp,
    ) -> Option<Status> {
        let is_damped = !is_calm && config.damping_of(key).is_some();
        let held = self.held.as_deref();
        let own = || Reported {
            report: self.report.clone(),
            observe_time: self.observe_time,
            incarnation: self.incarnation,
        };
        let next = Damped {
            latest: held.map_or_else(|| Some(own()), |held| held.latest.clone()),
            good_count: held.map_or(0, |held| held.good_count),
            flapping: self.flapping().filter(|_| is_damped),
        };
        // After a calm, detection starts again without the earlier swings.
        let swings = if is_damped { self.swings } else { Swings::default() };
        Some(Status { swings, ..self.shown(config, key, next, now)? })
    }

    /// Chooses the visible report: the last one, unless a latch waits; while flapping, only a worse
    /// one.
    fn shown(
        &self,
        config: &Config,
        key: &StatusKey,
        next: Damped,
        now: Timestamp,
    ) -> Option<Status> {
        let level = next.latest.as_ref().map(|latest| latest.report.level);
        let waits = |max| next.good_count < max && self.may_latch(config, level);
        if next.flapping.is_none() && !config.latch_of(key).is_some_and(waits) {
            return Some(Status { held: None, ..self.replaced(config, &next.latest?, now) });
        }
        let status = match &next.latest {
            Some(latest) if self.is_outdone(config, latest.report.level) => {
                self.replaced(config, latest, now)
            }
            _ => self.clone(),
        };
        Some(Status { held: Some(Box::new(next)), ..status })
    }

    /// Returns whether a latch waits before it shows a level (`None`: nothing) instead of the
    /// visible one.
    fn may_latch(&self, config: &Config, level: Option<Level>) -> bool {
        let severity = |level| config.policy.severity(level);
        let shown = self.report.level;
        config.policy.is_bad(shown) && level.is_none_or(|level| severity(shown) < severity(level))
    }

    fn is_outdone(&self, config: &Config, level: Level) -> bool {
        config.policy.severity(level) < config.policy.severity(self.report.level)
    }

    /// Returns the status with the report as the visible one. The level begins at the observation
    /// time, unless that is in the future or the report was latched or damped until now.
    fn replaced(&self, config: &Config, latest: &Reported, now: Timestamp) -> Status {
        let same_level = self.report.level == latest.report.level;
        let waited = self.held.is_some() && !self.is_outdone(config, latest.report.level);
        let observed = latest.observe_time.filter(|at| *at <= now && !waited);
        Status {
            report: latest.report.clone(),
            since: if same_level { self.since } else { observed.unwrap_or(now) },
            observe_time: latest.observe_time,
            incarnation: latest.incarnation,
            ..self.clone()
        }
    }

    /// Returns this status as another unit, of this incarnation, takes it over.
    pub(in crate::domain) fn passed_to(&self, incarnation: u64) -> Status {
        let mut passed = Status { incarnation, place: PlaceInSet::NONE, ..self.clone() };
        if let Some(latest) = passed.held.as_mut().and_then(|held| held.latest.as_mut()) {
            latest.incarnation = incarnation;
        }
        passed
    }

    /// Returns whether no reader sees a difference to `other`.
    pub(in crate::domain) fn looks_like(&self, other: &Status) -> bool {
        self.report == other.report
            && self.stale == other.stale
            && self.incarnation == other.incarnation
            && self.since == other.since
            && self.flapping().is_some() == other.flapping().is_some()
    }
}
