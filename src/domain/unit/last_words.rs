//! What a unit reports after it announced its stop, which ends with the incarnation.

use std::sync::Arc;

use crate::domain::draft::Draft;
use crate::domain::fault::FaultKey;
use crate::domain::history::Cause;
use crate::domain::name::UnitName;
use crate::domain::unit::callback::call_off;
use crate::domain::unit::{Topic, Unit};

/// Removes what a unit reported after it announced its stop: a new incarnation begins.
pub(in crate::domain) fn end_last_words(draft: &mut Draft<'_>, name: &UnitName) {
    if !draft.unit(name).is_some_and(Unit::is_stopping) {
        return;
    }
    for key in draft.keys_of(name, None) {
        let Some(old) = draft.status(&key).filter(|status| status.while_stopping).cloned() else {
            continue;
        };
        draft.log_status(&key, Some(&old), None, Cause::UnitReplaced);
        draft.put_status(key, None);
    }
    let faults = draft.faults.keys_of(name, None).into_iter();
    let last = |key: &Arc<FaultKey>| draft.faults.get(key).is_some_and(|f| f.while_stopping);
    for key in faults.filter(last).collect::<Vec<_>>() {
        let topic = Topic { component: key.component.clone(), target: (&*key.target).into() };
        call_off(draft, name, &topic);
        draft.put_fault(key, None);
    }
}
