//! A stream with one watch.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::time::{Sleep, sleep_until};
use tokio_stream::Stream;
use tonic::Status;

use super::parts::Encoded;
use super::track::{Track, Tracked};
use super::{StreamPlace, Watches};
use crate::service::call::Deadline;
use crate::service::code::ApiError;

/// One reader and its position.
pub struct Single {
    watches: Watches,
    track: Track,
    deadline: Option<Pin<Box<Sleep>>>,
    stage: SendStage,
    _place: StreamPlace,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SendStage {
    Open,
    /// The reader has received the drain event.
    Drained,
    Ended,
}

impl Single {
    /// Creates the stream; it ends at `deadline`, if given.
    pub fn new(
        watches: Watches,
        track: Track,
        deadline: Option<Deadline>,
        place: StreamPlace,
    ) -> Single {
        let deadline = deadline.map(|Deadline(at)| Box::pin(sleep_until(at)));
        Single { watches, track, deadline, stage: SendStage::Open, _place: place }
    }

    fn poll_track(&mut self, context: &mut Context<'_>) -> Poll<Result<Encoded, Status>> {
        if self.watches.is_draining() {
            self.stage = SendStage::Drained;
            return Poll::Ready(Ok(self.track.drain()));
        }
        if past(&mut self.deadline, context) {
            return Poll::Ready(Err(past_deadline()));
        }
        match self.track.poll_next(context) {
            Poll::Ready(Ok(Tracked { parts, coalesced })) => {
                self.watches.0.metrics.watch_coalesced(coalesced);
                Poll::Ready(Ok(parts))
            }
            Poll::Ready(Err(problem)) => Poll::Ready(Err(problem.into())),
            // The drain may have started before this task registered for it.
            Poll::Pending if self.watches.is_draining() => self.poll_track(context),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl Stream for Single {
    type Item = Result<Encoded, Status>;

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Encoded, Status>>> {
        let polled = match self.stage {
            SendStage::Open => self.poll_track(context),
            SendStage::Drained => Poll::Ready(Err(ApiError::draining().into())),
            SendStage::Ended => return Poll::Ready(None),
        };
        if let Poll::Ready(Err(_)) = polled {
            self.stage = SendStage::Ended;
        }
        polled.map(Some)
    }
}

/// Returns whether a deadline has passed. If not, the task is woken when it does.
pub fn past(deadline: &mut Option<Pin<Box<Sleep>>>, context: &mut Context<'_>) -> bool {
    deadline.as_mut().is_some_and(|deadline| deadline.as_mut().poll(context).is_ready())
}

/// Returns the status of a watch whose deadline has passed.
pub fn past_deadline() -> Status {
    Status::deadline_exceeded("the deadline of this watch has passed")
}
