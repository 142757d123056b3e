//! The parts of one application as HTML: its units, open faults and operations, each with what
//! comes next.

use super::html::Html;
use super::list::{add_since, add_status};
use super::now;
use crate::proto::v1;

/// Adds the open faults with their next attempts.
pub fn add_faults(html: &mut Html, faults: &[v1::Fault], count: i32) {
    if faults.is_empty() {
        return;
    }
    html.raw("<dt>Open faults</dt><dd><ul>");
    for fault in faults {
        let place = [&fault.unit, &fault.component, &fault.target];
        let text = fault.last.as_ref().map(|last| last.message.as_str()).unwrap_or_default();
        html.raw("<li>").text(joined(place)).raw(": ").text(text).raw(" <span class=\"note\">");
        html.text(word(fault.class().as_str_name(), "ERROR_CLASS_")).raw(", ");
        html.text(fault.count).raw(if fault.count == 1 { " time, " } else { " times, " });
        match &fault.next_retry_time {
            Some(time) => add_next(html, "next attempt", time),
            None => {
                html.raw("no further attempt");
            }
        }
        html.raw("</span></li>");
    }
    add_rest(html, faults.len(), usize::try_from(count).unwrap_or(0));
    html.raw("</ul></dd>");
}

/// Adds the operations, the latest first.
pub fn add_operations(html: &mut Html, operations: &[v1::Operation], is_cut: bool) {
    if operations.is_empty() {
        return;
    }
    html.raw("<dt>Operations</dt><dd><ul id=\"operations\">");
    for operation in operations {
        let kind = word(operation.kind().as_str_name(), "OPERATION_KIND_");
        html.raw("<li>").text(kind).raw(" ").text(&operation.operation_id).raw(": ");
        if !operation.from_version.is_empty() {
            html.text(&operation.from_version).raw(" to ");
        }
        html.text(&operation.target_version).raw(", <b>");
        html.text(word(operation.state().as_str_name(), "OPERATION_STATE_")).raw("</b>");
        html.labelled(", ", &operation.progress).labelled(", held by ", &operation.holder);
        if 0 < operation.attempts_failed {
            html.raw(", ").text(operation.attempts_failed).raw(" of ");
            html.text(operation.max_attempts).raw(" attempts failed");
        }
        if !operation.next_step.is_empty() || operation.next_time.is_some() {
            html.raw(" <span class=\"note\">Next: ").text(&operation.next_step);
            if let Some(time) = &operation.next_time {
                add_next(html, "", time);
            }
            html.raw("</span>");
        }
        html.raw("</li>");
    }
    if is_cut {
        html.raw("<li>older ones: ListOperations</li>");
    }
    html.raw("</ul></dd>");
}

/// Adds the units; `*` marks the leader. `count` is the number of all units.
pub fn add_units(html: &mut Html, units: &[v1::Unit], count: usize) {
    if units.is_empty() {
        return;
    }
    html.raw("<dt>Units (* leads)</dt><dd><ul id=\"units\">");
    for unit in units {
        html.raw("<li>");
        add_status(html, unit.level(), &marks(unit.freshness()));
        html.raw(" ").text(&unit.name);
        if unit.leader {
            html.raw("<span title=\"leader\">*</span>");
        }
        html.labelled(": ", &unit.message).raw(" <span class=\"note\">seen ");
        add_since(html, unit.last_seen_time.as_ref());
        html.raw(if unit.connected { " ago, connected</span></li>" } else { " ago</span></li>" });
    }
    add_rest(html, units.len(), count);
    html.raw("</ul></dd>");
}

/// Adds how many entries a list leaves out.
pub fn add_rest(html: &mut Html, shown: usize, count: usize) {
    if shown < count {
        html.raw("<li>").text(count - shown).raw(" more</li>");
    }
}

/// Adds a time to come, as the time from now and for programs.
fn add_next(html: &mut Html, label: &'static str, time: &prost_types::Timestamp) {
    let left = time.seconds - now();
    html.raw(label).raw(" <time datetime=\"").text(time).raw("\">");
    match left {
        ..=0 => html.raw("now"),
        1..120 => html.raw("in ").text(left).raw("s"),
        120..7200 => html.raw("in ").text(left / 60).raw("m"),
        _ => html.raw("in ").text(left / 3600).raw("h"),
    };
    html.raw("</time>");
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
