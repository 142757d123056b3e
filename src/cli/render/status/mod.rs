//! Formats the overview: a header line, a table of applications and one of units.

pub mod cut;
mod units;

use indexmap::IndexSet;
use jiff::Timestamp;

use crate::cli::level;
use crate::cli::render::paint::Paint;
use crate::cli::render::table::{Cell, Table};
use crate::cli::render::text::{counted, middle, with_notes};
use crate::cli::render::{Screen, mark, time};
use crate::domain::severity::Severity;
use crate::proto::v1::{
    Application, Contribution, Freshness, Level, Operation, QuorumTurnout, StatusKind,
    StatusRecord, StatusRef, Unit,
};
use crate::service::severity;
use crate::service::severity::{Silence, level_of};

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
    let counts = counts(view.applications.iter().map(|shown| &shown.application));
    render_part(&counts, view, wide, now, screen)
}

/// Formats the tables of a part of an overview, beneath the counts of the whole.
pub fn render_part(
    counts: &str,
    part: &View,
    wide: bool,
    now: Timestamp,
    screen: Screen,
) -> String {
    let mut text = header(part, counts, now).render(screen);
    let applications = applications(part, wide, now, screen.width);
    let units = units::table(part, wide, now);
    for table in [applications, units] {
        if !table.is_empty() {
            text.push('\n');
            text.push_str(&table.render(screen));
        }
    }
    text
}

fn header(view: &View, counts: &str, now: Timestamp) -> Table {
    let mut table = Table::new(&["Namespace", "Server", "Timestamp", "Apps"])
        .names(&["Namespace", "Server"])
        .wrap("Apps");
    let server = view.server.trim_start_matches("http://").trim_end_matches('/');
    table.row(vec![
        view.namespace.as_deref().unwrap_or("(all)").into(),
        server.into(),
        now.strftime("%H:%M:%SZ").to_string().into(),
        counts.into(),
    ]);
    table
}

/// Formats `1 blocked, 1 silent, 2 active`: the number of applications by severity, the worst
/// first.
pub fn counts<'a>(applications: impl Iterator<Item = &'a Application>) -> String {
    let severities: Vec<Severity> = applications.map(severity::of).collect();
    let counts: Vec<String> = Severity::ALL
        .into_iter()
        .map(|one| (severities.iter().filter(|severity| **severity == one).count(), one.word()))
        .filter(|(count, _)| 0 < *count)
        .map(|(count, word)| format!("{count} {word}"))
        .collect();
    if counts.is_empty() { "none".to_string() } else { counts.join(", ") }
}

fn applications(view: &View, wide: bool, now: Timestamp, width: Option<usize>) -> Table {
    let of_row = ["Namespace", "App", "Status", "Heard", "Since"];
    let of_wide = ["Leader", "Policy", "Rev", "Reason"];
    let mut table = Table::new(&[&of_row[..], &of_wide, &["Message"]].concat())
        .right(&["Heard", "Rev"])
        .names(&["Namespace", "App"])
        .only_if(view.namespace.is_none(), &["Namespace"])
        .only_if(wide, &of_wide);
    for shown in &view.applications {
        table.row(application_row(&shown.application, now, width));
        for action in own_actions(shown) {
            table.note(&format!("-> action: {action}"));
        }
    }
    table
}

fn application_row(application: &Application, now: Timestamp, width: Option<usize>) -> Vec<Cell> {
    let status = application.status.clone().unwrap_or_default();
    let config = application.config.clone().unwrap_or_default();
    let level = i32::from(level_of(application));
    vec![
        application.namespace.as_str().into(),
        application.name.as_str().into(),
        Cell::painted(level::word(level), Paint::of_level(level)),
        heard(application),
        time::short_age(status.since_time.as_ref(), now).into(),
        Cell::or_dash(&application.leader),
        Cell::or_dash(&config.policy.unwrap_or_default().name),
        application.revision.to_string().into(),
        Cell::or_dash(&status.reason),
        application_message(application, width).into(),
    ]
}

