//! The layer around every call: spans, metrics, log lines, deadlines and panics. Handlers neither
//! measure nor log.
//!
//! ```text
//!  request --> span (child of the caller's) --> handler --> headers --> body --> trailers
//!              Deadline in the extensions       panic = INTERNAL          the end: one metric,
//!              metric, log line: `Call` --------- dropped = CANCELLED --- one line in the log
//! ```
//!
//! The span of a unary call lasts until the end of the call. The span of a stream covers only its
//! opening: otherwise a collector would receive it when the watch ends, which may be days later.

mod body;
mod call;
mod deadline;
mod method;
mod typed;

use std::any::Any;
use std::convert::Infallible;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::{Request, Response};
use tokio::time::Instant;
use tonic::{Status, body::Body};
use tower::Service;
use tracing::Instrument;

pub use body::ObservedBody;
pub use deadline::Deadline;

use crate::telemetry::Metrics;
use call::Call;
use method::Methods;

/// Observes the calls of a server. It is around every other layer, so that calls that other layers
/// refuse are observed too.
#[derive(Clone)]
pub struct Observe<S> {
    inner: S,
    methods: Arc<Methods>,
}

impl<S> Observe<S> {
    /// Observes the calls that reach `inner`, by the methods of `proto/` and of reflection; any
    /// other method counts as `_OTHER`.
    pub fn new(metrics: &Metrics, inner: S) -> Observe<S> {
        Observe { inner, methods: Arc::new(Methods::known(metrics)) }
    }
}

impl<S> Service<Request<Body>> for Observe<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = Response<ObservedBody>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let call = Call::begin(self.methods.find(request.uri().path()), &request);
        if let Some(deadline) = call.deadline {
            if deadline.0 <= Instant::now() {
                // Its handler must not begin: a quick one would end before the time is read.
                return Box::pin(std::future::ready(Ok(observed(past_deadline(), call))));
            }
            request.extensions_mut().insert(deadline);
        }
        let inner = &mut self.inner;
        let started = call.span.in_scope(|| {
            // A panic may leave the handler's own state inconsistent, but not the state of this
            // layer. State that handlers share is behind locks and channels, which report a panic.
            catch_unwind(AssertUnwindSafe(|| inner.call(request)))
        });
        Box::pin(answer(call, started))
    }
}

/// Waits for the headers of the response.
async fn answer(
    call: Call,
    started: Result<impl Future<Output = Result<Response<Body>, Infallible>>, Box<dyn Any + Send>>,
) -> Result<Response<ObservedBody>, Infallible> {
    let answered = match started {
        Ok(future) => {
            let guarded = AssertUnwindSafe(future).catch_unwind().instrument(call.span.clone());
            match call.deadline {
                // tonic would end the call as well, but as CANCELLED instead of DEADLINE_EXCEEDED.
                Some(Deadline(at)) => match tokio::time::timeout_at(at, guarded).await {
                    Ok(answered) => answered,
                    Err(_) => Ok(Ok(past_deadline())),
                },
                None => guarded.await,
            }
        }
        Err(panic) => Err(panic),
    };
    match answered {
        Ok(Ok(response)) => Ok(observed(response, call)),
        Err(panic) => {
            let status = call.panicked(panic.as_ref());
            Ok(observed(status.into_http(), call))
        }
    }
}

fn observed(mut response: Response<Body>, mut call: Call) -> Response<ObservedBody> {
    typed::complete(response.headers_mut());
    call.answered(response.headers());
    response.map(|inner| ObservedBody { inner, call })
}

fn past_deadline() -> Response<Body> {
    Status::deadline_exceeded("the deadline of the call has passed").into_http()
}

#[cfg(test)]
mod tests;
