//! Judges what survives a restart.

use crate::doctor::Finding;
use crate::doctor::redis::facts::{Facts, Server};
use crate::store::redis::Durability;

/// Half of the second after which a request is given up.
const FORK_MICROS_MAX: u64 = 500_000;

const KEEP: &str = "CONFIG SET appendonly yes";

pub(super) fn persistence(facts: &Facts, server: &Server) -> Option<Finding> {
    let is_aof = match server.info.text("aof_enabled") {
        "" => return None,
        enabled => enabled == "1",
    };
    if is_aof {
        return Some(fsync(server));
    }
    let is_synced = matches!(facts.durability, Durability::Synced { .. });
    Some(match server.config.get("save") {
        _ if is_synced => {
            let why =
                "--durability synced waits for the append-only file: no commit is acknowledged";
            Finding::error("persistence", "appendonly no", why).command(KEEP)
        }
        Some("") if !server.replicas().is_empty() => {
            let why = "a master is empty after a restart, and its replicas copy that: everything \
                       is lost everywhere";
            Finding::error("persistence", "appendonly no, no snapshots, and replicas", why)
                .advise("on the replicas too, as each may become the master")
                .command(KEEP)
        }
        Some("") => {
            let why = "a restart loses everything that was acknowledged";
            Finding::error("persistence", "appendonly no, and no snapshots", why).command(KEEP)
        }
        Some(save) => {
            let why = "a crash loses all writes since the last snapshot";
            let found = format!("appendonly no; snapshots by save \"{save}\"");
            Finding::warning("persistence", found, why).command(KEEP)
        }
        None => {
            let why = "a crash loses all writes since the last snapshot, if there is one";
            Finding::warning("persistence", "appendonly no", why).command(KEEP)
        }
    })
}

fn fsync(server: &Server) -> Finding {
    match server.config.get("appendfsync") {
        Some("no") => {
            let why = "a crash of the machine loses what the kernel has not written yet, usually \
                       half a minute";
            Finding::warning("persistence", "appendonly yes, appendfsync no", why)
                .command("CONFIG SET appendfsync everysec")
        }
        Some(when) => Finding::ok("persistence", format!("appendonly yes, appendfsync {when}")),
        None => Finding::ok("persistence", "appendonly yes"),
    }
}

pub(super) fn disk(_: &Facts, server: &Server) -> Option<Finding> {
    let is_failing = |name: &str| server.info.text(name) == "err";
    let finding = if is_failing("aof_last_write_status") {
        let why = "Redis refuses writes until it can write the file again";
        Finding::error("disk", "the append-only file could not be written", why)
    } else if is_failing("rdb_last_bgsave_status") {
        let found = "the last snapshot failed";
        match server.config.get("stop-writes-on-bgsave-error") {
            Some("no") => Finding::warning("disk", found, "a restart may restore old data"),
            _ => {
                let why = "Redis refuses writes until one succeeds (stop-writes-on-bgsave-error)";
                Finding::error("disk", found, why)
            }
        }
    } else if is_failing("aof_last_bgrewrite_status") {
        let why = "the append-only file grows until the disk is full";
        Finding::warning("disk", "the last rewrite of the append-only file failed", why)
    } else {
        return Some(Finding::ok("disk", "the last writes succeeded"));
    };
    Some(finding.advise("check the space on its disk, the rights of its directory, and its log"))
}

pub(super) fn fork(_: &Facts, server: &Server) -> Option<Finding> {
    let micros = server.info.number("latest_fork_usec").filter(|n| FORK_MICROS_MAX <= *n)?;
    let found = format!("the last fork for a snapshot or rewrite took {} ms", micros / 1000);
    let why = "Redis answers nothing meanwhile, and after a second a request is given up";
    let advice = "turn off transparent huge pages on its machine, or spread over a Cluster";
    Some(Finding::warning("fork", found, why).advise(advice))
}
