//! gRPC, JSON and the status page; who may call; limits.
//!
//! ```text
//!            connections      calls               messages, answers    commands, reads
//!  client --> edge --> web --> call --> grpc --> convert --> aggregator, session, watch
//!              |        |        |        |
//!              |        |        |        '-- a handler for each row of `method`
//!              |        |        '-- observe, identify, count, check; `code` has the status of
//!              |        |            each failure
//!              |        '-- JSON, gRPC-Web, events, /health and the page become calls
//!              '-- a place, TLS; `caller` has what one address or principal may hold
//! ```

use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::{http1, http2};
use hyper_util::rt::TokioTimer;
use tokio_util::sync::CancellationToken;
use tonic::service::Routes;

use crate::aggregator::Aggregator;
use crate::proto;
use crate::security::Protection;
use crate::security::tls::Tls;
use crate::session::Sessions;
use crate::store::Store;
use crate::telemetry::Metrics;
use crate::watch::Hub;

pub mod call;
pub mod caller;
pub mod code;
mod convert;
mod descriptor;
pub mod edge;
mod grpc;
mod log_limit;
mod memory_age;
pub mod method;
pub mod offload;
pub mod ops;
mod options;
mod protobuf;
pub mod relay;
mod scalars;
pub mod web;

pub use caller::{STREAM_SHARE, WatchLimits};
pub use convert::PAGE_BYTES_MAX;
#[cfg(any(test, feature = "testing"))]
pub use convert::probe;
pub use convert::rules::ErrorRules;
pub use convert::{age, severity, start};
pub use grpc::handlers::About;
pub use options::{CONNECTION_SHARE, Options};

/// The parts of the server that the handlers use.
pub struct Parts {
    /// Applies commands.
    pub aggregator: Aggregator,
    /// Serves watches and lists.
    pub hub: Arc<Hub>,
    /// Holds the sessions of workers.
    pub sessions: Sessions,
    /// Stores the state.
    pub store: Arc<dyn Store>,
    /// Counts calls and streams.
    pub metrics: Metrics,
    /// Classify errors.
    pub error_rules: ErrorRules,
    /// Knows the callers.
    pub protection: Arc<Protection>,
    /// Describes the server.
    pub about: About,
    /// The copy that a relay serves; `None` in a server.
    pub relay: Option<Arc<relay::Relay>>,
    /// Cancelled when the server starts to shut down.
    pub draining: CancellationToken,
}

impl Parts {
    /// Returns since when the answers about a namespace are not current, if they are not: the store
    /// is away, or an upstream of a relay; `None`: about all namespaces.
    fn stale(&self, namespace: Option<&str>) -> Option<relay::Stale> {
        match &self.relay {
            Some(relay) => relay.stale(namespace),
            None => {
                let since = self.aggregator.away_since()?;
                Some(relay::Stale { since, upstreams: String::new() })
            }
        }
    }
}

/// Interval of pings on a silent connection, and time to answer a ping: the server notices a peer
/// that is gone within 40 s.
const KEEPALIVE: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(10));

/// Calls that a client may cancel before the server accepts them; more is misbehaviour. The default
/// of 20 affects clients under load whose deadlines pass.
const PENDING_RESETS_MAX: usize = 1000;

/// Bytes that one call may send before the server reads them: this slows down a worker that is
/// faster than the store. Within a building it still allows hundreds of megabytes a second.
const STREAM_WINDOW: u32 = 64 << 10;
/// Bytes that all calls of one connection may send before the server reads them. HTTP/2 ends a
/// connection with too many small unread frames: each frame counts its difference to 256 bytes, and
/// half of this window is too many. With a smaller window, a worker that sends thousands of short
/// messages during a slow commit would lose its connection, together with all other calls on it.
/// This window is enough for a dozen such workers, each with its stream window full of the shortest
/// reports, and for a hundred workers that respect `unacknowledged_max`.
const CONNECTION_WINDOW: u32 = 32 << 20;

/// Bytes of one stream that a connection of HTTP/2 takes before it has written some of them.
const SEND_BUFFER_BYTES: usize = 64 << 10;

/// How long a connection of HTTP/1.1 may be silent between two requests. A browser opens another
/// one without a delay that people notice.
const HTTP1_SILENCE_MAX: Duration = Duration::from_secs(90);
/// Bytes that a connection of HTTP/1.1 buffers in each direction; the head of a request fits.
const HTTP1_BUFFER_BYTES: usize = 128 << 10;

/// Every service, with the path of its calls.
pub type Served = web::Web<call::Calls<Routes>>;

/// Returns the input of [`edge::serve`]: every service, and the settings of connections.
pub fn server(
    parts: Parts,
    options: &Options,
    gate: edge::Gate,
    tls: Option<Tls>,
) -> edge::Server<Served> {
    let answers = options.connections.answers;
    let untaken =
        caller::outgoing::Untaken { max: answers.untaken_max, metrics: parts.metrics.clone() };
    let mut http2 = http2::Builder::new(caller::outgoing::StreamExecutor(untaken.clone()));
    http2
        .timer(TokioTimer::new())
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .keep_alive_interval(KEEPALIVE.0)
        .keep_alive_timeout(KEEPALIVE.1)
        .max_send_buf_size(SEND_BUFFER_BYTES)
        .max_concurrent_streams(options.calls_per_connection_max)
        .max_pending_accept_reset_streams(PENDING_RESETS_MAX);
    let mut http1 = http1::Builder::new();
    http1
        .timer(TokioTimer::new())
        // Also the time that a connection may be silent between two requests.
        .header_read_timeout(HTTP1_SILENCE_MAX)
        .max_buf_size(HTTP1_BUFFER_BYTES);
    let offload = offload::Offload::new(options.offloaded_max, parts.metrics.clone());
    let (methods, descriptors) = (method::TABLE, descriptor::served());
    let intake = call::intake::Intake::new(
        methods,
        descriptors,
        options.requests,
        Arc::from([gate.bytes()]),
        offload,
        parts.draining.clone(),
    );
    let web = web::Options {
        intake: intake.clone(),
        hub: parts.hub.clone(),
        pool: options::pool(options.reflection),
        descriptors: options.reflection.then_some(proto::FILE_DESCRIPTOR_SET),
        origins: options.origins.clone(),
        page_name: options.page_name.clone(),
        protection: parts.protection.clone(),
        is_tls: tls.is_some(),
    };
    let path = call::CallParts {
        methods,
        descriptors,
        protection: parts.protection.clone(),
        extent: parts.relay.as_ref().and_then(relay::Relay::extent),
        limits: options.account,
        answers,
        intake: intake.clone(),
        metrics: parts.metrics.clone(),
    };
    let calls = call::Calls::new(path, grpc::routes(parts, options, intake.offload()));
    let service = web::Web::new(web, calls);
    edge::Server { service, gate, http2, http1, times: options.times, untaken, tls }
}
