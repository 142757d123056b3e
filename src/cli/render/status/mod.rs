//! Formats the overview: a header line, a table of applications and one of units.

mod units;

use jiff::Timestamp;

use crate::cli::render::paint::Paint;
use crate::cli::render::table::{Cell, Table};
use crate::cli::render::text::middle;
use crate::cli::render::{Screen, time};
use crate::cli::silence::level_of;
use crate::cli::{level, silence};
use crate::proto::v1::{
    Application, Contribution, Freshness, Level, Operation, StatusKind, StatusRecord, StatusRef,
    Unit,
};

/// The name of a unit within a message is not cut shorter than this.
const UNIT_MIN: usize = 10;

/// One application with its units and details.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ApplicationView {
    /// The application.
    pub application: Application,
    /// Its units, in natural order.
    pub units: Vec<Unit>,
    /// Its statuses, if a wide table needs them.
    pub statuses: Vec<StatusRecord>,
    /// The contributions to its level, the strongest first, if a person must act or wait.
    pub contributions: Vec<Contribution>,
    /// Operations that are not over.
    pub operations: Vec<Operation>,
}

/// Everything that the overview shows.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct View {
    /// The URL of the server.
    pub server: String,
    /// The namespace; absent for all, where each line names its own.
    pub namespace: Option<String>,
    /// The applications, in the order of the table.
    pub applications: Vec<ApplicationView>,
}

/// Formats the overview; `wide` adds columns.
pub fn render(view: &View, wide: bool, now: Timestamp, screen: Screen) -> String {
    let mut text = header(view, now).render(screen);
    let applications = applications(view, wide, now, screen.width);
    let units = units::table(view, wide, now);
    for table in [applications, units] {
        if !table.is_empty() {
            text.push('\n');
            text.push_str(&table.render(screen));
        }
    }
    text
}

fn header(view: &View, now: Timestamp) -> Table {
    let mut table = Table::new(&["Namespace", "Server", "Timestamp", "Apps"])
        .names("Namespace")
        .names("Server")
        .wrap("Apps");
    let server = view.server.trim_start_matches("http://").trim_end_matches('/');
    table.row(vec![
        view.namespace.as_deref().unwrap_or("(all)").into(),
        server.into(),
        now.strftime("%H:%M:%SZ").to_string().into(),
        counts(view).into(),
    ]);
    table
}

/// Formats `1 blocked, 1 stale, 2 active`: the worst first. An application that is active or
/// terminated while units are silent counts as stale.
fn counts(view: &View) -> String {
    let word = |application: &Application| match level_of(application) {
        Level::Active | Level::Terminated if silence::hides(application) => "stale",
        Level::Unspecified => "unknown",
        level => level::word(level.into()),
    };
    let words: Vec<&str> = view.applications.iter().map(|a| word(&a.application)).collect();
    let order =
        ["error", "blocked", "maintenance", "waiting", "unknown", "stale", "terminated", "active"];
    let counts: Vec<String> = order
        .into_iter()
        .map(|level| (words.iter().filter(|word| **word == level).count(), level))
        .filter(|(count, _)| 0 < *count)
        .map(|(count, level)| format!("{count} {level}"))
        .collect();
    if counts.is_empty() { "none".to_string() } else { counts.join(", ") }
}

fn applications(view: &View, wide: bool, now: Timestamp, width: Option<usize>) -> Table {
    let mut header = vec!["App", "Status", "Heard", "Since"];
    if view.namespace.is_none() {
        header.insert(0, "Namespace");
    }
    if wide {
        header.extend(["Leader", "Policy", "Rev", "Reason"]);
    }
    header.push("Message");
    let mut table = Table::new(&header).right("Heard").right("Rev").names("Namespace").names("App");
    for shown in &view.applications {
        table.row(application_row(view, shown, wide, now, width));
        for action in own_actions(shown) {
            table.note(&format!("-> action: {action}"));
        }
    }
    table
}

