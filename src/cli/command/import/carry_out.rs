//! Executes a plan: sends its steps to the server.

use std::collections::{BTreeMap, BTreeSet};

use bellwether_client::proto::OfUnit;
use bellwether_client::{Client, Error};
use tonic::Code;

use crate::cli::command::import::describe;
use crate::cli::command::import::facts::{ApplicationPlace, ImportFacts};
use crate::cli::command::import::format::Format;
use crate::cli::command::import::known::KnownApplication;
use crate::cli::command::import::origin::Origin;
use crate::cli::command::import::outcome::{ImportOutcome, say_notes};
use crate::cli::command::import::plan::{Options, Plan, plan};
use crate::cli::command::import::step::{ImportStep, WorkCall};
use crate::cli::context::{Context, print_plain};
use crate::cli::parallel::{each, unless_gone};
use crate::proto::v1::{
    Application, BeginOperationRequest, HeartbeatOperationRequest, ReleaseOperationRequest,
    StatusRecord,
};

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
    let known = state_before(client, &facts, origin, given).await?;
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
    let known = state_before(client, &facts, origin, given).await?;
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

/// Returns the current state of the server, with the operations of what has work that is recorded,
/// or is to be.
async fn state_before(
    client: &Client,
    facts: &ImportFacts,
    origin: &Origin,
    given: Option<&str>,
) -> Result<BTreeMap<ApplicationPlace, KnownApplication>, Error> {
    let mut known = known(client, facts.applications.namespace(given), origin).await?;
    let has_record =
        |known: &KnownApplication| known.units.values().any(|u| u.recorded().is_some());
    let mut places = facts.applications.with_work_cut_off(given);
    places.extend(known.iter().filter(|(_, k)| has_record(k)).map(|(place, _)| place.clone()));
    let list = async |place: ApplicationPlace| {
        let listed = client.list_operations(&place.namespace, &place.application).await;
        Ok(unless_gone(listed)?.map(|operations| (place, operations)))
    };
    for (place, operations) in each(places.into_iter().collect(), list).await? {
        known.entry(place).or_default().operations = operations;
    }
    Ok(known)
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
        ImportStep::Work(step) => unless_changed(change(client, step.operation).await)?,
    })
}

/// Changes the operation of a unit.
async fn change(client: &Client, operation: WorkCall) -> Result<bool, Error> {
    match operation {
        WorkCall::Record(request, progress) => record(client, *request, progress).await,
        WorkCall::Complete(request) => client.call(request).await.map(|_| true),
        WorkCall::Cancel(request) => client.call(request).await.map(|_| true),
    }
}

/// Records work that was cut off: an import that ends in between leaves a lease, which lapses.
async fn record(
    client: &Client,
    request: BeginOperationRequest,
    progress: String,
) -> Result<bool, Error> {
    let BeginOperationRequest { namespace, application, unit, operation_id, .. } = request.clone();
    let answer = client.call(request).await?;
    if !answer.begun {
        return Ok(false);
    }
    let fence = answer.operation.map_or(0, |operation| operation.fence);
    let progress = Some(progress);
    let heartbeat = HeartbeatOperationRequest {
        operation_id: operation_id.clone(),
        fence,
        progress,
        ..OfUnit::of_unit(&namespace, &application, &unit)
    };
    client.call(heartbeat).await?;
    let of_unit: ReleaseOperationRequest = OfUnit::of_unit(&namespace, &application, &unit);
    client.call(ReleaseOperationRequest { operation_id, fence, ..of_unit }).await?;
    Ok(true)
}

/// Returns whether a call about an operation had an effect. One that another client changed
/// meanwhile is left to the next import.
fn unless_changed(done: Result<bool, Error>) -> Result<bool, Error> {
    const MEANWHILE: [&str; 5] =
        ["OPERATION_HELD", "RESUME_FIRST", "OPERATION_STATE", "STALE_FENCE", "OPERATION_NOT_FOUND"];
    match done {
        Err(error) if error.reason().is_some_and(|reason| MEANWHILE.contains(&reason)) => Ok(false),
        done => done,
    }
}
