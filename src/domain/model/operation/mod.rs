//! Operations: recorded work in flight. An interruption is a pause, not a failure.
//!
//! ```text
//!          begin                    complete
//!  (none) ------> RUNNING ------------------------------> SUCCEEDED
//!                ^ ^ | '- fail --> RETRY_WAIT ----------.
//!                | | |                  |               | attempts, deadline, GONE, FATAL
//!        acquire | '-|-- acquire, due --'               v
//!                |   | release, lease lapses         FAILED -- supersede --> SUPERSEDED
//!                |   v                                  ^  |
//!           INTERRUPTED -- too often, deadline ---------'  | retry
//!                | acquire, outcome not known              v
//!                v                                       READY -- acquire --> RUNNING
//!            VERIFYING -- undetermined --> BLOCKED -- retry --^
//! ```
//!
//! Not in the picture:
//! - An operator begins in READY. A worker may ask for VERIFYING at each acquire.
//! - VERIFYING ends as RUNNING does, or in RUNNING if the work is not done.
//! - `complete` is accepted late: from INTERRUPTED, and from FAILED by time or interruptions.
//! - `cancel` leads to ABANDONED, through CANCELLING while a worker holds the operation.
//! - The removal of the application or unit, and a lost payload, lead to ABANDONED.
//! - A changed payload, and an error of class BLOCKED, lead to BLOCKED.
//! - After a data loss of the store, a held operation must be acquired again.
//!
//! - [`transition`] is the table of each call in each state.
//! - `rules::lapse` contains the changes by time alone; they precede every call.
//! - `rules::begin_operation` is the one call that depends on other operations: an application has
//!   at most one unfinished operation of its own, and one of each unit.
//! - [`words`] derives the operation's status of the application.
//! - `apply` applies the commands to a draft.
//!
//! Every write requires the newest `fence`. The fence grows at each acquire, so an earlier holder
//! can change nothing.

mod backoff;
pub mod command;
pub mod refused;
pub mod set;
pub mod transition;
pub mod winning;
pub mod words;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::domain::classify::finding::Class;
use crate::domain::model::bytes::Bytes;
use crate::domain::model::name::UnitName;
use crate::domain::model::time::Timestamp;
use crate::domain::word::worded;

worded! {
    /// The state of an operation, in wire order.
    #[derive(
        Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize,
    )]
    pub enum State {
        /// Recorded, without a holder.
        #[default]
        Ready = "READY",
        /// In progress by its holder.
        Running = "RUNNING",
        /// Begun, but without a holder now.
        Interrupted = "INTERRUPTED",
        /// An attempt failed with an error that may pass; the next attempt is planned.
        RetryWait = "RETRY_WAIT",
        /// The holder checks the result of the last attempt.
        Verifying = "VERIFYING",
        /// A person must act.
        Blocked = "BLOCKED",
        /// The holder was asked to stop.
        Cancelling = "CANCELLING",
        /// Done.
        Succeeded = "SUCCEEDED",
        /// Ended without success, unless an operator retries it.
        Failed = "FAILED",
        /// Replaced by an operation with another target.
        Superseded = "SUPERSEDED",
        /// Given up.
        Abandoned = "ABANDONED",
    }
}

impl State {
    /// Returns whether the state is final.
    pub fn is_terminal(self) -> bool {
        State::Succeeded <= self
    }
}

