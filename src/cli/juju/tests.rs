//! Tests on real documents, and on broken ones made from them.

use std::collections::{BTreeMap, BTreeSet};

use crate::cli::juju::document::Document;
use crate::cli::juju::import::ImportOutcome;
use crate::cli::juju::plan::{ImportStep, KnownApplication, Plan, plan};
use crate::cli::juju::{document, summary};
use crate::cli::level;
use crate::proto::v1::{
    Application, ApplicationConfig, ExternalLeader, StatusRecord, StatusReport,
};

const DATABASE_WEBAPP: &str = include_str!("../../../tests/data/juju-status/database-webapp.json");
const SNAPPASS: &str = include_str!("../../../tests/data/juju-status/snappass.json");
const STATUS_ERRORS: &str = include_str!("../../../tests/data/juju-status/status-errors.json");
const SUBORDINATES: &str = include_str!("../../../tests/data/juju-status/subordinates.json");

fn mk_document(text: &str) -> Document {
    document::read(text).expect("a document")
}

/// Plans onto an empty namespace `m`.
fn mk_plan(text: &str) -> Plan {
    plan(&mk_document(text), "m", &BTreeMap::new())
}

/// Formats one line a step, short enough to compare.
fn script(plan: &Plan) -> String {
    let lines = plan.steps.values().flatten().map(|step| match step {
        ImportStep::Replace(r) => {
            let component = r.component.as_deref().map_or(String::new(), |c| format!(" of {c}"));
            let statuses = r.statuses.iter().map(status).collect::<String>();
            format!("replace {}{component}{statuses}", r.unit)
        }
        ImportStep::RemoveUnit(r) => format!("remove {}", r.unit),
        ImportStep::Lead(r) => {
            let leader = r.config.clone().and_then(|c| c.external_leader).expect("a leader");
            format!("lead {} by `{}`", r.application, leader.unit)
        }
        ImportStep::SetStatus(r) => format!(
            "set {} by `{}`: {} {} {} @{}",
            r.application,
            r.unit,
            level::word(r.level),
            r.reason,
            r.message,
            r.observe_time.map_or(0, |t| t.seconds)
        ),
        ImportStep::ClearStatus(r) => format!("clear {} by `{}`", r.application, r.unit),
        ImportStep::Delete(r) => format!("delete {}", r.application),
    });
    lines.map(|line| format!("{line}\n")).collect()
}

fn status(report: &StatusReport) -> String {
    assert_eq!(report.labels.get("imported-from").map(String::as_str), Some("juju"));
    let key = if report.key.is_empty() { String::new() } else { format!("[{}]", report.key) };
    let is_aside = report.component != "workload";
    assert_eq!(report.priority, if is_aside { -1 } else { 0 });
    let at = report.observe_time.map_or(0, |t| t.seconds);
    format!(
        "\n  {}{key} {} {} {} @{at}",
        report.component,
        level::word(report.level),
        report.reason,
        report.message
    )
}

#[test]
fn two_related_applications() {
    let expected = "\
replace database/0
  workload active  relation-created: added new secret @1740369583
  agent active   @1740369584
lead database by `database/0`
set database by `database/0`: active  relation-created: added new secret @1740369583
replace webapp/0
  workload active  relation-changed: would update web app's db secret @1740369583
  agent active   @1740369584
lead webapp by `webapp/0`
set webapp by `webapp/0`: active  relation-changed: would update web app's db secret @1740369583
";
    let plan = mk_plan(DATABASE_WEBAPP);
    assert_eq!(script(&plan), expected);
    assert_eq!((plan.application_count, plan.unit_count), (2, 2));
    assert_eq!(plan.notes, [""; 0]);
    assert_eq!(mk_document(DATABASE_WEBAPP).model, "tt");
}

#[test]
fn a_kubernetes_application() {
    let expected = "\
replace snappass-test/0
  workload active  snappass started @1740351797
  agent active   @1740351798
lead snappass-test by `snappass-test/0`
set snappass-test by `snappass-test/0`: active  snappass started @1740351797
";
    assert_eq!(script(&mk_plan(SNAPPASS)), expected);
}

