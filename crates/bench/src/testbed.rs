//! The servers of one measurement: the one under test with its store, and etcd if it is the peer.

use anyhow::Context;

use crate::etcd::{self, Etcd};
use crate::ingest::Store;
use crate::redis::{self, Fsync, Redis};
use crate::replicas::Peer;
use crate::rounds::Progress;
use crate::server::{Place, Server};
use crate::site::Site;

/// The processes of a measurement. Fields are dropped in their order: our server before its Redis.
pub struct Testbed {
    /// Our server.
    pub server: Server,
    redis: Option<Redis>,
    /// The peer.
    pub etcd: Option<Etcd>,
}

impl Testbed {
    /// Starts all processes; the configuration of the server is in TOML.
    pub async fn start(
        store: Store,
        peer: Peer,
        file: &str,
        site: &Site,
    ) -> anyhow::Result<Testbed> {
        // Checked before anything is started: a missing binary is the likeliest failure.
        let etcd_binary = (peer == Peer::Etcd).then(etcd::find).transpose()?;
        let redis_binary = (store == Store::Redis).then(redis::find).transpose()?;
        let progress = Progress::new();
        progress.say("starting servers");
        let redis = match &redis_binary {
            Some(binary) => Some(Redis::start(binary, Fsync::Everysec, &site.directory).await?),
            None => None,
        };
        let server = Server::start_with(&place(store, redis.as_ref()), file, site).await?;
        let etcd = match &etcd_binary {
            Some(binary) => Some(Etcd::start(binary, &site.directory).await?),
            None => None,
        };
        Ok(Testbed { server, redis, etcd })
    }

    /// Kills our server with SIGKILL, and starts it on the same store.
    pub async fn crash(&mut self, store: Store, site: &Site) -> anyhow::Result<()> {
        self.server.crash(&place(store, self.redis.as_ref()), site).await
    }

    /// Returns our name and version.
    pub fn name() -> String {
        format!("bellwether {}", bellwether::VERSION)
    }

    /// Describes the store of our server.
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

/// Returns where our server stores its state.
fn place(store: Store, redis: Option<&Redis>) -> Place {
    match (store, redis) {
        (Store::Memory, _) => Place::Memory,
        (_, Some(redis)) => Place::Redis(redis.url()),
        (_, None) => Place::Embedded,
    }
}
