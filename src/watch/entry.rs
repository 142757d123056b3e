//! The newest state of an application, shared by all readers.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use tokio::time::Instant;

use super::digest;
use crate::domain::app::Head;
use crate::domain::level::Level;
use crate::domain::name::AppName;
use crate::domain::revision::Revision;
use crate::domain::time::Timestamp;
use crate::store::{Bucket, Change, KeptHead, Position};

/// The newest state of an application, or its tombstone ([`Entry::is_deleted`]).
#[derive(Debug)]
pub struct Entry {
    /// The application.
    pub app: AppName,
    /// The bucket of the store that orders its changes.
    pub bucket: Bucket,
    /// The position of its last change in the bucket.
    pub position: Position,
    /// The state.
    head: KeptHead,
    /// The number of its changes that this process did not receive, because this one replaced them
    /// in the store.
    pub(super) replaced: u64,
    /// Its share in digests, computed once for all groups.
    pub(super) mark: u64,
    /// The start of its level, by the clock of this process.
    pub(super) level_from: Instant,
    /// Boxed, because most applications of most replicas have no watcher.
    encoded: OnceLock<Box<Bytes>>,
    /// In a relay: whether `encoded` is from the upstream, which may say more than the head.
    is_copied: bool,
}

impl Entry {
    /// Returns the entry that a change makes of `before`.
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
        // Each change has the next revision.
        let next = before.map(|before| before.revision().0 + 1);
        let replaced = next.map_or(0, |next| change.head.revision.0.saturating_sub(next));
        Entry {
            replaced,
            app: change.app.clone(),
            bucket: change.bucket,
            position: change.position,
            head: change.kept(),
            mark: digest::mark(&change.app, change.head.revision, summary.level),
            level_from,
            encoded: OnceLock::new(),
            is_copied: false,
        }
    }

    /// Sets the encoded form that an upstream sent.
    #[must_use]
    pub(super) fn with_image(self, image: Option<Bytes>) -> Entry {
        let is_copied = image.is_some();
        let encoded = image.map(Box::new).map_or_else(OnceLock::new, OnceLock::from);
        Entry { encoded, is_copied, ..self }
    }

    /// Returns the encoded form that an upstream sent; `None` in a server, which has the head.
    pub fn copied(&self) -> Option<&Bytes> {
        self.encoded.get().map(|encoded| &**encoded).filter(|_| self.is_copied)
    }

    /// Returns its share in digests.
    pub fn mark(&self) -> u64 {
        self.mark
    }

    /// Returns the encoded form. `encode` runs at the first call only: all watchers share the
    /// result.
    pub fn encoded(&self, encode: impl FnOnce() -> Bytes) -> Bytes {
        Bytes::clone(self.encoded.get_or_init(|| Box::new(encode())))
    }

    /// Returns the state. It may be decoded for this call, so a reader of all applications first
    /// asks for what the entry knows without it.
    pub fn head(&self) -> Arc<Head> {
        self.head.head()
    }

    /// Returns what is known of the state without decoding it.
    pub fn kept(&self) -> &KeptHead {
        &self.head
    }

    /// Returns the revision of the application.
    pub fn revision(&self) -> Revision {
        self.head.revision()
    }

    /// Returns whether this is the tombstone of a deleted application.
    pub fn is_deleted(&self) -> bool {
        self.head.is_deleted()
    }

    /// Returns the level of the application.
    pub fn level(&self) -> Level {
        self.head.level()
    }

    /// Returns since when the application has its level.
    pub fn since(&self) -> Timestamp {
        self.head.since()
    }

    /// Returns whether the level is unchanged. A level that changed and returned has another
    /// `since`.
    fn has_level_of(&self, head: &Head) -> bool {
        let theirs = &head.summary;
        !self.is_deleted() && (self.level(), self.since()) == (theirs.level, theirs.since)
    }
}

/// A reading of the store's clock at one instant of this process: gives the age of levels that are
/// older than the process.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct StoreClock(Option<(Timestamp, Instant)>);

impl StoreClock {
    pub(super) fn reads(time: Timestamp, now: Instant) -> StoreClock {
        StoreClock(Some((time, now)))
    }

    /// Returns the instant of a store time; `now` if the store's clock is not known.
    fn instant_of(self, since: Timestamp, now: Instant) -> Instant {
        let began = self.0.and_then(|(time, read)| {
            let age = time.after(now.saturating_duration_since(read)).since(since);
            now.checked_sub(age)
        });
        began.unwrap_or(now)
    }
}
