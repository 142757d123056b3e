//! What a store that may have lost writes changes: what was said last is doubted, until it is said
//! again.

use super::app::Head;
use super::derive::{Rule, Summary, override_status};
use super::draft::Draft;
use super::lease::next_count;
use super::name::UnitName;
use super::status::Level;
use super::time::Timestamp;
use super::transition::{Cause, StatusEvent, Subject};

/// Drafts that each unit there is becomes uncertain, unless that was done for this loss, here or
/// elsewhere. A leader keeps leading under a new epoch, and an operation must be acquired again, if
/// their epoch or fence is one that a former master gave. Comes first in a draft: the requests of
/// the draft came after the loss.
pub fn doubt(draft: &mut Draft<'_>, losses: u32) {
    if draft.head.losses < losses {
        doubt_units(draft, losses);
        draft.doubt_lease();
    }
    if draft.head.lease_epoch <= draft.base.counts_above {
        draft.doubt_lease();
    }
    if draft.has_former_fence() {
        draft.doubt_operations();
    }
}

fn doubt_units(draft: &mut Draft<'_>, losses: u32) {
    draft.head.losses = losses;
    let doubts_operation = draft.doubt_operations();
    let units: Vec<UnitName> = draft.base.units.keys().cloned().collect();
    if doubts_operation || !units.is_empty() {
        // Also if all of them are uncertain already: once they speak this must not come again.
        draft.head_changed(false);
    }
    for name in units {
        draft.doubt_unit(&name);
    }
}

/// A head that a loss brought back, as it is shown until [`doubt`] has come to its units: not
/// active on what may be wrong, nor led under an epoch that has passed, not even for that moment.
pub fn doubted_head(mut head: Head, losses: u32, counts_above: u64, now: Timestamp) -> Head {
    head.lease_epoch = next_count(head.lease_epoch, losses, counts_above);
    if head.summary.totals.units == 0 || override_status(&head).is_some() {
        return head;
    }
    // The counts stay: they are of the units as they are stored, and go on from there.
    let Summary { level, since, totals, .. } = head.summary;
    let summary = Summary {
        level: Level::Waiting,
        message: "the store may have lost what its units said last".into(),
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
    fn doubt_unit(&mut self, name: &UnitName) {
        let doubted = self.unit(name).filter(|unit| unit.uncertain_since.is_none());
        let Some(mut unit) = doubted.cloned() else {
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
