//! The life of units in the model, one rule after the other.

use std::time::Duration;

use bellwether::domain::command::Command;
use bellwether::domain::limits::{Limits, REMOVED_FOR, REQUEST_TTL};
use bellwether::domain::status::Kind;
use bellwether::domain::time::Timestamp;
use bellwether::domain::unit::presence::{Presence, ReplicaId, SessionId};
use bellwether::domain::unit::{Callback, CallbackRequest, Newcomer, Reporter, Topic};

use crate::changes::Refusal;
use crate::model::{Fence, Model, Status, Unit, natural};

impl Model {
    /// Checks that the sender is the newest incarnation, in the newest session.
    pub fn check_reporter(&self, reporter: &Reporter, now: u64) -> Result<(), Refusal> {
        let name = reporter.unit.as_str();
        let unit = self.unit(name).cloned().unwrap_or_default();
        if let Some(given) = reporter.incarnation {
            if given < unit.incarnation {
                return Err("stale incarnation");
            }
            let fenced = self.fence(name, now).is_some_and(|f| f != 0 && given <= f);
            if fenced || unit.departed && given == unit.incarnation {
                return Err("removed");
            }
        }
        let held = match unit.presence {
            Presence::Connected(session) => Some(session),
            _ => None,
        };
        match reporter.session {
            Some(_) if reporter.session != held => Err("session over"),
            _ => Ok(()),
        }
    }

    /// Rejects a report without an incarnation for a while after the removal of its unit.
    pub fn may_return(&self, reporter: &Reporter, now: u64) -> Result<(), Refusal> {
        let name = reporter.unit.as_str();
        if reporter.session.is_some() || reporter.incarnation.is_some_and(|given| given != 0) {
            return Ok(());
        }
        let removed_at = match self.unit(name) {
            Some(unit) => unit.departed.then_some(unit.last_seen),
            None => {
                let last = self.fences.iter().rev().find(|f| f.unit == name);
                last.filter(|f| f.by_removal).map(|f| f.at)
            }
        };
        match removed_at.is_some_and(|at| now < at + REMOVED_FOR.as_millis() as u64) {
            true => Err("just removed"),
            false => Ok(()),
        }
    }

    fn fence(&self, name: &str, now: u64) -> Option<u64> {
        let stands = |f: &&Fence| f.unit == name && now - f.at < REQUEST_TTL.as_millis() as u64;
        self.fences.iter().filter(stands).map(|f| f.incarnation).max()
    }

    /// Returns whether anything changed, the number of statuses removed with a predecessor, and the
    /// incarnation.
    pub fn begin(
        &mut self,
        who: &Newcomer,
        presence: Presence,
        since: u64,
        now: u64,
        limits: &Limits,
    ) -> Result<(bool, u32, u64), Refusal> {
        let name = who.unit.as_str();
        let known = self.unit(name).cloned();
        let before = known.clone().unwrap_or_else(|| Unit::named(name));
        let newest = before.incarnation.max(self.fence(name, now).unwrap_or(0));
        let incarnation = who.incarnation.unwrap_or(newest + 1);
        self.check_reporter(&Reporter::new(who.unit.clone(), Some(incarnation)), now)?;
        let is_newer = before.incarnation < incarnation;
        let unit = Unit {
            incarnation,
            presence,
            not_before: if presence == before.presence { before.not_before } else { 0 },
            last_seen: now,
            lost_since: None,
            quiet_since: None,
            stateless: who.stateless,
            labels: who.labels.clone(),
            began: if is_newer { now } else { before.began },
            departed: false,
            session_ended: false,
            session_since: if presence == before.presence { before.session_since } else { since },
            ..before.clone()
        };
        let moved = known.is_none()
            || is_newer
            || before.departed
            || before.session_ended
            || before.lost_since.or(before.quiet_since).is_some()
            || before.presence != presence
            || (before.stateless, &before.labels) != (who.stateless, &who.labels);
        let leaving = if is_newer { self.predecessor(&unit) } else { None };
        // A unit that replaces another does not count against the limit.
        let others = self.units.len() - usize::from(leaving.is_some());
        if known.is_none() && limits.units_max <= others {
            return Err("limit");
        }
        *self.unit_mut(name) = unit;
        self.settle_silence(now, Some(name));
        let mut removed = 0;
        if let Some(leaving) = leaving {
            self.hand_over(&leaving, name, now, limits);
            removed = self.remove(&leaving, now);
        }
        Ok((moved, removed, incarnation))
    }

