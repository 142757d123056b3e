//! The explanation of an application for a message or a command, which does not wait for it.

use std::time::Duration;

use bellwether_client::Client;

use crate::proto::v1::{ExplainApplicationRequest, ExplainApplicationResponse};

/// How long the server may take. What needs the explanation goes on without it then.
const PATIENCE: Duration = Duration::from_secs(1);

/// Explains an application with its winner alone; `None` if there is no answer soon.
pub async fn soon(
    client: &Client,
    namespace: &str,
    application: &str,
) -> Option<ExplainApplicationResponse> {
    let request = ExplainApplicationRequest {
        namespace: namespace.to_string(),
        application: application.to_string(),
        page_size: 1,
        ..ExplainApplicationRequest::default()
    };
    client.clone().with_deadline(PATIENCE).call(request).await.ok()
}
