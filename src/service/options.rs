//! Limits of the gRPC server.

use std::time::Duration;

use prost_reflect::DescriptorPool;

use super::call::intake;
use super::caller::{self, STREAM_SHARE, WatchLimits, outgoing};
use super::{edge, web};
use crate::proto;

/// Limits of the gRPC server.
#[derive(Debug, Clone)]
pub struct Options {
    /// Limits of connections, and of the messages on them.
    pub connections: edge::Limits,
    /// Times of connections.
    pub times: edge::Times,
    /// Calls at the same time on one connection.
    pub calls_per_connection_max: u32,
    /// Limits of watches.
    pub watches: WatchLimits,
    /// Sessions of one peer at the same time.
    pub sessions_per_peer_max: usize,
    /// Sessions of one principal at the same time.
    pub sessions_per_principal_max: usize,
    /// Limits on the calls of one caller.
    pub account: caller::Limits,
    /// Limits of requests.
    pub requests: intake::Limits,
    /// Large requests that are decoded, and large answers that are rendered, at the same time.
    pub offloaded_max: usize,
    /// Reads of one application that wait for a revision, at the same time.
    pub waiting_reads_max: usize,
    /// Whether the server serves gRPC reflection and the descriptor set.
    pub reflection: bool,
    /// Which web pages may call.
    pub origins: web::Origins,
    /// Name of the installation on the status page; empty: the host of the request.
    pub page_name: Box<str>,
}

/// The maximum of connections of one peer is the total divided by this number.
pub const CONNECTION_SHARE: usize = 8;

impl Default for Options {
    /// Returns the defaults. The fullest pull set of a unit fits into a large request, at a few
    /// hundred bytes for each status; a status with every text at its limit fits into a small one.
    /// A handshake is one packet, so more than 1,024 unfinished ones are an attack. The time limits
    /// of 5 s and 10 s are longer than any working network needs. Connections have no maximum age:
    /// a stream outlives the maximum age of its connection, so its client would hold two
    /// connections. Keep-alive detects silent peers, and idle connections end for new ones. JSON
    /// with thousands of equal statuses is compressed to a fiftieth. Four large messages at a time
    /// take some ten MiB each while they are decoded, and on two cores they leave the threads that
    /// serve connections their turn.
    fn default() -> Options {
        let (connections_max, streams_max) = (10_000, 20_000);
        Options {
            connections: edge::Limits {
                connections_max,
                per_peer_max: connections_max / CONNECTION_SHARE,
                unfinished_max: 1024,
                bytes_per_connection_max: 16 << 20,
                bytes_per_peer_max: 64 << 20,
                bytes_max: 256 << 20,
                answers: outgoing::Limits::default(),
            },
            times: edge::Times { handshake: Duration::from_secs(5), age_max: None },
            calls_per_connection_max: 1024,
            watches: WatchLimits {
                streams_max,
                streams_per_peer_max: streams_max / STREAM_SHARE,
                streams_per_principal_max: streams_max / STREAM_SHARE,
                health_streams_max: 10_000,
            },
            sessions_per_peer_max: 25_000,
            sessions_per_principal_max: 25_000,
            account: caller::Limits::default(),
            requests: intake::Limits {
                large_bytes_max: 4 << 20,
                small_bytes_max: 64 << 10,
                timeout: Duration::from_secs(10),
                compression_ratio_max: 100,
                statuses_max: 4096,
            },
            offloaded_max: 4,
            waiting_reads_max: 1024,
            reflection: true,
            origins: web::Origins::default(),
            page_name: Box::default(),
        }
    }
}

/// Returns every service that is served, and the types of the details of errors.
pub(super) fn pool(reflection: bool) -> DescriptorPool {
    use tonic_reflection::pb;
    let mut sets = vec![proto::FILE_DESCRIPTOR_SET, tonic_types::pb::FILE_DESCRIPTOR_SET];
    if reflection {
        sets.extend([pb::v1::FILE_DESCRIPTOR_SET, pb::v1alpha::FILE_DESCRIPTOR_SET]);
    }
    web::pool(&sets).expect("our own descriptors decode, by a test")
}
