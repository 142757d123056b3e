//! Calls with a large message: the message is decoded, and its handler begins, beside the threads
//! that serve connections.
//!
//! tonic decodes a message in the poll in which its last byte arrives. So the request is read to
//! its end first; then one poll decodes it.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body as _, Frame};
use tonic::Status;
use tonic::body::Body;
use tower::Service;

use super::body::WholeBody;
use super::refusal;
use crate::service::caller::budget::{Budgets, Share};
use crate::service::offload::{LARGE_BYTES, Offload};
use crate::telemetry::OffloadedWork;

/// Calls `inner`, which takes one message. The bytes of a large one count as those of an incomplete
/// one until it is decoded.
pub(super) async fn call<S>(
    mut inner: S,
    request: Request<WholeBody>,
    budgets: Budgets,
    offload: Offload,
) -> Result<Response<Body>, Infallible>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    let (parts, mut rest) = request.into_parts();
    let first = next_frame(&mut rest).await;
    let bytes = data_bytes(first.as_ref());
    let mut begun = Begun { frames: first.into_iter().collect(), rest, share: Share::new(budgets) };
    if bytes <= LARGE_BYTES {
        return inner.call(Request::from_parts(parts, Body::new(begun))).await;
    }
    if let Err(budget) = begun.share.grow(bytes) {
        return Ok(refusal::no_room(&budget).into_http());
    }
    let end = next_frame(&mut begun.rest).await;
    begun.frames.extend(end);
    let call = inner.call(Request::from_parts(parts, Body::new(begun)));
    offload.first_poll(OffloadedWork::Decode, call).await
}

fn data_bytes(frame: Option<&Result<Frame<Bytes>, Status>>) -> usize {
    let data = frame.and_then(|frame| frame.as_ref().ok()?.data_ref());
    data.map_or(0, Bytes::len)
}

async fn next_frame(body: &mut WholeBody) -> Option<Result<Frame<Bytes>, Status>> {
    std::future::poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await
}

/// A body of which some frames are here.
struct Begun {
    frames: VecDeque<Result<Frame<Bytes>, Status>>,
    rest: WholeBody,
    /// The bytes of the frames. tonic drops the body when it has decoded them.
    share: Share,
}

impl http_body::Body for Begun {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        match self.frames.pop_front() {
            Some(frame) => Poll::Ready(Some(frame)),
            None => Pin::new(&mut self.rest).poll_frame(context),
        }
    }

    /// Returns false until the end was checked, as [`WholeBody`] does.
    fn is_end_stream(&self) -> bool {
        self.frames.is_empty() && self.rest.is_end_stream()
    }
}
