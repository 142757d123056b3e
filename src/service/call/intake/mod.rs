//! Checks requests before their handler: whole messages, within the limits of the method, in time.
//! A layer below [`observe`](super::observe), so that refusals are counted.
//!
//! ```text
//!  observe --> intake --> tonic decodes --> handler
//!              WholeBody: prefix by prefix, within Budgets; Types: parts within their limits
//!              large: decoded beside the threads that serve connections
//! ```

mod body;
pub(in crate::service) mod frame;
mod large;
mod meter;
mod parts;
pub(in crate::service) mod refusal;

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::Either;
use http::{Request, Response};
use prost_types::FileDescriptorSet;
use tokio_util::sync::CancellationToken;
use tonic::body::Body;
use tower::Service;

use crate::service::caller::budget::Budgets;
use body::WholeBody;
use meter::Takes;
pub use meter::{Meter, Shape};
use parts::Types;
pub use parts::{LIST_MAX, PARTS_MAX};

use crate::service::call::Answering;
use crate::service::caller::Caller;
use crate::service::descriptor;
use crate::service::offload::{LARGE_BYTES, Offload};

/// Methods with a higher size limit, because their messages may hold long sets, payloads or lists
/// of names.
const LARGE: [&str; 10] = [
    "/bellwether.v1.AppDataService/UpdateAppData",
    "/bellwether.v1.ApplicationService/MultiplexWatches",
    "/bellwether.v1.ApplicationService/ReplaceApplicationStatuses",
    "/bellwether.v1.ApplicationService/WatchApplications",
    "/bellwether.v1.OperationService/BeginOperation",
    "/bellwether.v1.OperationService/FailOperation",
    "/bellwether.v1.OperationService/HeartbeatOperation",
    "/bellwether.v1.ReportService/ReplaceStatuses",
    "/bellwether.v1.ReportService/ReportError",
    "/bellwether.v1.WorkerService/Connect",
];

/// Limits of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Maximum bytes of a message of a method with a higher size limit: sets, payloads, names.
    pub large_bytes_max: usize,
    /// Maximum bytes of a message of any other method.
    pub small_bytes_max: usize,
    /// How long a message may take from its first byte to its last, and how long the request of a
    /// call with one message may take from its headers to its end.
    pub timeout: Duration,
    /// How many times its size a compressed message may become, if that is more than 64 KiB.
    pub compression_ratio_max: usize,
    /// Maximum statuses of a set, if that is more than any other list may have.
    pub statuses_max: usize,
}

/// Applies the limits to every request of a tonic server.
#[derive(Clone)]
pub struct IntakeLayer(Arc<Rules>);

/// What the layer applies. Each call clones the service, so there is one count of references.
struct Rules {
    methods: HashMap<String, Takes, foldhash::fast::RandomState>,
    common: Arc<Common>,
    /// Of a method that does not exist.
    other: Takes,
    shared: Budgets,
    offload: Offload,
}

/// What every request uses.
#[derive(Default)]
struct Common {
    types: Types,
    compression_ratio_max: usize,
    /// Cancelled when the server starts to shut down.
    draining: CancellationToken,
}

impl IntakeLayer {
    /// Creates the layer for the methods of these descriptors. Requests of a connection without its
    /// own budgets use `shared`. Soon after `draining` is cancelled, the server does not wait for
    /// the rest of a message.
    pub fn new(
        sets: &[FileDescriptorSet],
        limits: Limits,
        shared: Budgets,
        offload: Offload,
        draining: CancellationToken,
    ) -> IntakeLayer {
        let Limits { large_bytes_max, small_bytes_max, timeout, .. } = limits;
        let small_bytes_max = small_bytes_max.min(large_bytes_max);
        let mut types = Types::new(limits.statuses_max);
        sets.iter().for_each(|set| types.add(set));
        let methods = descriptor::methods(sets).map(|(path, method)| {
            let message_bytes_max = match LARGE.contains(&path.as_str()) {
                true => large_bytes_max,
                false => small_bytes_max,
            };
            let one_message = !method.client_streaming();
            let input = types.id(method.input_type());
            (path, Takes { one_message, message_bytes_max, timeout, input })
        });
        let methods = methods.collect();
        let input = types.id(".google.protobuf.Empty");
        let message_bytes_max = small_bytes_max;
        let other = Takes { one_message: true, message_bytes_max, timeout, input };
        let compression_ratio_max = limits.compression_ratio_max;
        let common = Arc::new(Common { types, compression_ratio_max, draining });
        IntakeLayer(Arc::new(Rules { methods, common, other, shared, offload }))
    }

    /// Applies the limits to the requests that reach `inner`.
    pub fn layer<S>(&self, inner: S) -> Intake<S> {
        Intake { inner, layer: self.clone() }
    }

    /// Returns the limits of a call, for a layer above that translates its request. Whatever that
    /// layer holds of a message counts as part of an incomplete message.
    pub fn meter(&self, path: &str, caller: Option<&Caller>) -> Meter {
        let IntakeLayer(rules) = self;
        let takes = rules.methods.get(path).copied().unwrap_or(rules.other);
        let budgets = caller.map_or(&rules.shared, Caller::budgets).clone();
        Meter::new(takes, budgets, rules.common.clone())
    }

    /// Returns the limits of the shape of a message.
    pub fn shape(&self, path: &str) -> Shape {
        let IntakeLayer(rules) = self;
        let takes = rules.methods.get(path).copied().unwrap_or(rules.other);
        Shape::new(takes, rules.common.clone())
    }

    /// Returns where long work is done.
    pub fn offload(&self) -> &Offload {
        &self.0.offload
    }
}

/// The service that [`IntakeLayer`] makes.
#[derive(Clone)]
pub struct Intake<S> {
    inner: S,
    layer: IntakeLayer,
}

impl<S> Service<Request<Body>> for Intake<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
    S: Clone + Send + 'static,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Either<S::Future, Answering>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        // The body of a request for an unknown method is not read.
        let IntakeLayer(rules) = &self.layer;
        let Some(takes) = rules.methods.get(request.uri().path()).copied() else {
            return Either::Left(self.inner.call(request));
        };
        let caller = request.extensions().get::<Caller>();
        let budgets = caller.map_or(&rules.shared, Caller::budgets).clone();
        let whole =
            |body, budgets| WholeBody::new(body, Meter::new(takes, budgets, rules.common.clone()));
        if takes.one_message && LARGE_BYTES < takes.message_bytes_max {
            let request = request.map(|body| whole(body, budgets.clone()));
            let call = large::call(self.inner.clone(), request, budgets, rules.offload.clone());
            return Either::Right(Box::pin(call));
        }
        Either::Left(self.inner.call(request.map(|body| Body::new(whole(body, budgets)))))
    }
}

#[cfg(test)]
mod tests;
