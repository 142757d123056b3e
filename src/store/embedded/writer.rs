//! The thread that writes. Jobs that are queued during a sync form the next transaction.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Instant;

use redb::{Database, Durability};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::store::codec::Meta;
use crate::store::heads::{HeadStep, Heads};
use crate::store::{Applied, Bucket, CommitError, ConflictCause};
use crate::sync::write;

use super::batch::{Batch, Tables};
use super::file::{Location, Opened, panic_text, write_meta};
use super::{Published, Shared};

/// The maximum number of transitions in one transaction. A longer transaction costs each of them
/// more than it saves.
const GROUP_MAX: usize = 256;

/// A queued transition with the channel of its caller.
pub(super) struct Job {
    pub(super) batch: Batch,
    pub(super) answer: oneshot::Sender<Result<(), CommitError>>,
    /// The place in the queue, free when this is dropped.
    pub(super) room: OwnedSemaphorePermit,
}

/// The state of the writer thread.
pub(super) struct Writer {
    shared: Arc<Shared>,
    location: Location,
    queue: Receiver<Job>,
    /// The heads as of the group that is being written: ahead of [`Published::heads`] by that
    /// group.
    heads: Heads,
    /// The time of the next attempt to reopen the database; `None` while it can be used.
    retry_at: Option<Instant>,
}

impl Writer {
    pub(super) fn new(shared: Arc<Shared>, location: Location, queue: Receiver<Job>) -> Writer {
        let heads = shared.published().heads.clone();
        Writer { shared, location, queue, heads, retry_at: None }
    }

    /// Writes until the queue is closed and empty.
    pub(super) fn run(mut self) {
        let served = catch_unwind(AssertUnwindSafe(|| self.serve()));
        if let Err(panic) = served {
            // An observer or the writer panicked, so the data in memory may be inconsistent.
            let reason = format!("writer stopped by a panic: {}", panic_text(&*panic));
            tracing::error!(reason, "store has stopped, restart the process");
            self.shared.set_unusable(reason);
        }
    }

    fn serve(&mut self) {
        while let Some(group) = self.next_group() {
            if self.retry_at.is_some_and(|at| at <= Instant::now()) {
                self.reopen();
            }
            if !group.is_empty() {
                self.commit(group);
            }
        }
        self.finish();
    }

    /// Waits for work. Returns an empty group to reopen the database, and `None` when the queue is
    /// closed.
    fn next_group(&mut self) -> Option<Vec<Job>> {
        let first = match self.retry_at {
            None => self.queue.recv().ok()?,
            Some(at) => {
                let patience = at.saturating_duration_since(Instant::now());
                match self.queue.recv_timeout(patience) {
                    Ok(job) => job,
                    Err(RecvTimeoutError::Timeout) => return Some(Vec::new()),
                    Err(RecvTimeoutError::Disconnected) => return None,
                }
            }
        };
        let mut group = vec![first];
        group.extend(self.queue.try_iter().take(GROUP_MAX - 1));
        Some(group)
    }

    fn commit(&mut self, group: Vec<Job>) {
        let mut waiting = Vec::with_capacity(group.len());
        let mut writes = Vec::with_capacity(group.len());
        for Job { batch, answer, room } in group {
            // While the database cannot be used, there are no reliable heads to compare with.
            let step = match self.retry_at {
                None => self.step(&batch),
                Some(_) => Ok(None),
            };
            let outcome = step.map(|step| writes.extend(step.map(|step| (batch, step))));
            waiting.push((answer, outcome, room));
        }
        let applied = match self.retry_at {
            None => Applied::Maybe,
            Some(_) => Applied::No,
        };
        let unavailable = match self.write(writes) {
            Ok(steps) => {
                self.shared.publish(&steps);
                None
            }
            Err(reason) => Some(self.shared.unavailable(reason, applied)),
        };
        for (answer, outcome, room) in waiting {
            drop(room);
            // The caller may have stopped waiting.
            let _ = answer.send(match &unavailable {
                None => outcome,
                Some(error) => Err(error.clone()),
            });
        }
    }

    fn step(&mut self, batch: &Batch) -> Result<Option<HeadStep>, CommitError> {
        let head = batch.head.clone();
        let tombstones_max = self.shared.retention.tombstones_max;
        let stepped = self.heads.swap(&batch.app, batch.base, head, tombstones_max);
        let cause = ConflictCause::Revision;
        stepped.map_err(|current| CommitError::Conflict { current, cause })
    }

