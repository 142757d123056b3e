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

/// Serves the calls of one connection.
pub(super) struct Calls<S> {
    service: S,
    caller: Caller,
}

impl<S> Calls<S> {
    pub(super) fn new(service: S, caller: Caller) -> Calls<S> {
        Calls { service, caller }
    }
}

type Answering<B> = Pin<Box<dyn Future<Output = Result<Response<CallBody<B>>, Infallible>> + Send>>;

impl<S, B> hyper::service::Service<Request<Incoming>> for Calls<S>
where
    S: Service<Request<Body>, Response = Response<B>, Error = Infallible> + Clone,
    S::Future: Send + 'static,
    B: 'static,
{
    type Response = Response<CallBody<B>>;
    type Error = Infallible;
    type Future = Answering<B>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let open = self.caller.begin_call();
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(self.caller.clone());
        let answering = self.service.clone().call(request);
        Box::pin(async move { Ok(answering.await?.map(|inner| CallBody { inner, _open: open })) })
    }
}

/// The body of a response.
pub(super) struct CallBody<B> {
    inner: B,
    _open: OpenCall,
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
