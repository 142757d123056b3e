//! Did you mean: the name that a misspelt one is close to.

use std::time::Duration;

use bellwether_client::proto::OfApplication;
use bellwether_client::{Client, Error, Refusal};
use tokio::time::timeout;

use crate::cli::context::{Context, say};
use crate::cli::exit::NotFoundError;
use crate::cli::juju_hook::juju_hook;
use crate::cli::names::{names_in, namespaces};
use crate::cli::render::one_line;
use crate::proto::v1::{GetApplicationRequest, ListStatusEventsRequest};

/// Names that are compared at most.
const NAMES_MAX: usize = 10_000;

/// How long a command waits for names; its own answer is there already.
const NAMES_TIMEOUT: Duration = Duration::from_secs(1);

/// Returns `; is NAME meant?` for the closest of some names; `None` if none is close.
pub fn among<'a>(given: &str, names: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let close =
        names.into_iter().take(NAMES_MAX).filter_map(|name| Some((cost(given, name)?, name)));
    let (_, best) = close.min()?;
    Some(format!("; is {} meant?", one_line(best)))
}

/// Returns how far a name is from what was typed: the letters that are wrong, missing or swapped.
/// One in four may be; what is only the start of a name may lack any number. `None` if it is too
/// far, or the same.
fn cost(given: &str, name: &str) -> Option<usize> {
    let length = given.chars().count();
    let distance = strsim::osa_distance(&given.to_lowercase(), &name.to_lowercase());
    let is_start = 3 <= length && name.starts_with(given);
    let is_close = 2 <= length && distance <= (length / 4).max(1);
    ((is_close || is_start) && given != name).then_some(distance)
}

/// Returns the suggestion for an error that says that an application, a unit or an operation does
/// not exist. A server that does not answer soon costs the suggestion alone.
pub async fn for_error(error: &anyhow::Error, context: &Context) -> Option<String> {
    let Some(Error::Refused(refusal)) = error.downcast_ref::<Error>() else { return None };
    // A hook has no reader, and a limit on its time.
    if !refusal.reason.ends_with("_NOT_FOUND") || juju_hook().is_some() {
        return None;
    }
    let found = for_refusal(context.connect().await.ok()?, refusal);
    timeout(NAMES_TIMEOUT, found).await.ok()?
}

async fn for_refusal(client: &Client, refusal: &Refusal) -> Option<String> {
    let fact = |key: &str| refusal.metadata.get(key).map(String::as_str).unwrap_or_default();
    let (namespace, application) = (fact("namespace"), fact("application"));
    let names: Vec<String> = match refusal.reason.as_str() {
        "UNIT_NOT_FOUND" => {
            let units = client.list_units(namespace, application, 0).await;
            units.unwrap_or_default().into_iter().map(|unit| unit.name).collect()
        }
        "OPERATION_NOT_FOUND" => {
            let operations = client.list_operations(namespace, application).await;
            operations.unwrap_or_default().into_iter().map(|one| one.operation_id).collect()
        }
        "APPLICATION_NOT_FOUND" => Vec::new(),
        _ => return None,
    };
    let given = if fact("unit").is_empty() { fact("operation_id") } else { fact("unit") };
    match among(given, names.iter().map(String::as_str)) {
        Some(meant) => Some(meant),
        None => application_in(client, namespace, application).await,
    }
}

/// Returns the suggestion for the name of an application, or for its namespace, if that has none.
async fn application_in(client: &Client, namespace: &str, application: &str) -> Option<String> {
    let names = names_in(client, namespace).await.ok()?;
    if !names.is_empty() {
        return among(application, names.iter().map(String::as_str));
    }
    let namespaces = namespaces(client).await.ok()?;
    among(namespace, namespaces.iter().map(String::as_str))
        .map(|meant| meant.replacen("; is", "; is namespace", 1))
}

/// Says which of some applications are not there yet, and which name may be meant instead.
pub async fn say_absent(client: &Client, namespace: &str, names: &[String]) {
    if namespace == "-" || names.is_empty() {
        return;
    }
    let Some(known) = known(client, namespace).await else { return };
    for name in names.iter().filter(|name| !known.contains(*name)) {
        let meant = among(name, known.iter().map(String::as_str)).unwrap_or_default();
        say(&format!("{name} is not there yet{meant}"));
    }
}

/// Returns the names of the applications of a namespace, if the server sends them soon.
pub async fn known(client: &Client, namespace: &str) -> Option<Vec<String>> {
    timeout(NAMES_TIMEOUT, names_in(client, namespace)).await.ok()?.ok()
}

/// Returns an error if the application, or the unit that the query is about, does not exist: its
/// name may be misspelt.
///
/// # Errors
/// [`NotFoundError`] with the unit, or the refusal of the server.
pub async fn check_there(client: &Client, query: &ListStatusEventsRequest) -> anyhow::Result<()> {
    let ListStatusEventsRequest { namespace, application, unit, .. } = query;
    client.call(GetApplicationRequest::of_application(namespace, application)).await?;
    if unit.is_empty() {
        return Ok(());
    }
    let units = client.list_units(namespace, application, 0).await?;
    if units.iter().any(|one| one.name == *unit) {
        return Ok(());
    }
    let names = units.iter().map(|one| one.name.as_str());
    let meant = among(unit, names).unwrap_or_default();
    let text = format!("{application} in namespace {namespace} has no unit {unit}{meant}");
    Err(NotFoundError(text).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closest_name_is_meant_if_one_is_close() {
        let meant = |given| among(given, ["postgresql", "web", "web-cache"]);
        assert_eq!(meant("postgres").as_deref(), Some("; is postgresql meant?"));
        assert_eq!(meant("postgersql").as_deref(), Some("; is postgresql meant?"));
        assert_eq!(meant("wbe").as_deref(), Some("; is web meant?"));
        assert_eq!(meant("Web").as_deref(), Some("; is web meant?"));
        for far in ["zookeeper", "nope", "x", "", "web"] {
            let others = among(far, ["postgresql", "web"]);
            assert_eq!(others, None, "{far}");
        }
        assert_eq!(among("web/99", ["web/0"]), None);
        assert_eq!(among("x", []), None);
    }
}
