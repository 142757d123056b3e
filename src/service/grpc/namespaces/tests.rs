//! What ListNamespaces has, beside a count of what ListApplications has.

use std::collections::BTreeMap;

use proptest::prelude::*;

use crate::domain::app::Head;
use crate::domain::name::AppName;
use crate::proto::v1;
use crate::security::role::Need;
use crate::service::call::Reader;
use crate::service::convert::{self, severity};
use crate::service::grpc::worlds::{Feed, NAMESPACES, worlds};

/// The levels in the order of the answer.
const ORDER: [v1::Level; 7] = [
    v1::Level::Error,
    v1::Level::Blocked,
    v1::Level::Maintenance,
    v1::Level::Waiting,
    v1::Level::Active,
    v1::Level::Terminated,
    v1::Level::Unknown,
];

/// Counts the applications of a namespace by the definition; `None` if there are none.
fn counted(name: &str, applications: &[v1::Application]) -> Option<v1::Namespace> {
    let worst = applications.iter().min_by(|one, other| severity::compare(one, other))?;
    let mut by_level: BTreeMap<v1::Level, i32> = BTreeMap::new();
    let mut counted = v1::Namespace {
        name: name.to_string(),
        application_count: applications.len() as i32,
        worst: Some(worst.clone()),
        ..v1::Namespace::default()
    };
    for application in applications {
        *by_level.entry(severity::level_of(application)).or_default() += 1;
        let silence = severity::Silence::of(application);
        *match silence {
            _ if 0 < silence.uncertain => &mut counted.uncertain_applications,
            _ if 0 < silence.lost => &mut counted.lost_applications,
            _ if 0 < silence.stale => &mut counted.stale_applications,
            _ => &mut counted.fresh_applications,
        } += 1;
    }
    let present = ORDER.into_iter().filter_map(|level| Some((level, *by_level.get(&level)?)));
    counted.applications_by_level =
        present.map(|(level, count)| v1::LevelCount { level: level.into(), count }).collect();
    Some(counted)
}

fn may_list(reader: &Reader, namespace: &str) -> bool {
    match reader {
        Reader::Everything => true,
        Reader::Granted(grants) => grants.allow(Need::List(Some(namespace))),
    }
}

/// Reads all pages of some size.
fn listed(feed: &Feed, reader: &Reader, size: usize) -> Vec<v1::Namespace> {
    let mut all: Vec<v1::Namespace> = Vec::new();
    loop {
        let after = all.last().map(|namespace| namespace.name.clone());
        let found = feed.hub.namespaces(after.as_deref(), size, &|name| reader.may_list(name));
        all.extend(found.iter().map(convert::namespace));
        if found.len() < size {
            return all;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn a_namespace_counts_what_its_list_of_applications_has(world in worlds(), size in 1..6usize) {
        let mut feed = Feed::new();
        world.steps.iter().for_each(|step| feed.take(step));
        let readable = NAMESPACES.into_iter().filter(|name| may_list(&world.reader, name));
        let expected: Vec<v1::Namespace> =
            readable.filter_map(|name| counted(name, &feed.list(name))).collect();
        prop_assert_eq!(listed(&feed, &world.reader, size), expected);
    }
}

#[test]
fn more_namespaces_than_one_batch_are_all_found() {
    let mut feed = Feed::new();
    let count = 3000;
    for n in 0..count {
        let app = AppName::new(&format!("n{n:04}"), "web").unwrap();
        feed.put(app, Head::default());
    }
    let odd = |name: &str| !name.ends_with(['0', '2', '4', '6', '8']);
    let found = feed.hub.namespaces(None, usize::MAX, &odd);
    assert_eq!(found.len(), count / 2);
    let next = feed.hub.namespaces(Some("n2500"), 1, &odd);
    assert_eq!(next[0].name.as_ref(), "n2501");
}
