//! Conversion of namespaces to the wire.

use super::copied::shown;
use super::value::{count, level};
use crate::domain::policy::Policy;
use crate::proto::v1;
use crate::watch::Summary;

/// Converts a namespace.
pub fn namespace(summary: &Summary) -> v1::Namespace {
    let levels = Policy::Juju.order().into_iter();
    let by_level = levels.map(|l| v1::LevelCount {
        level: level(l) as i32,
        count: count(summary.by_level[l as usize]),
    });
    let [fresh, stale, lost, uncertain] = summary.by_freshness.map(count);
    v1::Namespace {
        name: summary.name.to_string(),
        application_count: count(summary.applications),
        applications_by_level: by_level.filter(|c| 0 < c.count).collect(),
        fresh_applications: fresh,
        stale_applications: stale,
        lost_applications: lost,
        uncertain_applications: uncertain,
        worst: Some(shown(&summary.worst)),
    }
}
