//! A stream with many watches.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::time::{Sleep, sleep_until};
use tokio_stream::Stream;
use tokio_util::sync::WaitForCancellationFutureOwned;
use tonic::{Status, Streaming};

use super::cohorts::Cohorts;
use super::parts::Encoded;
use super::single::{past, past_deadline};
use super::{MULTIPLEXED_MAX, MULTIPLEXED_PER_PEER_MAX, PER_STREAM_MAX, StreamPlace};
use crate::proto::v1;
use crate::proto::v1::multiplex_watches_request::Request;
use crate::service::call::Deadline;
use crate::service::caller::{Account, Caller, Class, Kind, Share};
use crate::service::code::{ApiError, Reason};

/// Maximum requests that are read before the watches get their turn.
const REQUESTS_AT_ONCE: usize = 64;

/// The watches of one stream.
pub struct Multiplex {
    /// `None` after the client has half-closed the stream.
    requests: Option<Streaming<v1::MultiplexWatchesRequest>>,
    cohorts: Cohorts,
    /// Answers to requests: at most one for each request that was read in one turn.
    answers: VecDeque<Encoded>,
    deadline: Option<Pin<Box<Sleep>>>,
    draining: Pin<Box<WaitForCancellationFutureOwned>>,
    is_ended: bool,
    /// The peer's share of all multiplexed watches. It still counts watches that ended on their
    /// own, until the next watch starts.
    share: Option<Share>,
    /// Counts the watches that start.
    account: Option<Arc<Account>>,
    _place: StreamPlace,
}

impl Multiplex {
    /// Creates the stream; it ends at `deadline`, if given.
    pub fn new(
        cohorts: Cohorts,
        requests: Streaming<v1::MultiplexWatchesRequest>,
        deadline: Option<Deadline>,
        place: StreamPlace,
        caller: Option<&Caller>,
    ) -> Multiplex {
        let draining = cohorts.watches.0.draining.clone();
        Multiplex {
            requests: Some(requests),
            cohorts,
            answers: VecDeque::new(),
            deadline: deadline.map(|Deadline(at)| Box::pin(sleep_until(at))),
            draining: Box::pin(draining.cancelled_owned()),
            is_ended: false,
            share: caller.map(|caller| caller.share(Kind::MultiplexedWatch)),
            account: caller.and_then(Caller::account).cloned(),
            _place: place,
        }
    }

    /// Returns the next message. An error or `None` ends the stream.
    fn poll_message(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Encoded>, Status>> {
        if past(&mut self.deadline, context) {
            return Poll::Ready(Err(past_deadline()));
        }
        if self.draining.as_mut().poll(context).is_ready() {
            return Poll::Ready(match self.cohorts.drain_one() {
                Some(parts) => Ok(Some(parts)),
                None => Err(ApiError::draining().into()),
            });
        }
        if self.answers.is_empty() {
            self.take_requests(context)?;
        }
        if let Some(answer) = self.answers.pop_front() {
            return Poll::Ready(Ok(Some(answer)));
        }
        if self.requests.is_none() && self.cohorts.is_empty() {
            return Poll::Ready(Ok(None));
        }
        self.cohorts.poll_next(context).map(|parts| Ok(Some(parts)))
    }

    fn take_requests(&mut self, context: &mut Context<'_>) -> Result<(), Status> {
        for _ in 0..REQUESTS_AT_ONCE {
            let Some(requests) = &mut self.requests else { return Ok(()) };
            match Pin::new(requests).poll_next(context) {
                Poll::Ready(Some(request)) => self.take(request?)?,
                Poll::Ready(None) => self.requests = None,
                Poll::Pending => return Ok(()),
            }
        }
        // There may be more requests.
        context.waker().wake_by_ref();
        Ok(())
    }

    /// Handles a request. An error ends the stream, because it belongs to no single watch.
    fn take(&mut self, request: v1::MultiplexWatchesRequest) -> Result<(), ApiError> {
        match request.request {
            Some(Request::Create(v1::CreateWatch { watch_id, watch })) => {
                if self.cohorts.has(watch_id) {
                    let text = format!("is {watch_id}, which is in use on this stream");
                    return Err(ApiError::of_value("create.watch_id", text));
                }
                if let Err(problem) = self.begin(watch_id, watch.unwrap_or_default()) {
                    self.answers.push_back(Encoded::ended(vec![watch_id], &problem.into()));
                }
            }
            Some(Request::Cancel(v1::CancelWatch { watch_id })) => {
                let cancelled = Status::cancelled("this watch was cancelled as asked");
                let is_there = self.cohorts.leave(watch_id);
                self.answers.extend(is_there.then(|| Encoded::ended(vec![watch_id], &cancelled)));
            }
            None => return Err(ApiError::of_value("request", "is neither create nor cancel")),
        }
        Ok(())
    }

    fn begin(&mut self, watch_id: u64, wire: v1::WatchApplicationsRequest) -> Result<(), ApiError> {
        self.account.as_ref().map_or(Ok(()), |account| account.take(Class::Watch))?;
        if PER_STREAM_MAX <= self.cohorts.len() {
            let max = PER_STREAM_MAX;
            let text = format!("{max} watches are on this stream already; open another one");
            let limit = "watches_per_stream_max";
            return Err(ApiError::of_limit(Reason::LimitExceeded, text, limit, max));
        }
        if let Some(share) = &mut self.share {
            share.shrink_to(self.cohorts.len());
            let max = MULTIPLEXED_PER_PEER_MAX;
            share.grow(max, max).map_err(|full| {
                let names =
                    ("multiplexed_watches_per_peer_max", "multiplexed_watches_per_principal_max");
                full.problem("watches", names, "cancel one, or wait and try again")
            })?;
        }
        let permits = self.cohorts.watches.0.multiplexed.clone();
        let Ok(permit) = permits.try_acquire_owned() else {
            let max = MULTIPLEXED_MAX;
            let text = format!(
                "{max} watches are open already, which is the limit of this server; \
                 cancel one, or wait and try again"
            );
            return Err(ApiError::too_many(text, "multiplexed_watches_max", max));
        };
        self.cohorts.begin(watch_id, wire, permit)
    }
}

impl Stream for Multiplex {
    type Item = Result<Encoded, Status>;

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Encoded, Status>>> {
        if self.is_ended {
            return Poll::Ready(None);
        }
        let polled = self.poll_message(context).map(Result::transpose);
        if let Poll::Ready(None | Some(Err(_))) = polled {
            self.is_ended = true;
        }
        polled
    }
}
