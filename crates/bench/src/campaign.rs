//! etcd's election, as its client library implements it: each candidate has a key with a lease, and
//! the oldest key leads. Every other candidate watches the key before its own.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, ensure};
use futures_util::stream::{self, StreamExt};
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use tonic::transport::Channel;

use crate::candidacy::{BEATS_PER_LEASE, Candidacy, LEASE_SECONDS, News};
use crate::open_loop;
use crate::wire::{self, LeaseGrantRequest, LeaseKeepAliveRequest, LeaseResponse};
use crate::wire::{PutRequest, PutResponse, WatchResponse, streaming};

/// `etcdserverpb.RangeRequest`, for the newest key older than another one.
#[derive(Clone, PartialEq, prost::Message)]
struct RangeRequest {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    range_end: Vec<u8>,
    #[prost(int64, tag = "3")]
    limit: i64,
    #[prost(int32, tag = "5")]
    sort_order: i32,
    #[prost(int32, tag = "6")]
    sort_target: i32,
    #[prost(int64, tag = "13")]
    max_create_revision: i64,
}

/// `etcdserverpb.RangeResponse`.
#[derive(Clone, PartialEq, prost::Message)]
struct RangeResponse {
    #[prost(message, optional, tag = "1")]
    header: Option<wire::ResponseHeader>,
    #[prost(message, repeated, tag = "2")]
    kvs: Vec<wire::KeyValue>,
}

/// `etcdserverpb.DeleteRangeRequest`, of one key.
#[derive(Clone, PartialEq, prost::Message)]
struct DeleteRequest {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
}

/// `etcdserverpb.WatchRequest`, of one key from a revision on.
#[derive(Clone, PartialEq, prost::Message)]
struct WatchRequest {
    #[prost(message, optional, tag = "1")]
    create_request: Option<WatchFrom>,
}

/// `etcdserverpb.WatchCreateRequest`.
#[derive(Clone, PartialEq, prost::Message)]
struct WatchFrom {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
    #[prost(int64, tag = "3")]
    start_revision: i64,
}

const RANGE: &str = "/etcdserverpb.KV/Range";
const DELETE: &str = "/etcdserverpb.KV/DeleteRange";
/// `SortOrder.DESCEND`, `SortTarget.CREATE`.
const NEWEST_FIRST: (i32, i32) = (2, 2);

/// Runs one candidate until its task is aborted.
pub async fn run(
    address: SocketAddr,
    election: String,
    mut candidacy: Candidacy,
) -> anyhow::Result<()> {
    let channel = open_loop::connect(address, 1).await?.remove(0);
    let grant = LeaseGrantRequest { ttl: LEASE_SECONDS };
    let lease: LeaseResponse = wire::unary(channel.clone(), wire::LEASE_GRANT, grant).await?;
    ensure!(lease.id != 0, "no lease was granted");
    let key = format!("{election}/{:x}", lease.id).into_bytes();
    let campaign = campaign(channel.clone(), election, key.clone(), lease.id, &candidacy);
    tokio::select! {
        ended = keep_alive(channel.clone(), lease.id) => return ended,
        led = campaign => led?,
    }
    tokio::select! {
        ended = keep_alive(channel.clone(), lease.id) => ended,
        () = candidacy.released() => {
            let _: PutResponse = wire::unary(channel, DELETE, DeleteRequest { key }).await?;
            std::future::pending().await
        }
    }
}

/// Waits until the candidate's key is the oldest.
async fn campaign(
    channel: Channel,
    election: String,
    key: Vec<u8>,
    lease: i64,
    candidacy: &Candidacy,
) -> anyhow::Result<()> {
    let put = PutRequest { key, value: b"candidate".to_vec(), lease };
    let put: PutResponse = wire::unary(channel.clone(), wire::PUT, put).await?;
    let own = put.header.context("a put without a revision")?.revision;
    let mut has_joined = false;
    loop {
        let before = RangeRequest {
            key: format!("{election}/").into_bytes(),
            range_end: format!("{election}0").into_bytes(),
            limit: 1,
            sort_order: NEWEST_FIRST.0,
            sort_target: NEWEST_FIRST.1,
            max_create_revision: own - 1,
        };
        let before: RangeResponse = wire::unary(channel.clone(), RANGE, before).await?;
        let revision = before.header.context("a range without a revision")?.revision;
        let Some(predecessor) = before.kvs.into_iter().next() else {
            candidacy.tell(News::Leads);
            return Ok(());
        };
        let from = WatchFrom { key: predecessor.key, start_revision: revision };
        let watch = WatchRequest { create_request: Some(from) };
        let requests = stream::iter([watch]).chain(stream::pending());
        let mut told: Streaming<WatchResponse> =
            streaming(channel.clone(), wire::WATCH, requests).await?;
        loop {
            let answer = told.message().await?.context("etcd has ended the watch")?;
            if answer.created && !std::mem::replace(&mut has_joined, true) {
                candidacy.tell(News::Waits);
            }
            if answer.events.iter().any(|event| event.kind == wire::EVENT_DELETE) {
                break;
            }
        }
    }
}

/// Sends keepalives as often as the client library: every third of the lease.
async fn keep_alive(channel: Channel, id: i64) -> anyhow::Result<()> {
    let (say, said) = mpsc::channel(1);
    let said = ReceiverStream::new(said);
    let lease = Duration::from_secs(LEASE_SECONDS.unsigned_abs());
    let mut beats = tokio::time::interval(lease / BEATS_PER_LEASE);
    beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
    beats.tick().await;
    let _ = say.try_send(LeaseKeepAliveRequest { id });
    let mut told: Streaming<LeaseResponse> =
        streaming(channel, wire::LEASE_KEEP_ALIVE, said).await?;
    loop {
        tokio::select! {
            answer = told.message() => {
                let answer = answer?.context("etcd has ended the keepalives")?;
                ensure!(0 < answer.ttl, "the lease is gone");
            }
            _ = beats.tick() => say.send(LeaseKeepAliveRequest { id }).await?,
        }
    }
}
