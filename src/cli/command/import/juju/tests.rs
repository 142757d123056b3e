//! Tests on real documents, and on broken ones made from them.

use std::collections::BTreeMap;

use crate::cli::command::import::facts::ApplicationPlace;
use crate::cli::command::import::juju::document::Document;
use crate::cli::command::import::juju::{document, facts, origin};
use crate::cli::command::import::known::KnownApplication;
use crate::cli::command::import::outcome::{ImportOutcome, summary};
use crate::cli::command::import::plan;
use crate::cli::command::import::plan::{Options, Plan};
use crate::cli::command::import::step::ImportStep;
use crate::cli::level;
use crate::proto::v1::{
    Application, ApplicationConfig, ExternalLeader, StatusRecord, StatusReport,
};

const DATABASE_WEBAPP: &str =
    include_str!("../../../../../tests/data/juju-status/database-webapp.json");
const ALIVE_AGENTS: &str = include_str!("../../../../../tests/data/juju-status/alive-agents.json");
const BROKEN_MACHINES: &str =
    include_str!("../../../../../tests/data/juju-status/broken-machines.json");
const FOUR: &str = include_str!("../../../../../tests/data/juju-status/four-applications.json");
const ONE_OF_FOUR: &str = include_str!("../../../../../tests/data/juju-status/one-of-four.json");
const SNAPPASS: &str = include_str!("../../../../../tests/data/juju-status/snappass.json");
const STATUS_ERRORS: &str =
    include_str!("../../../../../tests/data/juju-status/status-errors.json");
const SUBORDINATES: &str = include_str!("../../../../../tests/data/juju-status/subordinates.json");

fn mk_document(text: &str) -> Document {
    document::read(text).expect("a document")
}

fn plan(
    document: &Document,
    namespace: &str,
    known: &BTreeMap<String, KnownApplication>,
    options: Options,
) -> Plan {
    let place = |application: &String| ApplicationPlace {
        namespace: namespace.to_string(),
        application: application.clone(),
    };
    let known = known.iter().map(|(name, known)| (place(name), known.clone())).collect();
    plan::plan(facts::of(document), &origin(), Some(namespace), &known, options)
}

/// Plans onto an empty namespace `m`.
fn mk_plan(text: &str) -> Plan {
    plan(&mk_document(text), "m", &BTreeMap::new(), Options::default())
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
        ImportStep::ReplaceOwn(r) => {
            let component = r.component.as_deref().map_or(String::new(), |c| format!(" of `{c}`"));
            let statuses = r.statuses.iter().map(status).collect::<String>();
            format!("own {} by `{}`{component}{statuses}", r.application, r.unit)
        }
        ImportStep::ClearStatus(r) => format!("clear {} by `{}`", r.application, r.unit),
        ImportStep::Delete(r) => format!("delete {}", r.application),
        ImportStep::Work(_) => "work".to_string(),
    });
    lines.map(|line| format!("{line}\n")).collect()
}

fn status(report: &StatusReport) -> String {
    assert_eq!(report.labels.get("imported-from").map(String::as_str), Some("juju"));
    let key = if report.key.is_empty() { String::new() } else { format!("[{}]", report.key) };
    let is_aside = report.priority == -1;
    assert!(!is_aside || report.component != "workload", "{report:?}");
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
lead database by `database/0`
own database by `database/0`
   active  relation-created: added new secret @1740369583
replace webapp/0
  workload active  relation-changed: would update web app's db secret @1740369583
lead webapp by `webapp/0`
own webapp by `webapp/0`
   active  relation-changed: would update web app's db secret @1740369583
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
lead snappass-test by `snappass-test/0`
own snappass-test by `snappass-test/0`
   active  snappass started @1740351797
";
    assert_eq!(script(&mk_plan(SNAPPASS)), expected);
}

#[test]
fn subordinates_belong_to_their_own_application() {
    let expected = "\
replace nrpe/1
  workload blocked  Nagios server not configured or related @1749424622
replace nrpe/2
  workload blocked  Nagios server not configured or related @1749425106
lead nrpe by `nrpe/1`
own nrpe by `nrpe/1`
   blocked  Nagios server not configured or related @1749424622
replace ubun2/0
  workload active   @1749424959
lead ubun2 by `ubun2/0`
own ubun2 by `ubun2/0`
   active   @1749424959
replace ubuntu/1
  workload active   @1749424500
lead ubuntu by `ubuntu/1`
own ubuntu by `ubuntu/1`
   active   @1749424500
";
    let plan = mk_plan(SUBORDINATES);
    assert_eq!(script(&plan), expected);
    assert_eq!((plan.application_count, plan.unit_count), (3, 4));
}

