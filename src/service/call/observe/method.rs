//! The known methods of the server. The set is closed, so that a caller cannot create new metric
//! series.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crate::service::descriptor;
use crate::service::log_limit::Sparse;
use crate::telemetry::{Metrics, OTHER_METHOD, RpcMethod};

/// Properties of a method that are known before a call.
pub(super) struct Method {
    /// `package.Service/Method`.
    pub(super) name: String,
    pub(super) is_streaming: bool,
    /// Whether machines call it all the time: its span has level debug.
    pub(super) is_quiet: bool,
    pub(super) metrics: RpcMethod,
    /// Counts panics of all methods.
    pub(super) panics: Metrics,
    /// Counts failures between two lines of the log.
    pub(super) failures: Sparse,
}

/// Shortest time between two log lines about failed calls of one method. While the store is away,
/// each call fails.
const LOG_PERIOD: Duration = Duration::from_secs(1);

pub(super) struct Methods {
    by_path: HashMap<String, Arc<Method>, foldhash::fast::RandomState>,
    other: Arc<Method>,
}

impl Methods {
    /// Returns the methods of the descriptors that reflection serves, and reflection itself.
    pub(super) fn known(metrics: &Metrics) -> Self {
        let known = |name: &str, is_streaming| {
            Arc::new(Method {
                name: name.to_owned(),
                is_streaming,
                is_quiet: name.starts_with("grpc."),
                metrics: metrics.rpc_method(name),
                panics: metrics.clone(),
                failures: Sparse::new(LOG_PERIOD),
            })
        };
        let by_path = descriptor::methods(descriptor::served()).map(|(path, method)| {
            let is_streaming = method.client_streaming() || method.server_streaming();
            let known = known(path.trim_start_matches('/'), is_streaming);
            (path, known)
        });
        Self { by_path: by_path.collect(), other: known(OTHER_METHOD, false) }
    }

    pub(super) fn find(&self, path: &str) -> Arc<Method> {
        Arc::clone(self.by_path.get(path).unwrap_or(&self.other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_service_that_is_served_is_known() {
        let methods = Methods::known(&Metrics::disabled());
        let cases = [
            ("bellwether.v1.ReportService/ReportStatus", false, false),
            ("bellwether.v1.ApplicationService/WatchApplications", true, false),
            ("grpc.health.v1.Health/Check", false, true),
            ("grpc.health.v1.Health/Watch", true, true),
            ("grpc.reflection.v1.ServerReflection/ServerReflectionInfo", true, true),
            ("grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", true, true),
        ];
        for (name, is_streaming, is_quiet) in cases {
            let method = methods.find(&format!("/{name}"));
            assert_eq!(method.name, name);
            assert_eq!((method.is_streaming, method.is_quiet), (is_streaming, is_quiet), "{name}");
        }
        for path in ["/", "", "/bellwether.v1.ReportService/reportStatus", "/x.Y/Z"] {
            assert_eq!(methods.find(path).name, OTHER_METHOD, "{path}");
        }
    }
}
