//! Push statuses of the unit that did not fit into the welcome.

use std::time::Duration;

use tokio::time::timeout;

use crate::connection::Client;
use crate::proto::v1::{StatusKind, Welcome};
use crate::worker::options::Options;

/// Time limit: the server waits for the first heartbeat meanwhile.
const LIST_MAX: Duration = Duration::from_secs(5);

/// Returns the welcome with all push statuses of the unit: the missing ones are listed. If that
/// fails, the welcome is returned as it is, and statuses that are not in it are sent again, which
/// does no harm.
pub(super) async fn whole(client: &Client, options: &Options, welcome: Welcome) -> Welcome {
    if welcome.retained_rest_count == 0 {
        return welcome;
    }
    let list = client.list_unit_statuses(&options.namespace, &options.application, &options.unit);
    let statuses = match timeout(LIST_MAX, list).await {
        Ok(Ok(statuses)) => statuses,
        Ok(Err(error)) => {
            tracing::warn!(%error, "listing the statuses that did not fit into the welcome failed");
            return welcome;
        }
        Err(_elapsed) => {
            tracing::warn!("listing the statuses that did not fit into the welcome timed out");
            return welcome;
        }
    };
    let reports = statuses.into_iter().filter_map(|status| status.report);
    let retained = reports.filter(|report| report.kind() == StatusKind::Push).collect();
    Welcome { retained, retained_rest_count: 0, ..welcome }
}
