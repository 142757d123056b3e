//! Executes a plan: sends its steps to the server.

use std::collections::{BTreeMap, BTreeSet};

use bellwether_client::{Client, Error};
use tonic::Code;

use crate::cli::command::import::describe;
use crate::cli::command::import::facts::{ApplicationPlace, ImportFacts};
use crate::cli::command::import::format::Format;
use crate::cli::command::import::known::KnownApplication;
use crate::cli::command::import::origin::Origin;
use crate::cli::command::import::outcome::{ImportOutcome, say_notes};
use crate::cli::command::import::plan::{ImportStep, Options, Plan, plan};
use crate::cli::context::{Context, print_plain};
use crate::cli::parallel::{each, unless_gone};
use crate::proto::v1::{Application, StatusRecord};

/// Imports facts, and returns their namespace, if it is a single one: that of the command line,
/// else that of their document. That of a hook does not matter.
///
/// # Errors
/// The first refusal; earlier steps stay done.
pub async fn once(
    facts: ImportFacts,
    origin: &Origin,
    options: Options,
    context: &Context,
) -> anyhow::Result<(Option<String>, ImportOutcome)> {
    let client = context.connect().await?;
    let given = context.namespace.as_deref();
    let namespace = facts.applications.namespace(given);
    let outcome = import(client, facts, origin, given, options).await?;
    Ok((namespace, outcome))
}

/// Prints what an import would change, a line for each step, and changes nothing.
///
/// # Errors
/// A server that does not answer, and what the import would keep because it is more than half.
pub async fn tried(
    facts: ImportFacts,
    format: &Format,
    options: Options,
    context: &Context,
) -> anyhow::Result<()> {
    let (origin, whole) = (&format.origin, format.whole);
    let client = context.connect().await?;
    let given = context.namespace.as_deref();
    let known = known(client, facts.applications.namespace(given), origin).await?;
    let plan = plan(facts, origin, given, &known, options);
    print_plain(&plan.steps.values().flatten().map(describe::step).collect::<String>())?;
    let outcome = outcome_of(&plan);
    say_notes(&outcome);
    outcome.check_kept(whole)
}

/// Brings the server to the state of the facts.
///
/// # Errors
/// The first refusal; earlier steps stay done.
async fn import(
    client: &Client,
    facts: ImportFacts,
    origin: &Origin,
    given: Option<&str>,
    options: Options,
) -> Result<ImportOutcome, Error> {
    let known = known(client, facts.applications.namespace(given), origin).await?;
    let plan = plan(facts, origin, given, &known, options);
    let mut outcome = outcome_of(&plan);
    // Several commits share one write to disk.
    let steps = plan.steps.into_values().collect();
    let done = each(steps, async |steps| carry_out(client, steps).await.map(Some));
    for (changed, removed) in done.await? {
        outcome.changed.extend(changed);
        outcome.removed.extend(removed);
    }
    // What showed a failing import ends with the failure.
    outcome.removed.remove(&origin.application());
    Ok(outcome)
}

/// Returns the outcome of a plan that changed nothing.
fn outcome_of(plan: &Plan) -> ImportOutcome {
    ImportOutcome {
        namespace_count: plan.namespace_count,
        application_count: plan.application_count,
        unit_count: plan.unit_count,
        notes: plan.notes.clone(),
        unshown: plan.unshown.clone(),
        kept: plan.kept.clone(),
        ..ImportOutcome::default()
    }
}

/// Returns the current state of a namespace; without one, what an earlier import left in any.
async fn known(
    client: &Client,
    namespace: Option<String>,
    origin: &Origin,
) -> Result<BTreeMap<ApplicationPlace, KnownApplication>, Error> {
    let namespace = namespace.unwrap_or_else(|| "-".to_string());
    let applications = client.list_applications(&namespace).await?;
    match client.list_statuses(&namespace, "", 0).await {
        Ok(statuses) => Ok(by_application(applications, statuses, origin)),
        // A server from before this list.
        Err(error) if error.code() == Some(Code::InvalidArgument) => {
            let known = async |application: Application| {
                let (namespace, name) = (&application.namespace, &application.name);
                let statuses = client.list_statuses(namespace, name, application.revision).await;
                let known = |all: Vec<_>| KnownApplication::from_wire(&application, &all, origin);
                Ok(unless_gone(statuses)?.map(|all| (place_of(&application), known(all))))
            };
            Ok(each(applications, known).await?.into_iter().collect())
        }
        Err(error) => Err(error),
    }
}

/// Returns the state of each application; the statuses are those of all of them.
fn by_application(
    applications: Vec<Application>,
    statuses: Vec<StatusRecord>,
    origin: &Origin,
) -> BTreeMap<ApplicationPlace, KnownApplication> {
    let mut of: BTreeMap<ApplicationPlace, Vec<StatusRecord>> = BTreeMap::new();
    for status in statuses {
        let (namespace, application) = (status.namespace.clone(), status.application.clone());
        of.entry(ApplicationPlace { namespace, application }).or_default().push(status);
    }
    let known = |application: Application| {
        let place = place_of(&application);
        let statuses = of.remove(&place).unwrap_or_default();
        let known = KnownApplication::from_wire(&application, &statuses, origin);
        (place, known)
    };
    applications.into_iter().map(known).collect()
}

fn place_of(application: &Application) -> ApplicationPlace {
    let (namespace, name) = (application.namespace.clone(), application.name.clone());
    ApplicationPlace { namespace, application: name }
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
