//! The calls of one connection. Each counts as open until the last byte of its response.

use std::convert::Infallible;

use bytes::Bytes;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::service::service_fn;
use tonic::Status;
use tonic::body::Body;
use tower::Service;

use super::link::{Caller, OpenCall};
use crate::service::guard::Presented;
use crate::service::held::HeldBody;

/// A service of gRPC.
pub trait GrpcService:
    Service<Request<Body>, Response = Response<Self::Body>, Error = Infallible, Future: Send>
    + Clone
    + Send
    + Sync
    + 'static
{
    /// The body of its answers.
    type Body: GrpcBody;
}

impl<S, B> GrpcService for S
where
    S: Service<Request<Body>, Response = Response<B>, Error = Infallible, Future: Send>,
    S: Clone + Send + Sync + 'static,
    B: GrpcBody,
{
    type Body = B;
}

/// The body of an answer of such a service.
pub trait GrpcBody: http_body::Body<Data = Bytes, Error = Status> + Unpin + Send + 'static {}

impl<B> GrpcBody for B where
    B: http_body::Body<Data = Bytes, Error = Status> + Unpin + Send + 'static
{
}

/// Serves the calls of one connection.
pub(super) fn calls<S: GrpcService>(
    service: S,
    caller: Caller,
    presented: Presented,
) -> impl hyper::service::Service<
    Request<Incoming>,
    Response = Response<HeldBody<S::Body, OpenCall>>,
    Error = Infallible,
    Future: Send,
> {
    service_fn(move |request: Request<Incoming>| {
        let open = caller.begin_call();
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(caller.clone());
        request.extensions_mut().insert(presented.clone());
        let answer = service.clone().call(request);
        async move {
            let working = open.work();
            let answer = answer.await?;
            drop(working);
            Ok(answer.map(|inner| HeldBody::new(inner, open)))
        }
    })
}
