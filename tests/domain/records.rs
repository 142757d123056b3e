//! Single cases of values: how they are counted, and how an older record is read.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bellwether::domain::app::{AppState, Head};
use bellwether::domain::command::{Command, NewStatus};
use bellwether::domain::history::{Cause, Subject};
use bellwether::domain::level::Level;
use bellwether::domain::name::OperationId;
use bellwether::domain::operation::command::{NewOperation, OperationAction, OperationCommand};
use bellwether::domain::policy::{Config, ConfigPatch, Latch, Policy, Scope};
use bellwether::domain::replay::Records;
use bellwether::domain::silence::lose_unit;
use bellwether::domain::status::report::{Details, Report, advice};
use bellwether::domain::status::{Freshness, Kind};
use bellwether::domain::summary::Totals;
use bellwether::domain::usage::Usage;
use serde_json::{Value, json};

use crate::case::{
    Case, configure, new_operation, new_status, part, pull, push, reporter, seconds, time, unit,
};
use crate::world::app_name;

#[test]
fn usage_is_added_and_subtracted_count_by_count() {
    let of = |n: u64| Usage {
        units: n,
        statuses: 2 * n,
        faults: 3 * n,
        operations: 4 * n,
        marks: 8 * n,
        data_bytes: 5 * n,
        record_bytes: 6 * n,
        history_bytes: 7 * n,
    };
    assert_eq!(of(10).plus(of(1)), of(11));
    assert_eq!(of(10).minus(of(1)), of(9));
    assert_eq!(of(1).minus(of(2)), of(0));
}

#[test]
fn a_moment_before_the_first_is_the_first() {
    assert_eq!(time(10).before(seconds(3)), time(7));
    assert_eq!(time(1).before(Duration::MAX), time(0));
}

#[test]
fn four_levels_are_unwell() {
    let mut totals = Totals::default();
    for (n, level) in Level::ALL.into_iter().enumerate() {
        totals.contributions[level as usize] = 1 << n;
    }
    let unwell = [Level::Waiting, Level::Maintenance, Level::Blocked, Level::Error];
    let expected: u32 = unwell.map(|level| totals.contributions[level as usize]).iter().sum();
    assert_eq!(totals.unwell(), expected);
}

#[test]
fn counts_from_before_a_level_are_read_without_it() {
    let mut totals = Totals::default();
    totals.contributions[1] = 7;
    let mut record = serde_json::to_value(&totals).unwrap();
    let counts = record["contributions"].as_array_mut().unwrap();
    counts.truncate(2);
    assert_eq!(serde_json::from_value::<Totals>(record.clone()).unwrap(), totals);
    record["contributions"] = json!(vec![0; 99]);
    let refused = serde_json::from_value::<Totals>(record).unwrap_err().to_string();
    assert!(refused.contains("a level of a later version"), "{refused}");
}

#[test]
fn an_order_from_before_a_level_has_it_where_juju_has_it() {
    use Level::{Active, Blocked, Error, Maintenance, Terminated, Unknown, Waiting};
    let read = |levels: &[Level]| {
        let record = json!({ "Custom": levels });
        serde_json::from_value::<Policy>(record)
    };
    let all = [Active, Terminated, Unknown, Error, Blocked, Maintenance, Waiting];
    let without: Vec<Level> =
        all.into_iter().filter(|l| !matches!(l, Terminated | Unknown)).collect();
    assert_eq!(read(&without).unwrap(), Policy::Custom(all));
    let last = [Blocked, Active, Terminated, Unknown, Maintenance, Waiting];
    let first = [Error, Blocked, Active, Terminated, Unknown, Maintenance, Waiting];
    assert_eq!(read(&last).unwrap(), Policy::Custom(first));
    let twice = [&all[..], &[Active]].concat();
    let refused = read(&twice).unwrap_err().to_string();
    assert!(refused.contains("8 levels in an order of 7"), "{refused}");
}

#[test]
fn a_configuration_from_before_a_setting_has_its_default() {
    let Value::Object(mut record) = serde_json::to_value(Config::default()).unwrap() else {
        panic!("an object");
    };
    for setting in ["collect_interval", "hand_over", "latches", "damping", "lease_duration"] {
        assert!(record.remove(setting).is_some(), "{setting}");
    }
    let read: Config = serde_json::from_value(Value::Object(record)).unwrap();
    assert_eq!(read, Config::default());
}

