//! Requests to the task of an application, with the channels of their answers.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use tokio::sync::{Notify, Semaphore, oneshot};

use crate::domain::command::Request;
use crate::domain::request::{Outcome, RequestId};
use crate::sync::lock;
use crate::telemetry::CallSpan;

use super::Error;

/// The requests that wait for the task of an application, up to a number. While it is empty, it
/// takes no memory for requests: most active applications have none waiting.
pub(super) struct Mailbox {
    waiting: Mutex<Queued>,
    room: Semaphore,
    /// Notifies the task of a request, and of the end.
    arrived: Notify,
}

#[derive(Default)]
struct Queued {
    requests: VecDeque<Work>,
    is_closed: bool,
}

/// The mailbox takes no more requests; this one was not sent.
pub(super) struct Closed(pub(super) Work);

impl Mailbox {
    /// Returns an empty mailbox for so many requests.
    pub(super) fn new(max: usize) -> Mailbox {
        Mailbox {
            waiting: Mutex::default(),
            room: Semaphore::new(max.min(Semaphore::MAX_PERMITS)),
            arrived: Notify::new(),
        }
    }

    /// Adds a request, as soon as there is room.
    pub(super) async fn send(&self, work: Work) -> Result<(), Closed> {
        let Ok(room) = self.room.acquire().await else { return Err(Closed(work)) };
        let mut waiting = lock(&self.waiting);
        if waiting.is_closed {
            return Err(Closed(work));
        }
        waiting.requests.push_back(work);
        drop(waiting);
        room.forget();
        self.arrived.notify_one();
        Ok(())
    }

    /// Waits for requests, and moves up to `max` into a batch. Returns false if the mailbox is
    /// closed and empty.
    pub(super) async fn take(&self, max: usize, batch: &mut Vec<Work>) -> bool {
        loop {
            let is_closed = self.take_waiting(max, batch);
            if !batch.is_empty() {
                return true;
            }
            if is_closed {
                return false;
            }
            self.arrived.notified().await;
        }
    }

    /// Moves the requests that wait into a batch, while that has less than `max`. Returns whether
    /// the mailbox is closed.
    pub(super) fn take_waiting(&self, max: usize, batch: &mut Vec<Work>) -> bool {
        let mut waiting = lock(&self.waiting);
        let count = waiting.requests.len().min(max.saturating_sub(batch.len()));
        batch.extend(waiting.requests.drain(..count));
        if waiting.requests.is_empty() {
            waiting.requests = VecDeque::new();
        }
        let is_closed = waiting.is_closed;
        drop(waiting);
        self.room.add_permits(count);
        is_closed
    }

    /// Refuses further requests. The task still takes those that wait.
    pub(super) fn close(&self) {
        lock(&self.waiting).is_closed = true;
        self.room.close();
        self.arrived.notify_one();
    }

    /// Closes the mailbox and drops the requests that wait, whose callers notice it.
    pub(super) fn end(&self) {
        self.close();
        drop(std::mem::take(&mut lock(&self.waiting).requests));
    }
}

/// A request to an application's task. Large parts are boxed, because a request is moved from queue
/// to queue.
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
    pub(super) caller: Option<CallSpan>,
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

    fn mk_work() -> (Work, oneshot::Receiver<Result<Outcome, Error>>) {
        let (answer, answered) = oneshot::channel();
        (Work { ask: Ask::Look, answer: Answer::One(answer), caller: None }, answered)
    }

    #[tokio::test]
    async fn requests_wait_for_room_and_are_taken_in_order() {
        let mailbox = Mailbox::new(2);
        for _ in 0..2 {
            assert!(mailbox.send(mk_work().0).await.is_ok());
        }
        let mut third = Box::pin(mailbox.send(mk_work().0));
        assert!(futures_util::poll!(&mut third).is_pending());
        let mut batch = Vec::new();
        assert!(mailbox.take(1, &mut batch).await);
        assert_eq!(batch.len(), 1);
        assert!(third.await.is_ok());
        mailbox.take_waiting(8, &mut batch);
        assert_eq!((batch.len(), lock(&mailbox.waiting).requests.capacity()), (3, 0));
    }

    #[tokio::test]
    async fn a_closed_mailbox_gives_what_it_has_and_takes_nothing() {
        let mailbox = Mailbox::new(1);
        assert!(mailbox.send(mk_work().0).await.is_ok());
        let mut waits = Box::pin(mailbox.send(mk_work().0));
        assert!(futures_util::poll!(&mut waits).is_pending());
        mailbox.close();
        assert!(waits.await.is_err());
        let mut batch = Vec::new();
        assert!(mailbox.take(8, &mut batch).await);
        batch.clear();
        assert!(!mailbox.take(8, &mut batch).await);
        assert!(mailbox.send(mk_work().0).await.is_err());
    }

    #[tokio::test]
    async fn callers_notice_the_end() {
        let mailbox = Mailbox::new(8);
        let (work, answered) = mk_work();
        assert!(mailbox.send(work).await.is_ok());
        mailbox.end();
        assert!(answered.await.is_err());
        assert!(!mailbox.take(8, &mut Vec::new()).await);
    }

    #[test]
    fn a_waiting_request_is_small() {
        assert!(size_of::<Work>() <= 40, "{}", size_of::<Work>());
    }
}
