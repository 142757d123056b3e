//! Judges whether another server has the data of the master.

use crate::doctor::Finding;
use crate::doctor::redis::facts::{Facts, Replica, Server};
use crate::store::redis::link::Kind;

use super::bytes;

/// A replica reports to its master every second.
const LAG_MAX: u64 = 10;
/// The default size, which one busy second may fill.
const BACKLOG_SMALL: u64 = 1 << 20;

pub(super) fn replicas(facts: &Facts, server: &Server) -> Option<Finding> {
    let (needed, online) = (facts.replicas_needed(), server.online());
    let found = match server.replicas().len() - online {
        0 => format!("{online} online"),
        late => format!("{online} online, {late} still being synced"),
    };
    Some(match online {
        few if few < needed => {
            let why = "every report is answered with STORE_UNAVAILABLE, although it is stored";
            let found = format!("{found}, and --durability waits for {needed}");
            Finding::error("replicas", found, why)
                .advise("add replicas, check why they are not connected, or wait for fewer")
        }
        0 if facts.kind == Kind::Standalone => Finding::ok("replicas", "none, and none is needed"),
        0 => {
            let why = "if this master is lost, no replica takes over, and its data is unreachable";
            Finding::warning("replicas", found, why).advise("give each master a replica")
        }
        just if just == needed => {
            let why = "when one of them is restarted, every report is answered with \
                       STORE_UNAVAILABLE meanwhile";
            let found = format!("{found}, and --durability waits for all of them");
            Finding::warning("replicas", found, why).advise("add a replica")
        }
        _ => Finding::ok("replicas", found),
    })
}

pub(super) fn lag(_: &Facts, server: &Server) -> Option<Finding> {
    let replicas = server.replicas();
    let is_late = |replica: &&Replica| replica.state == "online" && LAG_MAX < replica.lag;
    let late: Vec<String> = replicas
        .iter()
        .filter(is_late)
        .map(|replica| format!("{}: last contact {} s ago", replica.address, replica.lag))
        .collect();
    if late.is_empty() {
        return None;
    }
    let why = "if it takes over, all writes that it has not received are lost";
    let advice = "check the network to it, and its log";
    Some(Finding::warning("replica-lag", late.join(", "), why).advise(advice))
}

pub(super) fn min_replicas(facts: &Facts, server: &Server) -> Option<Finding> {
    let min = server.config.number("min-replicas-to-write")?;
    let max_lag = server.config.number("min-replicas-max-lag").unwrap_or(0);
    let online = u64::try_from(server.online()).unwrap_or(u64::MAX);
    let good = server.info.number("min_slaves_good_slaves").unwrap_or(online);
    let found = format!("min-replicas-to-write {min}");
    Some(match min {
        // With a lag of 0 Redis does not check for replicas.
        1.. if max_lag != 0 && good < min => {
            let why = "Redis refuses every write (NOREPLICAS)";
            Finding::error("min-replicas", format!("{found}, and {good} are connected"), why)
                .advise("bring the replicas back, or lower it")
                .command(format!("CONFIG SET min-replicas-to-write {good}"))
        }
        // A commit that no replica has is not acknowledged anyway.
        0 if online != 0 && facts.replicas_needed() == 0 => {
            let finding = match facts.kind {
                Kind::Standalone => {
                    let why = "a master that is cut off from its replicas acknowledges reports \
                               that are lost when another master takes over";
                    Finding::warning("min-replicas", found, why)
                }
                Kind::Sentinel | Kind::Cluster => {
                    let why = "a failover is automatic, and until the former master detects it two \
                               masters acknowledge writes: a former leader may write at the same \
                               time as its successor, and one of the writes is lost";
                    Finding::error("min-replicas", found, why)
                        .advise("or start Bellwether with --durability replicated:1")
                }
            };
            finding
                .command("CONFIG SET min-replicas-to-write 1")
                .command("CONFIG SET min-replicas-max-lag 10")
        }
        _ => Finding::ok("min-replicas", found),
    })
}

pub(super) fn backlog(_: &Facts, server: &Server) -> Option<Finding> {
    if server.replicas().is_empty() {
        return None;
    }
    let size = server.config.number("repl-backlog-size");
    let size = size.or_else(|| server.info.number("repl_backlog_size"))?;
    let found = format!("repl-backlog-size {}", bytes(size));
    Some(match size {
        0..=BACKLOG_SMALL => {
            let why = "a replica that was away for some seconds must copy everything again, with a \
                       fork of the master, instead of only the missing writes";
            Finding::warning("replication-backlog", found, why)
                .command("CONFIG SET repl-backlog-size 64mb")
        }
        _ => Finding::ok("replication-backlog", found),
    })
}