/// An earlier version, which may share the store, writes heads without these counts.
#[test]
fn a_head_without_counts_is_read_and_counted() {
    let mut case = Case::new();
    case.run(configure(ConfigPatch { policy: Some(Policy::Strict), ..ConfigPatch::default() }));
    case.run(push("web/0", Level::Active, None));
    case.run(pull("web/0", &["", "db"]));
    let head = case.state.head().clone();
    let mut record = serde_json::to_value(&head).unwrap();
    assert_eq!(serde_json::from_value::<Head>(record.clone()).unwrap(), head);

    record["counts"] = Value::Null;
    let uncounted: Head = serde_json::from_value(record).unwrap();
    assert_eq!((uncounted.counts, uncounted.usage().statuses), (None, 3));
    let web = unit("web/0");
    let statuses = case.state.statuses().of(&web, None);
    let statuses = statuses.map(|(key, status)| ((**key).clone(), (**status).clone())).collect();
    let units = vec![(web.clone(), case.unit("web/0").clone())];
    let records = Records { units, statuses, ..Records::of_head(uncounted) };
    let counted = AppState::load(app_name(), records).head().counts.unwrap();
    let expected = head.counts.unwrap();
    assert_eq!((counted.statuses, counted.record_bytes), (3, expected.record_bytes));
}

#[test]
fn the_history_names_each_setting_that_changes() {
    let mut case = Case::new();
    let latch = |component| Latch { scope: Scope::Component(part(component)), good_count: 3 };
    case.run(configure(ConfigPatch {
        policy: Some(Policy::Strict),
        external_leader: Some(Some(unit("web/7"))),
        latches: Some(vec![latch(""), latch("db")]),
        ..ConfigPatch::default()
    }));
    let events = &case.last.as_ref().unwrap().events;
    let event = events.iter().find(|event| event.cause == Cause::Configured).unwrap();
    let changes = event.changes.iter().map(|c| format!("{}: {} to {}", c.field, c.from, c.to));
    assert_eq!(
        changes.collect::<Vec<_>>(),
        [
            "policy: juju to strict",
            "external_leader:  to web/7",
            "latches:  to unit after 3, db after 3",
        ]
    );
}

#[test]
fn the_events_of_a_commit_are_numbered_after_those_before() {
    let mut case = Case::new();
    let mut next = 0;
    for level in [Level::Active, Level::Blocked, Level::Active] {
        case.run(push("web/0", level, None));
        let last = case.last.as_ref().unwrap();
        assert!(1 < last.events.len());
        assert_eq!(last.first_event(), next);
        next += last.events.len() as u64;
    }
}

/// Returns a report with a reason, and a label of the key `kk`.
fn detailed(message: &str, reason: &str, label: &str) -> Report {
    let labels = BTreeMap::from([("kk".into(), label.into())]);
    let details = Details { reason: reason.into(), labels, ..Details::default() };
    let ttl = Some(seconds(10));
    Report { level: Level::Waiting, message: message.into(), ttl, ..Report::default() }
        .with(details)
}

fn pushed(report: Report) -> Command {
    let status = NewStatus { report: Arc::new(report), ..new_status("", Level::Waiting, None) };
    Command::Report(reporter("web/0"), Kind::Push, status)
}

#[test]
fn a_report_is_stored_with_its_details_and_counted_by_its_texts() {
    let report = detailed("no disk", "DiskFull", "value");
    let record = serde_json::to_value(&report).unwrap();
    assert_eq!(serde_json::from_value::<Report>(record).unwrap(), report);
    let bytes = |label| {
        let mut case = Case::new();
        case.run(pushed(detailed("no disk", "DiskFull", label)));
        case.state.head().counts.unwrap().record_bytes
    };
    assert_eq!(bytes("value") - bytes("v"), 4);
    assert_eq!(bytes("v") - bytes(""), 1);
}

