//! The changes of the model: commands and time, one rule after the other.

use std::time::Duration;

use bellwether::domain::command::{Command, NewStatus, Request};
use bellwether::domain::leadership::Claim;
use bellwether::domain::leadership::status::{Mode, NewApplicationStatus};
use bellwether::domain::limits::{Limits, REQUEST_TTL};
use bellwether::domain::name::PartName;
use bellwether::domain::policy::Config;
use bellwether::domain::status::Kind;
use bellwether::domain::unit::Reporter;
use bellwether::domain::unit::presence::Presence;

use crate::holds::Reported;
use crate::model::{Answer, LeaderSays, Model, Outcome, Status, Unit};

/// The reason for a rejection, as far as the model distinguishes it.
pub type Refusal = &'static str;

impl Model {
    /// Applies a request at `now`; `changed` is whether its batch changed anything so far.
    pub fn apply(
        &mut self,
        request: &Request,
        now: u64,
        changed: &mut bool,
        limits: &Limits,
    ) -> Result<Outcome, Refusal> {
        if let Some(id) = &request.id
            && let Some(answer) = self.answer(&id.id, now)
        {
            return Ok(answer);
        }
        let (moved, removed, incarnation) = match &request.command {
            Command::Connect(who, session) => {
                let since = self.revision + 1;
                self.begin(who, Presence::Connected(*session), since, now, limits)?
            }
            Command::Reconnect(who, session, since) => {
                let presence = Presence::Connected(*session);
                let unit = self.unit(who.unit.as_str()).cloned().unwrap_or_default();
                let held = matches!(unit.presence, Presence::Connected(_));
                let is_other = held && unit.presence != presence;
                let has_order = unit.session_since != 0 && unit.session_since != since.0;
                if since.0 < unit.session_since || is_other && !has_order {
                    return Err("session over");
                }
                self.begin(who, presence, since.0, now, limits)?
            }
            Command::Register(who, ttl) => {
                let presence = ttl.map_or(Presence::Unbound, Presence::Promised);
                let known = self.unit(who.unit.as_str()).cloned().unwrap_or_default();
                self.begin(who, presence, known.session_since, now, limits)?
            }
            command => {
                let (moved, removed) = self.command(command, now, limits)?;
                (moved, removed, 0)
            }
        };
        *changed |= moved;
        self.exists |= moved;
        let revision = self.revision + u64::from(*changed);
        let outcome = Outcome { revision, changed: moved, removed, incarnation };
        if let Some(id) = &request.id {
            self.remember(&id.id, now, outcome);
        }
        Ok(outcome)
    }

    pub fn answer(&self, id: &str, now: u64) -> Option<Outcome> {
        let stands = |a: &&Answer| a.id == id && now - a.at < REQUEST_TTL.as_millis() as u64;
        self.answers.iter().find(stands).map(|a| a.outcome)
    }

    pub fn remember(&mut self, id: &str, at: u64, outcome: Outcome) {
        self.answers.retain(|a| a.id != id);
        let id = id.to_string();
        self.answers.push(Answer { id, at, outcome });
    }

