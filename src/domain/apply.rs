//! The write path: a command becomes part of a draft, as a whole or not at all.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::app::{ApplicationStatus, Unit};
use super::command::{
    Claim, Command, NewApplicationStatus, NewStatus, Rejected, Reporter, Request,
};
use super::damping::decide::Reported;
use super::damping::flapping::Swings;
use super::draft::Draft;
use super::limits::{DAMPENERS_MAX, INCARNATION_MAX, INCARNATION_STEP_MAX};
use super::name::{PartName, UnitName};
use super::policy::ConfigPatch;
use super::quota::within;
use super::request::Outcome;
use super::session::Presence;
use super::status::{Kind, Status, StatusKey};
use super::transition::{Cause, StatusEvent, Subject};
use super::usage::size_of;

/// Applies a request to a draft. The outcome's revision is valid once the draft is committed. A
/// repeated request gets the first answer and is applied once; a different request with the same id
/// is rejected.
pub fn apply(draft: &mut Draft<'_>, request: &Request) -> Result<Outcome, Rejected> {
    if let Some(id) = &request.id
        && let Some(answer) = draft.remembered(&id.id)
    {
        return answer.repeat(id);
    }
    let effect = match &request.command {
        Command::Report(reporter, kind, new) => draft.report(reporter, *kind, new),
        Command::ReportAll(reporter, statuses) => draft.report_all(reporter, statuses),
        Command::Replace(reporter, component, set) => {
            draft.replace(reporter, component.as_ref(), set)
        }
        Command::Clear { reporter, component, key, kind } => {
            draft.clear(reporter, component.as_ref(), key.as_ref(), *kind)
        }
        Command::Configure(patch) => draft.configure(patch),
        Command::SetApplicationStatus(claim, new) => draft.set_application_status(claim, new),
        Command::ClearApplicationStatus(claim) => draft.clear_application_status(claim),
        Command::RemoveUnit(name) => draft.remove_unit(name),
        Command::ClaimLeadership(reporter, duration) => draft.claim_leadership(reporter, *duration),
        Command::RenewLeadership(claim) => draft.renew_leadership(claim),
        Command::ReleaseLeadership(claim) => draft.release_leadership(claim),
        Command::TransferLeadership(to) => draft.transfer_leadership(to),
        Command::LapseLeadership(claim, session) => Ok(draft.lapse_leadership(claim, *session)),
        Command::StepBack(reporter) => draft.step_back(reporter),
        Command::UpdateData(claim, patch) => draft.update_data(claim, patch),
        Command::Connect(who, session) => draft.connect(who, *session),
        Command::Reconnect(who, session) => draft.reconnect(who, *session),
        Command::Register(who, ttl) => draft.register(who, *ttl),
        Command::Disconnect { unit, session, ttl, silent } => {
            Ok(draft.disconnect(unit, *session, *ttl, *silent))
        }
        Command::Depart { reporter, ttl } => draft.depart(reporter, *ttl),
        Command::ReportError { reporter, component, target, error } => {
            draft.report_error(reporter, component, target, error)
        }
        Command::ResolveError { reporter, component, target, generation } => {
            draft.resolve_error(reporter, component, target.as_deref(), generation)
        }
        Command::ResolveHold { unit, component, resolution, why } => {
            draft.resolve_hold(unit, component, *resolution, why)
        }
        Command::CallBack { unit, topic, at, operation_id } => {
            draft.call_back(unit, topic, *at, operation_id)
        }
        Command::CallOff { unit, topic } => Ok(draft.call_off(unit, topic)),
        Command::Orphan { replica, ttl } => Ok(draft.orphan(*replica, *ttl)),
        Command::Operate(order) => draft.operate(order),
    }?;
    let Effect { changed, removed, incarnation, fence, lease_epoch, data_version } = effect;
    let revision = draft.revision();
    let outcome =
        Outcome { revision, changed, removed, incarnation, fence, lease_epoch, data_version };
    if let Some(id) = &request.id {
        draft.remember(id.id.clone(), request.answer(outcome, id.fingerprint.clone(), draft.now));
    }
    Ok(outcome)
}

