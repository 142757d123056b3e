//! From the wire: every field is checked, and every violation is told at once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::domain::app::Mode;
use crate::domain::command::{Claim, Command, NewApplicationStatus, NewStatus, Speaker};
use crate::domain::limits::{
    LABEL_BYTES_MAX, LABELS_MAX, MESSAGE_BYTES_MAX, NAME_BYTES_MAX, PRIORITY_MAX,
    REQUEST_ID_BYTES_MAX, SHORT_MESSAGE_CHARS_MAX, TTL_MAX, TTL_MIN,
};
use crate::domain::name::{AppName, NameError, PartName, UnitName, namespace_name};
use crate::domain::policy::{Config, ConfigPatch, LostUnits, Policy};
use crate::domain::status::{Kind, LEVELS, Level, Report};
use crate::domain::time::Timestamp;
use crate::proto::v1;
use crate::service::code::{Problem, Reason, Violation};
use crate::watch;

/// Checks the fields of one request. What cannot be read is noted, and `None` goes on in its place.
#[derive(Default)]
pub struct Fields {
    violations: Vec<Violation>,
    within: String,
}

impl Fields {
    /// Ends the check: what was read, or everything that is wrong.
    pub fn finish<T>(self, read: Option<T>) -> Result<T, Problem> {
        match read {
            Some(read) if self.violations.is_empty() => Ok(read),
            _ => Err(Problem::of_fields(self.violations)),
        }
    }

    fn note(&mut self, field: &str, reason: Reason, description: impl Into<String>) {
        let field = format!("{}{field}", self.within);
        self.violations.push(Violation {
            field,
            reason,
            description: description.into(),
        });
    }

    fn name<T>(&mut self, field: &str, read: Result<T, NameError>) -> Option<T> {
        match read {
            Ok(name) => Some(name),
            Err(NameError::Empty) => {
                self.note(field, Reason::MissingField, "is required");
                None
            }
            Err(error) => {
                self.note(field, Reason::InvalidName, error.to_string());
                None
            }
        }
    }

    /// The application a request is about.
    pub fn app(&mut self, namespace: &str, application: &str) -> Option<AppName> {
        match AppName::new(namespace, application) {
            Ok(name) => Some(name),
            Err((field, error)) => self.name(field, Err(error)),
        }
    }

    /// A namespace, or with `-` all of them.
    #[allow(clippy::option_option)]
    pub fn namespace(&mut self, text: &str) -> Option<Option<Arc<str>>> {
        match text {
            "-" => Some(None),
            text => self.name("namespace", namespace_name(text)).map(Some),
        }
    }

    /// A required unit.
    pub fn unit(&mut self, field: &str, text: &str) -> Option<UnitName> {
        self.name(field, UnitName::new(text))
    }

    /// A unit that may be left out.
    pub fn unit_or_application(&mut self, field: &str, text: &str) -> Option<UnitName> {
        match text {
            "" => Some(UnitName::application()),
            text => self.unit(field, text),
        }
    }

    fn part(&mut self, field: &str, text: &str) -> Option<PartName> {
        self.name(field, PartName::new(text))
    }

    /// The id under which the answer is remembered.
    pub fn request_id(&mut self, id: &str) -> Option<Option<Arc<str>>> {
        if REQUEST_ID_BYTES_MAX < id.len() {
            let text = format!("is {} bytes long; at most {REQUEST_ID_BYTES_MAX}", id.len());
            self.note("request_id", Reason::InvalidValue, text);
            return None;
        }
        Some((!id.is_empty()).then(|| Arc::from(id)))
    }

    /// A required level.
    pub fn level(&mut self, field: &str, level: i32) -> Option<Level> {
        match v1::Level::try_from(level) {
            Ok(v1::Level::Unspecified) => {
                let words: Vec<&str> = Level::ALL.iter().map(|l| l.word()).collect();
                let text = format!("is required: one of {}", words.join(", "));
                self.note(field, Reason::MissingField, text);
                None
            }
            Ok(level) => Some(from_level(level)),
            Err(_) => {
                let text = format!("is {level}, which is no level; the enum Level has them");
                self.note(field, Reason::UnknownLevel, text);
                None
            }
        }
    }

