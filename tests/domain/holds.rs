//! The model of latches and damping, computed naively by the rules, and the invariants of both.

use bellwether::domain::level::Level;
use bellwether::domain::policy::{Damping, Scope};
use bellwether::domain::status::Kind;
use bellwether::domain::status::report::Report;

use crate::changes::millis;
use crate::model::{Model, Status};

#[derive(Debug, Clone, PartialEq)]
pub struct Damped {
    pub latest: Option<Reported>,
    pub good: u32,
    pub flapping: Option<Flapping>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Reported {
    pub report: Report,
    pub incarnation: u64,
    pub observed: Option<u64>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Flapping {
    pub since: u64,
    pub calm: u64,
}

impl Status {
    /// Returns the level of the last report, if the last pull set had the status.
    fn said_level(&self) -> Option<Level> {
        match &self.held {
            Some(held) => held.latest.as_ref().map(|said| said.report.level),
            None => Some(self.report.level),
        }
    }

    fn flapping(&self) -> Option<&Flapping> {
        self.held.as_ref().and_then(|held| held.flapping.as_ref())
    }

    pub fn flaps(&self) -> bool {
        self.flapping().is_some()
    }

    pub fn looks_like(&self, other: &Status) -> bool {
        let look = |s: &Status| (s.report.clone(), s.since, s.stale, s.incarnation, s.flaps());
        look(self) == look(other)
    }

    /// Computes the value as Icinga does: in floats, rounded where they are known to be inexact.
    fn flapping_value(&self) -> f64 {
        let last = self.results.iter().rev().take(20);
        let weights = last.enumerate().map(|(age, swung)| match swung {
            true => 1.18 - 0.02 * age as f64,
            false => 0.0,
        });
        (weights.sum::<f64>() / 20.0 * 100.0 * 1e6).round() / 1e6
    }
}

impl Model {
    fn latch(&self, status: &Status) -> Option<u32> {
        let of = |wanted: &str| {
            let mut latches = self.config.latches.iter();
            latches.find(|latch| name(&latch.scope) == wanted).map(|latch| latch.good_count)
        };
        if status.kind == Kind::Push { None } else { of(&status.component).or_else(|| of("*")) }
    }

    fn damping(&self, status: &Status) -> Option<&Damping> {
        let mut scopes = self.config.damping.scopes.iter().map(name);
        let is_damped = scopes.any(|scope| scope == "*" || scope == status.component);
        is_damped.then_some(&self.config.damping)
    }

    pub fn may_hold(&self, status: &Status) -> bool {
        self.latch(status).is_some() || self.damping(status).is_some() || status.held.is_some()
    }

    /// Returns a status after one more result of this incarnation; `said` is `None` if a pull set
    /// did not have it.
    pub fn one_more(
        &self,
        old: &Status,
        said: Option<Reported>,
        incarnation: u64,
        now: u64,
    ) -> Option<Status> {
        let mut new = old.clone();
        (new.stale, new.incarnation) = (false, incarnation);
        let level = said.as_ref().map(|said| said.report.level);
        let swung = level != old.said_level();
        new.results.push(swung);
        let mut flapping = None;
        if let Some(damping) = self.damping(old) {
            let threshold = if old.flaps() { damping.stop_percent } else { damping.start_percent };
            if f64::from(threshold) < new.flapping_value() {
                let was = old.flapping();
                let ends = now + millis(damping.calm_after);
                let kept = was.filter(|_| !swung).map(|f| f.calm);
                flapping = Some(Flapping {
                    since: was.map_or(now, |f| f.since),
                    calm: kept.unwrap_or(ends),
                });
            }
        } else {
            new.results.clear();
        }
        let ttl = match &said {
            Some(said) => said.report.ttl.map(millis),
            None => old.report.ttl.map(millis),
        };
        new.ends = ttl.map(|ttl| now + ttl);
        if let Some(said) = &said {
            new.over = said.report.details().end_after.map(|after| now + millis(after));
        }
        let mut good = 0;
        if let Some(wanted) = self.latch(old)
            && self.is_recovery(old, level)
        {
            good = old.held.as_ref().map_or(0, |h| h.good) + 1;
            good = good.min(wanted);
        }
        let mut after = self.show(new, Damped { latest: said, good, flapping }, now)?;
        if after.looks_like(old) && after.held == old.held {
            after.ends = after.ends.max(old.ends);
            after.observed = old.observed;
        }
        Some(after)
    }

    /// Returns a status under a new configuration, or when its flapping is calm.
    pub fn settle(&self, old: &Status, calm: bool, now: u64) -> Option<Status> {
        let mut new = old.clone();
        let damped = !calm && self.damping(old).is_some();
        if !damped {
            new.results.clear();
        }
        let Some(held) = old.held.clone() else {
            return Some(new);
        };
        let flapping = held.flapping.filter(|_| damped);
        self.show(new, Damped { flapping, ..held }, now)
    }

    fn show(&self, mut status: Status, next: Damped, now: u64) -> Option<Status> {
        let level = next.latest.as_ref().map(|said| said.report.level);
        let latched =
            self.latch(&status).is_some_and(|n| next.good < n) && self.is_recovery(&status, level);
        let is_held = next.flapping.is_some() || latched;
        let worse = level.is_some_and(|level| self.rank(level) < self.rank(status.report.level));
        if !is_held || worse {
            let said = next.latest.clone()?;
            if said.report.level != status.report.level {
                let observed = said.observed.filter(|at| *at <= now);
                let waited = status.held.is_some() && !worse;
                status.since = if waited { now } else { observed.unwrap_or(now) };
            }
            (status.report, status.incarnation) = (said.report, said.incarnation);
            status.observed = said.observed;
        }
        status.held = is_held.then_some(next);
        Some(status)
    }

    /// Returns whether a bad level changes to a less severe one, or to nothing.
    fn is_recovery(&self, shown: &Status, level: Option<Level>) -> bool {
        let shown = self.rank(shown.report.level);
        shown < self.rank(Level::Active) && level.is_none_or(|level| shown < self.rank(level))
    }

    /// Applies the current configuration to the latched and damped statuses.
    pub fn settle_all(&mut self, now: u64) {
        let all = self.statuses.clone();
        self.statuses = all.iter().filter_map(|s| self.settle(s, false, now)).collect();
    }

    /// Checks the invariants of every latched or damped status.
    pub fn check_holds(&self) {
        for status in &self.statuses {
            let Some(held) = &status.held else { continue };
            let shown = self.rank(status.report.level);
            let latest = held.latest.as_ref().map(|said| self.rank(said.report.level));
            assert!(latest.is_none_or(|latest| shown <= latest), "better than said: {status:?}");
            assert!(held.flapping.is_some() || shown < self.rank(Level::Active), "{status:?}");
        }
    }
}

fn name(scope: &Scope) -> &str {
    match scope {
        Scope::All => "*",
        Scope::Component(component) => component.as_str(),
    }
}
