//! Executes a plan: sends its steps to the server.

use std::collections::{BTreeMap, BTreeSet};

use bellwether_client::{Client, Error};

use crate::cli::juju::document::Document;
use crate::cli::juju::plan::{ImportStep, KnownApplication, Plan, plan};
use crate::cli::parallel::{each, unless_gone};
use crate::proto::v1::Application;

/// The result of an import.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImportOutcome {
    /// Applications in the document.
    pub application_count: usize,
    /// Units in the document.
    pub unit_count: usize,
    /// Applications and units that changed.
    pub changed: BTreeSet<String>,
    /// Applications and units that were removed.
    pub removed: BTreeSet<String>,
    /// Facts of the document that have no place in a status.
    pub notes: Vec<String>,
}

/// Brings `namespace` to the state of the document.
///
/// # Errors
/// The first refusal; earlier steps stay done.
pub async fn import(
    client: &Client,
    document: &Document,
    namespace: &str,
) -> Result<ImportOutcome, Error> {
    let known = known(client, namespace).await?;
    let Plan { steps, application_count, unit_count, notes } = plan(document, namespace, &known);
    // Several commits share one write to disk.
    let done =
        each(steps.into_values().collect(), async |steps| carry_out(client, steps).await.map(Some));
    let mut outcome = ImportOutcome { application_count, unit_count, notes, ..Default::default() };
    for (changed, removed) in done.await? {
        outcome.changed.extend(changed);
        outcome.removed.extend(removed);
    }
    Ok(outcome)
}

/// Returns the current state of the namespace.
async fn known(
    client: &Client,
    namespace: &str,
) -> Result<BTreeMap<String, KnownApplication>, Error> {
    let known = async |application: Application| {
        let (namespace, name) = (&application.namespace, &application.name);
        let statuses = client.list_statuses(namespace, name, application.revision).await;
        let known = |all: Vec<_>| KnownApplication::from_wire(&application, &all);
        Ok(unless_gone(statuses)?.map(|all| (name.clone(), known(all))))
    };
    let applications = client.list_applications(namespace).await?;
    Ok(each(applications, known).await?.into_iter().collect())
}

/// Executes the steps of one application in order; returns the names that changed and those that
/// were removed.
async fn carry_out(
    client: &Client,
    steps: Vec<ImportStep>,
) -> Result<(BTreeSet<String>, BTreeSet<String>), Error> {
    let (mut changed, mut removed) = (BTreeSet::new(), BTreeSet::new());
    for step in steps {
        let name = step.name().to_string();
        let names = match step {
            ImportStep::RemoveUnit(_) | ImportStep::Delete(_) => &mut removed,
            _ => &mut changed,
        };
        if take(client, step).await? {
            names.insert(name);
        }
    }
    Ok((changed, removed))
}

/// Makes one call; returns whether it had an effect.
async fn take(client: &Client, step: ImportStep) -> Result<bool, Error> {
    Ok(match step {
        ImportStep::Replace(request) => client.call(request).await?.changed,
        ImportStep::Lead(request) => client.call(request).await.map(|_| true)?,
        ImportStep::SetStatus(request) => client.call(request).await?.changed,
        ImportStep::ClearStatus(request) => client.call(request).await?.changed,
        // Another client may have removed the object meanwhile.
        ImportStep::RemoveUnit(request) => unless_gone(client.call(request).await)?.is_some(),
        ImportStep::Delete(request) => unless_gone(client.call(request).await)?.is_some(),
    })
}
