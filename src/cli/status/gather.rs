//! Collects the data of the overview: applications, their units, their actions.

use bellwether_client::{Client, Error};
use futures_util::{StreamExt, TryStreamExt, stream};

use crate::cli::context::say;
use crate::cli::render;
use crate::cli::render::status::ApplicationView;
use crate::cli::silence::level_of;
use crate::proto::v1::{
    Application, ExplainApplicationRequest, ExplainApplicationResponse, GetApplicationRequest,
    Level, ListApplicationsRequest,
};

/// Calls under way at once: enough to hide the round trip, few enough to leave capacity for others.
const CALLS_MAX: usize = 16;

/// Applications that are searched for namespaces, and namespaces that are named.
const NAMESPACES_OF_MAX: i32 = 1_000;
const NAMESPACES_MAX: usize = 5;

/// A contribution with an action is among the strongest; `why --limit` shows the rest.
const CONTRIBUTIONS_MAX: i32 = 200;

/// Returns the applications of a namespace, or those of `names` that exist.
pub async fn applications(
    client: &Client,
    namespace: &str,
    names: Option<Vec<String>>,
) -> Result<Vec<Application>, Error> {
    let Some(names) = names else {
        return client.list_applications(namespace).await;
    };
    let found: Vec<Option<Application>> = stream::iter(names)
        .map(|name| application(client, namespace, name))
        .buffered(CALLS_MAX)
        .try_collect()
        .await?;
    Ok(found.into_iter().flatten().collect())
}

/// Returns some namespaces that have applications, in order.
pub async fn namespaces(client: &Client) -> Result<Vec<String>, Error> {
    let request = client.request(ListApplicationsRequest {
        namespace: "-".to_string(),
        page_size: NAMESPACES_OF_MAX,
        ..ListApplicationsRequest::default()
    });
    let answer = client.answer(client.applications().list_applications(request).await)?;
    let mut names: Vec<String> = answer.applications.into_iter().map(|a| a.namespace).collect();
    names.dedup();
    names.truncate(NAMESPACES_MAX);
    Ok(names)
}

async fn application(
    client: &Client,
    namespace: &str,
    name: String,
) -> Result<Option<Application>, Error> {
    let request = client.request(GetApplicationRequest {
        namespace: namespace.to_string(),
        application: name,
        ..GetApplicationRequest::default()
    });
    let answer = client.answer(client.applications().get_application(request).await);
    Ok(unless_gone(answer)?.and_then(|found| found.application))
}

/// Returns each application with its units and statuses, without those deleted meanwhile.
pub async fn views(
    client: &Client,
    applications: Vec<Application>,
    wide: bool,
) -> Result<Vec<ApplicationView>, Error> {
    let views: Vec<Option<ApplicationView>> = stream::iter(applications)
        .map(|application| view(client, application, wide))
        .buffered(CALLS_MAX)
        .try_collect()
        .await?;
    Ok(views.into_iter().flatten().collect())
}

/// Returns an application with its units. If something is to be done or under way, its
/// contributions are included; for a wide table, its statuses.
pub async fn view(
    client: &Client,
    application: Application,
    wide: bool,
) -> Result<Option<ApplicationView>, Error> {
    let (namespace, name) = (&application.namespace, &application.name);
    let revision = application.revision;
    let units = unless_too_large(client.list_units(namespace, name, revision).await, name, "units");
    let Some(units) = unless_gone(units)? else {
        return Ok(None);
    };
    let why = match is_quiet(&application) {
        true => ExplainApplicationResponse::default(),
        false => {
            let why = explain(client, &application).await;
            unless_gone(unless_too_large(why, name, "explanation"))?.unwrap_or_default()
        }
    };
    let statuses = match wide {
        true => {
            let statuses = client.list_statuses(namespace, name, revision).await;
            unless_gone(unless_too_large(statuses, name, "statuses"))?
        }
        false => None,
    };
    Ok(Some(ApplicationView {
        application,
        units,
        statuses: statuses.unwrap_or_default(),
        contributions: why.winner.into_iter().chain(why.beaten).collect(),
        operations: why.operations.into_iter().filter(render::operation::is_open).collect(),
    }))
}

/// Whether no person has to act, and nothing is under way.
fn is_quiet(application: &Application) -> bool {
    let status = application.status.clone().unwrap_or_default();
    level_of(application) == Level::Active && status.action_count == 0 && status.flapping_count == 0
}

async fn explain(
    client: &Client,
    application: &Application,
) -> Result<ExplainApplicationResponse, Error> {
    let request = client.request(ExplainApplicationRequest {
        namespace: application.namespace.clone(),
        application: application.name.clone(),
        page_size: CONTRIBUTIONS_MAX,
        min_revision: application.revision,
    });
    client.answer(client.applications().explain_application(request).await)
}

/// Leaves out a result that is too large, with a message, so that the rest is shown.
fn unless_too_large<T: Default>(
    answer: Result<T, Error>,
    application: &str,
    what: &str,
) -> Result<T, Error> {
    match answer {
        Err(error) if error.is_too_large() => {
            say(&format!("{application}: {what} left out: {error}"));
            Ok(T::default())
        }
        answer => answer,
    }
}

fn unless_gone<T>(answer: Result<T, Error>) -> Result<Option<T>, Error> {
    match answer {
        Err(error) if error.is_not_found() => Ok(None),
        answer => answer.map(Some),
    }
}