fn application_row(
    view: &View,
    shown: &ApplicationView,
    wide: bool,
    now: Timestamp,
    width: Option<usize>,
) -> Vec<Cell> {
    let application = &shown.application;
    let status = application.status.clone().unwrap_or_default();
    let level = i32::from(level_of(application));
    let mut row: Vec<Cell> = Vec::new();
    if view.namespace.is_none() {
        row.push(application.namespace.as_str().into());
    }
    row.push(application.name.as_str().into());
    row.push(Cell::painted(level::word(level), Paint::of_level(level)));
    row.push(heard(application));
    row.push(time::short_age(status.since_time.as_ref(), now).into());
    if wide {
        let config = application.config.clone().unwrap_or_default();
        row.push(or_dash(&application.leader));
        row.push(or_dash(&config.policy.unwrap_or_default().name));
        row.push(application.revision.to_string().into());
        row.push(or_dash(&status.reason));
    }
    row.push(application_message(application, width).into());
    row
}

/// Formats the number of units that reported in time, of all known units.
fn heard(application: &Application) -> Cell {
    let status = application.status.clone().unwrap_or_default();
    let silent = status.stale_units + status.lost_units + status.uncertain_units;
    let paint = if 0 < silent { Paint::Yellow } else { Paint::None };
    let known = application.unit_count;
    Cell::painted(format!("{}/{known}", (known - silent).max(0)), paint)
}

/// Formats `api/1: add a database relation (+2 more, 1 lost)`. On a terminal of this width the name
/// of the unit leaves most columns to the message.
pub fn application_message(application: &Application, width: Option<usize>) -> String {
    let status = application.status.clone().unwrap_or_default();
    let unit = status.winner.map(|w| w.unit).unwrap_or_default();
    let is_leader = unit == application.leader;
    let unit = width.map_or(unit.clone(), |width| middle(&unit, (width / 5).max(UNIT_MIN)));
    let mark = if !unit.is_empty() && is_leader { "*" } else { "" };
    let mut text = match (unit.as_str(), status.message.as_str()) {
        ("", message) => message.to_string(),
        // An active application without a message needs no unit.
        (_, "") if status.level == i32::from(Level::Active) => String::new(),
        (unit, "") => format!("{unit}{mark}"),
        (unit, message) => format!("{unit}{mark}: {message}"),
    };
    let mut beside = Vec::new();
    if 0 < status.more_count {
        beside.push(format!("+{} more", status.more_count));
    }
    if 0 < status.flapping_count {
        beside.push(match (status.flapping, status.flapping_count) {
            (true, 1) => "flapping !".to_string(),
            (_, count) => format!("{count} flapping !"),
        });
    }
    let silent = [
        (status.stale_units, "stale"),
        (status.lost_units, "lost"),
        (status.uncertain_units, "uncertain"),
    ];
    for (count, word) in silent.into_iter().filter(|(count, _)| 0 < *count) {
        beside.push(format!("{count} {word} !"));
    }
    if !beside.is_empty() {
        text = format!("{text} ({})", beside.join(", "));
    }
    text.trim_start().to_string()
}

/// Returns the actions for the application as a whole, each once. A status of a set has a row of
/// its own for its action, unless it decides.
fn own_actions(shown: &ApplicationView) -> Vec<String> {
    let winner = shown.application.status.as_ref().and_then(|status| status.winner.as_ref());
    let own = |c: &&Contribution| {
        let decides = c.r#ref.as_ref() == winner;
        c.r#ref.as_ref().is_some_and(|r| r.unit.is_empty() && (decides || !is_of_own_set(r)))
    };
    let mut actions: Vec<String> = Vec::new();
    for contribution in shown.contributions.iter().filter(own) {
        let action = &contribution.action;
        if !action.is_empty() && !actions.contains(action) {
            actions.push(action.clone());
        }
    }
    actions
}

/// Whether this status is of the set that the leader set for the application itself.
fn is_of_own_set(status: &StatusRef) -> bool {
    status.unit.is_empty() && status.kind() == StatusKind::Pull
}

/// Returns the word for a freshness.
pub fn freshness_word(freshness: i32) -> &'static str {
    match Freshness::try_from(freshness) {
        Ok(Freshness::Fresh | Freshness::Unspecified) => "fresh",
        Ok(Freshness::Stale) => "stale",
        Ok(Freshness::Lost) => "lost",
        Ok(Freshness::Uncertain) | Err(_) => "uncertain",
    }
}

fn or_dash(text: &str) -> Cell {
    if text.is_empty() { "-".into() } else { text.into() }
}

#[cfg(test)]
mod tests;
