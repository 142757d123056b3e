//! Conversion of the past of applications: the slots of a request, and those of an answer.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::fields::{Fields, within_proto};
use super::value::level;
use crate::domain::name::AppName;
use crate::domain::time::Timestamp;
use crate::domain::uptime::RANGE_MAX;
use crate::domain::uptime::past::{Past, SLOT_MAX, SLOT_MIN, SLOTS_MAX, Slots};
use crate::proto::v1;
use crate::service::call::Access;
use crate::service::code::{ApiError, Reason};

/// Names of one request.
const NAMES_MAX: usize = 1000;

/// The value of a slot in which a unit was silent.
const SILENT: u8 = 128;

/// Which applications, and which slots.
pub struct PastOf {
    /// The namespace; `None` for all.
    pub namespace: Option<Arc<str>>,
    /// These alone; empty for all of the namespace.
    pub names: BTreeSet<AppName>,
    /// The slots.
    pub slots: Slots,
}

/// Reads a `ListPast`.
pub fn list_past(
    access: &Access,
    wire: &v1::ListPastRequest,
    now: Timestamp,
) -> Result<PastOf, ApiError> {
    let mut fields = Fields::default();
    let namespace = fields.namespace(&wire.namespace);
    if let Some(namespace) = &namespace {
        access.check_list(namespace.as_deref())?;
    }
    let names = namespace.as_ref().and_then(|one| names(&mut fields, one.as_deref(), wire));
    let slots = slots(&mut fields, wire, now);
    let read = namespace.zip(names).zip(slots);
    fields.finish(read.map(|((namespace, names), slots)| PastOf { namespace, names, slots }))
}

fn names(
    fields: &mut Fields,
    namespace: Option<&str>,
    wire: &v1::ListPastRequest,
) -> Option<BTreeSet<AppName>> {
    let given = &wire.applications;
    if NAMES_MAX < given.len() {
        let text = format!("has {} names; give at most {NAMES_MAX}", given.len());
        let noted = fields.note("applications", Reason::InvalidValue, text);
        noted.with("count", given.len()).with("max", NAMES_MAX);
        return None;
    }
    let mut names = BTreeSet::new();
    for name in given {
        let place = match namespace {
            Some(namespace) => (namespace, name.as_str()),
            None => match name.split_once('/') {
                Some(place) => place,
                None => {
                    let text = "names no namespace; with namespace `-`, give NAMESPACE/NAME";
                    return fields.wrong("applications", text, name);
                }
            },
        };
        names.insert(fields.app_in("applications", place, name)?);
    }
    Some(names)
}

fn slots(fields: &mut Fields, wire: &v1::ListPastRequest, now: Timestamp) -> Option<Slots> {
    let start = match wire.start_time {
        None => fields.missing("start_time", "is required"),
        given => fields.moment("start_time", given),
    };
    let length = match wire.slot {
        None => fields.missing("slot", "is required"),
        Some(given) => {
            let given = within_proto(given);
            let read = Duration::try_from(given).ok();
            read.filter(|read| (SLOT_MIN..=SLOT_MAX).contains(read)).or_else(|| {
                let (min, max) = (SLOT_MIN.as_secs(), SLOT_MAX.as_secs());
                fields.wrong("slot", format!("is {given}; give {min} s to {max} s"), given)
            })
        }
    };
    let count = u32::try_from(wire.slot_count).ok().filter(|n| (1..=SLOTS_MAX).contains(n));
    if count.is_none() {
        let text = format!("is {}; give 1 to {SLOTS_MAX}", wire.slot_count);
        let noted = fields.note("slot_count", Reason::InvalidValue, text);
        noted.with("value", wire.slot_count).with("min", 1).with("max", SLOTS_MAX);
    }
    let start = start?;
    if now <= start {
        return fields.wrong("start_time", "is not in the past", start.to_utc());
    }
    if RANGE_MAX < now.since(start) {
        let days = RANGE_MAX.as_secs() / 86_400;
        let text = format!("is more than {days} days in the past; give a later one");
        let noted = fields.note("start_time", Reason::InvalidValue, text);
        noted.with("value", start.to_utc()).with("max_days", days);
        return None;
    }
    Some(Slots { start, length: length?, count: count? })
}

/// Returns the past of an application on the wire.
pub fn past(app: &AppName, slots: &[Option<Past>]) -> v1::Past {
    let value = |slot: &Option<Past>| match slot {
        None => 0,
        Some(Past::Silent) => SILENT,
        Some(Past::Level(one)) => level(*one) as u8,
    };
    v1::Past {
        namespace: app.namespace().to_string(),
        application: app.application().to_string(),
        slots: slots.iter().map(value).collect(),
    }
}
