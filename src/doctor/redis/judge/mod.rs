//! Turns facts into findings with a table of checks, each a function of the facts.
//!
//! A check has a reason that matters to Bellwether. Features that Bellwether does not use (keyspace
//! events, reads from replicas) are not judged.

use std::time::Duration;

use crate::doctor::Finding;
use crate::store::redis::link::LinkError;

use super::facts::{Facts, Server};

mod access;
mod memory;
mod persistence;
mod replication;
mod topology;
mod traffic;

#[cfg(test)]
mod tests;

/// A check of one master; `None` if it does not apply.
type Check = fn(&Facts, &Server) -> Option<Finding>;

/// The checks, in the order of their findings within one level.
const CHECKS: &[Check] = &[
    access::version,
    access::permissions,
    access::settings,
    access::store,
    memory::eviction,
    memory::memory,
    persistence::persistence,
    persistence::disk,
    persistence::fork,
    replication::replicas,
    replication::lag,
    replication::min_replicas,
    replication::backlog,
    traffic::latency,
    traffic::clock,
    traffic::clients,
    traffic::idle_timeout,
    traffic::output_buffer,
    topology::cluster_state,
    topology::cluster_coverage,
];

/// Returns all findings, in the order of the checks.
pub(super) fn judge(facts: &Facts) -> Vec<Finding> {
    let mut findings = Vec::new();
    if facts.masters.is_empty() {
        let reason = "no node of the Cluster reports its masters".to_string();
        findings.push(unreachable(&LinkError::Away { reason }));
    }
    for master in &facts.masters {
        findings.extend(match &master.found {
            Ok(_) => access::encryption(facts, master.is_local).map(|f| f.on(&master.address)),
            Err(reason) => Some(unreachable(reason).on(&master.address)),
        });
    }
    let answering =
        facts.masters.iter().filter_map(|master| Some((master, master.found.as_ref().ok()?)));
    for (master, server) in answering {
        let found = CHECKS.iter().filter_map(|check| check(facts, server));
        findings.extend(found.map(|finding| finding.on(&master.address)));
    }
    findings.extend(topology::judge(facts));
    findings
}

/// Returns the finding when the facts did not arrive in time.
pub(super) fn too_slow(timeout: Duration) -> Finding {
    let reason = format!("not all servers answered within {} s", timeout.as_secs_f32());
    unreachable(&LinkError::Away { reason })
}

fn unreachable(error: &LinkError) -> Finding {
    let why = "a server of Bellwether would not start with this --store";
    let finding = Finding::error("connection", error.reason(), why);
    match error {
        // The reason already says what to change.
        LinkError::Refused { .. } => finding,
        LinkError::Away { .. } | LinkError::Ambiguous { .. } => finding.advise(
            "check that it runs, host and port, whether it uses TLS there, and that the network \
             allows it",
        ),
    }
}

/// Formats a number of bytes.
fn bytes(bytes: u64) -> String {
    const UNITS: [(&str, u64); 3] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    let unit = UNITS.iter().find(|(_, size)| *size <= bytes);
    #[expect(clippy::cast_precision_loss, reason = "it is rounded for people")]
    match unit {
        Some((name, size)) => format!("{:.1} {name}", bytes as f64 / *size as f64),
        None => format!("{bytes} bytes"),
    }
}

/// Returns a part in percent.
fn percent(part: u64, whole: u64) -> u64 {
    u64::try_from(u128::from(part) * 100 / u128::from(whole.max(1))).unwrap_or(u64::MAX)
}