    fn command(
        &mut self,
        command: &Command,
        now: u64,
        limits: &Limits,
    ) -> Result<(bool, u32), Refusal> {
        match command {
            Command::Report(reporter, kind, new) => {
                self.told(reporter, &[(*kind, new.clone())], |_| false, None, now, limits)
            }
            Command::ReportAll(reporter, set) => {
                self.told(reporter, set, |_| false, None, now, limits)
            }
            Command::Replace(reporter, component, set) => {
                self.replace(reporter, component.as_ref(), set, now, limits)
            }
            Command::Clear { reporter, component, key, kind } => {
                self.known(reporter.unit.as_str())?;
                let leaves = |s: &Status| {
                    matches(component.as_ref(), &s.component)
                        && matches(key.as_ref(), &s.key)
                        && kind.is_none_or(|k| s.kind == k)
                };
                let unit = reporter.unit.as_str();
                let current = self.unit(unit).map_or(0, |unit| unit.incarnation);
                let is_new = reporter.incarnation.is_some_and(|given| current < given);
                let nothing = !self.statuses.iter().any(|s| s.unit == unit && leaves(s));
                if nothing && !is_new && reporter.session.is_none() {
                    // No contact, but checked as any command of a unit.
                    self.check_reporter(reporter, now)?;
                    return Ok((false, 0));
                }
                self.told(reporter, &[], leaves, None, now, limits)
            }
            Command::Configure(patch) => {
                let config = self.config.patched(patch);
                let moved = config != self.config || !self.exists;
                let before = std::mem::replace(&mut self.config, config);
                let holds = |c: &Config| (c.policy.clone(), c.latches.clone(), c.damping.clone());
                if holds(&before) != holds(&self.config) {
                    self.settle_all(now);
                    self.settle_silence(now, None);
                }
                Ok((moved, 0))
            }
            Command::SetApplicationStatus(claim, new) => {
                let leads_anew = self.leads(claim)?;
                Ok((self.leader_sets(new, now) || leads_anew, 0))
            }
            Command::ReplaceApplicationStatuses(claim, component, set) => {
                let leads_anew = self.leads(claim)?;
                let (moved, removed) = self.own_set(component.as_ref(), set, now);
                Ok((moved || leads_anew, removed))
            }
            Command::ClearApplicationStatus(claim) => {
                let leads_anew = self.leads(claim)?;
                let had = self.leader_says.take().is_some();
                Ok((had || leads_anew, u32::from(had)))
            }
            Command::RemoveUnit(name) => {
                self.known(name.as_str())?;
                Ok((true, self.remove(name.as_str(), now)))
            }
            command => self.coming_or_going(command, now, limits),
        }
    }

    fn replace(
        &mut self,
        reporter: &Reporter,
        component: Option<&PartName>,
        set: &[NewStatus],
        now: u64,
        limits: &Limits,
    ) -> Result<(bool, u32), Refusal> {
        let leaves = |s: &Status| {
            let named = set.iter().any(|new| new.is(&s.component, &s.key));
            s.kind == Kind::Pull && !named && matches(component, &s.component)
        };
        let set: Vec<_> = set.iter().map(|new| (Kind::Pull, new.clone())).collect();
        let told = self.told(reporter, &set, leaves, Some(component.is_some()), now, limits)?;
        if component.is_none() {
            self.unit_mut(reporter.unit.as_str()).last_answer = now;
        }
        Ok(told)
    }

    pub fn known(&self, unit: &str) -> Result<(), Refusal> {
        match (self.exists, self.unit(unit)) {
            (false, _) => Err("no application"),
            (true, None) => Err("no unit"),
            _ => Ok(()),
        }
    }

    /// Returns whether the claim makes its unit the leader.
    fn leads(&mut self, claim: &Claim) -> Result<bool, Refusal> {
        let leads = self.config.external_leader.as_ref() == Some(&claim.unit);
        match (leads, claim.decided_outside) {
            (true, _) => Ok(false),
            (false, true) => {
                self.config.external_leader = Some(claim.unit.clone());
                Ok(true)
            }
            (false, false) => Err("does not lead"),
        }
    }

    fn leader_sets(&mut self, new: &NewApplicationStatus, now: u64) -> bool {
        let old = self.leader_says.as_ref().filter(|s| s.level == new.level);
        let says = LeaderSays {
            overrides: new.mode == Mode::Override,
            level: new.level,
            message: new.message.to_string(),
            asks: !new.action.is_empty(),
            since: old.map_or(now, |s| s.since),
            ends: new.ttl.map(|ttl| now + millis(ttl)),
        };
        let moved = self.leader_says.as_ref() != Some(&says);
        self.leader_says = Some(says);
        moved
    }

