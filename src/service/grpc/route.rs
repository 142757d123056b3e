//! Routes some methods past the generated code of their services, to a handler with a codec of its
//! own.

use std::convert::Infallible;
use std::future::Future;

use axum::Router;
use http::{Request, Response};
use tonic::body::Body;
use tower::service_fn;

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
