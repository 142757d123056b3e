//! The known methods of the server. The set is closed, so that a caller cannot create new metric
//! series.

use std::collections::HashMap;
use std::sync::Arc;

use prost::Message;
use prost_types::FileDescriptorSet;

use crate::proto;
use crate::telemetry::{Metrics, OTHER_METHOD, RpcMethod};

/// Properties of a method that are known before a call.
#[derive(Debug)]
pub(super) struct Method {
    /// `package.Service/Method`.
    pub(super) name: String,
    pub(super) is_streaming: bool,
    /// Whether machines call it all the time: its span has level debug.
    pub(super) is_quiet: bool,
    pub(super) metrics: RpcMethod,
}

#[derive(Debug)]
pub(super) struct Methods {
    by_path: HashMap<String, Arc<Method>, foldhash::fast::RandomState>,
    other: Arc<Method>,
}

impl Methods {
    /// Returns the methods of the descriptors that reflection serves, and reflection itself.
    pub(super) fn known(metrics: &Metrics) -> Self {
        let mut by_path = HashMap::default();
        for encoded in [
            proto::FILE_DESCRIPTOR_SET,
            tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET,
            tonic_reflection::pb::v1alpha::FILE_DESCRIPTOR_SET,
        ] {
            let set = FileDescriptorSet::decode(encoded)
                .expect("the build writes descriptors that decode, and a test reads them");
            by_path.extend(methods(&set, metrics));
        }
        let other = Method {
            name: OTHER_METHOD.to_owned(),
            is_streaming: false,
            is_quiet: false,
            metrics: metrics.rpc_method(OTHER_METHOD),
        };
        Self { by_path, other: Arc::new(other) }
    }

    pub(super) fn find(&self, path: &str) -> Arc<Method> {
        Arc::clone(self.by_path.get(path).unwrap_or(&self.other))
    }
}

fn methods(set: &FileDescriptorSet, metrics: &Metrics) -> Vec<(String, Arc<Method>)> {
    let mut methods = Vec::new();
    for file in &set.file {
        let is_quiet = file.package().starts_with("grpc.");
        for service in &file.service {
            for method in &service.method {
                let name = format!("{}.{}/{}", file.package(), service.name(), method.name());
                let known = Method {
                    is_streaming: method.client_streaming() || method.server_streaming(),
                    is_quiet,
                    metrics: metrics.rpc_method(&name),
                    name,
                };
                methods.push((format!("/{}", known.name), Arc::new(known)));
            }
        }
    }
    methods
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