    /// Replaces the statuses of the application itself: no unit, no limit, nothing held.
    fn own_set(
        &mut self,
        component: Option<&PartName>,
        set: &[NewStatus],
        now: u64,
    ) -> (bool, u32) {
        let count = self.statuses.len();
        let named = |s: &Status| set.iter().any(|new| new.is(&s.component, &s.key));
        self.statuses
            .retain(|s| !s.unit.is_empty() || named(s) || !matches(component, &s.component));
        let removed = (count - self.statuses.len()) as u32;
        let (mut moved, mut last) = (0 < removed, 0);
        for new in set {
            let is_it = |s: &Status| s.unit.is_empty() && new.is(&s.component, &s.key);
            let old = self.statuses.iter().position(is_it).map(|n| self.statuses.remove(n));
            let of_component = component.is_some();
            let was = old.as_ref().and_then(|old| old.place);
            let stays = was.filter(|was| was.0 == of_component && last < was.1);
            last = stays.map_or(last + 1, |was| was.1);
            let observed = new.observe_time.map(|t| t.millis()).filter(|t| *t <= now);
            let same_level = old.as_ref().filter(|old| old.report.level == new.report.level);
            let same = old.as_ref().filter(|old| old.report == *new.report);
            let ends = new.report.ttl.map(|ttl| now + millis(ttl));
            let over = new.report.details().end_after.map(|after| now + millis(after));
            let place = Some((of_component, last));
            moved |= same.is_none_or(|same| same.place != place);
            self.statuses.push(Status {
                unit: String::new(),
                component: new.component.as_str().to_string(),
                key: new.key.as_str().to_string(),
                kind: Kind::Pull,
                report: (*new.report).clone(),
                incarnation: 0,
                since: same_level.map_or(observed.unwrap_or(now), |old| old.since),
                observed: match same.filter(|same| same.place == place) {
                    Some(same) => same.observed,
                    None => observed_by(new, now),
                },
                ends: ends.max(same.and_then(|same| same.ends)),
                over,
                stale: false,
                results: Vec::new(),
                held: None,
                place,
            });
        }
        (moved, removed)
    }

    /// Handles a report of a unit: removes what `leaves` selects, and adds `set`. `pull_set` says
    /// whether a pull set is of a component.
    pub fn told(
        &mut self,
        reporter: &Reporter,
        set: &[(Kind, NewStatus)],
        leaves: impl Fn(&Status) -> bool,
        pull_set: Option<bool>,
        now: u64,
        limits: &Limits,
    ) -> Result<(bool, u32), Refusal> {
        let name = reporter.unit.as_str();
        self.check_reporter(reporter, now)?;
        self.may_return(reporter, now)?;
        let mut after = self.clone();
        let mut moved = after.note_contact(reporter, now);
        let incarnation = after.unit(name).unwrap().incarnation;
        let leaves = |s: &Status| s.unit == name && leaves(s);
        // A latch or damping keeps only statuses missing from a pull set; cleared statuses are
        // removed.
        let held = |s: &Status| match pull_set.is_some() && self.may_hold(s) {
            true => self.one_more(s, None, incarnation, now),
            false => None,
        };
        let holds =
            self.has_room_to_hold(reporter, set, &|s| leaves(s) && held(s).is_none(), limits);
        let mut kept = Vec::new();
        for status in &self.statuses {
            if !leaves(status) {
                kept.push(status.clone());
            } else if let Some(new) = held(status).filter(|_| holds) {
                moved |= !new.looks_like(status);
                kept.push(new);
            }
        }
        after.statuses = kept;
        let removed = (self.statuses.len() - after.statuses.len()) as u32;
        let mut last = 0;
        for (kind, new) in set {
            let is_it =
                |s: &&Status| s.unit == name && s.kind == *kind && new.is(&s.component, &s.key);
            let was = self.statuses.iter().find(is_it).and_then(|s| s.place);
            let place = pull_set.map(|of_component| {
                let stays = was.filter(|was| was.0 == of_component && last < was.1);
                last = stays.map_or(last + 1, |was| was.1);
                (of_component, last)
            });
            let stored = after.statuses.iter().find(is_it).filter(|_| pull_set.is_none());
            if stored.is_some_and(|stored| self.is_late(stored, new, incarnation, now)) {
                continue;
            }
            moved |= after.set(name, *kind, incarnation, new, now);
            let status = after.statuses.iter_mut().find(|s| is_it(&&**s)).unwrap();
            if status.held.is_none() {
                moved |= status.place != place;
                status.place = place;
            }
        }
        after.check_quota_of(self, name, limits)?;
        after.settle_silence(now, Some(name));
        *self = after;
        Ok((moved || removed != 0, removed))
    }

