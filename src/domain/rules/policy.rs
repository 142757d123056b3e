//! Changes of the configuration in a draft.

use crate::domain::draft::Draft;
use crate::domain::model::history::{Cause, StatusEvent};
use crate::domain::model::limits::{DAMPENERS_MAX, LimitExceeded};
use crate::domain::model::policy::{Config, ConfigPatch};
use crate::domain::model::request::Outcome;
use crate::domain::rules::damping::release;
use crate::domain::rules::quota::within;
use crate::domain::rules::succession::{lead_if_nobody_does, revoke_lease};

/// Changes the configuration. An application that does not exist begins.
pub fn configure(draft: &mut Draft<'_>, patch: &ConfigPatch) -> Result<Outcome, LimitExceeded> {
    let config = draft.head.config.patched(patch);
    let latched = config.latches.len();
    within("latches_max", DAMPENERS_MAX, latched, "latches of the application")?;
    let (damped, what) = (config.damping.scopes.len(), "damped components of the application");
    within("damped_components_max", DAMPENERS_MAX, damped, what)?;
    let changed = config != *draft.head.config || draft.head.deleted && !draft.head.is_visible();
    if changed {
        set_config(draft, config);
    }
    Ok(Outcome { changed, ..Outcome::default() })
}

/// Puts another configuration in force.
pub fn set_config(draft: &mut Draft<'_>, config: Config) {
    if config.external_leader.is_some() {
        // Leadership decided outside ends the lease.
        revoke_lease(draft);
    }
    let before = draft.head.set_config(config);
    lead_if_nobody_does(draft);
    let changes = before.changes_to(&draft.head.config);
    draft.log(StatusEvent { changes, ..draft.event(Cause::Configured) });
    release(draft, &before);
}
