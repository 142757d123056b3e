//! The history as a table, the newest last: the event, its object, and its actor.

use jiff::Timestamp;
use unicode_width::UnicodeWidthStr;

use crate::cli::level;
use crate::cli::render::paint::Paint;
use crate::cli::render::status::{freshness_word, part_of};
use crate::cli::render::table::{Cell, Table};
use crate::cli::render::text::marked;
use crate::cli::render::{Screen, one_line, time};
use crate::proto::v1::{EventActor, EventKind, Level, StatusEvent};

/// Formats the events of `application`, given newest first.
pub fn render(
    application: &str,
    events: &[StatusEvent],
    wide: bool,
    now: Timestamp,
    screen: Screen,
) -> String {
    let mut table = Table::new(&["Time", "What", "Revision", "Cause", "Reason", "Event", "Who"])
        .right(&["Revision"])
        .names(&["What"])
        .wrap("Event")
        .only_if(wide, &["Revision", "Cause", "Reason"]);
    let today = are_of_today(events, now);
    for event in events.iter().rev() {
        table.row(vec![
            clock(event, today, now).into(),
            what(application, event).into(),
            event.revision.to_string().into(),
            event.cause.as_str().into(),
            event.reason.as_str().into(),
            Cell::painted(text(event), Paint::of_level(event.level)),
            who(event).into(),
        ]);
    }
    table.render(screen)
}

/// Formats events, given newest first, as lines without a table, the newest last.
pub fn lines(application: &str, events: &[StatusEvent], now: Timestamp) -> Vec<String> {
    let today = are_of_today(events, now);
    let named = |event: &StatusEvent| one_line(&what(application, event));
    let width = events.iter().map(|event| named(event).width()).max().unwrap_or_default();
    let line = |event: &StatusEvent| {
        let (time, what, text) = (clock(event, today, now), named(event), one_line(&text(event)));
        let space = " ".repeat(width.saturating_sub(what.width()));
        format!("{time}  {what}{space}  {text}  {}", who(event)).trim_end().to_string()
    };
    events.iter().rev().map(line).collect()
}

/// Formats one event as a line of its own, for `log --follow`.
pub fn line(application: &str, event: &StatusEvent, now: Timestamp, screen: Screen) -> String {
    let text = Paint::of_level(event.level).apply(&one_line(&text(event)), screen.color);
    let (time, what) = (clock(event, false, now), one_line(&what(application, event)));
    let line = format!("{time}  {what:<16}  {text}  {}", who(event));
    format!("{}\n", line.trim_end())
}

/// Returns whether no line needs its date.
fn are_of_today(events: &[StatusEvent], now: Timestamp) -> bool {
    let is_today = |event: &StatusEvent| {
        time::from_wire(event.time.as_ref()).is_some_and(|at| time::is_same_day(at, now))
    };
    events.iter().all(is_today)
}

/// Formats the time; without the date if all events are of today.
fn clock(event: &StatusEvent, today: bool, now: Timestamp) -> String {
    match (time::from_wire(event.time.as_ref()), today) {
        (None, _) => "-".to_string(),
        (Some(at), true) => time::clock(at, now),
        (Some(at), false) => time::full(at),
    }
}

/// Names the object: `web/0 database`, or the application itself, as for a change of its leader.
fn what(application: &str, event: &StatusEvent) -> String {
    let status = event.status.clone().unwrap_or_default();
    let of_application = status.unit.is_empty() || event.kind() == EventKind::Leader;
    let unit = if of_application { application } else { &status.unit };
    format!("{unit} {}", part_of(&status)).trim_end().to_string()
}

/// Names the actor, if the history has one; empty for a unit that reports its own status.
fn who(event: &StatusEvent) -> &'static str {
    match event.actor() {
        EventActor::Leader => "leader",
        EventActor::Operator => "operator",
        EventActor::Server if event.kind() != EventKind::Application => "server",
        EventActor::Server | EventActor::Unit | EventActor::Unspecified => "",
    }
}