/// The reason of an operation's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Reason {
    /// It was begun.
    #[default]
    Begun,
    /// A worker acquired it.
    Acquired,
    /// Its holder released it on purpose.
    Released,
    /// Its holder sent nothing within its lease.
    LeaseLapsed,
    /// Its holder reported that it is done.
    Completed,
    /// Its holder checked, and it was already done.
    ObservedApplied,
    /// Its holder checked, and it was not done.
    ObservedNotApplied,
    /// Its holder checked, and the result was undetermined.
    UnknownOutcome,
    /// An attempt failed with an error of this class.
    Failed(Class),
    /// The maximum number of attempts failed.
    RetriesExhausted,
    /// It was interrupted more often than allowed.
    InterruptionsExhausted,
    /// It was not done before its deadline.
    DeadlineExceeded,
    /// An operator retried it.
    Retried,
    /// An operator cancelled it.
    Cancelled,
    /// It was cancelled, and undoing it failed.
    UndoFailed,
    /// An operation with another target replaced it.
    Superseded,
    /// Its payload is not the recorded one.
    PayloadChanged,
    /// Its payload is missing or unreadable.
    Unrecoverable,
    /// Its application or its unit was removed.
    Orphaned,
    /// The store may have lost its last writes.
    Doubted,
}

impl Reason {
    /// Returns the word on the wire, in UPPER_SNAKE.
    pub fn word(self) -> &'static str {
        match self {
            Reason::Begun => "BEGUN",
            Reason::Acquired => "ACQUIRED",
            Reason::Released => "RELEASED",
            Reason::LeaseLapsed => "LEASE_LAPSED",
            Reason::Completed => "COMPLETED",
            Reason::ObservedApplied => "OBSERVED_APPLIED",
            Reason::ObservedNotApplied => "OBSERVED_NOT_APPLIED",
            Reason::UnknownOutcome => "UNKNOWN_OUTCOME",
            Reason::Failed(class) => class.word(),
            Reason::RetriesExhausted => "RETRIES_EXHAUSTED",
            Reason::InterruptionsExhausted => "INTERRUPTIONS_EXHAUSTED",
            Reason::DeadlineExceeded => "DEADLINE_EXCEEDED",
            Reason::Retried => "RETRIED",
            Reason::Cancelled => "CANCELLED",
            Reason::UndoFailed => "UNDO_FAILED",
            Reason::Superseded => "SUPERSEDED",
            Reason::PayloadChanged => "PAYLOAD_CHANGED",
            Reason::Unrecoverable => "UNRECOVERABLE",
            Reason::Orphaned => "ORPHANED",
            Reason::Doubted => "DOUBTED",
        }
    }
}

/// The kind of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Kind {
    /// To another version.
    #[default]
    Upgrade,
    /// Back to the previous version.
    Rollback,
    /// The first installation.
    Install,
    /// To other settings.
    Configure,
    /// Any other work.
    Other,
}

/// The input of an operation. Bytes that are stored here are a separate record: they do not change
/// while the operation does.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Payload {
    /// Location of the payload; empty if the bytes are stored here.
    pub uri: Box<str>,
    /// `sha256:` and 64 hex digits; empty if there is no payload.
    pub digest: Box<str>,
}

/// The holder of an operation, and the end of its lease.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// The unit.
    pub holder: UnitName,
    /// When the lease lapses without a renewal, by the store's clock.
    pub expire_time: Timestamp,
}

/// An error that ended an attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The class.
    pub class: Class,
    /// The component of the unit that met it.
    pub component: Box<str>,
    /// The target that the component acted on.
    pub target: Box<str>,
    /// The system, which selects the table of codes.
    pub system: Box<str>,
    /// The code.
    pub code: Box<str>,
    /// Domain of the reason.
    pub domain: Box<str>,
    /// Machine-readable cause.
    pub reason: Box<str>,
    /// One line without confidential content.
    pub message: Box<str>,
    /// The action for a person, if the error blocks and may end by itself: the operation is tried
    /// again. Not written if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tried_again: Option<Box<str>>,
}

/// One stored transition of an operation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// When it happened.
    pub time: Timestamp,
    /// State before; `None` for the begin.
    pub from: Option<State>,
    /// State after.
    pub to: State,
    /// The unit that caused it; `""` for an operator and for time.
    pub by: UnitName,
    /// The reason.
    pub reason: Reason,
    /// Fence after.
    pub fence: u64,
}

