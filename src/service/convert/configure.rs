//! Conversion of the commands of operators from the wire: configuration, and removal of a unit.

use std::collections::BTreeSet;
use std::time::Duration;

use super::damping::{damping, latches};
use super::fields::{Fields, Within};
use super::identity::request_id;
use super::quorum::quorum;
use crate::domain::command::{Command, Request};
use crate::domain::level::{LEVELS, Level};
use crate::domain::limits::{
    COLLECT_INTERVAL_MIN, LABEL_BYTES_MAX, LEASE_DURATION_MAX, LEASE_DURATION_MIN, TTL_MAX, TTL_MIN,
};
use crate::domain::policy::{Config, ConfigPatch, LostUnits, Policy};
use crate::proto::v1;
use crate::service::code::{Reason, quoted};

/// Reads a `ConfigureApplication`.
pub fn configure_application(
    fields: &mut Fields,
    wire: v1::ConfigureApplicationRequest,
) -> Option<Request> {
    let id = request_id(fields, &wire);
    let config = wire.config.unwrap_or_default();
    let patch = config_patch(fields, &config, wire.update_mask.as_ref())?;
    Some(Request { id, command: Command::Configure(Box::new(patch)) })
}

/// Reads a `RemoveUnit`.
pub fn remove_unit(fields: &mut Fields, wire: v1::RemoveUnitRequest) -> Option<Request> {
    let unit = fields.unit("unit", &wire.unit);
    Some(Request { id: request_id(fields, &wire), command: Command::RemoveUnit(unit) })
}

/// Reads the change: a field that is named and absent returns to its default.
fn config_patch(
    fields: &mut Fields,
    config: &v1::ApplicationConfig,
    mask: Option<&prost_types::FieldMask>,
) -> Option<ConfigPatch> {
    let present = [
        ("policy", config.policy.is_some()),
        ("lost_units", config.lost_units != 0),
        ("ttls.default_ttl", config.ttls.is_some_and(|t| t.default_ttl.is_some())),
        ("ttls.lost_after", config.ttls.is_some_and(|t| t.lost_after.is_some())),
        ("ttls.replaced_after", config.ttls.is_some_and(|t| t.replaced_after.is_some())),
        ("serving_levels", !config.serving_levels.is_empty()),
        ("external_leader", config.external_leader.is_some()),
        ("collect_interval", config.collect_interval.is_some()),
        ("hand_over", config.hand_over.is_some()),
        ("latches", !config.latches.is_empty()),
        ("damping", config.damping.is_some()),
        ("lease_duration", config.lease_duration.is_some()),
        ("drop_leader_status", config.drop_leader_status.is_some()),
        ("quorum", config.quorum.is_some()),
    ];
    let paths: Vec<&str> = match mask {
        Some(mask) => mask.paths.iter().map(String::as_str).collect(),
        None => present.iter().filter(|(_, present)| *present).map(|(path, _)| *path).collect(),
    };
    let mut parents: Vec<&str> = present.iter().map(|(path, _)| parent(path)).collect();
    parents.dedup();
    let known = |path: &str| {
        path == "*" || parents.contains(&path) || present.iter().any(|(p, _)| *p == path)
    };
    if let Some(path) = paths.iter().find(|path| !known(path)) {
        let text = format!("names {}; known are {}, and *", quoted(path), parents.join(", "));
        return fields.wrong("update_mask", text, path);
    }
    let named = |path: &str| paths.iter().any(|p| [path, parent(path), "*"].contains(p));
    fields.inside(Within::Message("config"), |fields| config_fields(fields, config, named))
}

/// Returns the field that holds the field of a path.
fn parent(path: &str) -> &str {
    path.split('.').next().unwrap_or(path)
}

