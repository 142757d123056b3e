//! Fleets of applications that need each other, in memory.

use std::sync::Arc;

use bellwether::domain::app::Head;
use bellwether::domain::level::Level;
use bellwether::domain::name::{AppName, PartName, UnitName};
use bellwether::domain::need::Need;
use bellwether::domain::revision::Revision;
use bellwether::domain::stated::{StatedBy, StatedNeed, StatedNeeds};
use bellwether::domain::summary::Summary;
use bellwether::domain::time::Timestamp;
use bellwether::store::{Bucket, Change, Epoch, Observer, Position};
use bellwether::watch::{Hub, Limits};

/// The time of every evaluation: long after the needs began.
pub const NOW: Timestamp = Timestamp::new(60_000);

/// One application in this many is blocked and needs nothing: a first cause.
const CAUSES_EVERY: usize = 20;

/// Returns a hub with this many applications. All but the first causes wait, each for this many
/// others, which are spread over the whole fleet.
///
/// # Panics
/// If a name is no name, which it is.
pub fn fleet(applications: usize, needs: usize) -> Hub {
    let epoch = Epoch { store_id: 1, losses: 0 };
    let hub = Hub::new(epoch, 1, false, Limits::default());
    for number in 0..applications {
        let needs = needed(number, needs).into_iter().map(|to| StatedNeed {
            need: Need::application(app(to), Vec::new()),
            stated_by: StatedBy {
                unit: UnitName::application(),
                component: PartName::default(),
                key: PartName::default(),
                kind: None,
                target: "".into(),
            },
            since: Timestamp::default(),
        });
        let needs: Vec<StatedNeed> = needs.collect();
        let needs = (!needs.is_empty()).then(|| Arc::new(StatedNeeds { needs, rest_count: 0 }));
        let level = if needs.is_some() { Level::Waiting } else { Level::Blocked };
        let summary = Arc::new(Summary { level, ..Summary::default() });
        let head = Head { revision: Revision(1), summary, needs, ..Head::default() };
        hub.on_change(&Change {
            bucket: Bucket::default(),
            position: Position(number as u64 + 1),
            app: app(number),
            head: Arc::new(head),
            packed: None,
            transition: None,
        });
    }
    hub
}

/// Returns the name of an application.
pub fn name(number: usize) -> String {
    format!("app-{number:06}")
}

/// Returns the numbers of the applications that one needs: smaller ones, so that chains end, spread
/// over the whole fleet. A first cause needs none.
pub fn needed(number: usize, needs: usize) -> Vec<usize> {
    let is_cause = number.is_multiple_of(CAUSES_EVERY);
    let needed = (0..needs).map(|n| (number * (n + 3) / (n + 5)).saturating_sub(n + 1));
    needed.filter(|to| !is_cause && *to != number).collect()
}

fn app(number: usize) -> AppName {
    AppName::new("prod", &name(number)).expect("is a name")
}