    fn kind(&mut self, kind: i32) -> Option<Option<Kind>> {
        match v1::StatusKind::try_from(kind) {
            Ok(v1::StatusKind::Unspecified) => Some(None),
            Ok(v1::StatusKind::Pull) => Some(Some(Kind::Pull)),
            Ok(v1::StatusKind::Push) => Some(Some(Kind::Push)),
            Err(_) => {
                let text = format!("is {kind}; give pull, push, or nothing");
                self.note("kind", Reason::InvalidValue, text);
                None
            }
        }
    }

    fn text(&mut self, field: &str, text: &str, bytes_max: usize) -> Option<Box<str>> {
        if bytes_max < text.len() {
            let text = format!("is {} bytes long; at most {bytes_max}", text.len());
            self.note(field, Reason::MessageTooLong, text);
            return None;
        }
        Some(text.into())
    }

    fn weight(&mut self, field: &str, weight: i32) -> Option<i32> {
        if weight.unsigned_abs() <= PRIORITY_MAX.unsigned_abs() {
            return Some(weight);
        }
        let text = format!("is {weight}; give -{PRIORITY_MAX} to {PRIORITY_MAX}");
        self.note(field, Reason::InvalidValue, text);
        None
    }

    /// A duration within bounds, if there is one.
    pub fn duration(
        &mut self,
        field: &str,
        duration: Option<&prost_types::Duration>,
        min: Duration,
        max: Duration,
    ) -> Option<Option<Duration>> {
        let Some(given) = duration else {
            return Some(None);
        };
        match Duration::try_from(*given) {
            Ok(read) if min <= read && read <= max => Some(Some(read)),
            _ => {
                let (min, max) = (min.as_secs(), max.as_secs());
                let text = format!("is {given}; give {min} s to {max} s, or nothing");
                self.note(field, Reason::InvalidValue, text);
                None
            }
        }
    }

    /// A moment, if there is one.
    pub fn moment(
        &mut self,
        field: &str,
        time: Option<&prost_types::Timestamp>,
    ) -> Option<Option<Timestamp>> {
        let Some(given) = time else {
            return Some(None);
        };
        let seconds = u64::try_from(given.seconds).ok();
        let nanos = u64::try_from(given.nanos)
            .ok()
            .filter(|n| *n < 1_000_000_000);
        // The year 9999, as google.protobuf.Timestamp says.
        match seconds.filter(|s| *s < 253_402_300_800).zip(nanos) {
            Some((seconds, nanos)) => Some(Some(Timestamp(seconds * 1000 + nanos / 1_000_000))),
            None => {
                self.note(
                    field,
                    Reason::InvalidValue,
                    "is not between the years 1970 and 9999",
                );
                None
            }
        }
    }

    fn labels(
        &mut self,
        labels: &std::collections::HashMap<String, String>,
    ) -> Option<BTreeMap<Box<str>, Box<str>>> {
        if LABELS_MAX < labels.len() {
            let text = format!("are {}; at most {LABELS_MAX}", labels.len());
            self.note("labels", Reason::InvalidValue, text);
            return None;
        }
        let long = labels.iter().find(|(key, value)| {
            key.is_empty() || LABEL_BYTES_MAX < key.len() || LABEL_BYTES_MAX < value.len()
        });
        if let Some((key, _)) = long {
            let text = format!(
                "has {key:?}; keys have 1 to {LABEL_BYTES_MAX} bytes, values at most as many"
            );
            self.note("labels", Reason::InvalidValue, text);
            return None;
        }
        Some(
            labels
                .iter()
                .map(|(k, v)| (k.as_str().into(), v.as_str().into()))
                .collect(),
        )
    }
}

fn from_level(level: v1::Level) -> Level {
    match level {
        v1::Level::Unspecified | v1::Level::Unknown => Level::Unknown,
        v1::Level::Terminated => Level::Terminated,
        v1::Level::Active => Level::Active,
        v1::Level::Waiting => Level::Waiting,
        v1::Level::Maintenance => Level::Maintenance,
        v1::Level::Blocked => Level::Blocked,
        v1::Level::Error => Level::Error,
    }
}

/// Levels of a filter.
pub fn levels(fields: &mut Fields, levels: &[i32]) -> Option<BTreeSet<Level>> {
    let read: Vec<Option<Level>> = levels
        .iter()
        .map(|level| fields.level("levels", *level))
        .collect();
    read.into_iter().collect()
}

