//! Who leads: one lease an application, with an epoch that grows at each change of its holder.
//!
//! A lease ends at a time, compared at every check, or lasts as long as the session of its holder:
//! a leader that is connected renews it without a write. Candidates wait in the order they asked;
//! their numbers stand with their units. Whoever decides `external_leader` decides instead of all
//! this.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::app::{Head, Unit};
use super::apply::Effect;
use super::command::{Claim, Rejected, Speaker};
use super::draft::Draft;
use super::name::UnitName;
use super::session::{Presence, SessionId};
use super::time::Timestamp;
use super::transition::{Cause, Change, StatusEvent, Subject};

/// The lease of an application. Its epoch is the head's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// Who leads.
    pub holder: UnitName,
    /// Its incarnation; 0 if it gave none. A newer one of the same unit has to claim anew.
    pub incarnation: u64,
    /// How long it lasts without a renewal.
    pub duration: Duration,
    /// When it was granted.
    pub acquire_time: Timestamp,
    /// When it ends; `None`: not before the session of its holder does.
    pub ends: Option<Timestamp>,
}

/// How far a history of the store may count before it loses writes: one that has lost some begins
/// above all that may have been told.
const COUNTS_PER_HISTORY: u64 = 1 << 32;

/// The next number of a count that only rises, also where the store has lost the last ones: above
/// what the store says, and above all that was told before it was seen to lose so much. JSON
/// numbers are text, so it may pass 2^53.
pub(super) fn next_count(last: u64, losses: u32, counts_above: u64) -> u64 {
    let told = u64::from(losses) * COUNTS_PER_HISTORY;
    last.max(told).max(counts_above) + 1
}

impl Head {
    /// When the lease ends by itself, if it does.
    pub(super) fn lease_ends(&self) -> Option<Timestamp> {
        self.lease.as_ref()?.ends
    }

    /// Epoch of the lease that counts now: 0 where leadership is decided outside.
    pub fn valid_epoch(&self) -> u64 {
        match self.config.external_leader {
            Some(_) => 0,
            None => self.lease_epoch,
        }
    }
}

impl Draft<'_> {
    /// A unit wants to lead, and exists from then on as after a report. If another unit leads, it
    /// waits: that is written, and refused all the same.
    pub(super) fn claim_leadership(
        &mut self,
        speaker: &Speaker,
        duration: Option<Duration>,
    ) -> Result<Effect, Rejected> {
        self.may_speak(speaker)?;
        self.has_room(&speaker.unit, [], &BTreeSet::new())?;
        if let Some(leader) = &self.head.config.external_leader {
            return Err(Rejected::LeaderIsExternal { leader: leader.clone() });
        }
        let changed = self.hear_unit(speaker);
        let name = &speaker.unit;
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
            // Free, or of an incarnation of its own that is over.
            before => {
                if before.is_some() {
                    self.drop_leaders_status();
                }
                self.grant(name.clone(), duration, Cause::LeaderClaimed);
                Ok(self.led(true))
            }
        }
    }

    /// The leader says that it is still there.
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

    /// The leader steps back; the next that waits leads at once. Of a lease that nobody holds there
    /// is nothing to release.
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

    /// An operator decides who leads. The rest of those who wait goes on waiting.
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

    /// Who speaks wants to lead no longer, whether it does or waits.
    pub(super) fn step_back(&mut self, speaker: &Speaker) -> Result<Effect, Rejected> {
        self.unit_exists(&speaker.unit)?;
        self.may_speak(speaker)?;
        let changed = self.hear_unit(speaker);
        let waits = self.unit(&speaker.unit).is_some_and(|unit| unit.candidate.is_some());
        if waits {
            self.unqueue(&speaker.unit);
        }
        let leads = self.head.lease.as_ref().is_some_and(|lease| lease.holder == speaker.unit);
        if leads {
            self.end_lease(Cause::LeaderReleased);
        }
        Ok(Effect { changed: changed || leads || waits, ..Effect::default() })
    }

    /// A connected leader was not heard for as long as its lease lasts. Nothing happens if it leads
    /// no longer, or under another epoch, or is connected anew.
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

    /// Whether a unit leads now, with this epoch. One whose lease is over has no rights.
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

    /// What time has done to the lease. Comes before everything else that is decided.
    pub(super) fn expire_lease(&mut self) {
        if self.head.lease_ends().is_some_and(|ends| ends <= self.now) {
            self.end_lease(Cause::LeaderExpired);
        }
    }

    /// A unit has begun, or its session: a lease of the same incarnation lasts as long as that.
    pub(super) fn keep_lease(&mut self, name: &UnitName) {
        let Some(lease) = self.head.lease.clone().filter(|lease| lease.holder == *name) else {
            return;
        };
        let incarnation = self.unit(name).map_or(0, |unit| unit.incarnation);
        if lease.incarnation == incarnation {
            self.extend(lease);
        }
    }

    /// A unit is back: if it waits and nobody leads, that is over.
    pub(super) fn welcome_candidate(&mut self, name: &UnitName) {
        if self.unit(name).is_some_and(|unit| unit.candidate.is_some()) {
            self.lead_if_nobody_does();
        }
    }

    /// Nothing stands in the way of who waits any more.
    pub(super) fn lead_if_nobody_does(&mut self) {
        if self.head.lease.is_some() || self.head.config.external_leader.is_some() {
            return;
        }
        if let Some(next) = self.next_in_line() {
            self.grant(next, None, Cause::LeaderClaimed);
        }
    }

    /// Leadership is decided outside from now on.
    pub(super) fn revoke_lease(&mut self) {
        if self.head.lease.is_some() {
            self.drop_leaders_status();
            self.log_leader(None, Cause::LeaderReleased);
            self.head.lease = None;
        }
    }

    /// A unit leaves: it waits no longer, and what it holds passes on. After its removal is
    /// drafted, so that it is not its own successor.
    pub(super) fn leave_lease(&mut self, name: &UnitName) {
        if self.head.lease.as_ref().is_some_and(|lease| lease.holder == *name) {
            self.end_lease(Cause::LeaderReleased);
        }
    }

    /// After a loss the lease may be one whose successor's was lost: its holder goes on under an
    /// epoch that nobody had.
    pub(super) fn doubt_lease(&mut self) {
        if let Some(lease) = self.head.lease.clone() {
            self.grant(lease.holder, Some(lease.duration), Cause::Doubted);
        }
    }

    /// See [`next_count`].
    pub(super) fn next_count(&self, last: u64) -> u64 {
        next_count(last, self.head.losses, self.base.counts_above)
    }

    /// The lease as of now. Says whether that is news: one that lasts as long as a session is not.
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

    /// Nobody leads any more; or who waits, at once.
    fn end_lease(&mut self, cause: Cause) {
        self.drop_leaders_status();
        self.log_leader(None, cause);
        self.head.lease = None;
        self.head_changed(true);
        self.lead_if_nobody_does();
    }

    /// Who has waited longest of those that are there. Looks at each unit.
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
        // Not quietly: every replica shows who waits, and may be the one to grant.
        self.put_unit(name.clone(), Some(unit));
        self.head_changed(false);
    }

    fn unqueue(&mut self, name: &UnitName) {
        let unit = self.unit(name).cloned().unwrap_or_default();
        self.put_unit(name.clone(), Some(Unit { candidate: None, ..unit }));
    }

    /// What a leader said of the whole ends with its epoch, if the application is configured so.
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

    /// A line of history: of the unit that begins to lead, or of the one that ceases to.
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