    /// Returns whether a set is within the limits beside the statuses that stay.
    fn has_room_to_hold(
        &self,
        reporter: &Reporter,
        set: &[(Kind, NewStatus)],
        leaves: &dyn Fn(&Status) -> bool,
        limits: &Limits,
    ) -> bool {
        let mut after = self.clone();
        let name = reporter.unit.as_str();
        after.note_contact(reporter, 0);
        after.statuses.retain(|s| !leaves(s));
        for (kind, new) in set {
            after.set(name, *kind, 0, new, 0);
        }
        after.check_quota_of(self, name, limits).is_ok()
    }

    fn check_quota_of(&self, before: &Model, name: &str, limits: &Limits) -> Result<(), Refusal> {
        let after = self;
        let is_new = |s: &Status| !before.statuses.iter().any(|old| old.same_identity(s));
        let added: Vec<&Status> = after.statuses.iter().filter(|s| is_new(s)).collect();
        if limits.units_max < after.units.len() && before.unit(name).is_none() {
            return Err("limit");
        }
        if !added.is_empty() && limits.statuses_per_unit_max < after.of(name).count() {
            return Err("limit");
        }
        for new in added {
            let beside = after.of(name).filter(|s| s.component == new.component);
            if limits.keys_per_component_max < beside.count() {
                return Err("limit");
            }
        }
        Ok(())
    }

    pub fn note_contact(&mut self, reporter: &Reporter, now: u64) -> bool {
        let is_new = self.unit(reporter.unit.as_str()).is_none();
        let unit = self.unit_mut(reporter.unit.as_str());
        let incarnation = reporter.incarnation.unwrap_or(0);
        let is_newer = unit.incarnation < incarnation;
        let was_missed = !unit.is_believed() || unit.quiet_since.is_some() || unit.departed;
        if is_newer {
            (unit.incarnation, unit.began) = (incarnation, now);
        }
        if is_newer || unit.departed {
            unit.presence = Presence::Unbound;
        }
        unit.lost_since = None;
        unit.uncertain_since = None;
        unit.quiet_since = None;
        unit.departed = false;
        unit.session_ended = false;
        unit.last_seen = now;
        is_new || is_newer || was_missed
    }

    pub fn unit_mut(&mut self, name: &str) -> &mut Unit {
        if self.unit(name).is_none() {
            self.units.push(Unit::named(name));
        }
        self.units.iter_mut().find(|u| u.name == name).unwrap()
    }

    fn set(&mut self, unit: &str, kind: Kind, incarnation: u64, new: &NewStatus, now: u64) -> bool {
        let mut report = (*new.report).clone();
        report.ttl = report.ttl.or(self.config.default_ttl);
        let observed = new.observe_time.map(|t| t.millis()).filter(|t| *t <= now);
        let mut status = Status {
            unit: unit.to_string(),
            component: new.component.as_str().to_string(),
            key: new.key.as_str().to_string(),
            kind,
            ends: report.ttl.map(|ttl| now + millis(ttl)),
            over: report.details().end_after.map(|after| now + millis(after)),
            report,
            incarnation,
            since: observed.unwrap_or(now),
            observed: observed_by(new, now),
            stale: false,
            results: Vec::new(),
            held: None,
            place: None,
        };
        let place = self.statuses.iter().position(|s| s.same_identity(&status));
        let Some(place) = place else {
            self.statuses.push(status);
            return true;
        };
        let old = &self.statuses[place];
        if self.may_hold(old) {
            let observed = observed_by(new, now);
            let said = Reported { report: status.report, incarnation, observed };
            let after = self.one_more(old, Some(said), incarnation, now).unwrap();
            let moved = !after.looks_like(old);
            self.statuses[place] = after;
            return moved;
        }
        if old.report.level == status.report.level {
            status.since = old.since;
        }
        status.place = old.place;
        let moved =
            old.report != status.report || old.stale || old.incarnation != status.incarnation;
        if !moved {
            // A repeat never moves a deadline back: other replicas may have granted a later one.
            status.ends = status.ends.max(old.ends);
            status.observed = old.observed;
        }
        self.statuses[place] = status;
        moved
    }

