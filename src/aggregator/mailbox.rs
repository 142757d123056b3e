//! Requests to the task of an application, with the channels of their answers.

use std::sync::Arc;

use tokio::sync::oneshot;

use crate::domain::command::Request;
use crate::domain::request::{Outcome, RequestId};
use crate::telemetry::Caller;

use super::Error;

/// A request to an application's task. Large parts are boxed: a mailbox has room for 32 requests
/// from its first one on, so a request of 300 bytes costs each active application 10 KB.
pub(super) enum Ask {
    /// Apply commands, together with others.
    Apply(Requests),
    /// Apply due changes, including those after a data loss.
    Look,
    /// Delete the application, in a separate commit.
    Delete(Option<Box<RequestId>>),
}

/// The commands of one request, in order.
pub(super) enum Requests {
    /// A single command.
    One(Box<Request>),
    /// Several commands, shared so that the caller can send them again.
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

/// The channel of an answer.
pub(super) enum Answer {
    /// For a single command.
    One(oneshot::Sender<Result<Outcome, Error>>),
    /// For several: as many answers, in the same order.
    All(oneshot::Sender<Vec<Result<Outcome, Error>>>),
}

impl Answer {
    /// Sends the answers. The receiver may be gone; the commit stays valid.
    pub(super) fn send(self, mut outcomes: impl Iterator<Item = Result<Outcome, Error>>) {
        match self {
            Answer::One(asker) => drop(outcomes.next().map(|outcome| asker.send(outcome))),
            Answer::All(asker) => drop(asker.send(outcomes.collect())),
        }
    }
}

/// A request with the channel of its answer.
pub(super) struct Work {
    pub(super) ask: Ask,
    pub(super) answer: Answer,
    /// The call that waits for the answer; `None` if it is not traced.
    pub(super) caller: Option<Caller>,
}

impl Work {
    /// Refuses the whole request with one error.
    pub(super) fn refuse(self, error: &Error) {
        let count = match &self.ask {
            Ask::Apply(requests) => requests.len(),
            Ask::Look | Ask::Delete(_) => 1,
        };
        self.answer.send(std::iter::repeat_n(Err(error.clone()), count));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_waiting_request_is_small() {
        assert!(size_of::<Work>() <= 40, "{}", size_of::<Work>());
    }
}
