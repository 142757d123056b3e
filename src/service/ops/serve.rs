//! Connections of the ops port: few at a time, each with a deadline, with or without TLS.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tower::Service;

use super::Scraper;
use crate::security::tls::Tls;
use crate::service::edge::{accept, transport};

/// Connections at the same time. Probes and scrapers are few and take milliseconds.
const CONNECTIONS_MAX: usize = 256;

/// How long the TLS handshake may take.
const HANDSHAKE_MAX: Duration = Duration::from_secs(5);

/// How long the headers of a request may take, and how long a connection may be idle.
const HEADERS_MAX: Duration = Duration::from_secs(5);

/// The maximum age of a connection, so that a client that reads slowly does not keep its place.
const AGE_MAX: Duration = Duration::from_secs(60);

/// Serves the ops port until `stopped` is cancelled; open requests then end.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    tls: Option<Tls>,
    stopped: CancellationToken,
) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut connections = JoinSet::new();
    loop {
        // Without a place, new connections wait in the queue of the system.
        let accepted = async {
            let place = places.clone().acquire_owned().await.ok();
            let (stream, address) = accept(&listener).await;
            (stream, address, place)
        };
        let (stream, address, place) = tokio::select! {
            () = stopped.cancelled() => break,
            accepted = accepted => accepted,
        };
        let (router, tls, stopped) = (router.clone(), tls.clone(), stopped.clone());
        connections.spawn(async move {
            let _place = place;
            tokio::time::timeout(AGE_MAX, connection(stream, address.ip(), router, tls, stopped))
                .await
                .ok();
        });
        while connections.try_join_next().is_some() {}
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

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
    http1.timer(TokioTimer::new()).header_read_timeout(HEADERS_MAX);
    let mut serving = std::pin::pin!(http1.serve_connection(TokioIo::new(stream), service));
    tokio::select! {
        _ended = &mut serving => return,
        () = stopped.cancelled() => {}
    }
    serving.as_mut().graceful_shutdown();
    let _ended = serving.await;
}
