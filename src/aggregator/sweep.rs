//! Wakes the applications that have something due. An active application handles its own deadlines;
//! the sweep is for those without a request since the start.

use std::sync::Arc;

use super::Inner;

/// Wakes applications that are due until the aggregator drains.
pub(super) async fn run(aggregator: Arc<Inner>) {
    let schedule = &aggregator.schedule;
    loop {
        let now = aggregator.store.now();
        for app in schedule.take_due(now) {
            // Refused only while draining.
            let _ = aggregator.activate(&app);
        }
        let wait = schedule.first().map(|at| at.since(now));
        let next = async {
            match wait {
                Some(wait) => tokio::time::sleep(wait).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = next => {}
            () = schedule.earlier.notified() => {}
            () = aggregator.draining.cancelled() => return,
        }
    }
}
