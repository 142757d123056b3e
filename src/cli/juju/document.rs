//! The output of `juju status --format json`, as Juju 3 and 4 print it.
//!
//! It is read field by field, not derived: unknown fields are ignored, and an error names the
//! application and the field. Any entry may be `{"status-error": "..."}` instead of its value.

use std::collections::BTreeMap;

use crate::cli::juju::json;
use crate::cli::juju::node::{DocumentError, Node};
use crate::domain::limits::NAME_BYTES_MAX;
use crate::domain::name::UnitName;
use jiff::Timestamp;
use jiff::fmt::strtime;

/// A model, from the output of `juju status`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Document {
    /// Name of the model.
    pub model: String,
    /// Applications of the model, and those of other models (SAAS), which have only a status.
    pub applications: BTreeMap<String, Application>,
    /// The offers of this model to others.
    pub offers: Vec<(String, Reading<Offer>)>,
    /// Other things that Juju could not read: a name for each, and the reason.
    pub unreadable: Vec<(String, String)>,
}

/// A value, or the reason why Juju could not read it.
pub type Reading<T> = Result<T, String>;

/// One application.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Application {
    /// The reason why Juju could not read the application; its units are unknown then.
    pub unreadable: Option<String>,
    /// The status of the application as a whole; absent if none was ever set.
    pub status: Option<Reading<Status>>,
    /// Its units, in natural order; subordinates are units of their own application.
    pub units: Vec<Unit>,
}

/// One unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unit {
    /// `web/0`.
    pub name: String,
    /// Whether the unit is the leader.
    pub leader: bool,
    /// Its statuses.
    pub statuses: Reading<UnitStatuses>,
}

/// The statuses of a unit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UnitStatuses {
    /// The status of the workload.
    pub workload: Option<Reading<Status>>,
    /// The status of the agent that runs the workload.
    pub agent: Option<Reading<Status>>,
}

/// One status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// Juju's word for the status.
    pub current: String,
    /// The text for a person.
    pub message: String,
    /// The time of the last change.
    pub since: Option<Timestamp>,
}

/// An application that is offered to other models.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Offer {
    /// The application; may be empty.
    pub application: String,
    /// Relations to the offer.
    pub total_connected: u64,
    /// Relations to the offer that are in use.
    pub active_connected: u64,
}

/// Reads a whole document.
///
/// # Errors
/// The first value that Juju would not write like this.
pub fn read(text: &str) -> Result<Document, DocumentError> {
    let value = json::read(text).map_err(|error| DocumentError::NotJson(error.to_string()))?;
    let root = Node::root(&value);
    let model = root.required("model")?;
    let mut document = Document {
        model: model.required("name").and_then(|_| model.text("name"))?.to_string(),
        ..Document::default()
    };
    if let Some(status) = model.get("model-status")?
        && let Some(text) = status_error(&status)?
    {
        document.unreadable.push(("the model".to_string(), text));
    }
    for (name, machine) in root.entries("machines")? {
        if let Some(text) = status_error(&machine)? {
            document.unreadable.push((format!("machine {name}"), text));
        }
    }
    root.required("applications")?;
    for (name, node) in root.entries("applications")? {
        read_application(&mut document, name, &node)?;
    }
    for (name, node) in root.entries("application-endpoints")? {
        read_remote(&mut document, name, &node)?;
    }
    for (name, node) in root.entries("offers")? {
        document.offers.push((name.to_string(), read_offer(&node)?));
    }
    for application in document.applications.values_mut() {
        application.units.sort_by_cached_key(|unit| UnitName::new(&unit.name).ok());
        application.units.dedup_by(|a, b| a.name == b.name);
    }
    Ok(document)
}

fn read_application(
    document: &mut Document,
    name: &str,
    node: &Node<'_>,
) -> Result<(), DocumentError> {
    check_name(name, false, node)?;
    let status = reading(node, || read_status(node, "application-status"))?;
    // A subordinate of this application may have come first and created it.
    let application = document.applications.entry(name.to_string()).or_default();
    match status {
        Ok(status) => application.status = status,
        Err(text) => application.unreadable = Some(text),
    }
    for (unit, node) in node.entries("units")? {
        read_unit(document, unit, &node)?;
    }
    Ok(())
}

