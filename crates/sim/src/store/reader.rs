//! Follows the log of the store, and connects again after each interruption.

use std::sync::Arc;
use std::time::Duration;

use bellwether::store::Store;
use tokio::time::sleep;

use crate::lock;

use super::SimStore;

/// The pause between two reads of the log.
const READ_EVERY: Duration = Duration::from_millis(20);
/// How long a read waits for its answer.
const READ_MAX: Duration = Duration::from_secs(3);
const RETRY_PAUSE: Duration = Duration::from_millis(100);
const TIME_EVERY: Duration = Duration::from_secs(1);
/// The same after a time without an answer.
const TIME_SOON: Duration = Duration::from_millis(250);
/// The same on a disk, where each start counts the time since the last request as an outage.
const TIME_EVERY_ALONE: Duration = Duration::from_millis(250);

/// Follows the log for as long as the process lives.
pub(super) async fn follow(store: Arc<SimStore>) {
    let mut suspicions = store.suspicions.subscribe();
    loop {
        let read = tokio::select! {
            biased;
            _ = suspicions.changed() => Err(()),
            read = read(&store) => read,
        };
        if read.is_ok() {
            *lock(&store.trouble) = None;
            continue;
        }
        if !store.connect().await {
            *lock(&store.trouble) = Some("the store does not answer".to_string());
            sleep(RETRY_PAUSE).await;
        }
    }
}

/// Reads what is new; an error asks for a new connection.
async fn read(store: &SimStore) -> Result<(), ()> {
    sleep(READ_EVERY).await;
    let (master, cursors) = {
        let view = lock(&store.view);
        (view.master, view.cursors())
    };
    let logs = store.ask("read", READ_MAX, move |server| server.read(master, &cursors)).await;
    for (bucket, log) in logs.ok_or(())??.iter().enumerate() {
        for entry in log {
            lock(&store.view).take(bucket, entry)?;
            store.bump();
        }
    }
    Ok(())
}

/// Asks for the time of the store from time to time.
pub(super) async fn follow_time(store: Arc<SimStore>) {
    let mut is_soon = false;
    loop {
        sleep(match store.shape.is_shared {
            true if is_soon => TIME_SOON,
            true => TIME_EVERY,
            false => TIME_EVERY_ALONE,
        })
        .await;
        is_soon = !store.moment().is_certain();
        store.read_time(store.now()).await;
    }
}
