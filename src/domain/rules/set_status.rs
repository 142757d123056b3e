//! The status that the leader sets for the application, in a draft.

use crate::domain::draft::Draft;
use crate::domain::model::history::{Cause, StatusEvent};
use crate::domain::model::leadership::Claim;
use crate::domain::model::leadership::refused::NotLeader;
use crate::domain::model::leadership::status::{ApplicationStatus, NewApplicationStatus};
use crate::domain::model::name::UnitName;
use crate::domain::model::request::Outcome;
use crate::domain::rules::leadership::{lead_outside, may_lead};
use crate::domain::rules::succession::withdraw;

/// Sets the status, on behalf of the leader.
pub fn set_application_status(
    draft: &mut Draft<'_>,
    claim: &Claim,
    new: &NewApplicationStatus,
) -> Result<Outcome, NotLeader> {
    may_lead(draft, claim)?;
    let leads_anew = lead_outside(draft, claim);
    let observed = new.observe_time.filter(|at| *at <= draft.now);
    let old = draft.head.application_status.as_ref();
    let same_level = old.filter(|old| old.level == new.level);
    let status = ApplicationStatus {
        mode: new.mode,
        level: new.level,
        message: new.message.clone(),
        reason: new.reason.clone(),
        action: new.action.clone(),
        since: same_level.map_or(observed.unwrap_or(draft.now), |old| old.since),
        expire_time: new.ttl.map(|ttl| draft.now.after(ttl)),
    };
    if old == Some(&status) {
        return Ok(Outcome { changed: leads_anew, ..Outcome::default() });
    }
    let event = StatusEvent {
        from: old.map(|old| old.level),
        to: Some(status.level),
        message: status.message.clone(),
        reason: status.reason.clone(),
        ..draft.event(Cause::LeaderSet).of_unit(&UnitName::application())
    };
    // A repeat with a new expiry must be stored, but adds no event to the history.
    let is_repeat = old.is_some_and(|old| {
        let expire_time = status.expire_time;
        status == ApplicationStatus { expire_time, ..old.clone() }
    });
    draft.head.set_application_status(status);
    if !is_repeat {
        draft.log(event);
    }
    Ok(Outcome { changed: true, ..Outcome::default() })
}

/// Withdraws the status, on behalf of the leader.
pub fn clear_application_status(
    draft: &mut Draft<'_>,
    claim: &Claim,
) -> Result<Outcome, NotLeader> {
    may_lead(draft, claim)?;
    let leads_anew = lead_outside(draft, claim);
    let is_withdrawn = withdraw(draft, Cause::LeaderCleared);
    let (changed, removed) = (leads_anew || is_withdrawn, u32::from(is_withdrawn));
    Ok(Outcome { changed, removed, ..Outcome::default() })
}

/// Withdraws the status once its time has passed.
pub fn expire_application_status(draft: &mut Draft<'_>) {
    let ends = draft.head.application_status.as_ref().and_then(|status| status.expire_time);
    if ends.is_some_and(|at| at <= draft.now) {
        withdraw(draft, Cause::Expired);
    }
}
