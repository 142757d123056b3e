//! The life of units: incarnations begin, sessions open and close, and the statuses that a unit
//! leaves behind pass to its successor.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::app::Unit;
use super::apply::Effect;
use super::callback::Callbacks;
use super::command::{Newcomer, Rejected, Reporter};
use super::draft::Draft;
use super::limits::EXPIRED_PER_COMMIT_MAX;
use super::name::UnitName;
use super::session::{Presence, ReplicaId, SessionId};
use super::status::{Kind, Status, StatusKey};
use super::time::Timestamp;
use super::transition::{Cause, StatusEvent, Subject};

impl Draft<'_> {
    /// Opens a session of a unit.
    pub(super) fn connect(
        &mut self,
        who: &Newcomer,
        session: SessionId,
    ) -> Result<Effect, Rejected> {
        self.begin(who, Presence::Connected(session))
    }

    /// Confirms an open session, unless the unit has another session by now.
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

    /// Begins or continues an incarnation without a session.
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
            // The last pulled statuses come from the earlier incarnation.
            outlived_count: match is_new {
                true => self.pulled_count(name),
                false => before.outlived_count,
            },
            departed: false,
            session_ended: false,
            // A new incarnation has not requested leadership.
            candidate: before.candidate.filter(|_| !is_new),
            ..before.clone()
        };
        let unit =
            Unit { silence_ends: unit.is_overdue().then(|| self.silence_from_now()), ..unit };
        let leaving = is_new.then(|| self.predecessor(name, &unit)).flatten();
        if known.is_none() && leaving.is_none() {
            self.check_unit_quota()?;
        }
        self.hear(name);
        // A restart of the silence period alone is no visible change.
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

    /// Returns the incarnation that the unit may use.
    fn incarnation_of(&self, who: &Newcomer) -> Result<u64, Rejected> {
        let known = self.unit(&who.unit).map_or(0, |unit| unit.incarnation);
        let current = known.max(self.fence(&who.unit).unwrap_or_default());
        match who.incarnation {
            None => {
                let unit = || who.unit.clone();
                current.checked_add(1).ok_or_else(|| Rejected::IncarnationsUsedUp { unit: unit() })
            }
            Some(given) => {
                self.check_reporter(&Reporter::new(who.unit.clone(), Some(given)))?;
                Ok(given)
            }
        }
    }

    pub(super) fn pulled_count(&self, name: &UnitName) -> u32 {
        self.keys_of(name, None).iter().filter(|key| key.kind == Kind::Pull).count() as u32
    }

    /// Closes a session: the unit gets `ttl` to open another.
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

    /// Handles the loss of a replica: its units get `ttl` to connect elsewhere. Handles at most
    /// [`EXPIRED_PER_COMMIT_MAX`] units; the caller repeats for the rest.
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

    /// Removes a unit that leaves for good. The pushed statuses of a stateless unit pass to its
    /// successor, or wait for one, if the application has a hand-over configured.
    pub(super) fn depart(
        &mut self,
        reporter: &Reporter,
        ttl: Duration,
    ) -> Result<Effect, Rejected> {
        let name = &reporter.unit;
        self.unit_exists(name)?;
        self.check_reporter(reporter)?;
        // The departure itself is contact, so a silent unit does not also count as lost.
        self.note_contact(reporter);
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
        // The unit cannot receive callbacks any more.
        let callbacks = Callbacks::default();
        let gone = Unit { departed: true, silence_ends: None, callbacks, ..unit };
        self.put_unit(name.clone(), Some(gone));
        self.leave_lease(name);
        Ok(Effect { changed: true, removed, ..Effect::default() })
    }

    /// Returns the hand-over group of a stateless unit, if it has one.
    fn line_of<'u>(&self, unit: &'u Unit) -> Option<&'u str> {
        let label = self.head.config.hand_over.as_ref().filter(|_| unit.stateless)?;
        match label.is_empty() {
            true => Some(""),
            false => unit.labels.get(label).map(|value| &**value),
        }
    }

    /// Returns the other matching units of a hand-over group. Visits each unit, so it is called
    /// only if hand-over is configured.
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

    /// Returns the successor of a leaving unit: the newest present one, with preference for units
    /// that hold a session because their presence is best known.
    fn successor(&self, leaving: &UnitName, line: &str) -> Option<UnitName> {
        let here = self.in_line(leaving, line, |unit| {
            !unit.departed && unit.is_believed() && unit.quiet_since.is_none()
        });
        let newest = here.max_by_key(|(name, unit)| {
            let has_contact = unit.session().is_some();
            (has_contact, unit.presence != Presence::Unbound, unit.began, *name)
        });
        newest.map(|(name, _)| name.clone())
    }

    /// Returns the predecessor of a new stateless unit: one that has left or is lost, with
    /// preference for the one that has waited longest.
    fn predecessor(&self, name: &UnitName, unit: &Unit) -> Option<UnitName> {
        let line = self.line_of(unit)?;
        let gone = self.in_line(name, line, |unit| {
            unit.departed || unit.lost_since.is_some() && unit.session().is_none()
        });
        let first = gone.min_by_key(|(name, unit)| (!unit.departed, unit.last_seen, *name));
        first.map(|(leaving, _)| leaving.clone())
    }

    /// Passes the push statuses of one unit to another, except those that the other already has or
    /// has no quota for. Passed statuses keep their times.
    fn hand_over(&mut self, from: &UnitName, to: &UnitName) {
        let incarnation = self.unit(to).map_or(0, |unit| unit.incarnation);
        let pushed = self.keys_of(from, None).into_iter().filter(|key| key.kind == Kind::Push);
        for key in pushed.collect::<Vec<_>>() {
            let own = StatusKey { unit: to.clone(), ..(*key).clone() };
            let check_quota = || self.check_quota(to, [own.clone()], &BTreeSet::new()).is_ok();
            if self.status(&own).is_some() || !check_quota() {
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
