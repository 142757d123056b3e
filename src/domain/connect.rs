//! Units that come and go: incarnations begin, sessions open and end, what a unit leaves behind
//! passes to its successor.

use std::sync::Arc;
use std::time::Duration;

use super::app::Unit;
use super::apply::{Effect, within};
use super::command::{Newcomer, Rejected, Speaker};
use super::draft::Draft;
use super::limits::EXPIRED_PER_COMMIT_MAX;
use super::name::UnitName;
use super::session::{Presence, ReplicaId, SessionId};
use super::status::{Kind, Status, StatusKey};
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
        if known.is_none() {
            let what = || "units of the application".to_string();
            within("units_max", self.limits.units_max, self.unit_count() + 1, what)?;
        }
        self.hear(name);
        let before = known.clone().unwrap_or_default();
        let is_new = before.incarnation < incarnation;
        let unit = Unit {
            incarnation,
            presence,
            lost_since: None,
            quiet_since: None,
            stateless: who.stateless,
            labels: who.labels.clone(),
            began: if is_new { self.now } else { before.began },
            // What it pulled last is what the one before saw.
            unanswered: before.unanswered || is_new && self.has_pulled(name),
            departed: false,
            ..before.clone()
        };
        let unit =
            Unit { silence_ends: unit.is_overdue().then(|| self.silence_from_now()), ..unit };
        if known.as_ref() == Some(&unit) {
            if unit.is_news(self.now) {
                self.put_unit_quietly(name.clone(), unit);
            }
            return Ok(Effect { incarnation, ..Effect::default() });
        }
        self.put_unit(name.clone(), Some(unit));
        let cause = match (before.lost_since, is_new && before.incarnation != 0) {
            (_, true) => Some(Cause::UnitReplaced),
            (Some(_), false) => Some(Cause::UnitReturned),
            (None, false) => None,
        };
        if let Some(cause) = cause {
            let subject = Some(Subject::unit(name));
            self.log(StatusEvent { subject, ..self.event(cause) });
        }
        let mut removed = 0;
        if is_new && who.stateless {
            removed = self.succeed(name);
        }
        Ok(Effect { changed: true, removed, incarnation })
    }

    /// The incarnation under which it may speak.
    fn incarnation_of(&self, who: &Newcomer) -> Result<u64, Rejected> {
        let known = self.unit(&who.unit).map(|unit| unit.incarnation);
        let current = known.or_else(|| self.fence(&who.unit)).unwrap_or_default();
        match who.incarnation {
            None => Ok(current + 1),
            Some(given) => {
                self.may_speak(&Speaker::new(who.unit.clone(), Some(given)))?;
                Ok(given)
            }
        }
    }

    pub(super) fn has_pulled(&self, name: &UnitName) -> bool {
        self.keys_of(name, None).iter().any(|key| key.kind == Kind::Pull)
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
        let presence = Presence::Promised(ttl);
        self.put_unit(name.clone(), Some(Unit { presence, last_seen: self.now, ..unit }));
        if silent {
            self.quieten_unit(name);
        }
        Effect { changed: true, ..Effect::default() }
    }

    /// A replica is gone: its units are given the time to connect elsewhere. Of more than
    /// [`EXPIRED_PER_COMMIT_MAX`] the rest is for the next time.
    pub(super) fn orphan(&mut self, replica: ReplicaId, ttl: Duration) -> Effect {
        let held = self.base.units.iter().filter_map(|(name, unit)| {
            let session = unit.session().filter(|session| session.replica == replica)?;
            Some((name.clone(), session))
        });
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
        let Some(line) = self.line_of(name) else {
            return self.remove_unit(name);
        };
        if let Some(successor) = self.successor(name, &line) {
            self.hand_over(name, &successor);
            return self.remove_unit(name);
        }
        let pulled = self.keys_of(name, None).into_iter().filter(|key| key.kind == Kind::Pull);
        let removed = self.remove_all(pulled, Cause::UnitRemoved);
        if self.keys_of(name, None).is_empty() {
            return self.remove_unit(name);
        }
        let unit = self.unit(name).cloned().unwrap_or_default();
        let presence = Presence::Promised(ttl);
        let last_seen = self.now;
        let gone = Unit { departed: true, unanswered: false, presence, last_seen, ..unit };
        self.put_unit(name.clone(), Some(gone));
        Ok(Effect { changed: true, removed, ..Effect::default() })
    }

    /// In which line of succession a stateless unit stands, if in one.
    fn line_of(&self, name: &UnitName) -> Option<Box<str>> {
        let label = self.head.config.hand_over.as_ref()?;
        let unit = self.unit(name).filter(|unit| unit.stateless)?;
        match label.is_empty() {
            true => Some("".into()),
            false => unit.labels.get(label).cloned(),
        }
    }

    fn in_line<'a>(
        &'a self,
        except: &'a UnitName,
        line: &'a str,
    ) -> impl Iterator<Item = (&'a UnitName, &'a Unit)> {
        let drafted = self.units.keys().filter(|name| !self.base.units.contains_key(*name));
        let names = self.base.units.keys().chain(drafted).filter(move |name| *name != except);
        let names = names.filter(move |name| self.line_of(name).as_deref() == Some(line));
        names.filter_map(|name| Some((name, self.unit(name)?)))
    }

    /// Who takes over from a unit that leaves: the newest that is there.
    fn successor(&self, leaving: &UnitName, line: &str) -> Option<UnitName> {
        let here = self
            .in_line(leaving, line)
            .filter(|(_, unit)| !unit.departed && unit.is_believed() && unit.session().is_some());
        here.max_by_key(|(name, unit)| (unit.began, *name)).map(|(name, _)| name.clone())
    }

    /// A new stateless unit takes over from one before it that has left, or is lost: the one that
    /// has waited longest. Says how many statuses went with it.
    fn succeed(&mut self, name: &UnitName) -> u32 {
        let Some(line) = self.line_of(name) else {
            return 0;
        };
        let gone = self.in_line(name, &line).filter(|(_, unit)| {
            unit.departed || unit.lost_since.is_some() && unit.session().is_none()
        });
        let first = gone.min_by_key(|(name, unit)| (!unit.departed, unit.last_seen, *name));
        let Some(leaving) = first.map(|(leaving, _)| leaving.clone()) else {
            return 0;
        };
        self.hand_over(&leaving, name);
        self.remove_unit(&leaving).map_or(0, |effect| effect.removed)
    }

    /// Passes the push statuses of one unit to another, unless that has said the same of its own or
    /// has no room. What is passed keeps its time.
    fn hand_over(&mut self, from: &UnitName, to: &UnitName) {
        let incarnation = self.unit(to).map_or(0, |unit| unit.incarnation);
        let pushed = self.keys_of(from, None).into_iter().filter(|key| key.kind == Kind::Push);
        for key in pushed.collect::<Vec<_>>() {
            let held = self.unit(to).map_or(0, |unit| unit.status_count as usize);
            let own = Arc::new(StatusKey { unit: to.clone(), ..(*key).clone() });
            if self.status(&own).is_some() || self.limits.statuses_per_unit_max <= held {
                continue;
            }
            let Some(status) = self.status(&key).cloned() else {
                continue;
            };
            let passed = Status { incarnation, update_time: self.now, ..(*status).clone() };
            self.log_status(&own, None, Some(&passed), Cause::HandedOver);
            self.put_status(own, Some(Arc::new(passed)));
        }
    }
}
