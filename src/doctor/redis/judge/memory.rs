//! Judges what happens when memory runs out.

use crate::doctor::Finding;
use crate::doctor::redis::facts::{Facts, Server};
use crate::store::redis::record::space::NEARLY_FULL_PERCENT;

use super::{bytes, percent};

/// The use of maxmemory, in percent.
const FULL_PERCENT: u64 = 95;

pub(super) fn eviction(_: &Facts, server: &Server) -> Option<Finding> {
    let found = match (server.info.text("maxmemory_policy"), server.info.number("maxmemory")) {
        ("", _) => {
            let why = "with another policy than noeviction Redis may evict needed keys";
            return Some(Finding::unknown("eviction", "INFO has no maxmemory-policy", why));
        }
        ("noeviction", _) => return Some(Finding::ok("eviction", "maxmemory-policy noeviction")),
        (policy, Some(0)) => format!("maxmemory-policy {policy}, for when maxmemory is set"),
        (policy, _) => format!("maxmemory-policy {policy}"),
    };
    // No key of Bellwether has a ttl.
    let finding = match server.info.text("maxmemory_policy").starts_with("volatile-") {
        true => {
            let why = "keys of Bellwether have no ttl and stay; keys of other programs \
                       with one are evicted";
            Finding::warning("eviction", found, why)
        }
        false => {
            let why = "Redis evicts keys when memory runs out, in the middle of an application";
            Finding::error("eviction", found, why)
        }
    };
    Some(finding.command("CONFIG SET maxmemory-policy noeviction"))
}

pub(super) fn memory(_: &Facts, server: &Server) -> Option<Finding> {
    let number = |name: &str| server.info.number(name);
    let used = number("used_memory")?;
    let counted = used.saturating_sub(number("mem_not_counted_for_evict").unwrap_or(0));
    let max = number("maxmemory").unwrap_or(0);
    let in_use = || format!("{} in use of maxmemory {}", bytes(counted), bytes(max));
    Some(match percent(counted, max) {
        _ if max == 0 => {
            let found = format!("{} in use, without a maxmemory", bytes(used));
            let why = "it grows until the kernel kills it, and data that is not on disk is lost; \
                       with a limit it refuses writes instead";
            Finding::warning("memory", found, why)
                .advise("set maxmemory to about 60 % of what the machine or container has")
                .command("CONFIG SET maxmemory BYTES")
        }
        FULL_PERCENT.. => {
            let why = "at maxmemory every write is refused, and reports with them";
            Finding::error("memory", in_use(), why)
                .advise("raise maxmemory, or move other data away")
                .command("CONFIG SET maxmemory BYTES")
        }
        NEARLY_FULL_PERCENT.. => {
            let why = "at maxmemory every write is refused, and reports with them";
            Finding::warning("memory", in_use(), why).command("CONFIG SET maxmemory BYTES")
        }
        _ => Finding::ok("memory", in_use()),
    })
}
