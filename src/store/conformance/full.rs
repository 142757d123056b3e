//! Every record that can be stored. Each backend keeps a fixture of it in every shipped format.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::domain::app::{AppState, Head};
use crate::domain::data::DataHead;
use crate::domain::fault::open::OpenFaults;
use crate::domain::history::{Cause, StatusEvent, Subject};
use crate::domain::leadership::status::{ApplicationStatus, Mode};
use crate::domain::level::Level;
use crate::domain::name::{AppName, PartName, UnitName};
use crate::domain::need::Needs;
use crate::domain::policy::{Config, LostUnits, Policy};
use crate::domain::rank::Origin;
use crate::domain::replay::Records;
use crate::domain::request::{Outcome, Remembered};
use crate::domain::revision::Revision;
use crate::domain::status::flapping::Swings;
use crate::domain::status::place::PlaceInSet;
use crate::domain::status::report::{Details, Report};
use crate::domain::status::{Freshness, Kind, Status, StatusKey};
use crate::domain::summary::{Summary, Totals, Winner};
use crate::domain::time::Timestamp;
use crate::domain::transition::{MemoryOnly, Transition, Write};
use crate::domain::unit::Unit;
use crate::store::Store;

use super::driver::mk_app;

/// Asserts that a store has the records of [`mk_full`], and no others of these applications.
pub async fn check_full(store: &Arc<dyn Store>) {
    for transition in mk_full() {
        let records = store.load(&transition.app).await.unwrap();
        assert_eq!(records, records_of(&transition));
        let events = store.events(&transition.app, None, 100).await.unwrap();
        let events: Vec<_> = events.into_iter().rev().map(|e| e.event).collect();
        assert_eq!(events, transition.events);
    }
}

/// Asserts that a store has the records of an older server, which stored answers by their ids alone
/// and no counts in its heads. Each fixture has the same calls over the wire.
pub async fn check_ids_alone(store: &Arc<dyn Store>) {
    let app = AppName::new("default", "grown").unwrap();
    let records = store.load(&app).await.unwrap();
    let ids: Vec<&str> = records.requests.iter().map(|(id, _)| &**id).collect();
    let expected = [
        "\u{1}removed grown/2",
        "begin",
        "claim",
        "configure",
        "data",
        "error",
        "register",
        "remove",
        "replace",
        "report",
    ];
    assert_eq!(ids, expected);
    for (id, answer) in &records.requests {
        assert_eq!((&answer.fingerprint, answer.unit.as_str()), (&None, ""), "{id}");
        assert!(answer.outcome.changed || id.starts_with('\u{1}'), "{id}");
    }
    assert_eq!(records.head.counts, None);
    let state = AppState::load(app, records);
    let usage = state.head().usage();
    assert_eq!((usage.units, usage.statuses, usage.faults, usage.operations), (2, 4, 1, 1));
    assert_eq!(usage.data_bytes, 18);
    // The payload and the checkpoint are part of the sum.
    assert!(13 < usage.record_bytes && usage.record_bytes < 1000, "{usage:?}");
    let gone = store.load(&AppName::new("default", "gone").unwrap()).await.unwrap();
    assert!(gone.head.deleted && gone.requests.len() == 1, "{gone:?}");
}

/// Returns an application with every field set, and a deleted one.
pub fn mk_full() -> [Transition; 2] {
    let full = Transition {
        app: mk_app("full"),
        base: Revision(0),
        head: mk_head().into(),
        writes: mk_writes(),
        events: mk_events(),
        memory_only: MemoryOnly::default(),
        base_quiet: 0,
        epoch_floor: 0,
        time: mk_time(3),
    };
    let deleted = Transition {
        app: mk_app("deleted"),
        base: Revision(0),
        head: Head { next_event: 1, ..Head::empty(Revision(9)) }.into(),
        writes: Vec::new(),
        events: mk_events()[..1].to_vec(),
        memory_only: MemoryOnly::default(),
        base_quiet: 0,
        epoch_floor: 0,
        time: mk_time(4),
    };
    [full, deleted]
}

/// Returns a time far in the future, so that no event is ever too old.
fn mk_time(n: u64) -> Timestamp {
    Timestamp::new(32_503_680_000_000 + n)
}

fn mk_unit_name() -> UnitName {
    UnitName::new("full/0").unwrap()
}

fn mk_head() -> Head {
    Head {
        needs: None,
        marks: None,
        revision: Revision(7),
        create_time: mk_time(1),
        update_time: mk_time(3),
        config: Arc::new(Config {
            policy: Policy::Custom([
                Level::Unknown,
                Level::Error,
                Level::Blocked,
                Level::Waiting,
                Level::Maintenance,
                Level::Active,
                Level::Terminated,
            ]),
            lost_units: LostUnits::Blocked,
            default_ttl: Some(Duration::new(90, 500)),
            lost_after: Duration::from_secs(120),
            serving_levels: vec![Level::Active, Level::Maintenance],
            external_leader: Some(mk_unit_name()),
            ..Config::default()
        }),
        application_status: Some(ApplicationStatus {
            mode: Mode::Override,
            level: Level::Blocked,
            message: "all of it".into(),
            reason: "ByHand".into(),
            action: "look".into(),
            since: mk_time(2),
            expire_time: Some(mk_time(9)),
        }),
        lease_epoch: 4,
        summary: mk_summary().into(),
        next_due: Some(mk_time(5)),
        next_event: 3,
        deleted: false,
        losses: 0,
        quiet_commits: 0,
        open_faults: OpenFaults::default(),
        sessions: BTreeMap::new(),
        operation: None,
        // Newer fields have tests of their own: the fixtures do not contain them.
        lease: None,
        next_candidate: 0,
        data: DataHead::default(),
        counts: None,
        own_events: 0,
        abandoned_until: None,
    }
}

