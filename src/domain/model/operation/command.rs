//! Commands on an operation.

use std::time::Duration;

use crate::domain::model::bytes::Bytes;
use crate::domain::model::name::{OperationId, UnitName};
use crate::domain::model::operation::{Failure, Kind, Payload};
use crate::domain::model::time::Timestamp;

/// A command on an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperationCommand {
    /// The operation.
    pub id: OperationId,
    /// The unit that sends the command; `""` for an operator.
    pub by: UnitName,
    /// The action.
    pub action: OperationAction,
}

/// The actions on an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OperationAction {
    /// Records the operation and starts it; if an operator sends it, no worker holds it yet.
    Begin(Box<NewOperation>),
    /// Acquires the operation.
    Acquire {
        /// Whether to check the progress of the last attempt first.
        verify: bool,
        /// The state of the payload that the worker found.
        payload: PayloadState,
    },
    /// Renews the lease.
    Heartbeat {
        /// The holder's fence.
        fence: u64,
        /// Position for the next holder to continue at; `None` keeps the stored one.
        checkpoint: Option<Bytes>,
        /// Progress as text; `None` keeps the stored one.
        progress: Option<Box<str>>,
    },
    /// Stops on purpose.
    Release {
        /// The holder's fence.
        fence: u64,
    },
    /// Reports success.
    Complete {
        /// The holder's fence.
        fence: u64,
    },
    /// Reports a failed attempt.
    Fail {
        /// The holder's fence.
        fence: u64,
        /// The error.
        failure: Failure,
        /// Whether the attempt has changed anything.
        touched: bool,
        /// The delay that the peer requested.
        retry_after: Option<Duration>,
    },
    /// Reports the result of a check.
    Verify {
        /// The holder's fence.
        fence: u64,
        /// The result.
        observed: Observed,
    },
    /// Cancels the operation on behalf of an operator.
    Cancel,
    /// Retries the operation on behalf of an operator.
    Retry,
}

/// The state of the payload that a worker found at acquire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PayloadState {
    /// The recorded payload.
    #[default]
    Intact,
    /// A different payload.
    Changed,
    /// No payload.
    Missing,
    /// An unreadable payload.
    Undecodable,
}

/// The result of a holder's check of the last attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Observed {
    /// The work is done.
    Applied,
    /// The work is not done, or only partly.
    NotApplied,
    /// The result cannot be determined.
    Undetermined,
}

/// The parameters of a new operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewOperation {
    /// The unit whose own work it is; `""` for the work of the application.
    pub unit: UnitName,
    /// The kind of work.
    pub kind: Kind,
    /// Version before.
    pub from_version: Box<str>,
    /// Version after success.
    pub target_version: Box<str>,
    /// The input.
    pub payload: Payload,
    /// The payload's bytes, if they are to be stored here.
    pub bytes: Option<Bytes>,
    /// Whether a repetition gives the same result.
    pub deterministic: bool,
    /// Whether it can be undone.
    pub reversible: bool,
    /// Number of failures at which it fails.
    pub attempts_max: u32,
    /// Number of tolerated interruptions; one more fails it.
    pub interruptions_max: u32,
    /// When it must be done.
    pub deadline: Option<Timestamp>,
    /// Length of the lease.
    pub lease_duration: Duration,
    /// Whether it replaces one that has failed or is blocked.
    pub supersede: bool,
    /// Why it replaces that one, as text.
    pub note: Box<str>,
}
