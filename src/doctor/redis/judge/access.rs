//! Judges whether the setup can be used at all: version, rights, keys, and encryption.

use crate::doctor::Finding;
use crate::doctor::redis::facts::{Facts, Server};
use crate::store::redis::Durability;

/// Each commit with history calls `XTRIM ... MINID`, which is new in 6.2.
const VERSION_MIN: (u32, u32) = (6, 2);
/// The first version with `WAITAOF`.
const VERSION_SYNCED: (u32, u32) = (7, 2);

pub(super) fn encryption(facts: &Facts, is_local: bool) -> Option<Finding> {
    let found = match (facts.target.has_tls(), is_local) {
        (true, _) => return Some(Finding::ok("encryption", "TLS")),
        (false, true) => {
            return Some(Finding::ok("encryption", "none, and none is needed on loopback"));
        }
        (false, false) if facts.target.has_password() => {
            "the password crosses the network as plain text"
        }
        (false, false) => "neither TLS nor a password, on an address of the network",
    };
    let why = "anyone who can read the network, or reach the port, can change every status";
    let advice = "use rediss:// with a Redis that has TLS, or make sure of the network";
    Some(Finding::warning("encryption", found, why).advise(advice))
}

pub(super) fn version(facts: &Facts, server: &Server) -> Option<Finding> {
    let redis = server.info.text("redis_version");
    let found = match server.info.text("valkey_version") {
        "" => format!("Redis {redis}"),
        valkey => format!("Valkey {valkey}, as Redis {redis}"),
    };
    let is_synced = matches!(facts.durability, Durability::Synced { .. });
    Some(match server.info.version() {
        version if version < VERSION_MIN => {
            let why = "commits trim the history with XTRIM MINID, new in 6.2: none would succeed";
            Finding::error("version", found, why).advise("use Redis 6.2 or newer, or any Valkey")
        }
        version if is_synced && version < VERSION_SYNCED => {
            let why = "--durability synced needs WAITAOF, new in 7.2: no commit is acknowledged";
            Finding::error("version", found, why)
                .advise("use Redis 7.2 or newer, any Valkey, or --durability replicated:N")
        }
        _ => Finding::ok("version", found),
    })
}

pub(super) fn permissions(facts: &Facts, server: &Server) -> Option<Finding> {
    let (rights, user) = (&server.rights, facts.user());
    // The finding on the version reports the commands of a newer one.
    let is_newer = |name: &str| name == "waitaof" && server.info.version() < VERSION_SYNCED;
    let missing: Vec<&str> =
        rights.missing.iter().map(String::as_str).filter(|name| !is_newer(name)).collect();
    if !rights.denied.is_empty() {
        let grants: Vec<String> = rights.denied.iter().map(|name| format!("+{name}")).collect();
        let found = format!("user {user} may not call: {}", rights.denied.join(", "));
        let prefix = &facts.layout.prefix;
        let why = format!("Bellwether calls each of them, on keys that begin with {prefix}:");
        let rule = format!("ACL SETUSER {user} {} {}", prefix.pattern(), grants.join(" "));
        return Some(Finding::error("permissions", found, &why).command(rule));
    }
    if !missing.is_empty() {
        let found = format!("there is no command {}", missing.join(", "));
        let why = "a server of Bellwether calls each of them; it was renamed, or does not exist";
        let advice = "remove its rename-command, or use a Redis that has it";
        return Some(Finding::error("permissions", found, why).advise(advice));
    }
    Some(match &rights.unknown {
        Some(reason) => {
            let found = format!("whether user {user} may call all needed commands: {reason}");
            Finding::unknown("permissions", found, "a missing right makes each commit fail")
        }
        None => Finding::ok("permissions", format!("user {user} may call all needed commands")),
    })
}

/// Returns one finding for all settings that cannot be read.
pub(super) fn settings(facts: &Facts, server: &Server) -> Option<Finding> {
    let refusal = server.config_refusal.as_ref()?;
    let found = format!("CONFIG GET is refused ({refusal})");
    let why = "so appendfsync, save, min-replicas-to-write and other settings are not judged; a \
               server of Bellwether does not need it";
    let finding = Finding::unknown("settings", found, why);
    // A managed Redis often lacks this command.
    Some(match refusal.contains("unknown command") {
        true => finding.advise("check them where this Redis is configured"),
        false => finding
            .advise("grant it for this check, or use a user that has it; - revokes it")
            .command(format!("ACL SETUSER {} +config|get", facts.user())),
    })
}

pub(super) fn store(_: &Facts, server: &Server) -> Option<Finding> {
    Some(match server.store.as_ref()? {
        Ok(found) => Finding::ok("store", found),
        Err(found) => {
            let why = "a server of Bellwether does not start on keys that it cannot read";
            Finding::error("store", found, why)
        }
    })
}
