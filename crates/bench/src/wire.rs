//! Messages of the peers, written by hand: a few calls of etcd and an echo do not justify protos.

use futures_util::Stream;
use http::uri::PathAndQuery;
use tonic::transport::Channel;
use tonic::{Request, Status, Streaming};
use tonic_prost::ProstCodec;

/// `etcdserverpb.PutRequest`, without fields that stay at their default.
#[derive(Clone, PartialEq, prost::Message)]
pub struct PutRequest {
    /// The key.
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    /// The value.
    #[prost(bytes = "vec", tag = "2")]
    pub value: Vec<u8>,
    /// The lease that the key is deleted with; 0 for none.
    #[prost(int64, tag = "3")]
    pub lease: i64,
}

/// `etcdserverpb.PutResponse`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct PutResponse {
    /// The header, which has the revision of the answer.
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
}

/// `etcdserverpb.ResponseHeader`, without the fields of the cluster and of raft.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ResponseHeader {
    /// The revision of the store after the call.
    #[prost(int64, tag = "3")]
    pub revision: i64,
}

/// `etcdserverpb.StatusRequest`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct StatusRequest {}

/// `etcdserverpb.StatusResponse`, with the version only.
#[derive(Clone, PartialEq, prost::Message)]
pub struct StatusResponse {
    /// The version of etcd: `3.4.23`.
    #[prost(string, tag = "2")]
    pub version: String,
}

/// `etcdserverpb.WatchRequest`, only to create a watch.
#[derive(Clone, PartialEq, prost::Message)]
pub struct WatchRequest {
    /// The watch to create.
    #[prost(message, optional, tag = "1")]
    pub create_request: Option<WatchCreateRequest>,
}

/// `etcdserverpb.WatchCreateRequest`, without fields that stay at their default.
#[derive(Clone, PartialEq, prost::Message)]
pub struct WatchCreateRequest {
    /// The first key.
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    /// The end of the range: the first key that is not watched.
    #[prost(bytes = "vec", tag = "2")]
    pub range_end: Vec<u8>,
}

/// `etcdserverpb.WatchResponse`, without the fields for resuming.
#[derive(Clone, PartialEq, prost::Message)]
pub struct WatchResponse {
    /// The watch of the stream.
    #[prost(int64, tag = "2")]
    pub watch_id: i64,
    /// Whether the watch was created.
    #[prost(bool, tag = "3")]
    pub created: bool,
    /// Whether the watch was cancelled.
    #[prost(bool, tag = "4")]
    pub canceled: bool,
    /// The changes.
    #[prost(message, repeated, tag = "11")]
    pub events: Vec<Event>,
}

/// `mvccpb.Event`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Event {
    /// [`EVENT_DELETE`], or a put.
    #[prost(int32, tag = "1")]
    pub kind: i32,
    /// The key after the change.
    #[prost(message, optional, tag = "2")]
    pub kv: Option<KeyValue>,
}

/// `mvccpb.KeyValue`, without its history.
#[derive(Clone, PartialEq, prost::Message)]
pub struct KeyValue {
    /// The key.
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    /// The value.
    #[prost(bytes = "vec", tag = "5")]
    pub value: Vec<u8>,
}

/// `etcdserverpb.LeaseGrantRequest`, without an id: etcd chooses it.
#[derive(Clone, PartialEq, prost::Message)]
pub struct LeaseGrantRequest {
    /// The ttl in seconds.
    #[prost(int64, tag = "1")]
    pub ttl: i64,
}

/// `etcdserverpb.LeaseGrantResponse`, and the response to a keepalive: both have id and ttl.
#[derive(Clone, PartialEq, prost::Message)]
pub struct LeaseResponse {
    /// The lease.
    #[prost(int64, tag = "2")]
    pub id: i64,
    /// The ttl in seconds; in the response to a keepalive 0 if the lease is gone.
    #[prost(int64, tag = "3")]
    pub ttl: i64,
}

