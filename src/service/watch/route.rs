//! Routes the two watch methods of `ApplicationService` past the generated code, which would encode
//! each message separately for every reader, and keep a buffer for each silent reader.

use std::future::{Ready, ready};

use prost::Message;
use tonic::body::Body;
use tonic::server::{Grpc, ServerStreamingService, StreamingService};
use tonic::{Request, Response, Status, Streaming};

use super::Watches;
use super::multiplex::Multiplex;
use super::parts::{Parts, PartsCodec};
use super::single::Single;
use crate::proto::v1;
use crate::service::edge::Caller;
use crate::service::guard::Access;
use crate::service::observe::Deadline;
use crate::service::route::{Answering, Handler};

const WATCH: &str = "/bellwether.v1.ApplicationService/WatchApplications";
const MULTIPLEX: &str = "/bellwether.v1.ApplicationService/MultiplexWatches";

impl Handler for Watches {
    fn serves(path: &str) -> bool {
        matches!(path, WATCH | MULTIPLEX)
    }

    fn serve(self, request: http::Request<Body>, bytes_max: usize) -> Answering {
        Box::pin(async move {
            Ok(match request.uri().path() {
                WATCH => grpc(bytes_max).server_streaming(self, request).await,
                _ => grpc(bytes_max).streaming(self, request).await,
            })
        })
    }
}

fn grpc<T: Message + Default + Send + 'static>(bytes_max: usize) -> Grpc<PartsCodec<T>> {
    Grpc::new(PartsCodec::default()).apply_max_message_size_config(Some(bytes_max), None)
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
