//! The names of applications and namespaces that exist.

use bellwether_client::{Client, Error};

use crate::proto::v1::ListNamespacesRequest;

/// Namespaces that are named.
const NAMESPACES_MAX: i32 = 5;

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
    let request =
        ListNamespacesRequest { page_size: NAMESPACES_MAX, ..ListNamespacesRequest::default() };
    let namespaces = client.call(request).await?.namespaces;
    Ok(namespaces.into_iter().map(|namespace| namespace.name).collect())
}
