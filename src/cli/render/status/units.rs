//! Formats the table of units. A row shows the status that decides the level of its unit. Any other
//! status of the unit that asks for an action has a row of its own beneath it, so that each action
//! is under the message that it belongs to.

use jiff::Timestamp;

use crate::cli::level;
use crate::cli::render::paint::Paint;
use crate::cli::render::status::{ApplicationView, View, freshness_word, is_of_own_set, part_of};
use crate::cli::render::table::{Cell, Table};
use crate::cli::render::text::with_notes;
use crate::cli::render::{operation, time};
use crate::proto::v1::{Contribution, Freshness, Level, Operation, StatusRecord, Unit};

/// One row, with all columns of the wide table.
struct Row {
    name: String,
    level: i32,
    seen: Cell,
    component: String,
    since: Option<prost_types::Timestamp>,
    freshness: i32,
    reason: String,
    message: String,
}

/// Returns the table of the units of all applications shown.
pub fn table(view: &View, wide: bool, now: Timestamp) -> Table {
    let of_row = ["Namespace", "Unit", "Status", "Seen", "Component"];
    let of_report = ["Since", "Freshness", "Reason"];
    let mut table = Table::new(&[&of_row[..], &of_report, &["Message"]].concat())
        .names(&["Namespace", "Unit", "Component"])
        .only_if(view.namespace.is_none(), &["Namespace"])
        .only_if(wide, &of_report);
    for shown in &view.applications {
        let mut put = |row: Row, action: &str| {
            table.row(cells(&shown.application.namespace, row, now));
            if !action.is_empty() {
                table.note(&format!("-> action: {action}"));
            }
        };
        for unit in &shown.units {
            let decides = decisive(shown, unit);
            put(unit_row(shown, unit, decides, now), decides.map_or("", |c| c.action.as_str()));
            for other in others(shown, unit, decides) {
                put(other_row(other), &other.action);
            }
        }
        for own in own_set(shown) {
            let name = shown.application.name.clone();
            put(Row { name, ..other_row(own) }, &own.action);
        }
        for operation in &shown.operations {
            put(operation_row(shown, operation, now), "");
        }
    }
    table
}

fn cells(namespace: &str, row: Row, now: Timestamp) -> Vec<Cell> {
    vec![
        namespace.into(),
        row.name.into(),
        Cell::painted(level::word(row.level), Paint::of_level(row.level)),
        row.seen,
        row.component.into(),
        time::short_age(row.since.as_ref(), now).into(),
        Cell::painted(freshness_word(row.freshness), Paint::of_freshness(row.freshness)),
        Cell::or_dash(&row.reason),
        row.message.into(),
    ]
}

fn unit_row(
    shown: &ApplicationView,
    unit: &Unit,
    decides: Option<&Contribution>,
    now: Timestamp,
) -> Row {
    let leader = if unit.leader { "*" } else { "" };
    let stopping = unit.stopping_time.map_or("", |_| "stopping");
    let is_lost = unit.freshness == i32::from(Freshness::Lost);
    let record = shown.statuses.iter().find(|record| is_record_of(record, unit));
    let report = record.and_then(|record| record.report.as_ref());
    let since = record.and_then(|record| record.since_time);
    let reason = report.map(|report| report.reason.clone());
    Row {
        name: format!("{}{leader}", unit.name),
        level: unit.level,
        seen: seen(unit, now),
        component: match unit.component.as_str() {
            "" if is_lost => "-".to_string(),
            component => component.to_string(),
        },
        since: since.or(decides.and_then(|c| c.since_time)),
        freshness: unit.freshness,
        reason: reason.or(decides.map(|c| c.reason.clone())).unwrap_or_default(),
        message: with_notes(&message(&unit.message, decides), stopping),
    }
}

/// Returns a row for a status or an error that has an action but does not decide the level of its
/// unit.
fn other_row(other: &Contribution) -> Row {
    Row {
        name: String::new(),
        level: other.level,
        seen: "".into(),
        component: part_of(&other.r#ref.clone().unwrap_or_default()),
        since: other.since_time,
        freshness: other.freshness,
        reason: other.reason.clone(),
        message: message(&other.message, Some(other)),
    }
}

/// Returns a row for an operation of the application or of a unit: its holder and its progress.
fn operation_row(shown: &ApplicationView, operation: &Operation, now: Timestamp) -> Row {
    Row {
        name: match operation.unit.as_str() {
            "" => shown.application.name.clone(),
            unit => unit.to_string(),
        },
        level: operation::level_of(operation).into(),
        seen: "".into(),
        component: "operation".to_string(),
        since: operation.create_time,
        freshness: Freshness::Fresh.into(),
        reason: operation.reason.clone(),
        message: operation::brief(operation, now),
    }
}

/// Returns the message with the reason for damping, if any: the level shown may differ from the
/// last report.
fn message(text: &str, contribution: Option<&Contribution>) -> String {
    with_notes(text, contribution.map_or("", |c| c.held.as_str()))
}

/// Returns the contribution that decides the unit's own level.
fn decisive<'a>(shown: &'a ApplicationView, unit: &Unit) -> Option<&'a Contribution> {
    shown.contributions.iter().find(|c| {
        let from =
            c.r#ref.as_ref().is_some_and(|r| r.unit == unit.name && r.component == unit.component);
        from && c.level == unit.level && c.message == unit.message
    })
}

/// Returns the other contributions of a unit that ask for an action.
fn others<'a>(
    shown: &'a ApplicationView,
    unit: &'a Unit,
    decides: Option<&'a Contribution>,
) -> impl Iterator<Item = &'a Contribution> {
    shown.contributions.iter().filter(move |c| {
        let is_own = c.r#ref.as_ref().is_some_and(|r| r.unit == unit.name);
        is_own && !c.action.is_empty() && !decides.is_some_and(|d| std::ptr::eq(d, *c))
    })
}

/// Returns the statuses that the leader set for the application itself and that ask for attention,
/// without the one that decides: the row of the application shows that one.
fn own_set(shown: &ApplicationView) -> impl Iterator<Item = &Contribution> {
    let winner = shown.application.status.as_ref().and_then(|status| status.winner.as_ref());
    shown.contributions.iter().filter(move |c| {
        let is_own = c.r#ref.as_ref().is_some_and(is_of_own_set);
        let is_unwell = !matches!(c.level(), Level::Active | Level::Terminated | Level::Unknown);
        let asks = is_unwell || !c.action.is_empty();
        is_own && asks && c.r#ref.as_ref() != winner
    })
}

/// Whether this status decides the unit's own level.
fn is_record_of(record: &StatusRecord, unit: &Unit) -> bool {
    record.unit == unit.name
        && record.report.as_ref().is_some_and(|report| {
            report.component == unit.component
                && report.level == unit.level
                && report.message == unit.message
        })
}

/// Formats `2s`, or `6m !` for a unit whose statuses are not fresh.
fn seen(unit: &Unit, now: Timestamp) -> Cell {
    let age = time::short_age(unit.last_seen_time.as_ref(), now);
    match Paint::of_freshness(unit.freshness) {
        Paint::None => age.into(),
        paint => Cell::painted(format!("{age} !"), paint),
    }
}
