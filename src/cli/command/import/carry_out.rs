//! Executes a plan: sends its steps to the server.

use std::collections::{BTreeMap, BTreeSet};

use bellwether_client::{Client, Error};

use crate::cli::command::import::describe;
use crate::cli::command::import::facts::ImportFacts;
use crate::cli::command::import::origin::Origin;
use crate::cli::command::import::outcome::ImportOutcome;
use crate::cli::command::import::plan::{ImportStep, KnownApplication, Options, Plan, plan};
use crate::cli::context::{Context, say};
use crate::cli::exit::Exit;
use crate::cli::parallel::{each, unless_gone};
use crate::proto::v1::Application;

/// Imports facts, and returns the namespace: that of the command line, else that of their
/// document. That of a hook does not matter.
///
/// # Errors
/// The first refusal; earlier steps stay done.
pub async fn once(
    facts: ImportFacts,
    origin: &Origin,
    options: Options,
    context: &Context,
) -> anyhow::Result<(String, ImportOutcome)> {
    let client = context.connect().await?;
    let namespace = namespace_of(&facts, context);
    let outcome = import(client, facts, origin, &namespace, options).await?;
    Ok((namespace, outcome))
}

/// Prints what an import would change, a line for each step, and changes nothing.
///
/// # Errors
/// What is kept because it is more than half of what was imported; a server that does not answer.
pub async fn tried(
    facts: ImportFacts,
    origin: &Origin,
    options: Options,
    context: &Context,
) -> anyhow::Result<Exit> {
    let client = context.connect().await?;
    let namespace = namespace_of(&facts, context);
    let known = known(client, &namespace, origin).await?;
    let plan = plan(facts, origin, &namespace, &known, options);
    let lines: String = plan.steps.values().flatten().map(describe::step).collect();
    print!("{lines}");
    let notes = plan.notes.iter().chain(&plan.unshown);
    notes.for_each(|note| say(&format!("note: {note}")));
    Ok(Exit::Ok)
}

fn namespace_of(facts: &ImportFacts, context: &Context) -> String {
    let given = context.namespace.clone().or_else(|| facts.namespace.clone());
    given.unwrap_or_else(|| "default".to_string())
}

/// Brings `namespace` to the state of the facts.
///
/// # Errors
/// The first refusal; earlier steps stay done.
async fn import(
    client: &Client,
    facts: ImportFacts,
    origin: &Origin,
    namespace: &str,
    options: Options,
) -> Result<ImportOutcome, Error> {
    let known = known(client, namespace, origin).await?;
    let plan = plan(facts, origin, namespace, &known, options);
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
    outcome.removed.remove(&origin.application());
    Ok(outcome)
}

/// Returns the current state of the namespace.
async fn known(
    client: &Client,
    namespace: &str,
    origin: &Origin,
) -> Result<BTreeMap<String, KnownApplication>, Error> {
    let known = async |application: Application| {
        let (namespace, name) = (&application.namespace, &application.name);
        let statuses = client.list_statuses(namespace, name, application.revision).await;
        let known = |all: Vec<_>| KnownApplication::from_wire(&application, &all, origin);
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
        let name = step.name();
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
