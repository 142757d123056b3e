//! The wait before the next attempt of an operation.

use std::hash::Hasher;
use std::time::Duration;

use crate::domain::classify::finding::Class;
use crate::domain::model::name::OperationId;
use fnv::FnvHasher;

/// First wait, doubled at each failure in a row. A throttled operation, or one that waits for a
/// dependency, starts with the slow one; an error that blocks waits the longest time.
const FIRST: Duration = Duration::from_secs(1);

const FIRST_SLOW: Duration = Duration::from_secs(5);

/// Longest wait without pushback.
const LONGEST: Duration = Duration::from_secs(180);

/// Jitter: the wait is up to a fifth longer or shorter, so that applications that failed together
/// do not retry together.
const JITTER_PARTS: u64 = 5;

/// Returns the wait after this number of failures in a row. The result is the same for the same
/// operation and fence, on every replica.
pub fn wait(id: &OperationId, class: Class, waits: u32, fence: u64) -> Duration {
    let first = match class {
        Class::Throttled | Class::Dependency => FIRST_SLOW,
        Class::Blocked | Class::Gone | Class::Fatal => LONGEST,
        _ => FIRST,
    };
    let doubled = first.saturating_mul(1_u32.checked_shl(waits).unwrap_or(u32::MAX));
    let millis = u64::try_from(doubled.min(LONGEST).as_millis()).unwrap_or(u64::MAX);
    let jitter = millis / JITTER_PARTS;
    let spread = hash(id.as_str(), fence) % (2 * jitter + 1);
    Duration::from_millis(millis - jitter + spread)
}

/// FNV-1a: for spreading only, not for security.
fn hash(id: &str, fence: u64) -> u64 {
    let mut hash = FnvHasher::default();
    hash.write(id.as_bytes());
    hash.write(&fence.to_le_bytes());
    hash.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_a_bound_and_differ() {
        let (one, other) = (OperationId::new("a").unwrap(), OperationId::new("b").unwrap());
        let at = |id: &OperationId, waits| wait(id, Class::Transient, waits, 1).as_millis();
        for (waits, low, high) in
            [(0, 800, 1200), (3, 6400, 9600), (8, 144_000, 216_000), (99, 144_000, 216_000)]
        {
            for id in [&one, &other] {
                assert!((low..=high).contains(&at(id, waits)), "{waits}: {}", at(id, waits));
            }
        }
        assert_ne!(at(&one, 5), at(&other, 5));
        let blocked = wait(&one, Class::Blocked, 0, 1);
        assert!(Duration::from_secs(144) <= blocked, "{blocked:?}");
        let slow = wait(&one, Class::Throttled, 0, 1);
        assert!(Duration::from_secs(4) <= slow, "{slow:?}");
    }

    #[test]
    fn a_wait_is_up_to_a_fifth_longer_or_shorter() {
        let ids = (0..5000).map(|n| OperationId::new(&n.to_string()).unwrap());
        let waits: Vec<_> = ids.map(|id| wait(&id, Class::Transient, 0, 1).as_millis()).collect();
        assert_eq!((waits.iter().min(), waits.iter().max()), (Some(&800), Some(&1200)));
    }
}