/// One status, with its kind if it has one.
pub fn new_status(
    fields: &mut Fields,
    within: &str,
    status: Option<&v1::StatusReport>,
) -> Option<(Option<Kind>, NewStatus)> {
    let Some(given) = status else {
        fields.note(
            within.trim_end_matches('.'),
            Reason::MissingField,
            "is required",
        );
        return None;
    };
    let outer = std::mem::replace(&mut fields.within, within.to_string());
    let component = fields.part("component", &given.component);
    let key = fields.part("key", &given.key);
    let kind = fields.kind(given.kind);
    let observe_time = fields.moment("observe_time", given.observe_time.as_ref());
    let report = report_of(fields, given);
    fields.within = outer;
    let status = NewStatus {
        component: component?,
        key: key?,
        report: report?,
        observe_time: observe_time?,
    };
    Some((kind?, status))
}

fn report_of(fields: &mut Fields, given: &v1::StatusReport) -> Option<Report> {
    let level = fields.level("level", given.level);
    let message = fields.text("message", &given.message, MESSAGE_BYTES_MAX);
    if SHORT_MESSAGE_CHARS_MAX < given.short_message.chars().count() {
        let text = format!("has more than {SHORT_MESSAGE_CHARS_MAX} characters");
        fields.note("short_message", Reason::MessageTooLong, text);
    }
    let reason = fields.text("reason", &given.reason, NAME_BYTES_MAX);
    let check = fields.text("check", &given.check, MESSAGE_BYTES_MAX);
    let action = fields.text("action", &given.action, MESSAGE_BYTES_MAX);
    let priority = fields.weight("priority", given.priority);
    let precedence = fields.weight("precedence", given.precedence);
    let labels = fields.labels(&given.labels);
    let ttl = fields.duration("ttl", given.ttl.as_ref(), TTL_MIN, TTL_MAX);
    Some(Report {
        level: level?,
        message: message?,
        short_message: given.short_message.as_str().into(),
        reason: reason?,
        check: check?,
        action: action?,
        priority: priority?,
        precedence: precedence?,
        labels: labels?,
        ttl: ttl?,
    })
}

fn speaker(fields: &mut Fields, unit: &str, incarnation: Option<u64>) -> Option<Speaker> {
    let unit = fields.unit("unit", unit)?;
    Some(Speaker { unit, incarnation })
}

/// `ReportStatus`.
pub fn report(fields: &mut Fields, request: &v1::ReportStatusRequest) -> Option<Command> {
    let speaker = speaker(fields, &request.unit, request.incarnation);
    let status = new_status(fields, "status.", request.status.as_ref());
    let (kind, status) = status?;
    Some(Command::Report(
        speaker?,
        kind.unwrap_or(Kind::Push),
        status,
    ))
}

/// `ReplaceStatuses`.
pub fn replace(fields: &mut Fields, request: &v1::ReplaceStatusesRequest) -> Option<Command> {
    let speaker = speaker(fields, &request.unit, request.incarnation);
    let component = match &request.component {
        Some(component) => fields.part("component", component).map(Some),
        None => Some(None),
    };
    let mut set = Vec::with_capacity(request.statuses.len());
    let mut places: BTreeMap<(PartName, PartName), usize> = BTreeMap::new();
    for (n, status) in request.statuses.iter().enumerate() {
        let within = format!("statuses[{n}].");
        let Some((kind, mut status)) = new_status(fields, &within, Some(status)) else {
            continue;
        };
        if kind == Some(Kind::Push) {
            let text = "is push; a pull set holds pull statuses, report this one by itself";
            fields.note(&format!("{within}kind"), Reason::InvalidValue, text);
        }
        if let Some(Some(component)) = &component {
            if status.component == PartName::default() {
                status.component = component.clone();
            } else if status.component != *component {
                let text = format!(
                    "is {:?}, but the set is that of {component:?}; leave one of them out",
                    status.component
                );
                fields.note(&format!("{within}component"), Reason::InvalidValue, text);
            }
        }
        let place = (status.component.clone(), status.key.clone());
        if let Some(first) = places.insert(place, n) {
            let text = format!(
                "names the same component {:?} and key {:?} as statuses[{first}]; \
                 a pull set has each once",
                status.component, status.key
            );
            fields.note(&format!("statuses[{n}]"), Reason::InvalidValue, text);
        }
        set.push(status);
    }
    Some(Command::Replace(speaker?, component?, set))
}

