//! Commands on leadership in a draft: claimed, renewed, released, transferred.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::domain::draft::Draft;
use crate::domain::model::history::Cause;
use crate::domain::model::leadership::refused::{
    ClaimError, LeaderIsExternal, LeaseError, LeaseHeld, NotLeader, TransferError, UnitNotThere,
};
use crate::domain::model::leadership::{Claim, Lease};
use crate::domain::model::name::UnitName;
use crate::domain::model::policy::Config;
use crate::domain::model::request::Outcome;
use crate::domain::model::unit::Reporter;
use crate::domain::model::unit::presence::SessionId;
use crate::domain::model::unit::refused::ReporterError;
use crate::domain::rules::contact::{admit, check_known_reporter, note_contact};
use crate::domain::rules::lookup::{exists, unit_exists};
use crate::domain::rules::policy::set_config;
use crate::domain::rules::quota::check_quota;
use crate::domain::rules::succession::{
    drop_leaders_status, end_lease, extend, grant, is_over, queue, unqueue,
};

/// Handles a claim for leadership; it creates the unit as a report does. If another unit leads,
/// the claim is rejected, but the waiting position is written.
pub fn claim_leadership(
    draft: &mut Draft<'_>,
    reporter: &Reporter,
    duration: Option<Duration>,
) -> Result<Outcome, ClaimError> {
    admit(draft, reporter)?;
    check_quota(draft, &reporter.unit, [], &BTreeSet::new())?;
    if let Some(leader) = &draft.head.config.external_leader {
        return Err(LeaderIsExternal { leader: leader.clone() }.into());
    }
    let changed = note_contact(draft, reporter);
    let name = &reporter.unit;
    let incarnation = draft.unit(name).map_or(0, |unit| unit.incarnation);
    let held = draft.head.lease.clone();
    match held {
        Some(lease) if lease.holder == *name && lease.incarnation == incarnation => {
            let duration = duration.unwrap_or(lease.duration);
            let changed = extend(draft, Lease { duration, ..lease }) || changed;
            Ok(led(draft, changed))
        }
        Some(lease) if lease.holder != *name => {
            queue(draft, name);
            let (ends, leader) = (draft.deadlines().of_lease(&lease), lease.holder);
            Err(LeaseHeld { leader, lease_epoch: draft.head.lease_epoch, ends }.into())
        }
        // The lease is free, or belongs to an earlier incarnation of the unit.
        before => {
            if before.is_some() {
                drop_leaders_status(draft);
            }
            grant(draft, name.clone(), duration, Cause::LeaderClaimed);
            Ok(led(draft, true))
        }
    }
}

/// Renews the lease of the leader.
pub fn renew_leadership(draft: &mut Draft<'_>, claim: &Claim) -> Result<Outcome, LeaseError> {
    exists(draft)?;
    may_lead(draft, claim)?;
    let Some(lease) = draft.head.lease.clone() else { return Ok(Outcome::default()) };
    let changed = extend(draft, lease);
    Ok(led(draft, changed))
}

fn led(draft: &Draft<'_>, changed: bool) -> Outcome {
    Outcome { changed, lease_epoch: draft.head.lease_epoch, ..Outcome::default() }
}

/// Releases the lease; the next waiting unit leads immediately. Without a lease there is no
/// change.
pub fn release_leadership(draft: &mut Draft<'_>, claim: &Claim) -> Result<Outcome, LeaseError> {
    exists(draft)?;
    let is_leased = draft.head.lease.is_some();
    if is_leased || draft.head.config.external_leader.is_some() {
        may_lead(draft, claim)?;
    }
    if is_leased {
        end_lease(draft, Cause::LeaderReleased);
    }
    Ok(Outcome { changed: is_leased, ..Outcome::default() })
}

/// Makes a unit the leader on behalf of an operator. The other candidates keep waiting.
pub fn transfer_leadership(draft: &mut Draft<'_>, to: &UnitName) -> Result<Outcome, TransferError> {
    unit_exists(draft, to)?;
    if let Some(leader) = &draft.head.config.external_leader {
        return Err(LeaderIsExternal { leader: leader.clone() }.into());
    }
    let unit = draft.unit(to).cloned().unwrap_or_default();
    if unit.lost_since.is_some() || unit.has_departed() {
        return Err(UnitNotThere { unit: to.clone() }.into());
    }
    let lease = draft.head.lease.as_ref();
    if lease.is_some_and(|l| l.holder == *to && l.incarnation == unit.incarnation) {
        return Ok(led(draft, false));
    }
    drop_leaders_status(draft);
    grant(draft, to.clone(), None, Cause::LeaderTransferred);
    Ok(led(draft, true))
}

/// Withdraws a unit from leadership, whether it leads or waits.
pub fn step_back(draft: &mut Draft<'_>, reporter: &Reporter) -> Result<Outcome, ReporterError> {
    check_known_reporter(draft, reporter)?;
    let changed = note_contact(draft, reporter);
    let waited = unqueue(draft, &reporter.unit);
    let leads = draft.head.lease.as_ref().is_some_and(|lease| lease.holder == reporter.unit);
    if leads {
        end_lease(draft, Cause::LeaderReleased);
    }
    Ok(Outcome { changed: changed || leads || waited, ..Outcome::default() })
}

/// Ends the lease of a connected leader that was silent for the length of its lease. No effect
/// if the unit does not lead, or leads under another epoch, or has opened another session.
pub fn lapse_leadership(draft: &mut Draft<'_>, claim: &Claim, session: SessionId) -> Outcome {
    let leads = draft.head.lease.as_ref().is_some_and(|lease| lease.holder == claim.unit);
    let is_here = draft.unit(&claim.unit).is_some_and(|unit| match unit.session() {
        Some(held) => held == session,
        None => unit.session_ended,
    });
    if !leads || !is_here || draft.head.lease_epoch != claim.lease_epoch {
        return Outcome::default();
    }
    end_lease(draft, Cause::LeaderExpired);
    Outcome { changed: true, ..Outcome::default() }
}

/// Checks that a unit leads now, with this epoch, or is about to by a decision outside. An expired
/// lease gives no rights.
pub fn may_lead(draft: &mut Draft<'_>, claim: &Claim) -> Result<(), NotLeader> {
    let leads = match (&draft.head.config.external_leader, &draft.head.lease) {
        _ if claim.decided_outside => true,
        (Some(unit), _) => *unit == claim.unit && claim.lease_epoch == 0,
        (None, Some(lease)) => {
            lease.holder == claim.unit
                && claim.lease_epoch == draft.head.lease_epoch
                && !is_over(draft, lease)
        }
        (None, None) => false,
    };
    if leads {
        return Ok(());
    }
    Err(NotLeader {
        unit: claim.unit.clone(),
        leader: draft.head.leader().cloned(),
        lease_epoch: draft.head.valid_epoch(),
    })
}

/// Makes the sender the external leader if its claim says so. Called after every check of the
/// write, so that a refused write leaves no leader behind. Returns whether that is a change.
pub fn lead_outside(draft: &mut Draft<'_>, claim: &Claim) -> bool {
    let leads = draft.head.config.external_leader.as_ref() == Some(&claim.unit);
    if !claim.decided_outside || leads {
        return false;
    }
    let external_leader = Some(claim.unit.clone());
    set_config(draft, Config { external_leader, ..(*draft.head.config).clone() });
    true
}
