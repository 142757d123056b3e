//! The backlog of a reader: the changes after its cursor in each bucket.

use std::ops::Bound::{Excluded, Included};
use std::sync::Arc;

use super::cursors::Cursors;
use super::entry::Entry;
use super::error::ResumeError;
use super::filter::Scope;
use super::hub::{Hub, LIST_BATCH, State};
use crate::store::{Bucket, Position};

/// The progress through a backlog, bucket by bucket: nothing else is stored for the reader.
#[derive(Debug)]
pub(super) struct Backlog {
    read: Cursors,
    bucket: Option<Bucket>,
}

impl Backlog {
    pub(super) fn after(cursors: &Cursors) -> Backlog {
        Backlog { read: cursors.clone(), bucket: Some(Bucket::default()) }
    }
}

impl Hub {
    /// Returns the next page of a backlog with at most `count` entries, perhaps none. `None`: the
    /// backlog is read completely.
    pub(super) fn missed(
        &self,
        scope: &Scope,
        missed: &mut Backlog,
        count: usize,
    ) -> Result<Option<Vec<Arc<Entry>>>, ResumeError> {
        let state = self.locked();
        while let Some(bucket) = missed.bucket.filter(|b| b.0 < missed.read.buckets()) {
            // Tombstones pruned in buckets that are read already concern the index of the group.
            if !missed.read.reach(&self.reached().forgotten, bucket) {
                return Err(ResumeError::Pruned);
            }
            let mut page = Vec::new();
            let last = state.read(scope, bucket, missed.read.of(bucket), count, &mut page);
            if let Some(last) = last {
                missed.read.set(bucket, last);
                return Ok(Some(page));
            }
            missed.bucket = bucket.0.checked_add(1).map(Bucket);
        }
        Ok(None)
    }
}

impl State {
    /// Adds the next changes of a bucket that are in scope. Returns the last position that was
    /// read.
    fn read(
        &self,
        scope: &Scope,
        bucket: Bucket,
        after: Position,
        count: usize,
        page: &mut Vec<Arc<Entry>>,
    ) -> Option<Position> {
        let end = Included((bucket, Position(u64::MAX)));
        let rest = self.order.range((Excluded((bucket, after)), end));
        let mut last = None;
        for ((_, position), entry) in rest.take(LIST_BATCH) {
            last = Some(*position);
            page.extend(Some(entry).filter(|entry| scope.has(&entry.app)).cloned());
            if page.len() == count {
                break;
            }
        }
        last
    }
}
