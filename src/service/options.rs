//! Bounds of the gRPC server.

use std::time::Duration;

use super::{edge, intake};

/// Bounds of the gRPC server.
#[derive(Debug, Clone)]
pub struct Options {
    /// Connections at once.
    pub connections_max: usize,
    /// Connections at once of one peer: an IPv4 address or an IPv6 network of 64 bits.
    pub connections_per_peer_max: usize,
    /// Connections at once that have not yet said that they speak HTTP/2.
    pub unfinished_connections_max: usize,
    /// How long a new connection may take to say so.
    pub handshake_max: Duration,
    /// Age after which a connection takes no more calls; none is never.
    pub connection_age_max: Option<Duration>,
    /// Calls at once on one connection.
    pub calls_per_connection_max: u32,
    /// Watches at once, over all connections.
    pub watch_streams_max: usize,
    /// Watches at once of one peer.
    pub watch_streams_per_peer_max: usize,
    /// Health watches at once, apart from other watches.
    pub health_watch_streams_max: usize,
    /// Sessions at once of one peer.
    pub sessions_per_peer_max: usize,
    /// Bytes of one request that may be large: sets, payloads, lists of names.
    pub request_bytes_max: usize,
    /// Bytes of any other request.
    pub small_request_bytes_max: usize,
    /// How long a request that has begun may take to be complete.
    pub request_patience: Duration,
    /// Bytes of requests that are not complete, on one connection.
    pub incomplete_bytes_per_connection_max: usize,
    /// The same of one peer.
    pub incomplete_bytes_per_peer_max: usize,
    /// The same of all.
    pub incomplete_bytes_max: usize,
    /// Reads that wait for a revision of one application.
    pub waiting_reads_max: usize,
    /// Whether clients may ask what there is.
    pub reflection: bool,
}

/// One peer may have this part of the connections: eight of them are needed to take all.
pub const CONNECTION_SHARE: usize = 8;
/// One peer may have this part of the watches and of the sessions: they come over proxies, which
/// are few.
pub const STREAM_SHARE: usize = 4;

impl Default for Options {
    /// A large request holds the fullest pull set that is allowed a unit at a few hundred bytes
    /// each, a small one every text of a status at its limit. Ten thousand watches cost about as
    /// many megabytes as a browser tab. A handshake is one packet, so 1,024 that are not finished
    /// are an attack. 5 s and 10 s are longer than any network takes that works. Connections have
    /// no greatest age: a stream outlives the end of its connection's age, so that its client would
    /// hold two; silent peers are found by keep-alive, and idle ones make room.
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
            health_watch_streams_max: 10_000,
            sessions_per_peer_max: 25_000,
            request_bytes_max: 4 << 20,
            small_request_bytes_max: 64 << 10,
            request_patience: Duration::from_secs(10),
            incomplete_bytes_per_connection_max: 16 << 20,
            incomplete_bytes_per_peer_max: 64 << 20,
            incomplete_bytes_max: 256 << 20,
            waiting_reads_max: 1024,
            reflection: true,
        }
    }
}

impl Options {
    /// Bounds of connections.
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

    /// Times of connections.
    pub fn times(&self) -> edge::Times {
        edge::Times { handshake: self.handshake_max, age_max: self.connection_age_max }
    }

    /// Bounds of requests.
    pub(super) fn requests(&self) -> intake::Limits {
        intake::Limits {
            large_bytes_max: self.request_bytes_max,
            small_bytes_max: self.small_request_bytes_max.min(self.request_bytes_max),
            patience: self.request_patience,
        }
    }
}
