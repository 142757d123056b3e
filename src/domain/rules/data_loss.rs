//! Data loss of the store: the last reports of every unit become uncertain until the unit reports
//! again.

use std::sync::Arc;

use crate::domain::draft::Draft;
use crate::domain::level::Level;
use crate::domain::model::app::Head;
use crate::domain::model::contribution::override_status;
use crate::domain::model::leadership::next_count;
use crate::domain::model::name::UnitName;
use crate::domain::model::summary::Summary;
use crate::domain::model::time::Timestamp;
use crate::domain::rules::operation::{has_former_fence, reacquire_operations_after_loss};
use crate::domain::rules::silence::mark_unit_uncertain;
use crate::domain::rules::succession::renew_lease_after_loss;

/// Drafts the effects of a data loss. Each unit becomes uncertain, the leader continues under a new
/// epoch, and an open operation must be acquired again, unless a replica already drafted that for
/// this loss count. The leader and the operation are also handled if a former master assigned their
/// epoch or fence. Call this first in a draft: the requests of the draft came after the loss.
pub fn mark_uncertain(draft: &mut Draft<'_>, losses: u32) {
    if draft.head.losses < losses {
        mark_units_uncertain(draft, losses);
        renew_lease_after_loss(draft);
    }
    if draft.head.lease_epoch <= draft.base.epoch_floor {
        renew_lease_after_loss(draft);
    }
    if has_former_fence(draft) {
        reacquire_operations_after_loss(draft);
    }
}

fn mark_units_uncertain(draft: &mut Draft<'_>, losses: u32) {
    draft.head.set_losses(losses);
    let reacquires_operation = reacquire_operations_after_loss(draft);
    let units: Vec<UnitName> = draft.base.units.keys().cloned().collect();
    if reacquires_operation || !units.is_empty() {
        // Needed even if all units are already uncertain: after their next reports this loss must
        // not mark them again.
        draft.head.mark_visible();
    }
    for name in units {
        mark_unit_uncertain(draft, &name);
    }
}

/// Returns the head to show after a loss until [`mark_uncertain`] has marked the units: not active
/// based on outdated records, and not led under an outdated epoch, not even for that moment.
pub fn uncertain_head(mut head: Head, losses: u32, epoch_floor: u64, now: Timestamp) -> Head {
    head.lease_epoch = next_count(head.lease_epoch, (losses, epoch_floor), head.data.counts_above);
    if head.summary.totals.units == 0 || override_status(&head).is_some() {
        return head;
    }
    // The totals stay: they count the stored units, and later drafts update them.
    let Summary { level, since, ref totals, .. } = *head.summary;
    head.summary = Arc::new(Summary {
        level: Level::Waiting,
        message: "the store may have lost the last reports of its units".into(),
        reason: "Uncertain".into(),
        since: if level == Level::Waiting { since } else { now },
        totals: totals.clone(),
        ..Summary::default()
    });
    head
}
