//! The peers' messages, written by hand: some calls of etcd and an echo do not justify protos.

use futures_util::Stream;
use http::uri::PathAndQuery;
use tonic::transport::Channel;
use tonic::{Request, Status, Streaming};
use tonic_prost::ProstCodec;

/// `etcdserverpb.PutRequest`, without what we leave at its default.
#[derive(Clone, PartialEq, prost::Message)]
pub struct PutRequest {
    /// Name of the value.
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    /// The value.
    #[prost(bytes = "vec", tag = "2")]
    pub value: Vec<u8>,
    /// The lease that it goes away with; 0 for none.
    #[prost(int64, tag = "3")]
    pub lease: i64,
}

/// `etcdserverpb.PutResponse`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct PutResponse {
    /// Who answered, and at which revision.
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
}

/// `etcdserverpb.ResponseHeader`, without the raft's own.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ResponseHeader {
    /// The store's revision after the call.
    #[prost(int64, tag = "3")]
    pub revision: i64,
}

/// `etcdserverpb.StatusRequest`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct StatusRequest {}

/// `etcdserverpb.StatusResponse`, of which only the version matters here.
#[derive(Clone, PartialEq, prost::Message)]
pub struct StatusResponse {
    /// The version of etcd: `3.4.23`.
    #[prost(string, tag = "2")]
    pub version: String,
}

/// `etcdserverpb.WatchRequest`, of which only the kind that makes a watch is sent.
#[derive(Clone, PartialEq, prost::Message)]
pub struct WatchRequest {
    /// Makes one.
    #[prost(message, optional, tag = "1")]
    pub create_request: Option<WatchCreateRequest>,
}

/// `etcdserverpb.WatchCreateRequest`, without what we leave at its default.
#[derive(Clone, PartialEq, prost::Message)]
pub struct WatchCreateRequest {
    /// The first key.
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    /// The first key that is not watched any more.
    #[prost(bytes = "vec", tag = "2")]
    pub range_end: Vec<u8>,
}

/// `etcdserverpb.WatchResponse`, without what matters to those who resume.
#[derive(Clone, PartialEq, prost::Message)]
pub struct WatchResponse {
    /// Which watch of the stream.
    #[prost(int64, tag = "2")]
    pub watch_id: i64,
    /// The watch is there.
    #[prost(bool, tag = "3")]
    pub created: bool,
    /// It is gone.
    #[prost(bool, tag = "4")]
    pub canceled: bool,
    /// What has changed.
    #[prost(message, repeated, tag = "11")]
    pub events: Vec<Event>,
}

/// `mvccpb.Event`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Event {
    /// [`EVENT_DELETE`], or a put.
    #[prost(int32, tag = "1")]
    pub kind: i32,
    /// What it is now.
    #[prost(message, optional, tag = "2")]
    pub kv: Option<KeyValue>,
}

/// `mvccpb.KeyValue`, without its history.
#[derive(Clone, PartialEq, prost::Message)]
pub struct KeyValue {
    /// Name of the value.
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    /// The value.
    #[prost(bytes = "vec", tag = "5")]
    pub value: Vec<u8>,
}

/// `etcdserverpb.LeaseGrantRequest`, without a number: etcd chooses it.
#[derive(Clone, PartialEq, prost::Message)]
pub struct LeaseGrantRequest {
    /// Seconds.
    #[prost(int64, tag = "1")]
    pub ttl: i64,
}

/// `etcdserverpb.LeaseGrantResponse`, and that of a keepalive: both name the lease and its time.
#[derive(Clone, PartialEq, prost::Message)]
pub struct LeaseResponse {
    /// The lease.
    #[prost(int64, tag = "2")]
    pub id: i64,
    /// Seconds; of a keepalive 0 if the lease is gone.
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

/// What the plain echo takes and gives back.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Echo {
    /// Anything.
    #[prost(bytes = "vec", tag = "1")]
    pub payload: Vec<u8>,
}

/// What the plain fan-out sends to everybody, as cheaply as the library goes.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Shared {
    /// Anything.
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
/// A key is gone.
pub const EVENT_DELETE: i32 = 1;
/// Tells the version.
pub const STATUS: &str = "/etcdserverpb.Maintenance/Status";
/// Name of the echo service.
pub const ECHO_SERVICE: &str = "bellwether.bench.Echo";
/// Its one call.
pub const ECHO: &str = "/bellwether.bench.Echo/Echo";

/// The same, on a stream.
pub const ECHO_STREAM: &str = "/bellwether.bench.Echo/Stream";
/// Hears whatever [`ECHO_SEND`] is given from now on.
pub const ECHO_LISTEN: &str = "/bellwether.bench.Echo/Listen";
/// Sends a message to all who listen.
pub const ECHO_SEND: &str = "/bellwether.bench.Echo/Send";

/// One unary call, through the same layers as a generated client.
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

/// One call with a stream each way.
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

/// Bytes of filling that make a message as long as `bytes`, or the least that goes; `encoded_len`
/// tells the length of the message for a filling.
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
            // A length that takes one more byte itself can miss by that byte.
            assert!((bytes - 1..=bytes).contains(&of(len).encoded_len()), "{bytes}");
        }
    }
}
