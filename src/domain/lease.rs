//! Leadership: one lease for each application, with an epoch that grows at each change of its
//! holder.
//!
//! A lease ends at a time that every check compares, or lasts as long as the session of its holder:
//! a connected leader renews it without a write. Candidates wait in the order of their requests;
//! their numbers are part of their unit records. A configured `external_leader` replaces all of
//! this.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::app::{Head, Unit};
use super::apply::Effect;
use super::command::{Claim, Rejected, Reporter};
use super::draft::Draft;
use super::name::UnitName;
use super::session::{Presence, SessionId};
use super::time::Timestamp;
use super::transition::{Cause, Change, StatusEvent, Subject};

/// The lease of an application. Its epoch is in the head.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// The leading unit.
    pub holder: UnitName,
    /// Incarnation of the leader; 0 if not given. A newer incarnation of the same unit must claim
    /// again.
    pub incarnation: u64,
    /// How long the lease lasts without a renewal.
    pub duration: Duration,
    /// When it was granted.
    pub acquire_time: Timestamp,
    /// When it ends; `None`: it lasts as long as the session of its holder.
    pub ends: Option<Timestamp>,
}

/// Range of a count between two data losses of the store: each loss raises the minimum by this
/// much, above every value that clients may have received.
const COUNTS_PER_HISTORY: u64 = 1 << 32;

/// Returns the next value of a count that must only rise, even if the store has lost the last ones:
/// it is above the stored value, above all values that clients received before the loss, and above
/// the epoch floor. It may exceed 2^53: JSON carries it as text.
pub(super) fn next_count(last: u64, losses: u32, epoch_floor: u64) -> u64 {
    let told = u64::from(losses) * COUNTS_PER_HISTORY;
    last.max(told).max(epoch_floor) + 1
}

impl Head {
    /// Returns the end of the lease, if it has one.
    pub(super) fn lease_ends(&self) -> Option<Timestamp> {
        self.lease.as_ref()?.ends
    }

    /// Returns the epoch of the current lease: 0 if leadership is decided outside.
    pub fn valid_epoch(&self) -> u64 {
        match self.config.external_leader {
            Some(_) => 0,
            None => self.lease_epoch,
        }
    }
}

