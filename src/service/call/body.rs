//! The body of an answer: it observes the end of its call, and holds what counts for it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, Response};
use http_body::{Body as _, Frame, SizeHint};
use tonic::body::Body;
use tonic::{Code, Status};

use super::observed::Observed;
use super::typed;
use crate::service::caller::Share;
use crate::service::caller::outgoing::Shares;
use crate::service::edge::GrpcBody;

/// What counts for a call until its last byte.
#[derive(Default)]
pub(super) struct Held {
    /// Room for a long answer.
    pub(super) shares: Shares,
    /// Its count among the open calls.
    pub(super) _open: Option<Share>,
}

impl Held {
    /// Holds the count of a call.
    pub(super) fn of(open: Option<Share>) -> Held {
        Held { shares: Shares::default(), _open: open }
    }
}

/// The body of an answer. It records the end of its call: with trailers, or dropped before them.
pub struct CallBody {
    inner: Body,
    call: Observed,
    held: Held,
}

impl CallBody {
    /// Creates the body of an answer that has its headers.
    pub(super) fn of(
        mut response: Response<Body>,
        mut call: Observed,
        held: Held,
    ) -> Response<CallBody> {
        let code = typed::complete(response.headers_mut());
        call.answered(code, response.headers());
        response.map(|inner| CallBody { inner, call, held })
    }

    /// Returns the trailers of a stream whose handler panicked. Without them the client would see a
    /// broken connection, together with every other call on it.
    fn panicked(&mut self, panic: &(dyn std::any::Any + Send)) -> Frame<Bytes> {
        let status = self.call.panicked(panic);
        self.call.finish(Code::Internal, None);
        self.inner = Body::empty();
        let mut trailers = HeaderMap::new();
        status.add_header(&mut trailers).expect("a short ASCII message is a header value");
        Frame::trailers(trailers)
    }

    fn note(&mut self, frame: &mut Frame<Bytes>) {
        if let Some(bytes) = frame.data_ref() {
            self.held.shares.rendered(bytes.len());
        } else if let Some(trailers) = frame.trailers_mut() {
            let code = typed::complete(trailers);
            self.call.ended(code.unwrap_or(Code::Unknown), trailers);
        }
    }
}

impl http_body::Body for CallBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = &mut *self;
        let inner = &mut this.inner;
        let polled = this
            .call
            .span
            .in_scope(|| catch_unwind(AssertUnwindSafe(|| Pin::new(inner).poll_frame(context))));
        let mut polled = match polled {
            Ok(polled) => polled,
            Err(panic) => Poll::Ready(Some(Ok(this.panicked(panic.as_ref())))),
        };
        match &mut polled {
            Poll::Ready(Some(Ok(frame))) => this.note(frame),
            Poll::Ready(Some(Err(status))) => this.call.finish(status.code(), Some(status)),
            // A gRPC response always ends with a status; clients take a missing one as UNKNOWN.
            Poll::Ready(None) => this.call.finish(Code::Unknown, None),
            Poll::Pending => {}
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

impl GrpcBody for CallBody {
    fn is_stream(&self) -> bool {
        self.call.is_stream()
    }
}

impl Drop for CallBody {
    fn drop(&mut self) {
        // A body that is known to be at its end is not polled again.
        if self.inner.is_end_stream() {
            self.call.finish(Code::Unknown, None);
        }
    }
}
