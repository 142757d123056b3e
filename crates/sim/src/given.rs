//! Numbers that rise, each with one holder: lease epochs, fences and data versions.

use std::collections::BTreeMap;

use bellwether::domain::name::{AppName, OperationId, UnitName};

use crate::server::app::App;

/// The numbers that applications have given.
#[derive(Default)]
pub struct Given {
    /// The holder of each lease epoch, with its incarnation.
    pub leases: BTreeMap<AppName, BTreeMap<u64, Option<(UnitName, u64)>>>,
    /// The unit that wrote data under an epoch.
    pub writers: BTreeMap<(AppName, u64), UnitName>,
    /// The highest version of data.
    pub versions: BTreeMap<AppName, u64>,
    /// The holder of each fence.
    pub fences: BTreeMap<(AppName, OperationId), BTreeMap<u64, Option<UnitName>>>,
}

impl Given {
    /// Forgets the numbers of an application above those that it still has.
    pub fn forget(&mut self, app: &AppName, kept: Option<&App>) {
        let epoch = kept.map_or(0, |kept| kept.head.lease_epoch);
        let fence = |id: &OperationId| kept.and_then(|kept| Some(kept.operations.get(id)?.fence));
        self.leases.entry(app.clone()).or_default().retain(|given, _| *given <= epoch);
        self.writers.retain(|(of, given), _| of != app || *given <= epoch);
        self.versions.insert(app.clone(), kept.map_or(0, |kept| kept.head.data.version));
        for ((_, id), given) in self.fences.iter_mut().filter(|((of, _), _)| of == app) {
            given.retain(|given, _| fence(id).is_some_and(|fence| *given <= fence));
        }
    }
}

/// Records that a number was given to a holder. Returns what is wrong: a number has one holder, and
/// a new one is greater than all before, those of lost commits included.
pub fn give<T: Clone + PartialEq + std::fmt::Debug>(
    given: &mut BTreeMap<u64, Option<T>>,
    number: u64,
    holder: Option<T>,
) -> Option<String> {
    let last = given.last_key_value().map(|(last, _)| *last);
    let Some(known) = given.get_mut(&number) else {
        given.insert(number, holder.clone());
        let is_new = last.is_none_or(|last| last < number);
        return (!is_new).then(|| format!("{number} for {holder:?} follows {last:?}"));
    };
    let is_same = known.is_none() || holder.is_none() || *known == holder;
    let wrong = (!is_same).then(|| format!("{number} is of {known:?} and of {holder:?}"));
    if known.is_none() {
        *known = holder;
    }
    wrong
}