fn mk_summary() -> Summary {
    let side = |priority| {
        serde_json::json!({
            "level": "Blocked",
            "priority": priority,
            "precedence": 0,
            "unit": "full/0",
            "component": "db",
            "key": "primary/1",
        })
    };
    let rule = serde_json::json!({
        "Beat": { "by": "Priority", "winner": side(3), "other": side(-4) }
    });
    Summary {
        level: Level::Blocked,
        message: "all of it".into(),
        reason: "ByHand".into(),
        action: "look".into(),
        short_message: "".into(),
        since: mk_time(2),
        winner: Some(Winner {
            unit: mk_unit_name(),
            component: PartName::new("db").unwrap(),
            key: PartName::new("primary/1").unwrap(),
            origin: Origin::Reported(Kind::Push),
            flaps: false,
            target: "".into(),
            operation: None,
        }),
        // Only the domain uses the sides of a rule.
        rule: serde_json::from_value(rule).unwrap(),
        totals: Totals {
            units: 1,
            units_by_level: [1, 2, 3, 4, 5, 6, 7],
            stale_units: 2,
            lost_units: 3,
            contributions: [7, 6, 5, 4, 3, 2, 1],
            asking: 4,
            uncertain_units: 0,
            flapping: 0,
            faults: 0,
            operations: 0,
            active_units: 0,
        },
    }
}

fn mk_writes() -> Vec<Write> {
    let unit = Unit {
        incarnation: 3,
        last_seen: mk_time(1),
        status_count: 1,
        ttl_count: 2,
        stale_count: 3,
        stale_since: Some(mk_time(2)),
        silence_ends: Some(mk_time(5)),
        lost_since: Some(mk_time(3)),
        ..Unit::default()
    };
    let outcome =
        Outcome { revision: Revision(7), changed: true, removed: 2, ..Outcome::default() };
    let (time, nobody) = (mk_time(3), UnitName::default());
    let answer = Remembered { time, outcome, fingerprint: None, unit: nobody, config: None };
    let (component, key) = (PartName::new("db").unwrap(), PartName::new("primary/1").unwrap());
    let key = StatusKey::new(mk_unit_name(), component, key, Kind::Push);
    let report = Report {
        level: Level::Waiting,
        message: "wartet auf die Datenbank – 10 s".into(),
        ttl: Some(Duration::from_millis(2500)),
        ..Report::default()
    };
    let details = Details {
        short_message: "wartet".into(),
        reason: "NoDatabase".into(),
        check: "can_connect".into(),
        action: "integrate it".into(),
        priority: -5,
        precedence: 1_000_000,
        labels: BTreeMap::from([("zone".into(), "eu-1".into())]),
        end_after: None,
        needs: Needs::default(),
        since_unknown: false,
    };
    let status = Status {
        report: Arc::new(report.with(details)),
        observe_time: Some(mk_time(0)),
        since: mk_time(1),
        update_time: mk_time(3),
        expire_time: Some(mk_time(5)),
        incarnation: 3,
        stale: true,
        expire_time_written: None,
        swings: Swings::default(),
        held: None,
        while_stopping: false,
        place: PlaceInSet::NONE,
        end_time: None,
    };
    vec![
        Write::Unit(mk_unit_name(), Some(unit.into())),
        Write::Status(Arc::new(key), Some(Arc::new(status))),
        Write::Request(Arc::from("request 1"), Some(answer.into())),
    ]
}

fn mk_events() -> Vec<StatusEvent> {
    let event = StatusEvent {
        time: mk_time(3),
        revision: Revision(7),
        subject: None,
        from: Some(Level::Active),
        to: None,
        message: "words".into(),
        reason: "Reason".into(),
        freshness: Freshness::Lost,
        cause: Cause::UnitLost,
        changes: Vec::new(),
    };
    let unit = Subject::unit(&mk_unit_name());
    let status = Subject { kind: Some(Kind::Pull), ..unit.clone() };
    let subjects = [None, Some(unit), Some(status)];
    subjects.map(|subject| StatusEvent { subject, ..event.clone() }).to_vec()
}

/// Returns the records of a store after one transition on an unknown application.
fn records_of(transition: &Transition) -> Records {
    let mut records = Records::of_head((*transition.head).clone());
    for write in transition.writes.clone() {
        match write {
            Write::Unit(name, unit) => records.units.extend(unit.map(|u| (name, *u))),
            Write::Status(key, status) => {
                let status = status.map(|s| ((*key).clone(), (*s).clone()));
                records.statuses.extend(status);
            }
            Write::Fault(key, fault) => {
                records.faults.extend(fault.map(|f| ((*key).clone(), (*f).clone())));
            }
            Write::Request(id, answer) => records.requests.extend(answer.map(|a| (id, *a))),
            Write::Operation(id, operation) => {
                records.operations.extend(operation.map(|o| (id, o)));
            }
            Write::Payload(id, payload) => records.payloads.extend(payload.map(|p| (id, p))),
            Write::Data(key, value) => records.data.extend(value.map(|v| (key, v))),
            Write::Mark(id, mark) => records.marks.extend(mark.map(|mark| (id, mark))),
        }
    }
    records
}
