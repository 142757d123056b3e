//! The incarnation of a session that keeps to that of other commands of its unit: it takes the
//! newest one instead of ending it with one of its own.

use std::time::Duration;

use bellwether_client::{Worker, worker};

use crate::cli::context::say;

/// The pause before a session with the incarnation that another command has begun.
const REPLACED_PAUSE: Duration = Duration::from_millis(500);

/// Ends a session, and waits before the next one. Returns its incarnation, or `None` if none
/// follows: after a stop, and for a unit that is removed, which `lost` names: `web/0 is not
/// attended any more`.
///
/// # Errors
/// If the server refuses the unit for good.
pub async fn next(
    worker: Worker,
    ended: Option<worker::Error>,
    incarnation: u64,
    lost: &str,
) -> anyhow::Result<Option<u64>> {
    match ended {
        None => {
            // The goodbye may not arrive; the server then waits for heartbeats in vain.
            let _ = worker.shutdown(false).await;
            Ok(None)
        }
        Some(worker::Error::Superseded { incarnation: Some(newer), .. }) if incarnation < newer => {
            tokio::time::sleep(REPLACED_PAUSE).await;
            Ok(Some(newer))
        }
        Some(worker::Error::Superseded { detail, .. }) => {
            say(&format!("{lost}: {detail}"));
            Ok(None)
        }
        Some(worker::Error::Client(error)) => Err(error.into()),
        Some(error) => Err(error.into()),
    }
}