    /// Applies sessions, departures and callbacks.
    pub fn coming_or_going(
        &mut self,
        command: &Command,
        now: u64,
        limits: &Limits,
    ) -> Result<(bool, u32), Refusal> {
        match command {
            Command::Disconnect { unit, session, ttl, silent } => {
                Ok((self.disconnect(unit.as_str(), *session, *ttl, *silent, now), 0))
            }
            Command::EndSessions { replica, ttl } => {
                Ok((self.end_sessions(*replica, *ttl, now), 0))
            }
            Command::Depart { reporter, ttl } => {
                self.known(reporter.unit.as_str())?;
                self.depart(reporter, *ttl, now, limits)
            }
            Command::AddCallback { unit, topic, at, operation_id } => {
                self.known(unit.as_str())?;
                let callback = Callback {
                    at: *at,
                    operation_id: operation_id.clone(),
                    due: at.millis() <= now,
                    request: None,
                };
                let callbacks = &mut self.unit_mut(unit.as_str()).callbacks;
                let old = callbacks.insert(topic.clone(), callback.clone());
                Ok((old != Some(callback), 0))
            }
            Command::RequestCallback { reporter, topic, after, reason } => {
                let callback = after.map(|after| Callback {
                    at: Timestamp::new(now).after(after),
                    operation_id: "".into(),
                    due: false,
                    request: Some(CallbackRequest {
                        time: Timestamp::new(now),
                        reason: reason.clone(),
                    }),
                });
                self.request_callback(reporter, topic, callback, now, limits)
            }
            Command::CancelCallback { unit, topic } => {
                let unit = self.units.iter_mut().find(|u| u.name == unit.as_str());
                Ok((unit.is_some_and(|u| u.callbacks.remove(topic).is_some()), 0))
            }
            command => unreachable!("{command:?}"),
        }
    }

    /// Stores a callback that a unit requests, or removes it with `None`.
    fn request_callback(
        &mut self,
        reporter: &Reporter,
        topic: &Topic,
        callback: Option<Callback>,
        now: u64,
        limits: &Limits,
    ) -> Result<(bool, u32), Refusal> {
        let name = reporter.unit.as_str();
        let known = self.unit(name);
        let current = known.map_or(0, |unit| unit.incarnation);
        let is_contact =
            reporter.session.is_some() || reporter.incarnation.is_some_and(|given| current < given);
        let is_there = known.is_some_and(|unit| unit.callbacks.contains_key(topic));
        if callback.is_none() && (known.is_none() || !is_there && !is_contact) {
            self.check_reporter(reporter, now)?;
            return Ok((false, 0));
        }
        let (moved, _) = self.told(reporter, &[], |_| false, None, now, limits)?;
        let callbacks = &mut self.unit_mut(name).callbacks;
        let moves = match callback {
            Some(callback) => callbacks.insert(topic.clone(), callback.clone()) != Some(callback),
            None => callbacks.remove(topic).is_some(),
        };
        Ok((moved || moves, 0))
    }

    pub fn disconnect(
        &mut self,
        name: &str,
        session: SessionId,
        ttl: Duration,
        silent: bool,
        now: u64,
    ) -> bool {
        let held = self.units.iter_mut().find(|u| u.name == name);
        let Some(unit) = held.filter(|u| u.presence == Presence::Connected(session)) else {
            return false;
        };
        wait_for(unit, ttl, now);
        if silent && unit.lost_since.is_none() {
            unit.quiet_since = Some(now);
        }
        self.settle_silence(now, None);
        true
    }

    pub fn end_sessions(&mut self, replica: ReplicaId, ttl: Duration, now: u64) -> bool {
        let mut moved = false;
        for unit in &mut self.units {
            if matches!(unit.presence, Presence::Connected(s) if s.replica == replica) {
                wait_for(unit, ttl, now);
                moved = true;
            }
        }
        moved
    }

    /// Removes a unit, and returns its number of statuses.
    pub fn remove(&mut self, name: &str, now: u64) -> u32 {
        let before = self.statuses.len();
        self.put_fence(name, now, true);
        self.statuses.retain(|s| s.unit != name);
        self.units.retain(|u| u.name != name);
        (before - self.statuses.len()) as u32
    }

    pub fn put_fence(&mut self, name: &str, at: u64, by_removal: bool) {
        let incarnation = self.unit(name).unwrap().incarnation;
        let incarnation = incarnation.max(self.fence(name, at).unwrap_or(0));
        self.fences.push(Fence { unit: name.to_string(), incarnation, at, by_removal });
    }

    pub fn depart(
        &mut self,
        reporter: &Reporter,
        ttl: Duration,
        now: u64,
        limits: &Limits,
    ) -> Result<(bool, u32), Refusal> {
        let name = reporter.unit.as_str();
        self.check_reporter(reporter, now)?;
        self.note_contact(reporter, now);
        let Some(line) = self.group_of(self.unit(name).unwrap()) else {
            return Ok((true, self.remove(name, now)));
        };
        if let Some(successor) = self.successor(name, &line) {
            self.hand_over(name, &successor, now, limits);
            return Ok((true, self.remove(name, now)));
        }
        if self.of(name).all(|s| s.kind == Kind::Pull) {
            return Ok((true, self.remove(name, now)));
        }
        let before = self.statuses.len();
        self.statuses.retain(|s| s.unit != name || s.kind == Kind::Push);
        let unit = self.unit_mut(name);
        wait_for(unit, ttl, now);
        unit.departed = true;
        unit.callbacks.clear();
        unit.silence_ends = None;
        Ok((true, (before - self.statuses.len()) as u32))
    }

