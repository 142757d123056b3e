//! What is asked of the task of an application, and where the answers go.

use std::sync::Arc;

use tokio::sync::oneshot;

use crate::domain::command::Request;
use crate::domain::request::{Outcome, RequestId};

use super::Error;

/// What is asked of an application. Moved twice on its way; boxing the large one would cost every
/// report an allocation.
#[allow(clippy::large_enum_variant)]
pub(super) enum Ask {
    /// Apply what is requested, together with others.
    Apply(Requests),
    /// Do what is due, or doubted, anyway.
    Look,
    /// Remove it, in a commit of its own.
    Delete(Option<RequestId>),
}

/// What is requested at once, in its order.
#[allow(clippy::large_enum_variant)]
pub(super) enum Requests {
    /// By who asks one thing.
    One(Request),
    /// By who asks several, and may have to ask them again.
    All(Arc<Vec<Request>>),
}

impl std::ops::Deref for Requests {
    type Target = [Request];

    fn deref(&self) -> &[Request] {
        match self {
            Requests::One(request) => std::slice::from_ref(request),
            Requests::All(requests) => requests,
        }
    }
}

/// Where an answer goes.
pub(super) enum Answer {
    /// To who asked one thing.
    One(oneshot::Sender<Result<Outcome, Error>>),
    /// To who asked several: as many, in the same order.
    All(oneshot::Sender<Vec<Result<Outcome, Error>>>),
}

impl Answer {
    /// Answers. Whoever asked may have gone; what was committed stands.
    pub(super) fn send(self, mut outcomes: impl Iterator<Item = Result<Outcome, Error>>) {
        match self {
            Answer::One(asker) => drop(outcomes.next().map(|outcome| asker.send(outcome))),
            Answer::All(asker) => drop(asker.send(outcomes.collect())),
        }
    }
}

/// Something asked, and where the answer goes.
pub(super) struct Work {
    pub(super) ask: Ask,
    pub(super) answer: Answer,
}

impl Work {
    /// Refuses all of it, for the same reason.
    pub(super) fn refuse(self, error: &Error) {
        let count = match &self.ask {
            Ask::Apply(requests) => requests.len(),
            Ask::Look | Ask::Delete(_) => 1,
        };
        self.answer.send(std::iter::repeat_n(Err(error.clone()), count));
    }
}
