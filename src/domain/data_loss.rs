//! Data loss of the store: the last reports of every unit become uncertain until the unit reports
//! again.

use super::app::Head;
use super::derive::{Rule, Summary, override_status};
use super::draft::Draft;
use super::lease::next_count;
use super::name::UnitName;
use super::status::Level;
use super::time::Timestamp;
use super::transition::{Cause, StatusEvent, Subject};

/// Drafts the effects of a data loss. Each unit becomes uncertain, the leader continues under a new
/// epoch, and an open operation must be acquired again, unless a replica already drafted that for
/// this loss count. The leader and the operation are also handled if a former master assigned their
/// epoch or fence. Call this first in a draft: the requests of the draft came after the loss.
pub fn mark_uncertain(draft: &mut Draft<'_>, losses: u32) {
    if draft.head.losses < losses {
        mark_units_uncertain(draft, losses);
        draft.renew_lease_after_loss();
    }
    if draft.head.lease_epoch <= draft.base.epoch_floor {
        draft.renew_lease_after_loss();
    }
    if draft.has_former_fence() {
        draft.reacquire_operations_after_loss();
    }
}

fn mark_units_uncertain(draft: &mut Draft<'_>, losses: u32) {
    draft.head.losses = losses;
    let reacquires_operation = draft.reacquire_operations_after_loss();
    let units: Vec<UnitName> = draft.base.units.keys().cloned().collect();
    if reacquires_operation || !units.is_empty() {
        // Needed even if all units are already uncertain: after their next reports this loss must
        // not mark them again.
        draft.head_changed(false);
    }
    for name in units {
        draft.mark_unit_uncertain(&name);
    }
}

/// Returns the head to show after a loss until [`mark_uncertain`] has marked the units: not active
/// based on outdated records, and not led under an outdated epoch, not even for that moment.
pub fn uncertain_head(mut head: Head, losses: u32, epoch_floor: u64, now: Timestamp) -> Head {
    head.lease_epoch = next_count(head.lease_epoch, losses, epoch_floor);
    if head.summary.totals.units == 0 || override_status(&head).is_some() {
        return head;
    }
    // The totals stay: they count the stored units, and later drafts update them.
    let Summary { level, since, totals, .. } = head.summary;
    let summary = Summary {
        level: Level::Waiting,
        message: "the store may have lost the last reports of its units".into(),
        reason: "Uncertain".into(),
        action: "".into(),
        since: if level == Level::Waiting { since } else { now },
        winner: None,
        rule: Rule::Nothing,
        totals,
        short_message: Box::default(),
    };
    Head { summary, ..head }
}

impl Draft<'_> {
    fn mark_unit_uncertain(&mut self, name: &UnitName) {
        let uncertain = self.unit(name).filter(|unit| unit.uncertain_since.is_none());
        let Some(mut unit) = uncertain.cloned() else {
            return;
        };
        unit.uncertain_since = Some(self.now);
        let freshness = unit.freshness();
        self.put_unit(name.clone(), Some(unit));
        self.log(StatusEvent {
            subject: Some(Subject::unit(name)),
            freshness,
            ..self.event(Cause::Doubted)
        });
    }
}
