//! What is taken of a request before its handler sees it: whole messages, within the limits of the
//! method, in time. A layer below [`observe`](super::observe), so that refusals are counted.
//!
//! ```text
//!  observe --> intake --> tonic decodes --> handler
//!              WholeBody: prefix by prefix, within Budgets
//! ```

mod body;
pub mod budget;
mod frame;
mod refusal;

use std::collections::HashMap;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Request;
use prost::Message;
use prost_types::FileDescriptorSet;
use tonic::body::Body;
use tower::{Layer, Service};

use body::{Takes, WholeBody};
use budget::Budgets;

use crate::proto;
use crate::service::edge::Caller;

/// Methods that take more than others, because their messages hold sets, payloads or lists of
/// names that are allowed to be long.
const LARGE: [&str; 9] = [
    "/bellwether.v1.AppDataService/UpdateAppData",
    "/bellwether.v1.ApplicationService/MultiplexWatches",
    "/bellwether.v1.ApplicationService/WatchApplications",
    "/bellwether.v1.OperationService/BeginOperation",
    "/bellwether.v1.OperationService/FailOperation",
    "/bellwether.v1.OperationService/HeartbeatOperation",
    "/bellwether.v1.ReportService/ReplaceStatuses",
    "/bellwether.v1.ReportService/ReportError",
    "/bellwether.v1.WorkerService/Connect",
];

/// Bounds of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a message of a method that takes much.
    pub large_bytes_max: usize,
    /// Bytes of a message of any other.
    pub small_bytes_max: usize,
    /// How long a message may take from its first byte to its last, and the request of a call with
    /// one message from its headers to its end.
    pub patience: Duration,
}

/// Puts every request of a tonic server behind its limits.
#[derive(Clone)]
pub struct IntakeLayer {
    methods: Arc<HashMap<String, Takes>>,
    shared: Budgets,
}

impl IntakeLayer {
    /// Knows the methods of `proto/` and of reflection. A request whose connection has no budgets
    /// of its own draws on `shared`.
    pub fn new(limits: Limits, shared: Budgets) -> IntakeLayer {
        let sets = [
            proto::FILE_DESCRIPTOR_SET,
            tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET,
            tonic_reflection::pb::v1alpha::FILE_DESCRIPTOR_SET,
        ];
        let sets = sets.map(|set| FileDescriptorSet::decode(set).expect("ours decode, by a test"));
        let methods = sets.iter().flat_map(|set| methods(set, limits));
        IntakeLayer { methods: Arc::new(methods.collect()), shared }
    }
}

fn methods(set: &FileDescriptorSet, limits: Limits) -> impl Iterator<Item = (String, Takes)> {
    set.file.iter().flat_map(move |file| {
        file.service.iter().flat_map(move |service| {
            service.method.iter().map(move |method| {
                let path = format!("/{}.{}/{}", file.package(), service.name(), method.name());
                let message_bytes_max = match LARGE.contains(&path.as_str()) {
                    true => limits.large_bytes_max,
                    false => limits.small_bytes_max,
                };
                let one_message = !method.client_streaming();
                (path, Takes { one_message, message_bytes_max, patience: limits.patience })
            })
        })
    })
}

impl<S> Layer<S> for IntakeLayer {
    type Service = Intake<S>;

    fn layer(&self, inner: S) -> Intake<S> {
        Intake { inner, layer: self.clone() }
    }
}

/// The service that [`IntakeLayer`] makes.
#[derive(Clone)]
pub struct Intake<S> {
    inner: S,
    layer: IntakeLayer,
}

impl<S: Service<Request<Body>>> Service<Request<Body>> for Intake<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> S::Future {
        // Nothing is read of a request for what there is not.
        let Some(takes) = self.layer.methods.get(request.uri().path()).copied() else {
            return self.inner.call(request);
        };
        let caller = request.extensions().get::<Caller>();
        let budgets = caller.map_or(&self.layer.shared, Caller::budgets).clone();
        self.inner.call(request.map(|body| Body::new(WholeBody::new(body, takes, budgets))))
    }
}

#[cfg(test)]
mod tests;