#[test]
fn subordinates_belong_to_their_own_application() {
    let expected = "\
replace nrpe/1
  workload blocked  Nagios server not configured or related @1749424622
  agent active   @1749424622
replace nrpe/2
  workload blocked  Nagios server not configured or related @1749425106
  agent active   @1749425106
lead nrpe by `nrpe/1`
set nrpe by `nrpe/1`: blocked  Nagios server not configured or related @1749424622
replace ubun2/0
  workload active   @1749424959
  agent active   @1749424961
lead ubun2 by `ubun2/0`
set ubun2 by `ubun2/0`: active   @1749424959
replace ubuntu/1
  workload active   @1749424500
  agent active   @1749424502
lead ubuntu by `ubuntu/1`
set ubuntu by `ubuntu/1`: active   @1749424500
";
    let plan = mk_plan(SUBORDINATES);
    assert_eq!(script(&plan), expected);
    assert_eq!((plan.application_count, plan.unit_count), (3, 4));
}

#[test]
fn an_application_unreadable_by_juju_is_reported() {
    let expected = "\
lead app-failed by ``
set app-failed by ``: waiting StatusUnreadable \
juju could not read this application: app status error! @0
lead remote-app-failed by ``
set remote-app-failed by ``: waiting StatusUnreadable \
juju could not read this application: remote app status error! @0
replace unit-failed/0 of workload
  workload waiting StatusUnreadable juju could not read this unit: unit status error! @0
lead unit-failed by ``
";
    let plan = mk_plan(STATUS_ERRORS);
    assert_eq!(script(&plan), expected);
    let notes = [
        "juju could not read the model: model status error!",
        "juju could not read machine machine-failed: machine status error!",
        "juju could not read offer offer-failed: offer status error!",
    ];
    assert_eq!(plan.notes, notes);
}

#[test]
fn the_leading_unit_reports_the_offers() {
    let text = r#"{"model": {"name": "m"}, "applications": {
        "db": {"units": {
            "db/10": {"workload-status": {"current": "active"}},
            "db/2": {"workload-status": {"current": "active"}}
        }}},
        "offers": {
            "sql": {"application": "db", "active-connected-count": 1, "total-connected-count": 2},
            "web": {"application": "gone", "total-connected-count": 0, "endpoints": {}}
        },
        "application-endpoints": {"mail": {"url": "o/prod.mail", "application-status":
            {"current": "active", "message": "live", "since": "2025-02-24T12:02:57Z"}}}
    }"#;
    let expected = "\
replace db/2
  workload active   @0
  offer[sql] active  offer sql: 1 of 2 connected @0
replace db/10
  workload active   @0
lead db by ``
lead mail by ``
set mail by ``: active  live @1740398577
";
    let plan = mk_plan(text);
    assert_eq!(script(&plan), expected);
    let notes = [
        "offer sql: 1 of 2 connected (application db)",
        "offer web: 0 of 0 connected (application gone)",
    ];
    assert_eq!(plan.notes, notes);
}

/// The server's state after an earlier import of an application with these units.
fn mk_known(leader: &str, units: &[&str]) -> KnownApplication {
    KnownApplication {
        external_leader: Some(leader.to_string()),
        imported_units: units.iter().map(|u| (*u).to_string()).collect(),
        is_imported: true,
        has_status: true,
    }
}

#[test]
fn units_missing_from_the_document_are_removed() {
    let known = BTreeMap::from([
        ("snappass-test".to_string(), mk_known("snappass-test/0", &["snappass-test/1"])),
        ("old".to_string(), mk_known("", &["old/0"])),
        ("own".to_string(), KnownApplication::default()),
        (
            "mixed".to_string(),
            KnownApplication {
                imported_units: BTreeSet::from(["mixed/0".to_string()]),
                ..KnownApplication::default()
            },
        ),
    ]);
    let expected = "\
remove mixed/0
delete old
replace snappass-test/0
  workload active  snappass started @1740351797
  agent active   @1740351798
remove snappass-test/1
set snappass-test by `snappass-test/0`: active  snappass started @1740351797
";
    assert_eq!(script(&plan(&mk_document(SNAPPASS), "m", &known)), expected);
}

#[test]
fn an_unreadable_application_loses_nothing() {
    let known = BTreeMap::from([
        ("app-failed".to_string(), mk_known("app-failed/3", &["app-failed/3"])),
        ("unit-failed".to_string(), mk_known("unit-failed/0", &["unit-failed/0"])),
    ]);
    let plan = plan(&mk_document(STATUS_ERRORS), "m", &known);
    let script = script(&plan);
    let lines: Vec<&str> = script.lines().collect();
    assert!(lines[0].starts_with("set app-failed by `app-failed/3`: waiting"), "{script}");
    assert_eq!(lines.last(), Some(&"clear unit-failed by ``"));
}

