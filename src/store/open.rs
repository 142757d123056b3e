//! Why a store could not be opened, by its kind.

use super::{embedded, redis};

/// Why a store could not be opened, by its kind.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The embedded store.
    #[error(transparent)]
    Embedded(#[from] embedded::OpenError),
    /// The Redis store.
    #[error(transparent)]
    Redis(#[from] redis::OpenError),
}
