//! The overview: a header line, a table of applications and one of units.

use jiff::Timestamp;

use crate::cli::level;
use crate::cli::render::Screen;
use crate::cli::render::paint::Paint;
use crate::cli::render::table::Cell;
use crate::cli::render::table::Table;
use crate::cli::render::time;
use crate::proto::v1::Application;
use crate::proto::v1::Freshness;
use crate::proto::v1::Level;
use crate::proto::v1::StatusRecord;
use crate::proto::v1::Unit;

/// One application with what belongs to it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ApplicationView {
    /// The application.
    pub application: Application,
    /// Its units, in natural order.
    pub units: Vec<Unit>,
    /// Its statuses: those that ask for an action at least.
    pub statuses: Vec<StatusRecord>,
}

/// What is shown.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct View {
    /// Where it comes from.
    pub server: String,
    /// Absent: all, and each line names its own.
    pub namespace: Option<String>,
    /// By namespace and name.
    pub applications: Vec<ApplicationView>,
}

/// The overview as text; `wide` adds columns.
pub fn render(view: &View, wide: bool, now: Timestamp, screen: Screen) -> String {
    let mut text = header(view, now).render(screen);
    let applications = applications(view, wide, now);
    let units = units(view, wide, now);
    for table in [applications, units] {
        if !table.is_empty() {
            text.push('\n');
            text.push_str(&table.render(screen));
        }
    }
    text
}

fn header(view: &View, now: Timestamp) -> Table {
    let mut table = Table::new(&["Namespace", "Server", "Apps", "Timestamp"]);
    let server = view.server.trim_start_matches("http://").trim_end_matches('/');
    table.row(vec![
        view.namespace.as_deref().unwrap_or("(all)").into(),
        server.into(),
        counts(view).into(),
        now.strftime("%H:%M:%SZ").to_string().into(),
    ]);
    table
}

/// `1 blocked, 1 busy, 2 ok`: the worst first.
fn counts(view: &View) -> String {
    let groups: [(&str, &[Level]); 6] = [
        ("error", &[Level::Error]),
        ("blocked", &[Level::Blocked]),
        ("busy", &[Level::Maintenance, Level::Waiting]),
        ("unknown", &[Level::Unknown, Level::Unspecified]),
        ("terminated", &[Level::Terminated]),
        ("ok", &[Level::Active]),
    ];
    let count = |levels: &[Level]| {
        let levels_of = view.applications.iter().map(|a| level_of(&a.application));
        levels_of.filter(|level| levels.contains(level)).count()
    };
    let words: Vec<String> = groups
        .iter()
        .map(|(word, levels)| (count(levels), word))
        .filter(|(count, _)| 0 < *count)
        .map(|(count, word)| format!("{count} {word}"))
        .collect();
    if words.is_empty() { "none".to_string() } else { words.join("  ") }
}

/// The level of an application; one of a newer server that we do not know is unknown.
pub fn level_of(application: &Application) -> Level {
    let level = application.status.as_ref().map_or(0, |s| s.level);
    Level::try_from(level).unwrap_or(Level::Unknown)
}

fn applications(view: &View, wide: bool, now: Timestamp) -> Table {
    let mut header = vec!["App", "Status", "Scale", "Since"];
    if view.namespace.is_none() {
        header.insert(0, "Namespace");
    }
    if wide {
        header.extend(["Leader", "Policy", "Rev", "Reason"]);
    }
    header.push("Message");
    let mut table = Table::new(&header).right("Scale").right("Rev");
    for shown in &view.applications {
        table.row(application_row(view, shown, wide, now));
        for action in actions(shown, "") {
            table.note(&format!("-> action: {action}"));
        }
    }
    table
}

