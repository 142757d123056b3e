//! Listens, accepts connections and serves each in its own task.

use std::error::Error;
use std::future::Future;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::time::Duration;

use hyper::server::conn::{http1, http2};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::call::{GrpcService, calls};
use super::cork::Cork;
use super::gate::{Gate, Seat};
use super::preface::{self, First};
use super::transport::{self, Transport};
use crate::security::tls::Tls;
use crate::service::caller::outgoing::{StreamExecutor, Untaken, Watch};
use crate::service::log_limit::Sparse;

/// Pause after an accept that failed: if the process has no files left, accepting without a pause
/// would use a whole core until a file is closed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How long a connection without calls may take to confirm its end. A call that the client sent
/// before the GOAWAY is served within this time.
const GOODBYE: Duration = Duration::from_secs(1);

/// The same time if the place is needed.
const SHORT_GOODBYE: Duration = Duration::from_millis(100);

/// How long a server that stops waits for a client that takes no byte of its answers.
const STALL_MAX: Duration = Duration::from_secs(3);

/// Times of connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    /// How long the handshakes may take together: TLS, then the preface of HTTP/2 with the SETTINGS
    /// of the client, or the head of the first request of HTTP/1.1.
    pub handshake: Duration,
    /// Maximum age of a connection, with a jitter of a tenth. An older connection accepts no more
    /// calls, so that its client opens a new one. Its open calls continue. `None`: no limit.
    pub age_max: Option<Duration>,
}

/// Serves until `draining` is cancelled and every connection has ended. Dropping the future ends
/// all connections.
pub async fn serve<S: GrpcService>(
    listener: TcpListener,
    server: Server<S>,
    draining: CancellationToken,
) {
    let mut connections = JoinSet::new();
    loop {
        let (stream, address) = tokio::select! {
            biased;
            () = draining.cancelled() => break,
            Some(ended) = connections.join_next(), if !connections.is_empty() => {
                log_panic(ended);
                continue;
            }
            accepted = accept(&listener) => accepted,
        };
        if let Ok(seat) = server.gate.admit(address.ip()) {
            connections.spawn(connection(stream, seat, server.clone(), draining.clone()));
        }
    }
    // A new client must reach another server instead of a queue.
    drop(listener);
    while let Some(ended) = connections.join_next().await {
        log_panic(ended);
    }
}

fn log_panic(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "the task of a connection failed");
    }
}

/// The parts that serve connections.
#[derive(Clone)]
pub struct Server<S> {
    /// Answers the calls.
    pub service: S,
    /// Admits connections.
    pub gate: Gate,
    /// The settings of HTTP/2.
    pub http2: http2::Builder<StreamExecutor>,
    /// The settings of HTTP/1.1.
    pub http1: http1::Builder,
    /// The times of connections.
    pub times: Times,
    /// When what is not taken ends.
    pub untaken: Untaken,
    /// TLS of the port; `None`: without.
    pub tls: Option<Tls>,
}

/// Binds an address; the error names it, and what to do.
pub async fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let bound = TcpListener::bind(address).await;
    let advice = |kind| match kind {
        ErrorKind::AddrInUse => {
            "; stop the process that has it, which `ss -ltnp` names, or give another port"
        }
        ErrorKind::AddrNotAvailable => {
            "; give an address of this machine, which `ip address` lists"
        }
        ErrorKind::PermissionDenied => "; give a port of at least 1024",
        _ => "",
    };
    bound.map_err(|error| {
        let advice = advice(error.kind());
        io::Error::new(error.kind(), format!("listen on {address}: {error}{advice}"))
    })
}