/// `etcdserverpb.LeaseKeepAliveRequest`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct LeaseKeepAliveRequest {
    /// The lease.
    #[prost(int64, tag = "1")]
    pub id: i64,
}

/// The request and response of the plain echo.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Echo {
    /// Any bytes.
    #[prost(bytes = "vec", tag = "1")]
    pub payload: Vec<u8>,
}

/// The message of the plain fan-out, shared by all its streams without a copy.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Shared {
    /// Any bytes.
    #[prost(bytes = "bytes", tag = "1")]
    pub payload: bytes::Bytes,
}

/// Puts a value.
pub const PUT: &str = "/etcdserverpb.KV/Put";
/// Follows keys.
pub const WATCH: &str = "/etcdserverpb.Watch/Watch";
/// Grants a lease.
pub const LEASE_GRANT: &str = "/etcdserverpb.Lease/LeaseGrant";
/// Keeps leases alive.
pub const LEASE_KEEP_ALIVE: &str = "/etcdserverpb.Lease/LeaseKeepAlive";
/// The kind of an event that deletes a key.
pub const EVENT_DELETE: i32 = 1;
/// Returns the version.
pub const STATUS: &str = "/etcdserverpb.Maintenance/Status";
/// Name of the echo service.
pub const ECHO_SERVICE: &str = "bellwether.bench.Echo";
/// Its one call.
pub const ECHO: &str = "/bellwether.bench.Echo/Echo";

/// The echo on a stream.
pub const ECHO_STREAM: &str = "/bellwether.bench.Echo/Stream";
/// Opens a stream with every message that [`ECHO_SEND`] gets from then on.
pub const ECHO_LISTEN: &str = "/bellwether.bench.Echo/Listen";
/// Sends a message to all streams of [`ECHO_LISTEN`].
pub const ECHO_SEND: &str = "/bellwether.bench.Echo/Send";

/// Makes one unary call, through the same layers as a generated client.
pub async fn unary<Q, A>(channel: Channel, path: &'static str, request: Q) -> Result<A, Status>
where
    Q: prost::Message + 'static,
    A: prost::Message + Default + 'static,
{
    let mut client = tonic::client::Grpc::new(channel);
    client.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
    let codec = ProstCodec::<Q, A>::default();
    let path = PathAndQuery::from_static(path);
    Ok(client.unary(Request::new(request), path, codec).await?.into_inner())
}

/// Makes one call with a stream each way.
pub async fn streaming<Q, A>(
    channel: Channel,
    path: &'static str,
    requests: impl Stream<Item = Q> + Send + 'static,
) -> Result<Streaming<A>, Status>
where
    Q: prost::Message + 'static,
    A: prost::Message + Default + 'static,
{
    let mut client = tonic::client::Grpc::new(channel);
    client.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
    let codec = ProstCodec::<Q, A>::default();
    let path = PathAndQuery::from_static(path);
    Ok(client.streaming(Request::new(requests), path, codec).await?.into_inner())
}

/// Returns the bytes of filling that make a message `bytes` long, or as close below as possible.
/// `encoded_len` returns the length of the message for a filling.
pub fn filling(bytes: usize, encoded_len: impl Fn(usize) -> usize) -> usize {
    (0..=bytes).rev().find(|&filling| encoded_len(filling) <= bytes).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use prost::Message;

    #[test]
    fn filled_messages_are_as_long_as_asked() {
        for bytes in [40, 100, 127, 128, 200, 20_000] {
            let of = |len| PutRequest { key: b"app-00/00".to_vec(), value: vec![0; len], lease: 0 };
            let len = filling(bytes, |len| of(len).encoded_len());
            // Where the length prefix grows by a byte, the message may be one byte short.
            assert!((bytes - 1..=bytes).contains(&of(len).encoded_len()), "{bytes}");
        }
    }
}
