//! Wakes the applications that have something due. An active application handles its own deadlines;
//! the sweep is for those without a request since the start.

use std::sync::Arc;

use futures_util::future::OptionFuture;

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
        tokio::select! {
            Some(()) = OptionFuture::from(wait.map(tokio::time::sleep)) => {}
            () = schedule.earlier.notified() => {}
            () = aggregator.draining.cancelled() => return,
        }
    }
}
