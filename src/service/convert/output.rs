//! Conversion to the wire. It cannot fail: every value has a form.

use std::collections::BTreeMap;

use super::need::{given as given_needs, stated};
use super::page::first_of;
use super::value::{count, duration, freshness, kind, level};
use super::{damping, error, operation, quorum};
use crate::domain::app::{AppState, Head};
use crate::domain::derive::{self, Contribution};
use crate::domain::level::Level;
use crate::domain::name::{AppName, PartName, UnitName};
use crate::domain::policy::{Config, LostUnits};
use crate::domain::rank::Origin;
use crate::domain::status::report::Details;
use crate::domain::status::{Freshness, Kind, Status, StatusKey};
use crate::domain::summary::Winner;
use crate::domain::unit::Unit;
use crate::domain::unit::departure::Departure;
use crate::proto::v1;
use crate::service::protobuf::timestamp;

/// Maximum bytes of the holds that are shown with a unit: a thousand units fit into a page even if
/// each has holds.
const UNIT_HOLDS_BYTES_MAX: usize = 16 << 10;

fn origin_kind(origin: Origin) -> v1::StatusKind {
    match origin {
        Origin::Reported(reported) => kind(reported),
        _ => v1::StatusKind::Unspecified,
    }
}

/// Converts an application.
pub fn application(app: &AppName, head: &Head) -> v1::Application {
    let totals = &head.summary.totals;
    let levels = head.config.policy.order().into_iter();
    let units_by_level = levels.map(|l| v1::LevelCount {
        level: level(l) as i32,
        count: count(totals.units_by_level[l as usize]),
    });
    v1::Application {
        namespace: app.namespace().to_string(),
        name: app.application().to_string(),
        status: Some(aggregated_status(head)),
        unit_count: count(totals.units),
        units_by_level: units_by_level.filter(|c| 0 < c.count).collect(),
        leader: head.leader().map_or_else(String::new, ToString::to_string),
        lease_epoch: head.valid_epoch(),
        revision: head.revision.0,
        create_time: Some(timestamp(head.create_time)),
        update_time: Some(timestamp(head.update_time)),
        config: Some(config(&head.config)),
        needs: head.needs.as_ref().map_or_else(Vec::new, |needs| stated(needs)),
        needs_rest_count: head.needs.as_ref().map_or(0, |needs| count(needs.rest_count)),
        operation: head.summary.winner.as_ref().and_then(operation::winning),
        quorum: head.turnout().map(quorum::from_turnout),
    }
}

fn aggregated_status(head: &Head) -> v1::AggregatedStatus {
    let summary = &head.summary;
    let totals = &summary.totals;
    let winner = summary.winner.as_ref();
    let marks = head.marks.as_ref();
    let without = marks.and_then(|marks| marks.level_without);
    let overridden = crate::domain::contribution::override_status(head).is_some();
    // The winner is one of the contributions, except for an override and the lack of a quorum.
    let contributes = winner.is_some_and(|winner| winner.origin != Origin::Quorum) && !overridden;
    let winner_counts = u32::from(contributes && summary.level.is_unwell());
    v1::AggregatedStatus {
        level: level(summary.level) as i32,
        message: summary.message.to_string(),
        reason: summary.reason.to_string(),
        action: summary.action.to_string(),
        since_time: Some(timestamp(summary.since)),
        winner: winner.map(|winner| v1::StatusRef {
            unit: winner.unit.to_string(),
            component: winner.component.as_str().to_string(),
            key: winner.key.as_str().to_string(),
            kind: origin_kind(winner.origin) as i32,
            target: winner.target.to_string(),
        }),
        rule: summary.rule.words(&head.config.policy),
        action_count: count(totals.asking),
        more_count: count(totals.unwell() - winner_counts),
        stale_units: count(totals.stale_units),
        lost_units: count(totals.lost_units),
        uncertain_units: count(totals.uncertain_units),
        flapping_count: count(totals.flapping),
        fault_count: count(head.open_faults.count),
        flapping: winner.is_some_and(|w| w.flaps),
        leader_set: winner.is_some_and(is_of_leader),
        short_message: summary.short_message.to_string(),
        planned: marks.is_some_and(|marks| marks.planned),
        acknowledged: marks.is_some_and(|marks| marks.acknowledged),
        level_without_marks: level(without.unwrap_or(summary.level)) as i32,
        next_retry_time: head.open_faults.next_retry.map(timestamp),
    }
}

