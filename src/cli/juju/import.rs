//! Executes a plan: sends its steps to the server.

use std::collections::{BTreeMap, BTreeSet};

use bellwether_client::{Client, Error};
use futures_util::{StreamExt, TryStreamExt, stream};

use crate::cli::juju::document::Document;
use crate::cli::juju::plan::{ImportStep, KnownUnits, Plan, plan};
use crate::proto::v1::Application;

/// Applications imported at once: several commits share one write to disk.
const APPLICATIONS_MAX: usize = 16;

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
    let done: Vec<(BTreeSet<String>, BTreeSet<String>)> = stream::iter(steps.into_values())
        .map(|steps| carry_out(client, steps))
        .buffer_unordered(APPLICATIONS_MAX)
        .try_collect()
        .await?;
    let (changed, removed): (Vec<_>, Vec<_>) = done.into_iter().unzip();
    Ok(ImportOutcome {
        application_count,
        unit_count,
        changed: changed.into_iter().flatten().collect(),
        removed: removed.into_iter().flatten().collect(),
        notes,
    })
}

/// Returns the current state of the namespace.
async fn known(client: &Client, namespace: &str) -> Result<BTreeMap<String, KnownUnits>, Error> {
    let applications = client.list_applications(namespace).await?;
    let known = async |application: Application| {
        let (namespace, name) = (&application.namespace, &application.name);
        let statuses = client.list_statuses(namespace, name, application.revision).await;
        let known = unless_gone(statuses)?.map(|all| KnownUnits::from_wire(&application, &all));
        Ok(known.map(|known| (application.name, known)))
    };
    let known: Vec<Option<(String, KnownUnits)>> = stream::iter(applications)
        .map(known)
        .buffer_unordered(APPLICATIONS_MAX)
        .try_collect()
        .await?;
    Ok(known.into_iter().flatten().collect())
}

/// Executes the steps of one application in order; returns the names that changed and those that
/// were removed.
async fn carry_out(
    client: &Client,
    steps: Vec<ImportStep>,
) -> Result<(BTreeSet<String>, BTreeSet<String>), Error> {
    let (mut changed, mut removed) = (BTreeSet::new(), BTreeSet::new());
    for step in steps {
        let names = match step {
            ImportStep::RemoveUnit(_) | ImportStep::Delete(_) => &mut removed,
            _ => &mut changed,
        };
        names.extend(take(client, step).await?);
    }
    Ok((changed, removed))
}

/// Makes one call; returns the name of the application or unit if it had an effect.
async fn take(client: &Client, step: ImportStep) -> Result<Option<String>, Error> {
    let (mut applications, mut reports) = (client.applications(), client.reports());
    Ok(match step {
        ImportStep::Replace(request) => {
            let unit = request.unit.clone();
            let answer = reports.replace_statuses(client.request(request)).await;
            client.answer(answer)?.changed.then_some(unit)
        }
        ImportStep::Lead(request) => {
            let application = request.application.clone();
            let answer = applications.configure_application(client.request(request)).await;
            client.answer(answer)?;
            Some(application)
        }
        ImportStep::SetStatus(request) => {
            let application = request.application.clone();
            let answer = applications.set_application_status(client.request(request)).await;
            client.answer(answer)?.changed.then_some(application)
        }
        ImportStep::ClearStatus(request) => {
            let application = request.application.clone();
            let answer = applications.clear_application_status(client.request(request)).await;
            client.answer(answer)?.changed.then_some(application)
        }
        ImportStep::RemoveUnit(request) => {
            let unit = request.unit.clone();
            let answer = applications.remove_unit(client.request(request)).await;
            unless_gone(client.answer(answer))?.map(|_| unit)
        }
        ImportStep::Delete(request) => {
            let application = request.application.clone();
            let answer = applications.delete_application(client.request(request)).await;
            unless_gone(client.answer(answer))?.map(|_| application)
        }
    })
}

/// Accepts that another client has removed the object meanwhile.
fn unless_gone<T>(answer: Result<T, Error>) -> Result<Option<T>, Error> {
    match answer {
        Err(error) if error.is_not_found() => Ok(None),
        answer => answer.map(Some),
    }
}
