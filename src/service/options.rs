//! Limits of the gRPC server.

use std::time::Duration;

use prost_reflect::DescriptorPool;

use super::{account, edge, intake, web};
use crate::proto;

/// Limits of the gRPC server.
#[derive(Debug, Clone)]
pub struct Options {
    /// Connections at the same time.
    pub connections_max: usize,
    /// Connections of one peer at the same time: an IPv4 address or an IPv6 network of 64 bits.
    pub connections_per_peer_max: usize,
    /// Connections at the same time that have not completed the HTTP/2 handshake.
    pub unfinished_connections_max: usize,
    /// How long the HTTP/2 handshake of a new connection may take.
    pub handshake_max: Duration,
    /// Age after which a connection accepts no more calls; `None`: no limit.
    pub connection_age_max: Option<Duration>,
    /// Calls at the same time on one connection.
    pub calls_per_connection_max: u32,
    /// Watch streams at the same time, over all connections.
    pub watch_streams_max: usize,
    /// Watch streams of one peer at the same time.
    pub watch_streams_per_peer_max: usize,
    /// Watch streams of one principal at the same time.
    pub watch_streams_per_principal_max: usize,
    /// Health watches at the same time, apart from other watches.
    pub health_watch_streams_max: usize,
    /// Sessions of one peer at the same time.
    pub sessions_per_peer_max: usize,
    /// Sessions of one principal at the same time.
    pub sessions_per_principal_max: usize,
    /// Limits on the calls of one caller.
    pub account: account::Limits,
    /// Bytes of one request of a method that allows large ones: sets, payloads, lists of names.
    pub request_bytes_max: usize,
    /// Bytes of any other request.
    pub small_request_bytes_max: usize,
    /// How long a request may take from its start until it is complete.
    pub request_patience: Duration,
    /// Bytes of incomplete requests on one connection.
    pub incomplete_bytes_per_connection_max: usize,
    /// Bytes of incomplete requests of one peer.
    pub incomplete_bytes_per_peer_max: usize,
    /// Bytes of incomplete requests in total.
    pub incomplete_bytes_max: usize,
    /// Reads of one application that wait for a revision, at the same time.
    pub waiting_reads_max: usize,
    /// Whether the server serves gRPC reflection and the descriptor set.
    pub reflection: bool,
    /// Which web pages may call.
    pub origins: web::Origins,
}

/// The maximum of connections of one peer is the total divided by this number.
pub const CONNECTION_SHARE: usize = 8;
/// The maximum of watches and of sessions of one peer is the total divided by this number. It is
/// larger than that of connections, because watches and sessions often come through few proxies.
pub const STREAM_SHARE: usize = 4;

impl Default for Options {
    /// Returns the defaults. The fullest pull set of a unit fits into a large request, at a few
    /// hundred bytes for each status; a status with every text at its limit fits into a small one.
    /// A handshake is one packet, so more than 1,024 unfinished ones are an attack. The time limits
    /// of 5 s and 10 s are longer than any working network needs. Connections have no maximum age:
    /// a stream outlives the maximum age of its connection, so its client would hold two
    /// connections. Keep-alive detects silent peers, and idle connections end for new ones.
    fn default() -> Options {
        let (connections_max, watch_streams_max) = (10_000, 20_000);
        Options {
            connections_max,
            connections_per_peer_max: connections_max / CONNECTION_SHARE,
            unfinished_connections_max: 1024,
            handshake_max: Duration::from_secs(5),
            connection_age_max: None,
            calls_per_connection_max: 1024,
            watch_streams_max,
            watch_streams_per_peer_max: watch_streams_max / STREAM_SHARE,
            watch_streams_per_principal_max: watch_streams_max / STREAM_SHARE,
            health_watch_streams_max: 10_000,
            sessions_per_peer_max: 25_000,
            sessions_per_principal_max: 25_000,
            account: account::Limits::default(),
            request_bytes_max: 4 << 20,
            small_request_bytes_max: 64 << 10,
            request_patience: Duration::from_secs(10),
            incomplete_bytes_per_connection_max: 16 << 20,
            incomplete_bytes_per_peer_max: 64 << 20,
            incomplete_bytes_max: 256 << 20,
            waiting_reads_max: 1024,
            reflection: true,
            origins: web::Origins::default(),
        }
    }
}

impl Options {
    /// Returns the limits of connections.
    pub fn connections(&self) -> edge::Limits {
        edge::Limits {
            connections_max: self.connections_max,
            per_peer_max: self.connections_per_peer_max,
            unfinished_max: self.unfinished_connections_max,
            bytes_max: (
                self.incomplete_bytes_per_connection_max,
                self.incomplete_bytes_per_peer_max,
                self.incomplete_bytes_max,
            ),
        }
    }

    /// Returns the times of connections.
    pub fn times(&self) -> edge::Times {
        edge::Times { handshake: self.handshake_max, age_max: self.connection_age_max }
    }

    /// Returns what the layer of the other protocols needs.
    pub(super) fn web(
        &self,
        intake: intake::IntakeLayer,
        has_callers: bool,
        is_tls: bool,
    ) -> web::Options {
        web::Options {
            intake,
            pool: pool(self.reflection),
            descriptors: self.reflection.then_some(proto::FILE_DESCRIPTOR_SET),
            origins: self.origins.clone(),
            has_callers,
            is_tls,
        }
    }

    /// Returns the limits of requests.
    pub(super) fn requests(&self) -> intake::Limits {
        intake::Limits {
            large_bytes_max: self.request_bytes_max,
            small_bytes_max: self.small_request_bytes_max.min(self.request_bytes_max),
            patience: self.request_patience,
        }
    }
}

/// Returns every service that is served, and the types of the details of errors.
fn pool(reflection: bool) -> DescriptorPool {
    use tonic_reflection::pb;
    let mut sets = vec![proto::FILE_DESCRIPTOR_SET, tonic_types::pb::FILE_DESCRIPTOR_SET];
    if reflection {
        sets.extend([pb::v1::FILE_DESCRIPTOR_SET, pb::v1alpha::FILE_DESCRIPTOR_SET]);
    }
    web::pool(&sets).expect("our own descriptors decode, by a test")
}
