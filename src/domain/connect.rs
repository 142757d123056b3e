//! Units that come and go: incarnations begin, sessions open and end, what a unit leaves behind
//! passes to its successor.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::app::Unit;
use super::apply::Effect;
use super::callback::Callbacks;
use super::command::{Newcomer, Rejected, Speaker};
use super::draft::Draft;
use super::limits::EXPIRED_PER_COMMIT_MAX;
use super::name::UnitName;
use super::session::{Presence, ReplicaId, SessionId};
use super::status::{Kind, Status, StatusKey};
use super::time::Timestamp;
use super::transition::{Cause, StatusEvent, Subject};

impl Draft<'_> {
    /// A unit opens a session.
    pub(super) fn connect(
        &mut self,
        who: &Newcomer,
        session: SessionId,
    ) -> Result<Effect, Rejected> {
        self.begin(who, Presence::Connected(session))
    }

    /// A session is still there, unless the unit holds another by now.
    pub(super) fn reconnect(
        &mut self,
        who: &Newcomer,
        session: SessionId,
    ) -> Result<Effect, Rejected> {
        let held = self.unit(&who.unit).and_then(Unit::session);
        if held.is_some_and(|held| held != session) {
            return Err(Rejected::SessionOver { unit: who.unit.clone() });
        }
        self.begin(who, Presence::Connected(session))
    }

    /// A unit begins or goes on without a session.
    pub(super) fn register(
        &mut self,
        who: &Newcomer,
        ttl: Option<Duration>,
    ) -> Result<Effect, Rejected> {
        self.begin(who, ttl.map_or(Presence::Unbound, Presence::Promised))
    }

    fn begin(&mut self, who: &Newcomer, presence: Presence) -> Result<Effect, Rejected> {
        let name = &who.unit;
        let incarnation = self.incarnation_of(who)?;
        let known = self.unit(name).cloned();
        let before = known.clone().unwrap_or_default();
        let is_new = before.incarnation < incarnation;
        let same_promise = before.presence == presence;
        let unit = Unit {
            incarnation,
            presence,
            not_before: if same_promise { before.not_before } else { Timestamp::default() },
            lost_since: None,
            quiet_since: None,
            stateless: who.stateless,
            labels: who.labels.clone(),
            began: if is_new { self.now } else { before.began },
            // What was pulled last is what the one before saw.
            outlived_count: match is_new {
                true => self.pulled_count(name),
                false => before.outlived_count,
            },
            departed: false,
            session_ended: false,
            // Who begins anew has not asked to lead.
            candidate: before.candidate.filter(|_| !is_new),
            ..before.clone()
        };
        let unit =
            Unit { silence_ends: unit.is_overdue().then(|| self.silence_from_now()), ..unit };
        let leaving = is_new.then(|| self.predecessor(name, &unit)).flatten();
        if known.is_none() && leaving.is_none() {
            self.has_room_for_unit()?;
        }
        self.hear(name);
        // That its silence begins anew is no news.
        let silence_ends = before.silence_ends;
        if known.as_ref() == Some(&Unit { silence_ends, ..unit.clone() }) {
            if unit.silence_ends != silence_ends || unit.is_news(self.now) {
                self.put_unit_quietly(name.clone(), unit);
            }
            return Ok(Effect { incarnation, ..Effect::default() });
        }
        self.put_unit(name.clone(), Some(unit));
        match is_new {
            true => self.leave_lease(name),
            false => {
                self.keep_lease(name);
                self.welcome_candidate(name);
            }
        }
        let was_missed = before.lost_since.or(before.quiet_since).is_some();
        let cause = match is_new && before.incarnation != 0 {
            true => Some(Cause::UnitReplaced),
            false => was_missed.then_some(Cause::UnitReturned),
        };
        if let Some(cause) = cause {
            let subject = Some(Subject::unit(name));
            self.log(StatusEvent { subject, ..self.event(cause) });
        }
        if matches!(presence, Presence::Connected(_)) {
            self.ask_newcomer_to_try(name);
        }
        let mut removed = 0;
        if let Some(leaving) = leaving {
            self.hand_over(&leaving, name);
            removed = self.remove_unit(&leaving)?.removed;
        }
        Ok(Effect { changed: true, removed, incarnation, ..Effect::default() })
    }

    /// The incarnation under which it may speak.
    fn incarnation_of(&self, who: &Newcomer) -> Result<u64, Rejected> {
        let known = self.unit(&who.unit).map_or(0, |unit| unit.incarnation);
        let current = known.max(self.fence(&who.unit).unwrap_or_default());
        match who.incarnation {
            None => {
                let unit = || who.unit.clone();
                current.checked_add(1).ok_or_else(|| Rejected::IncarnationsUsedUp { unit: unit() })
            }
            Some(given) => {
                self.may_speak(&Speaker::new(who.unit.clone(), Some(given)))?;
                Ok(given)
            }
        }
    }

    pub(super) fn pulled_count(&self, name: &UnitName) -> u32 {
        self.keys_of(name, None).iter().filter(|key| key.kind == Kind::Pull).count() as u32
    }

    /// A session has ended: the unit is given the time to open another.
    pub(super) fn disconnect(
        &mut self,
        name: &UnitName,
        session: SessionId,
        ttl: Duration,
        silent: bool,
    ) -> Effect {
        let held = self.unit(name).filter(|unit| unit.session() == Some(session));
        let Some(unit) = held.cloned() else {
            return Effect::default();
        };
        self.put_unit(name.clone(), Some(unit.expected_within(ttl, self.now)));
        self.keep_lease(name);
        if silent {
            self.quieten_unit(name);
        }
        Effect { changed: true, ..Effect::default() }
    }

    /// A replica is gone: its units are given the time to connect elsewhere. Of more than
    /// [`EXPIRED_PER_COMMIT_MAX`] the rest is for the next time.
    pub(super) fn orphan(&mut self, replica: ReplicaId, ttl: Duration) -> Effect {
        let is_its = |unit: &Unit| unit.session().is_some_and(|held| held.replica == replica);
        let held = self.units_where(is_its);
        let held = held.filter_map(|(name, unit)| Some((name.clone(), unit.session()?)));
        let held: Vec<_> = held.take(EXPIRED_PER_COMMIT_MAX).collect();
        let mut changed = false;
        for (name, session) in held {
            changed |= self.disconnect(&name, session, ttl, false).changed;
        }
        Effect { changed, ..Effect::default() }
    }

    /// A unit will not come back: it is removed. What a stateless one pushed passes to its
    /// successor, or waits for one, if the application has a hand-over configured.
    pub(super) fn depart(&mut self, speaker: &Speaker, ttl: Duration) -> Result<Effect, Rejected> {
        let name = &speaker.unit;
        self.unit_exists(name)?;
        self.may_speak(speaker)?;
        // Its last word is a word: whoever was silent has not been lost.
        self.hear_unit(speaker);
        let Some(line) = self.unit(name).and_then(|unit| self.line_of(unit)) else {
            return self.remove_unit(name);
        };
        let mut keys = self.keys_of(name, None);
        if keys.iter().all(|key| key.kind == Kind::Pull) {
            return self.remove_unit(name);
        }
        if let Some(successor) = self.successor(name, line) {
            self.hand_over(name, &successor);
            return self.remove_unit(name);
        }
        keys.retain(|key| key.kind == Kind::Pull);
        let removed = self.remove_all(keys.into_iter(), Cause::UnitRemoved);
        self.remove_faults(name);
        let unit = self.unit(name).cloned().unwrap_or_default().expected_within(ttl, self.now);
        // Nobody is there to be called back.
        let callbacks = Callbacks::default();
        let gone = Unit { departed: true, silence_ends: None, callbacks, ..unit };
        self.put_unit(name.clone(), Some(gone));
        self.leave_lease(name);
        Ok(Effect { changed: true, removed, ..Effect::default() })
    }

    /// In which line of succession a stateless unit stands, if in one.
    fn line_of<'u>(&self, unit: &'u Unit) -> Option<&'u str> {
        let label = self.head.config.hand_over.as_ref().filter(|_| unit.stateless)?;
        match label.is_empty() {
            true => Some(""),
            false => unit.labels.get(label).map(|value| &**value),
        }
    }

    /// Who else of a kind stands in a line. Looks at each unit, so only where hand-over is
    /// configured.
    fn in_line<'a>(
        &'a self,
        except: &'a UnitName,
        line: &'a str,
        is_wanted: fn(&Unit) -> bool,
    ) -> impl Iterator<Item = (&'a UnitName, &'a Unit)> {
        let others =
            self.units_where(move |unit| is_wanted(unit) && self.line_of(unit) == Some(line));
        others.filter(move |(name, _)| *name != except)
    }

    /// Who takes over from a unit that leaves: the newest that is there, which is best known of
    /// those that hold a session.
    fn successor(&self, leaving: &UnitName, line: &str) -> Option<UnitName> {
        let here = self.in_line(leaving, line, |unit| {
            !unit.departed && unit.is_believed() && unit.quiet_since.is_none()
        });
        let newest = here.max_by_key(|(name, unit)| {
            let is_heard = unit.session().is_some();
            (is_heard, unit.presence != Presence::Unbound, unit.began, *name)
        });
        newest.map(|(name, _)| name.clone())
    }

    /// From whom a new stateless unit takes over: one before it that has left, or is lost; the one
    /// that has waited longest.
    fn predecessor(&self, name: &UnitName, unit: &Unit) -> Option<UnitName> {
        let line = self.line_of(unit)?;
        let gone = self.in_line(name, line, |unit| {
            unit.departed || unit.lost_since.is_some() && unit.session().is_none()
        });
        let first = gone.min_by_key(|(name, unit)| (!unit.departed, unit.last_seen, *name));
        first.map(|(leaving, _)| leaving.clone())
    }

    /// Passes the push statuses of one unit to another, unless that has said the same of its own or
    /// has no room. What is passed keeps its time.
    fn hand_over(&mut self, from: &UnitName, to: &UnitName) {
        let incarnation = self.unit(to).map_or(0, |unit| unit.incarnation);
        let pushed = self.keys_of(from, None).into_iter().filter(|key| key.kind == Kind::Push);
        for key in pushed.collect::<Vec<_>>() {
            let own = StatusKey { unit: to.clone(), ..(*key).clone() };
            let has_room = || self.has_room(to, [own.clone()], &BTreeSet::new()).is_ok();
            if self.status(&own).is_some() || !has_room() {
                continue;
            }
            let Some(status) = self.with_swings(&key) else {
                continue;
            };
            let passed = Status {
                update_time: self.now,
                expire_time_written: status.expire_time,
                ..status.passed_to(incarnation)
            };
            self.log_status(&own, None, Some(&passed), Cause::HandedOver);
            self.put_status(Arc::new(own), Some(Arc::new(passed)));
        }
    }
}