fn config_fields(
    fields: &mut Fields,
    config: &v1::ApplicationConfig,
    named: impl Fn(&str) -> bool,
) -> Option<ConfigPatch> {
    let default = Config::default();
    let ttls = config.ttls.unwrap_or_default();
    let policy = match &config.policy {
        Some(given) => policy(fields, given),
        None => Some(default.policy),
    };
    let lost_units = match v1::LostUnits::try_from(config.lost_units) {
        Ok(v1::LostUnits::Unspecified) => None,
        Ok(v1::LostUnits::Ignore) => Some(LostUnits::Ignore),
        Ok(v1::LostUnits::Waiting) => Some(LostUnits::Waiting),
        Ok(v1::LostUnits::Blocked) => Some(LostUnits::Blocked),
        Err(_) => fields.wrong("lost_units", "is not in the enum LostUnits", config.lost_units),
    };
    let lost_units = lost_units.unwrap_or(default.lost_units);
    let given = ttls.default_ttl.filter(|ttl| *ttl != prost_types::Duration::default());
    let default_ttl = fields.duration("ttls.default_ttl", given, TTL_MIN, TTL_MAX);
    let lost_after = fields.duration("ttls.lost_after", ttls.lost_after, TTL_MIN, TTL_MAX);
    let given = ttls.replaced_after.filter(|after| *after != prost_types::Duration::default());
    let replaced_after = match (ttls.replaced_after, given) {
        (Some(_), None) => Some(Duration::ZERO),
        _ => fields.duration("ttls.replaced_after", given, TTL_MIN, TTL_MAX),
    };
    let replaced_after = replaced_after.unwrap_or(default.replaced_after);
    let serving_levels = match config.serving_levels.as_slice() {
        [] => default.serving_levels,
        given => fields.levels(given).into_iter().collect(),
    };
    let external_leader = config.external_leader.as_ref();
    let external_leader = external_leader
        .map(|leader| fields.unit_or_application("external_leader.unit", &leader.unit));
    let given = config.collect_interval;
    let collect_interval =
        fields.duration("collect_interval", given, COLLECT_INTERVAL_MIN, TTL_MAX);
    let hand_over = config.hand_over.as_ref();
    let hand_over =
        hand_over.map(|given| fields.text("hand_over.label", &given.label, LABEL_BYTES_MAX));
    let given = config.lease_duration;
    let lease_duration =
        fields.duration("lease_duration", given, LEASE_DURATION_MIN, LEASE_DURATION_MAX);
    let collect_interval = collect_interval.unwrap_or(default.collect_interval);
    let lease_duration = lease_duration.unwrap_or(default.lease_duration);
    let drop_leader_status = config.drop_leader_status.unwrap_or_default();
    let quorum = config.quorum.as_ref().and_then(|given| quorum(fields, given));
    Some(ConfigPatch {
        lost_units: named("lost_units").then_some(lost_units),
        default_ttl: named("ttls.default_ttl").then_some(default_ttl),
        lost_after: named("ttls.lost_after").then_some(lost_after.unwrap_or(default.lost_after)),
        replaced_after: named("ttls.replaced_after").then_some(replaced_after),
        serving_levels: named("serving_levels").then_some(serving_levels),
        external_leader: named("external_leader").then_some(external_leader),
        collect_interval: named("collect_interval").then_some(collect_interval),
        hand_over: named("hand_over").then_some(hand_over),
        latches: named("latches").then_some(latches(fields, &config.latches)),
        damping: named("damping").then_some(damping(fields, config.damping.as_ref())),
        lease_duration: named("lease_duration").then_some(lease_duration),
        drop_leader_status: named("drop_leader_status").then_some(drop_leader_status),
        quorum: named("quorum").then_some(quorum),
        // Last, so that the error has every violation.
        policy: named("policy").then_some(policy?),
    })
}

fn policy(fields: &mut Fields, given: &v1::Policy) -> Option<Policy> {
    let custom = !given.order.is_empty() || given.name == "custom";
    match given.name.as_str() {
        "juju" => return Some(Policy::Juju),
        "openstack" => return Some(Policy::OpenStack),
        "strict" => return Some(Policy::Strict),
        "custom" | "" if custom => {}
        name => {
            let text = format!("is {}; known are juju, openstack, strict, custom", quoted(name));
            return fields.wrong("policy.name", text, name);
        }
    }
    let known = |level: &i32| fields.checked(|fields| fields.level("policy.order", *level));
    let order = given.order.iter().map(known).collect::<Option<Vec<Level>>>()?;
    let distinct: BTreeSet<Level> = order.iter().copied().collect();
    match <[Level; LEVELS]>::try_from(order) {
        Ok(order) if distinct.len() == LEVELS => Some(Policy::Custom(order)),
        _ => {
            let text = format!("must name all {LEVELS} levels once, worst first");
            fields
                .note("policy.order", Reason::InvalidValue, text)
                .with("count", given.order.len());
            None
        }
    }
}
