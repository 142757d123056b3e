//! Conversion of the filter of a watch from the wire.

use std::collections::BTreeSet;
use std::time::Duration;

use super::fields::Fields;
use crate::domain::name::AppName;
use crate::proto::v1;
use crate::service::call::Access;
use crate::service::code::{ApiError, Reason};
use crate::watch;

/// Maximum applications that a watch may name.
const WATCHED_NAMES_MAX: usize = 1000;

/// Longest `stable_for`.
const STABLE_FOR_MAX: Duration = Duration::from_secs(3600);

/// Shortest and longest `bookmark_interval`.
const BOOKMARK_INTERVAL: (Duration, Duration) = (Duration::from_millis(1), Duration::from_secs(5));

/// Reads how soon a bookmark follows a change.
pub fn bookmark_interval(
    request: &v1::WatchApplicationsRequest,
) -> Result<Option<Duration>, ApiError> {
    let (mut fields, (min, max)) = (Fields::default(), BOOKMARK_INTERVAL);
    let read = fields.duration("bookmark_interval", request.bookmark_interval, min, max);
    fields.finish(Some(read))
}

/// Reads the filter of a `WatchApplications`. The caller needs the right for all of its scope.
pub fn filter(
    access: &Access,
    request: &v1::WatchApplicationsRequest,
) -> Result<watch::Filter, ApiError> {
    let mut fields = Fields::default();
    let scope = scope(&mut fields, request);
    if let Some(scope) = &scope {
        access.check_scope(scope)?;
    }
    let min_level = match request.min_level {
        0 => None,
        level => Some(fields.level("min_level", level)),
    };
    let levels = fields.levels(&request.levels);
    let stable_for =
        fields.duration("stable_for", request.stable_for, Duration::ZERO, STABLE_FOR_MAX);
    let stable_for = stable_for.filter(|d| !d.is_zero());
    fields.finish(scope.map(|scope| watch::Filter { scope, min_level, levels, stable_for }))
}

fn scope(fields: &mut Fields, request: &v1::WatchApplicationsRequest) -> Option<watch::Scope> {
    let namespace = fields.namespace(&request.namespace)?;
    let count = request.applications.len();
    if WATCHED_NAMES_MAX < count {
        let text =
            format!("names {count}; at most {WATCHED_NAMES_MAX}, or none for the whole namespace");
        let noted = fields.note("applications", Reason::InvalidValue, text);
        noted.with("count", count).with("max", WATCHED_NAMES_MAX);
        return None;
    }
    match (namespace, request.applications.is_empty()) {
        (None, true) => Some(watch::Scope::All),
        (Some(namespace), true) => Some(watch::Scope::Namespace(namespace)),
        (None, false) => {
            let text = "cannot be named with namespace `-`; watch one namespace at a time";
            fields.note("applications", Reason::InvalidValue, text);
            None
        }
        (Some(namespace), false) => {
            let names = request.applications.iter();
            let names: Option<BTreeSet<AppName>> =
                names.map(|name| fields.app(&namespace, name)).collect();
            Some(watch::Scope::Applications(names?))
        }
    }
}
