//! The layer that identifies callers. It refuses callers that are not known, and those without a
//! role for the method, before it reads the body of their request. It ends the streams of a caller
//! whose credentials expire or are revoked, and withholds other answers from it.
//!
//! ```text
//!  observe --> guard --> intake --> handler
//!              identify: Access in the extensions     Access::check, by the table of rights
//!              streams: request and response end when the proof ends, or is revoked
//!              other answers: checked again when they are ready, for a call may wait
//! ```

mod access;
mod body;
mod refusal;

use std::collections::HashMap;
use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::future::Either;
use http::{Request, Response};
use tonic::body::Body;
use tower::Service;

pub use access::Access;
pub(in crate::service) use body::Guarded;

use crate::security::Protection;
use crate::security::identity::Refusal;
use crate::security::role::right::{MethodRight, Right, TABLE};
use crate::service::call::Answering;
use crate::service::caller::Caller;
use crate::service::caller::Presented;
use crate::service::code::ApiError;
use crate::service::descriptor;
use crate::telemetry::Metrics;
use access::{CallerState, State};
use refusal::{Refusals, invalid, missing};

/// Protects every call of a tonic server.
#[derive(Clone)]
pub struct Guard<S> {
    inner: S,
    rules: Arc<Rules>,
}

/// What the layer applies.
struct Rules {
    protection: Arc<Protection>,
    refusals: Refusals,
    methods: Methods,
}

impl<S> Guard<S> {
    /// Protects the calls that reach `inner`.
    ///
    /// # Panics
    /// If a method has no row in the table of rights, so that such a server does not start.
    pub fn new(protection: Arc<Protection>, metrics: Metrics, inner: S) -> Guard<S> {
        let (refusals, methods) = (Refusals::new(metrics), rows());
        Guard { inner, rules: Arc::new(Rules { protection, refusals, methods }) }
    }
}

impl<S> Service<Request<Body>> for Guard<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Either<S::Future, Answering>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        if !self.rules.protection.is_on() {
            request.extensions_mut().insert(Access::unprotected());
            return Either::Left(self.inner.call(request));
        }
        let Some(&method) = self.rules.methods.get(request.uri().path()) else {
            // No such method: the router says so, and reads nothing.
            return Either::Left(self.inner.call(request));
        };
        let access = match self.rules.admit(&request, method.right) {
            Ok(access) => access,
            Err(problem) => {
                let answer = tonic::Status::from(problem).into_http();
                return Either::Right(Box::pin(std::future::ready(Ok(answer))));
            }
        };
        request.extensions_mut().insert(access.clone());
        if !method.is_streaming {
            // It ends by itself, some seconds later if it waits.
            let answer = self.inner.call(request);
            return Either::Right(Box::pin(whole(access, answer)));
        }
        let request = request.map(|body| Guarded::request(body, access.clone()));
        let answer = self.inner.call(request);
        Either::Right(Box::pin(answered(access, answer)))
    }
}

impl Rules {
    /// Identifies the caller of a request, and checks that it has a role for the method at all.
    pub(in crate::service) fn admit(
        self: &Arc<Rules>,
        request: &Request<Body>,
        row: &'static MethodRight,
    ) -> Result<Access, ApiError> {
        let unknown = Presented::default();
        let presented = request.extensions().get::<Presented>().unwrap_or(&unknown);
        let credentials = presented.credentials(request.headers());
        let version = self.protection.version();
        let identity = match presented.identify(&self.protection, &credentials) {
            Ok(identity) => identity,
            Err(Refusal::Nothing) if row.right == Right::Anyone => {
                return Ok(Access(State::Unknown));
            }
            Err(why) => {
                let peer = request.extensions().get::<Caller>().map(Caller::address);
                self.refusals.stranger(peer, request.uri().path(), why);
                return Err(match why {
                    Refusal::Nothing => missing(),
                    _ => invalid(),
                });
            }
        };
        let grants = self.protection.grants(&identity.principal);
        if row.right.roles().is_some_and(|roles| !grants.have(roles)) {
            return Err(self.refusals.denied(&identity.principal, row, None));
        }
        let rules = self.clone();
        let caller = CallerState { rules, version, credentials, identity, grants, row };
        Ok(Access(State::Known(Arc::new(caller))))
    }
}

/// Waits for an answer of one message. It reaches the caller only if the proof still holds.
async fn whole(
    access: Access,
    answer: impl Future<Output = Result<Response<Body>, Infallible>>,
) -> Result<Response<Body>, Infallible> {
    let answer = answer.await;
    match access.problem() {
        Some(problem) => Ok(tonic::Status::from(problem).into_http()),
        None => answer,
    }
}

/// Waits for the headers of the response, as long as the proof of the caller is valid.
async fn answered(
    access: Access,
    answer: impl Future<Output = Result<Response<Body>, Infallible>>,
) -> Result<Response<Body>, Infallible> {
    tokio::select! {
        biased;
        answer = answer => Ok(answer?.map(|body| Guarded::response(body, access))),
        problem = access.ended() => Ok(tonic::Status::from(problem).into_http()),
    }
}

/// A method, as the guard sees it.
#[derive(Clone, Copy)]
struct GuardedMethod {
    /// Its right.
    right: &'static MethodRight,
    /// Whether one of its sides is a stream, which may be open for days.
    is_streaming: bool,
}

/// The methods by their paths.
type Methods = HashMap<String, GuardedMethod, foldhash::fast::RandomState>;

/// Returns every method.
///
/// # Panics
/// If a method of the descriptors has no row.
fn rows() -> Methods {
    let path = |right: &MethodRight| format!("/{}/{}", right.service, right.method);
    let rights: HashMap<_, _> = TABLE.iter().map(|right| (path(right), right)).collect();
    let rows = descriptor::methods(descriptor::served()).map(|(path, method)| {
        let Some(right) = rights.get(&path).copied() else {
            panic!("{path} has no row in the table of rights");
        };
        let is_streaming = method.client_streaming() || method.server_streaming();
        (path, GuardedMethod { right, is_streaming })
    });
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_method_has_one_row_and_every_row_a_method() {
        let served = descriptor::methods(descriptor::served());
        let mut served: Vec<String> = served.map(|(path, _)| path).collect();
        let mut rows: Vec<String> = rows().into_keys().collect();
        served.sort();
        served.dedup();
        rows.sort();
        assert_eq!(rows, served);
        assert_eq!(TABLE.len(), served.len(), "a method has two rows");
    }
}