#[test]
fn an_application_unreadable_by_juju_is_reported() {
    let expected = "\
lead app-failed by ``
own app-failed by `` of ``
   waiting StatusUnreadable \
juju could not read this application: app status error! @0
lead remote-app-failed by ``
own remote-app-failed by ``
   waiting StatusUnreadable \
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
fn an_offer_is_a_note_and_no_status() {
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
replace db/10
  workload active   @0
lead db by ``
lead mail by ``
own mail by ``
   active  live @1740398577
";
    let plan = mk_plan(text);
    assert_eq!(script(&plan), expected);
    let notes = [
        "offer sql: 1 of 2 connected (application db)",
        "offer web: 0 of 0 connected (application gone)",
    ];
    assert_eq!(plan.notes, notes);
}

#[test]
fn an_agent_that_is_alive_is_no_status() {
    let expected = "\
replace batch/0
  workload terminated  done @0
lead batch by ``
own batch by ``
   terminated  done @0
replace odd/0
  workload waiting UnrecognizedStatus failed: disk is gone @0
lead odd by ``
own odd by ``
   waiting UnrecognizedStatus failed: disk is gone @0
replace offered/0
  workload unknown   @0
lead offered by `offered/0`
own offered by `offered/0`
   unknown   @0
replace shop/0
  workload unknown   @0
lead shop by `shop/0`
own shop by `shop/0`
   unknown   @0
";
    let plan = mk_plan(ALIVE_AGENTS);
    assert_eq!(script(&plan), expected);
    assert_eq!(plan.notes, ["offer sql: 0 of 0 connected (application offered)"]);
    let unshown = plan.unshown.expect("facts that no status shows");
    assert_eq!(unshown, "facts that no status shows: 3 (unit juju-status 3)");
    let no_workload = r#"{"model": {"name": "m"}, "applications": {"web": {"units":
        {"web/0": {"juju-status": {"current": "executing"}}}}}}"#;
    let script = script(&mk_plan(no_workload));
    assert!(
        script.contains("workload unknown StatusMissing no status of the workload"),
        "{script}"
    );
}

