//! Table `[faults]` of the configuration file: when an open error shows and how fast it is retried.

use std::time::Duration;

use serde::Deserialize;

use crate::domain::limits::FaultSettings;

use super::Error;

/// The keys of `[faults]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct FileFaults {
    soft_count: Option<u32>,
    soft_after_seconds: Option<u64>,
    hard_count: Option<u32>,
    hard_after_seconds: Option<u64>,
    retry_base_milliseconds: Option<u64>,
    throttled_base_milliseconds: Option<u64>,
    retry_max_seconds: Option<u64>,
    defer_interval_seconds: Option<u64>,
    retries_per_second_max: Option<u32>,
}

impl FileFaults {
    pub(super) fn settings(&self) -> FaultSettings {
        let default = FaultSettings::default();
        let seconds = |given: Option<u64>, default| given.map_or(default, Duration::from_secs);
        let millis = |given: Option<u64>, default| given.map_or(default, Duration::from_millis);
        FaultSettings {
            soft_count: self.soft_count.unwrap_or(default.soft_count),
            soft_after: seconds(self.soft_after_seconds, default.soft_after),
            hard_count: self.hard_count.unwrap_or(default.hard_count),
            hard_after: seconds(self.hard_after_seconds, default.hard_after),
            retry_base: millis(self.retry_base_milliseconds, default.retry_base),
            throttled_base: millis(self.throttled_base_milliseconds, default.throttled_base),
            retry_max: seconds(self.retry_max_seconds, default.retry_max),
            defer_interval: seconds(self.defer_interval_seconds, default.defer_interval),
            retries_per_second_max: self
                .retries_per_second_max
                .unwrap_or(default.retries_per_second_max),
        }
    }
}

/// Checks that thresholds and times fit together.
pub(super) fn check(settings: &FaultSettings) -> Result<(), Error> {
    let millis = |time: Duration| time.as_millis() as usize;
    let zero = [
        ("faults.soft_count", settings.soft_count as usize),
        ("faults.soft_after_seconds", millis(settings.soft_after)),
        ("faults.retry_base_milliseconds", millis(settings.retry_base)),
        ("faults.throttled_base_milliseconds", millis(settings.throttled_base)),
        ("faults.retry_max_seconds", millis(settings.retry_max)),
        ("faults.defer_interval_seconds", millis(settings.defer_interval)),
        ("faults.retries_per_second_max", settings.retries_per_second_max as usize),
    ];
    if let Some((limit, _)) = zero.into_iter().find(|(_, value)| *value == 0) {
        return Err(Error::ZeroLimit { limit });
    }
    let order = [
        (settings.soft_count <= settings.hard_count, "faults.soft_count", "faults.hard_count"),
        (
            settings.soft_after <= settings.hard_after,
            "faults.soft_after_seconds",
            "faults.hard_after_seconds",
        ),
        (
            settings.retry_base <= settings.retry_max,
            "faults.retry_base_milliseconds",
            "faults.retry_max_seconds",
        ),
    ];
    match order.into_iter().find(|(holds, ..)| !holds) {
        Some((_, least, most)) => Err(Error::OutOfOrder { least, most }),
        None => Ok(()),
    }
}
