//! Routes some methods of a service past the generated code, to a handler with a codec of its own.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tonic::body::Body;
use tonic::server::NamedService;
use tower::Service;

/// The answer to a call, as generated code returns it.
pub type Answering = Pin<Box<dyn Future<Output = Result<http::Response<Body>, Infallible>> + Send>>;

/// Serves some methods of a service.
pub trait Handler: Clone {
    /// Returns whether this handler serves the method of a path.
    fn serves(path: &str) -> bool;

    /// Serves a call of a method that this handler serves. A message may have at most `bytes_max`
    /// bytes.
    fn serve(self, request: http::Request<Body>, bytes_max: usize) -> Answering;
}

/// Passes a call to `H` if `H` serves its method, and to `inner` otherwise.
#[derive(Clone)]
pub struct Route<S, H> {
    inner: S,
    handler: H,
    request_bytes_max: usize,
}

impl<S, H> Route<S, H> {
    /// Creates the route. It accepts messages of at most `request_bytes_max` bytes.
    pub fn new(inner: S, handler: H, request_bytes_max: usize) -> Route<S, H> {
        Route { inner, handler, request_bytes_max }
    }
}

impl<S: NamedService, H> NamedService for Route<S, H> {
    const NAME: &'static str = S::NAME;
}

impl<S, H: Handler> Service<http::Request<Body>> for Route<S, H>
where
    S: Service<
            http::Request<Body>,
            Response = http::Response<Body>,
            Error = Infallible,
            Future = Answering,
        >,
{
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Answering;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: http::Request<Body>) -> Answering {
        match H::serves(request.uri().path()) {
            true => self.handler.clone().serve(request, self.request_bytes_max),
            false => self.inner.call(request),
        }
    }
}