/// A record of work in flight.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Operation {
    /// The kind of work.
    pub kind: Kind,
    /// Version before.
    pub from_version: Box<str>,
    /// Version after success.
    pub target_version: Box<str>,
    /// The input.
    pub payload: Payload,
    /// Whether a repetition gives the same result; if not, a worker that acquires it checks the
    /// last attempt first.
    pub deterministic: bool,
    /// Whether it can be undone.
    pub reversible: bool,
    /// The state.
    pub state: State,
    /// The reason of the state.
    pub reason: Reason,
    /// Grows at each acquire; compared at every write.
    pub fence: u64,
    /// The holder and its lease; `None` without a holder.
    pub lease: Option<Lease>,
    /// Length of the lease.
    pub lease_duration: Duration,
    /// Number of failures.
    pub attempts_failed: u32,
    /// Number of failures at which it fails.
    pub attempts_max: u32,
    /// Number of interruptions.
    pub interruptions: u32,
    /// Number of tolerated interruptions; one more fails it.
    pub interruptions_max: u32,
    /// Whether a failed attempt has changed anything.
    pub touched: bool,
    /// Whether the progress of the last attempt is unknown.
    pub cut_off: bool,
    /// Position to continue at, for the next holder.
    pub checkpoint: Bytes,
    /// Progress as text: `step 3/7`.
    pub progress: Box<str>,
    /// When it began.
    pub create_time: Timestamp,
    /// When the state last changed.
    pub update_time: Timestamp,
    /// When it must be done.
    pub deadline: Option<Timestamp>,
    /// Time from the begin to the deadline; a retry after the deadline gets this time again.
    pub time_allowed: Option<Duration>,
    /// Whether the deadline has passed.
    pub deadline_exceeded: bool,
    /// When the next attempt is planned.
    pub retry_time: Option<Timestamp>,
    /// Number of failures in a row, counted or not; it determines the wait.
    pub waits: u32,
    /// The last error.
    pub last_error: Option<Failure>,
    /// The target that was requested meanwhile; the newest of several.
    pub next_target: Box<str>,
    /// Why it was superseded, as the client that superseded it wrote.
    pub note: Box<str>,
    /// Since when it waits for a worker.
    pub unclaimed_since: Option<Timestamp>,
    /// Whether it has waited too long for a worker.
    pub neglected: bool,
    /// Position among the operations of its application, by the last begin or retry: the last one
    /// gives the application's operation status.
    pub turn: u64,
    /// The transitions, the oldest first. Bounded: the oldest are dropped.
    pub history: Vec<Event>,
    /// The unit whose own work it is; `""` for the work of the application. Not written if it is
    /// `""`, so that the stored form of the others is unchanged.
    #[serde(default, skip_serializing_if = "UnitName::is_application")]
    pub unit: UnitName,
}

impl Operation {
    /// Returns whether the operation is unfinished.
    pub fn is_open(&self) -> bool {
        !self.state.is_terminal()
    }

    /// Returns the action for a person, if the operation is tried again after an error that blocks.
    pub(in crate::domain) fn blocking_error(&self) -> Option<&str> {
        let waits = self.state == State::RetryWait;
        self.last_error.as_ref().filter(|_| waits)?.tried_again.as_deref()
    }

    /// Returns the holder.
    pub fn holder(&self) -> Option<&UnitName> {
        self.lease.as_ref().map(|lease| &lease.holder)
    }

    /// Returns the bytes of the texts and of the checkpoint; the payload is counted separately.
    pub(in crate::domain) fn size(&self) -> u64 {
        let texts = [
            &self.from_version,
            &self.target_version,
            &self.payload.uri,
            &self.payload.digest,
            &self.progress,
            &self.next_target,
            &self.note,
        ];
        let texts = texts.into_iter().map(|text| text.len()).sum::<usize>();
        (texts + self.checkpoint.len()) as u64
    }
}
