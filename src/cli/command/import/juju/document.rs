//! The output of `juju status --format json`, as Juju 3 and 4 print it.
//!
//! It is read field by field, not derived: unknown fields are ignored, and an error names the
//! application and the field. Any entry may be `{"status-error": "..."}` instead of its value.

use std::collections::BTreeMap;

use crate::cli::command::import::json;
use crate::cli::command::import::juju::account::Counts;
use crate::cli::command::import::juju::node::{DocumentError, Node};
use crate::cli::command::import::juju::status::{
    Reading, Status, read_life, read_meter, read_status, reading,
};
use crate::cli::command::import::juju::surroundings::{
    Machine, Stored, read_machines, read_storage,
};
use crate::domain::limits::NAME_BYTES_MAX;
use crate::domain::name::UnitName;

/// A model, from the output of `juju status`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Document {
    /// Name of the model.
    pub model: String,
    /// Applications of the model, and those of other models (SAAS), which have only a status.
    pub applications: BTreeMap<String, Application>,
    /// The offers of this model to others.
    pub offers: Vec<(String, Reading<Offer>)>,
    /// The status of the model as a whole.
    pub status: Option<Reading<Status>>,
    /// The machines and their containers, by their ids such as `4/lxd/0`.
    pub machines: BTreeMap<String, Reading<Machine>>,
    /// What is stored for units.
    pub storage: Vec<Stored>,
    /// Number of facts that are not in this structure.
    pub unread: Counts,
}

/// One application.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Application {
    /// The reason why Juju could not read the application; its units are unknown then.
    pub unreadable: Option<String>,
    /// The status of the application as a whole; absent if none was ever set.
    pub status: Option<Reading<Status>>,
    /// Its units, in natural order; subordinates are units of their own application.
    pub units: Vec<Unit>,
    /// The number of units that are wanted, on Kubernetes.
    pub scale: Option<u64>,
    /// `dying` or `dead`, if it is being removed.
    pub life: Option<String>,
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
    /// The color of its meter as a word, with the message.
    pub meter: Option<Reading<Status>>,
    /// `dying` or `dead`, if it is being removed.
    pub life: Option<String>,
    /// The id of its machine; empty if it has none.
    pub machine: String,
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
        status: read_status(&model, "model-status")?,
        ..Document::default()
    };
    read_machines(&root, &mut document.machines)?;
    document.storage = read_storage(&root)?;
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
    document.unread = root.unread();
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
    application.life = read_life(node)?;
    application.scale = node.has("scale")?.then(|| node.count("scale")).transpose()?;
    for (unit, node) in node.entries("units")? {
        read_unit(document, unit, "", &node)?;
    }
    Ok(())
}

/// Adds a unit to the application in its name, wherever the document lists it. A subordinate runs
/// on the machine of its principal.
fn read_unit(
    document: &mut Document,
    name: &str,
    machine: &str,
    node: &Node<'_>,
) -> Result<(), DocumentError> {
    check_name(name, true, node)?;
    let application = name.split('/').next().unwrap_or_default();
    let own = node.text("machine")?;
    let machine = if own.is_empty() { machine } else { own };
    let statuses = reading(node, || {
        Ok(UnitStatuses {
            workload: read_status(node, "workload-status")?,
            agent: read_status(node, "juju-status")?,
            meter: read_meter(node)?,
            life: read_life(node)?,
            machine: machine.to_string(),
        })
    })?;
    let unit = Unit { name: name.to_string(), leader: node.flag("leader")?, statuses };
    let application = document.applications.entry(application.to_string()).or_default();
    application.units.push(unit);
    for (subordinate, node) in node.entries("subordinates")? {
        read_unit(document, subordinate, machine, &node)?;
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
