//! One bucket of the simulated store: its order of changes and its log.

use std::collections::{BTreeMap, VecDeque};
use std::hash::Hasher;
use std::sync::Arc;

use bellwether::domain::app::Head;
use bellwether::domain::name::AppName;
use bellwether::domain::revision::Revision;
use bellwether::store::{Broadcast, Bucket, Change, Position};
use fnv::FnvHasher;

/// Entries that a log keeps: few, so that a replica that was away finds a gap.
const ENTRIES_MAX: usize = 64;

/// The entries of one log after a cursor.
pub type Log = Vec<Arc<Entry>>;

/// An entry of a log.
pub struct Entry {
    /// Grows over all buckets, and is never used twice.
    pub id: u64,
    /// The content.
    pub content: Content,
}

/// The content of an entry.
pub enum Content {
    /// A change, with the position up to which it pruned tombstones and the revision floor.
    Change(Change, Option<(Position, Revision)>),
    /// A message.
    Broadcast(Broadcast),
}

/// The state of one bucket.
#[derive(Default)]
pub struct BucketState {
    /// The last position.
    pub last: Position,
    /// The position up to which tombstones are pruned.
    pub forgotten: Position,
    /// The revision at which an unknown application begins.
    pub floor: Revision,
    /// The loss count when the bucket last lost writes.
    pub losses: u32,
    /// The applications by position.
    pub order: BTreeMap<Position, AppName>,
    /// The newest entries.
    pub log: VecDeque<Arc<Entry>>,
    /// The last entry that is gone from the log.
    pub trimmed: u64,
}

/// A copy of a bucket for a replica whose log does not continue.
pub struct BucketCopy {
    /// The applications by position.
    pub heads: Vec<(AppName, Position, Arc<Head>)>,
    /// The last position.
    pub last: Position,
    /// The position up to which tombstones are pruned.
    pub forgotten: Position,
    /// The revision at which an unknown application begins.
    pub floor: Revision,
    /// The loss count when the bucket last lost writes.
    pub losses: u32,
    /// The last entry that the copy contains.
    pub cursor: u64,
}

impl BucketState {
    /// Adds an entry, and removes the oldest ones.
    pub fn append(&mut self, entry: Entry) {
        self.log.push_back(Arc::new(entry));
        while ENTRIES_MAX < self.log.len() {
            self.trimmed = self.log.pop_front().map_or(self.trimmed, |entry| entry.id);
        }
    }

    /// Returns whether the log continues after a cursor.
    pub fn continues(&self, cursor: u64) -> bool {
        self.trimmed <= cursor
    }

    /// Returns the entries after a cursor; `None` if some are gone.
    pub fn after(&self, cursor: u64) -> Option<Log> {
        let from = self.log.partition_point(|entry| entry.id <= cursor);
        self.continues(cursor).then(|| self.log.range(from..).cloned().collect())
    }

    /// Removes an entry that a failover dropped.
    pub fn drop_entry(&mut self, id: u64) {
        self.log.retain(|entry| entry.id != id);
    }
}

/// Returns the bucket of an application.
pub fn bucket_of(app: &AppName, buckets: u16) -> Bucket {
    let mut hash = FnvHasher::default();
    hash.write(app.application().as_bytes());
    Bucket((hash.finish() % u64::from(buckets.max(1))) as u16)
}
