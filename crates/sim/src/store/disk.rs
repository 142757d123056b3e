//! The store of a process on a disk of the simulation: the embedded store itself, in steps.
//!
//! A task does what the writer and the applier do in a server, each time after a moment that the
//! disk takes. While the disk stands still, it does nothing, as a thread that waits for a sync.

use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use bellwether::domain::name::AppName;
use bellwether::domain::replay::Records;
use bellwether::domain::transition::Transition;
use bellwether::store::embedded::stepwise::Steps;
use bellwether::store::embedded::{EmbeddedStore, OpenError, Options};
use bellwether::store::{CommitError, NumberedEvent, Retention, Store};
use tokio::sync::oneshot;
use tokio::time::sleep;

use crate::lock;
use crate::network::{Delivery, Link, Network, Node};
use crate::server::{Found, Server, Witness, WitnessObserver};

use super::RETRY_PAUSE;
use super::checked::{Checked, Checks};

/// Tombstones that the store keeps, and events: few, so that a run prunes some.
const TOMBSTONES_MAX: usize = 4;
const EVENTS_MAX: u64 = 32;
/// Steps of the disk between two looks at the time.
const TIME_EVERY: u32 = 8;

impl Checks for Mutex<Witness> {
    fn on_read(&self, app: &AppName, records: &Records) {
        lock(self).on_read(app, records);
    }

    fn on_events(&self, app: &AppName, before: Option<u64>, events: &[NumberedEvent]) {
        lock(self).on_events(app, before, events);
    }

    fn on_sent(&self, transition: &Arc<Transition>) {
        lock(self).on_sent(transition);
    }

    fn on_answer(&self, transition: &Arc<Transition>, answer: &Result<(), CommitError>) {
        lock(self).on_answer(transition, answer);
    }
}

/// Opens the store. Must be called on the machine of the process.
pub(super) async fn open(network: Network, place: usize) -> Arc<dyn Store> {
    let link = network.new_link();
    loop {
        if let Some(store) = try_open(&network, place, link).await {
            return store;
        }
        // A process that cannot open its store ends, and is started again.
        sleep(RETRY_PAUSE).await;
    }
}

async fn try_open(network: &Network, place: usize, link: Link) -> Option<Arc<dyn Store>> {
    let Found { files, directory, is_damaged, wall, witness } = find(network, place, link).await?;
    let retention = Retention {
        tombstones_max: TOMBSTONES_MAX,
        events_max: EVENTS_MAX,
        own_events_max: EVENTS_MAX,
        ..Retention::default()
    };
    let options = Options { retention, ..Options::default() };
    lock(&witness).is_over = false;
    let opened = Steps::open(&directory, options, &files, wall);
    let (store, steps) = match opened {
        Ok(opened) => opened,
        Err(error) => {
            network.note(format_args!("the store cannot be opened: {error}"));
            // A disk that fails or is damaged may refuse the start; what the end of a process
            // leaves may not.
            if !is_damaged && !matches!(error, OpenError::Io { .. }) {
                lock(&network.judge).accuse(format!("the store cannot be opened: {error}"));
            }
            return None;
        }
    };
    lock(&witness).on_moment(store.moment(), true);
    store.follow(Arc::new(WitnessObserver(witness.clone())));
    let apps: Vec<_> = lock(&witness).apps().keys().cloned().collect();
    for app in apps {
        match store.load(&app).await {
            Ok(records) => lock(&witness).on_read(&app, &records),
            Err(error) => lock(&network.judge).accuse(format!("{app} cannot be read: {error}")),
        }
    }
    lock(&witness).is_served = true;
    let store = Arc::new(Checked { store: Arc::new(store), checks: witness });
    tokio::spawn(drive(network.clone(), steps, Arc::downgrade(&store)));
    Some(store)
}

/// Asks the machine for its disk.
async fn find(network: &Network, place: usize, link: Link) -> Option<Found> {
    let (sender, answered) = oneshot::channel();
    let (way, me) = (network.clone(), Node::Replica(place));
    let at_disk = move |server: &mut Server| {
        let found = server.disk().open();
        let back = Delivery::Run(Box::new(move || drop(sender.send(found))));
        way.send_on(link, (Node::Store, me), "open", back);
    };
    network.send_on(link, (me, Node::Store), "open", Delivery::Store(Box::new(at_disk)));
    answered.await.ok()
}

/// Does the work of the store's threads for as long as the process has the store.
async fn drive(
    network: Network,
    mut steps: Steps,
    store: Weak<Checked<EmbeddedStore, Mutex<Witness>>>,
) {
    let mut turns = 0_u32;
    loop {
        let (takes, applies) = network.with(|network| network.disk_step());
        sleep(Duration::from_millis(takes)).await;
        let Some(store) = store.upgrade() else { return };
        if network.with(|network| network.is_store_stalled()) {
            steps.stall();
        } else {
            steps.write();
            if applies {
                steps.apply();
            }
        }
        turns = turns.wrapping_add(1);
        if turns.is_multiple_of(TIME_EVERY) {
            lock(&store.checks).on_moment(store.store.moment(), false);
        }
    }
}
