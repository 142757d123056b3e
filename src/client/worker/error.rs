//! What can go wrong with a worker and with what it says.

use crate::client::error;
use crate::client::error::Refusal;

/// Why something was not acknowledged, or why the worker is over.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The server refuses the worker, or the address is none: trying again cannot help.
    #[error(transparent)]
    Client(#[from] error::Error),
    /// The server refuses this one thing; the worker goes on.
    #[error("{0}")]
    Rejected(Box<Refusal>),
    /// A newer incarnation of the unit lives, or the unit was removed: this one must be silent.
    #[error("{detail}; end this process, a new one begins anew")]
    Superseded {
        /// The newer incarnation, if there is one and the server named it.
        incarnation: Option<u64>,
        /// What the server said.
        detail: String,
    },
    /// Too many different things are waiting to be acknowledged.
    #[error("{max} statuses wait for the server already; report fewer keys")]
    OutboxFull {
        /// How many may wait.
        max: usize,
    },
    /// The worker ended before the server acknowledged this much.
    #[error("the worker ended with {count} things not acknowledged")]
    Unacknowledged {
        /// How many.
        count: usize,
    },
    /// The worker ended before a server could be told.
    #[error("no server could be told goodbye in time; it will find the worker silent")]
    NoGoodbye,
    /// The worker ended on purpose.
    #[error("the worker has ended")]
    Ended,
}
