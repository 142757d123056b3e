//! Collects what the overview shows: applications, their units, what they ask for.

use futures_util::StreamExt;
use futures_util::TryStreamExt;
use futures_util::stream;

use crate::cli::natural;
use crate::cli::render::status::ApplicationView;
use crate::client::Client;
use crate::client::Error;
use crate::proto::v1::Application;
use crate::proto::v1::GetApplicationRequest;

/// Calls under way at once: enough to hide the round trip, few enough to leave room for others.
const CALLS_MAX: usize = 16;

/// The applications of a namespace, or those of `names` that exist.
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

/// Each application with its units and statuses. One that is deleted meanwhile is left out.
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

/// An application with its units; with its statuses if one asks for an action, or all are wanted.
pub async fn view(
    client: &Client,
    application: Application,
    wide: bool,
) -> Result<Option<ApplicationView>, Error> {
    let (namespace, name) = (&application.namespace, &application.name);
    let revision = application.revision;
    let Some(mut units) = unless_gone(client.list_units(namespace, name, revision).await)? else {
        return Ok(None);
    };
    units.sort_by(|a, b| natural::compare(&a.name, &b.name));
    let asks = application.status.as_ref().is_some_and(|s| 0 < s.action_count);
    let statuses = if wide || asks {
        unless_gone(client.list_statuses(namespace, name, revision).await)?.unwrap_or_default()
    } else {
        Vec::new()
    };
    Ok(Some(ApplicationView { application, units, statuses }))
}

fn unless_gone<T>(answer: Result<T, Error>) -> Result<Option<T>, Error> {
    match answer {
        Err(error) if error.is_not_found() => Ok(None),
        answer => answer.map(Some),
    }
}