fn application_row(view: &View, shown: &ApplicationView, wide: bool, now: Timestamp) -> Vec<Cell> {
    let application = &shown.application;
    let status = application.status.clone().unwrap_or_default();
    let level = i32::from(level_of(application));
    let mut row: Vec<Cell> = Vec::new();
    if view.namespace.is_none() {
        row.push(application.namespace.as_str().into());
    }
    row.push(application.name.as_str().into());
    row.push(Cell::painted(level::word(level), Paint::of_level(level)));
    row.push(scale(application));
    row.push(time::short_age(status.since_time.as_ref(), now).into());
    if wide {
        let config = application.config.clone().unwrap_or_default();
        row.push(or_dash(&application.leader));
        row.push(or_dash(&config.policy.unwrap_or_default().name));
        row.push(application.revision.to_string().into());
        row.push(or_dash(&status.reason));
    }
    row.push(application_message(application).into());
    row
}

/// Units that are heard, of those that are known.
fn scale(application: &Application) -> Cell {
    let lost = application.status.as_ref().map_or(0, |s| s.lost_units);
    let paint = if 0 < lost { Paint::Yellow } else { Paint::None };
    let known = application.unit_count;
    Cell::painted(format!("{}/{known}", known - lost), paint)
}

/// `api/1: add a database relation (+2 more, 1 lost)`.
fn application_message(application: &Application) -> String {
    let status = application.status.clone().unwrap_or_default();
    let unit = status.winner.map(|w| w.unit).unwrap_or_default();
    let mark = if !unit.is_empty() && unit == application.leader { "*" } else { "" };
    let mut text = match (unit.as_str(), status.message.as_str()) {
        ("", message) => message.to_string(),
        // That all is well needs no name.
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
    if 0 < status.stale_units {
        beside.push(format!("{} stale !", status.stale_units));
    }
    if 0 < status.lost_units {
        beside.push(format!("{} lost !", status.lost_units));
    }
    if !beside.is_empty() {
        text = format!("{text} ({})", beside.join(", "));
    }
    text.trim_start().to_string()
}

fn units(view: &View, wide: bool, now: Timestamp) -> Table {
    let mut header = vec!["Unit", "Status", "Seen", "Component", "Message"];
    if view.namespace.is_none() {
        header.insert(0, "Namespace");
    }
    if wide {
        let before_message = header.len() - 1;
        header.splice(before_message..before_message, ["Since", "Freshness", "Reason"]);
    }
    let mut table = Table::new(&header);
    for shown in &view.applications {
        for unit in &shown.units {
            table.row(unit_row(view, shown, unit, wide, now));
            for action in actions(shown, &unit.name) {
                table.note(&format!("-> action: {action}"));
            }
        }
    }
    table
}

fn unit_row(
    view: &View,
    shown: &ApplicationView,
    unit: &Unit,
    wide: bool,
    now: Timestamp,
) -> Vec<Cell> {
    let mut row: Vec<Cell> = Vec::new();
    if view.namespace.is_none() {
        row.push(shown.application.namespace.as_str().into());
    }
    let leader = if unit.leader { "*" } else { "" };
    row.push(format!("{}{leader}", unit.name).into());
    let level = level::word(unit.level);
    row.push(Cell::painted(level, Paint::of_level(unit.level)));
    row.push(seen(unit, now));
    let is_lost = unit.freshness == i32::from(Freshness::Lost);
    row.push(match unit.component.as_str() {
        "" if is_lost => "-".into(),
        component => component.into(),
    });
    if wide {
        let decisive = shown.statuses.iter().find(|record| decides(record, unit));
        let since = decisive.and_then(|record| record.since_time.as_ref());
        row.push(time::short_age(since, now).into());
        let freshness = freshness_word(unit.freshness);
        row.push(Cell::painted(freshness, Paint::of_freshness(unit.freshness)));
        let report = decisive.and_then(|record| record.report.as_ref());
        row.push(or_dash(report.map_or("", |report| report.reason.as_str())));
    }
    row.push(unit.message.as_str().into());
    row
}

/// Whether this status is the one that the unit's own level comes from.
fn decides(record: &StatusRecord, unit: &Unit) -> bool {
    record.unit == unit.name
        && record.report.as_ref().is_some_and(|report| {
            report.component == unit.component
                && report.level == unit.level
                && report.message == unit.message
        })
}

/// `2s`, or `6m !` for one that is not to be believed any more.
fn seen(unit: &Unit, now: Timestamp) -> Cell {
    let age = time::short_age(unit.last_seen_time.as_ref(), now);
    match Paint::of_freshness(unit.freshness) {
        Paint::None => age.into(),
        paint => Cell::painted(format!("{age} !"), paint),
    }
}

/// A freshness in one word.
pub fn freshness_word(freshness: i32) -> &'static str {
    match Freshness::try_from(freshness) {
        Ok(Freshness::Fresh | Freshness::Unspecified) => "fresh",
        Ok(Freshness::Stale) => "stale",
        Ok(Freshness::Lost) => "lost",
        Ok(Freshness::Uncertain) | Err(_) => "uncertain",
    }
}

