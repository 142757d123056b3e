//! The facts about a setup of Redis, before they are judged.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::store::redis::link::info::InfoFields;
use crate::store::redis::link::{Kind, LinkError, Reading, Target};
use crate::store::redis::{Durability, Layout};

/// All facts.
#[derive(Debug, Clone)]
pub(super) struct Facts {
    pub(super) durability: Durability,
    /// How the masters are found.
    pub(super) kind: Kind,
    pub(super) target: Target,
    pub(super) layout: Layout,
    pub(super) sentinels: Vec<Reading<Sentinel>>,
    /// The nodes of a Cluster that the URL names and that do not answer, with the reason.
    pub(super) lost_seeds: Vec<(String, LinkError)>,
    pub(super) masters: Vec<Reading<Server>>,
}

/// The facts of a master.
#[derive(Debug, Clone, Default)]
pub(super) struct Server {
    /// The answer to `INFO`.
    pub(super) info: InfoFields,
    /// The settings that could be read by `CONFIG GET`.
    pub(super) config: InfoFields,
    /// The error in place of settings.
    pub(super) config_refusal: Option<String>,
    pub(super) rights: Rights,
    pub(super) pings: Vec<Duration>,
    pub(super) clock: Option<Clock>,
    /// The description of the store in the keys, or the problem with them; `None` if they are on
    /// another server.
    pub(super) store: Option<Result<String, String>>,
    /// The answer to `CLUSTER INFO`.
    pub(super) cluster: InfoFields,
}

/// The facts of a Sentinel.
#[derive(Debug, Clone, Default)]
pub(super) struct Sentinel {
    /// The answer to `SENTINEL MASTER`.
    pub(super) master: InfoFields,
    /// The answer to `SENTINEL REPLICAS`.
    pub(super) replicas: Vec<InfoFields>,
    /// The answer to `SENTINEL CKQUORUM`; `None` if there is none.
    pub(super) quorum: Option<Result<String, String>>,
}

/// The rights of the user.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Rights {
    /// Needed commands that the user may not call, in lower case.
    pub(super) denied: Vec<String>,
    /// Needed commands that do not exist: the server is too old, or has renamed them.
    pub(super) missing: Vec<String>,
    /// Why the rights are unknown.
    pub(super) unknown: Option<String>,
}

/// The clock of a server compared with the local one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clock {
    /// By how much it is ahead, in milliseconds.
    pub(super) ahead_ms: i64,
    /// The maximum error of that, in both directions.
    pub(super) error: Duration,
    /// By how much it was last behind the time of the store.
    pub(super) behind: Duration,
    /// By how much it was last ahead of the time of the store.
    pub(super) ahead: Duration,
}

/// A replica of Redis, as its master reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Replica {
    pub(super) address: String,
    /// The state; `online` once it has caught up.
    pub(super) state: String,
    /// The time since its last contact, in seconds.
    pub(super) lag: u64,
}

impl Server {
    /// Returns the connected replicas: `slave0:ip=..,port=..,state=..,offset=..,lag=..`.
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

    /// Returns the number of replicas that have caught up.
    pub(super) fn online(&self) -> usize {
        self.replicas().iter().filter(|replica| replica.state == "online").count()
    }
}

impl Facts {
    /// Returns the user of the connections.
    pub(super) fn user(&self) -> &str {
        self.target.user().unwrap_or("default")
    }

    /// Returns the number of replicas that each commit waits for.
    pub(super) fn replicas_needed(&self) -> usize {
        usize::try_from(self.durability.waits_for().0).unwrap_or(usize::MAX)
    }
}