#[test]
fn a_unit_shows_its_machine_its_storage_and_its_end() {
    let expected = "\
replace fine/0
  workload active   @0
  meter blocked MeterRed over budget @0
  life maintenance BeingRemoved unit fine/0 is dying @0
  machine[5/modification] error ModificationError machine 5: error: profile refused @0
lead fine by ``
own fine by ``
   active   @0
  life maintenance BeingRemoved application fine is dying @0
  scale waiting ScaleDiffers scale 3: 1 unit there @0
replace shop/0
  workload waiting  waiting for machine @0
  agent waiting  allocating @0
  machine[3] error ProvisioningError machine 3: provisioning error: no images for arch riscv64 @0
  machine[3/agent] waiting MachineDown \
machine 3: down: agent is not communicating with the server @0
lead shop by ``
own shop by ``
   waiting  waiting for machine @0
";
    let plan = mk_plan(BROKEN_MACHINES);
    assert_eq!(script(&plan), expected);
    let notes = [
        "the model: suspended: the cloud credential is not valid",
        "machine 4: down",
        "machine 4/lxd/0: provisioning error: no space for the container",
        "machine 4/lxd/0: pending",
        "storage data/0: error: volume refused",
    ];
    assert_eq!(plan.notes, notes);
    let contained = BROKEN_MACHINES.replace(r#""machine": "5""#, r#""machine": "4/lxd/0""#);
    let attached = r#"{"data/0": {"attachments": {"units": {"fine/0": {}}}, "#;
    let plan = mk_plan(&contained.replace(r#"{"data/0": {"#, attached));
    let script = script(&plan);
    for expected in [
        "machine[4/agent] waiting MachineDown machine 4: down @",
        "machine[4/lxd/0] error ProvisioningError machine 4/lxd/0: provisioning error: no space",
        "storage[data/0] error StorageError storage data/0: error: volume refused @",
    ] {
        assert!(script.contains(expected), "{expected} is not in:\n{script}");
    }
    assert_eq!(
        plan.notes,
        [
            "the model: suspended: the cloud credential is not valid",
            "machine 5: error: profile refused"
        ]
    );
}

/// The server's state after an earlier import of an application with these units.
fn mk_known(leader: &str, units: &[&str]) -> KnownApplication {
    let leader = ExternalLeader { unit: leader.to_string() };
    let config = ApplicationConfig { external_leader: Some(leader), ..Default::default() };
    let application = Application { config: Some(config), ..Application::default() };
    let units = units.iter().map(|unit| mk_record(unit, Some("juju")));
    let statuses: Vec<StatusRecord> = units.chain([mk_record("", None)]).collect();
    KnownApplication::from_wire(&application, &statuses, &origin())
}

fn mk_record(unit: &str, label: Option<&str>) -> StatusRecord {
    let label = label.map(|label| ("imported-from".to_string(), label.to_string()));
    let labels = label.into_iter().collect();
    let report = StatusReport { labels, ..StatusReport::default() };
    StatusRecord { unit: unit.into(), report: Some(report), ..StatusRecord::default() }
}

#[test]
fn units_missing_from_the_document_are_removed() {
    let known = BTreeMap::from([
        ("snappass-test".to_string(), mk_known("snappass-test/0", &["snappass-test/1"])),
        ("old".to_string(), mk_known("", &["old/0"])),
        ("own".to_string(), KnownApplication::default()),
        (
            "mixed".to_string(),
            KnownApplication { is_imported: false, ..mk_known("", &["mixed/0"]) },
        ),
    ]);
    let options = Options { prune: true, ..Options::default() };
    let expected = "\
remove mixed/0
delete old
replace snappass-test/0
  workload active  snappass started @1740351797
remove snappass-test/1
own snappass-test by `snappass-test/0`
   active  snappass started @1740351797
clear snappass-test by `snappass-test/0`
";
    assert_eq!(script(&plan(&mk_document(SNAPPASS), "m", &known, options)), expected);
}

#[test]
fn more_than_half_is_removed_only_with_prune() {
    let all = ["ca", "db", "mq", "web"];
    let known = all.map(|name| (name.to_string(), mk_known("", &[&format!("{name}/0")]))).into();
    let removals = |text: &str, prune: bool| {
        let options = Options { prune, ..Options::default() };
        let plan = plan(&mk_document(text), "m", &known, options);
        let removes =
            |step: &&ImportStep| matches!(step, ImportStep::Delete(_) | ImportStep::RemoveUnit(_));
        let names = plan.steps.values().flatten().filter(removes).map(|step| step.name());
        (names.collect::<Vec<_>>(), plan.kept)
    };
    assert_eq!(removals(FOUR, false), (vec![], vec![]));
    let others = ["ca", "db", "mq"].map(str::to_string).to_vec();
    assert_eq!(removals(ONE_OF_FOUR, false), (vec![], others.clone()));
    assert_eq!(removals(ONE_OF_FOUR, true), (others, vec![]));
    let nothing = r#"{"model": {"name": "m"}, "applications": {}}"#;
    assert_eq!(removals(nothing, false).1.len(), 4);
    let web = r#"{"model": {"name": "m"}, "applications": {"web": {"units": {"web/0": {}}},
        "db": {}}}"#;
    // The unit of `db` counts as well.
    assert_eq!(removals(web, false).1, ["ca", "db/0", "mq"]);
    let half = FOUR.replace("\"mq\"", "\"new\"").replace("mq/0", "new/0");
    assert_eq!(removals(&half, false), (vec!["mq".to_string()], vec![]));
}

#[test]
fn an_unreadable_application_loses_nothing() {
    let known = BTreeMap::from([
        ("app-failed".to_string(), mk_known("app-failed/3", &["app-failed/3"])),
        ("unit-failed".to_string(), mk_known("unit-failed/0", &["unit-failed/0"])),
    ]);
    let plan = plan(&mk_document(STATUS_ERRORS), "m", &known, Options::default());
    let script = script(&plan);
    let lines: Vec<&str> = script.lines().collect();
    assert_eq!(lines[0], "own app-failed by `app-failed/3` of ``", "{script}");
    assert_eq!(lines.last(), Some(&"clear unit-failed by ``"));
}

#[test]
fn an_earlier_import_is_known_by_its_marks() {
    let marked = [mk_record("web/0", Some("juju")), mk_record("", None)];
    let known = KnownApplication::from_wire(&Application::default(), &marked, &origin());
    assert!(known.is_imported && known.has_status && !known.has_own);
    assert_eq!(known.imported_unit_count(), 1);
    assert_eq!(known.units_missing(None), ["web/0"]);
    let mixed = [marked[0].clone(), mk_record("web/1", None)];
    assert!(!KnownApplication::from_wire(&Application::default(), &mixed, &origin()).is_imported);
    assert!(!KnownApplication::from_wire(&Application::default(), &[], &origin()).is_imported);
    let led = Application {
        config: Some(ApplicationConfig {
            external_leader: Some(ExternalLeader::default()),
            ..ApplicationConfig::default()
        }),
        ..Application::default()
    };
    assert!(KnownApplication::from_wire(&led, &[], &origin()).is_imported);
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
        summary(&outcome, Some("tt")),
        "imported 3 applications, 1 unit into namespace tt (nothing changed); \
         see: bellwether -n tt status"
    );
    outcome.changed = ["web".to_string(), "web/0".to_string()].into();
    outcome.removed = ["web/1".to_string()].into();
    assert_eq!(
        summary(&outcome, Some("tt")),
        "imported 3 applications, 1 unit into namespace tt (2 changed, 1 removed); \
         see: bellwether -n tt status"
    );
}