/// `ClearStatus`.
pub fn clear(fields: &mut Fields, request: &v1::ClearStatusRequest) -> Option<Command> {
    let speaker = speaker(fields, &request.unit, request.incarnation);
    let mut part = |field: &str, text: &Option<String>| match text {
        Some(text) => fields.part(field, text).map(Some),
        None => Some(None),
    };
    let component = part("component", &request.component);
    let key = part("key", &request.key);
    let kind = fields.kind(request.kind);
    Some(Command::Clear {
        speaker: speaker?,
        component: component?,
        key: key?,
        kind: kind?,
    })
}

/// Who says to lead.
pub fn claim(fields: &mut Fields, unit: &str, lease_epoch: u64) -> Option<Claim> {
    let unit = fields.unit_or_application("unit", unit)?;
    Some(Claim { unit, lease_epoch })
}

/// `SetApplicationStatus`.
pub fn application_status(
    fields: &mut Fields,
    request: &v1::SetApplicationStatusRequest,
) -> Option<NewApplicationStatus> {
    let level = fields.level("level", request.level);
    let message = fields.text("message", &request.message, MESSAGE_BYTES_MAX);
    let reason = fields.text("reason", &request.reason, NAME_BYTES_MAX);
    let action = fields.text("action", &request.action, MESSAGE_BYTES_MAX);
    let ttl = fields.duration("ttl", request.ttl.as_ref(), TTL_MIN, TTL_MAX);
    let observe_time = fields.moment("observe_time", request.observe_time.as_ref());
    let mode = match v1::ApplicationStatusMode::try_from(request.mode) {
        Ok(v1::ApplicationStatusMode::Override) => Some(Mode::Override),
        Ok(_) => Some(Mode::Contribute),
        Err(_) => {
            let text = format!("is {}; give contribute or override", request.mode);
            fields.note("mode", Reason::InvalidValue, text);
            None
        }
    };
    Some(NewApplicationStatus {
        mode: mode?,
        level: level?,
        message: message?,
        reason: reason?,
        action: action?,
        ttl: ttl?,
        observe_time: observe_time?,
    })
}

/// The fields of a configuration that can be named in a mask.
const CONFIG_FIELDS: [&str; 5] = [
    "policy",
    "lost_units",
    "ttls",
    "serving_levels",
    "external_leader",
];

/// `ConfigureApplication`: a field that is named and absent goes back to its default.
pub fn config_patch(
    fields: &mut Fields,
    config: &v1::ApplicationConfig,
    mask: Option<&prost_types::FieldMask>,
) -> Option<ConfigPatch> {
    let present = [
        ("policy", config.policy.is_some()),
        ("lost_units", config.lost_units != 0),
        (
            "ttls.default_ttl",
            config.ttls.is_some_and(|t| t.default_ttl.is_some()),
        ),
        (
            "ttls.lost_after",
            config.ttls.is_some_and(|t| t.lost_after.is_some()),
        ),
        ("serving_levels", !config.serving_levels.is_empty()),
        ("external_leader", config.external_leader.is_some()),
    ];
    let paths: Vec<&str> = match mask {
        Some(mask) => mask.paths.iter().map(String::as_str).collect(),
        None => present
            .iter()
            .filter(|(_, present)| *present)
            .map(|(path, _)| *path)
            .collect(),
    };
    let known = |path: &str| {
        path == "*" || CONFIG_FIELDS.contains(&path) || present.iter().any(|(p, _)| *p == path)
    };
    if let Some(path) = paths.iter().find(|path| !known(path)) {
        let text = format!(
            "names {path:?}; known are {}, and *",
            CONFIG_FIELDS.join(", ")
        );
        fields.note("update_mask", Reason::InvalidValue, text);
        return None;
    }
    let named = |path: &str| {
        let parent = path.split('.').next().unwrap_or(path);
        paths
            .iter()
            .any(|p| *p == "*" || *p == path || *p == parent)
    };
    let outer = std::mem::replace(&mut fields.within, "config.".to_string());
    let patch = config_fields(fields, config, named);
    fields.within = outer;
    patch
}