/// What a person must do about a unit (empty: the application itself), each thing once.
fn actions(shown: &ApplicationView, unit: &str) -> Vec<String> {
    let mut actions: Vec<String> = Vec::new();
    for record in &shown.statuses {
        let action = record.report.as_ref().map_or("", |r| r.action.as_str());
        let counts = record.contributing && record.unit == unit && !action.is_empty();
        if counts && !actions.iter().any(|known| known == action) {
            actions.push(action.to_string());
        }
    }
    actions
}

fn or_dash(text: &str) -> Cell {
    if text.is_empty() { "-".into() } else { text.into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::v1::AggregatedStatus;
    use crate::proto::v1::StatusRef;
    use crate::proto::v1::StatusReport;

    fn mk_now() -> Timestamp {
        "2026-02-24T12:45:09Z".parse().expect("a timestamp")
    }

    fn mk_ago(seconds: i64) -> Option<prost_types::Timestamp> {
        let mut moment = time::to_wire(mk_now());
        moment.seconds -= seconds;
        Some(moment)
    }

    fn mk_status(level: Level, unit: &str, message: &str, seconds: i64) -> AggregatedStatus {
        AggregatedStatus {
            level: level.into(),
            message: message.into(),
            since_time: mk_ago(seconds),
            winner: Some(StatusRef { unit: unit.into(), ..StatusRef::default() }),
            ..AggregatedStatus::default()
        }
    }

    fn mk_application(name: &str, unit_count: i32, status: AggregatedStatus) -> Application {
        Application {
            namespace: "prod".into(),
            name: name.into(),
            unit_count,
            status: Some(status),
            leader: format!("{name}/0"),
            revision: 12,
            ..Application::default()
        }
    }

    fn mk_unit(name: &str, level: Level, seen: i64, component: &str, message: &str) -> Unit {
        Unit {
            name: name.into(),
            level: level.into(),
            freshness: Freshness::Fresh.into(),
            last_seen_time: mk_ago(seen),
            component: component.into(),
            message: message.into(),
            leader: name.ends_with("/0"),
            ..Unit::default()
        }
    }

    fn mk_api() -> ApplicationView {
        let message = "add a database relation";
        let status = AggregatedStatus {
            more_count: 2,
            lost_units: 1,
            action_count: 1,
            reason: "RelationMissing".into(),
            ..mk_status(Level::Blocked, "api/1", message, 247)
        };
        let lost = Unit {
            freshness: Freshness::Lost.into(),
            ..mk_unit("api/2", Level::Unknown, 360, "", "no report for 6m (ttl 90s)")
        };
        ApplicationView {
            application: mk_application("api", 3, status),
            units: vec![
                mk_unit("api/0", Level::Active, 2, "", ""),
                mk_unit("api/1", Level::Blocked, 1, "database", message),
                lost,
            ],
            statuses: vec![StatusRecord {
                unit: "api/1".into(),
                contributing: true,
                since_time: mk_ago(250),
                report: Some(StatusReport {
                    component: "database".into(),
                    level: Level::Blocked.into(),
                    message: message.into(),
                    reason: "RelationMissing".into(),
                    action: "juju integrate api postgresql".into(),
                    ..StatusReport::default()
                }),
                ..StatusRecord::default()
            }],
        }
    }

    fn mk_view() -> View {
        let cache = AggregatedStatus {
            flapping_count: 2,
            ..mk_status(Level::Active, "cache/0", "", 3 * 86_400 + 50)
        };
        let db = AggregatedStatus {
            flapping_count: 1,
            flapping: true,
            ..mk_status(Level::Maintenance, "db/0", "restoring backup 62%", 35)
        };
        View {
            server: "http://status.prod:50051".into(),
            namespace: Some("prod".into()),
            applications: vec![
                mk_api(),
                ApplicationView {
                    application: mk_application("cache", 2, cache),
                    ..ApplicationView::default()
                },
                ApplicationView {
                    application: mk_application("db", 3, db),
                    ..ApplicationView::default()
                },
            ],
        }
    }

    #[test]
    fn looks_like_juju_status() {
        let expected = "\
Namespace  Server             Apps                     Timestamp
prod       status.prod:50051  1 blocked  1 busy  1 ok  12:45:09Z

App    Status       Scale  Since  Message
api    blocked        2/3  4m     api/1: add a database relation (+2 more, 1 lost !)
cache  active         2/2  3d     (2 flapping !)
db     maintenance    3/3  35s    db/0*: restoring backup 62% (flapping !)

Unit    Status   Seen  Component  Message
api/0*  active   2s
api/1   blocked  1s    database   add a database relation
          -> action: juju integrate api postgresql
api/2   unknown  6m !  -          no report for 6m (ttl 90s)
";
        assert_eq!(render(&mk_view(), false, mk_now(), Screen::PLAIN), expected);
    }

    #[test]
    fn all_namespaces_name_their_own_and_wide_says_more() {
        let view = View { namespace: None, applications: vec![mk_api()], ..mk_view() };
        let text = render(&view, true, mk_now(), Screen::PLAIN);
        let lines: Vec<Vec<&str>> = text.lines().map(|l| l.split_whitespace().collect()).collect();
        assert_eq!(
            lines[4][..9],
            ["prod", "api", "blocked", "2/3", "4m", "api/0", "-", "12", "RelationMissing"]
        );
        assert_eq!(
            lines[8][..8],
            ["prod", "api/1", "blocked", "1s", "database", "4m", "fresh", "RelationMissing"]
        );
        assert_eq!(lines[10][4..8], ["!", "-", "-", "lost"]);
    }

    #[test]
    fn a_terminal_cuts_messages_and_colours_levels() {
        let screen = Screen { width: Some(60), color: true };
        let text = render(&mk_view(), false, mk_now(), screen);
        let line = text.lines().nth(4);
        let expected = "api    \x1b[31mblocked\x1b[0m        \x1b[33m2/3\x1b[0m  4m     \
            api/1: add a database rel…";
        assert_eq!(line, Some(expected));
    }

    #[test]
    fn what_the_leader_set_shows_its_action_under_the_application() {
        let status = mk_status(Level::Blocked, "", "needs a licence", 1);
        let record = StatusRecord {
            contributing: true,
            report: Some(StatusReport {
                action: "bellwether licence add".into(),
                ..StatusReport::default()
            }),
            ..StatusRecord::default()
        };
        let view = View {
            applications: vec![ApplicationView {
                application: mk_application("web", 0, status),
                units: vec![],
                statuses: vec![record.clone(), record],
            }],
            ..mk_view()
        };
        let expected = "\
Namespace  Server             Apps       Timestamp
prod       status.prod:50051  1 blocked  12:45:09Z

App  Status   Scale  Since  Message
web  blocked    0/0  1s     needs a licence
       -> action: bellwether licence add
";
        assert_eq!(render(&view, false, mk_now(), Screen::PLAIN), expected);
    }
}
