//! The newest state of an application, shared by everyone who reads it.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use tokio::time::Instant;

use super::digest;
use crate::domain::app::Head;
use crate::domain::name::AppName;
use crate::domain::status::Level;
use crate::domain::time::Timestamp;
use crate::store::{Bucket, Change, Position};

/// The newest state of an application, or its tombstone (`head.deleted`).
#[derive(Debug)]
pub struct Entry {
    /// Which application.
    pub app: AppName,
    /// In which of the store's orders its changes stand.
    pub bucket: Bucket,
    /// Where its last change stands in that order.
    pub position: Position,
    /// What is known of it.
    pub head: Arc<Head>,
    /// What it adds to a digest: computed once, for all groups.
    pub(super) mark: u64,
    /// From when its level is counted, by the clock of this process.
    pub(super) level_from: Instant,
    encoded: OnceLock<Bytes>,
}

impl Entry {
    /// What follows `before` by a change that arrives now.
    pub(super) fn after(
        before: Option<&Entry>,
        change: &Change,
        clock: StoreClock,
        now: Instant,
    ) -> Entry {
        let summary = &change.head.summary;
        let level_from = match before {
            Some(before) if before.has_level_of(&change.head) => before.level_from,
            Some(_) => now,
            None => clock.instant_of(summary.since, now),
        };
        Entry {
            app: change.app.clone(),
            bucket: change.bucket,
            position: change.position,
            head: change.head.clone(),
            mark: digest::mark(&change.app, change.head.revision, summary.level),
            level_from,
            encoded: OnceLock::new(),
        }
    }

    /// What whoever serves it makes of it: made at the first call, for all who are told of it.
    pub fn encoded(&self, encode: impl FnOnce() -> Bytes) -> Bytes {
        self.encoded.get_or_init(encode).clone()
    }

    /// The level of the application.
    pub fn level(&self) -> Level {
        self.head.summary.level
    }

    /// A level that went and came back between two looks has another `since`.
    fn has_level_of(&self, head: &Head) -> bool {
        let (ours, theirs) = (&self.head.summary, &head.summary);
        !self.head.deleted && (ours.level, ours.since) == (theirs.level, theirs.since)
    }
}

/// Says how old a level is that was there before this process: the time by the store's clock at one
/// instant of ours.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct StoreClock(Option<(Timestamp, Instant)>);

impl StoreClock {
    pub(super) fn reads(time: Timestamp, now: Instant) -> StoreClock {
        StoreClock(Some((time, now)))
    }

    /// Not known: as if it began now.
    fn instant_of(self, since: Timestamp, now: Instant) -> Instant {
        let began = self.0.and_then(|(time, read)| {
            let age = time.after(now.saturating_duration_since(read)).since(since);
            now.checked_sub(age)
        });
        began.unwrap_or(now)
    }
}