/// Returns whether the leader set the winner for the application itself.
fn is_of_leader(winner: &Winner) -> bool {
    match winner.origin {
        Origin::Leader => true,
        Origin::Reported(_) => winner.unit.is_application(),
        Origin::Lost | Origin::Uncertain | Origin::Fault | Origin::Operation | Origin::Quorum => {
            false
        }
    }
}

/// Converts a configuration, defaults filled in.
pub fn config(config: &Config) -> v1::ApplicationConfig {
    let lost_units = match config.lost_units {
        LostUnits::Ignore => v1::LostUnits::Ignore,
        LostUnits::Waiting => v1::LostUnits::Waiting,
        LostUnits::Blocked => v1::LostUnits::Blocked,
    };
    let leader = config.external_leader.as_ref();
    v1::ApplicationConfig {
        policy: Some(v1::Policy {
            name: config.policy.name().to_string(),
            order: config.policy.order().into_iter().map(|l| level(l) as i32).collect(),
        }),
        lost_units: lost_units as i32,
        ttls: Some(v1::Ttls {
            default_ttl: config.default_ttl.map(duration),
            lost_after: Some(duration(config.lost_after)),
            replaced_after: Some(duration(config.replaced_after)),
        }),
        serving_levels: config.serving_levels.iter().map(|l| level(*l) as i32).collect(),
        external_leader: leader.map(|unit| v1::ExternalLeader { unit: unit.to_string() }),
        collect_interval: Some(duration(config.collect_interval)),
        hand_over: config.hand_over.as_ref().map(|l| v1::HandOver { label: l.to_string() }),
        latches: damping::from_latches(config),
        damping: Some(damping::from_damping(config)),
        lease_duration: Some(duration(config.lease_duration)),
        drop_leader_status: Some(config.drop_leader_status),
        quorum: config.quorum.map(quorum::from_quorum),
    }
}

/// Returns the application status that the leader set, with its place among the stored statuses.
pub fn leader_record(state: &AppState) -> Option<(StatusKey, v1::StatusRecord)> {
    let status = state.head().application_status.as_ref()?;
    let part = PartName::default;
    let key = StatusKey::new(UnitName::application(), part(), part(), Kind::Push);
    let record = v1::StatusRecord {
        namespace: state.name.namespace().to_string(),
        application: state.name.application().to_string(),
        report: Some(v1::StatusReport {
            level: level(status.level) as i32,
            message: status.message.to_string(),
            reason: status.reason.to_string(),
            action: status.action.to_string(),
            ..v1::StatusReport::default()
        }),
        since_time: Some(timestamp(status.since)),
        expire_time: status.expire_time.map(timestamp),
        freshness: v1::Freshness::Fresh as i32,
        contributing: true,
        ..v1::StatusRecord::default()
    };
    Some((key, record))
}

/// Converts a stored status.
pub fn record(state: &AppState, key: &StatusKey, status: &Status) -> v1::StatusRecord {
    let unit = state.unit(&key.unit);
    let believed = unit.is_none_or(Unit::is_believed);
    let terminal = matches!(status.report.level, Level::Error | Level::Terminated);
    let deadlines = state.deadlines();
    let expires = deadlines.of_ttl(status).or(status.expire_time);
    let fresh = match unit {
        Some(unit) if !believed => unit.freshness(),
        Some(unit) if unit.has_outlived(key, status) => Freshness::Stale,
        _ if status.stale => Freshness::Stale,
        _ => Freshness::Fresh,
    };
    v1::StatusRecord {
        namespace: state.name.namespace().to_string(),
        application: state.name.application().to_string(),
        unit: key.unit.to_string(),
        report: Some(status_report(key, status)),
        since_time: Some(timestamp(status.since)),
        update_time: Some(timestamp(status.update_time)),
        expire_time: expires.map(timestamp),
        incarnation: status.incarnation,
        freshness: freshness(fresh) as i32,
        contributing: believed || terminal,
        held: damping::held(state, key, status),
        while_stopping: status.while_stopping,
        end_time: deadlines.of_end(status).map(timestamp),
    }
}

