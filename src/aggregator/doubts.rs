//! Looks at every application of which the store may have lost writes, whether anybody asks for it
//! or not: nothing may be active on what was lost, nor led by who may have a successor.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, stream};

use super::Inner;
use super::ask::Ask;

/// Applications looked at together: so many that a fleet is done in seconds, so few that reports
/// still come through.
const LOOKS_MAX: usize = 64;

/// Between two rounds, for those whose look failed: the store may be away again.
const ROUND_PAUSE: Duration = Duration::from_secs(1);

/// Deals with losses until the aggregator drains.
pub(super) async fn run(aggregator: Arc<Inner>) {
    let schedule = &aggregator.schedule;
    loop {
        let open = schedule.to_doubt();
        let next = async {
            match open.is_empty() {
                true => schedule.doubted.notified().await,
                false => {
                    let looks = stream::iter(&open).for_each_concurrent(LOOKS_MAX, async |app| {
                        // One that fails stays open.
                        let _ = aggregator.ask(app, Ask::Look).await;
                    });
                    looks.await;
                    if !schedule.to_doubt().is_empty() {
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
