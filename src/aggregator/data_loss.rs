//! Visits every application affected by a data loss of the store, even without requests for it: no
//! application may stay active based on lost records, or led by a unit that may have a successor.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, stream};

use super::Inner;
use super::mailbox::Ask;

/// Applications visited together: enough to finish a fleet in seconds, few enough for reports to
/// get through.
const LOOKS_MAX: usize = 64;

/// Wait between two rounds after a failed visit: the store may be unavailable again.
const ROUND_PAUSE: Duration = Duration::from_secs(1);

/// Handles data losses until the aggregator drains.
pub(super) async fn run(aggregator: Arc<Inner>) {
    let schedule = &aggregator.schedule;
    loop {
        let open = schedule.to_mark_uncertain();
        let next = async {
            match open.is_empty() {
                true => schedule.data_lost.notified().await,
                false => {
                    let looks = stream::iter(&open).for_each_concurrent(LOOKS_MAX, async |app| {
                        // A failed visit stays on the list.
                        let _ = aggregator.ask(app, Ask::Look).await;
                    });
                    looks.await;
                    if !schedule.to_mark_uncertain().is_empty() {
                        tokio::time::sleep(ROUND_PAUSE).await;
                    }
                }
            }
        };
        tokio::select! {
            () = next => {}
            () = aggregator.draining.cancelled() => return,
        }
    }
}
