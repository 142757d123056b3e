//! Limits: a draft counts new records together with the existing ones that stay.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::sync::Arc;

use crate::domain::draft::Draft;
use crate::domain::model::command::NewStatus;
use crate::domain::model::limits::{LimitExceeded, OWN_STATUSES_MAX, UNIT_OPERATIONS_OPEN_MAX};
use crate::domain::model::name::{PartName, UnitName};
use crate::domain::model::operation::command::{OperationAction, OperationCommand};
use crate::domain::model::status::{KeyParts, Kind, StatusKey, size_of};
use crate::domain::model::usage::Usage;

/// The counts that are limited over all applications, some of them over those of a namespace too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::domain) enum Total {
    Units,
    Statuses,
    Faults,
    Operations,
    Marks,
    DataBytes,
    RecordBytes,
}

impl Total {
    /// Returns the name of the limit on a namespace, if there is one.
    fn limit_of_namespace(self) -> Option<&'static str> {
        match self {
            Total::Units => Some("units_per_namespace_max"),
            Total::Statuses => Some("statuses_per_namespace_max"),
            Total::DataBytes => Some("data_bytes_per_namespace_max"),
            Total::Faults | Total::Operations | Total::Marks | Total::RecordBytes => None,
        }
    }

    /// Returns the name of the limit, the name of the counted items, and the accessor of the count.
    fn words(self) -> (&'static str, &'static str, fn(&Usage) -> u64) {
        match self {
            Total::Units => ("units_total_max", "units", |u| u.units),
            Total::Statuses => ("statuses_total_max", "statuses", |u| u.statuses),
            Total::Faults => ("faults_total_max", "open faults", |u| u.faults),
            Total::Marks => ("marks_total_max", "marks", |u| u.marks),
            Total::Operations => ("operations_total_max", "operations", |u| u.operations),
            Total::DataBytes => ("data_bytes_total_max", "bytes of data", |u| u.data_bytes),
            Total::RecordBytes => {
                ("record_bytes_total_max", "bytes of texts and payloads", |u| u.record_bytes)
            }
        }
    }
}

/// Rejects a count over its limit.
pub(in crate::domain) fn within(
    limit: &'static str,
    max: usize,
    count: usize,
    what: impl Display,
) -> Result<(), LimitExceeded> {
    match count <= max {
        true => Ok(()),
        false => Err(LimitExceeded { limit, what: what.to_string(), max }),
    }
}

/// Checks the limits for statuses of a unit, together with the existing ones that stay. Counts
/// only keys that would be new.
pub(in crate::domain) fn check_quota<'k>(
    draft: &Draft<'_>,
    unit: &UnitName,
    keys: impl IntoIterator<Item = KeyParts<'k>>,
    leaving: &BTreeSet<Arc<StatusKey>>,
) -> Result<(), LimitExceeded> {
    let known = draft.unit(unit);
    if known.is_none() {
        check_unit_quota(draft)?;
    }
    let new = keys.into_iter().filter(|key| draft.status(key).is_none());
    let added: BTreeSet<StatusKey> = new.map(|key| key.with_name(unit)).collect();
    if added.is_empty() {
        return Ok(());
    }
    let all = draft.usage.counts().statuses + added.len() as u64;
    check_total(draft, Total::Statuses, all.saturating_sub(leaving.len() as u64))?;
    let kept = known.map_or(0, |u| u.status_count as usize) - leaving.len();
    let what = format_args!("statuses of unit {unit}");
    let max = draft.limits.statuses_per_unit_max;
    within("statuses_per_unit_max", max, kept + added.len(), what)?;
    if kept + added.len() <= draft.limits.keys_per_component_max {
        // A component cannot have more keys than its unit.
        return Ok(());
    }
    let components: BTreeSet<&PartName> = added.iter().map(|new| &new.component).collect();
    for component in components {
        let leaving = leaving.iter().filter(|key| key.component == *component).count();
        let kept = count_of(draft, unit, component) - leaving;
        let more = added.iter().filter(|new| new.component == *component).count();
        let what = format_args!("statuses of component {component:?} of unit {unit}");
        let max = draft.limits.keys_per_component_max;
        within("keys_per_component_max", max, kept + more, what)?;
    }
    Ok(())
}

