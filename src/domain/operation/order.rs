//! What can be asked of an operation.

use std::time::Duration;

use super::{Bytes, Failure, Kind, Payload};
use crate::domain::name::{OperationId, UnitName};
use crate::domain::time::Timestamp;

/// Something asked of an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    /// Which operation.
    pub id: OperationId,
    /// The unit that asks; `""` for an operator.
    pub by: UnitName,
    /// What it asks.
    pub what: What,
}

/// What is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// Record it, and work on it; nobody works on it yet if an operator asks.
    Begin(Box<NewOperation>),
    /// Take it up.
    Acquire {
        /// Look first how far the last one came.
        verify: bool,
        /// What was found under the payload.
        payload: PayloadState,
    },
    /// Still at it.
    Heartbeat {
        /// The fence the holder believes in.
        fence: u64,
        /// How far it came, for whoever goes on; `None` leaves what is there.
        checkpoint: Option<Bytes>,
        /// The same for people.
        progress: Option<Box<str>>,
    },
    /// Stopped on purpose.
    Release {
        /// The fence the holder believes in.
        fence: u64,
    },
    /// Done.
    Complete {
        /// The fence the holder believes in.
        fence: u64,
    },
    /// The attempt failed.
    Fail {
        /// The fence the holder believes in.
        fence: u64,
        /// With what.
        failure: Failure,
        /// Whether it has changed anything.
        touched: bool,
        /// Pushback of the peer.
        retry_after: Option<Duration>,
    },
    /// What the holder found.
    Verify {
        /// The fence the holder believes in.
        fence: u64,
        /// What it found.
        observed: Observed,
    },
    /// An operator wants it to stop.
    Cancel,
    /// An operator wants it to go on.
    Retry,
}

/// What the acquirer found under the payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PayloadState {
    /// What was recorded.
    #[default]
    Intact,
    /// Something else.
    Changed,
    /// Nothing.
    Missing,
    /// Nothing that can be read.
    Undecodable,
}

/// What a holder found that looked how far the last one came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Observed {
    /// It is done.
    Applied,
    /// It is not, or partly.
    NotApplied,
    /// It cannot be told.
    Undetermined,
}

/// An operation as it is begun.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewOperation {
    /// What kind of work it is.
    pub kind: Kind,
    /// Version before.
    pub from_version: Box<str>,
    /// Version it leads to.
    pub target_version: Box<str>,
    /// What is needed to do it.
    pub payload: Payload,
    /// Its bytes, if they are to be kept here.
    pub bytes: Option<Bytes>,
    /// Whether doing it again gives the same.
    pub deterministic: bool,
    /// Whether it can be undone.
    pub reversible: bool,
    /// The failure that fails it.
    pub attempts_max: u32,
    /// One interruption more fails it.
    pub interruptions_max: u32,
    /// By when it must be done.
    pub deadline: Option<Timestamp>,
    /// How long a lease lasts without a word.
    pub lease_duration: Duration,
    /// It takes the place of one that has failed, or is blocked.
    pub supersede: bool,
    /// Why it does, in words.
    pub note: Box<str>,
}
