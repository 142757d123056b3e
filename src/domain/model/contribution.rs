//! Contributions: everything that can decide the status of an application, with its rank and its
//! texts.

use std::sync::Arc;

use crate::domain::level::Level;
use crate::domain::model::app::{AppState, Head};
use crate::domain::model::fault::{Fault, FaultKey};
use crate::domain::model::leadership::status::{ApplicationStatus, Mode};
use crate::domain::model::mark::Cover;
use crate::domain::model::mark::set::Marks;
use crate::domain::model::name::{PartName, UnitName};
use crate::domain::model::operation::words::{OperationStatus, SUCCESS_PRECEDENCE};
use crate::domain::model::rank::{Origin, Rank};
use crate::domain::model::status::place::PlaceInSet;
use crate::domain::model::status::{Kind, Status, StatusKey};
use crate::domain::model::time::Timestamp;
use crate::domain::model::unit::Unit;

/// What ranks the contributions of an application, beside their own values.
#[derive(Clone, Copy)]
pub(in crate::domain) struct Ranking<'a> {
    /// The head: policy and leader.
    pub head: &'a Head,
    /// What planned work covers.
    pub planned: &'a [Cover],
}

impl<'a> Ranking<'a> {
    pub fn of(head: &'a Head, marks: &'a Marks) -> Ranking<'a> {
        Ranking { head, planned: marks.planned() }
    }
}

impl AppState {
    /// Returns what ranks the contributions.
    pub(in crate::domain) fn ranking(&self) -> Ranking<'_> {
        Ranking::of(&self.head, &self.marks)
    }
}

/// Returns the rank of a status, or `None` if it does not contribute.
pub(in crate::domain) fn status_rank(
    ranking: Ranking<'_>,
    unit: Option<&Unit>,
    key: &Arc<StatusKey>,
    status: &Status,
) -> Option<Rank> {
    let believed = unit.is_none_or(Unit::is_believed);
    let (level, details) = (status.report.level, status.report.details());
    // Statuses of a lost or uncertain unit contribute only if they are final.
    if !believed && !matches!(level, Level::Error | Level::Terminated) {
        return None;
    }
    Some(Rank {
        precedence: details.precedence,
        priority: details.priority,
        place: status.place,
        asks: !details.action.is_empty(),
        flaps: status.flapping().is_some(),
        ..rank(ranking, key.clone(), Origin::Reported(key.kind), level, status.since)
    })
}

/// Returns the rank of a contribution that has nothing beyond its level and its start.
#[inline]
fn rank(
    ranking: Ranking<'_>,
    key: Arc<StatusKey>,
    origin: Origin,
    level: Level,
    since: Timestamp,
) -> Rank {
    let Ranking { head, planned } = ranking;
    let policy = &head.config.policy;
    let own_severity = policy.severity(level);
    let severity = match planned {
        [] => own_severity,
        planned => {
            let mildest = policy.severity_of_planned();
            // Planned work may be of 64 parts, so only something worse is looked up.
            let is_covered = own_severity < mildest && planned.iter().any(|one| one.has(&key));
            if is_covered { mildest } else { own_severity }
        }
    };
    Rank {
        precedence: 0,
        severity,
        own_severity,
        priority: 0,
        leads: head.leader() == Some(&key.unit),
        key,
        place: PlaceInSet::NONE,
        since,
        origin,
        level,
        asks: false,
        flaps: false,
        fault: None,
    }
}

/// Returns the contribution of a lost or uncertain unit beside its statuses. An uncertain unit is
/// waiting, even if `lost_units` ignores lost ones: it may have changed since the data loss.
fn silent_rank(ranking: Ranking<'_>, name: &UnitName, unit: &Unit) -> Option<Rank> {
    let (since, level, origin) = match unit.uncertain_since {
        Some(since) => (since, Level::Waiting, Origin::Uncertain),
        None => (unit.lost_since?, ranking.head.config.lost_units.level()?, Origin::Lost),
    };
    Some(rank(ranking, Arc::new(StatusKey::first_of(name)), origin, level, since))
}

/// Returns the contribution of the leader's status, if its mode is contribute.
fn application_rank(ranking: Ranking<'_>) -> Option<Rank> {
    let status = ranking.head.application_status.as_ref()?;
    if status.mode == Mode::Override {
        return None;
    }
    let key = pushed(&UnitName::application(), PartName::default(), PartName::default());
    Some(Rank {
        asks: !status.action.is_empty(),
        ..rank(ranking, key, Origin::Leader, status.level, status.since)
    })
}

/// Returns the lack of a quorum as a contribution of the application itself, since a time.
pub(in crate::domain) fn lacking_rank(head: &Head, since: Timestamp) -> Rank {
    let key = pushed(&UnitName::application(), PartName::default(), PartName::default());
    let ranking = Ranking { head, planned: &[] };
    rank(ranking, key, Origin::Quorum, Level::Waiting, since)
}

