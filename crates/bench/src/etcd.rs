//! etcd, the store that a user would otherwise put statuses into: one member, its own defaults,
//! fsync.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Context;
use futures_util::{StreamExt, stream};
use prost::Message;
use tokio::time::Instant;
use tonic::Status;
use tonic::transport::{Channel, Endpoint};

use crate::load::Work;
use crate::open_loop::{Seen, WatchedWork};
use crate::process::{self, Process, START_DEADLINE};
use crate::wire::{self, PutRequest, PutResponse, StatusRequest, StatusResponse};
use crate::wire::{WatchCreateRequest, WatchRequest, WatchResponse};

/// The prefix of every key.
const KEYS: &str = "/statuses/";
/// The end of the range of these keys: the last character plus one.
const KEYS_END: &str = "/statuses0";

/// Pause between two attempts to reach a starting member.
const RETRY_DELAY: Duration = Duration::from_millis(50);

/// A running member.
pub struct Etcd {
    /// The address for clients.
    pub address: SocketAddr,
    /// The version that it reports: `3.4.23`.
    pub version: String,
    process: Process,
}

/// Finds etcd on the PATH: the pinned version, if `tools/install bench` has installed it.
pub fn find() -> anyhow::Result<PathBuf> {
    process::find("etcd").context(
        "etcd is not on the PATH; install it (Debian, Ubuntu: apt-get install etcd-server), or \
         measure without it: --peer none",
    )
}

impl Etcd {
    /// Starts a member of its own cluster with its data under `parent`.
    pub async fn start(binary: &Path, parent: &Path) -> anyhow::Result<Etcd> {
        let directory = process::directory(parent)?;
        let [address, peers] = process::free_addresses()?;
        let (client_url, peer_url) = (format!("http://{address}"), format!("http://{peers}"));
        let mut command = Command::new(binary);
        for (name, _) in std::env::vars_os() {
            let name = name.to_string_lossy().into_owned();
            // This exception does not change behaviour: without it, etcd does not start on some
            // processors.
            if name.starts_with("ETCD_") && name != "ETCD_UNSUPPORTED_ARCH" {
                command.env_remove(name);
            }
        }
        command.arg("--data-dir").arg(directory.path().join("data"));
        command.args(["--listen-client-urls", &client_url, "--advertise-client-urls", &client_url]);
        command.args(["--listen-peer-urls", &peer_url]);
        command.args(["--initial-advertise-peer-urls", &peer_url]);
        command.args(["--initial-cluster", &format!("default={peer_url}")]);
        let mut process = Process::start(command, directory)?;
        let version = reached(&mut process, client_url).await.context("start etcd")?;
        Ok(Etcd { address, version, process })
    }

    /// Returns the process id.
    pub fn id(&self) -> u32 {
        self.process.id()
    }
}

/// Waits until the member answers; returns its version.
async fn reached(process: &mut Process, url: String) -> anyhow::Result<String> {
    let endpoint = Endpoint::from_shared(url)?.connect_timeout(START_DEADLINE);
    let deadline = Instant::now() + START_DEADLINE;
    loop {
        process.check_running()?;
        match version(&endpoint).await {
            Ok(version) => return Ok(version),
            Err(error) if Instant::now() > deadline => {
                return Err(error.context(format!("it does not answer;{}", process.log())));
            }
            Err(_starting) => tokio::time::sleep(RETRY_DELAY).await,
        }
    }
}

async fn version(endpoint: &Endpoint) -> anyhow::Result<String> {
    let call = async {
        let channel = endpoint.connect().await?;
        let status: StatusResponse = wire::unary(channel, wire::STATUS, StatusRequest {}).await?;
        anyhow::Ok(status.version)
    };
    tokio::time::timeout(START_DEADLINE, call).await?
}

/// Puts of requests that are `request_bytes` long, over `keys` keys.
pub struct Puts {
    keys: u64,
    /// The number of watchers, and whether each of them sees all keys.
    watchers: u64,
    sees_all: bool,
    value: Vec<u8>,
}

impl Puts {
    /// Creates requests of this encoded length over this many keys.
    pub fn of(request_bytes: usize, keys: u64) -> Puts {
        let of = |len| PutRequest { key: key(0), value: vec![b'.'; len], lease: 0 };
        let len = wire::filling(request_bytes, |len| of(len).encoded_len());
        Puts { keys, watchers: 1, sees_all: true, value: of(len).value }
    }