/// The effect of a command.
#[derive(Default)]
pub(super) struct Effect {
    pub(super) changed: bool,
    pub(super) removed: u32,
    pub(super) incarnation: u64,
    pub(super) fence: u64,
    pub(super) lease_epoch: u64,
    pub(super) data_version: u64,
}

impl Draft<'_> {
    fn report(
        &mut self,
        reporter: &Reporter,
        kind: Kind,
        new: &NewStatus,
    ) -> Result<Effect, Rejected> {
        self.check_reporter(reporter)?;
        let key = Arc::new(new.key_of(self.known_name(&reporter.unit), kind));
        let old = self.status(&key).cloned();
        if old.is_none() {
            self.check_quota(&reporter.unit, [(*key).clone()], &BTreeSet::new())?;
        }
        self.has_bytes(new.report.size(), || size_of(old.as_ref()))?;
        let mut changed = self.note_contact(reporter);
        changed |= self.set(reporter, key, old, new);
        Ok(Effect { changed, ..Effect::default() })
    }

    fn report_all(
        &mut self,
        reporter: &Reporter,
        statuses: &[(Kind, NewStatus)],
    ) -> Result<Effect, Rejected> {
        self.check_reporter(reporter)?;
        let keys = statuses.iter().map(|(kind, new)| new.key_of(&reporter.unit, *kind));
        self.check_quota(&reporter.unit, keys, &BTreeSet::new())?;
        let set = statuses.iter().map(|(kind, new)| (*kind, new));
        self.has_bytes_for(&reporter.unit, set, &BTreeSet::new())?;
        let mut changed = self.note_contact(reporter);
        for (kind, new) in statuses {
            changed |= self.look_and_set(reporter, *kind, new);
        }
        Ok(Effect { changed, ..Effect::default() })
    }

    fn replace(
        &mut self,
        reporter: &Reporter,
        component: Option<&PartName>,
        set: &[NewStatus],
    ) -> Result<Effect, Rejected> {
        self.check_reporter(reporter)?;
        let kept: BTreeSet<_> = set.iter().map(|new| (&new.component, &new.key)).collect();
        let mut gone = self.keys_of(&reporter.unit, component);
        gone.retain(|key| key.kind == Kind::Pull && !kept.contains(&(&key.component, &key.key)));
        let keys = || set.iter().map(|new| new.key_of(&reporter.unit, Kind::Pull));
        let mut held = self.held_without(&gone);
        let leaving: BTreeSet<_> = gone.difference(&held).cloned().collect();
        if self.check_quota(&reporter.unit, keys(), &leaving).is_err() {
            // New reports have priority over statuses that a latch or damping keeps.
            self.check_quota(&reporter.unit, keys(), &gone)?;
            held.clear();
        }
        self.has_bytes_for(&reporter.unit, set.iter().map(|new| (Kind::Pull, new)), &gone)?;
        let mut changed = self.note_contact(reporter);
        if component.is_none() {
            self.answered(&reporter.unit);
        }
        let leaving = gone.into_iter().filter(|key| !held.contains(key));
        let removed = self.remove_all(leaving, Cause::Replaced);
        for key in held {
            changed |= self.take_result(key, None);
        }
        for new in set {
            changed |= self.look_and_set(reporter, Kind::Pull, new);
        }
        Ok(Effect { changed: changed || 0 < removed, removed, ..Effect::default() })
    }

    fn clear(
        &mut self,
        reporter: &Reporter,
        component: Option<&PartName>,
        key: Option<&PartName>,
        kind: Option<Kind>,
    ) -> Result<Effect, Rejected> {
        self.unit_exists(&reporter.unit)?;
        self.check_reporter(reporter)?;
        let mut matching = self.keys_of(&reporter.unit, component);
        matching.retain(|found| {
            key.is_none_or(|k| found.key == *k) && kind.is_none_or(|k| found.kind == k)
        });
        if matching.is_empty() && !self.is_word_of_unit(reporter) {
            return Ok(Effect::default());
        }
        let mut changed = self.note_contact(reporter);
        let removed = self.remove_all(matching.into_iter(), Cause::Cleared);
        changed |= 0 < removed;
        Ok(Effect { changed, removed, ..Effect::default() })
    }

    pub(super) fn remove_unit(&mut self, name: &UnitName) -> Result<Effect, Rejected> {
        self.unit_exists(name)?;
        let keys = self.keys_of(name, None);
        let removed = keys.len() as u32;
        let level = self.strongest_of(name).map(|rank| rank.level);
        for key in keys {
            self.put_status(key, None);
        }
        self.remove_faults(name);
        let incarnation = self.unit(name).map_or(0, |unit| unit.incarnation);
        self.put_fence(name, incarnation);
        self.put_unit(name.clone(), None);
        self.unanswered(name);
        self.log(StatusEvent {
            subject: Some(Subject::unit(name)),
            from: level,
            ..self.event(Cause::UnitRemoved)
        });
        self.leave_lease(name);
        Ok(Effect { changed: true, removed, ..Effect::default() })
    }

    // === helpers of reports ===

    /// Rejects a command for an application that does not exist.
    pub(super) fn exists(&self) -> Result<(), Rejected> {
        match self.head.deleted && !self.is_changed() {
            true => Err(Rejected::ApplicationNotFound),
            false => Ok(()),
        }
    }

    pub(super) fn unit_exists(&self, name: &UnitName) -> Result<(), Rejected> {
        self.exists()?;
        match self.unit(name) {
            Some(_) => Ok(()),
            None => Err(Rejected::UnitNotFound { unit: name.clone() }),
        }
    }

    /// Checks that the sender is the newest incarnation, one that may have been assigned, and uses
    /// the newest session.
    pub(super) fn check_reporter(&self, reporter: &Reporter) -> Result<(), Rejected> {
        let Reporter { unit, incarnation, session } = reporter;
        let known = self.unit(unit);
        let current = known.map_or(0, |u| u.incarnation);
        if let Some(given) = incarnation.filter(|given| *given < current) {
            return Err(Rejected::StaleIncarnation { unit: unit.clone(), given, current });
        }
        if let Some(given) = incarnation {
            self.may_have_begun(unit, *given, current)?;
        }
        if let Some(given) = incarnation.filter(|given| self.is_removed(unit, *given)) {
            return Err(Rejected::UnitRemoved { unit: unit.clone(), given });
        }
        if session.is_some() && known.and_then(Unit::session) != *session {
            return Err(Rejected::SessionOver { unit: unit.clone() });
        }
        Ok(())
    }

    /// Rejects an incarnation that was never assigned: accepting it would fence the unit for ever.
    fn may_have_begun(&self, unit: &UnitName, given: u64, known: u64) -> Result<(), Rejected> {
        let is_unknown = |newest: u64| {
            newest.max(newest.saturating_add(INCARNATION_STEP_MAX).min(INCARNATION_MAX)) < given
        };
        if !is_unknown(known) {
            return Ok(());
        }
        let current = known.max(self.fence(unit).unwrap_or_default());
        match is_unknown(current) {
            true => Err(Rejected::UnknownIncarnation { unit: unit.clone(), given, current }),
            false => Ok(()),
        }
    }

    /// Returns whether the command is contact from the unit, even if it changes nothing: it comes
    /// in the unit's session or from a new incarnation. Without both, any client can ask for what
    /// is already done, which is no proof of contact.
    pub(super) fn is_word_of_unit(&self, reporter: &Reporter) -> bool {
        let current = self.unit(&reporter.unit).map_or(0, |unit| unit.incarnation);
        reporter.session.is_some() || reporter.incarnation.is_some_and(|given| current < given)
    }

    /// Records contact with the unit: it exists and is neither lost nor uncertain. Returns whether
    /// that is a visible change.
    pub(super) fn note_contact(&mut self, reporter: &Reporter) -> bool {
        let name = &reporter.unit;
        self.hear(name);
        let known = self.unit(name);
        let incarnation = reporter.incarnation.unwrap_or_default();
        if known.is_some_and(|unit| unit.is_well(incarnation) && !unit.is_news(self.now)) {
            return false;
        }
        let before = known.cloned().unwrap_or_default();
        let is_new = before.incarnation < incarnation;
        let contacted = Unit {
            incarnation: incarnation.max(before.incarnation),
            // The open session belongs to the earlier incarnation.
            presence: match is_new || before.departed {
                true => Presence::Unbound,
                false => before.presence,
            },
            began: if is_new { self.now } else { before.began },
            outlived_count: match is_new {
                true => self.pulled_count(name),
                false => before.outlived_count,
            },
            departed: false,
            candidate: before.candidate.filter(|_| !is_new),
            session_ended: false,
            lost_since: None,
            uncertain_since: None,
            quiet_since: None,
            ..before.clone()
        };
        // A report about another status is contact too, and restarts the silence period.
        let silence_ends = contacted.is_overdue().then(|| self.silence_from_now());
        let contacted = Unit { silence_ends, ..contacted };
        let returned = !before.is_believed() || before.quiet_since.is_some();
        let is_shown = returned || before.departed || contacted.incarnation != before.incarnation;
        if known.is_some() && !is_shown {
            if contacted != before || contacted.is_news(self.now) {
                self.put_unit_quietly(name.clone(), contacted);
            }
            return false;
        }
        self.put_unit(name.clone(), Some(contacted));
        match is_new {
            true => self.leave_lease(name),
            false => self.welcome_candidate(name),
        }
        if returned {
            self.log(StatusEvent {
                subject: Some(Subject::unit(name)),
                ..self.event(Cause::UnitReturned)
            });
        }
        true
    }

    fn look_and_set(&mut self, reporter: &Reporter, kind: Kind, new: &NewStatus) -> bool {
        let key = Arc::new(new.key_of(self.known_name(&reporter.unit), kind));
        let old = self.status(&key).cloned();
        self.set(reporter, key, old, new)
    }

    /// Sets one status, given its state in the draft so far, so that each report looks it up only
    /// once. A repeat moves only the deadline. Returns whether a visible value changed.
    fn set(
        &mut self,
        reporter: &Reporter,
        key: Arc<StatusKey>,
        old: Option<Arc<Status>>,
        new: &NewStatus,
    ) -> bool {
        let mut report = new.report.clone();
        if report.ttl.is_none() && self.head.config.default_ttl.is_some() {
            Arc::make_mut(&mut report).ttl = self.head.config.default_ttl;
        }
        let expire_time = report.ttl.map(|ttl| self.now.after(ttl));
        let current = self.unit(&reporter.unit).map_or(0, |unit| unit.incarnation);
        let incarnation = reporter.incarnation.unwrap_or(current);
        if old.as_ref().is_some_and(|old| self.may_hold(&key, old)) {
            let said = Reported { report, observe_time: new.observe_time, incarnation };
            return self.take_result(key, Some(said));
        }
        let is_repeat =
            |s: &Arc<Status>| s.report == report && !s.stale && s.incarnation == incarnation;
        if let Some(old) = old.as_ref().filter(|old| is_repeat(old)) {
            if let Some(until) = expire_time {
                self.refresh(&key, old, until);
            }
            return false;
        }
        // The level begins at the reporter's observation time, unless that is in the future.
        let observed = new.observe_time.filter(|at| *at <= self.now);
        let same_level = old.as_ref().filter(|old| old.report.level == report.level);
        let status = Status {
            since: same_level.map_or(observed.unwrap_or(self.now), |old| old.since),
            observe_time: same_level.map_or(new.observe_time, |old| old.observe_time),
            report,
            update_time: self.now,
            expire_time,
            incarnation,
            stale: false,
            expire_time_written: expire_time,
            swings: Swings::default(),
            held: None,
        };
        self.log_status(&key, old.as_deref(), Some(&status), Cause::Reported);
        self.put_status_over(key, old, Some(Arc::new(status)));
        true
    }

    pub(super) fn remove_all(
        &mut self,
        keys: impl Iterator<Item = Arc<StatusKey>>,
        cause: Cause,
    ) -> u32 {
        let mut removed = 0;
        for key in keys {
            let old = self.status(&key).cloned();
            let flapped = old.as_ref().is_some_and(|old| old.flapping().is_some());
            let cause = match cause {
                Cause::Replaced if flapped => Cause::FlappingEnded,
                cause => cause,
            };
            self.log_status(&key, old.as_deref(), None, cause);
            self.put_status(key, None);
            removed += 1;
        }
        removed
    }

    // === commands on the application as a whole ===

    fn configure(&mut self, patch: &ConfigPatch) -> Result<Effect, Rejected> {
        let config = self.head.config.patched(patch);
        let what = |what: &str| format!("{what} of the application");
        within("latches_max", DAMPENERS_MAX, config.latches.len(), || what("latches"))?;
        let damped = config.damping.scopes.len();
        within("damped_components_max", DAMPENERS_MAX, damped, || what("damped components"))?;
        let changed = config != self.head.config || self.head.deleted && !self.is_changed();
        if changed {
            let old = self.head.leader().cloned();
            let reranks = config.policy != self.head.config.policy
                || config.lost_units != self.head.config.lost_units;
            if config.external_leader.is_some() {
                // Leadership decided outside ends the lease.
                self.revoke_lease();
            }
            let before = std::mem::replace(&mut self.head.config, config);
            self.lead_if_nobody_does();
            let reranks = reranks || old.as_ref() != self.head.leader();
            self.head_changed(reranks);
            let changes = before.changes_to(&self.head.config);
            self.log(StatusEvent { changes, ..self.event(Cause::Configured) });
            self.release(&before);
        }
        Ok(Effect { changed, ..Effect::default() })
    }

    fn set_application_status(
        &mut self,
        claim: &Claim,
        new: &NewApplicationStatus,
    ) -> Result<Effect, Rejected> {
        self.may_lead(claim)?;
        let observed = new.observe_time.filter(|at| *at <= self.now);
        let old = self.head.application_status.as_ref();
        let same_level = old.filter(|old| old.level == new.level);
        let status = ApplicationStatus {
            mode: new.mode,
            level: new.level,
            message: new.message.clone(),
            reason: new.reason.clone(),
            action: new.action.clone(),
            since: same_level.map_or(observed.unwrap_or(self.now), |old| old.since),
            expire_time: new.ttl.map(|ttl| self.now.after(ttl)),
        };
        if old == Some(&status) {
            return Ok(Effect::default());
        }
        let event = StatusEvent {
            subject: Some(Subject::unit(&UnitName::application())),
            from: old.map(|old| old.level),
            to: Some(status.level),
            message: status.message.clone(),
            reason: status.reason.clone(),
            ..self.event(Cause::LeaderSet)
        };
        // A repeat with a new expiry must be stored, but adds no event to the history.
        let is_repeat = old.is_some_and(|old| {
            let expire_time = status.expire_time;
            status == ApplicationStatus { expire_time, ..old.clone() }
        });
        self.head.application_status = Some(status);
        self.head_changed(false);
        if !is_repeat {
            self.log(event);
        }
        Ok(Effect { changed: true, ..Effect::default() })
    }

    fn clear_application_status(&mut self, claim: &Claim) -> Result<Effect, Rejected> {
        self.may_lead(claim)?;
        let Some(old) = self.head.application_status.take() else {
            return Ok(Effect::default());
        };
        self.head_changed(false);
        self.log(StatusEvent {
            subject: Some(Subject::unit(&UnitName::application())),
            from: Some(old.level),
            ..self.event(Cause::LeaderCleared)
        });
        Ok(Effect { changed: true, removed: 1, ..Effect::default() })
    }
}

impl NewStatus {
    pub(super) fn key_of(&self, unit: &UnitName, kind: Kind) -> StatusKey {
        StatusKey {
            unit: unit.clone(),
            component: self.component.clone(),
            key: self.key.clone(),
            kind,
        }
    }
}
