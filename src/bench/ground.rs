//! One server of ours with its store, and optionally an etcd beside it.

use std::path::Path;

use anyhow::Context;

use crate::bench::etcd::{self, Etcd};
use crate::bench::ingest::Store;
use crate::bench::redis::{self, Fsync, Redis};
use crate::bench::replicas::Peer;
use crate::bench::rounds::Progress;
use crate::bench::server::{Place, Server};

/// The processes of a measurement. Fields are dropped in their order: our server before its Redis.
pub struct Ground {
    /// Our server.
    pub server: Server,
    redis: Option<Redis>,
    /// The peer.
    pub etcd: Option<Etcd>,
}

impl Ground {
    /// Starts all processes; the configuration of the server is in TOML.
    pub async fn start(
        store: Store,
        peer: Peer,
        file: &str,
        parent: &Path,
    ) -> anyhow::Result<Ground> {
        // Checked before anything is started: a missing binary is the likeliest failure.
        let etcd_binary = (peer == Peer::Etcd).then(etcd::find).transpose()?;
        let redis_binary = (store == Store::Redis).then(redis::find).transpose()?;
        let progress = Progress::new();
        progress.say("starting servers");
        let redis = match &redis_binary {
            Some(binary) => Some(Redis::start(binary, Fsync::Everysec, parent).await?),
            None => None,
        };
        let place = match (store, &redis) {
            (Store::Memory, _) => Place::Memory,
            (_, Some(redis)) => Place::Redis(redis.url()),
            (_, None) => Place::Embedded,
        };
        let server = Server::start_with(&place, file, parent).await?;
        let etcd = match &etcd_binary {
            Some(binary) => Some(Etcd::start(binary, parent).await?),
            None => None,
        };
        Ok(Ground { server, redis, etcd })
    }

    /// Returns our name and version.
    pub fn name() -> String {
        format!("bellwether {}", env!("CARGO_PKG_VERSION"))
    }

    /// Describes the storage backend of our server.
    pub fn place(&self, store: Store) -> String {
        match (store, &self.redis) {
            (Store::Memory, _) => "memory store".to_string(),
            (_, Some(redis)) => format!("Redis {} with AOF everysec", redis.version),
            (_, None) => "embedded store with fsync".to_string(),
        }
    }

    /// Returns the ops address of our server.
    pub fn ops(&self) -> anyhow::Result<std::net::SocketAddr> {
        self.server.ops.context("our server printed no address of its metrics")
    }
}
