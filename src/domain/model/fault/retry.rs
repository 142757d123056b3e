//! Retry times: backoff, jitter and budget, the same on every replica.

use std::hash::Hasher;
use std::time::Duration;

use crate::domain::classify::finding::Class;
use crate::domain::model::fault::FaultKey;
use crate::domain::model::limits::FaultSettings;
use crate::domain::model::name::AppName;
use fnv::FnvHasher;

/// The owner of a fault. It includes the application, so that equal units of many applications do
/// not retry together.
pub type Whose<'a> = (&'a AppName, &'a FaultKey);

/// The values of an error that decide the next retry.
pub struct Met {
    pub class: Class,
    /// Whether the error holds its component.
    pub holds: bool,
    /// Number of errors.
    pub count: u32,
    /// Number of errors that count as attempts.
    pub attempts: u32,
    /// The delay that the peer requested.
    pub pushback: Option<Duration>,
}

/// Returns the wait before the next retry; `None`: no retry until a person has acted. An error
/// whose class holds, but which holds nothing, is retried at the slowest pace. The peer's delay
/// replaces the own wait, but never shortens it once the budget is used up.
pub fn wait(settings: &FaultSettings, whose: Whose<'_>, met: &Met) -> Option<Duration> {
    let FaultSettings { retry_base, throttled_base, retry_max, .. } = *settings;
    let is_spent = met.class.counts_as_attempt() && settings.hard_count <= met.attempts;
    let own = match met.class {
        Class::Blocked | Class::Gone | Class::Fatal if met.holds => return None,
        Class::Blocked | Class::Gone | Class::Fatal => retry_max,
        Class::Interrupted => return Some(Duration::ZERO),
        _ if is_spent => retry_max,
        Class::Transient | Class::Unclassified => doubled(retry_base, met.attempts, retry_max),
        Class::Throttled => doubled(throttled_base, met.count, retry_max),
        Class::Conflict => doubled(retry_base, met.count, retry_max),
        Class::Dependency => settings.defer_interval,
    };
    let own = jittered(own, whose, met.count);
    Some(match met.pushback {
        Some(asked) if is_spent => asked.max(own),
        Some(asked) => asked,
        None => own,
    })
}

/// Returns `base`, doubled for each try after the first.
fn doubled(base: Duration, tries: u32, max: Duration) -> Duration {
    let factor = 1u32.checked_shl(tries.saturating_sub(1)).unwrap_or(u32::MAX);
    base.checked_mul(factor).map_or(max, |wait| wait.min(max))
}

/// Returns a wait up to a fifth shorter or longer, so that workers that failed together do not
/// retry together. It is derived from the key and the count, so that every replica computes the
/// same value.
fn jittered(wait: Duration, (app, key): Whose<'_>, count: u32) -> Duration {
    let FaultKey { unit, component, target } = key;
    let app = [app.namespace(), app.application()];
    let mut hasher = FnvHasher::default();
    for part in app.into_iter().chain([unit.as_str(), component.as_str(), &**target]) {
        hasher.write(part.as_bytes());
        hasher.write(&[0]);
    }
    hasher.write(&count.to_le_bytes());
    // FNV-1a with a final mix: its low bits alone depend mostly on the last byte.
    let hash = hasher.finish();
    let mixed = (hash ^ (hash >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let permille = 800 + (mixed >> 32) % 401;
    let millis = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
    Duration::from_millis(millis.saturating_mul(permille) / 1000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::model::name::{PartName, UnitName};

    fn key(target: &str) -> FaultKey {
        FaultKey {
            unit: UnitName::new("web/0").unwrap(),
            component: PartName::new("db").unwrap(),
            target: target.into(),
        }
    }

    fn app(name: &str) -> AppName {
        AppName::new("", name).unwrap()
    }

    fn millis(class: Class, count: u32, pushback: Option<u64>) -> Option<u128> {
        let pushback = pushback.map(Duration::from_millis);
        let attempts = if class.counts_as_attempt() { count } else { 0 };
        let met = Met { class, holds: class.holds(), count, attempts, pushback };
        wait(&FaultSettings::default(), (&app("web"), &key("pg")), &met)
            .map(|wait| wait.as_millis())
    }

    #[test]
    fn waits_grow_and_end_at_the_slowest_pace() {
        for (class, count, pushback, from, to) in [
            (Class::Transient, 1, None, 200, 300),
            (Class::Transient, 2, None, 400, 600),
            (Class::Transient, 9, None, 51_200, 76_800),
            (Class::Transient, 10, None, 144_000, 216_000),
            (Class::Transient, u32::MAX, None, 144_000, 216_000),
            (Class::Transient, 1, Some(7_000), 7_000, 7_000),
            (Class::Transient, 10, Some(7_000), 144_000, 216_000),
            (Class::Transient, 10, Some(900_000), 900_000, 900_000),
            (Class::Throttled, 1, None, 800, 1_200),
            (Class::Throttled, 40, Some(5), 5, 5),
            (Class::Conflict, 1, None, 200, 300),
            (Class::Dependency, 1, None, 24_000, 36_000),
            (Class::Dependency, 50, None, 24_000, 36_000),
            (Class::Interrupted, 3, None, 0, 0),
        ] {
            let wait = millis(class, count, pushback).unwrap();
            assert!((from..=to).contains(&wait), "{class:?} {count}: {wait}");
        }
        for class in [Class::Blocked, Class::Gone, Class::Fatal] {
            assert_eq!(millis(class, 1, Some(5)), None);
            let met = Met { class, holds: false, count: 1, attempts: 0, pushback: None };
            let wait = wait(&FaultSettings::default(), (&app("web"), &key("pg")), &met);
            let range = Duration::from_secs(144)..=Duration::from_secs(216);
            assert!(wait.is_some_and(|wait| range.contains(&wait)), "{class:?}: {wait:?}");
        }
    }

    #[test]
    fn jitter_spreads_and_is_the_same_each_time() {
        let second = Duration::from_secs(1);
        let by_target = |n: u32| jittered(second, (&app("web"), &key(&n.to_string())), 1);
        let by_app = |n: u32| jittered(second, (&app(&format!("web-{n}")), &key("pg")), 1);
        let by_count = |n: u32| jittered(second, (&app("web"), &key("pg")), n);
        for wait in [&by_target as &dyn Fn(u32) -> Duration, &by_app, &by_count] {
            let waits: std::collections::BTreeSet<Duration> = (0..200).map(wait).collect();
            assert!(120 < waits.len(), "only {} different waits", waits.len());
            let (least, most) = (waits.first().unwrap(), waits.last().unwrap());
            assert!(*least < second * 17 / 20 && second * 23 / 20 < *most, "{least:?} {most:?}");
            assert_eq!(wait(7), wait(7));
        }
    }
}