fn config_fields(
    fields: &mut Fields,
    config: &v1::ApplicationConfig,
    named: impl Fn(&str) -> bool,
) -> Option<ConfigPatch> {
    let default = Config::default();
    let ttls = config.ttls.unwrap_or_default();
    let policy = match &config.policy {
        Some(given) => policy(fields, given),
        None => Some(default.policy),
    };
    let lost_units = match v1::LostUnits::try_from(config.lost_units) {
        Ok(v1::LostUnits::Unspecified) => Some(default.lost_units),
        Ok(v1::LostUnits::Ignore) => Some(LostUnits::Ignore),
        Ok(v1::LostUnits::Waiting) => Some(LostUnits::Waiting),
        Ok(v1::LostUnits::Blocked) => Some(LostUnits::Blocked),
        Err(_) => {
            fields.note(
                "lost_units",
                Reason::InvalidValue,
                "is none of the enum LostUnits",
            );
            None
        }
    };
    let no_ttl = |ttl: &prost_types::Duration| ttl.seconds == 0 && ttl.nanos == 0;
    let given = ttls.default_ttl.as_ref().filter(|ttl| !no_ttl(ttl));
    let default_ttl = fields.duration("ttls.default_ttl", given, TTL_MIN, TTL_MAX);
    let lost_after = fields.duration(
        "ttls.lost_after",
        ttls.lost_after.as_ref(),
        TTL_MIN,
        TTL_MAX,
    );
    let serving_levels = match config.serving_levels.as_slice() {
        [] => Some(default.serving_levels),
        given => levels(fields, given).map(|levels| levels.into_iter().collect()),
    };
    let external_leader = match &config.external_leader {
        Some(leader) => fields
            .unit_or_application("external_leader.unit", &leader.unit)
            .map(Some),
        None => Some(None),
    };
    Some(ConfigPatch {
        policy: Some(policy?).filter(|_| named("policy")),
        lost_units: Some(lost_units?).filter(|_| named("lost_units")),
        default_ttl: Some(default_ttl?).filter(|_| named("ttls.default_ttl")),
        lost_after: Some(lost_after?.unwrap_or(default.lost_after))
            .filter(|_| named("ttls.lost_after")),
        serving_levels: Some(serving_levels?).filter(|_| named("serving_levels")),
        external_leader: Some(external_leader?).filter(|_| named("external_leader")),
    })
}

fn policy(fields: &mut Fields, given: &v1::Policy) -> Option<Policy> {
    let custom = !given.order.is_empty() || given.name == "custom";
    match given.name.as_str() {
        "juju" => return Some(Policy::Juju),
        "openstack" => return Some(Policy::OpenStack),
        "strict" => return Some(Policy::Strict),
        "custom" | "" if custom => {}
        name => {
            let text = format!("is {name:?}; known are juju, openstack, strict, custom");
            fields.note("policy.name", Reason::InvalidValue, text);
            return None;
        }
    }
    let order: Option<Vec<Level>> = given
        .order
        .iter()
        .map(|level| fields.level("policy.order", *level))
        .collect();
    let order = order?;
    let distinct: BTreeSet<Level> = order.iter().copied().collect();
    match <[Level; LEVELS]>::try_from(order) {
        Ok(order) if distinct.len() == LEVELS => Some(Policy::Custom(order)),
        _ => {
            let text = format!("must name all {LEVELS} levels once, worst first");
            fields.note("policy.order", Reason::InvalidValue, text);
            None
        }
    }
}

/// How many applications a watch may name.
const WATCHED_NAMES_MAX: usize = 1000;

/// Longest `stable_for`.
const STABLE_FOR_MAX: Duration = Duration::from_secs(3600);

/// `WatchApplications`.
pub fn filter(
    fields: &mut Fields,
    request: &v1::WatchApplicationsRequest,
) -> Option<watch::Filter> {
    let scope = scope(fields, request);
    let min_level = match request.min_level {
        0 => Some(None),
        level => fields.level("min_level", level).map(Some),
    };
    let levels = levels(fields, &request.levels);
    let stable_for = request.stable_for.as_ref();
    let stable_for = fields.duration("stable_for", stable_for, Duration::ZERO, STABLE_FOR_MAX);
    Some(watch::Filter {
        scope: scope?,
        min_level: min_level?,
        levels: levels?,
        stable_for: stable_for?.filter(|d| !d.is_zero()),
    })
}

fn scope(fields: &mut Fields, request: &v1::WatchApplicationsRequest) -> Option<watch::Scope> {
    let namespace = fields.namespace(&request.namespace)?;
    if WATCHED_NAMES_MAX < request.applications.len() {
        let text = format!(
            "names {}; at most {WATCHED_NAMES_MAX}, or none for the whole namespace",
            request.applications.len()
        );
        fields.note("applications", Reason::InvalidValue, text);
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
