//! Checks requests before their handler: whole messages, within the limits of the method, in time.
//!
//! ```text
//!  Intake::call --> tonic decodes --> handler
//!      WholeBody: prefix by prefix, within Budgets; Types: parts within their limits
//!      large: decoded beside the threads that serve connections
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
use std::time::Duration;

use futures_util::future::{BoxFuture, Either};
use http::{Request, Response};
use prost_types::FileDescriptorSet;
use tokio_util::sync::CancellationToken;
use tonic::body::Body;
use tower::Service;

use crate::service::caller::budget::Budgets;
use body::WholeBody;
pub(in crate::service) use meter::Takes;
pub use meter::{Meter, Shape};
use parts::Types;
pub use parts::{LIST_MAX, PARTS_MAX};

use crate::service::caller::Caller;
use crate::service::descriptor;
use crate::service::method::{Method, RequestSize, by_path};
use crate::service::offload::{LARGE_BYTES, Offload};

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

/// The limits of every request. Cheap to clone.
#[derive(Clone)]
pub struct Intake(Arc<Rules>);

/// What the limits are made of.
struct Rules {
    takes: HashMap<String, Takes, foldhash::fast::RandomState>,
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

impl Intake {
    /// Creates the limits for the methods of these descriptors, each with its row. Requests of a
    /// connection without its own budgets use `shared`. Soon after `draining` is cancelled, the
    /// server does not wait for the rest of a message.
    pub fn new(
        methods: &[Method],
        sets: &[FileDescriptorSet],
        limits: Limits,
        shared: Budgets,
        offload: Offload,
        draining: CancellationToken,
    ) -> Intake {
        let Limits { large_bytes_max, small_bytes_max, timeout, .. } = limits;
        let small_bytes_max = small_bytes_max.min(large_bytes_max);
        let mut types = Types::new(limits.statuses_max);
        sets.iter().for_each(|set| types.add(set));
        let rows = by_path(methods);
        let takes = descriptor::methods(sets).map(|(path, method)| {
            let message_bytes_max = match rows.get(&path).map(|row| row.request) {
                Some(RequestSize::Large) => large_bytes_max,
                Some(RequestSize::Small) | None => small_bytes_max,
            };
            let one_message = !method.client_streaming();
            let input = types.id(method.input_type());
            (path, Takes { one_message, message_bytes_max, timeout, input })
        });
        let takes = takes.collect();
        let input = types.id(".google.protobuf.Empty");
        let message_bytes_max = small_bytes_max;
        let other = Takes { one_message: true, message_bytes_max, timeout, input };
        let compression_ratio_max = limits.compression_ratio_max;
        let common = Arc::new(Common { types, compression_ratio_max, draining });
        Intake(Arc::new(Rules { takes, common, other, shared, offload }))
    }

    /// Returns the limits of the methods of the server, with room for anything.
    #[cfg(test)]
    pub(super) fn for_tests() -> Intake {
        let timeout = Duration::from_secs(10);
        let bytes_max = 1 << 20;
        let limits = Limits {
            large_bytes_max: bytes_max,
            small_bytes_max: bytes_max,
            timeout,
            compression_ratio_max: 100,
            statuses_max: 100,
        };
        let offload = Offload::new(1, crate::telemetry::Metrics::disabled());
        let draining = CancellationToken::new();
        let (methods, served) = (crate::service::method::TABLE, descriptor::served());
        Intake::new(methods, served, limits, Arc::from([]), offload, draining)
    }

    /// Returns the limits of a method.
    pub(in crate::service) fn takes(&self, path: &str) -> Takes {
        self.0.takes.get(path).copied().unwrap_or(self.0.other)
    }

    /// Calls a handler with a request within its limits.
    pub(super) fn call<S>(
        &self,
        takes: Takes,
        mut services: S,
        request: Request<Body>,
    ) -> Either<S::Future, BoxFuture<'static, Result<Response<Body>, Infallible>>>
    where
        S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
        S: Send + 'static,
        S::Future: Send + 'static,
    {
        let Intake(rules) = self;
        let budgets = self.budgets(request.extensions().get::<Caller>());
        let whole =
            |body, budgets| WholeBody::new(body, Meter::new(takes, budgets, rules.common.clone()));
        if takes.one_message && LARGE_BYTES < takes.message_bytes_max {
            let request = request.map(|body| whole(body, budgets.clone()));
            let call = large::call(services, request, budgets, rules.offload.clone());
            return Either::Right(Box::pin(call));
        }
        Either::Left(services.call(request.map(|body| Body::new(whole(body, budgets)))))
    }

    fn budgets(&self, caller: Option<&Caller>) -> Budgets {
        caller.map_or(&self.0.shared, Caller::budgets).clone()
    }

    /// Returns the limits of a call, for a layer above that translates its request. Whatever that
    /// layer holds of a message counts as part of an incomplete message.
    pub(in crate::service) fn meter(&self, takes: Takes, caller: Option<&Caller>) -> Meter {
        Meter::new(takes, self.budgets(caller), self.0.common.clone())
    }

    /// Returns the limits of the shape of a message.
    pub(in crate::service) fn shape(&self, takes: Takes) -> Shape {
        Shape::new(takes, self.0.common.clone())
    }

    /// Returns where long work is done.
    pub fn offload(&self) -> &Offload {
        &self.0.offload
    }
}

#[cfg(test)]
mod tests;
