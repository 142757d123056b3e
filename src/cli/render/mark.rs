//! Marks: in a table of their own, beneath an explanation, and as a note of a status.

use jiff::Timestamp;

use crate::cli::render::table::Table;
use crate::cli::render::time;
use crate::cli::{level, span};
use crate::proto::v1::{AggregatedStatus, Mark, MarkKind};

/// Returns the word for a kind.
fn kind(mark: &Mark) -> &'static str {
    match mark.kind() {
        MarkKind::Acknowledged => "ack",
        MarkKind::Planned => "planned",
        MarkKind::Unspecified => "mark",
    }
}

/// Names what a mark covers within its application: `web/0 disk`; empty for all of it.
fn covers(mark: &Mark) -> String {
    let parts = [Some(&mark.unit), mark.component.as_ref(), mark.key.as_ref()];
    let parts = parts.into_iter().flatten().filter(|part| !part.is_empty());
    parts.map(String::as_str).collect::<Vec<_>>().join(" ")
}

/// Formats `until 23:00:00Z (42m)`, or `from 22:00:00Z until 23:00:00Z`.
pub fn until(mark: &Mark, now: Timestamp) -> String {
    let clock = |at: Option<&prost_types::Timestamp>| {
        time::from_wire(at).map_or_else(String::new, |at| time::clock(at, now))
    };
    let end = clock(mark.end_time.as_ref());
    if !mark.in_force {
        return format!("from {} until {end}", clock(mark.start_time.as_ref()));
    }
    // The age of now as seen from the end.
    let left = time::from_wire(mark.end_time.as_ref()).map(|end| time::age(now, end));
    let left = left.map_or_else(String::new, |left| format!(" ({})", span::short(left)));
    format!("until {end}{left}")
}

/// Returns the marks as a table.
pub fn table(marks: &[Mark], with_namespace: bool, now: Timestamp) -> Table {
    let mut table = Table::new(&["Namespace", "App", "Kind", "Covers", "When", "By", "Id", "Why"])
        .names(&["Namespace", "App", "Covers", "By"])
        .only_if(with_namespace, &["Namespace"])
        .wrap("Why");
    for mark in marks {
        let covers = covers(mark);
        table.row(vec![
            mark.namespace.as_str().into(),
            mark.application.as_str().into(),
            kind(mark).into(),
            if covers.is_empty() { "all".into() } else { covers.into() },
            until(mark, now).into(),
            crate::cli::render::table::Cell::or_dash(&mark.author),
            mark.mark_id.as_str().into(),
            mark.reason.as_str().into(),
        ]);
    }
    table
}

/// Returns a line for each mark of an explanation: its kind, and what it says.
pub fn lines(marks: &[Mark], now: Timestamp) -> Vec<(&'static str, String)> {
    marks.iter().map(|mark| (kind(mark), line(mark, now))).collect()
}

fn line(mark: &Mark, now: Timestamp) -> String {
    let by = if mark.author.is_empty() { String::new() } else { format!("by {} ", mark.author) };
    let covers = Some(covers(mark)).filter(|covers| !covers.is_empty());
    let of = covers.map_or_else(String::new, |covers| format!(", for {covers}"));
    let effect = match mark.kind() {
        MarkKind::Planned if mark.in_force => "worse than maintenance counts as maintenance".into(),
        MarkKind::Planned | MarkKind::Unspecified => String::new(),
        MarkKind::Acknowledged => {
            format!("ends if it gets worse than {}", level::word(mark.acknowledged_level))
        }
    };
    let effect = if effect.is_empty() { effect } else { format!("; {effect}") };
    format!("{by}{}{of}: {}{effect} [{}]", until(mark, now), mark.reason, mark.mark_id)
}

/// Returns the note of a status that a mark covers: `planned, else blocked`, `acknowledged`.
pub fn note(status: &AggregatedStatus) -> Option<String> {
    let differs = status.level_without_marks != 0 && status.level_without_marks != status.level;
    let without = level::word(status.level_without_marks);
    match (status.planned, status.acknowledged) {
        (true, _) if differs => Some(format!("planned, else {without}")),
        (true, _) => Some("planned".to_string()),
        (false, true) => Some("acknowledged".to_string()),
        (false, false) if differs => Some(format!("{without} without planned work")),
        (false, false) => None,
    }
}