/// Formats the number of units that reported in time, of all known units.
fn heard(application: &Application) -> Cell {
    let silence = application.status.as_ref().map(Silence::in_status).unwrap_or_default();
    let silent: i32 = silence.counts().map(|(count, _)| count).sum();
    let paint = if 0 < silent { Paint::Yellow } else { Paint::None };
    let known = application.unit_count;
    Cell::painted(format!("{}/{known}", (known - silent).max(0)), paint)
}

/// Formats `api/1: add a database relation (+2 more, 1 lost)`. On a terminal of this width the name
/// of the unit leaves most columns to the message.
pub fn application_message(application: &Application, width: Option<usize>) -> String {
    let status = application.status.clone().unwrap_or_default();
    let unit = status.winner.as_ref().map(|w| w.unit.clone()).unwrap_or_default();
    let is_leader = unit == application.leader;
    let unit = width.map_or(unit.clone(), |width| middle(&unit, (width / 5).max(UNIT_MIN)));
    let mark = if !unit.is_empty() && is_leader { "*" } else { "" };
    let text = match (unit.as_str(), status.message.as_str()) {
        ("", message) => message.to_string(),
        // An active application without a message needs no unit.
        (_, "") if status.level == i32::from(Level::Active) => String::new(),
        (unit, "") => format!("{unit}{mark}"),
        (unit, message) => format!("{unit}{mark}: {message}"),
    };
    let mut notes: Vec<String> = mark::note(&status).into_iter().collect();
    if 0 < status.more_count {
        notes.push(format!("+{} more", status.more_count));
    }
    match (status.flapping, status.flapping_count) {
        (true, 1) => notes.push("flapping !".to_string()),
        (_, count) if 0 < count => notes.push(format!("{count} flapping !")),
        _ => {}
    }
    let silent = Silence::in_status(&status).counts();
    notes.extend(silent.map(|(count, word)| format!("{count} {word} !")));
    notes.extend(quorum(application));
    if 0 < status.fault_count {
        notes.push(counted(status.fault_count, "open error", "open errors") + " !");
    }
    with_notes(&text, &notes.join(", "))
}

/// Formats `quorum: 7 of 9 active, 5 needed`, unless all units count or the message says it.
fn quorum(application: &Application) -> Option<String> {
    let turnout = application.quorum?;
    let is_said = application.status.as_ref().is_some_and(|s| s.reason.starts_with("Quorum"));
    let is_whole = turnout.met && turnout.active_count == turnout.known_count;
    (!is_said && !is_whole).then(|| quorum_words(&turnout))
}

/// Formats `quorum: 7 of 9 active, 5 needed`.
pub fn quorum_words(turnout: &QuorumTurnout) -> String {
    let QuorumTurnout { active_count, known_count, needed_count, met } = turnout;
    let mark = if *met { "" } else { " !" };
    format!("quorum: {active_count} of {known_count} active, {needed_count} needed{mark}")
}

/// Returns the actions for the application as a whole, each once. A status of a set has a row of
/// its own for its action, unless it decides.
fn own_actions(shown: &ApplicationView) -> IndexSet<&str> {
    let winner = shown.application.status.as_ref().and_then(|status| status.winner.as_ref());
    let own = |c: &&Contribution| {
        let decides = c.r#ref.as_ref() == winner;
        c.r#ref.as_ref().is_some_and(|r| r.unit.is_empty() && (decides || !is_of_own_set(r)))
    };
    let actions = shown.contributions.iter().filter(own).map(|c| c.action.as_str());
    actions.filter(|action| !action.is_empty()).collect()
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

/// Names the part of a unit that a status is about: `database`, or `database[tls]` with its key. An
/// open error is identified by its target.
pub fn part_of(status: &StatusRef) -> String {
    let key = if status.target.is_empty() { &status.key } else { &status.target };
    match key.as_str() {
        "" => status.component.clone(),
        key => format!("{}[{key}]", status.component),
    }
}

#[cfg(test)]
mod tests;
