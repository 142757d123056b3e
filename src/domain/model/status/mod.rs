//! A status: level, texts, and validity.

pub mod damping;
pub mod flapping;
mod key;
pub mod place;
pub mod report;
pub mod set;

pub use self::key::StatusKey;
pub(in crate::domain) use self::key::{ByKey, KeyParts};

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::domain::model::status::damping::Damped;
use crate::domain::model::status::flapping::Swings;
use crate::domain::model::status::place::PlaceInSet;
use crate::domain::model::status::report::Report;
use crate::domain::model::time::Timestamp;

/// How a status is updated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Kind {
    /// Recomputed at each pull; a new set replaces the last one.
    Pull,
    /// Stored until cleared, replaced or expired.
    Push,
}

/// Validity of the last report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Freshness {
    /// Within its ttl, or without a ttl.
    Fresh,
    /// Past its ttl: only the last known state.
    Stale,
    /// Its unit is lost.
    Lost,
    /// The store may have lost the unit's last reports.
    Uncertain,
}

/// A stored status.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// The visible report. Shared, so that copies and changes of a status are cheap.
    pub report: Arc<Report>,
    /// Observation time of the report, by the reporter's clock; never after its arrival.
    pub observe_time: Option<Timestamp>,
    /// When the level began.
    pub since: Timestamp,
    /// When the record last changed.
    pub update_time: Timestamp,
    /// When the status becomes stale without a repeat.
    pub expire_time: Option<Timestamp>,
    /// Incarnation of the reporting unit; 0 if not given.
    pub incarnation: u64,
    /// Whether the status is past its ttl.
    pub stale: bool,
    /// The stored value of `expire_time`: repeats move the one in memory, and are written at most
    /// every third of the ttl.
    #[serde(skip)]
    pub expire_time_written: Option<Timestamp>,
    /// The level changes among the last results, if the component is damped. Results without a
    /// change are written only together with other changes, so a restart may lose some.
    #[serde(default)]
    pub swings: Swings,
    /// Present while `report` is not the last report, or may not be.
    #[serde(default)]
    pub held: Option<Box<Damped>>,
    /// The place in the pull set that the status was reported in.
    #[serde(default)]
    pub place: PlaceInSet,
    /// Whether the unit had announced its stop when it reported the status, which then ends with
    /// the incarnation.
    #[serde(default)]
    pub while_stopping: bool,
    /// When the status ends without a repeat. Each repeat that moves it is written. Not written if
    /// there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_time: Option<Timestamp>,
}

impl Status {
    /// Returns the status that a report makes of `old`. The level begins at the reporter's
    /// observation time, unless that is in the future.
    pub(in crate::domain) fn reported(
        old: Option<&Status>,
        report: Arc<Report>,
        observe_time: Option<Timestamp>,
        now: Timestamp,
    ) -> Status {
        let same_level = old.filter(|old| old.report.level == report.level);
        let observed = observe_time.filter(|at| *at <= now);
        let expire_time = report.ttl.map(|ttl| now.after(ttl));
        let end_time = report.end_after().map(|after| now.after(after));
        Status {
            since: same_level.map_or(observed.unwrap_or(now), |old| old.since),
            observe_time: observe_time.map(|at| at.min(now)),
            report,
            update_time: now,
            expire_time,
            incarnation: 0,
            stale: false,
            expire_time_written: expire_time,
            swings: Swings::default(),
            held: None,
            place: PlaceInSet::NONE,
            while_stopping: false,
            end_time,
        }
    }

    /// Returns whether the last report was observed after this time.
    pub(in crate::domain) fn is_observed_after(&self, time: Timestamp) -> bool {
        let (last, _) = self.last_observation();
        last.is_some_and(|last| time < last)
    }

    /// Returns whether the last report is of this incarnation. Only two observations of one
    /// incarnation have an order.
    pub(in crate::domain) fn is_of(&self, incarnation: u64) -> bool {
        self.last_observation().1 == incarnation
    }

    /// Returns when the last report was observed, and its incarnation. A status that is held back
    /// keeps its last report apart.
    fn last_observation(&self) -> (Option<Timestamp>, u64) {
        let latest = self.held.as_ref().and_then(|held| held.latest.as_ref());
        latest.map_or((self.observe_time, self.incarnation), |latest| {
            (latest.observe_time, latest.incarnation)
        })
    }

    /// Returns when the status becomes stale without a repeat, if it is not yet.
    pub(in crate::domain) fn deadline(&self) -> Option<Timestamp> {
        self.expire_time.filter(|_| !self.stale)
    }

    /// Returns how long the last report is valid without a repeat.
    pub fn ttl(&self) -> Option<Duration> {
        self.last_report().ttl
    }

    /// Returns how long the status lasts after the last report, if it ends.
    pub(in crate::domain) fn end_after(&self) -> Option<Duration> {
        self.last_report().end_after()
    }

    /// Returns the last report that a set contained.
    fn last_report(&self) -> &Report {
        let latest = self.held.as_ref().and_then(|held| held.latest.as_ref());
        latest.map_or(&self.report, |latest| &latest.report)
    }

    /// Returns by how much the deadline may be later than the stored one: a repeat is written only
    /// if it moves the deadline by this much. Each repeat of a status that ends is written.
    pub fn unwritten_max(&self) -> Duration {
        match self.end_after() {
            Some(_) => Duration::ZERO,
            None => self.ttl().unwrap_or_default() / 3,
        }
    }
}

/// Returns the size of a status, 0 if there is none.
pub(in crate::domain) fn size_of(status: Option<&std::sync::Arc<Status>>) -> u64 {
    status.map_or(0, |status| status.report.size())
}