/// Describes the event. Only a change of level has an arrow between levels.
fn text(event: &StatusEvent) -> String {
    match event.kind() {
        EventKind::Configuration => with_message("configured", &changes(event)),
        EventKind::Leader => leadership(event),
        EventKind::Hold => hold(event),
        EventKind::Mark => mark(event),
        EventKind::Unit => unit(event),
        EventKind::Application if event.cause == "Deleted" => {
            with_message("deleted", &event.message)
        }
        EventKind::Operation => moved(event, "over"),
        _ => moved(event, end(&event.cause)),
    }
}

/// Formats `policy juju -> openstack, lease_duration 15s -> 30s`.
fn changes(event: &StatusEvent) -> String {
    let words = event.changes.iter().map(|change| {
        format!("{} {} -> {}", change.field, or_none(&change.from), or_none(&change.to))
    });
    words.collect::<Vec<_>>().join(", ")
}

/// Returns the value of a field before and after; `none` for an absent one.
fn change<'a>(event: &'a StatusEvent, field: &str) -> Option<(&'a str, &'a str)> {
    let found = event.changes.iter().find(|change| change.field == field)?;
    Some((or_none(&found.from), or_none(&found.to)))
}

fn or_none(text: &str) -> &str {
    if text.is_empty() { "none" } else { text }
}

/// Formats `leader: none -> db/0 (epoch 1)`. An event of an older server has only a message.
fn leadership(event: &StatusEvent) -> String {
    let Some((from, to)) = change(event, "leader") else {
        return with_message("leader", &event.message);
    };
    let epoch = match change(event, "lease_epoch") {
        Some((_, epoch)) if to != "none" => format!(" (epoch {epoch})"),
        _ => String::new(),
    };
    let why = match event.cause.as_str() {
        "LeaderExpired" => ", its lease expired",
        "LeaderTransferred" => ", transferred",
        "Doubted" => ", again: the store may have lost writes",
        _ => "",
    };
    format!("leader: {from} -> {to}{epoch}{why}")
}

/// Formats `held -> to be retried: "restored"`.
fn hold(event: &StatusEvent) -> String {
    let (from, to) = change(event, "hold").unwrap_or(match event.cause.as_str() {
        "HoldSkipped" => ("held", "skipped"),
        _ => ("held", "to be retried"),
    });
    match event.message.as_str() {
        "" => format!("{from} -> {to}"),
        message => format!("{from} -> {to}: \"{message}\""),
    }
}

/// Formats `planned work ended, expired [5c0f1a22]: new disks`.
fn mark(event: &StatusEvent) -> String {
    let kind = if event.reason == "Planned" { "planned work" } else { "acknowledgement" };
    let (from, to) = change(event, "mark").unwrap_or_default();
    let state = match event.cause.as_str() {
        "MarkEnded" => format!("ended, {to}"),
        "MarkBegan" => "began".to_string(),
        _ if from != "none" => "changed".to_string(),
        _ if to == "waits" => "set for later".to_string(),
        _ => "set".to_string(),
    };
    let id = change(event, "mark_id").map_or("", |(_, id)| id);
    with_message(&format!("{kind} {state} [{id}]"), &event.message)
}

/// Describes an event of a unit as a whole.
fn unit(event: &StatusEvent) -> String {
    let text = match event.cause.as_str() {
        "UnitLost" => "lost: no contact for too long",
        "UnitReturned" => "heard again",
        "UnitRemoved" => return with_message("removed", &event.message),
        "UnitReplaced" => "began anew",
        "UnitStopping" => "announced its stop",
        "Doubted" => "uncertain: the store may have lost its last report",
        _ => return with_message(freshness_word(event.freshness), &event.message),
    };
    text.to_string()
}

/// Says why a status is gone.
fn end(cause: &str) -> &'static str {
    match cause {
        "ErrorResolved" => "resolved",
        "HoldSkipped" => "skipped",
        "LeaderEnded" => "ended with the lease of its leader",
        "UnitRemoved" => "removed with its unit",
        "UnitReplaced" => "ended with its unit, which was replaced",
        "Replaced" => "no longer in the set of its unit",
        "Expired" => "expired",
        "Ended" => "ended at its time",
        _ => "cleared",
    }
}

