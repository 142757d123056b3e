//! The store of a process: the Redis store itself over servers of the simulation, or the embedded
//! store itself over a disk of it.

mod checked;
mod disk;
mod servers;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bellwether::domain::name::AppName;
use bellwether::domain::replay::Records;
use bellwether::domain::transition::Transition;
use bellwether::store::redis::link::{self, Kind};
use bellwether::store::redis::{Layout, Options, RedisStore};
use bellwether::store::{CommitError, NumberedEvent, Retention, Store};
use tokio::time::sleep;

use crate::judge::Judge;
use crate::lock;
use crate::network::Network;
use crate::server::Shape;

use checked::{Checked, Checks};
use servers::ProcessServers;

/// The pause between two attempts to open a store.
const RETRY_PAUSE: Duration = Duration::from_millis(200);
/// Tombstones that Redis keeps, one in each bucket, and events: few, so that a run prunes some.
const TOMBSTONES_MAX: usize = 3;
const EVENTS_MAX: u64 = 32;

/// The servers have the second copy of what Redis must have, except for what a process is answered.
impl Checks for Mutex<Judge> {
    fn on_read(&self, _: &AppName, _: &Records) {}

    fn on_events(&self, _: &AppName, _: Option<u64>, _: &[NumberedEvent]) {}

    fn on_sent(&self, _: &Arc<Transition>) {}

    fn on_answer(&self, transition: &Arc<Transition>, answer: &Result<(), CommitError>) {
        let mut judge = lock(self);
        let wrong = judge.refusals.on_answer(transition, answer);
        wrong.into_iter().for_each(|what| judge.accuse(what));
    }
}

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
            return Arc::new(Checked { store, checks: network.judge });
        }
        // A process that cannot open its store ends, and is started again.
        sleep(RETRY_PAUSE).await;
    }
}
