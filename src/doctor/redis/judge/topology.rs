//! Judges whether a failover works: the Sentinels and the Cluster as wholes.

use std::collections::BTreeSet;

use crate::doctor::Finding;
use crate::doctor::redis::facts::{Facts, Sentinel, Server};
use crate::store::redis::link::{Kind, LinkError};

/// The minimum number of voters: fewer cannot agree once one of them is lost.
const VOTERS_MIN: usize = 3;
const SLOTS: u64 = 16_384;
/// The limits for the time until a master counts as down, in milliseconds. A fork takes a few
/// hundred, and nothing is stored during this time.
const DOWN_AFTER_MIN: u64 = 1000;
const DOWN_AFTER_MAX: u64 = 30_000;

/// Returns the findings that need more than one master's facts.
pub(super) fn judge(facts: &Facts) -> Vec<Finding> {
    let checks: &[fn(&Facts) -> Option<Finding>] = match facts.kind {
        Kind::Standalone => &[],
        Kind::Sentinel => &[sentinels, quorum, failover_delay, failover_candidates],
        Kind::Cluster => &[seeds, cluster_size],
    };
    checks.iter().filter_map(|check| check(facts)).collect()
}

fn answering(facts: &Facts) -> Vec<&Sentinel> {
    facts.sentinels.iter().filter_map(|sentinel| sentinel.found.as_ref().ok()).collect()
}

fn sentinels(facts: &Facts) -> Option<Finding> {
    let lost: Vec<&str> = facts
        .sentinels
        .iter()
        .filter_map(|s| s.found.as_ref().err())
        .map(LinkError::reason)
        .collect();
    if !lost.is_empty() {
        let why = "with fewer Sentinels, one more loss may make a failover impossible";
        return Some(
            Finding::warning("sentinels", lost.join("; "), why)
                .advise("bring it back, or take it out of --store"),
        );
    }
    let answering = answering(facts);
    let address = |s: &&Sentinel| format!("{}:{}", s.master.text("ip"), s.master.text("port"));
    let masters: BTreeSet<String> = answering.iter().map(address).collect();
    if 1 < masters.len() {
        let found = format!("they name several masters: {}", Vec::from_iter(masters).join(", "));
        let why = "normal for a moment during a failover; if it stays, two may accept writes";
        return Some(Finding::warning("sentinels", found, why).advise("check again in a minute"));
    }
    let others = answering.iter().filter_map(|s| s.master.number("num-other-sentinels")).max()?;
    let known = usize::try_from(others).unwrap_or(usize::MAX).saturating_add(1);
    let found = format!("{} answer, {known} watch the master", answering.len());
    Some(match known {
        0..VOTERS_MIN => {
            let why = "a failover needs most of them: with two, it fails once one is lost";
            Finding::warning("sentinels", found, why).advise("run three, on three machines")
        }
        _ => Finding::ok("sentinels", found),
    })
}

fn quorum(facts: &Facts) -> Option<Finding> {
    let answers: Vec<_> = answering(facts).into_iter().filter_map(|s| s.quorum.as_ref()).collect();
    let refused = answers.iter().find_map(|answer| answer.as_ref().err());
    Some(match (refused, answers.first()) {
        (Some(reason), _) => {
            let why = "if the master is lost, no replica takes over";
            Finding::error("quorum", reason, why)
                .advise("bring Sentinels back, or lower the quorum: SENTINEL SET NAME quorum N")
        }
        (None, Some(Ok(found))) => Finding::ok("quorum", found),
        _ => return None,
    })
}

fn failover_delay(facts: &Facts) -> Option<Finding> {
    let answering = answering(facts);
    let millis =
        answering.iter().filter_map(|s| s.master.number("down-after-milliseconds")).max()?;
    let found = format!("a master is given up after {millis} ms");
    let why = match millis {
        0..DOWN_AFTER_MIN => {
            "a fork or a slow command may take as long, and each failover may lose writes"
        }
        DOWN_AFTER_MIN..=DOWN_AFTER_MAX => return Some(Finding::ok("failover-delay", found)),
        _ => "until then every report is answered with STORE_UNAVAILABLE",
    };
    let name = answering.first().map_or("", |s| s.master.text("name"));
    let command = format!("SENTINEL SET {name} down-after-milliseconds 5000");
    let finding = Finding::warning("failover-delay", found, why);
    Some(finding.advise("on each Sentinel:").command(command))
}

fn failover_candidates(facts: &Facts) -> Option<Finding> {
    let answering = answering(facts);
    let replicas = answering.iter().map(|s| &s.replicas).find(|replicas| !replicas.is_empty())?;
    let never = replicas.iter().filter(|replica| replica.text("slave-priority") == "0").count();
    let found = format!("{} of {} replicas may take over", replicas.len() - never, replicas.len());
    Some(match never == replicas.len() {
        true => {
            let why = "all have replica-priority 0: if the master is lost, none takes over";
            Finding::error("failover-candidates", found, why)
                .advise("on a replica:")
                .command("CONFIG SET replica-priority 100")
        }
        false => Finding::ok("failover-candidates", found),
    })
}

fn seeds(facts: &Facts) -> Option<Finding> {
    let lost: Vec<&str> = facts.lost_seeds.iter().map(|(_, error)| error.reason()).collect();
    if lost.is_empty() {
        return None;
    }
    let why = "a server finds the Cluster by the nodes in --store, and needs one that answers";
    let advice = "bring it back, or name another node in --store";
    Some(Finding::warning("seeds", lost.join("; "), why).advise(advice))
}

fn cluster_size(facts: &Facts) -> Option<Finding> {
    let masters = facts.masters.len();
    let found = format!("{masters} masters with slots");
    Some(match masters {
        0 => return None,
        1..VOTERS_MIN => {
            let why = "most masters must agree on a failover: with fewer than three there is none";
            Finding::warning("cluster-size", found, why)
                .advise("spread the slots over three masters")
        }
        _ => Finding::ok("cluster-size", found),
    })
}

pub(super) fn cluster_state(facts: &Facts, server: &Server) -> Option<Finding> {
    if facts.kind != Kind::Cluster {
        return None;
    }
    let served = server.cluster.number("cluster_slots_ok").unwrap_or(0);
    let found = format!(
        "cluster_state {}, {served} of {SLOTS} slots served",
        server.cluster.text("cluster_state")
    );
    Some(match (server.cluster.text("cluster_state"), served) {
        ("ok", SLOTS) => Finding::ok("cluster-state", found),
        _ => {
            let why = "applications in a slot without a master are unreachable, and a server of \
                       Bellwether does not start";
            Finding::error("cluster-state", found, why)
                .advise("bring the master back, or: redis-cli --cluster fix HOST:PORT")
        }
    })
}

pub(super) fn cluster_coverage(facts: &Facts, server: &Server) -> Option<Finding> {
    let setting = server.config.get("cluster-require-full-coverage")?;
    if facts.kind != Kind::Cluster {
        return None;
    }
    let servers = facts.masters.iter().filter_map(|master| master.found.as_ref().ok());
    let alone = servers.filter(|server| server.replicas().is_empty()).count();
    let found = format!("cluster-require-full-coverage {setting}");
    Some(match (setting, alone) {
        ("yes", 1..) => {
            let why = "if a master without a replica is lost, all others stop too; without this \
                       they continue to serve their buckets";
            Finding::warning("cluster-coverage", found, why)
                .command("CONFIG SET cluster-require-full-coverage no")
        }
        _ => Finding::ok("cluster-coverage", found),
    })
}