/// Adds a unit to the application in its name, wherever the document lists it.
fn read_unit(document: &mut Document, name: &str, node: &Node<'_>) -> Result<(), DocumentError> {
    check_name(name, true, node)?;
    let application = name.split('/').next().unwrap_or_default();
    let statuses = reading(node, || {
        let workload = read_status(node, "workload-status")?;
        Ok(UnitStatuses { workload, agent: read_status(node, "juju-status")? })
    })?;
    let unit = Unit { name: name.to_string(), leader: node.flag("leader")?, statuses };
    let application = document.applications.entry(application.to_string()).or_default();
    application.units.push(unit);
    for (subordinate, node) in node.entries("subordinates")? {
        read_unit(document, subordinate, &node)?;
    }
    Ok(())
}

/// Adds an application of another model, of which the document has only the status.
fn read_remote(document: &mut Document, name: &str, node: &Node<'_>) -> Result<(), DocumentError> {
    check_name(name, false, node)?;
    let status = reading(node, || read_status(node, "application-status"))?;
    let status = status.unwrap_or_else(|text| Some(Err(text)));
    let remote = document.applications.entry(name.to_string()).or_default();
    remote.status = remote.status.take().or(status);
    Ok(())
}

fn read_offer(node: &Node<'_>) -> Result<Reading<Offer>, DocumentError> {
    reading(node, || {
        Ok(Offer {
            application: node.text("application")?.to_string(),
            total_connected: node.count("total-connected-count")?,
            active_connected: node.count("active-connected-count")?,
        })
    })
}

fn read_status(node: &Node<'_>, key: &str) -> Result<Option<Reading<Status>>, DocumentError> {
    let Some(status) = node.get(key)? else { return Ok(None) };
    if let Some(text) = status_error(&status)? {
        return Ok(Some(Err(text)));
    }
    let current = status.text("current")?;
    // The leader of the application never set a status.
    if current.is_empty() || current == "unset" {
        return Ok(None);
    }
    Ok(Some(Ok(Status {
        current: current.to_string(),
        message: status.text("message")?.to_string(),
        since: read_time(&status, "since")?,
    })))
}

/// Reads an entry, unless Juju could not.
fn reading<T>(
    node: &Node<'_>,
    read: impl FnOnce() -> Result<T, DocumentError>,
) -> Result<Reading<T>, DocumentError> {
    match status_error(node)? {
        Some(text) => Ok(Err(text)),
        None => read().map(Ok),
    }
}

fn status_error(node: &Node<'_>) -> Result<Option<String>, DocumentError> {
    let text = node.text("status-error")?;
    Ok((!text.is_empty()).then(|| text.to_string()))
}

fn read_time(node: &Node<'_>, key: &str) -> Result<Option<Timestamp>, DocumentError> {
    let text = node.text(key)?;
    if text.is_empty() {
        return Ok(None);
    }
    parse_time(text)
        .map(Some)
        .ok_or_else(|| DocumentError::BadTime { place: node.place_of(key), text: text.to_string() })
}

/// Parses `24 Feb 2025 12:02:57+13:00`, the same with `Z` (`juju status --utc`), or RFC 3339.
fn parse_time(text: &str) -> Option<Timestamp> {
    let with_zone = |local| format!("{local}+00:00");
    let of_juju = text.strip_suffix('Z').map_or_else(|| text.to_string(), with_zone);
    let parts = || strtime::parse("%d %b %Y %H:%M:%S%:z", of_juju).ok();
    text.parse().ok().or_else(|| parts()?.to_timestamp().ok())
}

/// Checks a name before the first call, so that the server does not refuse the second half of an
/// import.
fn check_name(name: &str, is_unit: bool, node: &Node<'_>) -> Result<(), DocumentError> {
    let mut parts = name.splitn(2, '/');
    let allowed = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_alphanumeric())
            && part.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c))
    };
    let application = parts.next().is_some_and(allowed);
    let unit = parts.next().map(allowed);
    let fits = name.len() <= NAME_BYTES_MAX;
    if fits && application && unit == is_unit.then_some(true) {
        return Ok(());
    }
    Err(DocumentError::BadName {
        place: node.place(),
        name: name.to_string(),
        expected: if is_unit { "the name of a unit" } else { "the name of an application" },
    })
}
