//! The calls of one connection. Each counts as open until the last byte of its response.

use std::convert::Infallible;

use bytes::Bytes;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::service::service_fn;
use tonic::body::Body;
use tower::Service;

use super::link::{Caller, OpenCall};
use crate::service::guard::Presented;
use crate::service::held::HeldBody;

/// Serves the calls of one connection.
pub(super) fn calls<S, B>(
    service: S,
    caller: Caller,
    presented: Presented,
) -> impl hyper::service::Service<
    Request<Incoming>,
    Response = Response<HeldBody<B, OpenCall>>,
    Error = Infallible,
    Future: Send,
>
where
    S: Service<Request<Body>, Response = Response<B>, Error = Infallible> + Clone,
    S::Future: Send,
    B: http_body::Body<Data = Bytes> + Unpin,
{
    service_fn(move |request: Request<Incoming>| {
        let open = caller.begin_call();
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(caller.clone());
        request.extensions_mut().insert(presented.clone());
        let answer = service.clone().call(request);
        async move { Ok(answer.await?.map(|inner| HeldBody::new(inner, open))) }
    })
}
