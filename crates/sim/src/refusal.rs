//! Commits that a store refused as not applied: none of them may be applied, before or after. A
//! conflict says nothing: an attempt before it may have been applied on a former master.

use std::collections::VecDeque;
use std::sync::Arc;

use bellwether::domain::transition::Transition;
use bellwether::store::{Applied, CommitError};

/// The most commits of each kind that are kept: far more than a late one is overtaken by.
const KEPT: usize = 1024;

/// The last commits that were applied, and that were refused.
#[derive(Default)]
pub struct Refusals {
    applied: VecDeque<Arc<Transition>>,
    refused: VecDeque<Arc<Transition>>,
}

impl Refusals {
    /// Records a commit that a store has applied. Returns what is wrong.
    pub fn on_applied(&mut self, transition: &Arc<Transition>) -> Option<String> {
        keep(&mut self.applied, transition);
        wrong(&self.refused, transition)
    }

    /// Records the answer to a commit. Returns what is wrong.
    pub fn on_answer(
        &mut self,
        transition: &Arc<Transition>,
        answer: &Result<(), CommitError>,
    ) -> Option<String> {
        match answer {
            // Nothing is stored of one without writes, which can fail after its script has run.
            Err(CommitError::Unavailable { applied: Applied::No, .. })
                if transition.is_durable() =>
            {
                keep(&mut self.refused, transition);
                wrong(&self.applied, transition)
            }
            _ => None,
        }
    }
}

fn keep(list: &mut VecDeque<Arc<Transition>>, transition: &Arc<Transition>) {
    list.push_back(transition.clone());
    if KEPT < list.len() {
        list.pop_front();
    }
}

fn wrong(list: &VecDeque<Arc<Transition>>, transition: &Arc<Transition>) -> Option<String> {
    let is_there = list.iter().any(|other| Arc::ptr_eq(other, transition));
    let Transition { app, base, .. } = &**transition;
    is_there.then(|| format!("a commit of {app} after {base} is refused, and applied"))
}
