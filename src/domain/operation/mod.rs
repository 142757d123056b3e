//! Work in flight, on record: an interruption is a pause, not a failure.
//!
//! ```text
//!          begin                    complete
//!  (none) ------> RUNNING ------------------------------> SUCCEEDED
//!                  ^ | '- fail --> RETRY_WAIT ----------.
//!          acquire | | release, lease lapses            | attempts, deadline, GONE, FATAL
//!                  | v                                  v
//!           INTERRUPTED -- too often ---------------> FAILED -- supersede --> SUPERSEDED
//!                  | acquire, outcome not known         ^  |
//!                  v                                    |  | retry
//!              VERIFYING -- nobody can tell --> BLOCKED-'  '--> READY
//! ```
//!
//! - [`transition`] is the table: what each call does in each state.
//! - [`lapse`] is what time alone does; every call comes after it.
//! - [`begin`] is the one call that looks at other operations: an application has at most one that
//!   is not finished.
//! - [`words`] is what it says of its application.
//! - [`record`] makes all of it part of a draft.
//!
//! Whoever may write knows the newest `fence`. It grows at each acquire, so a holder from before
//! changes nothing.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::bytes::Bytes;
use super::classify::Class;
use super::name::UnitName;
use super::time::Timestamp;

mod backoff;
pub mod begin;
pub mod lapse;
pub mod order;
pub mod record;
pub mod refused;
pub mod transition;
pub mod words;

/// Where an operation stands, in the order of the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum State {
    /// Recorded, and nobody works on it.
    Ready,
    /// Its holder works on it.
    Running,
    /// Nobody works on it any more, though it was begun.
    Interrupted,
    /// It failed in a way that passes, and waits for its next attempt.
    RetryWait,
    /// Its holder looks how far the last one came.
    Verifying,
    /// A person must act.
    Blocked,
    /// Its holder was asked to stop.
    Cancelling,
    /// Done.
    Succeeded,
    /// Will not be done unless somebody says so.
    Failed,
    /// Another target took its place.
    Superseded,
    /// Given up.
    Abandoned,
}

impl State {
    /// Every state, in the order of the wire.
    pub const ALL: [State; 11] = [
        State::Ready,
        State::Running,
        State::Interrupted,
        State::RetryWait,
        State::Verifying,
        State::Blocked,
        State::Cancelling,
        State::Succeeded,
        State::Failed,
        State::Superseded,
        State::Abandoned,
    ];

    /// The word for it, UPPER_SNAKE.
    pub fn word(self) -> &'static str {
        match self {
            State::Ready => "READY",
            State::Running => "RUNNING",
            State::Interrupted => "INTERRUPTED",
            State::RetryWait => "RETRY_WAIT",
            State::Verifying => "VERIFYING",
            State::Blocked => "BLOCKED",
            State::Cancelling => "CANCELLING",
            State::Succeeded => "SUCCEEDED",
            State::Failed => "FAILED",
            State::Superseded => "SUPERSEDED",
            State::Abandoned => "ABANDONED",
        }
    }

    /// Whether nothing goes on any more.
    pub fn is_terminal(self) -> bool {
        State::Succeeded <= self
    }
}

/// Why an operation stands where it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reason {
    /// Somebody began it.
    Begun,
    /// Somebody took it up.
    Acquired,
    /// Its holder stopped on purpose.
    Released,
    /// Its holder was not heard within its lease.
    LeaseLapsed,
    /// Its holder says that it is done.
    Completed,
    /// Its holder looked, and it was done already.
    ObservedApplied,
    /// Its holder looked, and it was not done.
    ObservedNotApplied,
    /// Its holder looked, and could not tell.
    UnknownOutcome,
    /// An attempt failed with an error of this class.
    Failed(Class),
    /// As many attempts failed as are allowed.
    RetriesExhausted,
    /// It was interrupted more often than is allowed.
    InterruptionsExhausted,
    /// It was not done in time.
    DeadlineExceeded,
    /// An operator wants it to go on.
    Retried,
    /// An operator wants it to stop.
    Cancelled,
    /// What was asked to stop could not be undone.
    UndoFailed,
    /// Another target took its place.
    Superseded,
    /// Its payload is not the one that was recorded.
    PayloadChanged,
    /// Its payload is missing, or cannot be read.
    Unrecoverable,
    /// Its application was removed.
    Orphaned,
    /// The store may have lost what was written of it last.
    Doubted,
}

