//! The ops port: probes and metrics for operators.

mod applications;
mod serve;

use std::fmt::Write;
use std::net::IpAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, VARY};
use axum::http::{Request, StatusCode};
use axum::response::IntoResponse;
use axum::routing::get;

use crate::security::Protection;
use crate::security::role::Need;
use crate::service::caller::Presented;
use crate::service::web::{Hosts, Origins, Refused, gzip};
use crate::telemetry::{self, Prometheus};

pub use applications::states;
pub use serve::serve;

/// State of the ops port.
#[derive(Clone)]
pub struct Ops {
    /// Source of the metrics.
    pub prometheus: Prometheus,
    /// Knows the callers.
    pub protection: Arc<Protection>,
    /// The hosts that a request of this machine may name.
    pub origins: Origins,
    /// Checks whether the server can serve. Called for each request, so it must not block.
    pub ready: Arc<dyn Fn() -> Readiness + Send + Sync>,
}

/// Whether the server can serve, part by part.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Readiness {
    checks: Vec<(&'static str, Result<Option<String>, String>)>,
}

impl Readiness {
    /// Adds a part; an error is a sentence about the problem.
    #[must_use]
    pub fn with(mut self, part: &'static str, result: Result<(), String>) -> Self {
        self.checks.push((part, result.map(|()| None)));
        self
    }

    /// Adds a part that is always ready, with a sentence about its state.
    #[must_use]
    pub fn with_note(mut self, part: &'static str, note: String) -> Self {
        self.checks.push((part, Ok(Some(note))));
        self
    }

    /// Returns whether every part is ready.
    pub fn is_ready(&self) -> bool {
        self.checks.iter().all(|(_, result)| result.is_ok())
    }

    /// Returns a line for each part, in the format of the Kubernetes probes.
    fn text(&self) -> String {
        let mut text = String::new();
        for (part, result) in &self.checks {
            let line = match result {
                Ok(None) => writeln!(text, "[+]{part} ok"),
                Ok(Some(note)) => writeln!(text, "[+]{part} ok: {note}"),
                Err(sentence) => writeln!(text, "[-]{part} {sentence}"),
            };
            line.expect("a String takes everything");
        }
        text
    }
}

impl Ops {
    /// Serves `/metrics`, `/livez` and `/readyz` (`?verbose` lists the parts even if all are
    /// ready).
    pub fn router(self) -> Router {
        Router::new()
            .route("/metrics", get(metrics))
            .route("/livez", get(|| async { "ok\n" }))
            .route("/readyz", get(readyz))
            .with_state(self)
    }
}

/// The caller of a request: its address, and what its connection presents.
#[derive(Clone)]
struct Scraper {
    address: IpAddr,
    presented: Presented,
}

/// Refuses a caller that may not read everything. Metrics and details have names and numbers that
/// strangers need not know.
///
/// A caller of this machine is served if no web page sends its request; one of another machine by
/// its rights, or always without protection.
fn check<T>(ops: &Ops, request: &Request<T>) -> Result<(), Refused> {
    let Some(Scraper { address, presented }) = request.extensions().get() else { return Ok(()) };
    let is_local = address.to_canonical().is_loopback();
    ops.origins.check_host(request, if is_local { Hosts::Short } else { Hosts::Any })?;
    if is_local && is_of_page(request) {
        return Err((StatusCode::FORBIDDEN, "a web page may not read this"));
    }
    if !ops.protection.is_on() || is_local {
        return Ok(());
    }
    let credentials = presented.credentials(request.headers());
    let identity = presented.identify(&ops.protection, &credentials);
    let identity = identity.map_err(|_| (StatusCode::UNAUTHORIZED, "the caller is not known"))?;
    match ops.protection.grants(&identity.principal).allow(Need::List(None)) {
        true => Ok(()),
        false => Err((StatusCode::FORBIDDEN, "the caller may not read all applications")),
    }
}

/// Returns whether the page of another site sends a request, by what a browser says about it.
fn is_of_page<T>(request: &Request<T>) -> bool {
    let site = request.headers().get("sec-fetch-site");
    site.is_some_and(|site| site != "none" && site != "same-origin")
}