/// Accepts the next connection. Pauses after each attempt that fails.
pub async fn accept(listener: &TcpListener) -> (TcpStream, SocketAddr) {
    static FAILED: std::sync::LazyLock<Sparse> =
        std::sync::LazyLock::new(|| Sparse::new(Duration::from_secs(10)));
    loop {
        match listener.accept().await {
            Ok(accepted) => return accepted,
            // The client disconnected before the accept, or there are no more files: the next
            // attempt may succeed.
            Err(error) => {
                if is_exhausted(&error)
                    && let Some(count) = FAILED.note()
                {
                    tracing::warn!(%error, count, "connections are not accepted: no files left");
                }
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Returns whether the process or the system has no more files.
fn is_exhausted(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let files = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM];
    error.raw_os_error().is_some_and(|code| files.iter().any(|e| e.raw_os_error() == code))
}

async fn connection<S: GrpcService>(
    stream: TcpStream,
    seat: Seat,
    server: Server<S>,
    draining: CancellationToken,
) {
    let opened = open(stream, server.tls.as_ref());
    let opened = tokio::select! {
        opened = tokio::time::timeout(server.times.handshake, opened) => opened,
        () = seat.evicted() => return,
        () = draining.cancelled() => return,
    };
    let Ok(Some((first, stream))) = opened else { return seat.never_finished() };
    if !seat.finished() {
        return;
    }
    let taken = seat.link.taken();
    let calls = calls(server.service.clone(), seat.caller(), transport::presented(&stream));
    match first {
        First::Http2(first) => {
            let io = TokioIo::new(Cork::http2(first, stream, taken, Watch::new(server.untaken)));
            let serving = server.http2.serve_connection(io, calls);
            until_end(serving, |c| c.graceful_shutdown(), &seat, server.times, &draining).await;
        }
        First::Http1(first) => {
            let io = TokioIo::new(Cork::http1(first, stream, taken, Watch::new(server.untaken)));
            let serving = server.http1.serve_connection(io, calls);
            until_end(serving, |c| c.graceful_shutdown(), &seat, server.times, &draining).await;
        }
        First::TooLarge => transport::refuse(stream, preface::TOO_LARGE).await,
    }
}

/// Serves a connection until its client, the gate, a drain or its age ends it.
async fn until_end<C: Future<Output = hyper::Result<()>>>(
    serving: C,
    shut_down: impl FnOnce(Pin<&mut C>),
    seat: &Seat,
    times: Times,
    draining: &CancellationToken,
) {
    let mut serving = pin!(serving);
    let goodbye = tokio::select! {
        ended = &mut serving => return log_end(ended),
        () = seat.evicted() => SHORT_GOODBYE,
        () = draining.cancelled() => GOODBYE,
        () = aged(times.age_max) => GOODBYE,
    };
    shut_down(serving.as_mut());
    tokio::select! {
        ended = &mut serving => log_end(ended),
        // A client that does not confirm has no open calls to lose.
        () = seat.link.idle_for(goodbye) => {}
        () = stalled_at_drain(seat, draining) => {}
    }
}

/// Resolves when the server stops and the client does not read what its calls end with.
async fn stalled_at_drain(seat: &Seat, draining: &CancellationToken) {
    draining.cancelled().await;
    seat.link.stalled_for(STALL_MAX).await;
}

/// Completes the handshakes. Returns the first bytes of the protocol with the rest of the
/// connection.
async fn open(stream: TcpStream, tls: Option<&Tls>) -> Option<(First, Transport)> {
    let mut transport = match transport::open(stream, tls).await {
        Ok(transport) => transport,
        Err(error) => {
            tracing::debug!(%error, "a TLS handshake failed");
            return None;
        }
    };
    Some((preface::read(&mut transport).await?, transport))
}

fn log_end(ended: hyper::Result<()>) {
    if let Err(error) = ended {
        tracing::debug!(error = &error as &dyn Error, "a connection failed");
    }
}

/// Resolves when a connection reaches its maximum age. The jitter prevents all clients from
/// reconnecting at the same time.
async fn aged(age_max: Option<Duration>) {
    let Some(age) = age_max else { return std::future::pending().await };
    let mut byte = [0];
    // Without randomness all connections have the same maximum age.
    let part = getrandom::fill(&mut byte).map_or(128, |()| u32::from(byte[0]));
    tokio::time::sleep(age * (90 * 255 + 20 * part) / (100 * 255)).await;
}
