//! Measures a commit: its metrics, and its span.

use std::future::Future;

use tokio::time::Instant;
use tracing::Instrument;

use crate::store::CommitError;
use crate::telemetry::{Callers, CommitResult, Metrics};

/// Waits for a commit of `commands` commands, for which `callers` wait.
pub(super) async fn measured(
    metrics: &Metrics,
    callers: &Callers,
    commands: usize,
    committed: impl Future<Output = Result<(), CommitError>>,
) -> Result<(), CommitError> {
    let span = callers.commit_span(commands);
    let start = Instant::now();
    let result = committed.instrument(span.clone()).await;
    let word = match &result {
        Ok(()) => CommitResult::Ok,
        Err(CommitError::Conflict { .. }) => CommitResult::Conflict,
        Err(CommitError::Unavailable { .. }) => CommitResult::Failed,
    };
    span.record("result", word.word());
    metrics.commit(word, commands, start.elapsed());
    result
}