#[test]
fn an_earlier_import_is_known_by_its_marks() {
    let mk_record = |unit: &str, label: Option<&str>| StatusRecord {
        unit: unit.into(),
        report: Some(StatusReport {
            labels: label
                .map(|l| ("imported-from".to_string(), l.to_string()))
                .into_iter()
                .collect(),
            ..StatusReport::default()
        }),
        ..StatusRecord::default()
    };
    let marked = [mk_record("web/0", Some("juju")), mk_record("", None)];
    let known = KnownApplication::from_wire(&Application::default(), &marked);
    assert!(known.is_imported && known.has_status);
    assert_eq!(known.imported_units, BTreeSet::from(["web/0".to_string()]));
    let mixed = [marked[0].clone(), mk_record("web/1", None)];
    assert!(!KnownApplication::from_wire(&Application::default(), &mixed).is_imported);
    assert!(!KnownApplication::from_wire(&Application::default(), &[]).is_imported);
    let led = Application {
        config: Some(ApplicationConfig {
            external_leader: Some(ExternalLeader::default()),
            ..ApplicationConfig::default()
        }),
        ..Application::default()
    };
    assert!(KnownApplication::from_wire(&led, &[]).is_imported);
}

#[test]
fn every_way_juju_writes_a_moment() {
    for since in [
        "24 Feb 2025 12:02:57+13:00",
        "23 Feb 2025 23:02:57Z",
        "2025-02-23T23:02:57Z",
        "2025-02-24T12:02:57+13:00",
    ] {
        let text = SNAPPASS.replace("24 Feb 2025 12:03:17+13:00", since);
        assert!(script(&mk_plan(&text)).contains("@1740351777"), "{since}");
    }
}

#[test]
fn an_error_names_application_and_field() {
    let mk_application =
        |body: &str| format!(r#"{{"model": {{"name": "m"}}, "applications": {{"web": {body}}}}}"#);
    for (text, expected) in [
        (
            mk_application(r#"{"units": {"web/0": {"workload-status": {"current": 7}}}}"#),
            "application web, field `units.web/0.workload-status.current`: \
             expected a string, found the number 7",
        ),
        (
            mk_application(r#"{"units": {"web/0": {"leader": "yes"}}}"#),
            "application web, field `units.web/0.leader`: \
             expected true or false, found a string",
        ),
        (
            mk_application(r#"{"units": ["web/0"]}"#),
            "application web, field `units`: expected an object, found a list",
        ),
        (
            mk_application(
                r#"{"application-status": {"current": "active", "since": "yesterday"}}"#,
            ),
            "application web, field `application-status.since`: `yesterday` is no time; \
             expected `24 Feb 2025 12:02:57+13:00` or RFC 3339",
        ),
        (
            mk_application(r#"{"units": {"web": {}}}"#),
            "application web, field `units.web`: `web` is not the name of a unit",
        ),
        (mk_application("3"), "application web: expected an object, found the number 3"),
        (
            r#"{"model": {"name": "m"}, "applications": {}, "offers":
                {"sql": {"total-connected-count": -1}}}"#
                .to_string(),
            "offer sql, field `total-connected-count`: expected a count, found the number -1",
        ),
        (
            r#"{"model": {}, "applications": {}}"#.to_string(),
            "field `model.name` is missing; is this the output of `juju status --format json`?",
        ),
        (
            r#"{"model": {"name": "m"}}"#.to_string(),
            "field `applications` is missing; is this the output of `juju status --format json`?",
        ),
        ("[]".to_string(), "the document: expected an object, found a list"),
        (
            "Model  Controller".to_string(),
            "the document is not JSON (expected value at line 1 column 1); \
             give the output of `juju status --format json`",
        ),
    ] {
        let error = document::read(&text).expect_err(&text);
        assert_eq!(error.to_string(), expected);
    }
}

#[test]
fn any_cut_of_a_real_document_is_an_error_and_no_panic() {
    for text in [DATABASE_WEBAPP, SNAPPASS, STATUS_ERRORS, SUBORDINATES] {
        let text = text.trim_end();
        for end in (0..text.len()).step_by(7) {
            assert!(document::read(&text[..end]).is_err());
        }
    }
}

#[test]
fn the_summary_counts() {
    let mut outcome =
        ImportOutcome { application_count: 3, unit_count: 1, ..ImportOutcome::default() };
    assert_eq!(
        summary(&outcome, "tt"),
        "imported 3 applications, 1 unit into namespace tt (nothing changed); \
         see: bellwether -n tt status"
    );
    outcome.changed = ["web".to_string(), "web/0".to_string()].into();
    outcome.removed = ["web/1".to_string()].into();
    assert_eq!(
        summary(&outcome, "tt"),
        "imported 3 applications, 1 unit into namespace tt (2 changed, 1 removed); \
         see: bellwether -n tt status"
    );
}