    /// Writes a group in one transaction, and syncs it. After an error the group may or may not be
    /// on disk.
    fn write(&mut self, writes: Vec<(Batch, HeadStep)>) -> Result<Vec<HeadStep>, String> {
        let meta = self.meta();
        let written = catch_unwind(AssertUnwindSafe(|| {
            let database = self.shared.database();
            let database = database.as_ref().map_err(Clone::clone)?;
            match writes.is_empty() {
                true => Ok(Vec::new()),
                false => self.write_group(database, writes, &meta).map_err(|e| e.to_string()),
            }
        }));
        let written = written.unwrap_or_else(|panic| Err(panic_text(&*panic)));
        if let (Err(reason), None) = (&written, self.retry_at) {
            tracing::error!(reason, "store cannot be used, will be opened again");
            self.shared.set_unusable(reason.clone());
            self.retry_at = Some(Instant::now() + self.shared.retry_interval);
        }
        written
    }

    fn write_group(
        &self,
        database: &Database,
        writes: Vec<(Batch, HeadStep)>,
        meta: &Meta,
    ) -> Result<Vec<HeadStep>, redb::Error> {
        let mut txn = database.begin_write()?;
        txn.set_durability(Durability::Immediate)?;
        let mut steps = Vec::with_capacity(writes.len());
        {
            let mut tables = Tables::open(&txn)?;
            for (batch, step) in writes {
                tables.write(batch, &step, &self.shared.retention)?;
                steps.push(step);
            }
            tables.write_meta(meta)?;
        }
        txn.commit()?;
        Ok(steps)
    }

    fn meta(&self) -> Meta {
        let shared = &self.shared;
        Meta::new(shared.epoch, shared.clock.latest(), self.heads.marks())
    }

    /// Reopens the database after an error, and finds out whether it has the last group.
    fn reopen(&mut self) {
        self.retry_at = Some(Instant::now() + self.shared.retry_interval);
        let opened = self.location.open();
        let adopted = opened.map_err(|e| e.to_string()).and_then(|o| self.adopt(o));
        match adopted {
            Ok(()) => {
                tracing::info!("store can be used again");
                self.retry_at = None;
            }
            Err(reason) => self.shared.set_unusable(reason),
        }
    }

    fn adopt(&mut self, opened: Opened) -> Result<(), String> {
        let Opened { database, meta, heads } = opened;
        if meta.epoch() != self.shared.epoch {
            return Err("the file was replaced by another database; restart to use it".to_string());
        }
        // Reading may work where writing does not. Without this test write, the next commit would
        // fail immediately, again and again.
        let probe = Meta::new(meta.epoch(), self.shared.clock.latest(), heads.marks());
        write_meta(&database, &probe, false).map_err(|e| e.to_string())?;
        let mut published = self.shared.published();
        let Published { heads: known, observers } = &mut *published;
        let (was, is) = (known.marks(), heads.marks());
        if is.last < was.last {
            return Err(format!(
                "database ends at position {}, but {} was acknowledged; restore a newer one",
                is.last.0, was.last.0
            ));
        }
        *known = heads.clone();
        known.changes_after(was.last).for_each(|c| observers.notify_change(&c));
        if was.forgotten < is.forgotten {
            observers.notify_prune(Bucket::default(), is.forgotten);
        }
        drop(published);
        self.heads = heads;
        self.shared.set_database(Ok(database));
        Ok(())
    }

    /// Writes the latest time, and closes the file.
    fn finish(&mut self) {
        let meta = self.meta();
        if let Ok(database) = &*self.shared.database()
            && let Err(error) = write_meta(database, &meta, false)
        {
            tracing::warn!(%error, "latest time is not stored");
        }
        self.shared.set_unusable("store is closed".to_string());
    }
}

impl Shared {
    /// Applies steps to the published heads, and notifies the observers.
    fn publish(&self, steps: &[HeadStep]) {
        let mut published = self.published();
        let Published { heads, observers } = &mut *published;
        for step in steps {
            heads.apply(step);
            observers.tell(step);
        }
    }

    /// Drops the database, with the reason why it cannot be used.
    pub(super) fn set_unusable(&self, reason: String) {
        self.set_database(Err(reason));
    }

    fn set_database(&self, database: Result<Database, String>) {
        let mut place = write(&self.database);
        let old = std::mem::replace(&mut *place, database);
        drop(place);
        // A broken database may panic again when it is dropped. There is nothing left to lose.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(old)));
    }
}
