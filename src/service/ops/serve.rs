//! Connections of the ops port, with or without TLS. Each has one request and a deadline, and each
//! address has a share of the places: a new connection always finds one, so that no crowd of
//! connections keeps a probe out.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::LazyLock;
use std::time::Duration;

use axum::Router;
use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tower::Service;

use super::Scraper;
use crate::security::tls::Tls;
use crate::service::caller::outgoing;
use crate::service::edge::{Gate, Limits, accept, transport};
use crate::service::log_limit::Sparse;
use crate::service::options::CONNECTION_SHARE;
use crate::telemetry::{ConnectionEnd, Metrics};

/// Connections at the same time. Probes and scrapers are few and take milliseconds.
const CONNECTIONS_MAX: usize = 256;

/// How long the TLS handshake may take.
const HANDSHAKE_MAX: Duration = Duration::from_secs(5);

/// How long the headers of a request may take.
const HEADERS_MAX: Duration = Duration::from_secs(5);

/// The maximum age of a connection, so that a client that reads slowly does not keep its place. A
/// scraper gives up after 10 s by default.
const AGE_MAX: Duration = Duration::from_secs(10);

/// Shortest time between two log lines about connections that ended for others.
const LOG_PERIOD: Duration = Duration::from_secs(60);

/// Serves the ops port until `stopped` is cancelled; open requests then end.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    tls: Option<Tls>,
    metrics: Metrics,
    stopped: CancellationToken,
) {
    let gate = gate();
    let mut connections = JoinSet::new();
    loop {
        let (stream, address) = tokio::select! {
            () = stopped.cancelled() => break,
            accepted = accept(&listener) => accepted,
        };
        while connections.try_join_next().is_some() {}
        let Ok(seat) = gate.admit(address.ip()) else { continue };
        let (router, tls, stopped) = (router.clone(), tls.clone(), stopped.clone());
        let metrics = metrics.clone();
        connections.spawn(async move {
            let serving = connection(stream, address.ip(), router, tls, stopped);
            tokio::select! {
                _ended = tokio::time::timeout(AGE_MAX, serving) => {}
                () = seat.evicted() => note_evicted(&metrics),
            }
        });
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

/// Returns the gate of the port. Its metrics are those of the gRPC port, so it has none.
fn gate() -> Gate {
    let limits = Limits {
        connections_max: CONNECTIONS_MAX,
        per_peer_max: CONNECTIONS_MAX / CONNECTION_SHARE,
        unfinished_max: CONNECTIONS_MAX,
        bytes_per_connection_max: 0,
        bytes_per_peer_max: 0,
        bytes_max: 0,
        // Its answers are small, and each has the age of its connection.
        answers: outgoing::Limits::default(),
    };
    Gate::new(limits, Metrics::disabled())
}

fn note_evicted(metrics: &Metrics) {
    static EVICTED: LazyLock<Sparse> = LazyLock::new(|| Sparse::new(LOG_PERIOD));
    metrics.connection_ended(ConnectionEnd::Ops);
    if let Some(count) = EVICTED.note() {
        tracing::warn!(count, "connections of the ops port ended for others: all places are taken");
    }
}

/// Serves one request.
async fn connection(
    stream: TcpStream,
    address: IpAddr,
    router: Router,
    tls: Option<Tls>,
    stopped: CancellationToken,
) {
    let opened = transport::open(stream, tls.as_ref());
    let Ok(Ok(stream)) = tokio::time::timeout(HANDSHAKE_MAX, opened).await else { return };
    let presented = transport::presented(&stream);
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(Scraper { address, presented: presented.clone() });
        let answer = router.clone().call(request);
        async move { Ok::<_, Infallible>(answer.await.unwrap_or_else(|never| match never {})) }
    });
    let mut http1 = http1::Builder::new();
    // A connection that waits for the next request would keep a place from others.
    http1.timer(TokioTimer::new()).header_read_timeout(HEADERS_MAX).keep_alive(false);
    let mut serving = std::pin::pin!(http1.serve_connection(TokioIo::new(stream), service));
    tokio::select! {
        _ended = &mut serving => return,
        () = stopped.cancelled() => {}
    }
    serving.as_mut().graceful_shutdown();
    let _ended = serving.await;
}
