//! The health of namespaces, beside the rule: every application is looked at after each change.

use std::collections::BTreeMap;

use futures_util::FutureExt;
use proptest::prelude::*;

use super::*;
use crate::proto::v1;
use crate::service::convert::severity;
use crate::service::grpc::worlds::{Feed, NAMESPACES, worlds};

/// Returns the health of an application by what ListApplications has.
fn is_serving(application: &v1::Application) -> bool {
    let level = application.status.as_ref().map_or(0, |status| status.level);
    let serving = application.config.as_ref().map_or(&[][..], |config| &config.serving_levels);
    serving.contains(&level) && !severity::hides(application)
}

/// Returns the health of a namespace by the rule; `None` if it has no applications.
fn by_the_rule(applications: &[v1::Application]) -> Option<ServingStatus> {
    let status = serving_if(applications.iter().all(is_serving));
    (!applications.is_empty()).then_some(status)
}

/// A watch of the health of a namespace, and what it has sent.
struct Watched {
    follow: Follow,
    sent: Option<ServingStatus>,
}

impl Watched {
    fn new(feed: &Feed, name: &str) -> Watched {
        let (name, hub): (Arc<str>, _) = (Arc::from(name), feed.hub.clone());
        let filter = Filter::of(Scope::Namespace(name.clone()));
        let watcher = Box::new(hub.watch(filter, Start::Snapshot).unwrap());
        Watched { follow: Follow::Namespace { name, hub, watcher }, sent: None }
    }

    /// Returns the statuses that are sent without waiting.
    fn take(&mut self) -> Vec<ServingStatus> {
        let mut taken = Vec::new();
        while let Some(status) = self.follow.step(self.sent).now_or_never() {
            self.sent = Some(status.unwrap());
            taken.extend(self.sent);
        }
        taken
    }
}

/// Returns what List has of the namespaces.
fn listed(feed: &Feed) -> BTreeMap<String, ServingStatus> {
    let entries = feed.hub.list(None, None, &BTreeSet::new(), usize::MAX);
    let all = statuses(&entries).into_iter();
    all.filter_map(|(name, status)| Some((name.strip_suffix('/')?.to_string(), status))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn check_watch_and_list_of_a_namespace_are_by_the_rule(world in worlds()) {
        // The watcher needs the clock of a runtime.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let _entered = runtime.enter();
        let mut feed = Feed::new();
        let mut watched = NAMESPACES.map(|name| Watched::new(&feed, name));
        for watch in &mut watched {
            prop_assert_eq!(watch.take(), [ServingStatus::ServiceUnknown]);
        }
        for step in &world.steps {
            feed.take(step);
            let mut present = BTreeMap::new();
            for (name, watch) in NAMESPACES.into_iter().zip(&mut watched) {
                let expected = by_the_rule(&feed.list(name));
                prop_assert_eq!(feed.hub.serving(name).map(serving_of), expected, "Check {}", name);
                present.extend(expected.map(|status| (name.to_string(), status)));
                let sent = expected.unwrap_or(ServingStatus::ServiceUnknown);
                let is_new = watch.sent != Some(sent);
                let taken: Vec<_> = is_new.then_some(sent).into_iter().collect();
                prop_assert_eq!(watch.take(), taken, "Watch {}", name);
            }
            prop_assert_eq!(listed(&feed), present, "List");
        }
    }
}
