//! What is known about a set-up of Redis before anybody judges it.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::store::redis::durability::Durability;
use crate::store::redis::link::LinkError;

/// All that was gathered.
#[derive(Debug, Clone)]
pub(super) struct Facts {
    pub(super) durability: Durability,
    pub(super) kind: Kind,
    pub(super) has_tls: bool,
    pub(super) has_password: bool,
    /// As whom we come.
    pub(super) user: String,
    pub(super) sentinels: Vec<Told<Sentinel>>,
    /// Nodes of a Cluster that are named in the URL and do not answer, with the reason.
    pub(super) lost_seeds: Vec<(String, LinkError)>,
    pub(super) masters: Vec<Told<Server>>,
}

/// How the masters are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Standalone,
    Sentinel,
    Cluster,
}

/// What one server told, or why it did not.
#[derive(Debug, Clone)]
pub(super) struct Told<T> {
    pub(super) address: String,
    pub(super) is_local: bool,
    pub(super) told: Result<T, LinkError>,
}

/// A master.
#[derive(Debug, Clone, Default)]
pub(super) struct Server {
    /// `INFO`.
    pub(super) info: Fields,
    /// `CONFIG GET`, or what it was answered with.
    pub(super) config: Config,
    pub(super) rights: Rights,
    pub(super) pings: Vec<Duration>,
    pub(super) clock: Option<Clock>,
    /// What our keys there say of the store, or what is wrong with them; none where they are not.
    pub(super) store: Option<Result<String, String>>,
    /// `CLUSTER INFO`.
    pub(super) cluster: Fields,
}

/// A Sentinel.
#[derive(Debug, Clone, Default)]
pub(super) struct Sentinel {
    /// `SENTINEL MASTER`.
    pub(super) master: Fields,
    /// `SENTINEL REPLICAS`.
    pub(super) replicas: Vec<Fields>,
    /// `SENTINEL CKQUORUM`; none if it was not answered.
    pub(super) quorum: Option<Result<String, String>>,
}

/// Settings, as far as we may read them.
#[derive(Debug, Clone, Default)]
pub(super) struct Config {
    pub(super) fields: Fields,
    /// What was answered instead.
    pub(super) refusal: Option<String>,
}

/// What the user that we come as may do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Rights {
    /// Commands that it needs and may not call, in lower case.
    pub(super) denied: Vec<String>,
    /// Commands that it needs and that are not there: the server is too old, or renamed them.
    pub(super) missing: Vec<String>,
    /// Why it could not be found out.
    pub(super) unknown: Option<String>,
}

/// The clock of a server against ours.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clock {
    /// How far it is ahead, in milliseconds.
    pub(super) ahead_ms: i64,
    /// How far off that may be, either way.
    pub(super) error: Duration,
    /// By how much it was last seen behind the time of the store.
    pub(super) behind: Duration,
}

/// Names with values, as Redis tells them.
#[derive(Debug, Clone, Default)]
pub(super) struct Fields(pub(super) BTreeMap<String, String>);

impl Fields {
    /// From lines of `name:value`.
    pub(super) fn of_lines(text: &str) -> Fields {
        let lines = text.lines().filter_map(|line| line.split_once(':'));
        Fields(lines.map(|(name, value)| (name.into(), value.trim().into())).collect())
    }

    /// A value, empty if it is not there.
    pub(super) fn text(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }

    /// A value that is a number.
    pub(super) fn number(&self, name: &str) -> Option<u64> {
        self.text(name).parse().ok()
    }
}

impl Config {
    /// A setting; none if it is not known.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.fields.0.get(name).map(String::as_str)
    }

    /// A setting that is a number.
    pub(super) fn number(&self, name: &str) -> Option<u64> {
        self.get(name)?.parse().ok()
    }
}

/// A replica of Redis, as its master sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Replica {
    pub(super) address: String,
    /// `online` once it has caught up.
    pub(super) state: String,
    /// Since it was heard of, in seconds.
    pub(super) lag: u64,
}

impl Server {
    /// The replicas that are connected: `slave0:ip=..,port=..,state=..,offset=..,lag=..`.
    pub(super) fn replicas(&self) -> Vec<Replica> {
        let lines = self.info.0.iter().filter(|(name, _)| {
            let number = name.strip_prefix("slave");
            number.is_some_and(|number| number.parse::<u32>().is_ok())
        });
        let replicas = lines.map(|(_, line)| {
            let parts: BTreeMap<&str, &str> =
                line.split(',').filter_map(|part| part.split_once('=')).collect();
            let part = |name: &str| parts.get(name).copied().unwrap_or_default();
            Replica {
                address: format!("{}:{}", part("ip"), part("port")),
                state: part("state").to_string(),
                lag: part("lag").parse().unwrap_or(0),
            }
        });
        replicas.collect()
    }

    /// Those of them that have caught up.
    pub(super) fn online(&self) -> usize {
        self.replicas().iter().filter(|replica| replica.state == "online").count()
    }

    /// The version of Redis that it is compatible with.
    pub(super) fn version(&self) -> (u32, u32) {
        let mut parts = self.info.text("redis_version").split('.').map(|n| n.parse().unwrap_or(0));
        (parts.next().unwrap_or(0), parts.next().unwrap_or(0))
    }
}

impl Facts {
    /// How many replicas each commit waits for.
    pub(super) fn replicas_needed(&self) -> usize {
        match self.durability {
            Durability::Acknowledged => 0,
            Durability::Replicated { replicas, .. } | Durability::Synced { replicas, .. } => {
                usize::try_from(replicas).unwrap_or(usize::MAX)
            }
        }
    }
}
