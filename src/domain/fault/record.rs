//! Faults in a draft: opened, repeated, resolved, released, and moved by time.

use std::sync::Arc;

use super::set::second;
use super::{Fault, FaultKey, NewError, Resolution};
use crate::domain::apply::Effect;
use crate::domain::callback::Topic;
use crate::domain::classify::Class;
use crate::domain::command::{Rejected, Reporter};
use crate::domain::draft::Draft;
use crate::domain::message::same_text;
use crate::domain::name::{PartName, UnitName};
use crate::domain::quota::{Total, within};
use crate::domain::time::Timestamp;
use crate::domain::transition::{Cause, Change, StatusEvent, Subject};

impl Draft<'_> {
    /// Records an error that a unit met.
    pub(in crate::domain) fn report_error(
        &mut self,
        reporter: &Reporter,
        component: &PartName,
        target: &Arc<str>,
        error: &NewError,
    ) -> Result<Effect, Rejected> {
        self.check_reporter(reporter)?;
        let (component, target) = (component.clone(), target.clone());
        let key = FaultKey { unit: reporter.unit.clone(), component, target };
        let old = self.fault(&key).cloned();
        if old.is_none() {
            self.check_fault_quota(&key.unit)?;
        }
        self.has_bytes(error.size(), || old.as_ref().map_or(0, |old| old.size()))?;
        self.note_contact(reporter);
        let current = self.unit(&key.unit).map_or(0, |unit| unit.incarnation);
        let incarnation = reporter.incarnation.unwrap_or(current);
        let fault = match old.as_deref().filter(|old| old.outlasts(error)) {
            Some(held) => held.met_again(self.now),
            None => {
                let (settings, said) = (&self.limits.faults, (incarnation, self.now));
                let (old, whose) = (old.as_deref(), (&self.base.name, &key));
                let new = Fault::after_error(old, whose, error.clone(), settings, said);
                self.with_place(new, old)
            }
        };
        let key = Arc::new(key);
        self.log_fault(&key, old.as_deref(), Some(&fault), Cause::ErrorReported, "");
        self.answer_ask(&key);
        self.put_fault(key, Some(Arc::new(fault)));
        Ok(Effect { changed: true, ..Effect::default() })
    }

    /// Resolves the faults of a target that works again, except holds that this success may not
    /// end. `None`: every target.
    pub(in crate::domain) fn resolve_error(
        &mut self,
        reporter: &Reporter,
        component: &PartName,
        target: Option<&str>,
        generation: &str,
    ) -> Result<Effect, Rejected> {
        self.check_reporter(reporter)?;
        let mut meant = self.fault_keys(&reporter.unit, Some(component));
        meant.retain(|key| target.is_none_or(|target| *target == *key.target));
        let is_known = self.unit(&reporter.unit).is_some();
        if !is_known || meant.is_empty() && !self.is_word_of_unit(reporter) {
            // An unknown unit has no open faults.
            return Ok(Effect::default());
        }
        let mut changed = self.note_contact(reporter);
        let current = self.unit(&reporter.unit).map_or(0, |unit| unit.incarnation);
        let incarnation = reporter.incarnation.unwrap_or(current);
        let mut removed = 0;
        for key in meant {
            let Some(fault) = self.fault(&key).cloned() else {
                continue;
            };
            if !fault.ends_with_success_of(incarnation, generation) {
                continue;
            }
            self.end_fault(&key, &fault, Cause::ErrorResolved, "");
            removed += 1;
        }
        changed |= 0 < removed;
        Ok(Effect { changed, removed, ..Effect::default() })
    }

    /// Releases a held component on behalf of an operator.
    pub(in crate::domain) fn resolve_hold(
        &mut self,
        unit: &UnitName,
        component: &PartName,
        resolution: Resolution,
        why: &str,
    ) -> Result<Effect, Rejected> {
        self.unit_exists(unit)?;
        let mut removed = 0;
        for key in self.fault_keys(unit, Some(component)) {
            let Some(fault) = self.fault(&key).cloned() else {
                continue;
            };
            removed += 1;
            if resolution == Resolution::Skip {
                self.end_fault(&key, &fault, Cause::HoldSkipped, why);
                continue;
            }
            let retried = fault.retried(&key, &self.limits.faults, self.now);
            let retried = Fault { ask_time: Some(self.now), ..retried };
            let event = self.fault_event(&key, Some(&fault), Some(&retried), Cause::HoldRetried);
            self.log(StatusEvent { message: why.into(), ..event });
            self.put_fault(key, Some(Arc::new(retried)));
        }
        Ok(Effect { changed: 0 < removed, removed, ..Effect::default() })
    }

    /// Moves a fault whose time has come: to its next stage, or to a new request to retry.
    pub(in crate::domain) fn move_fault(&mut self, key: &Arc<FaultKey>) {
        let now = self.now;
        let Some(old) = self.fault(key).filter(|f| f.deadline().is_some_and(|at| at <= now)) else {
            return;
        };
        let old = old.clone();
        let mut fault = (*old).clone();
        // The stored deadline decides: a grace period may have moved it.
        if old.stage_ends.is_some_and(|at| at <= now) {
            fault = old.after_time(key, &self.limits.faults, now);
        }
        if fault.ask_time.is_some_and(|at| at <= now) {
            fault.ask_time = self.ask_to_try(key, &fault);
        }
        self.log_fault(key, Some(&old), Some(&fault), Cause::FaultPersists, "");
        self.put_fault(key.clone(), Some(Arc::new(fault)));
    }

    /// Asks the worker to retry. Returns when to ask again, or `None` if the unit has no session.
    fn ask_to_try(&mut self, key: &FaultKey, fault: &Fault) -> Option<Timestamp> {
        let unit = self.unit(&key.unit).filter(|unit| unit.session().is_some())?.clone();
        let topic = Topic { component: key.component.clone(), target: (&*key.target).into() };
        let others = unit.callbacks.len() - usize::from(unit.callbacks.contains_key(&topic));
        if others < crate::domain::limits::CALLBACKS_PER_UNIT_MAX {
            // Cannot fail: the unit exists and is within its limit of callbacks.
            let id = &fault.error.operation_id;
            let _ = self.call_back(&key.unit, &topic, self.now, id);
        }
        Some(self.place_in_time(self.now.after(self.limits.faults.retry_max)))
    }

    /// Plans requests to retry, after a session opens, for faults that the unit or an earlier
    /// incarnation left open.
    pub(in crate::domain) fn ask_newcomer_to_try(&mut self, unit: &UnitName) {
        for key in self.fault_keys(unit, None) {
            let Some(fault) = self.fault(&key).filter(|f| f.ask_time.is_none()).cloned() else {
                continue;
            };
            let Some(at) = fault.retry_time.filter(|_| fault.held_since.is_none()) else {
                continue;
            };
            let ask_time = Some(self.place_in_time(at.max(self.now)));
            self.put_fault(key, Some(Arc::new(Fault { ask_time, ..(*fault).clone() })));
        }
    }

    /// Removes the open faults of a unit. The removal of the unit is the only event.
    pub(in crate::domain) fn remove_faults(&mut self, unit: &UnitName) {
        for key in self.fault_keys(unit, None) {
            self.put_fault(key, None);
        }
    }

    // === helpers ===

    pub(in crate::domain) fn fault(&self, key: &FaultKey) -> Option<&Arc<Fault>> {
        match self.faults.get(key) {
            Some(fault) => fault.as_ref(),
            None => self.base.faults.get(key),
        }
    }

    /// Returns the faults of a unit, or of one of its components, after the draft.
    fn fault_keys(&self, unit: &UnitName, component: Option<&PartName>) -> Vec<Arc<FaultKey>> {
        if self.faults.is_empty() && self.head.fault_count == 0 {
            return Vec::new();
        }
        let first = FaultKey::first_of(unit, component);
        let belongs = |key: &FaultKey| component.is_none_or(|c| key.component == *c);
        let drafted = self.faults.range::<FaultKey, _>(&first..);
        let drafted = drafted.take_while(|(key, _)| key.unit == *unit && belongs(key));
        let kept = self.base.faults.of(unit, component).map(|(key, _)| key);
        let kept = kept.filter(|key| !self.faults.contains_key(*key));
        let new = drafted.filter(|(_, fault)| fault.is_some()).map(|(key, _)| key);
        let mut keys: Vec<_> = kept.chain(new).cloned().collect();
        keys.sort();
        keys
    }

    fn put_fault(&mut self, key: Arc<FaultKey>, fault: Option<Arc<Fault>>) {
        let old = self.fault(&key).cloned();
        self.head.fault_count += u32::from(fault.is_some());
        self.head.fault_count -= u32::from(old.is_some());
        let size = |fault: &Option<Arc<Fault>>| fault.as_ref().map_or(0, |fault| fault.size());
        self.count_bytes(size(&old), size(&fault));
        for (fault, step) in [(&old, -1), (&fault, 1)] {
            if let Some(at) = fault.as_ref().and_then(|fault| fault.next_try()) {
                *self.tries.entry(second(at)).or_default() += step;
            }
        }
        self.faults.insert(key, fault);
        self.changed = true;
    }

    fn end_fault(&mut self, key: &Arc<FaultKey>, fault: &Fault, cause: Cause, why: &str) {
        self.log_fault(key, Some(fault), None, cause, why);
        self.answer_ask(key);
        self.put_fault(key.clone(), None);
    }

    /// Cancels the request to retry after a report of the worker.
    fn answer_ask(&mut self, key: &FaultKey) {
        let asked = self.unit(&key.unit).is_some_and(|unit| !unit.callbacks.is_empty());
        if asked {
            let target = (&*key.target).into();
            self.call_off(&key.unit, &Topic { component: key.component.clone(), target });
        }
    }

    fn check_fault_quota(&self, unit: &UnitName) -> Result<(), Rejected> {
        if self.unit(unit).is_none() {
            self.check_unit_quota()?;
        }
        let all = self.head.fault_count as usize + 1;
        let what = || "open faults of the application".to_string();
        within("faults_max", self.limits.faults_max, all, what)?;
        self.check_total(Total::Faults, all as u64)?;
        let own = self.fault_keys(unit, None).len() + 1;
        let what = || format!("open faults of unit {unit}");
        within("faults_per_unit_max", self.limits.faults_per_unit_max, own, what)
    }

    /// Returns the fault with its times to retry and to ask, in seconds within the limit. An
    /// interrupted target has no planned request; the unit is asked when it opens a session again.
    fn with_place(&self, fault: Fault, old: Option<&Fault>) -> Fault {
        let Some(at) = fault.retry_time else {
            return fault;
        };
        if fault.class() == Class::Interrupted {
            return fault;
        }
        // The second that the fault occupies itself counts as free.
        let own = old.and_then(Fault::next_try).map(second);
        let at = self.place_beside(at, own);
        Fault { retry_time: Some(at), ask_time: Some(at), ..fault }
    }

    fn place_in_time(&self, at: Timestamp) -> Timestamp {
        self.place_beside(at, None)
    }

    /// Returns the first moment from `at` on whose second is within the limit for one more retry.
    fn place_beside(&self, at: Timestamp, own: Option<u64>) -> Timestamp {
        let max = i64::from(self.limits.faults.retries_per_second_max.max(1));
        let taken = |second: u64| {
            let drafted = self.tries.get(&second).copied().unwrap_or_default();
            let own = i64::from(own == Some(second));
            i64::from(self.base.faults.tries_in(second)) + drafted - own
        };
        let mut place = at;
        while max <= taken(second(place)) {
            // Keeps the offset within the second, so that spread retries stay spread.
            place = Timestamp(place.0 + 1000);
        }
        place
    }

    /// Adds an event to the history if the visible level or text changed.
    fn log_fault(
        &mut self,
        key: &FaultKey,
        old: Option<&Fault>,
        new: Option<&Fault>,
        cause: Cause,
        why: &str,
    ) {
        let level = |fault: Option<&Fault>| fault.and_then(Fault::level);
        let text = |fault: Option<&Fault>| fault.map_or("", |fault| &*fault.shown).to_string();
        let is_shown = level(old).is_some() || level(new).is_some();
        let is_same = level(old) == level(new) && same_text(&text(old), &text(new));
        if !is_shown || is_same {
            return;
        }
        let event = self.fault_event(key, old, new, cause);
        let message = if why.is_empty() { event.message.clone() } else { why.into() };
        self.log(StatusEvent { message, ..event });
    }

    fn fault_event(
        &self,
        key: &FaultKey,
        old: Option<&Fault>,
        new: Option<&Fault>,
        cause: Cause,
    ) -> StatusEvent {
        let shown = new.filter(|fault| fault.level().is_some());
        StatusEvent {
            subject: Some(Subject {
                unit: key.unit.clone(),
                component: key.component.clone(),
                key: PartName::default(),
                kind: None,
                target: (*key.target).into(),
            }),
            changes: hold_change(old, new, cause).into_iter().collect(),
            from: old.and_then(Fault::level),
            to: new.and_then(Fault::level),
            message: shown.map_or_else(|| "".into(), |fault| fault.shown.clone()),
            reason: shown.map_or("", Fault::reason).into(),
            ..self.event(cause)
        }
    }
}

