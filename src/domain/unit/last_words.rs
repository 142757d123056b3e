//! What a unit reports after it announced its stop, which ends with the incarnation.

use crate::domain::draft::Draft;
use crate::domain::history::Cause;
use crate::domain::name::UnitName;
use crate::domain::unit::Unit;
use crate::domain::unit::callback::call_off;

/// Removes what a unit reported after it announced its stop: a new incarnation begins.
pub fn end_last_words(draft: &mut Draft<'_>, name: &UnitName) {
    if !draft.unit(name).is_some_and(Unit::is_stopping) {
        return;
    }
    for key in draft.keys_of(name, None) {
        if let Some(old) = draft.status(&key).filter(|status| status.while_stopping).cloned() {
            draft.log_status(&key, Some(&old), None, Cause::UnitReplaced);
            draft.put_status(key, None);
        }
    }
    let faults = draft.faults.of(name, None).into_iter();
    for (key, _) in faults.filter(|(_, fault)| fault.while_stopping) {
        call_off(draft, name, &key.topic());
        draft.put_fault(key, None);
    }
}
