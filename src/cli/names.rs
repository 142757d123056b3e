//! The names of applications and namespaces that exist.

use bellwether_client::{Client, Error};

use crate::proto::v1::ListApplicationsRequest;

/// Applications that are searched for namespaces, and namespaces that are named.
const NAMESPACES_OF_MAX: i32 = 1_000;
const NAMESPACES_MAX: usize = 5;

/// Returns the names of the applications of a namespace.
///
/// # Errors
/// Those of the call.
pub async fn names_in(client: &Client, namespace: &str) -> Result<Vec<String>, Error> {
    let applications = client.list_applications(namespace).await?;
    Ok(applications.into_iter().map(|application| application.name).collect())
}

/// Returns some namespaces that have applications, in order.
///
/// # Errors
/// Those of the call.
pub async fn namespaces(client: &Client) -> Result<Vec<String>, Error> {
    let request = ListApplicationsRequest {
        namespace: "-".to_string(),
        page_size: NAMESPACES_OF_MAX,
        ..ListApplicationsRequest::default()
    };
    let applications = client.call(request).await?.applications;
    let mut names: Vec<String> = applications.into_iter().map(|a| a.namespace).collect();
    names.dedup();
    names.truncate(NAMESPACES_MAX);
    Ok(names)
}
