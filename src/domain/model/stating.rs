//! Which records state their needs: fresh ones that are not well.

use std::sync::Arc;

use crate::domain::model::app::Head;
use crate::domain::model::contribution::{fault_rank, status_rank};
use crate::domain::model::fault::{Fault, FaultKey};
use crate::domain::model::rank::Rank;
use crate::domain::model::status::{Status, StatusKey};
use crate::domain::model::unit::Unit;

/// Returns the rank of a status while it states its needs: it is fresh, and its level is waiting,
/// maintenance, blocked or error.
pub(in crate::domain) fn status_states(
    head: &Head,
    unit: Option<&Unit>,
    key: &Arc<StatusKey>,
    status: &Status,
) -> Option<Rank> {
    let is_fresh = !status.stale
        && unit.is_none_or(|unit| unit.is_believed() && !unit.has_outlived(key, status));
    let states = is_fresh && status.report.level.is_unwell();
    states.then(|| status_rank(head, unit, key, status)).flatten()
}

/// Returns the rank of a fault while it states its needs: it is visible, and its unit is believed.
pub(in crate::domain) fn fault_states(
    head: &Head,
    unit: Option<&Unit>,
    key: &Arc<FaultKey>,
    fault: &Fault,
) -> Option<Rank> {
    let is_fresh = unit.is_none_or(Unit::is_believed);
    is_fresh.then(|| fault_rank(head, unit, key, fault)).flatten()
}
