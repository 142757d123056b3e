//! Applications as an upstream sends them: kept as they came, with the part of the head that
//! filters, counts, health and needs read.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use prost::Message;

use super::value::from_level;
use crate::domain::app::Head;
use crate::domain::fault::open::OpenFaults;
use crate::domain::leadership::Lease;
use crate::domain::level::{LEVELS, Level};
use crate::domain::mark::head::MarkSummary;
use crate::domain::name::{AppName, PartName, UnitName};
use crate::domain::need::Need;
use crate::domain::policy::{Config, LostUnits, Policy};
use crate::domain::revision::Revision;
use crate::domain::stated::{StatedBy, StatedNeed, StatedNeeds};
use crate::domain::status::Kind;
use crate::domain::summary::{Summary, Totals};
use crate::domain::time::Timestamp;
use crate::proto::v1;
use crate::proto::v1::need::Object;
use crate::proto::v1::watch_applications_response::Event;
use crate::watch::Entry;

/// Returns an application as readers see it.
pub fn shown(entry: &Entry) -> v1::Application {
    let decode = |image: &Bytes| v1::WatchApplicationsResponse::decode(image.clone()).ok();
    match entry.copied().and_then(decode).and_then(|message| message.event) {
        Some(Event::Upserted(application)) => application,
        _ => super::application(&entry.app, &entry.head()),
    }
}

/// Encodes the event of an application, for its readers.
pub fn image(application: v1::Application) -> Bytes {
    let event = Some(Event::Upserted(application));
    v1::WatchApplicationsResponse { event, ..Default::default() }.encode_to_vec().into()
}

/// Reads a time.
pub fn copied_time(given: Option<prost_types::Timestamp>) -> Option<Timestamp> {
    let given = given?;
    let (seconds, nanos) = (u64::try_from(given.seconds).ok()?, u64::try_from(given.nanos).ok()?);
    Some(Timestamp::new(seconds.checked_mul(1000)?.checked_add(nanos / 1_000_000)?))
}

/// Reads the name and the head of an application; `None` if its name or its level is not one that
/// this version knows.
pub fn copied(wire: &v1::Application) -> Option<(AppName, Head)> {
    let app = AppName::new(&wire.namespace, &wire.name).ok()?;
    let status = wire.status.as_ref()?;
    let level = known_level(status.level)?;
    let given = wire.config.clone().unwrap_or_default();
    let leader = UnitName::new(&wire.leader).ok();
    let external_leader =
        given.external_leader.as_ref().map(|_| leader.clone().unwrap_or_default());
    let lease = leader.filter(|_| external_leader.is_none()).map(|holder| Lease {
        holder,
        incarnation: 0,
        duration: std::time::Duration::ZERO,
        acquire_time: Timestamp::default(),
        ends: None,
    });
    let time = |given| copied_time(given).unwrap_or_default();
    let head = Head {
        revision: Revision(wire.revision),
        create_time: time(wire.create_time),
        update_time: time(wire.update_time),
        config: Config { external_leader, ..config(&given) }.shared(),
        lease_epoch: wire.lease_epoch,
        lease,
        summary: Arc::new(summary(wire, status, level)),
        open_faults: OpenFaults {
            count: number(status.fault_count),
            next_retry: copied_time(status.next_retry_time),
        },
        needs: needs(wire),
        marks: marks(status, level),
        ..Head::empty(Revision(wire.revision))
    };
    Some((app, Head { deleted: false, ..head }))
}

fn known_level(given: i32) -> Option<Level> {
    match v1::Level::try_from(given).ok()? {
        v1::Level::Unspecified => None,
        level => Some(from_level(level)),
    }
}

fn number(given: i32) -> u32 {
    u32::try_from(given).unwrap_or_default()
}

