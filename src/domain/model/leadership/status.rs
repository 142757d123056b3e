//! The status that the leader sets for the application as a whole.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::domain::level::Level;
use crate::domain::model::time::Timestamp;

/// How the status of the whole application takes part in the derivation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mode {
    /// One more contribution, of the unit `""`.
    Contribute,
    /// Overrides every contribution.
    Override,
}

/// The status that the leader sets for the application as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApplicationStatus {
    /// How the status takes part.
    pub mode: Mode,
    /// The level.
    pub level: Level,
    /// One line for a person.
    pub message: Box<str>,
    /// Machine-readable cause.
    pub reason: Box<str>,
    /// The action that a person must take.
    pub action: Box<str>,
    /// When the level began.
    pub since: Timestamp,
    /// When the status expires.
    pub expire_time: Option<Timestamp>,
}

/// The new status that the leader sets for the application as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewApplicationStatus {
    /// How the status takes part.
    pub mode: Mode,
    /// The level.
    pub level: Level,
    /// One line for a person.
    pub message: Box<str>,
    /// Machine-readable cause.
    pub reason: Box<str>,
    /// The action that a person must take.
    pub action: Box<str>,
    /// How long the status lasts.
    pub ttl: Option<Duration>,
    /// Observation time, by the leader's clock.
    pub observe_time: Option<Timestamp>,
}