    /// Sets the number of watchers, of which `keys` is a multiple. Each of them sees all keys, or a
    /// range of its own.
    #[must_use]
    pub fn watched_by(self, watchers: u64, sees_all: bool) -> Puts {
        Puts { watchers, sees_all, ..self }
    }

    /// Returns the key of a number; the keys of one watcher are adjacent.
    fn key(&self, number: u64) -> Vec<u8> {
        let number = number % self.keys;
        key(number % self.watchers * (self.keys / self.watchers) + number / self.watchers)
    }

    fn range(&self, watcher: u64) -> WatchCreateRequest {
        let own = self.keys / self.watchers;
        match self.sees_all {
            true => WatchCreateRequest { key: KEYS.into(), range_end: KEYS_END.into() },
            false => {
                let (key, range_end) = (key(watcher * own), key((watcher + 1) * own));
                WatchCreateRequest { key, range_end }
            }
        }
    }

    /// Returns request number `sequence`: its value differs from the last one of its key.
    pub fn request(&self, sequence: u64) -> PutRequest {
        let mut value = self.value.clone();
        let counter = sequence.to_be_bytes();
        for (byte, count) in value.iter_mut().zip(counter) {
            *byte = count;
        }
        PutRequest { key: self.key(sequence), value, lease: 0 }
    }
}

fn key(number: u64) -> Vec<u8> {
    format!("{KEYS}{number:06}").into_bytes()
}

/// Returns the number of the put that a value comes from.
fn sequence(value: &[u8]) -> Option<u64> {
    value.first_chunk().map(|bytes| u64::from_be_bytes(*bytes))
}

impl Work for Puts {
    async fn call(&self, channel: Channel, sequence: u64) -> Result<(), Status> {
        let answer: PutResponse = wire::unary(channel, wire::PUT, self.request(sequence)).await?;
        match answer.header {
            Some(header) if header.revision > 0 => Ok(()),
            _ => Err(Status::data_loss("a put was answered without a revision")),
        }
    }
}

impl WatchedWork for Puts {
    async fn watch(&self, channel: Channel, watcher: u64) -> Result<Seen, Status> {
        let create_request = Some(self.range(watcher));
        // The request stream stays open as long as the answers are read.
        let requests = stream::iter([WatchRequest { create_request }]).chain(stream::pending());
        let mut answers = wire::streaming(channel, wire::WATCH, requests).await?;
        let first: Option<WatchResponse> = answers.message().await?;
        match first {
            Some(answer) if answer.created && !answer.canceled => {}
            other => return Err(Status::aborted(format!("a watch was not made: {other:?}"))),
        }
        let seen = answers.flat_map(|answer| {
            stream::iter(match answer {
                Ok(answer) if answer.canceled => {
                    vec![Err(Status::aborted("etcd has ended the watch"))]
                }
                Ok(answer) => answer.sequences().map(Ok).collect(),
                Err(status) => vec![Err(status)],
            })
        });
        Ok(seen.boxed())
    }
}

impl WatchResponse {
    /// Returns the numbers of the puts in the response.
    fn sequences(&self) -> impl Iterator<Item = u64> {
        let values = self.events.iter().filter_map(|event| event.kv.as_ref());
        values.filter_map(|kv| sequence(&kv.value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn puts_are_as_long_as_asked_and_all_different() {
        let puts = Puts::of(80, 10);
        let requests: Vec<PutRequest> = (0..100).map(|n| puts.request(n)).collect();
        assert!(requests.iter().all(|put| put.encoded_len() == 80));
        let keys: HashSet<_> = requests.iter().map(|put| &put.key).collect();
        let values: HashSet<_> = requests.iter().map(|put| &put.value).collect();
        assert_eq!((keys.len(), values.len()), (10, 100));
        let sequences: Vec<u64> = requests.iter().filter_map(|put| sequence(&put.value)).collect();
        assert!(sequences.into_iter().eq(0..100));
    }

    #[test]
    fn a_watcher_sees_its_own_keys_and_no_others() {
        let puts = Puts::of(80, 30).watched_by(3, false);
        for number in 0..30 {
            let key = puts.request(number).key;
            for watcher in 0..3 {
                let range = puts.range(watcher);
                let is_seen = range.key <= key && key < range.range_end;
                assert_eq!(is_seen, number % 3 == watcher, "{number} by {watcher}");
            }
        }
        let keys: HashSet<_> = (0..30).map(|number| puts.request(number).key).collect();
        assert_eq!(keys.len(), 30);
    }
}