fn config(given: &v1::ApplicationConfig) -> Config {
    let default = Config::default();
    let policy = given.policy.clone().unwrap_or_default();
    let order: Option<Vec<Level>> = policy.order.iter().map(|level| known_level(*level)).collect();
    let order = order.and_then(|order| <[Level; LEVELS]>::try_from(order).ok());
    let is_whole = |order: &[Level; LEVELS]| BTreeSet::from(*order).len() == LEVELS;
    let policy = match (policy.name.as_str(), order.filter(is_whole)) {
        ("openstack", _) => Policy::OpenStack,
        ("strict", _) => Policy::Strict,
        ("custom", Some(order)) => Policy::Custom(order),
        _ => default.policy.clone(),
    };
    let lost_units = match given.lost_units() {
        v1::LostUnits::Ignore => LostUnits::Ignore,
        v1::LostUnits::Blocked => LostUnits::Blocked,
        v1::LostUnits::Waiting | v1::LostUnits::Unspecified => LostUnits::Waiting,
    };
    let serving = given.serving_levels.iter().filter_map(|level| known_level(*level));
    Config { policy, lost_units, serving_levels: serving.collect(), ..default }
}

fn summary(wire: &v1::Application, status: &v1::AggregatedStatus, level: Level) -> Summary {
    let mut units_by_level = [0; LEVELS];
    for count in &wire.units_by_level {
        if let Some(level) = known_level(count.level) {
            units_by_level[level as usize] = number(count.count);
        }
    }
    let totals = Totals {
        units: number(wire.unit_count),
        units_by_level,
        stale_units: number(status.stale_units),
        lost_units: number(status.lost_units),
        uncertain_units: number(status.uncertain_units),
        asking: number(status.action_count),
        // A winner that flaps is one of them.
        flapping: number(status.flapping_count).max(status.flapping.into()),
        ..Totals::default()
    };
    Summary {
        level,
        message: status.message.as_str().into(),
        reason: status.reason.as_str().into(),
        action: status.action.as_str().into(),
        since: copied_time(status.since_time).unwrap_or_default(),
        short_message: status.short_message.as_str().into(),
        totals,
        ..Summary::default()
    }
}

fn needs(wire: &v1::Application) -> Option<Arc<StatedNeeds>> {
    let needs: Vec<StatedNeed> = wire.needs.iter().filter_map(stated).collect();
    let rest_count = number(wire.needs_rest_count);
    (!needs.is_empty()).then(|| Arc::new(StatedNeeds { needs, rest_count }))
}

fn stated(given: &v1::StatedNeed) -> Option<StatedNeed> {
    let need = match given.need.as_ref()?.object.as_ref()? {
        Object::Outside(words) => Need::Outside(words.as_str().into()),
        Object::Application(needed) => {
            let app = AppName::new(&needed.namespace, &needed.application).ok()?;
            let levels = needed.levels.iter().filter_map(|level| known_level(*level));
            Need::application(app, levels.collect())
        }
    };
    let by = given.stated_by.clone().unwrap_or_default();
    let kind = match by.kind() {
        v1::StatusKind::Pull => Some(Kind::Pull),
        v1::StatusKind::Push => Some(Kind::Push),
        v1::StatusKind::Unspecified => None,
    };
    let stated_by = StatedBy {
        unit: UnitName::new(&by.unit).unwrap_or_default(),
        component: PartName::new(&by.component).unwrap_or_default(),
        key: PartName::new(&by.key).unwrap_or_default(),
        kind,
        target: by.target.as_str().into(),
    };
    Some(StatedNeed { need, stated_by, since: copied_time(given.since_time).unwrap_or_default() })
}

/// Returns the marks that show in a status. Others are known to the upstream alone.
fn marks(status: &v1::AggregatedStatus, level: Level) -> Option<Arc<MarkSummary>> {
    let without = known_level(status.level_without_marks).filter(|without| *without != level);
    let marks = MarkSummary {
        count: u32::from(status.planned) + u32::from(status.acknowledged),
        planned_count: status.planned.into(),
        acknowledged_count: status.acknowledged.into(),
        planned: status.planned,
        acknowledged: status.acknowledged,
        level_without: without,
    };
    (marks != MarkSummary::default()).then(|| Arc::new(marks))
}