/// Checks the limits for a set of the application's own statuses, which replaces those that leave.
pub(in crate::domain) fn check_own_quota<'k>(
    draft: &Draft<'_>,
    keys: impl IntoIterator<Item = KeyParts<'k>>,
    leaving: &BTreeSet<Arc<StatusKey>>,
) -> Result<(), LimitExceeded> {
    let added = keys.into_iter().filter(|key| draft.status(key).is_none()).count();
    if added == 0 {
        return Ok(());
    }
    let all = draft.usage.counts().statuses + added as u64;
    check_total(draft, Total::Statuses, all.saturating_sub(leaving.len() as u64))?;
    let kept = draft.keys_of(&UnitName::application(), None).len() - leaving.len();
    within("own_statuses_max", OWN_STATUSES_MAX, kept + added, "statuses of the application itself")
}

/// Checks the limits for one more unit.
pub(in crate::domain) fn check_unit_quota(draft: &Draft<'_>) -> Result<(), LimitExceeded> {
    let count = draft.units.count() + 1;
    within("units_max", draft.limits.units_max, count, "units of the application")?;
    check_total(draft, Total::Units, count as u64)
}

/// Checks the limit of bytes for a set of statuses, which replace those that leave and those
/// with the same keys.
pub(in crate::domain) fn has_bytes_for<'n>(
    draft: &Draft<'_>,
    unit: &UnitName,
    set: impl Iterator<Item = (Kind, &'n NewStatus)> + Clone,
    leaving: &BTreeSet<Arc<StatusKey>>,
) -> Result<(), LimitExceeded> {
    let added = set.clone().map(|(_, new)| new.report.size()).sum();
    has_bytes(draft, added, || {
        let same = set.map(|(kind, new)| size_of(draft.status(&new.key_of(unit, kind))));
        let gone = leaving.iter().map(|key| size_of(draft.status(key)));
        same.chain(gone).sum()
    })
}

/// Checks the limit of bytes for new texts that replace others.
pub(in crate::domain) fn has_bytes(
    draft: &Draft<'_>,
    added: u64,
    freed: impl FnOnce() -> u64,
) -> Result<(), LimitExceeded> {
    let all = draft.usage.counts().record_bytes.saturating_add(added);
    if check_total(draft, Total::RecordBytes, all).is_ok() {
        return Ok(());
    }
    let freed = freed();
    match added <= freed {
        true => Ok(()),
        false => check_total(draft, Total::RecordBytes, all.saturating_sub(freed)),
    }
}

/// Checks the limits for a command on an operation.
pub(in crate::domain) fn check_operation_quota(
    draft: &Draft<'_>,
    command: &OperationCommand,
) -> Result<(), LimitExceeded> {
    let known = draft.operations.get(&command.id);
    match &command.action {
        OperationAction::Begin(new) if known.is_none() => {
            check_total(draft, Total::Operations, draft.usage.counts().operations + 1)?;
            if !new.unit.is_application() {
                let open = draft.operations.all_open().filter(|(_, o)| !o.unit.is_application());
                let what = "unfinished operations of units";
                let (max, count) = (UNIT_OPERATIONS_OPEN_MAX, open.count() + 1);
                within("unit_operations_open_max", max, count, what)?;
            }
            let payload = new.bytes.as_ref().map_or(0, |bytes| bytes.len());
            has_bytes(draft, (payload + new.note.len()) as u64, || 0)
        }
        OperationAction::Heartbeat { checkpoint: Some(checkpoint), .. } => {
            let old = || known.map_or(0, |known| known.checkpoint.len() as u64);
            has_bytes(draft, checkpoint.len() as u64, old)
        }
        _ => Ok(()),
    }
}

/// Checks a count of this application, together with those of all others, against the total
/// limit and that of the namespace.
pub(in crate::domain) fn check_total(
    draft: &Draft<'_>,
    total: Total,
    own: u64,
) -> Result<(), LimitExceeded> {
    let (limit, what, of) = total.words();
    let exceeds = |others: &Usage, limits: &Usage| of(limits) < of(others).saturating_add(own);
    let most = |limits: &Usage| usize::try_from(of(limits)).unwrap_or(usize::MAX);
    if exceeds(&draft.usage.others, &draft.limits.total) {
        let what = format!("{what} of all applications together");
        return Err(LimitExceeded { limit, what, max: most(&draft.limits.total) });
    }
    if let Some(limit) = total.limit_of_namespace()
        && exceeds(&draft.usage.others_in_namespace, &draft.limits.namespace)
    {
        let what = format!("{what} of namespace {}", draft.base.name.namespace());
        return Err(LimitExceeded { limit, what, max: most(&draft.limits.namespace) });
    }
    Ok(())
}

/// Returns the number of statuses of one component. Cached for the draft, so that a batch of
/// new ones does not count them repeatedly.
fn count_of(draft: &Draft<'_>, unit: &UnitName, component: &PartName) -> usize {
    draft.key_counts.get(unit, component, || draft.keys_of(unit, Some(component)).len())
}
