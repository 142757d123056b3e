//! The parts of one application as HTML: its units, open faults and operations, each with what
//! comes next.

use std::fmt::Display;

use super::html::Html;
use super::list::{add_since, add_status};
use super::now;
use crate::proto::v1;

/// Marks the leader.
pub const LEADER: &str = "<span title=\"leader\">*</span>";

/// Adds the open faults with their next attempts.
pub fn add_faults(html: &mut Html, faults: &[v1::Fault], count: i32) {
    let rest = rest(faults, count);
    html.list("<dt>Open faults</dt><dd><ul>", faults, &rest, |html, fault| {
        let place = [&fault.unit, &fault.component, &fault.target];
        let text = fault.last.as_ref().map(|last| last.message.as_str()).unwrap_or_default();
        let class = word(fault.class().as_str_name(), "ERROR_CLASS_");
        html.fill(
            r#"{}: {} <span class="note">{}, {}"#,
            &[&joined(place), &text, &class, &fault.count],
        );
        html.raw(if fault.count == 1 { " time, " } else { " times, " });
        match &fault.next_retry_time {
            Some(time) => add_next(html, "next attempt", time),
            None => {
                html.raw("no further attempt");
            }
        }
        html.raw("</span>");
    });
}

/// Adds the operations, the latest first.
pub fn add_operations(html: &mut Html, operations: &[v1::Operation], is_cut: bool) {
    let open = "<dt>Operations</dt><dd><ul id=\"operations\">";
    let rest = if is_cut { "older ones: ListOperations" } else { "" };
    html.list(open, operations, rest, |html, operation| {
        let kind = word(operation.kind().as_str_name(), "OPERATION_KIND_");
        html.fill("{} {}: ", &[&kind, &operation.operation_id]);
        if !operation.from_version.is_empty() {
            html.fill("{} to ", &[&operation.from_version]);
        }
        let state = word(operation.state().as_str_name(), "OPERATION_STATE_");
        html.fill("{}, <b>{}</b>", &[&operation.target_version, &state]);
        html.labelled(", ", &operation.progress).labelled(", held by ", &operation.holder);
        if 0 < operation.attempts_failed {
            let counts: [&dyn Display; 2] = [&operation.attempts_failed, &operation.max_attempts];
            html.fill(", {} of {} attempts failed", &counts);
        }
        if !operation.next_step.is_empty() || operation.next_time.is_some() {
            html.fill(r#" <span class="note">Next: {}"#, &[&operation.next_step]);
            if let Some(time) = &operation.next_time {
                add_next(html, "", time);
            }
            html.raw("</span>");
        }
    });
}

/// Adds the units; `*` marks the leader. `count` is the number of all units.
pub fn add_units(html: &mut Html, units: &[v1::Unit], count: i32) {
    let rest = rest(units, count);
    html.list("<dt>Units (* leads)</dt><dd><ul id=\"units\">", units, &rest, |html, unit| {
        add_status(html, unit.level(), &marks(unit.freshness()));
        html.raw(" ").text(&unit.name).raw(if unit.leader { LEADER } else { "" });
        html.labelled(": ", &unit.message).raw(" <span class=\"note\">seen ");
        add_since(html, unit.last_seen_time.as_ref());
        html.raw(if unit.connected { " ago, connected</span>" } else { " ago</span>" });
    });
}

/// Returns how many of `count` entries a list leaves out, in words.
pub fn rest<T>(shown: &[T], count: i32) -> String {
    let left_out = usize::try_from(count).unwrap_or(0).saturating_sub(shown.len());
    if left_out == 0 { String::new() } else { format!("{left_out} more") }
}

/// Adds a time to come, as the time from now and for programs.
fn add_next(html: &mut Html, label: &'static str, time: &prost_types::Timestamp) {
    let left = time.seconds - now();
    let until = match left {
        ..=0 => "now".to_string(),
        1..120 => format!("in {left}s"),
        120..7200 => format!("in {}m", left / 60),
        _ => format!("in {}h", left / 3600),
    };
    html.raw(label).fill(r#" <time datetime="{}">{}</time>"#, &[time, &until]);
}

/// Returns the names that are given, with spaces.
pub fn joined(parts: [&String; 3]) -> String {
    let parts = parts.into_iter().filter(|part| !part.is_empty());
    parts.map(String::as_str).collect::<Vec<_>>().join(" ")
}

/// Returns what is doubtful about a status of this freshness.
pub fn marks(freshness: v1::Freshness) -> Vec<String> {
    match freshness {
        v1::Freshness::Unspecified | v1::Freshness::Fresh => Vec::new(),
        other => vec![word(other.as_str_name(), "FRESHNESS_")],
    }
}

/// Returns the word of a value of an enum.
fn word(name: &'static str, prefix: &str) -> String {
    name.trim_start_matches(prefix).to_lowercase().replace('_', " ")
}
