//! Conversion of latches and damping, in both directions: their configuration, and their effect on
//! a status.

use std::collections::BTreeSet;

use super::fields::Fields;
use super::value::{count, duration, level};
use crate::domain::app::AppState;
use crate::domain::limits::{CALM_AFTER_MAX, CALM_AFTER_MIN, GOOD_COUNT};
use crate::domain::policy::{Config, Damping, Latch, Scope};
use crate::domain::status::{Status, StatusKey};
use crate::proto::v1;
use crate::service::code::{Reason, quoted};
use crate::service::protobuf::timestamp;

/// The name that means all components.
const ALL: &str = "*";

/// Reads the name of a component, which is given once.
fn scope<'a>(
    fields: &mut Fields,
    field: &str,
    seen: &mut BTreeSet<&'a str>,
    component: &'a str,
) -> Scope {
    if !seen.insert(component) {
        let text = format!("is {} again; name each component once", quoted(component));
        fields.note(field, Reason::InvalidValue, text).with("value", component);
    }
    match component {
        ALL => Scope::All,
        component => Scope::Component(fields.part(field, component)),
    }
}

fn scope_name(scope: &Scope) -> String {
    match scope {
        Scope::All => ALL.to_string(),
        Scope::Component(component) => component.as_str().to_string(),
    }
}

/// Reads the latches.
pub(super) fn latches(fields: &mut Fields, given: &[v1::Latch]) -> Vec<Latch> {
    let mut seen = BTreeSet::new();
    let read = given.iter().enumerate().map(|(n, latch)| {
        let field = format!("latches[{n}].component");
        let scope = scope(fields, &field, &mut seen, &latch.component);
        let good_count = u32::try_from(latch.good_count).unwrap_or_default();
        if !GOOD_COUNT.contains(&good_count) {
            let (min, max) = GOOD_COUNT.into_inner();
            let text = format!("is {}; give {min} to {max}", latch.good_count);
            let field = format!("latches[{n}].good_count");
            let noted = fields.note(&field, Reason::InvalidValue, text);
            noted.with("value", latch.good_count).with("max", max);
        }
        Latch { scope, good_count }
    });
    read.collect()
}

/// Reads the damping.
pub(super) fn damping(fields: &mut Fields, given: Option<&v1::Damping>) -> Damping {
    let default = Damping::default();
    let Some(given) = given else {
        return default;
    };
    let mut seen = BTreeSet::new();
    let scopes = given.components.iter().enumerate().map(|(n, component)| {
        scope(fields, &format!("damping.components[{n}]"), &mut seen, component)
    });
    let scopes = scopes.collect();
    let start_percent =
        percent(fields, "start_percent", given.start_percent, default.start_percent, 99);
    let usual = default.stop_percent.min(start_percent);
    let stop_percent = percent(fields, "stop_percent", given.stop_percent, usual, start_percent);
    let calm_after =
        fields.duration("damping.calm_after", given.calm_after, CALM_AFTER_MIN, CALM_AFTER_MAX);
    let calm_after = calm_after.unwrap_or(default.calm_after);
    Damping { scopes, start_percent, stop_percent, calm_after }
}

/// Reads a percentage of at most `max`.
fn percent(fields: &mut Fields, field: &str, given: i32, default: u32, max: u32) -> u32 {
    match u32::try_from(given) {
        Ok(0) => default,
        Ok(percent) if percent <= max => percent,
        _ => {
            let text = format!("is {given}; give 1 to {max}, or nothing");
            let noted = fields.note(&format!("damping.{field}"), Reason::InvalidValue, text);
            noted.with("value", given).with("max", max);
            max
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
pub(super) fn held(state: &AppState, key: &StatusKey, status: &Status) -> Option<v1::HeldStatus> {
    let (config, held) = (&state.head().config, status.held.as_ref()?);
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
        calm_time: state.deadlines().of_calm(status).map(timestamp),
        description: status.held_words(config, key),
    })
}