pub fn status_report(key: &StatusKey, status: &Status) -> v1::StatusReport {
    let (report, details) = (&status.report, status.report.details());
    v1::StatusReport {
        component: key.component.as_str().to_string(),
        key: key.key.as_str().to_string(),
        kind: kind(key.kind) as i32,
        level: level(report.level) as i32,
        message: report.message.to_string(),
        short_message: details.short_message.to_string(),
        reason: details.reason.to_string(),
        check: details.check.to_string(),
        action: details.action.to_string(),
        priority: details.priority,
        precedence: details.precedence,
        labels: labels(details),
        observe_time: status.observe_time.map(timestamp),
        ttl: report.ttl.map(duration),
        end_after: details.end_after.map(duration),
        needs: given_needs(&details.needs),
        since_unknown: details.since_unknown,
    }
}

fn labels(details: &Details) -> BTreeMap<String, String> {
    details.labels.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
}

/// Converts a unit.
pub fn unit(state: &AppState, name: &UnitName, unit: &Unit) -> v1::Unit {
    let strongest = derive::strongest_of(state, name);
    let text = |of: fn(&Contribution) -> &str| strongest.as_ref().map_or("", of).to_string();
    let holds = state.holds_of(name).into_values().map(|(k, f)| error::hold(k, f));
    let (holds, rest) = first_of(holds, UNIT_HOLDS_BYTES_MAX);
    v1::Unit {
        name: name.to_string(),
        incarnation: unit.incarnation,
        freshness: freshness(unit.freshness()) as i32,
        level: level(strongest.as_ref().map_or(Level::Unknown, |c| c.rank.level)) as i32,
        message: text(|c| &c.words.message),
        leader: state.head().leader() == Some(name),
        connected: unit.session().is_some(),
        last_seen_time: Some(timestamp(unit.last_seen)),
        holds,
        component: text(|c| c.rank.key.component.as_str()),
        short_message: text(|c| &c.words.short_message),
        holds_rest_count: count(rest),
        stale_time: unit.stale_since.into_iter().chain(unit.quiet_since).min().map(timestamp),
        stopping_time: match unit.departure {
            Departure::Stopping(since) => Some(timestamp(since)),
            Departure::None | Departure::Departed => None,
        },
    }
}

/// Converts a contribution and its result.
pub fn contribution(given: &Contribution) -> v1::Contribution {
    let rank = &given.rank;
    let details = given.report.as_ref().map(|report| report.details());
    v1::Contribution {
        r#ref: Some(v1::StatusRef {
            unit: rank.key.unit.to_string(),
            component: rank.key.component.as_str().to_string(),
            key: rank.key.key.as_str().to_string(),
            kind: origin_kind(rank.origin) as i32,
            target: rank.fault.as_ref().map_or("", |fault| &fault.target).to_string(),
        }),
        level: level(rank.level) as i32,
        message: given.words.message.to_string(),
        reason: given.words.reason.to_string(),
        action: given.words.action.to_string(),
        priority: rank.priority,
        precedence: rank.precedence,
        since_time: Some(timestamp(rank.since)),
        freshness: freshness(given.freshness) as i32,
        leader: rank.leads,
        beaten_by: given.beaten_by.clone(),
        check: details.map_or_else(String::new, |details| details.check.to_string()),
        held: given.held.clone(),
        short_message: given.words.short_message.to_string(),
        while_stopping: given.while_stopping,
        end_time: given.end_time.map(timestamp),
        counts_as: level(rank.counts_as()) as i32,
        mark_id: given.mark.as_deref().unwrap_or_default().to_string(),
        since_unknown: details.is_some_and(|details| details.since_unknown),
        labels: details.map(labels).unwrap_or_default(),
    }
}

/// Returns the leader's override of all contributions, in the form of a contribution.
pub fn override_contribution(head: &Head) -> Option<v1::Contribution> {
    let status = crate::domain::contribution::override_status(head)?;
    Some(v1::Contribution {
        r#ref: Some(v1::StatusRef::default()),
        level: level(status.level) as i32,
        counts_as: level(status.level) as i32,
        message: status.message.to_string(),
        reason: status.reason.to_string(),
        action: status.action.to_string(),
        since_time: Some(timestamp(status.since)),
        freshness: v1::Freshness::Fresh as i32,
        ..v1::Contribution::default()
    })
}
