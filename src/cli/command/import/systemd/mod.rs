//! `bellwether import systemd`: the units of a host, as `systemctl show` prints them.
//!
//! ```text
//!  text --document--> properties of each unit --name, table--> ImportFacts
//! ```

mod document;
mod name;
mod table;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context;

use crate::cli::command::import::args::Args;
use crate::cli::command::import::facts::{
    ApplicationFacts, ImportFacts, Placed, SetFacts, UnitFacts, not_imported,
};
use crate::cli::command::import::format::Format;
use crate::cli::command::import::origin::Origin;
use crate::cli::command::import::systemd::document::SystemdUnit;
use crate::cli::command::import::systemd::name::Name;
use crate::cli::command::import::work::WorkFacts;
use crate::domain::name::UnitName;
use crate::proto::v1::StatusReport;

/// Limit of a document in bytes. That of a host with 2,000 units has some 1 MB.
const DOCUMENT_BYTES_MAX: u64 = 64 << 20;

/// What an import of systemd needs beside a document.
#[derive(clap::Args)]
pub struct SystemdArgs {
    /// The document, and how it is imported.
    #[command(flatten)]
    pub common: Args,
    /// Name of the host that the document is about [default: that of this host]
    #[arg(long, value_name = "NAME")]
    host: Option<String>,
}

/// Returns the format of `systemctl show`.
///
/// # Errors
/// A host without a name that a unit can have.
pub fn format(args: &SystemdArgs) -> anyhow::Result<Format> {
    let host = match &args.host {
        Some(host) => host.clone(),
        None => own_name()?,
    };
    UnitName::new(&host).with_context(|| {
        format!("`{host}` cannot be the name of a unit; name the host with --host")
    })?;
    let scope = host.clone();
    Ok(Format {
        origin: Origin { source: "systemd", scope: Some(scope), decides_leaders: false },
        example: "systemctl show --all -p Id,LoadState,ActiveState,SubState,Result,Type,\
                  StatusText,NRestarts,StateChangeTimestamp,UnitFileState '*.service' | \
                  bellwether import systemd",
        whole: "all units of the host",
        bytes_max: DOCUMENT_BYTES_MAX,
        own_namespace: None,
        read: Box::new(move |text| read(text, &host)),
    })
}

fn own_name() -> anyhow::Result<String> {
    let uname = rustix::system::uname();
    let name = uname.nodename().to_str().context("the host has no name in UTF-8")?;
    Ok(name.to_string())
}

/// Reads a document about `host`: each unit of systemd is a status of the host in an application
/// with the name of the unit.
///
/// # Errors
/// The line of a mistake, and what is expected there.
fn read(text: &str, host: &str) -> anyhow::Result<ImportFacts> {
    let mut applications: BTreeMap<String, ApplicationFacts> = BTreeMap::new();
    let (mut taken, mut unnamed, mut doubled) = (BTreeSet::new(), Vec::new(), Vec::new());
    for unit in document::read(text)? {
        let Some(name) = Name::of(&unit.id) else {
            unnamed.push(unit.id);
            continue;
        };
        let place = (name.application.clone(), name.component.clone(), name.key.clone());
        if !taken.insert(place) {
            doubled.push(unit.id);
            continue;
        }
        add(applications.entry(name.application.clone()).or_default(), host, &name, &unit);
    }
    let mut notes = Vec::new();
    notes.extend(not_imported("without a name that an application can have", &unnamed));
    notes.extend(not_imported("with the name of another one", &doubled));
    let applications = Placed::Together(None, applications);
    Ok(ImportFacts { applications, notes, ..ImportFacts::default() })
}

fn add(application: &mut ApplicationFacts, host: &str, name: &Name, unit: &SystemdUnit) {
    let report = StatusReport {
        key: name.key.clone(),
        action: table::action(unit),
        check: table::decided_by(unit),
        ..table::meaning(unit).since(&name.component, unit.since)
    };
    match application.units.first_mut() {
        Some(known) => known.set.statuses.push(report),
        None => {
            let set = SetFacts { component: None, statuses: vec![report] };
            let work = WorkFacts::default();
            application.units.push(UnitFacts { name: host.to_string(), set, work });
        }
    }
}
