//! A Redis for the measured servers, with its data on disk.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, bail};
use tokio::time::Instant;

use crate::process::{self, Process, START_DEADLINE};

/// Pause between two attempts to reach a starting Redis.
const RETRY_DELAY: Duration = Duration::from_millis(20);

/// When Redis syncs its file to disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Fsync {
    /// Once a second: a crash loses up to a second or two
    Everysec,
    /// Before each answer
    Always,
}

/// A running Redis.
pub struct Redis {
    /// Its address.
    pub address: SocketAddr,
    /// The version that it reports: `7.0.15`.
    pub version: String,
    process: Process,
}

/// Finds redis-server on the PATH.
pub fn find() -> anyhow::Result<PathBuf> {
    process::find("redis-server").context(
        "redis-server is not on the PATH; install it (Debian, Ubuntu: apt-get install \
         redis-server), or measure another store: bellwether-bench ingest --store embedded",
    )
}

impl Fsync {
    /// Returns the value of `appendfsync`.
    pub fn name(self) -> &'static str {
        match self {
            Fsync::Everysec => "everysec",
            Fsync::Always => "always",
        }
    }
}

impl Redis {
    /// Starts a Redis with an append-only file under `parent`, and its own defaults otherwise.
    pub async fn start(binary: &Path, fsync: Fsync, parent: &Path) -> anyhow::Result<Redis> {
        let directory = process::directory(parent)?;
        let [address] = process::free_addresses()?;
        let mut command = Command::new(binary);
        command.args(["--bind", "127.0.0.1", "--port", &address.port().to_string()]);
        command.arg("--dir").arg(directory.path());
        // The file that errors quote.
        command.arg("--logfile").arg(directory.path().join("log"));
        command.args(["--save", "", "--appendonly", "yes", "--appendfsync", fsync.name()]);
        let mut process = Process::start(command, directory)?;
        let version = reached(&mut process, address).await.context("start redis-server")?;
        Ok(Redis { address, version, process })
    }

    /// Returns the process id.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Returns the URL for `bellwether serve --store`.
    pub fn url(&self) -> String {
        format!("redis://{}", self.address)
    }
}

/// Waits until it answers; returns its version.
async fn reached(process: &mut Process, address: SocketAddr) -> anyhow::Result<String> {
    let client = redis::Client::open(format!("redis://{address}"))?;
    let deadline = Instant::now() + START_DEADLINE;
    loop {
        process.check_running()?;
        match version(&client, process.id()).await {
            Ok(version) => return Ok(version),
            Err(error) if Instant::now() > deadline => {
                return Err(error.context(format!("it does not answer;{}", process.log())));
            }
            Err(_starting) => tokio::time::sleep(RETRY_DELAY).await,
        }
    }
}

async fn version(client: &redis::Client, id: u32) -> anyhow::Result<String> {
    let mut connection = client.get_multiplexed_async_connection().await?;
    let info: String = redis::cmd("INFO").arg("server").query_async(&mut connection).await?;
    let field = |name| {
        let mut fields = info.lines().filter_map(|line| line.split_once(':'));
        fields.find(|(found, _)| *found == name).map_or("", |(_, value)| value)
    };
    if field("process_id") != id.to_string() {
        bail!("another Redis has taken its port");
    }
    Ok(field("redis_version").to_string())
}
