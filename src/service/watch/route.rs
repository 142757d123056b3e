//! Routes the two watch methods of `ApplicationService` past the generated code, which would encode
//! each message separately for every reader, and keep a buffer for each silent reader.

use std::convert::Infallible;
use std::future::{Future, Ready, ready};
use std::pin::Pin;
use std::task::{Context, Poll};

use tonic::body::Body;
use tonic::server::{Grpc, NamedService, ServerStreamingService, StreamingService};
use tonic::{Request, Response, Status, Streaming};
use tower::Service;

use super::Watches;
use super::multiplex::Multiplex;
use super::parts::{Parts, PartsCodec};
use super::single::Single;
use crate::proto::v1;
use crate::service::edge::Caller;
use crate::service::guard::Access;
use crate::service::observe::Deadline;

const WATCH: &str = "/bellwether.v1.ApplicationService/WatchApplications";
const MULTIPLEX: &str = "/bellwether.v1.ApplicationService/MultiplexWatches";

/// Serves the watches, and passes every other call to `inner`.
#[derive(Clone)]
pub struct Route<S> {
    inner: S,
    watches: Watches,
    request_bytes_max: usize,
}

impl<S> Route<S> {
    /// Creates the route. It accepts requests of at most `request_bytes_max` bytes.
    pub fn new(inner: S, watches: Watches, request_bytes_max: usize) -> Route<S> {
        Route { inner, watches, request_bytes_max }
    }
}

impl<S: NamedService> NamedService for Route<S> {
    const NAME: &'static str = S::NAME;
}

type Answering = Pin<Box<dyn Future<Output = Result<http::Response<Body>, Infallible>> + Send>>;

impl<S> Service<http::Request<Body>> for Route<S>
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
        let (watches, max) = (self.watches.clone(), Some(self.request_bytes_max));
        match request.uri().path() {
            WATCH => Box::pin(async move {
                let codec = PartsCodec::<v1::WatchApplicationsRequest>::default();
                let mut grpc = Grpc::new(codec).apply_max_message_size_config(max, None);
                Ok(grpc.server_streaming(watches, request).await)
            }),
            MULTIPLEX => Box::pin(async move {
                let codec = PartsCodec::<v1::MultiplexWatchesRequest>::default();
                let mut grpc = Grpc::new(codec).apply_max_message_size_config(max, None);
                Ok(grpc.streaming(watches, request).await)
            }),
            _ => self.inner.call(request),
        }
    }
}

impl ServerStreamingService<v1::WatchApplicationsRequest> for Watches {
    type Response = Parts;
    type ResponseStream = Single;
    type Future = Ready<Result<Response<Single>, Status>>;

    fn call(&mut self, request: Request<v1::WatchApplicationsRequest>) -> Self::Future {
        let deadline = request.extensions().get::<Deadline>().copied();
        let caller = request.extensions().get::<Caller>();
        let access = Access::of(request.extensions());
        let watch = self.single(request.get_ref(), &access, deadline, caller);
        ready(watch.map(Response::new).map_err(Status::from))
    }
}

impl StreamingService<v1::MultiplexWatchesRequest> for Watches {
    type Response = Parts;
    type ResponseStream = Multiplex;
    type Future = Ready<Result<Response<Multiplex>, Status>>;

    fn call(&mut self, request: Request<Streaming<v1::MultiplexWatchesRequest>>) -> Self::Future {
        let deadline = request.extensions().get::<Deadline>().copied();
        let caller = request.extensions().get::<Caller>().cloned();
        let (access, requests) = Access::open(request);
        let watches = self.multiplex(access, requests, deadline, caller.as_ref());
        ready(watches.map(Response::new).map_err(Status::from))
    }
}
