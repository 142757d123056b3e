//! The path of one call, from its headers to the last byte of its answer.
//!
//! ```text
//!  request                                               answer
//!    |  Observed: a span, the deadline of the caller         ^  CallBody: the end of the call is
//!    |  identify: who calls? Access in the extensions        |  one metric and one line in the
//!    |  count: the rate, the open calls of an Account        |  log; counts, room and rights end
//!    |  count: room for a long answer                        |  with it
//!    |  intake: whole messages, within limits, in time       |
//!    '-----------------------> handler ----------------------'
//! ```
//!
//! The path of the request is looked up once; `KnownMethod` has all that depends on the method.
//! Handlers neither measure nor log. A refusal is an answer as any other: it is counted and logged.
//!
//! The span of a call lasts until the end of the call, and has its status. A collector receives the
//! span of a watch when the watch ends.

mod body;
mod count;
mod deadline;
mod identify;
pub mod intake;
mod known;
mod observed;
mod typed;

use std::convert::Infallible;
use std::future::{Future, ready};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::{Request, Response};
use prost_types::FileDescriptorSet;
use tokio::time::Instant;
use tonic::Status;
use tonic::body::Body;
use tower::Service;
use tracing::Instrument;

pub use body::CallBody;
pub use deadline::Deadline;
pub(super) use identify::Guarded;
pub use identify::{Access, Extent, Reader};

use crate::security::Protection;
use crate::service::caller::{self, outgoing};
use crate::service::method::Method;
use crate::telemetry::Metrics;
use body::Held;
use count::Counts;
use identify::Guard;
use intake::Intake;
use known::{KnownMethod, Methods};
use observed::Observed;

/// The gRPC services, with all that a call passes before its handler.
#[derive(Clone)]
pub struct Calls<S> {
    services: S,
    checks: Arc<Checks>,
}

/// What every call passes.
struct Checks {
    methods: Methods,
    guard: Arc<Guard>,
    counts: Counts,
    intake: Intake,
}

/// The parts of [`Calls`].
pub struct CallParts<'a> {
    /// The methods that are served.
    pub methods: &'static [Method],
    /// Their descriptors.
    pub descriptors: &'a [FileDescriptorSet],
    /// Who may call.
    pub protection: Arc<Protection>,
    /// The part of a store that is served; `None`: all.
    pub extent: Option<Arc<dyn Extent>>,
    /// What one caller may use.
    pub limits: caller::Limits,
    /// Bytes of answers under way.
    pub answers: outgoing::Limits,
    /// The limits of requests.
    pub intake: Intake,
    /// Counts calls.
    pub metrics: Metrics,
}

impl<S> Calls<S> {
    /// Creates the path of calls to `services`.
    ///
    /// # Panics
    /// If a method of the descriptors has no row, so that such a server does not start.
    pub fn new(parts: CallParts<'_>, services: S) -> Calls<S> {
        let CallParts { methods, descriptors, protection, extent, .. } = parts;
        let CallParts { limits, answers, intake, metrics, .. } = parts;
        let checks = Checks {
            methods: Methods::new(methods, descriptors, &intake, &metrics),
            guard: Arc::new(Guard::new(protection, extent, metrics)),
            counts: Counts::new(limits, answers),
            intake,
        };
        Calls { services, checks: Arc::new(checks) }
    }
}

impl<S> Service<Request<Body>> for Calls<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
    S: Clone + Send + 'static,
    S::Future: Send + 'static,
{
    type Response = Response<CallBody>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<CallBody>, Infallible>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.services.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let method = self.checks.methods.find(request.uri().path());
        let call = Observed::begin(method, &request);
        if let Some(deadline) = call.deadline {
            if deadline.0 <= Instant::now() {
                // Its handler must not begin: a quick one would end before the time is read.
                let answer = CallBody::of(past_deadline().into_http(), call, Held::default());
                return Box::pin(ready(Ok(answer)));
            }
            request.extensions_mut().insert(deadline);
        }
        // The one that is ready.
        let next = self.services.clone();
        let services = std::mem::replace(&mut self.services, next);
        Box::pin(observed(call, services, self.checks.clone(), request))
    }
}

/// Waits for the headers of the answer, at most until the deadline of the caller.
async fn observed<S>(
    call: Observed,
    services: S,
    checks: Arc<Checks>,
    request: Request<Body>,
) -> Result<Response<CallBody>, Infallible>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
    S: Send + 'static,
    S::Future: Send + 'static,
{
    let work = answer(services, checks, call.method.clone(), request);
    // A panic may leave the handler's own state inconsistent, but not the state of this path. State
    // that handlers share is behind locks and channels, which report a panic.
    let work = AssertUnwindSafe(work).catch_unwind().instrument(call.span.clone());
    let answered = match call.deadline {
        // tonic would end the call as well, but as CANCELLED instead of DEADLINE_EXCEEDED.
        Some(Deadline(at)) => match tokio::time::timeout_at(at, work).await {
            Ok(answered) => answered,
            Err(_) => Ok(Err(past_deadline())),
        },
        None => work.await,
    };
    Ok(match answered.unwrap_or_else(|panic| Err(call.panicked(panic.as_ref()))) {
        Ok(CallAnswer { response, held }) => CallBody::of(response, call, held),
        Err(status) => CallBody::of(status.into_http(), call, Held::default()),
    })
}

/// An answer with what it holds until its end.
struct CallAnswer {
    response: Response<Body>,
    held: Held,
}

/// Answers a call, or refuses it at the first step that it does not pass.
async fn answer<S>(
    mut services: S,
    checks: Arc<Checks>,
    method: Arc<KnownMethod>,
    mut request: Request<Body>,
) -> Result<CallAnswer, Status>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
    S: Send + 'static,
    S::Future: Send + 'static,
{
    let Some(row) = method.row else {
        // The router answers that there is no such method, and reads nothing.
        let Ok(response) = services.call(request).await;
        return Ok(CallAnswer { response, held: Held::default() });
    };
    let access = checks.guard.admit(&request, row)?;
    request.extensions_mut().insert(access.clone());
    let open = checks.counts.admit(&mut request, &access, row)?;
    // The future of a short call is moved several times, so what is rare is in boxes.
    let held = match row.answer.bytes() {
        None => Held::of(open),
        Some(bytes) => Box::pin(count::reserve(&mut request, bytes, open)).await?,
    };
    if method.is_streaming && access.may_end() {
        let request = request.map(|body| Guarded::request(body, access.clone()));
        let answering = checks.intake.call(method.takes, services, request);
        return Ok(CallAnswer { response: Box::pin(while_valid(access, answering)).await?, held });
    }
    let Ok(response) = checks.intake.call(method.takes, services, request).await;
    // The call may have waited: the answer reaches the caller only if its proof still holds.
    match access.problem() {
        Some(problem) => Err(problem.into()),
        None => Ok(CallAnswer { response, held }),
    }
}

/// Waits for the headers of a stream, as long as the proof of the caller is valid. The stream ends
/// with it.
async fn while_valid(
    access: Access,
    answering: impl Future<Output = Result<Response<Body>, Infallible>>,
) -> Result<Response<Body>, Status> {
    tokio::select! {
        biased;
        answer = answering => {
            let Ok(response) = answer;
            Ok(response.map(|body| Guarded::response(body, access)))
        }
        problem = access.ended() => Err(problem.into()),
    }
}

fn past_deadline() -> Status {
    Status::deadline_exceeded("the deadline of the call has passed")
}

#[cfg(test)]
mod tests;
