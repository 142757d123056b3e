//! `ServerService`: the description of the server, for version commands, doctors and client
//! libraries.

use tonic::{Request, Response, Status};

use crate::proto::v1;
use crate::proto::v1::server_service_server::ServerService;
use crate::service::convert;
use crate::service::grpc::handlers::Handlers;

/// Commit of the source, from `build.rs`; empty if the build did not know it.
const COMMIT: &str = env!("BELLWETHER_COMMIT");

impl Handlers {
    /// Returns the features in alphabetical order. A new name needs a line in the proto.
    fn features(&self) -> Vec<String> {
        let reflection = self.has_reflection.then_some("reflection");
        let relay = self.parts.relay.as_ref().map(|_| "relay");
        let features = ["bounded_answers", "multiplex_watches"].into_iter();
        let features = features.chain(reflection).chain(relay);
        features.map(str::to_string).collect()
    }
}

#[tonic::async_trait]
impl ServerService for Handlers {
    async fn get_server_info(
        &self,
        _request: Request<v1::GetServerInfoRequest>,
    ) -> Result<Response<v1::GetServerInfoResponse>, Status> {
        let limits = self.parts.about.limits.iter().map(|(name, max)| ((*name).to_string(), *max));
        Ok(Response::new(v1::GetServerInfoResponse {
            version: env!("CARGO_PKG_VERSION").to_string(),
            commit: COMMIT.to_string(),
            store_kind: self.parts.about.store_kind as i32,
            limits: limits.collect(),
            time: Some(convert::timestamp(self.parts.store.now())),
            replica_id: format!("{:016x}", self.parts.store.replica().0),
            store_epoch: self.parts.hub.epoch().to_string(),
            features: self.features(),
        }))
    }
}