/// Returns the key of a contribution that is not a status, as if it was pushed.
fn pushed(unit: &UnitName, component: PartName, key: PartName) -> Arc<StatusKey> {
    Arc::new(StatusKey::new(unit.clone(), component, key, Kind::Push))
}

/// Returns the contributions of a unit beside its statuses and faults: its silence, and its latest
/// operation.
pub(in crate::domain) fn unit_ranks(
    ranking: Ranking<'_>,
    name: &UnitName,
    unit: &Unit,
) -> impl Iterator<Item = Rank> {
    let operation = unit.operation.as_deref();
    // Of a lost or uncertain unit only final levels contribute.
    let operation = operation.filter(|o| unit.is_believed() || o.level == Level::Error);
    let operation = operation.map(|operation| operation_rank(ranking, name, operation));
    silent_rank(ranking, name, unit).into_iter().chain(operation)
}

/// Returns the contribution of the latest operation of a unit, or with `""` of the application.
fn operation_rank(ranking: Ranking<'_>, unit: &UnitName, status: &OperationStatus) -> Rank {
    let succeeded = status.level == Level::Active;
    let key = pushed(unit, PartName::operation(), status.id.as_key());
    Rank {
        precedence: if succeeded { SUCCESS_PRECEDENCE } else { 0 },
        asks: !status.action.is_empty(),
        ..rank(ranking, key, Origin::Operation, status.level, status.since)
    }
}

/// Returns the contributions of the application itself, beside its units.
pub(in crate::domain) fn own_ranks(ranking: Ranking<'_>) -> impl Iterator<Item = Rank> {
    let own = UnitName::application();
    let operation = ranking.head.operation.as_deref();
    let operation = operation.map(|operation| operation_rank(ranking, &own, operation));
    application_rank(ranking).into_iter().chain(operation)
}

/// Returns the contribution of a fault. A fault of a lost or uncertain unit contributes only at
/// level error, because only final levels do.
pub(in crate::domain) fn fault_rank(
    ranking: Ranking<'_>,
    unit: Option<&Unit>,
    key: &Arc<FaultKey>,
    fault: &Fault,
) -> Option<Rank> {
    let level = fault.level()?;
    if level != Level::Error && !unit.is_none_or(Unit::is_believed) {
        return None;
    }
    let name = pushed(&key.unit, key.component.clone(), PartName::default());
    Some(Rank {
        asks: !fault.action().is_empty(),
        fault: Some(key.clone()),
        ..rank(ranking, name, Origin::Fault, level, fault.since)
    })
}

/// The texts of a contribution.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Words {
    /// One line for a person.
    pub message: Box<str>,
    /// Machine-readable cause.
    pub reason: Box<str>,
    /// The action that a person must take.
    pub action: Box<str>,
    /// The message for narrow places; empty if none was given.
    pub short_message: Box<str>,
}

impl Words {
    /// Returns the texts of a contribution that no unit reported as a status.
    fn derived(message: &str, reason: &str, action: &str) -> Words {
        Words {
            message: message.into(),
            reason: reason.into(),
            action: action.into(),
            short_message: Box::default(),
        }
    }
}

/// Returns the texts of a contribution of any origin. `status` and `fault` are those that it comes
/// from, if it comes from one.
pub(in crate::domain) fn words(
    head: &Head,
    rank: &Rank,
    unit: Option<&Unit>,
    status: Option<&Status>,
    fault: Option<&Fault>,
) -> Words {
    let name = &rank.key.unit;
    let words = match rank.origin {
        Origin::Lost => {
            let why = unit.map_or("", Unit::why_lost);
            let ends = match unit.is_some_and(|unit| unit.silence_ends.is_some()) {
                true => "; it is removed once a successor is fresh",
                false => "",
            };
            Some(Words::derived(&format!("unit {name} lost: {why}{ends}"), "UnitLost", ""))
        }
        Origin::Uncertain => {
            let message =
                format!("unit {name} uncertain: the store may have lost its last reports");
            Some(Words::derived(&message, "Uncertain", ""))
        }
        Origin::Leader => {
            let status = head.application_status.as_ref();
            status.map(|s| Words::derived(&s.message, &s.reason, &s.action))
        }
        Origin::Operation => {
            let status = unit.map_or(&head.operation, |unit| &unit.operation).as_ref();
            status.map(|s| Words::derived(&s.message, &s.reason, &s.action))
        }
        Origin::Quorum => {
            let turnout = head.turnout();
            turnout.map(|s| Words::derived(&s.words(), s.reason(), ""))
        }
        Origin::Fault => fault.map(|f| Words::derived(&f.shown, f.reason(), f.action())),
        Origin::Reported(_) => status.map(|s| {
            let details = s.report.details();
            Words {
                message: s.report.message.clone(),
                reason: details.reason.clone(),
                action: details.action.clone(),
                short_message: details.short_message.clone(),
            }
        }),
    };
    words.unwrap_or_default()
}

/// Returns the leader's status, if its mode is override.
pub fn override_status(head: &Head) -> Option<&ApplicationStatus> {
    let status = head.application_status.as_ref()?;
    (status.mode == Mode::Override).then_some(status)
}