    /// Returns whether a report was observed before the stored one, in the same incarnation.
    fn is_late(&self, stored: &Status, new: &NewStatus, incarnation: u64, now: u64) -> bool {
        let latest = stored.held.as_ref().and_then(|held| held.latest.as_ref());
        let (last, of) = latest.map_or((stored.observed, stored.incarnation), |latest| {
            (latest.observed, latest.incarnation)
        });
        of == incarnation && last.zip(observed_by(new, now)).is_some_and(|(last, new)| new < last)
    }

    /// Applies the changes by time. Returns whether anything changed.
    pub fn expire(&mut self, now: u64, limits: &Limits) -> bool {
        let mut moved = false;
        let calm_at = |s: &Status| Some(s.held.as_ref()?.flapping.as_ref()?.calm);
        let is_over = |s: &Status| s.unit.is_empty() && s.ends.is_some_and(|t| t <= now);
        moved |= self.statuses.iter().any(is_over);
        self.statuses.retain(|s| !is_over(s));
        // A status that is over is removed when it would be stale, if that comes first.
        let is_over = |s: &&Status| s.over.is_some_and(|over| over <= now);
        for status in self.statuses.iter_mut().filter(|s| is_over(&&**s)) {
            status.over = status.looked_at();
        }
        let over: Vec<_> = self.statuses.iter().filter(is_over).collect();
        let over = over.into_iter().filter_map(|s| Some((s.over?, 0, String::new())));
        let over: Vec<(u64, u8, String)> = over.collect();
        for status in self.statuses.iter_mut().filter(|s| !s.stale) {
            status.stale = status.ends.is_some_and(|t| t <= now);
            moved |= status.stale;
        }
        // In order of time: a status that ends or becomes calm first can prevent the loss of its
        // unit.
        let silent = self.units.iter().filter_map(|u| Some((u.looked_at()?, 1, u.name.clone())));
        let calm = self.statuses.iter().filter_map(|s| Some((calm_at(s)?, 2, String::new())));
        let timed = silent.chain(calm).chain(over);
        let mut due: Vec<(u64, u8, String)> = timed.filter(|d| d.0 <= now).collect();
        due.sort();
        for (at, kind, unit) in due {
            if kind == 0 {
                self.statuses.retain(|s| s.over.is_none_or(|over| at < over));
                self.settle_silence(now, None);
                moved = true;
                continue;
            }
            if let Some(found) = self.unit(&unit).cloned() {
                let is_over = found.silence_ends.is_some_and(|t| t <= now);
                if is_over && found.lost_since.is_some() {
                    moved |= self.end_lost(&found, at, now, limits);
                }
                let end_of_lost = self.end_of_lost(&found, now);
                let left = self.units.iter_mut().find(|u| u.name == unit);
                moved |= left.is_some_and(|unit| unit.judge(now, end_of_lost));
                continue;
            }
            if !unit.is_empty() {
                continue;
            }
            let all = self.statuses.clone();
            let settled = |s: &Status| match calm_at(s) {
                Some(calm) if calm <= at => self.settle(s, true, now),
                _ => Some(s.clone()),
            };
            self.statuses = all.iter().filter_map(settled).collect();
            self.settle_silence(now, None);
            moved = true;
        }
        if self.leader_says.as_ref().and_then(|s| s.ends).is_some_and(|t| t <= now) {
            self.leader_says = None;
            moved = true;
        }
        self.settle_silence(now, None);
        moved
    }

