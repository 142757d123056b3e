//! The memory that the masters have left below their `maxmemory`.

use std::collections::BTreeMap;

use crate::store::Space;
use crate::store::redis::link::info::InfoFields;

use super::Buckets;
use super::key::tag;

/// The use of `maxmemory`, in percent, above which an operator should act.
pub(crate) const NEARLY_FULL_PERCENT: u64 = 75;

/// Returns the space of the fullest master; `None` if no master has a `maxmemory`, or none answers.
pub(crate) async fn space(buckets: &Buckets) -> Option<Space> {
    // One bucket of each master.
    let places = buckets.all().filter_map(|bucket| {
        let tag = tag(bucket);
        let master = buckets.servers.master(&tag).borrow().clone()?;
        Some((master.address, tag))
    });
    let masters: BTreeMap<String, String> = places.collect();
    let mut all = Vec::new();
    for tag in masters.values() {
        all.extend(buckets.info(tag, "memory").await.ok().as_ref().and_then(of_info));
    }
    all.into_iter().min_by_key(|space| space.free.saturating_mul(1000) / space.capacity.max(1))
}

fn of_info(info: &InfoFields) -> Option<Space> {
    let capacity = info.number("maxmemory").filter(|max| *max != 0)?;
    let counted = info.number("mem_not_counted_for_evict").unwrap_or(0);
    let used = info.number("used_memory")?.saturating_sub(counted);
    let is_low = capacity / 100 * NEARLY_FULL_PERCENT <= used;
    Some(Space { free: capacity.saturating_sub(used), capacity, is_low })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_low_before_it_is_used_up() {
        let info = |used: u64, max: u64| {
            of_info(&InfoFields::of_lines(&format!(
                "used_memory:{used}\r\nmem_not_counted_for_evict:10\r\nmaxmemory:{max}\r\n"
            )))
        };
        assert_eq!(info(100, 0), None);
        assert_eq!(info(100, 1000), Some(Space { free: 910, capacity: 1000, is_low: false }));
        assert_eq!(info(760, 1000), Some(Space { free: 250, capacity: 1000, is_low: true }));
        assert_eq!(info(5000, 1000).map(|space| space.free), Some(0));
        assert_eq!(of_info(&InfoFields::default()), None);
    }
}
