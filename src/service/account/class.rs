//! The class of every method, and whether it is unary.

use std::collections::HashMap;

use prost_types::method_options::IdempotencyLevel;

use super::limits::Class;
use crate::service::descriptor;

/// Calls that keep a lease or a pod alive. Sessions send heartbeats as messages, which are not
/// counted.
const HEARTBEATS: [&str; 4] = [
    "/bellwether.v1.LeaderService/RenewLeadership",
    "/bellwether.v1.OperationService/HeartbeatOperation",
    "/grpc.health.v1.Health/Check",
    "/grpc.health.v1.Health/List",
];

/// A method, as an account sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counted {
    /// Its rate.
    pub class: Class,
    /// Whether it counts as an open call. Watches and sessions have limits of their own.
    pub is_call: bool,
}

/// The methods by their paths.
pub type Classes = HashMap<String, Counted, foldhash::fast::RandomState>;

/// Returns every method.
pub fn classes() -> Classes {
    let all = descriptor::methods(descriptor::served()).map(|(path, method)| {
        let level = method.options.as_ref().map(|options| options.idempotency_level());
        let is_reflection = path.starts_with("/grpc.reflection.");
        let is_stream = method.client_streaming() || method.server_streaming();
        let class = match level {
            _ if HEARTBEATS.contains(&path.as_str()) => Class::Heartbeat,
            _ if is_reflection => Class::Read,
            _ if is_stream => Class::Watch,
            Some(IdempotencyLevel::NoSideEffects) => Class::Read,
            _ => Class::Report,
        };
        (path, Counted { class, is_call: !is_stream || is_reflection })
    });
    all.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_reads_watches_and_heartbeats_have_classes_of_their_own() {
        let classes = classes();
        let counted = |path: &str| {
            let Counted { class, is_call } = classes[path];
            (class, is_call)
        };
        for (path, expected) in [
            ("/bellwether.v1.ReportService/ReportStatus", (Class::Report, true)),
            ("/bellwether.v1.OperationService/BeginOperation", (Class::Report, true)),
            ("/bellwether.v1.ApplicationService/GetApplication", (Class::Read, true)),
            ("/bellwether.v1.ServerService/GetServerInfo", (Class::Read, true)),
            ("/bellwether.v1.ApplicationService/WatchApplications", (Class::Watch, false)),
            ("/bellwether.v1.ApplicationService/MultiplexWatches", (Class::Watch, false)),
            ("/bellwether.v1.AppDataService/WatchAppData", (Class::Watch, false)),
            ("/bellwether.v1.WorkerService/Connect", (Class::Watch, false)),
            ("/grpc.health.v1.Health/Watch", (Class::Watch, false)),
            ("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", (Class::Read, true)),
        ] {
            assert_eq!(counted(path), expected, "{path}");
        }
        for path in HEARTBEATS {
            assert_eq!(counted(path), (Class::Heartbeat, true), "{path}");
        }
    }
}
