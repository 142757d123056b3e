//! The store of a process: the Redis store itself over servers of the simulation, or the embedded
//! store itself over a disk of it.

mod disk;
mod servers;

use std::sync::Arc;
use std::time::Duration;

use bellwether::store::redis::link::{self, Kind};
use bellwether::store::redis::{Layout, Options, RedisStore};
use bellwether::store::{Retention, Store};
use tokio::time::sleep;

use crate::network::Network;
use crate::server::Shape;

use servers::ProcessServers;

/// The pause between two attempts to open a store.
const RETRY_PAUSE: Duration = Duration::from_millis(200);
/// Tombstones that Redis keeps, one in each bucket, and events: few, so that a run prunes some.
const TOMBSTONES_MAX: usize = 3;
const EVENTS_MAX: u64 = 32;

/// Opens the store. Must be called on the machine of the process.
pub async fn open(
    network: Network,
    (place, generation): (usize, u64),
    shape: Shape,
) -> Arc<dyn Store> {
    if !shape.is_shared {
        return disk::open(network, place).await;
    }
    let retention = Retention {
        tombstones_max: TOMBSTONES_MAX,
        events_max: EVENTS_MAX,
        own_events_max: EVENTS_MAX,
        ..Retention::default()
    };
    let layout = Layout { buckets: Some(shape.buckets), ..Layout::default() };
    let options =
        Options { layout, durability: shape.durability, retention, link: link::Options::default() };
    let kind = if 1 < shape.shards { Kind::Cluster } else { Kind::Sentinel };
    loop {
        let servers = ProcessServers::start(network.clone(), (place, generation), kind);
        if let Ok(store) = RedisStore::open_on(servers.clone(), options.clone()).await {
            let store = Arc::new(store);
            servers.watch(&store);
            return store;
        }
        // A process that cannot open its store ends, and is started again.
        sleep(RETRY_PAUSE).await;
    }
}
