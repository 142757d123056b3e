//! Leadership that is decided outside, claimed together with a write, in a draft.

use crate::domain::draft::Draft;
use crate::domain::leadership::Claim;
use crate::domain::policy::Config;
use crate::domain::policy::apply::set_config;

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
