//! Latches and damping: a status shows a worse level than the last report, for a while.
//!
//! A *latch* shows a bad pull result until enough better ones came in a row. *Damping* shows the
//! worst report since a status began to flap. Both store the last report beside the visible one.
//! `flapping` measures; `rules::decide` chooses the visible report, `rules::damping` writes it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::domain::model::status::report::Report;
use crate::domain::model::time::Timestamp;

/// The state behind a status that is latched or damped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Damped {
    /// The last report; `None`: the last pull set did not contain the status.
    pub latest: Option<Reported>,
    /// Number of consecutive results, up to the last, that were better than the visible one.
    /// Counted only for a latch, up to the latch's count.
    pub good_count: u32,
    /// Present while the status flaps, whether or not a latch waits too; else a latch waits for
    /// good results.
    pub flapping: Option<Flapping>,
}

/// A report with its incarnation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reported {
    /// The report.
    pub report: Arc<Report>,
    /// Observation time, by the reporter's clock.
    pub observe_time: Option<Timestamp>,
    /// Incarnation of the reporting unit; 0 if not given.
    pub incarnation: u64,
}

/// The flapping of a status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flapping {
    /// When it began.
    pub since: Timestamp,
    /// When it ends if the level does not change before.
    pub calm_time: Timestamp,
}