    pub fn lose(&mut self, name: &str, now: u64) -> bool {
        let unit = self.unit_mut(name).clone();
        let end_of_lost = self.end_of_lost(&unit, now);
        let unit = self.unit_mut(name);
        let moved = unit.lost_since.is_none();
        if moved {
            (unit.lost_since, unit.silence_ends) = (Some(now), end_of_lost);
        }
        self.exists |= moved;
        self.settle_silence(now, None);
        moved
    }

    /// Handles a data loss: marks each unit uncertain once for each loss count. Silence counts from
    /// the loss.
    pub fn mark_uncertain(&mut self, losses: u32, now: u64) -> bool {
        let moved = self.losses < losses && !self.units.is_empty();
        if moved {
            self.losses = losses;
            let ends = now + millis(self.config.lost_after);
            for unit in &mut self.units {
                unit.uncertain_since = unit.uncertain_since.or(Some(now));
                if unit.lost_since.is_none() {
                    unit.silence_ends = unit.silence_ends.map(|at| at.max(ends));
                }
            }
        }
        moved
    }

    /// Starts or clears the silence period of units. A unit whose every ttl has passed, or that
    /// broke its promise, has until `lost_after` to report, again after each contact. A unit with a
    /// session has no silence period.
    pub fn settle_silence(&mut self, now: u64, spoke: Option<&str>) {
        let ends = now + millis(self.config.lost_after);
        let statuses = &self.statuses;
        for unit in self.units.iter_mut().filter(|unit| unit.lost_since.is_none()) {
            let mut promised = statuses.iter().filter(|s| s.unit == unit.name && s.ends.is_some());
            let overdue = match unit.presence {
                Presence::Connected(_) => false,
                Presence::Promised(_) => unit.quiet_since.is_some(),
                Presence::Unbound => promised.clone().count() != 0 && promised.all(|s| s.stale),
            };
            unit.silence_ends = match overdue {
                true if spoke == Some(unit.name.as_str()) => Some(ends),
                true => unit.silence_ends.or(Some(ends)),
                false => None,
            };
        }
    }

    /// Keeps only the revision, the answers, and a fence for each unit.
    pub fn delete(&mut self, id: Option<&str>, now: u64) -> Result<Outcome, Refusal> {
        if let Some(answer) = id.and_then(|id| self.answer(id, now)) {
            return Ok(answer);
        }
        if !self.exists {
            return Err("no application");
        }
        let outcome = Outcome {
            revision: self.revision + 1,
            changed: true,
            removed: self.statuses.len() as u32,
            incarnation: 0,
        };
        for name in self.units.iter().map(|u| u.name.clone()).collect::<Vec<_>>() {
            if self.unit(&name).unwrap().incarnation != 0 {
                self.put_fence(&name, now, false);
            }
        }
        *self = Model {
            revision: outcome.revision,
            answers: std::mem::take(&mut self.answers),
            fences: std::mem::take(&mut self.fences),
            ..Model::default()
        };
        if let Some(id) = id {
            self.remember(id, now, outcome);
        }
        Ok(outcome)
    }
}

impl Status {
    pub fn same_identity(&self, other: &Status) -> bool {
        self.unit == other.unit
            && self.component == other.component
            && self.key == other.key
            && self.kind == other.kind
    }
}

trait Names {
    fn is(&self, component: &str, key: &str) -> bool;
}

impl Names for NewStatus {
    fn is(&self, component: &str, key: &str) -> bool {
        self.component.as_str() == component && self.key.as_str() == key
    }
}

fn matches(wanted: Option<&PartName>, found: &str) -> bool {
    wanted.is_none_or(|w| w.as_str() == found)
}

pub fn millis(duration: Duration) -> u64 {
    duration.as_millis() as u64
}

/// Returns when a report was observed; never after its arrival.
fn observed_by(new: &NewStatus, now: u64) -> Option<u64> {
    new.observe_time.map(|at| at.millis().min(now))
}
