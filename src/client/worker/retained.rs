//! Push statuses of the unit that a welcome had no room for.

use std::time::Duration;

use tokio::time::timeout;

use super::driver::Driver;
use crate::client::connection::Client;
use crate::proto::v1::{StatusKind, Welcome};

/// The server waits for the first heartbeat meanwhile.
const LIST_MAX: Duration = Duration::from_secs(5);

/// A welcome with all that the unit has pushed: what was left out is listed. If that fails, the
/// welcome is as it came, and statuses that are not in it are sent again, which does no harm.
pub(super) async fn whole(client: &Client, driver: &Driver, welcome: Welcome) -> Welcome {
    if welcome.retained_rest_count == 0 {
        return welcome;
    }
    let options = &driver.options;
    let list = client.list_unit_statuses(&options.namespace, &options.application, &options.unit);
    let statuses = match timeout(LIST_MAX, list).await {
        Ok(Ok(statuses)) => statuses,
        Ok(Err(error)) => {
            tracing::warn!(%error, "list the statuses that the welcome had no room for");
            return welcome;
        }
        Err(_elapsed) => {
            tracing::warn!("the statuses that the welcome had no room for are not listed in time");
            return welcome;
        }
    };
    let reports = statuses.into_iter().filter_map(|status| status.report);
    let retained = reports.filter(|report| report.kind() == StatusKind::Push).collect();
    Welcome { retained, retained_rest_count: 0, ..welcome }
}