async fn metrics(State(ops): State<Ops>, request: Request<Body>) -> impl IntoResponse {
    if let Err((status, text)) = check(&ops, &request) {
        return (status, format!("{text}\n")).into_response();
    }
    let headers = request.headers();
    let accept = headers.get(ACCEPT).and_then(|accept| accept.to_str().ok());
    let (kind, text) = match accept.is_some_and(telemetry::prefers_open_metrics) {
        true => (telemetry::OPEN_METRICS, ops.prometheus.open_metrics()),
        false => (telemetry::CONTENT_TYPE, ops.prometheus.text()),
    };
    let is_gzip = headers.get(ACCEPT_ENCODING).is_some_and(gzip::is_accepted);
    let head = [(CONTENT_TYPE, kind), (VARY, "accept, accept-encoding")];
    match is_gzip.then(|| gzip::compress(text.as_bytes())).flatten() {
        Some(small) => (head, [(CONTENT_ENCODING, "gzip")], small).into_response(),
        None => (head, text).into_response(),
    }
}

async fn readyz(
    State(ops): State<Ops>,
    RawQuery(query): RawQuery,
    request: Request<Body>,
) -> impl IntoResponse {
    let readiness = (ops.ready)();
    let is_verbose = query.is_some_and(|query| query.split('&').any(|one| one == "verbose"));
    let may_know = check(&ops, &request).is_ok();
    match readiness.is_ready() {
        true if is_verbose && may_know => (StatusCode::OK, readiness.text()),
        true => (StatusCode::OK, "ok\n".to_owned()),
        false if !may_know => (StatusCode::SERVICE_UNAVAILABLE, "not ready\n".to_owned()),
        false => (StatusCode::SERVICE_UNAVAILABLE, readiness.text()),
    }
}

#[cfg(test)]
mod tests {
    use axum::body::to_bytes;
    use tower::ServiceExt;

    use super::*;

    /// Returns status, media type and body of `GET path`.
    async fn get_path(readiness: Readiness, path: &str) -> (u16, String, String) {
        let ready = Arc::new(move || readiness.clone());
        let (protection, origins) = (Arc::default(), Origins::default());
        let router = Ops { prometheus: Prometheus::default(), protection, origins, ready }.router();
        let request = Request::get(path).body(Body::empty()).unwrap();
        let response = router.oneshot(request).await.unwrap();
        let status = response.status().as_u16();
        let media_type = response.headers().get(CONTENT_TYPE).map(|value| value.to_str().unwrap());
        let media_type = media_type.unwrap_or_default().to_owned();
        let body = to_bytes(response.into_body(), 1 << 20).await.unwrap();
        (status, media_type, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn probes_answer_ok_or_the_failure() {
        let well = Readiness::default().with("store", Ok(())).with_note("places", "2 of 3".into());
        let ill = Readiness::default()
            .with("store", Err("has no space left: free some on the data directory".into()))
            .with("drain", Ok(()));
        let cases = [
            (&well, "/livez", 200, "ok\n"),
            (&ill, "/livez", 200, "ok\n"),
            (&well, "/readyz", 200, "ok\n"),
            (&well, "/readyz?verbose", 200, "[+]store ok\n[+]places ok: 2 of 3\n"),
            (
                &ill,
                "/readyz",
                503,
                "[-]store has no space left: free some on the data directory\n[+]drain ok\n",
            ),
            (&well, "/", 404, ""),
            (&well, "/debug", 404, ""),
        ];
        for (readiness, path, status, body) in cases {
            let (got_status, _, got_body) = get_path(readiness.clone(), path).await;
            assert_eq!((got_status, got_body.as_str()), (status, body), "{path}");
        }
    }

    #[tokio::test]
    async fn metrics_name_their_format() {
        let (status, media_type, _) = get_path(Readiness::default(), "/metrics").await;
        assert_eq!((status, media_type.as_str()), (200, telemetry::CONTENT_TYPE));
    }
}
