//! Counts the refusals of this process by the limit that caused them.

use std::collections::BTreeMap;
use std::sync::Mutex;

use super::{ApiError, Reason};
use crate::sync::lock;

/// The count of each limit. The names come from the code of the server alone.
static COUNTS: Mutex<BTreeMap<String, u64>> = Mutex::new(BTreeMap::new());

/// Returns how many requests each limit has refused.
pub fn by_limit() -> BTreeMap<String, u64> {
    lock(&COUNTS).clone()
}

/// Counts a failure on its way to the client, if a limit is the cause.
pub(super) fn note(problem: &ApiError) {
    if !matches!(
        problem.reason,
        Reason::LimitExceeded
            | Reason::RateLimited
            | Reason::RequestTooLarge
            | Reason::TooManyStreams
    ) {
        return;
    }
    let Some((_, limit)) = problem.metadata.iter().find(|(key, _)| *key == "limit") else { return };
    *lock(&COUNTS).entry(limit.clone()).or_default() += 1;
}
