//! Numbers that rise, each with one holder: lease epochs and fences.

use std::collections::BTreeMap;

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
