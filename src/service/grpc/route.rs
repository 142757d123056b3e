//! Routes some methods past the generated code of their services, to a handler with a codec of its
//! own.

use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;

use axum::Router;
use axum::middleware::{Next, from_fn};
use http::{Request, Response};
use tonic::Status;
use tonic::body::Body;
use tower::service_fn;

use crate::service::method::{self, AtRelay};
use crate::service::relay::Relay;

/// Adds the method of a path. A path of one method precedes that of its service.
pub fn add<F>(
    router: Router,
    path: &str,
    serve: impl Fn(Request<Body>) -> F + Clone + Send + Sync + 'static,
) -> Router
where
    F: Future<Output = Response<Body>> + Send + 'static,
{
    let serve = service_fn(move |request: Request<axum::body::Body>| {
        let answer = serve(request.map(Body::new));
        async move { Ok::<_, Infallible>(answer.await) }
    });
    router.route_service(path, serve)
}

/// Lets a relay refuse calls, and pass them on, before their handlers.
pub fn at_relay(router: Router, relay: Arc<Relay>) -> Router {
    let rows = Arc::new(method::by_path(method::TABLE));
    let choose = move |request: Request<axum::body::Body>, next: Next| {
        let (relay, row) = (relay.clone(), rows.get(request.uri().path()).copied());
        async move {
            let Some(row) = row else { return next.run(request).await };
            if let Some(problem) = relay.refusal(row) {
                return Status::from(problem).into_http();
            }
            if row.relay == AtRelay::Serves {
                return next.run(request).await;
            }
            let request = request.map(Body::new);
            let response = match row.relay {
                AtRelay::Refuses => relay.refuse(row, request).await,
                AtRelay::Serves | AtRelay::Passes => relay.pass_on(row, request).await,
            };
            response.map(axum::body::Body::new)
        }
    };
    router.layer(from_fn(choose))
}
