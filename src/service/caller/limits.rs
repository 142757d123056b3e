//! Limits on what one caller uses, a principal or an address without one, and which of them hold
//! for each method.

use std::collections::HashMap;

use prost_types::method_options::IdempotencyLevel;

use crate::service::caller::outgoing::size;
use crate::service::descriptor;

/// A limit that holds for callers on this machine only if an operator has set it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bound {
    /// The limit.
    pub max: usize,
    /// Whether it holds for callers on this machine that are no principal.
    pub is_for_local: bool,
}

/// Limits on one caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Connections of one principal. A connection counts for the principal of its newest call.
    pub connections_max: usize,
    /// Unary calls at the same time.
    pub calls_max: Bound,
    /// Calls that write, and messages of sessions that do, in a second.
    pub reports_per_second: Bound,
    /// Calls that read, in a second.
    pub reads_per_second: Bound,
    /// Watches and sessions that are opened, in a second.
    pub watches_per_second: Bound,
    /// Renewals of leases, and health checks, in a second.
    pub heartbeats_per_second: Bound,
}

impl Default for Limits {
    /// Returns the defaults: about what a server on two cores serves in total, so that no ordinary
    /// caller reaches them. A caller that does is one that repeats without a pause.
    fn default() -> Limits {
        let bound = |max| Bound { max, is_for_local: false };
        Limits {
            connections_max: 2500,
            calls_max: bound(4096),
            reports_per_second: bound(20_000),
            reads_per_second: bound(20_000),
            watches_per_second: bound(5000),
            heartbeats_per_second: bound(50_000),
        }
    }
}

/// Kinds of calls, each with its own rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Writes.
    Report,
    /// Reads.
    Read,
    /// Opens a watch or a session.
    Watch,
    /// Renews a lease, or checks the health: refused last.
    Heartbeat,
}

impl Class {
    /// Every class.
    pub const ALL: [Class; 4] = [Class::Report, Class::Read, Class::Watch, Class::Heartbeat];

    /// Returns the limit of the rate.
    pub fn bound(self, limits: &Limits) -> Bound {
        match self {
            Class::Report => limits.reports_per_second,
            Class::Read => limits.reads_per_second,
            Class::Watch => limits.watches_per_second,
            Class::Heartbeat => limits.heartbeats_per_second,
        }
    }

    /// Returns the name of the limit, and that of the calls.
    pub fn words(self) -> (&'static str, &'static str) {
        match self {
            Class::Report => ("reports_per_second_per_principal_max", "reports and other changes"),
            Class::Read => ("reads_per_second_per_principal_max", "reads"),
            Class::Watch => ("watches_per_second_per_principal_max", "new watches and sessions"),
            Class::Heartbeat => {
                ("heartbeats_per_second_per_principal_max", "renewals and health checks")
            }
        }
    }
}

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
    /// Bytes of its answer, if it may be long.
    pub answer: Option<usize>,
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
        let answer = size::of_method(&path);
        (path, Counted { class, is_call: !is_stream || is_reflection, answer })
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
            let Counted { class, is_call, .. } = classes[path];
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
