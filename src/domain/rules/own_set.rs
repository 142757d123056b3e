//! The set of statuses that the leader keeps for the application itself, in a draft.
//!
//! They are stored as pull statuses of the unit `""`, so they rank, list and page as those of a
//! unit. They have no unit that could be silent: one whose ttl passes ends. No latch and no damping
//! applies, as for the status of the application as a whole.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::domain::draft::Draft;
use crate::domain::model::command::NewStatus;
use crate::domain::model::history::Cause;
use crate::domain::model::leadership::Claim;
use crate::domain::model::leadership::refused::OwnSetError;
use crate::domain::model::name::{PartName, UnitName};
use crate::domain::model::request::Outcome;
use crate::domain::model::status::place::PlaceInSet;
use crate::domain::model::status::{KeyParts, Kind, Status, place};
use crate::domain::rules::leadership::{lead_outside, may_lead};
use crate::domain::rules::quota::{check_own_quota, has_bytes_for};
use crate::domain::rules::remove_status::remove_all;
use crate::domain::rules::status::repeat;

/// Replaces the set, or one component of it, on behalf of the leader.
pub fn replace_application_statuses(
    draft: &mut Draft<'_>,
    claim: &Claim,
    component: Option<&PartName>,
    set: &[NewStatus],
) -> Result<Outcome, OwnSetError> {
    may_lead(draft, claim)?;
    let own = UnitName::application();
    let kept: BTreeSet<_> = set.iter().map(|new| (&new.component, &new.key)).collect();
    let mut gone = draft.keys_of(&own, component);
    gone.retain(|key| !kept.contains(&(&key.component, &key.key)));
    let keys = || set.iter().map(|new| new.key_of(&own, Kind::Pull));
    check_own_quota(draft, keys(), &gone)?;
    has_bytes_for(draft, &own, set.iter().map(|new| (Kind::Pull, new)), &gone)?;
    let leads_anew = lead_outside(draft, claim);
    let removed = remove_all(draft, gone, Cause::LeaderCleared);
    let place_of =
        |key: KeyParts<'_>| draft.status(&key).map_or(PlaceInSet::NONE, |status| status.place);
    let known: Vec<PlaceInSet> = keys().map(place_of).collect();
    let mut changed = leads_anew || 0 < removed;
    for (new, place) in set.iter().zip(place::assign(&known, component.is_some())) {
        changed |= set_one(draft, new.key_of(&own, Kind::Pull), new, place);
    }
    Ok(Outcome { changed, removed, ..Outcome::default() })
}

/// Sets one status. A repeat moves only its end. Returns whether a visible value changed.
fn set_one(draft: &mut Draft<'_>, key: KeyParts<'_>, new: &NewStatus, place: PlaceInSet) -> bool {
    let (key, old) = draft.find(key);
    let mut expire_time = new.report.ttl.map(|ttl| draft.now.after(ttl));
    if let Some(old) = old.as_ref().filter(|old| old.report == new.report) {
        if old.place == place {
            repeat(draft, &key, old);
            return false;
        }
        // A repeat never moves the end back.
        expire_time = expire_time.max(old.expire_time).max(draft.contacts.deadline(&key));
    }
    let status = Status::reported(old.as_deref(), new.report.clone(), new.observe_time, draft.now);
    let status = Status { expire_time, expire_time_written: expire_time, place, ..status };
    draft.log_status(&key, old.as_deref(), Some(&status), Cause::LeaderSet);
    draft.put_status_over(key, old, Some(Arc::new(status)));
    true
}
