//! Generated worlds for tests: applications of a few namespaces that come, change and go, and a
//! caller with rights to some of them.

use std::collections::BTreeSet;
use std::sync::Arc;

use proptest::prelude::*;

use crate::domain::app::Head;
use crate::domain::fault::open::OpenFaults;
use crate::domain::level::Level;
use crate::domain::name::AppName;
use crate::domain::policy::{Config, LostUnits};
use crate::domain::revision::Revision;
use crate::domain::summary::{Summary, Totals};
use crate::domain::time::Timestamp;
use crate::proto::v1;
use crate::security::role::{Grant, Grants, Pattern, Role};
use crate::service::call::Reader;
use crate::service::convert;
use crate::store::{Bucket, Change, Epoch, Observer, Position};
use crate::watch::{Hub, Limits};

/// The namespaces of a world; not all of them have applications.
pub(super) const NAMESPACES: [&str; 4] = ["default", "infra", "lab", "lab-2"];

const APPLICATIONS: [&str; 4] = ["api", "db", "web", "web-2"];

/// A change of one application, or its deletion.
#[derive(Debug, Clone)]
pub(super) struct Step {
    app: AppName,
    head: Head,
}

/// What happens in a world, and who looks at it.
#[derive(Debug)]
pub(super) struct World {
    pub(super) steps: Vec<Step>,
    pub(super) reader: Reader,
}

/// A hub that receives steps.
pub(super) struct Feed {
    pub(super) hub: Arc<Hub>,
    position: u64,
}

impl Feed {
    pub(super) fn new() -> Feed {
        let hub = Hub::new(Epoch { store_id: 1, losses: 0 }, 1, false, Limits::default());
        Feed { hub: Arc::new(hub), position: 0 }
    }

    /// Takes a step: the hub receives it as the next change.
    pub(super) fn take(&mut self, step: &Step) {
        self.put(step.app.clone(), step.head.clone());
    }

    /// Puts the newest state of an application into the hub.
    pub(super) fn put(&mut self, app: AppName, head: Head) {
        self.position += 1;
        let head = Head { revision: Revision(self.position), ..head };
        self.hub.on_change(&Change {
            bucket: Bucket::default(),
            position: Position(self.position),
            app,
            head: Arc::new(head),
            packed: None,
            transition: None,
        });
    }

    /// Returns what ListApplications has of a namespace.
    pub(super) fn list(&self, namespace: &str) -> Vec<v1::Application> {
        let found = self.hub.list(Some(namespace), None, &BTreeSet::new(), usize::MAX);
        found.iter().map(|entry| convert::shown(entry)).collect()
    }
}

pub(super) fn apps() -> impl Strategy<Value = AppName> {
    let names = (prop::sample::select(&NAMESPACES[..]), prop::sample::select(&APPLICATIONS[..]));
    names.prop_map(|(namespace, name)| AppName::new(namespace, name).unwrap())
}

fn heads() -> impl Strategy<Value = Head> {
    let level = prop_oneof![2 => Just(Level::Active), 3 => prop::sample::select(&Level::ALL[..])];
    let silent = prop_oneof![3 => Just([0; 3]), 1 => prop::array::uniform3(0..2u32)];
    let lost_units = prop_oneof![Just(LostUnits::Ignore), Just(LostUnits::Waiting)];
    let serving = prop_oneof![
        Just(vec![Level::Active]),
        Just(vec![Level::Active, Level::Waiting]),
        Just(vec![]),
    ];
    let rest = (0..3u64, 0..2u32, 0..2u32, prop::bool::weighted(0.2));
    (level, silent, lost_units, serving, rest).prop_map(
        |(level, [stale, lost, uncertain], lost_units, serving_levels, rest)| {
            let (since, faults, flapping, deleted) = rest;
            let totals = Totals {
                stale_units: stale,
                lost_units: lost,
                uncertain_units: uncertain,
                flapping,
                ..Totals::default()
            };
            let since = Timestamp::new(1000 * since);
            let summary = Summary { level, since, totals, ..Summary::default() };
            Head {
                summary: Arc::new(summary),
                config: Arc::new(Config { lost_units, serving_levels, ..Config::default() }),
                open_faults: OpenFaults { count: faults, next_retry: None },
                deleted,
                ..Head::default()
            }
        },
    )
}

/// Rights to some of the names: whole namespaces, parts of them, single applications, nothing.
pub(super) fn readers() -> impl Strategy<Value = Reader> {
    let namespace = prop_oneof![
        1 => Just(Pattern::Any),
        3 => prop::sample::select(&NAMESPACES[..]).prop_map(|name| Pattern::Exact(name.into())),
        1 => Just(Pattern::Prefix("lab".into())),
    ];
    let application = prop_oneof![
        3 => Just(Pattern::Any),
        1 => prop::sample::select(&APPLICATIONS[..]).prop_map(|name| Pattern::Exact(name.into())),
        1 => Just(Pattern::Prefix("web".into())),
    ];
    let role = prop::sample::select(vec![Role::Reader, Role::Operator, Role::Worker]);
    let grant = (role, namespace, application).prop_map(|(role, namespace, application)| Grant {
        role,
        namespace,
        application,
        unit: Pattern::Any,
        data: false,
    });
    let granted = prop::collection::vec(grant, 0..4);
    prop_oneof![
        1 => Just(Reader::Everything),
        9 => granted.prop_map(|grants| Reader::Granted(Grants(grants))),
    ]
}

pub(super) fn worlds() -> impl Strategy<Value = World> {
    let step = (apps(), heads()).prop_map(|(app, head)| Step { app, head });
    let steps = prop::collection::vec(step, 0..40);
    (steps, readers()).prop_map(|(steps, reader)| World { steps, reader })
}
