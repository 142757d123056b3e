//! A process that opens the store finds what former processes committed.

use std::time::Duration;

use super::deployment::Deployment;
use super::driver::{Driver, Recorder};

/// The error of a clock that a store knows by samples alone.
pub(super) const CLOCK_ERROR: Duration = Duration::from_millis(50);

/// The store keeps one tombstone.
pub(super) async fn everything_is_there_for_the_next_process(deployment: impl Deployment) {
    let store = deployment.open().await;
    let mut web = Driver::new(&store, "web").await;
    web.report("web/0", "one").await;
    for name in ["gone", "left"] {
        let mut app = Driver::new(&store, name).await;
        app.report("u/0", "here").await;
        app.delete().await;
    }
    web.report("web/1", "two").await;
    let (epoch, events) = (store.epoch(), web.events().await);
    let notified = Recorder::on(&store).notified();
    let unknown = Driver::new(&store, "unknown").await.revision();
    let time = store.now();
    store.close().await;

    let store = deployment.open().await;
    assert!(time <= store.now().after(CLOCK_ERROR));
    assert_eq!(store.epoch(), epoch);
    let recorder = Recorder::on(&store);
    assert_eq!(recorder.notified(), notified);
    let mut again = Driver::new(&store, "web").await;
    assert_eq!(again.state.head(), web.state.head());
    assert_eq!(again.events().await, events);
    assert_eq!(Driver::new(&store, "unknown").await.revision(), unknown);
    again.report("web/2", "three").await;
    assert_eq!(recorder.last("web"), Some((again.revision().0, false)));
    recorder.check_order();
    again.check().await;
}