#[test]
fn a_reason_is_in_camel_case() {
    let is_advised = |reason| !advice(&detailed("no", reason, "")).is_empty();
    for good in ["", "D", "DiskFull", "Http404"] {
        assert!(!is_advised(good), "{good}");
    }
    for bad in ["diskFull", "Disk full", "Disk-full", "4Disks"] {
        assert!(is_advised(bad), "{bad}");
    }
}

#[test]
fn an_event_has_the_reason_and_says_whether_the_status_is_stale() {
    let mut case = Case::new();
    let events = |case: &Case| {
        let events = &case.last.as_ref().unwrap().events;
        let told = events.iter().filter(|event| event.to.is_some());
        told.map(|e| (e.subject.is_some(), e.reason.to_string(), e.freshness)).collect::<Vec<_>>()
    };
    case.run(pushed(detailed("no disk", "DiskFull", "")));
    let full = || "DiskFull".to_string();
    assert_eq!(
        events(&case),
        [(true, full(), Freshness::Fresh), (false, full(), Freshness::Fresh)]
    );
    let bytes: usize = case
        .last
        .as_ref()
        .unwrap()
        .events
        .iter()
        .map(|event| 128 + event.message.len() + event.reason.len())
        .sum();
    assert_eq!(case.state.head().counts.unwrap().history_bytes, bytes as u64);
    case.at(12).pass();
    assert_eq!(events(&case)[0], (true, full(), Freshness::Stale));
}

#[test]
fn an_event_names_its_subject() {
    let subjects = |case: &Case| {
        let events = case.last.as_ref().unwrap().events.iter();
        events.filter_map(|event| event.subject.clone()).collect::<Vec<_>>()
    };
    let web = || Subject { unit: unit("web/0"), ..Subject::default() };
    let mut case = Case::new();
    let status = new_status("disk", Level::Blocked, None);
    case.run(Command::Report(reporter("web/0"), Kind::Push, status));
    let status = Subject { key: part("disk"), kind: Some(Kind::Push), ..web() };
    assert_eq!(subjects(&case), [status]);
    let (id, by) = (OperationId::new("upgrade").unwrap(), unit("web/0"));
    let operation = NewOperation { unit: unit("web/0"), ..new_operation() };
    let action = OperationAction::Begin(operation.into());
    case.run(Command::Operate(OperationCommand { id, by, action }));
    let operation = Subject { component: part("operation"), key: part("upgrade"), ..web() };
    assert!(subjects(&case).contains(&operation), "{:?}", subjects(&case));
    case.commit(|draft| lose_unit(draft, &unit("web/0")));
    assert!(subjects(&case).contains(&web()), "{:?}", subjects(&case));
}

/// The summary has another event if the words of its message are others.
#[test]
fn messages_that_differ_from_their_first_word_on_are_not_the_same() {
    let mut case = Case::new();
    case.run(pushed(detailed("a-b", "", "")));
    case.run(pushed(detailed("x+b", "", "")));
    let events = &case.last.as_ref().unwrap().events;
    assert!(events.iter().any(|event| event.cause == Cause::Derived && &*event.message == "x+b"));
}

#[test]
fn the_history_is_counted_and_bounded() {
    let counted = |case: &Case| case.state.head().counts.unwrap().history_bytes;
    // Each commit has two events of 131 bytes: of the status, and of the application.
    let mut case = Case::new();
    (case.limits.events_max, case.limits.own_events_max) = (2, 1);
    for message in ["m1", "m2", "m3"] {
        case.run(pushed(detailed(message, "R", "")));
    }
    assert_eq!(counted(&case), 3 * 131, "an event over the limit drops another");

    let mut case = Case::new();
    case.run(pushed(detailed("m1", "R", "")));
    case.limits.total.history_bytes = 2 * 131 + 1;
    case.run(pushed(detailed("m2", "R", "")));
    let texts = |case: &Case| {
        let events = &case.last.as_ref().unwrap().events;
        events.iter().map(|event| event.message.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(texts(&case), ["m2", ""], "the history is at its limit after the first event");
    case.limits.total.history_bytes = counted(&case);
    case.run(pushed(detailed("m3", "R", "")));
    assert_eq!(texts(&case), ["", ""]);
}
