//! Serves the two watch methods of `ApplicationService` past the generated code, which would encode
//! each message separately for every reader, and keep a buffer for each silent reader.

use std::future::ready;

use prost::Message;
use tonic::body::Body;
use tonic::server::Grpc;
use tonic::{Request, Response, Status, Streaming};
use tower::service_fn;

use super::Watches;
use super::cohorts::Cohorts;
use super::multiplex::Multiplex;
use super::parts::PartsCodec;
use super::single::Single;
use crate::proto::v1;
use crate::service::call::{Access, Deadline};
use crate::service::caller::Caller;
use crate::service::code::ApiError;

/// The path of the method for one watch.
pub const WATCH: &str = "/bellwether.v1.ApplicationService/WatchApplications";
/// The path of the method for many watches.
pub const MULTIPLEX: &str = "/bellwether.v1.ApplicationService/MultiplexWatches";

fn grpc<T: Message + Default + Send + 'static>(bytes_max: usize) -> Grpc<PartsCodec<T>> {
    Grpc::new(PartsCodec::default()).apply_max_message_size_config(Some(bytes_max), None)
}

impl Watches {
    /// Serves a call of [`WATCH`]. A request may have at most `bytes_max` bytes.
    pub async fn serve_watch(
        self,
        request: http::Request<Body>,
        bytes_max: usize,
    ) -> http::Response<Body> {
        let watch = service_fn(move |request| {
            ready(self.single(&request).map(Response::new).map_err(Status::from))
        });
        grpc(bytes_max).server_streaming(watch, request).await
    }

    /// Serves a call of [`MULTIPLEX`]. A request may have at most `bytes_max` bytes.
    pub async fn serve_multiplex(
        self,
        request: http::Request<Body>,
        bytes_max: usize,
    ) -> http::Response<Body> {
        let watches = service_fn(move |request| {
            ready(self.multiplex(request).map(Response::new).map_err(Status::from))
        });
        grpc(bytes_max).streaming(watches, request).await
    }

    /// Starts a watch on its own stream.
    fn single(&self, request: &Request<v1::WatchApplicationsRequest>) -> Result<Single, ApiError> {
        let extensions = request.extensions();
        let (caller, deadline) = (extensions.get::<Caller>(), extensions.get::<Deadline>());
        let place = self.place(caller)?;
        let (access, peer) = (Access::of(extensions), caller.map(Caller::address));
        let track = self.track(&access, request.get_ref(), peer)?;
        Ok(Single::new(self.clone(), track, deadline.copied(), place))
    }

    /// Starts a multiplexed stream.
    fn multiplex(
        &self,
        request: Request<Streaming<v1::MultiplexWatchesRequest>>,
    ) -> Result<Multiplex, ApiError> {
        let deadline = request.extensions().get::<Deadline>().copied();
        let caller = request.extensions().get::<Caller>().cloned();
        let place = self.place(caller.as_ref())?;
        let (access, requests) = Access::open(request);
        let cohorts = Cohorts::new(self.clone(), access, caller.as_ref().map(Caller::address));
        Ok(Multiplex::new(cohorts, requests, deadline, place, caller.as_ref()))
    }
}
