//! The decision about a batch of requests: a transition of the state, and their outcomes.

use std::sync::Arc;

use crate::domain::app::AppState;
use crate::domain::apply::apply;
use crate::domain::data_loss::mark_uncertain;
use crate::domain::delete::delete;
use crate::domain::draft::Draft;
use crate::domain::expire::expire;
use crate::domain::rejected::Rejected;
use crate::domain::request::{Outcome, RequestId};
use crate::domain::time::Timestamp;
use crate::domain::transition::Transition;
use crate::store::Moment;

use super::mailbox::Requests;
use super::schedule::Others;
use super::{Error, Inner};

/// The decision about a batch of requests.
pub(super) struct Decision {
    /// The change of the state; `None` if nothing changes.
    pub(super) transition: Option<Arc<Transition>>,
    /// The outcome of each request, in their order.
    pub(super) outcomes: Vec<Result<Outcome, Rejected>>,
}

/// Applies the changes by time, then the requests, as one transition.
pub(super) fn decide(
    state: &AppState,
    inner: &Inner,
    moment: &Moment,
    together: &[Requests],
) -> Decision {
    if together.is_empty() && state.is_abandoned(moment.judged) {
        return Decision { outcomes: Vec::new(), ..decide_deletion(state, moment.now, None) };
    }
    let mut draft = Draft::new(state, &inner.options.limits, moment.now);
    draft.judge_until(moment.judged);
    let Others { losses, all, in_namespace } = inner.schedule.others(&state.name);
    draft.set_usage_of_others(all, in_namespace);
    // A new application has no records from before a loss.
    let losses = if state.exists() { losses } else { inner.store.epoch().losses };
    mark_uncertain(&mut draft, losses);
    expire(&mut draft);
    let requests = together.iter().flat_map(|requests| requests.iter());
    let outcomes = requests.map(|request| apply(&mut draft, request)).collect();
    Decision { transition: Some(Arc::new(draft.finish())), outcomes }
}

/// Deletes the application.
pub(super) fn decide_deletion(
    state: &AppState,
    now: Timestamp,
    id: Option<&RequestId>,
) -> Decision {
    match delete(state, id, now) {
        Ok((transition, outcome)) => {
            Decision { transition: transition.map(Arc::new), outcomes: vec![Ok(outcome)] }
        }
        Err(rejected) => Decision { transition: None, outcomes: vec![Err(rejected.into())] },
    }
}

/// Returns the answer to each request: its own, or the failure that all of them share.
pub(super) fn spread(
    outcomes: Result<Vec<Result<Outcome, Rejected>>, Error>,
    count: usize,
) -> Vec<Result<Outcome, Error>> {
    match outcomes {
        Ok(outcomes) => outcomes.into_iter().map(|o| o.map_err(Error::Rejected)).collect(),
        Err(error) => vec![Err(error); count],
    }
}
