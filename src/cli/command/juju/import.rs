//! Executes a plan: sends its steps to the server.

use std::collections::{BTreeMap, BTreeSet};

use bellwether_client::{Client, Error};

use crate::cli::command::juju::document::Document;
use crate::cli::command::juju::outcome::ImportOutcome;
use crate::cli::command::juju::plan::{IMPORT, ImportStep, KnownApplication, Options, Plan, plan};
use crate::cli::context::Context;
use crate::cli::parallel::{each, unless_gone};
use crate::proto::v1::Application;

/// Imports a document into a namespace, that of its model if none is given, and returns the
/// namespace. That of a hook does not matter.
///
/// # Errors
/// The first refusal; earlier steps stay done.
pub async fn once(
    document: &Document,
    namespace: Option<&str>,
    options: Options,
    context: &Context,
) -> anyhow::Result<(String, ImportOutcome)> {
    let client = context.connect().await?;
    let namespace = namespace.unwrap_or(&document.model).to_string();
    let outcome = import(client, document, &namespace, options).await?;
    Ok((namespace, outcome))
}

/// Brings `namespace` to the state of the document.
///
/// # Errors
/// The first refusal; earlier steps stay done.
async fn import(
    client: &Client,
    document: &Document,
    namespace: &str,
    options: Options,
) -> Result<ImportOutcome, Error> {
    let known = known(client, namespace).await?;
    let plan = plan(document, namespace, &known, options);
    let Plan { steps, application_count, unit_count, notes, unshown, kept } = plan;
    // Several commits share one write to disk.
    let done =
        each(steps.into_values().collect(), async |steps| carry_out(client, steps).await.map(Some));
    let mut outcome = ImportOutcome {
        application_count,
        unit_count,
        notes,
        unshown,
        kept,
        ..ImportOutcome::default()
    };
    for (changed, removed) in done.await? {
        outcome.changed.extend(changed);
        outcome.removed.extend(removed);
    }
    // What showed a failing import ends with the failure.
    outcome.removed.remove(IMPORT);
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
        ImportStep::Lead(request) => client.call(*request).await.map(|_| true)?,
        ImportStep::ReplaceOwn(request) => client.call(request).await?.changed,
        ImportStep::ClearStatus(request) => client.call(request).await?.changed,
        // Another client may have removed the object meanwhile.
        ImportStep::RemoveUnit(request) => unless_gone(client.call(request).await)?.is_some(),
        ImportStep::Delete(request) => unless_gone(client.call(request).await)?.is_some(),
    })
}
