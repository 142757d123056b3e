//! Conversion of latches and damping, in both directions: their configuration, and their effect on
//! a status.

use std::collections::BTreeSet;

use super::fields::Fields;
use super::value::{count, duration, level, timestamp};
use crate::domain::limits::{CALM_AFTER_MAX, CALM_AFTER_MIN, GOOD_COUNT};
use crate::domain::policy::{Config, Damping, Latch, Scope};
use crate::domain::status::{Status, StatusKey};
use crate::proto::v1;
use crate::service::code::{Reason, quoted};

/// The name that means all components.
const ALL: &str = "*";

fn scope(fields: &mut Fields, field: &str, component: &str) -> Option<Scope> {
    match component {
        ALL => Some(Scope::All),
        component => fields.part(field, component).map(Scope::Component),
    }
}

fn scope_name(scope: &Scope) -> String {
    match scope {
        Scope::All => ALL.to_string(),
        Scope::Component(component) => component.as_str().to_string(),
    }
}

/// Notes a component that is named twice.
fn once<'a>(fields: &mut Fields, field: &str, seen: &mut BTreeSet<&'a str>, component: &'a str) {
    if !seen.insert(component) {
        let text = format!("is {} again; name each component once", quoted(component));
        fields.note(field, Reason::InvalidValue, text).with("value", component);
    }
}

/// Reads the latches.
pub(super) fn latches(fields: &mut Fields, given: &[v1::Latch]) -> Option<Vec<Latch>> {
    let mut seen = BTreeSet::new();
    let mut read = Vec::with_capacity(given.len());
    for (n, latch) in given.iter().enumerate() {
        let field = format!("latches[{n}].component");
        once(fields, &field, &mut seen, &latch.component);
        let scope = scope(fields, &field, &latch.component);
        let good_count = u32::try_from(latch.good_count).ok().filter(|n| GOOD_COUNT.contains(n));
        if good_count.is_none() {
            let (min, max) = (GOOD_COUNT.start(), GOOD_COUNT.end());
            let text = format!("is {}; give {min} to {max}", latch.good_count);
            fields
                .note(&format!("latches[{n}].good_count"), Reason::InvalidValue, text)
                .with("value", latch.good_count)
                .with("max", max);
        }
        read.push(scope.zip(good_count).map(|(scope, good_count)| Latch { scope, good_count }));
    }
    read.into_iter().collect()
}

/// Reads the damping.
pub(super) fn damping(fields: &mut Fields, given: Option<&v1::Damping>) -> Option<Damping> {
    let default = Damping::default();
    let Some(given) = given else {
        return Some(default);
    };
    let mut seen = BTreeSet::new();
    let mut scopes = Vec::with_capacity(given.components.len());
    for (n, component) in given.components.iter().enumerate() {
        let field = format!("damping.components[{n}]");
        once(fields, &field, &mut seen, component);
        scopes.push(scope(fields, &field, component));
    }
    let start = percent(fields, "start_percent", given.start_percent, default.start_percent, 99);
    let max = start.unwrap_or(99);
    let usual = default.stop_percent.min(max);
    let stop_percent = percent(fields, "stop_percent", given.stop_percent, usual, max);
    let calm_after = given.calm_after.as_ref();
    let calm_after =
        fields.duration("damping.calm_after", calm_after, CALM_AFTER_MIN, CALM_AFTER_MAX);
    Some(Damping {
        scopes: scopes.into_iter().collect::<Option<_>>()?,
        start_percent: start?,
        stop_percent: stop_percent?,
        calm_after: calm_after?.unwrap_or(default.calm_after),
    })
}

fn percent(fields: &mut Fields, field: &str, given: i32, default: u32, max: u32) -> Option<u32> {
    match u32::try_from(given) {
        Ok(0) => Some(default),
        Ok(percent) if percent <= max => Some(percent),
        _ => {
            let text = format!("is {given}; give 1 to {max}, or nothing");
            fields
                .note(&format!("damping.{field}"), Reason::InvalidValue, text)
                .with("value", given)
                .with("max", max);
            None
        }
    }
}

/// Returns the configured latches.
pub(super) fn from_latches(config: &Config) -> Vec<v1::Latch> {
    let latches = config.latches.iter().map(|latch| v1::Latch {
        component: scope_name(&latch.scope),
        good_count: count(latch.good_count),
    });
    latches.collect()
}

/// Returns the configured damping, defaults filled in.
pub(super) fn from_damping(config: &Config) -> v1::Damping {
    let damping = &config.damping;
    v1::Damping {
        components: damping.scopes.iter().map(scope_name).collect(),
        start_percent: count(damping.start_percent),
        stop_percent: count(damping.stop_percent),
        calm_after: Some(duration(damping.calm_after)),
    }
}

/// Returns the state behind a latched or damped status.
pub(super) fn held(config: &Config, key: &StatusKey, status: &Status) -> Option<v1::HeldStatus> {
    let held = status.held.as_ref()?;
    let latest = status.latest();
    let flapping = status.flapping();
    let cause = match held.flapping {
        None => v1::HoldCause::Latch,
        Some(_) => v1::HoldCause::Flapping,
    };
    Some(v1::HeldStatus {
        cause: cause as i32,
        latest_level: latest.map_or(v1::Level::Unspecified, |r| level(r.level)) as i32,
        latest_message: latest.map_or_else(String::new, |r| r.message.to_string()),
        good_count: count(held.good_count),
        good_needed: config.latch_of(key).map_or(0, count),
        flapping_time: flapping.map(|f| timestamp(f.since)),
        calm_time: flapping.map(|f| timestamp(f.calm_time)),
        description: status.held_words(config, key),
    })
}
