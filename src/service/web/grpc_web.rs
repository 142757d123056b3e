//! Errors of the bodies of gRPC-Web. tonic-web makes `INTERNAL` of each error of a request, as if
//! the server had failed. Two layers around it keep the cause.
//!
//! ```text
//!  request --> Kept: puts the cause aside --> tonic-web --> Restored: the cause --> services
//! ```

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::Request;
use http_body::{Frame, SizeHint};
use tonic::Status;
use tonic::body::Body;
use tower::Service;

use crate::service::call::intake::refusal;
use crate::sync::lock;

type Cause = Arc<Mutex<Option<Status>>>;

/// Returns the request and the service to put around tonic-web.
pub fn blamed<S>(request: Request<Body>, inner: S) -> (Request<Body>, Restoring<S>) {
    let cause = Cause::default();
    let kept = cause.clone();
    let request = request.map(|inner| Body::new(Kept { inner, cause: kept }));
    (request, Restoring { inner, cause })
}

/// A service whose requests have the errors that they had before tonic-web.
#[derive(Clone)]
pub struct Restoring<S> {
    inner: S,
    cause: Cause,
}

impl<S: Service<Request<Body>>> Service<Request<Body>> for Restoring<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> S::Future {
        let cause = self.cause.clone();
        self.inner.call(request.map(|inner| Body::new(Restored { inner, cause })))
    }
}

struct Kept {
    inner: Body,
    cause: Cause,
}

struct Restored {
    inner: Body,
    cause: Cause,
}

impl Restored {
    /// Returns the cause of an error; without one, tonic-web itself could not read the body.
    fn cause_of(&self, error: &Status) -> Status {
        let text = error.message();
        let text = text.strip_prefix("tonic-web: ").unwrap_or(text);
        let malformed = || refusal::malformed(format!("the body is no gRPC-Web: {text}"));
        lock(&self.cause).take().unwrap_or_else(malformed)
    }
}

impl http_body::Body for Kept {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let polled = Pin::new(&mut self.inner).poll_frame(context);
        polled.map_err(|error| {
            *lock(&self.cause) = Some(refusal::broken_off(error));
            Status::unknown("the cause is put aside")
        })
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

impl http_body::Body for Restored {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let polled = Pin::new(&mut self.inner).poll_frame(context);
        polled.map_err(|error| self.cause_of(&error))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
