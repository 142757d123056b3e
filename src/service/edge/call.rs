//! The calls of one connection. Each counts as open until the last byte of its response.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Frame, SizeHint};
use hyper::body::Incoming;
use tonic::body::Body;
use tower::Service;

use super::link::{Caller, OpenCall};
use crate::service::guard::Presented;

/// Serves the calls of one connection.
pub(super) struct Calls<S> {
    service: S,
    caller: Caller,
    presented: Presented,
}

impl<S> Calls<S> {
    pub(super) fn new(service: S, caller: Caller, presented: Presented) -> Calls<S> {
        Calls { service, caller, presented }
    }
}

impl<S, B> hyper::service::Service<Request<Incoming>> for Calls<S>
where
    S: Service<Request<Body>, Response = Response<B>, Error = Infallible> + Clone,
    S::Future: Unpin,
{
    type Response = Response<CallBody<B>>;
    type Error = Infallible;
    type Future = CallFuture<S::Future>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let open = Some(self.caller.begin_call());
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(self.caller.clone());
        request.extensions_mut().insert(self.presented.clone());
        CallFuture { inner: self.service.clone().call(request), open }
    }
}

/// The future of a response.
pub(super) struct CallFuture<F> {
    inner: F,
    /// Moves into the body of the response.
    open: Option<OpenCall>,
}

impl<F, B> Future for CallFuture<F>
where
    F: Future<Output = Result<Response<B>, Infallible>> + Unpin,
{
    type Output = Result<Response<CallBody<B>>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Poll::Ready(Ok(response)) = Pin::new(&mut self.inner).poll(context) else {
            return Poll::Pending;
        };
        let open = self.open.take();
        Poll::Ready(Ok(response.map(|inner| CallBody { inner, _open: open })))
    }
}

/// The body of a response.
pub(super) struct CallBody<B> {
    inner: B,
    _open: Option<OpenCall>,
}

impl<B: http_body::Body<Data = Bytes> + Unpin> http_body::Body for CallBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        Pin::new(&mut self.inner).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
