//! Collects the data of the overview: applications, their units, their actions.

use bellwether_client::proto::OfApplication;
use bellwether_client::{Client, Error};

use crate::cli::context::say;
use crate::cli::parallel::{each, unless_gone};
use crate::cli::render;
use crate::cli::render::status::ApplicationView;
use crate::proto::v1::{
    Application, ExplainApplicationRequest, ExplainApplicationResponse, GetApplicationRequest,
    Level,
};
use crate::service::severity::level_of;

/// A contribution with an action is among the strongest; `why --limit` shows the rest.
const CONTRIBUTIONS_MAX: i32 = 200;

/// Returns the applications of a namespace, or those of `names` that exist.
pub async fn applications(
    client: &Client,
    namespace: &str,
    names: Option<Vec<String>>,
) -> Result<Vec<Application>, Error> {
    let Some(names) = names else { return client.list_applications(namespace).await };
    let call = async |name: String| {
        let request = GetApplicationRequest::of_application(namespace, &name);
        Ok(unless_gone(client.call(request).await)?.and_then(|found| found.application))
    };
    each(names, call).await
}

/// Returns each application with its units and statuses, without those deleted meanwhile.
pub async fn views(
    client: &Client,
    applications: Vec<Application>,
    wide: bool,
) -> Result<Vec<ApplicationView>, Error> {
    each(applications, |application| view(client, application, wide)).await
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
    let Some(units) = unless_gone(units)? else { return Ok(None) };
    let mut why = None;
    if !is_quiet(&application) {
        let explained = explain(client, &application).await;
        why = unless_gone(unless_too_large(explained, name, "explanation"))?;
    }
    let why = why.unwrap_or_default();
    let mut statuses = None;
    if wide {
        let listed = client.list_statuses(namespace, name, revision).await;
        statuses = unless_gone(unless_too_large(listed, name, "statuses"))?;
    }
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
    let request = ExplainApplicationRequest {
        page_size: CONTRIBUTIONS_MAX,
        min_revision: application.revision,
        ..OfApplication::of_application(&application.namespace, &application.name)
    };
    client.call(request).await
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