/// Describes a change of level; `end` says why a status is gone.
fn moved(event: &StatusEvent, end: &str) -> String {
    let (from, to) = (level::word(event.from_level), level::word(event.level));
    let is_gone = event.level == i32::from(Level::Unspecified);
    let was = event.from_level != i32::from(Level::Unspecified);
    let mut text = match (was, is_gone) {
        (true, true) => format!("{from} -> {end}"),
        (false, true) => end.to_string(),
        (true, false) if from != to => format!("{from} -> {to}"),
        (_, false) => to.to_string(),
    };
    let freshness = freshness_word(event.freshness);
    if freshness != "fresh" && !is_gone {
        text.push_str(&format!(", {freshness}"));
    }
    text.push_str(match event.cause.as_str() {
        "FlappingBegan" => " (flapping began)",
        "FlappingEnded" => " (flapping ended)",
        "HandedOver" => " (passed on by the unit before)",
        _ => "",
    });
    with_message(&text, &event.message)
}

fn with_message(text: &str, message: &str) -> String {
    format!("{text}{}", marked(": ", message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::v1::{EventChange, Freshness, StatusRef};

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

    fn mk_status(unit: &str, component: &str, key: &str) -> Option<StatusRef> {
        Some(StatusRef {
            unit: unit.into(),
            component: component.into(),
            key: key.into(),
            ..StatusRef::default()
        })
    }

    /// Returns an event without a level: kind, cause, actor, and the change.
    fn mk_other(
        seconds: i64,
        unit: &str,
        kind: EventKind,
        cause: &str,
        actor: EventActor,
        changes: &[(&str, &str, &str)],
    ) -> StatusEvent {
        let change = |(field, from, to): &(&str, &str, &str)| EventChange {
            field: field.to_string(),
            from: from.to_string(),
            to: to.to_string(),
        };
        StatusEvent {
            kind: kind.into(),
            cause: cause.into(),
            actor: actor.into(),
            changes: changes.iter().map(change).collect(),
            ..mk_event(seconds, mk_status(unit, "", ""), Level::Unspecified, Level::Unspecified)
        }
    }

    fn mk_now() -> Timestamp {
        "2026-02-24T12:50:00Z".parse().expect("a timestamp")
    }

    fn mk_events() -> Vec<StatusEvent> {
        use EventActor::{Operator, Server, Unit};
        let database = mk_status("web/0", "database", "main");
        let claimed = [("leader", "", "web/0"), ("lease_epoch", "0", "1")];
        let held = [("hold", "held", "to be retried")];
        let kind = EventKind::Hold;
        vec![
            StatusEvent {
                message: "restored".into(),
                status: database.clone(),
                ..mk_other(1_771_937_130, "", kind, "HoldRetried", Operator, &held)
            },
            mk_other(
                1_771_937_120,
                "web/0",
                EventKind::Leader,
                "LeaderExpired",
                Server,
                &[("leader", "web/0", "")],
            ),
            StatusEvent {
                cause: "Cleared".into(),
                ..mk_event(1_771_937_110, database.clone(), Level::Blocked, Level::Unspecified)
            },
            StatusEvent {
                freshness: Freshness::Stale.into(),
                cause: "Expired".into(),
                actor: Server.into(),
                ..mk_event(1_771_937_100, database.clone(), Level::Blocked, Level::Blocked)
            },
            StatusEvent {
                message: "add a relation".into(),
                reason: "RelationMissing".into(),
                ..mk_event(1_771_937_000, database, Level::Unspecified, Level::Blocked)
            },
            mk_other(1_771_936_900, "web/1", EventKind::Unit, "UnitLost", Server, &[]),
            mk_other(1_771_936_800, "web/0", EventKind::Leader, "LeaderClaimed", Unit, &claimed),
            mk_other(
                1_771_936_700,
                "",
                EventKind::Configuration,
                "Configured",
                Operator,
                &[("policy", "juju", "openstack")],
            ),
            StatusEvent {
                cause: "FlappingEnded".into(),
                kind: EventKind::Application.into(),
                ..mk_event(1_771_936_000, None, Level::Unknown, Level::Active)
            },
        ]
    }

    #[test]
    fn each_kind_of_event_has_its_line() {
        let expected = "\
Time       What                  Event                                         Who
12:26:40Z  web                   unknown -> active (flapping ended)
12:38:20Z  web                   configured: policy juju -> openstack          operator
12:40:00Z  web                   leader: none -> web/0 (epoch 1)
12:41:40Z  web/1                 lost: no contact for too long                  server
12:43:20Z  web/0 database[main]  blocked: add a relation
12:45:00Z  web/0 database[main]  blocked, stale                                server
12:45:10Z  web/0 database[main]  blocked -> cleared
12:45:20Z  web                   leader: web/0 -> none, its lease expired      server
12:45:30Z  web/0 database[main]  held -> to be retried: \"restored\"            operator
";
        // Only the text is compared, not the width of the columns.
        let squeeze = |text: &str| -> Vec<String> {
            text.lines().map(|line| line.split("  ").map(str::trim).collect()).collect()
        };
        let shown = render("web", &mk_events(), false, mk_now(), Screen::PLAIN);
        assert_eq!(squeeze(&shown), squeeze(expected));
        assert!(!shown.contains("gone"), "{shown}");
    }

    #[test]
    fn a_mark_is_set_begins_and_ends_in_its_own_words() {
        let shown = |cause: &str, reason: &str, to: &str| {
            let changes = [("mark", "", to), ("mark_id", "", "5c0f")];
            let actor = EventActor::Operator;
            let event = mk_other(0, "web/0", EventKind::Mark, cause, actor, &changes);
            text(&StatusEvent { reason: reason.into(), message: "ticket 1".into(), ..event })
        };
        for (cause, reason, to, expected) in [
            ("MarkSet", "Acknowledged", "in force", "acknowledgement set [5c0f]: ticket 1"),
            ("MarkSet", "Planned", "waits", "planned work set for later [5c0f]: ticket 1"),
            ("MarkBegan", "Planned", "in force", "planned work began [5c0f]: ticket 1"),
            ("MarkEnded", "Acknowledged", "worse", "acknowledgement ended, worse [5c0f]: ticket 1"),
        ] {
            assert_eq!(shown(cause, reason, to), expected);
        }
    }

    #[test]
    fn lines_without_a_table_are_aligned() {
        let expected = [
            "12:45:00Z  web/0 database[main]  blocked, stale  server",
            "12:45:10Z  web/0 database[main]  blocked -> cleared",
            "12:45:20Z  web                   leader: web/0 -> none, its lease expired  server",
        ];
        assert_eq!(lines("web", &mk_events()[1..4], mk_now()), expected);
        assert!(lines("web", &[], mk_now()).is_empty());
    }

    #[test]
    fn another_day_is_printed_and_a_followed_line_always_has_its_day() {
        let later = "2026-02-25T12:50:00Z".parse().expect("a timestamp");
        let shown = render("web", &mk_events()[..1], false, later, Screen::PLAIN);
        assert!(shown.contains("\n2026-02-24 12:45:30Z  web/0 database[main]  held"), "{shown}");
        let line = line("web", &mk_events()[6], mk_now(), Screen::PLAIN);
        assert_eq!(
            line,
            "2026-02-24 12:40:00Z  web               leader: none -> web/0 (epoch 1)\n"
        );
    }

    #[test]
    fn wide_adds_revision_cause_and_reason() {
        let text = render("web", &mk_events()[4..5], true, mk_now(), Screen::PLAIN);
        let expected = "\
Time       What                  Revision  Cause     Reason           Event                    Who
12:43:20Z  web/0 database[main]        12  Reported  RelationMissing  blocked: add a relation
";
        assert_eq!(text, expected);
    }
}
