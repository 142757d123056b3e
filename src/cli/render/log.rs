//! History as a table, the newest last, as `juju show-status-log` prints it.

use crate::cli::level;
use crate::cli::render::Screen;
use crate::cli::render::paint::Paint;
use crate::cli::render::status::freshness_word;
use crate::cli::render::table::Cell;
use crate::cli::render::table::Table;
use crate::cli::render::time;
use crate::proto::v1::Level;
use crate::proto::v1::StatusEvent;

/// The transitions of `application`, given newest first.
pub fn render(application: &str, events: &[StatusEvent], wide: bool, screen: Screen) -> String {
    let mut header = vec!["Time", "What", "From -> To"];
    if wide {
        header.extend(["Revision", "Cause", "Reason"]);
    }
    header.push("Message");
    let mut table = Table::new(&header).right("Revision");
    for event in events.iter().rev() {
        let moment = time::from_wire(event.time.as_ref());
        let mut row: Vec<Cell> = vec![
            moment.map_or("-".to_string(), time::full).into(),
            what(application, event).into(),
            Cell::painted(transition(event), Paint::of_level(event.level)),
        ];
        if wide {
            row.push(event.revision.to_string().into());
            row.push(event.cause.as_str().into());
            row.push(event.reason.as_str().into());
        }
        row.push(event.message.as_str().into());
        table.row(row);
    }
    table.render(screen)
}

/// `web/0 database`, or the application itself.
fn what(application: &str, event: &StatusEvent) -> String {
    let status = event.status.clone().unwrap_or_default();
    let unit = if status.unit.is_empty() { application } else { &status.unit };
    let key = if status.key.is_empty() { String::new() } else { format!("[{}]", status.key) };
    format!("{unit} {}{key}", status.component).trim_end().to_string()
}

/// `active -> blocked`, `- -> active`, `active -> gone`, `active -> active (stale)`,
/// `blocked -> blocked (flapping began)`.
fn transition(event: &StatusEvent) -> String {
    let gone = event.level == i32::from(Level::Unspecified);
    let to = if gone { "gone" } else { level::word(event.level) };
    let freshness = match freshness_word(event.freshness) {
        "fresh" => String::new(),
        word => format!(" ({word})"),
    };
    let mark = match event.cause.as_str() {
        "FlappingBegan" => " (flapping began)",
        "FlappingEnded" => " (flapping ended)",
        _ => "",
    };
    format!("{} -> {to}{freshness}{mark}", level::word(event.from_level))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::v1::Freshness;
    use crate::proto::v1::StatusRef;

    fn mk_event(seconds: i64, status: Option<StatusRef>, from: Level, to: Level) -> StatusEvent {
        StatusEvent {
            time: Some(prost_types::Timestamp { seconds, nanos: 5 }),
            status,
            from_level: from.into(),
            level: to.into(),
            freshness: Freshness::Fresh.into(),
            cause: "Reported".into(),
            revision: 12,
            ..StatusEvent::default()
        }
    }

    fn mk_events() -> Vec<StatusEvent> {
        let database = StatusRef {
            unit: "web/0".into(),
            component: "database".into(),
            key: "main".into(),
            kind: 0,
            target: String::new(),
        };
        vec![
            mk_event(1_771_937_110, Some(database.clone()), Level::Blocked, Level::Unspecified),
            StatusEvent {
                freshness: Freshness::Stale.into(),
                ..mk_event(1_771_937_100, Some(database.clone()), Level::Blocked, Level::Blocked)
            },
            StatusEvent {
                message: "add a relation".into(),
                reason: "RelationMissing".into(),
                ..mk_event(1_771_937_000, Some(database), Level::Unspecified, Level::Blocked)
            },
            StatusEvent {
                cause: "FlappingEnded".into(),
                ..mk_event(1_771_936_000, None, Level::Unknown, Level::Active)
            },
        ]
    }

    #[test]
    fn the_newest_stands_last() {
        let expected = "\
Time                  What                  From -> To                          Message
2026-02-24 12:26:40Z  web                   unknown -> active (flapping ended)
2026-02-24 12:43:20Z  web/0 database[main]  - -> blocked                        add a relation
2026-02-24 12:45:00Z  web/0 database[main]  blocked -> blocked (stale)
2026-02-24 12:45:10Z  web/0 database[main]  blocked -> gone
";
        assert_eq!(render("web", &mk_events(), false, Screen::PLAIN), expected);
    }

    #[test]
    fn wide_adds_revision_cause_and_reason() {
        let text = render("web", &mk_events()[2..3], true, Screen::PLAIN);
        let expected = "\
Time                  What                  From -> To    \
Revision  Cause     Reason           Message
2026-02-24 12:43:20Z  web/0 database[main]  - -> blocked        \
12  Reported  RelationMissing  add a relation
";
        assert_eq!(text, expected);
    }
}
