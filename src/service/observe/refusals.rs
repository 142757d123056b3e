//! Counts malformed requests, and logs them at most once a second.

use std::sync::LazyLock;
use std::time::Duration;

use crate::service::sparse::Sparse;

/// Malformed requests of this process.
static REFUSED: LazyLock<Sparse> = LazyLock::new(|| Sparse::new(Duration::from_secs(1)));

/// Counts a request that was refused before its handler. The log line has only the count; the level
/// `debug` has each request.
pub(in crate::service) fn note() {
    if let Some(count) = REFUSED.note() {
        tracing::warn!(
            count,
            "requests were malformed, too large or of an unknown method; level debug has each"
        );
    }
}
