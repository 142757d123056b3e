//! Which records state their needs: fresh ones that are not well.

use std::sync::Arc;

use crate::domain::model::contribution::{Ranking, fault_rank, status_rank};
use crate::domain::model::fault::{Fault, FaultKey};
use crate::domain::model::rank::Rank;
use crate::domain::model::stated::index::Needy;
use crate::domain::model::status::{Status, StatusKey};
use crate::domain::model::unit::Unit;

/// Returns the rank of a status while it states its needs: it is fresh, and its level is waiting,
/// maintenance, blocked or error.
fn status_states(
    ranking: Ranking<'_>,
    unit: Option<&Unit>,
    key: &Arc<StatusKey>,
    status: &Status,
) -> Option<Rank> {
    let is_fresh = !status.stale
        && unit.is_none_or(|unit| unit.is_believed() && !unit.has_outlived(key, status));
    let states = is_fresh && status.report.level.is_unwell();
    states.then(|| status_rank(ranking, unit, key, status)).flatten()
}

/// Returns the rank of a fault while it states its needs: it is visible, and its unit is believed.
fn fault_states(
    ranking: Ranking<'_>,
    unit: Option<&Unit>,
    key: &Arc<FaultKey>,
    fault: &Fault,
) -> Option<Rank> {
    let is_fresh = unit.is_none_or(Unit::is_believed);
    is_fresh.then(|| fault_rank(ranking, unit, key, fault)).flatten()
}

impl Needy {
    /// Returns a status as a record with needs, if it has any.
    pub(in crate::domain) fn status(
        ranking: Ranking<'_>,
        unit: Option<&Unit>,
        key: &Arc<StatusKey>,
        status: &Status,
    ) -> Option<Needy> {
        let needs = status.report.needs();
        let needy =
            || Needy { needs: needs.clone(), rank: status_states(ranking, unit, key, status) };
        (!needs.is_empty()).then(needy)
    }

    /// Returns a fault as a record with needs, if it has any.
    pub(in crate::domain) fn fault(
        ranking: Ranking<'_>,
        unit: Option<&Unit>,
        key: &Arc<FaultKey>,
        fault: &Fault,
    ) -> Option<Needy> {
        let needs = &fault.needs;
        let needy =
            || Needy { needs: needs.clone(), rank: fault_states(ranking, unit, key, fault) };
        (!needs.is_empty()).then(needy)
    }
}
