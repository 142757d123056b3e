//! What the units of a model run on: machines with their containers, and storage.

use std::collections::BTreeMap;

use crate::cli::command::import::juju::node::{DocumentError, Node};
use crate::cli::command::import::juju::status::{Reading, Status, read_life, read_status, reading};
use crate::cli::command::import::juju::word::Part;
use crate::domain::name::PartName;

/// A machine, or a container on one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Machine {
    /// Its statuses, with what each of them is about.
    pub statuses: Vec<(Part, Reading<Status>)>,
    /// `dying` or `dead`, if it is being removed.
    pub life: Option<String>,
}

/// Storage, a filesystem or a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// `storage`, `filesystem` or `volume`.
    pub kind: &'static str,
    /// Its name, such as `data/0`.
    pub name: String,
    /// Its status.
    pub status: Option<Reading<Status>>,
    /// `dying` or `dead`, if it is being removed.
    pub life: Option<String>,
    /// The units that it is attached to.
    pub units: Vec<String>,
}

/// Reads the machines below a value, with the containers on each.
///
/// # Errors
/// The first value that Juju would not write like this.
pub fn read_machines(
    node: &Node<'_>,
    machines: &mut BTreeMap<String, Reading<Machine>>,
) -> Result<(), DocumentError> {
    read_level(node, "machines", machines)
}

fn read_level(
    node: &Node<'_>,
    key: &str,
    machines: &mut BTreeMap<String, Reading<Machine>>,
) -> Result<(), DocumentError> {
    for (id, node) in node.entries(key)? {
        check_key(id, &node, "the id of a machine")?;
        let machine = reading(&node, || {
            let mut statuses = Vec::new();
            for part in [Part::Instance, Part::MachineAgent, Part::Modification] {
                let status = read_status(&node, part.field())?;
                statuses.extend(status.map(|status| (part, status)));
            }
            Ok(Machine { statuses, life: read_life(&node)? })
        })?;
        machines.insert(id.to_string(), machine);
        read_level(&node, "containers", machines)?;
    }
    Ok(())
}

/// Reads the storage of the model.
///
/// # Errors
/// The first value that Juju would not write like this.
pub fn read_storage(root: &Node<'_>) -> Result<Vec<Stored>, DocumentError> {
    let mut all = Vec::new();
    let Some(storage) = root.get("storage")? else { return Ok(all) };
    for (key, kind) in
        [("storage", "storage"), ("filesystems", "filesystem"), ("volumes", "volume")]
    {
        for (name, node) in storage.entries(key)? {
            check_key(name, &node, "the name of storage")?;
            let attachments = node.get("attachments")?;
            let units = attachments.map(|all| all.entries("units")).transpose()?;
            let units = units.unwrap_or_default().into_iter().map(|(unit, _)| unit.to_string());
            let status = match reading(&node, || read_status(&node, "status"))? {
                Ok(status) => status,
                Err(text) => Some(Err(text)),
            };
            all.push(Stored {
                kind,
                name: name.to_string(),
                status,
                life: read_life(&node)?,
                units: units.collect(),
            });
        }
    }
    Ok(all)
}

/// Checks what becomes the key of a status, before the first call.
fn check_key(name: &str, node: &Node<'_>, expected: &'static str) -> Result<(), DocumentError> {
    // `filesystem/` and `/modification` are added to it.
    let fits = PartName::new(&format!("filesystem/{name}")).is_ok() && !name.is_empty();
    let name = name.to_string();
    fits.then_some(()).ok_or_else(|| DocumentError::BadName { place: node.place(), name, expected })
}