    /// Returns the hand-over group of a unit, if it has one.
    fn group_of(&self, unit: &Unit) -> Option<String> {
        let label = self.config.hand_over.as_ref().filter(|_| unit.stateless)?;
        match &**label {
            "" => Some(String::new()),
            label => unit.labels.get(label).map(|value| value.to_string()),
        }
    }

    fn others_in_group(&self, name: &str, line: &str) -> Vec<&Unit> {
        let in_group = |u: &&Unit| u.name != name && self.group_of(u).as_deref() == Some(line);
        self.units.iter().filter(in_group).collect()
    }

    fn successor(&self, leaving: &str, line: &str) -> Option<String> {
        let mut here = self.others_in_group(leaving, line);
        here.retain(|u| !u.departed && u.is_believed() && u.quiet_since.is_none());
        here.sort_by(|a, b| {
            let of = |u: &Unit| (u.is_connected(), u.presence != Presence::Unbound, u.began);
            of(a).cmp(&of(b)).then_with(|| natural(&a.name, &b.name))
        });
        here.last().map(|u| u.name.clone())
    }

    fn predecessor(&self, unit: &Unit) -> Option<String> {
        let mut gone = self.others_in_group(&unit.name, &self.group_of(unit)?);
        gone.retain(|u| u.departed || u.lost_since.is_some() && !u.is_connected());
        gone.sort_by(|a, b| {
            let of = |u: &Unit| (!u.departed, u.last_seen);
            of(a).cmp(&of(b)).then_with(|| natural(&a.name, &b.name))
        });
        gone.first().map(|u| u.name.clone())
    }

    /// Returns when a lost unit may be removed.
    pub fn end_of_lost(&self, unit: &Unit, now: u64) -> Option<u64> {
        let after = self.config.replaced_after.as_millis() as u64;
        (unit.stateless && after != 0).then_some(now + after)
    }

    /// Removes a lost unit, due at a time, if as many successors are fresh as units are missing.
    pub fn end_lost(&mut self, lost: &Unit, at: u64, now: u64, limits: &Limits) -> bool {
        let label = self.config.hand_over.as_deref().filter(|label| !label.is_empty());
        let is_like = |u: &&Unit| {
            u.name != lost.name
                && u.stateless
                && label.is_none_or(|label| u.labels.get(label) == lost.labels.get(label))
        };
        // What passed after the removal was due does not count.
        let is_stale = |s: &Status| s.stale && s.ends.is_none_or(|ends| ends <= at);
        let is_fresh = |u: &&Unit| {
            let is_outlived = |s: &Status| s.kind == Kind::Pull && s.incarnation < u.incarnation;
            let mut own = self.statuses.iter().filter(|s| s.unit == u.name);
            u.is_believed()
                && u.quiet_since.is_none()
                && !u.departed
                && !own.any(|s| is_stale(s) || is_outlived(s))
        };
        let (fresh, missing): (Vec<&Unit>, Vec<&Unit>) =
            self.units.iter().filter(is_like).partition(is_fresh);
        let successors = fresh.iter().filter(|u| lost.last_seen < u.began).count();
        if successors <= missing.len() {
            let silence_ends = self.end_of_lost(lost, now);
            self.unit_mut(&lost.name).silence_ends = silence_ends;
            return false;
        }
        let line = self.group_of(lost);
        if let Some(to) = line.and_then(|line| self.successor(&lost.name, &line)) {
            self.hand_over(&lost.name, &to, now, limits);
        }
        self.remove(&lost.name, now);
        true
    }

    fn hand_over(&mut self, from: &str, to: &str, now: u64, limits: &Limits) {
        let incarnation = self.unit(to).unwrap().incarnation;
        let mut pushed: Vec<Status> = self.of(from).cloned().collect();
        pushed.retain(|s| s.kind == Kind::Push);
        pushed.sort_by(|a, b| (&a.component, &a.key).cmp(&(&b.component, &b.key)));
        for status in pushed {
            let mut passed = Status { unit: to.to_string(), incarnation, ..status };
            if let Some(said) = passed.held.as_mut().and_then(|held| held.latest.as_mut()) {
                said.incarnation = incarnation;
            }
            let beside = self.of(to).filter(|s| s.component == passed.component).count();
            let is_known = self.of(to).any(|s| s.same_identity(&passed));
            let is_full = limits.statuses_per_unit_max <= self.of(to).count()
                || limits.keys_per_component_max <= beside;
            if !is_known && !is_full {
                self.statuses.push(passed);
            }
        }
        self.settle_silence(now, None);
    }
}

fn wait_for(unit: &mut Unit, ttl: Duration, now: u64) {
    unit.presence = Presence::Promised(ttl);
    unit.last_seen = now;
    unit.not_before = 0;
    unit.session_ended = true;
}
