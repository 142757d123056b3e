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
pub(super) mod refusals;
mod typed;

use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::FutureExt;
use http::{Request, Response};
use tonic::{Code, Status, body::Body};
use tower::{Layer, Service};
use tracing::Instrument;

pub use body::ObservedBody;
pub use deadline::Deadline;

use crate::telemetry::Metrics;
use call::Call;
use method::Methods;

/// Observes the calls of a tonic server: `Server::builder().layer(ObserveLayer::new(&metrics))`.
///
/// Add it before every other layer: the first layer is the outermost, so that calls that other
/// layers refuse are observed too. Only the limits of tonic itself (`load_shed`,
/// `concurrency_limit_per_connection`) are further out.
#[derive(Clone)]
pub struct ObserveLayer {
    methods: Arc<Methods>,
}

impl ObserveLayer {
    /// Creates the layer for the methods of `proto/` and of reflection; any other method counts as
    /// `_OTHER`.
    pub fn new(metrics: &Metrics) -> Self {
        Self { methods: Arc::new(Methods::known(metrics)) }
    }
}

impl<S> Layer<S> for ObserveLayer {
    type Service = Observe<S>;

    fn layer(&self, inner: S) -> Observe<S> {
        Observe { inner, methods: Arc::clone(&self.methods) }
    }
}

/// The service that [`ObserveLayer`] makes.
#[derive(Clone)]
pub struct Observe<S> {
    inner: S,
    methods: Arc<Methods>,
}

impl<S> Service<Request<Body>> for Observe<S>
where
    S: Service<Request<Body>, Response = Response<Body>>,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
{
    type Response = Response<ObservedBody>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let call = Call::begin(self.methods.find(request.uri().path()), &request);
        if let Some(deadline) = call.deadline() {
            request.extensions_mut().insert(deadline);
        }
        let inner = &mut self.inner;
        let started = call.span().in_scope(|| {
            // A panic may leave the handler's own state inconsistent, but not the state of this
            // layer. State that handlers share is behind locks and channels, which report a panic.
            catch_unwind(AssertUnwindSafe(|| inner.call(request)))
        });
        Box::pin(answer(call, started))
    }
}

/// Waits for the headers of the response.
async fn answer<F, E>(
    mut call: Call,
    started: Result<F, Box<dyn Any + Send>>,
) -> Result<Response<ObservedBody>, E>
where
    F: Future<Output = Result<Response<Body>, E>>,
{
    let answered = match started {
        Ok(future) => {
            let guarded = AssertUnwindSafe(future).catch_unwind().instrument(call.span().clone());
            match call.deadline() {
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
        Ok(Err(error)) => {
            call.finish(Code::Unknown, None);
            Err(error)
        }
        Err(panic) => {
            let status = call.panicked(panic.as_ref());
            Ok(observed(status.into_http(), call))
        }
    }
}

fn observed(mut response: Response<Body>, mut call: Call) -> Response<ObservedBody> {
    typed::complete(response.headers_mut());
    call.answered(response.headers());
    response.map(|body| ObservedBody::new(body, call))
}

fn past_deadline() -> Response<Body> {
    Status::deadline_exceeded("the deadline of the call has passed").into_http()
}

#[cfg(test)]
mod tests;
