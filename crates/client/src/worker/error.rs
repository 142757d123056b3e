//! The errors of a worker and of its reports.

use crate::error;
use crate::error::Refusal;

/// The reason why a report was not acknowledged, or why the worker ended.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The server refuses the worker, or an address is not valid: a retry cannot help.
    #[error(transparent)]
    Client(#[from] error::Error),
    /// The server refuses this report; the worker continues.
    #[error("{0}")]
    Rejected(Box<Refusal>),
    /// A newer incarnation of the unit exists, or the unit was removed: this one must not report.
    #[error("{detail}; end this process: a new one gets a new incarnation")]
    Superseded {
        /// The newer incarnation, if there is one and the server named it.
        incarnation: Option<u64>,
        /// The message of the server.
        detail: String,
    },
    /// The limit of unacknowledged reports is reached.
    #[error("{max} statuses wait for the server already; report fewer keys")]
    OutboxFull {
        /// The limit.
        max: usize,
    },
    /// The worker ended before the server acknowledged all reports.
    #[error("the worker ended with {count} reports not acknowledged")]
    Unacknowledged {
        /// Number of reports without an acknowledgement.
        count: usize,
    },
    /// The worker ended before a server received the goodbye.
    #[error("no server received the goodbye in time; the unit will become stale")]
    NoGoodbye,
    /// The worker was stopped.
    #[error("the worker has ended")]
    Ended,
}