impl Draft<'_> {
    /// Handles a claim for leadership; it creates the unit as a report does. If another unit leads,
    /// the claim is rejected, but the waiting position is written.
    pub(super) fn claim_leadership(
        &mut self,
        reporter: &Reporter,
        duration: Option<Duration>,
    ) -> Result<Effect, Rejected> {
        self.check_reporter(reporter)?;
        self.check_quota(&reporter.unit, [], &BTreeSet::new())?;
        if let Some(leader) = &self.head.config.external_leader {
            return Err(Rejected::LeaderIsExternal { leader: leader.clone() });
        }
        let changed = self.note_contact(reporter);
        let name = &reporter.unit;
        let incarnation = self.unit(name).map_or(0, |unit| unit.incarnation);
        let held = self.head.lease.clone();
        match held {
            Some(lease) if lease.holder == *name && lease.incarnation == incarnation => {
                let duration = duration.unwrap_or(lease.duration);
                let changed = self.extend(Lease { duration, ..lease }) || changed;
                Ok(self.led(changed))
            }
            Some(lease) if lease.holder != *name => {
                self.queue(name);
                let (leader, ends) = (lease.holder, lease.ends);
                Err(Rejected::LeaseHeld { leader, lease_epoch: self.head.lease_epoch, ends })
            }
            // The lease is free, or belongs to an earlier incarnation of the unit.
            before => {
                if before.is_some() {
                    self.drop_leaders_status();
                }
                self.grant(name.clone(), duration, Cause::LeaderClaimed);
                Ok(self.led(true))
            }
        }
    }

    /// Renews the lease of the leader.
    pub(super) fn renew_leadership(&mut self, claim: &Claim) -> Result<Effect, Rejected> {
        self.exists()?;
        self.may_lead(claim)?;
        let Some(lease) = self.head.lease.clone() else {
            return Ok(Effect::default());
        };
        let changed = self.extend(lease);
        Ok(self.led(changed))
    }

    fn led(&self, changed: bool) -> Effect {
        Effect { changed, lease_epoch: self.head.lease_epoch, ..Effect::default() }
    }

    /// Releases the lease; the next waiting unit leads immediately. Without a lease there is no
    /// change.
    pub(super) fn release_leadership(&mut self, claim: &Claim) -> Result<Effect, Rejected> {
        self.exists()?;
        if self.head.lease.is_none() && self.head.config.external_leader.is_none() {
            return Ok(Effect::default());
        }
        self.may_lead(claim)?;
        if self.head.lease.is_none() {
            return Ok(Effect::default());
        }
        self.end_lease(Cause::LeaderReleased);
        Ok(Effect { changed: true, ..Effect::default() })
    }

    /// Makes a unit the leader on behalf of an operator. The other candidates keep waiting.
    pub(super) fn transfer_leadership(&mut self, to: &UnitName) -> Result<Effect, Rejected> {
        self.unit_exists(to)?;
        if let Some(leader) = &self.head.config.external_leader {
            return Err(Rejected::LeaderIsExternal { leader: leader.clone() });
        }
        let unit = self.unit(to).cloned().unwrap_or_default();
        if unit.lost_since.is_some() || unit.departed {
            return Err(Rejected::UnitNotThere { unit: to.clone() });
        }
        let lease = self.head.lease.as_ref();
        if lease.is_some_and(|l| l.holder == *to && l.incarnation == unit.incarnation) {
            return Ok(self.led(false));
        }
        self.drop_leaders_status();
        self.grant(to.clone(), None, Cause::LeaderTransferred);
        Ok(self.led(true))
    }

    /// Withdraws a unit from leadership, whether it leads or waits.
    pub(super) fn step_back(&mut self, reporter: &Reporter) -> Result<Effect, Rejected> {
        self.unit_exists(&reporter.unit)?;
        self.check_reporter(reporter)?;
        let changed = self.note_contact(reporter);
        let waits = self.unit(&reporter.unit).is_some_and(|unit| unit.candidate.is_some());
        if waits {
            self.unqueue(&reporter.unit);
        }
        let leads = self.head.lease.as_ref().is_some_and(|lease| lease.holder == reporter.unit);
        if leads {
            self.end_lease(Cause::LeaderReleased);
        }
        Ok(Effect { changed: changed || leads || waits, ..Effect::default() })
    }

    /// Ends the lease of a connected leader that was silent for the length of its lease. No effect
    /// if the unit does not lead, or leads under another epoch, or has opened another session.
    pub(super) fn lapse_leadership(&mut self, claim: &Claim, session: SessionId) -> Effect {
        let leads = self.head.lease.as_ref().is_some_and(|lease| lease.holder == claim.unit);
        let is_here = self.unit(&claim.unit).is_some_and(|unit| match unit.session() {
            Some(held) => held == session,
            None => unit.session_ended,
        });
        if !leads || !is_here || self.head.lease_epoch != claim.lease_epoch {
            return Effect::default();
        }
        self.end_lease(Cause::LeaderExpired);
        Effect { changed: true, ..Effect::default() }
    }

    /// Checks that a unit leads now, with this epoch. An expired lease gives no rights.
    pub(super) fn may_lead(&mut self, claim: &Claim) -> Result<(), Rejected> {
        let leads = match (&self.head.config.external_leader, &self.head.lease) {
            (Some(unit), _) => *unit == claim.unit && claim.lease_epoch == 0,
            (None, Some(lease)) => {
                let is_over = lease.ends.is_some_and(|ends| ends <= self.now);
                lease.holder == claim.unit && claim.lease_epoch == self.head.lease_epoch && !is_over
            }
            (None, None) => false,
        };
        if leads {
            return Ok(());
        }
        Err(Rejected::NotLeader {
            unit: claim.unit.clone(),
            leader: self.head.leader().cloned(),
            lease_epoch: self.head.valid_epoch(),
        })
    }

    /// Ends an expired lease. Must precede every other decision.
    pub(super) fn expire_lease(&mut self) {
        if self.head.lease_ends().is_some_and(|ends| ends <= self.now) {
            self.end_lease(Cause::LeaderExpired);
        }
    }

    /// Extends the lease after a begin or a session change of its holder: for the same incarnation
    /// it lasts as long as the session.
    pub(super) fn keep_lease(&mut self, name: &UnitName) {
        let Some(lease) = self.head.lease.clone().filter(|lease| lease.holder == *name) else {
            return;
        };
        let incarnation = self.unit(name).map_or(0, |unit| unit.incarnation);
        if lease.incarnation == incarnation {
            self.extend(lease);
        }
    }

    /// Grants a free lease to the next candidate once a waiting unit returns.
    pub(super) fn welcome_candidate(&mut self, name: &UnitName) {
        if self.unit(name).is_some_and(|unit| unit.candidate.is_some()) {
            self.lead_if_nobody_does();
        }
    }

    /// Grants the lease to the next candidate if there is no leader.
    pub(super) fn lead_if_nobody_does(&mut self) {
        if self.head.lease.is_some() || self.head.config.external_leader.is_some() {
            return;
        }
        if let Some(next) = self.next_in_line() {
            self.grant(next, None, Cause::LeaderClaimed);
        }
    }

    /// Ends the lease because leadership is decided outside from now on.
    pub(super) fn revoke_lease(&mut self) {
        if self.head.lease.is_some() {
            self.drop_leaders_status();
            self.log_leader(None, Cause::LeaderReleased);
            self.head.lease = None;
        }
    }

    /// Ends the lease of a leaving unit. Call it after the removal is drafted, so that the unit is
    /// not its own successor.
    pub(super) fn leave_lease(&mut self, name: &UnitName) {
        if self.head.lease.as_ref().is_some_and(|lease| lease.holder == *name) {
            self.end_lease(Cause::LeaderReleased);
        }
    }

    /// Moves a lease to a new epoch after a data loss: the store may have lost a later grant, so
    /// the old epoch may not be unique.
    pub(super) fn renew_lease_after_loss(&mut self) {
        if let Some(lease) = self.head.lease.clone() {
            self.grant(lease.holder, Some(lease.duration), Cause::Doubted);
        }
    }

    /// Returns the next value of a count; see the function `next_count`.
    pub(super) fn next_count(&self, last: u64) -> u64 {
        next_count(last, self.head.losses, self.base.epoch_floor)
    }

    /// Extends the lease. Returns whether that is a visible change: a lease that lasts as long as a
    /// session does not change.
    fn extend(&mut self, lease: Lease) -> bool {
        let ends = self.ends_of(&lease.holder, lease.duration);
        let extended = Lease { ends, ..lease };
        if self.head.lease.as_ref() == Some(&extended) {
            return false;
        }
        self.head.lease = Some(extended);
        self.head_changed(false);
        true
    }

    fn ends_of(&self, holder: &UnitName, duration: Duration) -> Option<Timestamp> {
        let presence = self.unit(holder).map(|unit| unit.presence);
        match presence {
            Some(Presence::Connected(_)) => None,
            _ => Some(self.now.after(duration)),
        }
    }

    fn grant(&mut self, name: UnitName, duration: Option<Duration>, cause: Cause) {
        let duration = duration.unwrap_or(self.head.config.lease_duration);
        let incarnation = self.unit(&name).map_or(0, |unit| unit.incarnation);
        let ends = self.ends_of(&name, duration);
        let before = self.head.leader().cloned();
        if self.unit(&name).is_some_and(|unit| unit.candidate.is_some()) {
            self.unqueue(&name);
        }
        self.head.lease_epoch = self.next_count(self.head.lease_epoch);
        self.log_leader(Some(&name), cause);
        let acquire_time = self.now;
        self.head.lease = Some(Lease { holder: name, incarnation, duration, acquire_time, ends });
        self.head_changed(before.as_ref() != self.head.leader());
    }

    /// Ends the lease; the next waiting unit leads immediately.
    fn end_lease(&mut self, cause: Cause) {
        self.drop_leaders_status();
        self.log_leader(None, cause);
        self.head.lease = None;
        self.head_changed(true);
        self.lead_if_nobody_does();
    }

    /// Returns the present candidate that has waited longest. Visits each unit.
    fn next_in_line(&self) -> Option<UnitName> {
        let now = self.now;
        let is_there = |unit: &Unit| {
            unit.candidate.is_some()
                && unit.lost_since.or(unit.quiet_since).is_none()
                && unit.silence_deadline().is_none_or(|at| now < at)
                && !unit.departed
        };
        let next = self.units_where(is_there).min_by_key(|(_, unit)| unit.candidate);
        next.map(|(name, _)| name.clone())
    }

    fn queue(&mut self, name: &UnitName) {
        let mut unit = self.unit(name).cloned().unwrap_or_default();
        if unit.candidate.is_some() {
            return;
        }
        unit.candidate = Some(self.head.next_candidate);
        self.head.next_candidate += 1;
        // Not a quiet commit: every replica shows the candidates, and any of them may grant the
        // lease.
        self.put_unit(name.clone(), Some(unit));
        self.head_changed(false);
    }

    fn unqueue(&mut self, name: &UnitName) {
        let unit = self.unit(name).cloned().unwrap_or_default();
        self.put_unit(name.clone(), Some(Unit { candidate: None, ..unit }));
    }

    /// Drops the leader's status of the application with the epoch, if so configured.
    fn drop_leaders_status(&mut self) {
        if !self.head.config.drop_leader_status {
            return;
        }
        if let Some(old) = self.head.application_status.take() {
            self.head_changed(false);
            self.log(StatusEvent {
                subject: Some(Subject::unit(&UnitName::application())),
                from: Some(old.level),
                ..self.event(Cause::LeaderEnded)
            });
        }
    }

    /// Adds an event: for the unit that begins to lead, or for the one that stops.
    fn log_leader(&mut self, granted: Option<&UnitName>, cause: Cause) {
        let holder = self.head.lease.as_ref().map(|lease| lease.holder.clone());
        let Some(unit) = granted.or(holder.as_ref()).cloned() else {
            return;
        };
        let name = |unit: Option<&UnitName>| unit.map_or("", UnitName::as_str).to_string();
        let mut changes = vec![Change::new("leader", &name(holder.as_ref()), &name(granted))];
        if granted.is_some() {
            changes.push(Change::new("lease_epoch", "", &self.head.lease_epoch.to_string()));
        }
        let message = match granted {
            Some(unit) => format!("{unit} leads, with lease epoch {}", self.head.lease_epoch),
            None => format!("{unit} leads no longer"),
        };
        self.log(StatusEvent {
            subject: Some(Subject::unit(&unit)),
            message: message.into(),
            changes,
            ..self.event(cause)
        });
    }
}