impl Reason {
    /// The word for it, UPPER_SNAKE.
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
            Reason::Failed(class) => class.name(),
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

/// What kind of work it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Kind {
    /// To another version.
    #[default]
    Upgrade,
    /// Back to the version before.
    Rollback,
    /// First of all.
    Install,
    /// To other settings.
    Configure,
    /// Anything else.
    Other,
}

/// What is needed to do it. The bytes themselves, where they are kept here, are a record of their
/// own: they do not change while the operation does.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Payload {
    /// Where it is; empty if the bytes are kept here.
    pub uri: Box<str>,
    /// `sha256:` and 64 hex digits; empty if there is no payload at all.
    pub digest: Box<str>,
}

/// Who works on it, and until when without a word.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// The unit.
    pub holder: UnitName,
    /// When it lapses, by the store's clock.
    pub expire_time: Timestamp,
}

/// An error that ended an attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// What it means.
    pub class: Class,
    /// Part of the unit that met it.
    pub component: Box<str>,
    /// What was acted on.
    pub target: Box<str>,
    /// Whose table of codes applies.
    pub system: Box<str>,
    /// The code.
    pub code: Box<str>,
    /// Domain of the reason.
    pub domain: Box<str>,
    /// Machine-readable cause.
    pub reason: Box<str>,
    /// One line that everybody may read.
    pub message: Box<str>,
}

/// One transition, as it is remembered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// When.
    pub time: Timestamp,
    /// State before; `None` at the begin.
    pub from: Option<State>,
    /// State after.
    pub to: State,
    /// The unit that caused it; `""` for an operator and for time.
    pub by: UnitName,
    /// Why.
    pub reason: Reason,
    /// Fence after.
    pub fence: u64,
}

/// A record of work in flight.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operation {
    /// What kind of work it is.
    pub kind: Kind,
    /// Version before.
    pub from_version: Box<str>,
    /// Version it leads to.
    pub target_version: Box<str>,
    /// What is needed to do it.
    pub payload: Payload,
    /// Whether doing it again gives the same: else who takes it up looks first.
    pub deterministic: bool,
    /// Whether it can be undone.
    pub reversible: bool,
    /// Where it stands.
    pub state: State,
    /// Why it stands there.
    pub reason: Reason,
    /// Grows by one at each acquire; compared at every write.
    pub fence: u64,
    /// Who works on it; `None` while nobody does.
    pub lease: Option<Lease>,
    /// How long a lease lasts without a word.
    pub lease_duration: Duration,
    /// Failures counted.
    pub attempts_failed: u32,
    /// The one that fails it.
    pub attempts_max: u32,
    /// Interruptions counted.
    pub interruptions: u32,
    /// One more fails it.
    pub interruptions_max: u32,
    /// Whether a failed attempt has changed anything.
    pub touched: bool,
    /// Nobody knows how far the last attempt came.
    pub cut_off: bool,
    /// How far it came, for whoever goes on.
    pub checkpoint: Bytes,
    /// How far it came, for people: `step 3/7`.
    pub progress: Box<str>,
    /// When it began.
    pub create_time: Timestamp,
    /// When it last changed its state.
    pub update_time: Timestamp,
    /// By when it must be done.
    pub deadline: Option<Timestamp>,
    /// How long that was at the begin: given again by a retry that comes after it.
    pub time_allowed: Option<Duration>,
    /// It is past its deadline.
    pub deadline_exceeded: bool,
    /// When it is tried next.
    pub retry_time: Option<Timestamp>,
    /// Failures in a row, counted or not: for how long to wait.
    pub waits: u32,
    /// The last error.
    pub last_error: Option<Failure>,
    /// The target asked for meanwhile; the newest of several.
    pub next_target: Box<str>,
    /// Why another one took its place, in the words of whoever began that.
    pub note: Box<str>,
    /// Since when somebody could take it up.
    pub unclaimed_since: Option<Timestamp>,
    /// Nobody has for too long.
    pub neglected: bool,
    /// Place among the operations of its application in the order in which they last were to be
    /// done: the last one speaks for it.
    pub turn: u64,
    /// Its transitions, the oldest first. Bounded, the oldest go.
    pub history: Vec<Event>,
}

impl Operation {
    /// Whether something is still to be done.
    pub fn is_open(&self) -> bool {
        !self.state.is_terminal()
    }

    /// Who works on it.
    pub fn holder(&self) -> Option<&UnitName> {
        self.lease.as_ref().map(|lease| &lease.holder)
    }
}