/// Returns the change of a hold for the history. An operator may retry a fault that held nothing.
fn hold_change(old: Option<&Fault>, new: Option<&Fault>, cause: Cause) -> Option<Change> {
    let word = |fault: Option<&Fault>| match fault.and_then(|fault| fault.held_since) {
        Some(_) => "held",
        None => "",
    };
    let (before, after) = (word(old), word(new));
    match cause {
        Cause::HoldRetried => Some(Change::new("hold", before, "to be retried")),
        Cause::HoldSkipped => Some(Change::new("hold", before, "skipped")),
        _ if before != after => Some(Change::new("hold", before, after)),
        _ => None,
    }
}

impl Fault {
    /// Returns whether a success ends the fault. A success of any incarnation does, but a halting
    /// fault needs a newer incarnation or another generation of the configuration.
    fn ends_with_success_of(&self, incarnation: u64, generation: &str) -> bool {
        let is_halted = self.held_since.is_some() && self.class() != Class::Blocked;
        !is_halted || self.incarnation < incarnation || self.is_of_another(generation)
    }

    /// Returns whether the fault keeps holding its component after another error of the same
    /// target: an error of a weaker class is no success. An error of another generation always
    /// replaces it.
    fn outlasts(&self, error: &NewError) -> bool {
        let says = |class: Class| match class {
            Class::Gone | Class::Fatal => 2,
            class => u8::from(class.holds()),
        };
        self.held_since.is_some()
            && says(error.finding.class) < says(self.class())
            && !self.is_of_another(&error.generation)
    }

    fn is_of_another(&self, generation: &str) -> bool {
        let known = &*self.error.generation;
        !generation.is_empty() && !known.is_empty() && generation != known
    }
}
