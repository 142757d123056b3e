//! The known methods of the server. The set is closed, so that a caller cannot create new metric
//! series.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use prost_types::FileDescriptorSet;

use super::intake::{Intake, Takes};
use crate::service::descriptor;
use crate::service::log_limit::Sparse;
use crate::service::method::{Method, by_path};
use crate::telemetry::{Metrics, OTHER_METHOD, RpcMethod};

/// All that depends on the method of a call.
pub(super) struct KnownMethod {
    /// `package.Service/Method`.
    pub(super) name: String,
    /// Its row; `None` if there is no such method.
    pub(super) row: Option<&'static Method>,
    /// Whether one of its sides is a stream, which may be open for days.
    pub(super) is_streaming: bool,
    /// The limits of its request.
    pub(super) takes: Takes,
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
    by_path: HashMap<String, Arc<KnownMethod>, foldhash::fast::RandomState>,
    other: Arc<KnownMethod>,
}

impl Methods {
    /// Returns the methods of some descriptors.
    ///
    /// # Panics
    /// If one of them has no row.
    pub(super) fn new(
        rows: &'static [Method],
        descriptors: &[FileDescriptorSet],
        intake: &Intake,
        metrics: &Metrics,
    ) -> Methods {
        let known = |path: &str, row, is_streaming| {
            let name = path.trim_start_matches('/');
            Arc::new(KnownMethod {
                name: name.to_owned(),
                row,
                is_streaming,
                takes: intake.takes(path),
                metrics: metrics.rpc_method(name),
                panics: metrics.clone(),
                failures: Sparse::new(LOG_PERIOD),
            })
        };
        let rows = by_path(rows);
        let by_path = descriptor::methods(descriptors).map(|(path, method)| {
            let row = rows.get(&path).copied();
            assert!(row.is_some(), "{path} has no row in the table of methods");
            let is_streaming = method.client_streaming() || method.server_streaming();
            let known = known(&path, row, is_streaming);
            (path, known)
        });
        Methods { by_path: by_path.collect(), other: known(OTHER_METHOD, None, false) }
    }

    pub(super) fn find(&self, path: &str) -> Arc<KnownMethod> {
        Arc::clone(self.by_path.get(path).unwrap_or(&self.other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::method::TABLE;

    #[test]
    fn every_service_that_is_served_is_known() {
        let served = descriptor::served();
        let intake = Intake::for_tests();
        let methods = Methods::new(TABLE, served, &intake, &Metrics::disabled());
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
            let row = method.row.expect("it has a row");
            assert_eq!((method.is_streaming, row.is_quiet()), (is_streaming, is_quiet), "{name}");
        }
        for path in ["/", "", "/bellwether.v1.ReportService/reportStatus", "/x.Y/Z"] {
            let method = methods.find(path);
            assert_eq!((&*method.name, method.row), (OTHER_METHOD, None), "{path}");
        }
    }
}
