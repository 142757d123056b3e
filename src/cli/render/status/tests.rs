//! Golden texts of the overview.

use super::*;
use crate::proto::v1::{AggregatedStatus, StatusRef};

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
        contributions: vec![mk_contribution(
            "api/1",
            "database",
            message,
            "juju integrate api postgresql",
        )],
        ..ApplicationView::default()
    }
}

fn mk_contribution(unit: &str, component: &str, message: &str, action: &str) -> Contribution {
    Contribution {
        r#ref: Some(StatusRef {
            unit: unit.into(),
            component: component.into(),
            ..StatusRef::default()
        }),
        level: Level::Blocked.into(),
        message: message.into(),
        reason: "RelationMissing".into(),
        action: action.into(),
        since_time: mk_ago(250),
        freshness: Freshness::Fresh.into(),
        ..Contribution::default()
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
Namespace  Server             Timestamp  Apps
prod       status.prod:50051  12:45:09Z  1 blocked, 1 maintenance, 1 marked

App    Status       Heard  Since  Message
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
fn all_namespaces_have_a_column_and_wide_has_more() {
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
fn an_action_is_printed_under_its_row() {
    let mut api = mk_api();
    api.contributions.push(mk_contribution("api/1", "tls", "no certificate", "renew it"));
    let mut fault = mk_contribution("api/0", "db", "forbidden", "grant the right");
    fault.r#ref.as_mut().expect("a reference").target = "pg".into();
    api.contributions.push(fault);
    api.contributions.push(mk_contribution("api/9", "x", "not shown", "not shown"));
    let text = render(&View { applications: vec![api], ..mk_view() }, false, mk_now(), PLAIN);
    let expected = "\
Unit    Status   Seen  Component  Message
api/0*  active   2s
        blocked        db[pg]     forbidden
          -> action: grant the right
api/1   blocked  1s    database   add a database relation
          -> action: juju integrate api postgresql
        blocked        tls        no certificate
          -> action: renew it
api/2   unknown  6m !  -          no report for 6m (ttl 90s)
";
    assert!(text.ends_with(expected), "{text}");
}

#[test]
fn open_errors_are_marked() {
    for (fault_count, expected) in [
        (0, "  serving\n"),
        (1, "  serving (1 open error !)\n"),
        (30, "  serving (30 open errors !)\n"),
    ] {
        let status = mk_status(Level::Active, "", "serving", 5);
        let status = AggregatedStatus { fault_count, ..status };
        let application = mk_application("a", 1, status);
        let applications = vec![ApplicationView { application, ..ApplicationView::default() }];
        let text = render(&View { applications, ..mk_view() }, false, mk_now(), PLAIN);
        assert!(text.contains(expected), "{text}");
    }
}

#[test]
fn stale_counts_as_stale_and_flapping_is_marked_at_its_unit() {
    let stale = AggregatedStatus { stale_units: 1, ..mk_status(Level::Active, "a/0", "", 5) };
    let mut api = mk_api();
    api.contributions[0].held = "flapping, now active".into();
    let applications = vec![
        ApplicationView {
            application: mk_application("a", 1, stale),
            ..ApplicationView::default()
        },
        api,
    ];
    let text = render(&View { applications, ..mk_view() }, false, mk_now(), PLAIN);
    assert!(text.contains("  1 blocked, 1 silent\n"), "{text}");
    assert!(text.contains("a    active     0/1  5s     (1 stale !)\n"), "{text}");
    assert!(text.contains("add a database relation (flapping, now active)\n"), "{text}");
}

#[test]
fn the_holder_of_an_operation_is_shown_without_units() {
    use crate::proto::v1::OperationState;
    let status = mk_status(Level::Maintenance, "", "upgrading to v2", 5);
    let web = ApplicationView {
        application: mk_application("web", 0, status),
        operations: vec![Operation {
            operation_id: "up-v2".into(),
            target_version: "v2".into(),
            state: OperationState::Running.into(),
            progress: "step 3/7".into(),
            holder: "web/0".into(),
            lease_expire_time: mk_ago(-28),
            ..Operation::default()
        }],
        ..ApplicationView::default()
    };
    let text = render(&View { applications: vec![web], ..mk_view() }, false, mk_now(), PLAIN);
    let expected = "\
Unit  Status       Seen  Component  Message
web   maintenance        operation  up-v2 -> v2  step 3/7  web/0  28s left
";
    assert!(text.ends_with(expected), "{text}");
}

const PLAIN: Screen = Screen::PLAIN;

/// Returns a view with long names, and letters two columns wide.
fn mk_crowded() -> View {
    let name = "very-long-application-of-many-parts";
    let message = "データベースが利用者のパスワードを受け付けません";
    let action =
        "kubectl -n prod create secret generic web-db --from-literal=password=ask-the-owner";
    let unit = format!("{name}/10");
    let shown = ApplicationView {
        application: mk_application(name, 2, mk_status(Level::Blocked, &unit, message, 9)),
        units: vec![mk_unit(&unit, Level::Blocked, 1, "database", message)],
        contributions: vec![mk_contribution(&unit, "database", message, action)],
        ..ApplicationView::default()
    };
    View { applications: vec![shown], ..mk_view() }
}

#[test]
fn at_any_width_names_give_way_before_messages_and_actions_are_whole() {
    use unicode_width::UnicodeWidthStr;
    for width in [60, 80, 200] {
        let screen = Screen { width: Some(width), color: false };
        let text = render(&mk_crowded(), false, mk_now(), screen);
        assert!(text.contains("--from-literal=password=ask-the-owner\n"), "{width}:\n{text}");
        let rows = text.lines().filter(|line| !line.contains("-> action"));
        let widest = rows.map(UnicodeWidthStr::width).max().unwrap_or(0);
        assert!(widest <= width, "{widest} of {width}:\n{text}");
        assert!(text.contains("データ"), "{width}:\n{text}");
    }
    let screen = Screen { width: Some(80), color: false };
    let text = render(&mk_crowded(), false, mk_now(), screen);
    let unit = text.lines().find(|line| line.contains("database")).expect("the unit");
    assert!(unit.starts_with("very-l") && unit.contains("…") && unit.contains("/10  "), "{text}");
}

#[test]
fn a_terminal_cuts_messages_and_colours_levels() {
    let screen = Screen { width: Some(60), color: true };
    let text = render(&mk_view(), false, mk_now(), screen);
    let line = text.lines().find(|line| line.starts_with("api  "));
    let expected = "api    \x1b[31mblocked\x1b[0m        \x1b[33m2/3\x1b[0m  4m     \
        api/1: add a database rel…";
    assert_eq!(line, Some(expected));
}

#[test]
fn the_action_of_the_leaders_status_is_under_the_application() {
    let status = mk_status(Level::Blocked, "", "needs a licence", 1);
    let set = mk_contribution("", "", "needs a licence", "bellwether licence add");
    let view = View {
        applications: vec![ApplicationView {
            application: mk_application("web", 0, status),
            contributions: vec![set.clone(), set],
            ..ApplicationView::default()
        }],
        ..mk_view()
    };
    let expected = "\
Namespace  Server             Timestamp  Apps
prod       status.prod:50051  12:45:09Z  1 blocked

App  Status   Heard  Since  Message
web  blocked    0/0  1s     needs a licence
       -> action: bellwether licence add
";
    assert_eq!(render(&view, false, mk_now(), Screen::PLAIN), expected);
}
