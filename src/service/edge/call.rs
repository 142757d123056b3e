//! The calls of one connection. Each counts as open until the last byte of its response.

use std::convert::Infallible;

use bytes::Bytes;
use http::{Request, Response, Version};
use hyper::body::Incoming;
use hyper::service::service_fn;
use tonic::Status;
use tonic::body::Body;
use tower::Service;

use crate::service::caller::Presented;
use crate::service::caller::outgoing::{AnswerBody, Share, bare, size};
use crate::service::caller::{Caller, OpenCall};

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
pub trait GrpcBody: http_body::Body<Data = Bytes, Error = Status> + Unpin + Send + 'static {
    /// Returns whether it is the body of a stream, which has a limit of its own.
    fn is_stream(&self) -> bool;
}

impl GrpcBody for Body {
    /// Returns false: a body that hides its method is no long-lived stream of this server.
    fn is_stream(&self) -> bool {
        false
    }
}

/// Serves the calls of one connection. Each has room for its answer before it starts.
pub(super) fn calls<S: GrpcService>(
    service: S,
    caller: Caller,
    presented: Presented,
) -> impl hyper::service::Service<
    Request<Incoming>,
    Response = Response<AnswerBody<S::Body, OpenCall>>,
    Error = Infallible,
    Future: Send,
> {
    service_fn(move |request: Request<Incoming>| {
        let mut open = caller.begin_call();
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(caller.clone());
        request.extensions_mut().insert(presented.clone());
        let (room, mut service) = (caller.room().clone(), service.clone());
        let is_divided = request.version() == Version::HTTP_2;
        // Within the task of the call: a stream that opens gives its share back in the same turn.
        async move {
            let share = match Share::take(&room, size::CALL) {
                Ok(share) => Ok(share),
                Err(_full) => Share::wait(&room, size::CALL).await,
            };
            let share = match share {
                Ok(share) => share,
                Err(full) => return Ok(bare(&full, request.headers(), AnswerBody::empty(open))),
            };
            let answer = service.call(request).await?;
            open.answered();
            Ok(answer.map(|inner: S::Body| {
                let is_stream = inner.is_stream();
                AnswerBody::new(inner, open, share, is_stream, is_divided)
            }))
        }
    })
}
