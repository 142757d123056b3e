//! Errors by target, beside a grouping of the list of each application.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proptest::prelude::*;
use tonic_types::StatusExt;

use super::targets::Seen;
use super::*;
use crate::domain::app::Head;
use crate::domain::apply::apply;
use crate::domain::classify::finding::{ErrorOrigin, Evidence, Hints};
use crate::domain::classify::{Rules, classify};
use crate::domain::command::{Command, Request as Asked};
use crate::domain::draft::Draft;
use crate::domain::fault::open::OpenFaults;
use crate::domain::fault::{InternalDetail, NewError};
use crate::domain::limits::Limits;
use crate::domain::name::PartName;
use crate::domain::time::Timestamp;
use crate::domain::unit::Reporter;
use crate::service::grpc::worlds::{Feed, NAMESPACES, apps, readers};

const TARGETS: [&str; 5] = ["", "pg:5432", "quay.io", "s3", "https://api:6443/x"];
const CODES: [&str; 4] = ["UNAVAILABLE", "RESOURCE_EXHAUSTED", "DATA_LOSS", "ABORTED"];

/// An error that a component of a unit meets, or the end of its errors.
#[derive(Debug, Clone)]
struct Step {
    app: AppName,
    unit: u8,
    component: &'static str,
    target: &'static str,
    /// `None`: the errors with the target are over.
    code: Option<&'static str>,
}

/// A fleet as its store has it.
#[derive(Default)]
struct Fleet(BTreeMap<AppName, AppState>);

impl Fleet {
    fn of(steps: &[Step]) -> Fleet {
        let mut fleet = Fleet::default();
        for (n, step) in steps.iter().enumerate() {
            fleet.take(step, Timestamp::new(60_000 + 1000 * n as u64));
        }
        fleet
    }

    fn take(&mut self, step: &Step, now: Timestamp) {
        let state = self
            .0
            .entry(step.app.clone())
            .or_insert_with(|| AppState::empty(step.app.clone(), Revision::default()));
        let unit = UnitName::new(&format!("{}/{}", step.app.application(), step.unit)).unwrap();
        let reporter = Reporter::new(unit, None);
        let component = PartName::new(step.component).unwrap();
        let target: Arc<str> = step.target.into();
        let command = match step.code {
            Some(code) => Command::ReportError {
                reporter,
                component,
                target,
                error: Box::new(mk_error(code)),
            },
            None => Command::ResolveError {
                reporter,
                component: Some(component),
                target: Some(target),
                generation: "".into(),
            },
        };
        let limits = Limits::default();
        let mut draft = Draft::new(state, &limits, now);
        if apply(&mut draft, &Asked { id: None, command }).is_ok() {
            let transition = draft.finish();
            state.replay(&transition);
        }
    }

    /// Returns the hub of a server that has received it.
    fn feed(&self) -> Feed {
        let mut feed = Feed::new();
        for (app, state) in &self.0 {
            feed.put(app.clone(), state.head().clone());
        }
        feed
    }

    /// Groups what a caller may read, and returns all pages of some size.
    fn by_target(&self, many: &Many, size: usize) -> Vec<v1::FaultTarget> {
        let entries = many.after(&self.feed().hub, None, usize::MAX);
        let every = UnitName::application();
        let (mut rows, mut last) = (Vec::new(), None);
        loop {
            let mut targets = Targets::default();
            for entry in &entries {
                let faults = faults::stored(&self.0[&entry.app], &every, None);
                targets.add(&entry.app, seen(faults)).unwrap();
            }
            let page = targets.page(last.as_ref(), size);
            rows.extend(page.iter().map(fault_target));
            if page.len() < size {
                return rows;
            }
            last = page.last().map(Target::place);
        }
    }

    /// Groups what ListFaults has of each application that the caller may read.
    fn naive(&self, namespace: Option<&str>, reader: &Reader) -> Vec<v1::FaultTarget> {
        #[derive(Default)]
        struct Row {
            faults: Vec<v1::Fault>,
            units: BTreeSet<(String, String)>,
            applications: BTreeSet<AppName>,
        }
        let mut rows: BTreeMap<String, Row> = BTreeMap::new();
        for (app, state) in &self.0 {
            if !reader.may_read(app) || namespace.is_some_and(|name| name != app.namespace()) {
                continue;
            }
            for (_, fault) in faults::of(state, &UnitName::application(), None, false) {
                let row = rows.entry(fault.target.clone()).or_default();
                row.units.insert((app.to_string(), fault.unit.clone()));
                row.applications.insert(app.clone());
                row.faults.push(fault);
            }
        }
        let time = |time: &Option<prost_types::Timestamp>| time.map(|t| (t.seconds, t.nanos));
        let row = |(target, row): (String, Row)| {
            let classes: BTreeSet<i32> = row.faults.iter().map(|fault| fault.class).collect();
            let first = row.faults.iter().map(|fault| fault.first_time).min_by_key(&time);
            let last = row.faults.iter().map(|fault| fault.last_time).max_by_key(&time);
            v1::FaultTarget {
                target,
                fault_count: row.faults.len() as i32,
                unit_count: row.units.len() as i32,
                application_count: row.applications.len() as i32,
                applications: row.applications.iter().take(8).map(ToString::to_string).collect(),
                classes: classes.into_iter().collect(),
                first_time: first.flatten(),
                last_time: last.flatten(),
            }
        };
        let mut rows: Vec<v1::FaultTarget> = rows.into_iter().map(row).collect();
        rows.sort_by_key(|row| (-row.unit_count, -row.application_count, row.target.clone()));
        rows
    }
}

