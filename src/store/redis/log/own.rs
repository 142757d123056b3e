//! The commits of this process that are under way, by their marks.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::domain::name::AppName;
use crate::domain::transition::Transition;
use crate::domain::unit::presence::ReplicaId;
use crate::store::redis::record::batch::Mark;
use crate::sync::lock;

/// The commits of this process that are under way, so that the reader need not decode them from the
/// log.
pub(crate) struct Own {
    /// The id of this process, as marks have it.
    writer: Arc<str>,
    by_sequence: Mutex<HashMap<u64, Arc<Transition>>>,
    last: AtomicU64,
}

impl Own {
    /// Returns the commits of a process; there are none yet.
    pub(crate) fn new(replica: ReplicaId) -> Own {
        let writer = format!("{:016x}", replica.0).into();
        Own { writer, by_sequence: Mutex::default(), last: AtomicU64::default() }
    }

    /// Returns the id of this process, as marks have it.
    pub(crate) fn writer(&self) -> &Arc<str> {
        &self.writer
    }

    /// Returns the mark of the next commit.
    pub(crate) fn next_mark(&self) -> Mark {
        let sequence = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        Mark { writer: self.writer.clone(), sequence }
    }

    /// Gives a commit a mark, and keeps it until the returned guard is dropped.
    pub(crate) fn keep(self: &Arc<Own>, transition: Arc<Transition>) -> CommitGuard {
        let mark = self.next_mark();
        lock(&self.by_sequence).insert(mark.sequence, transition);
        CommitGuard { own: self.clone(), mark }
    }

    /// Returns the commit of an entry with this mark, if it is one of this process.
    pub(crate) fn get(&self, mark: &str, app: &AppName) -> Option<Arc<Transition>> {
        let (writer, sequence) = mark.split_once(':')?;
        let sequence = sequence.parse().ok().filter(|_| *writer == *self.writer)?;
        let by_sequence = lock(&self.by_sequence);
        by_sequence.get(&sequence).filter(|transition| transition.app == *app).cloned()
    }
}

/// A guard that keeps a commit; see [`Own::keep`].
pub(crate) struct CommitGuard {
    own: Arc<Own>,
    pub(crate) mark: Mark,
}

impl Drop for CommitGuard {
    fn drop(&mut self) {
        lock(&self.own.by_sequence).remove(&self.mark.sequence);
    }
}
