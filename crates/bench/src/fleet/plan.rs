//! What a fleet has, and what each part of it costs.

use serde::Serialize;

/// A number of this kind of thing from the command line, at least one.
const COUNT: std::ops::RangeInclusive<u64> = 1..=1_000_000_000;

/// The fleet.
#[derive(Debug, Clone, Serialize, clap::Args)]
pub struct Plan {
    /// Applications
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(COUNT))]
    pub applications: u64,
    /// Statuses of each application
    #[arg(long, default_value_t = 100)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub statuses: u64,
    /// Changes a second over all applications
    #[arg(long, default_value_t = 28_000)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub changes: u64,
    /// Watchers, each with a stream of its own
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(COUNT))]
    pub watchers: u64,
    /// Applications that a watcher follows
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(COUNT))]
    pub interest: u64,
    /// Masters of Redis, with a core each
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u64).range(1..=256))]
    pub masters: u64,
    /// Replicas of Bellwether
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub replicas: u64,
    /// Cores of a replica
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=256))]
    pub replica_cores: u64,
    /// Relays that follow the replicas
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub upper_relays: u64,
    /// Cores of each of them
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=256))]
    pub upper_cores: u64,
    /// Relays that serve the watchers, over those
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub relays: u64,
    /// Cores of each of them
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=256))]
    pub relay_cores: u64,
    /// One way through the network, in microseconds
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 250.0, value_parser = micros)]
    pub hop: f64,
    /// What each part costs.
    #[command(flatten)]
    pub costs: Costs,
}

/// Measured processor time in microseconds, and memory in bytes. The defaults are the figures of
/// docs/design/fleet.md.
#[derive(Debug, Clone, Serialize, clap::Args)]
pub struct Costs {
    /// Redis, for a change that is alone in its commit [figure c]
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 400.0, value_parser = micros)]
    pub write_alone: f64,
    /// Redis, for a change that others wait behind [figure d]
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 88.0, value_parser = micros)]
    pub write_together: f64,
    /// A replica, for a change that it makes [figure e]
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 300.0, value_parser = micros)]
    pub decide: f64,
    /// A replica, for a change that another one makes [figure f]
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 24.0, value_parser = micros)]
    pub follow: f64,
    /// A server, for a change to one relay [figure i]
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 2.5, value_parser = micros)]
    pub send: f64,
    /// A relay, for a change [figure j]
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 26.0, value_parser = micros)]
    pub relay: f64,
    /// An event to a watch with a stream of its own [figure m]
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 2.7, value_parser = micros)]
    pub event: f64,
    /// Redis, for an application with one status [figure a]
    #[arg(long, value_name = "BYTES", default_value_t = 10_200)]
    pub redis_application_bytes: u64,
    /// Redis, for each further status [figure b]
    #[arg(long, value_name = "BYTES", default_value_t = 480)]
    pub redis_status_bytes: u64,
    /// A replica, for an application that it serves, with one status [figure h]
    #[arg(long, value_name = "BYTES", default_value_t = 6_300)]
    pub active_bytes: u64,
    /// A replica, for each further status [figure h]
    #[arg(long, value_name = "BYTES", default_value_t = 431)]
    pub status_bytes: u64,
    /// A replica, for an application that another one serves [figure g]
    #[arg(long, value_name = "BYTES", default_value_t = 770)]
    pub followed_bytes: u64,
    /// A relay, for an application [figure k]
    #[arg(long, value_name = "BYTES", default_value_t = 1_550)]
    pub relayed_bytes: u64,
    /// A watch with a stream of its own [figure l]
    #[arg(long, value_name = "BYTES", default_value_t = 2_700)]
    pub watch_bytes: u64,
}

fn micros(text: &str) -> Result<f64, String> {
    let micros: f64 = text.parse().map_err(|_| "not a number".to_string())?;
    let is_there = (0.0..=1e6).contains(&micros);
    is_there.then_some(micros).ok_or_else(|| "0 to 1000000 microseconds".to_string())
}

/// Memory in bytes.
#[derive(Debug, Clone, Serialize)]
pub struct Memory {
    /// All masters of Redis together, without their replicas.
    pub redis: u64,
    /// One replica.
    pub replica: u64,
    /// One relay that follows the replicas.
    pub upper_relay: u64,
    /// One relay that serves watchers.
    pub relay: u64,
}

impl Plan {
    /// Returns the memory of each part.
    pub fn memory(&self) -> Memory {
        let Plan { applications, replicas, .. } = *self;
        let costs = &self.costs;
        let further = self.statuses - 1;
        let served = applications.div_ceil(replicas);
        let watches = self.watchers.div_ceil(self.relays);
        Memory {
            redis: applications
                * (costs.redis_application_bytes + further * costs.redis_status_bytes),
            replica: served * (costs.active_bytes + further * costs.status_bytes)
                + (applications - served) * costs.followed_bytes,
            upper_relay: applications * costs.relayed_bytes,
            relay: applications * costs.relayed_bytes + watches * costs.watch_bytes,
        }
    }

    /// Returns the events of a change to the watchers of one relay.
    pub fn events(&self) -> f64 {
        let followed = self.watchers as f64 * self.interest as f64;
        followed / self.applications as f64 / self.relays as f64
    }
}
