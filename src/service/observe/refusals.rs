//! Requests that are no requests: counted, and logged once a second however many come.

use std::sync::LazyLock;
use std::time::Duration;

use crate::service::sparse::Sparse;

/// Those of this process.
static REFUSED: LazyLock<Sparse> = LazyLock::new(|| Sparse::new(Duration::from_secs(1)));

/// A request was refused before a handler saw it. The line names no request: the level `debug` has
/// each.
pub(in crate::service) fn note() {
    if let Some(count) = REFUSED.note() {
        tracing::warn!(
            count,
            "requests were malformed, too large or of an unknown method; level debug has each"
        );
    }
}