fn mk_error(code: &str) -> NewError {
    let evidence = Evidence {
        system: "grpc".into(),
        code: code.into(),
        origin: ErrorOrigin::Peer,
        outcome: None,
        domain: "".into(),
        reason: "".into(),
        message: "no".into(),
        retry_after: None,
        hints: Hints::default(),
    };
    NewError {
        finding: classify(&Rules::default(), &evidence),
        evidence,
        internal_detail: InternalDetail("".into()),
        action: "".into(),
        operation_id: "".into(),
        attempt: 0,
        generation: "".into(),
        shortest_wait: Some(Duration::from_secs(1)),
        needs: Default::default(),
    }
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let code = prop::option::weighted(0.8, prop::sample::select(&CODES[..]));
    let component = prop::sample::select(vec!["", "db", "images"]);
    let target = prop::sample::select(&TARGETS[..]);
    let step = (apps(), 0..3u8, component, target, code).prop_map(
        |(app, unit, component, target, code)| Step { app, unit, component, target, code },
    );
    prop::collection::vec(step, 0..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn errors_by_target_are_those_of_each_application_that_the_caller_may_read(
        steps in steps(),
        reader in readers(),
        namespace in prop::option::of(prop::sample::select(&NAMESPACES[..])),
        size in 1..6usize,
    ) {
        let fleet = Fleet::of(&steps);
        let expected = fleet.naive(namespace, &reader);
        let many = Many { namespace: namespace.map(Arc::from), reader };
        prop_assert_eq!(fleet.by_target(&many, size), expected);
    }
}

fn mk_seen() -> Seen {
    let at = Timestamp::new(1000);
    Seen { faults: 1, units: 1, classes: BTreeSet::new(), first: at, last: at }
}

#[test]
fn a_row_names_some_applications_and_counts_all() {
    let mut targets = Targets::default();
    for n in 0..20 {
        let app = AppName::new("prod", &format!("a{n:02}")).unwrap();
        targets.add(&app, BTreeMap::from([("pg".into(), mk_seen())])).unwrap();
    }
    let page = targets.page(None, 10);
    assert_eq!((page.len(), page[0].applications, page[0].seen.units), (1, 20, 20));
    let row = fault_target(&page[0]);
    assert_eq!(row.applications.len(), 8);
    assert_eq!(row.applications[7], "prod/a07");
}

#[test]
fn targets_beyond_the_limit_are_refused() {
    let app = AppName::new("prod", "web").unwrap();
    let many = |count: usize| (0..count).map(|n| (n.to_string().into(), mk_seen())).collect();
    let mut targets = Targets::default();
    targets.add(&app, many(TARGETS_MAX)).unwrap();
    // A known one is no further one.
    targets.add(&app, many(10)).unwrap();
    assert_eq!(targets.add(&app, BTreeMap::from([("pg".into(), mk_seen())])), Err(TooManyTargets));
}

#[test]
fn a_grouping_of_too_many_applications_or_errors_is_refused_by_its_limit() {
    let limit_of = |count: usize, faults: u32| {
        let mut feed = Feed::new();
        for n in 0..count {
            let app = AppName::new("prod", &format!("a{n}")).unwrap();
            let open_faults = OpenFaults { count: faults, next_retry: None };
            feed.put(app, Head { open_faults, ..Head::default() });
        }
        let many = Many { namespace: None, reader: Reader::Everything };
        let checked = check_size(&many.after(&feed.hub, None, GROUPED_MAX + 1));
        let status = checked.err().map(Status::from)?;
        assert_eq!(status.code(), tonic::Code::ResourceExhausted);
        status.get_details_error_info()?.metadata.get("limit").cloned()
    };
    let (applications, errors) = ("fault_applications_max", "faults_grouped_max");
    for (count, faults, expected) in [
        (GROUPED_MAX, 100, None),
        (GROUPED_MAX + 1, 1, Some(applications)),
        (GROUPED_MAX, 101, Some(errors)),
        (1, u32::MAX, Some(errors)),
        // Applications without open errors do not count.
        (GROUPED_MAX + 1, 0, None),
    ] {
        assert_eq!(limit_of(count, faults).as_deref(), expected, "{count} with {faults}");
    }
}
