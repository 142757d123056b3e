//! The writer, which has a thread of its own. Jobs that are queued during a sync form the next
//! group.

use std::iter::once;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::Duration;

use redb::Database;
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio::time::Instant;

use crate::domain::transition::Transition;
use crate::store::codec::{self, Meta};
use crate::store::heads::{HeadStep, Heads};
use crate::store::key::META_STORE;
use crate::store::span::{CommitSpan, StoreSpans};
use crate::store::{Applied, Bucket, CommitError};
use crate::sync::{panic_text, write};

use super::applier::Applier;
use super::backup::Backups;
use super::batch::Batch;
use super::file::{Location, Opened};
use super::life::LifeFile;
use super::log::{Log, LogGroup};
use super::op::{Op, TableId};
use super::recover::Acknowledged;
use super::tables::{free_bytes, write_meta};
use super::{FULL, Published, Shared, group};

/// On a full disk the writer looks for room once in so many intervals of a retry: it counts the
/// pages of the database.
const LOOK_EVERY: u32 = 2;

/// The interval between two writes of the last sign of life: a start counts the time since the last
/// one as an outage.
pub(super) const LIFE_EVERY: Duration = Duration::from_millis(250);

/// The system and the operation in the spans of the store.
const SYNC: (&str, &str) = ("bellwether.embedded", "fsync");

/// A queued transition with the channel of its caller.
pub(super) struct Job {
    pub(super) batch: Batch,
    /// Its span, if it is exported.
    pub(super) span: Option<CommitSpan>,
    pub(super) answer: oneshot::Sender<Result<(), CommitError>>,
    /// The place in the queue, free when this is dropped.
    pub(super) room: OwnedSemaphorePermit,
}

/// The applier while it runs.
enum Running {
    Thread(JoinHandle<()>),
    Steps(Applier),
}

/// The state of the writer.
pub(super) struct Writer {
    shared: Arc<Shared>,
    location: Location,
    queue: Receiver<Job>,
    log: Log,
    /// What applies the log; `None` before the first group. The database is marked as one with a
    /// log before that.
    applier: Option<Running>,
    /// Whether the applier is a thread. Otherwise the caller of the writer's steps calls its steps.
    has_threads: bool,
    /// The sequence of the last group.
    last: u64,
    /// The heads as of the group that is being written: ahead of [`Published::heads`] by that
    /// group.
    heads: Heads,
    /// The number of transitions in the last group.
    last_length: usize,
    /// The time of the next attempt to reopen the database; `None` while it can be used.
    retry_at: Option<Instant>,
    /// On a full disk: whether something was deleted since the last look for room, and when the
    /// next one is due.
    has_deleted: bool,
    look_at: Instant,
    life_file: LifeFile,
    /// When the last sign of life is written again, and backups are looked for.
    life_at: Instant,
    backups: Backups,
}

impl Writer {
    pub(super) fn new(
        shared: Arc<Shared>,
        location: Location,
        (log, last): (Log, u64),
        life_file: LifeFile,
        queue: Receiver<Job>,
        has_threads: bool,
    ) -> Writer {
        let heads = shared.published().heads.clone();
        let backups = Backups::of(location.dir());
        Writer {
            shared,
            location,
            queue,
            log,
            applier: None,
            has_threads,
            last,
            heads,
            last_length: 0,
            retry_at: None,
            has_deleted: false,
            look_at: Instant::now(),
            life_file,
            life_at: Instant::now(),
            backups,
        }
    }

    /// Writes until the queue is closed and empty.
    pub(super) fn run(mut self) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.serve())) {
            // An observer or the writer panicked, so the data in memory may be inconsistent.
            let reason = format!("writer stopped by a panic: {}", panic_text(&*panic));
            tracing::error!(reason, "store has stopped, restart the process");
            self.shared.set_unusable(reason);
        }
    }

    fn serve(&mut self) {
        while let Some(group) = self.next_group() {
            self.turn(group);
        }
        self.finish();
    }

    /// Writes a group, and does what else is due.
    fn turn(&mut self, group: Vec<Job>) {
        self.begin();
        if self.retry_at.is_none() && self.shared.health().is_err() {
            self.retry_at = Some(Instant::now());
        }
        if self.retry_at.is_some_and(|at| at <= Instant::now()) {
            self.reopen();
        }
        if !group.is_empty() {
            self.commit(group);
        }
        if self.shared.is_full() && self.retry_at.is_none() && self.look_at <= Instant::now() {
            self.look_for_room();
        }
        self.note_life();
        self.shared.turn_since.store(0, Ordering::Relaxed);
    }

    /// Notes since when the writer works, unless it does already.
    pub(super) fn begin(&self) {
        let since = &self.shared.turn_since;
        if since.load(Ordering::Relaxed) == 0 {
            since.store(self.shared.clock.now().millis(), Ordering::Relaxed);
        }
    }

    /// Writes what is queued, and does what else is due, unless the applier must make room first.
    #[cfg(any(test, feature = "testing"))]
    pub(super) fn step(&mut self) {
        if !self.shared.backlog.is_full() {
            let group = self.queue.try_iter().take(group::MAX).collect();
            self.turn(group);
        }
    }

    /// Applies what is due. Returns whether something was.
    #[cfg(any(test, feature = "testing"))]
    pub(super) fn step_applier(&mut self) -> bool {
        match &mut self.applier {
            Some(Running::Steps(applier)) => applier.step(),
            _ => false,
        }
    }

    /// Writes the last sign of life and looks for requests of backups, if it is due.
    fn note_life(&mut self) {
        if Instant::now() < self.life_at {
            return;
        }
        self.life_at = Instant::now() + LIFE_EVERY;
        self.write_life();
        self.backups.look(&self.shared);
    }

    fn write_life(&mut self) {
        self.shared.moment();
        let life = self.shared.life();
        // A start after an error counts a longer outage, and deadlines end later.
        if let Err(error) = self.life_file.write(&life) {
            tracing::debug!(%error, "last sign of life is not stored");
        }
    }

    /// Waits for work. Returns an empty group to look at the database, and `None` when the queue is
    /// closed.
    fn next_group(&mut self) -> Option<Vec<Job>> {
        let patience = match self.retry_at {
            // The applier may find that the database cannot be used.
            None => self.shared.retry_interval.min(LIFE_EVERY),
            Some(at) => at.saturating_duration_since(Instant::now()),
        };
        let first = match self.queue.recv_timeout(patience) {
            Ok(job) => job,
            Err(RecvTimeoutError::Timeout) => return Some(Vec::new()),
            Err(RecvTimeoutError::Disconnected) => return None,
        };
        let group = group::gather(first, &self.queue, self.last_length, group::WAIT);
        self.last_length = group.len();
        Some(group)
    }

    fn commit(&mut self, group: Vec<Job>) {
        let mut waiting = Vec::with_capacity(group.len());
        let mut writes = Vec::with_capacity(group.len());
        let mut spans = Vec::new();
        for Job { batch, span, answer, room } in group {
            // While the database cannot be used, there are no reliable heads to compare with.
            let step = match self.retry_at {
                None if self.shared.is_full() && !batch.transition.makes_room() => {
                    Err(self.shared.unavailable(FULL.to_string(), Applied::No))
                }
                None => self.swap(&batch),
                Some(_) => Ok(None),
            };
            let outcome = step.map(|step| {
                if let Some(step) = step {
                    writes.push((batch, step));
                    spans.extend(span);
                }
            });
            waiting.push((answer, outcome, room));
        }
        let applied = if self.retry_at.is_none() { Applied::Maybe } else { Applied::No };
        let unavailable = match self.write(writes, spans) {
            Ok(steps) => {
                self.has_deleted |= self.shared.is_full() && !steps.is_empty();
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

    fn swap(&mut self, batch: &Batch) -> Result<Option<HeadStep>, CommitError> {
        let tombstones_max = self.shared.retention.tombstones_max;
        let Transition { app, base, head, .. } = &*batch.transition;
        self.heads.swap(app, *base, head.clone(), tombstones_max)
    }

    /// Appends a group to the log, and syncs it. After an error the group may be on disk or not.
    fn write(
        &mut self,
        writes: Vec<(Batch, HeadStep)>,
        spans: Vec<CommitSpan>,
    ) -> Result<Vec<HeadStep>, String> {
        if writes.is_empty() {
            return self.shared.health().map(|()| Vec::new());
        }
        let written = catch_unwind(AssertUnwindSafe(|| self.append(writes, &spans)));
        // Before the callers are answered, whose spans end later.
        drop(spans);
        let written = written.unwrap_or_else(|panic| Err(panic_text(&*panic).to_string()));
        if let (Err(reason), None) = (&written, self.retry_at) {
            tracing::error!(reason, "store cannot be used, will be opened again");
            self.shared.set_unusable(reason.clone());
            self.retry_at = Some(Instant::now() + self.shared.retry_interval);
        }
        written
    }

    fn append(
        &mut self,
        writes: Vec<(Batch, HeadStep)>,
        spans: &[CommitSpan],
    ) -> Result<Vec<HeadStep>, String> {
        self.shared.health()?;
        if self.applier.is_none() {
            self.start_applier()?;
        }
        // A start takes the time of the last group for a sign of life: an outage before it must be
        // in the file. Without it, deadlines would end while the disk stood still.
        if let Err(error) = self.life_file.keep(&self.shared.life()) {
            tracing::debug!(%error, "outage is not stored");
        }
        let meta = codec::encode(&self.meta());
        let retention = &self.shared.retention;
        let size = writes.iter().map(|(batch, _)| batch.size()).sum();
        let mut steps = Vec::with_capacity(writes.len());
        let mut group = LogGroup::new(size, |bytes| {
            for (batch, step) in writes {
                batch.write(&step, retention, bytes);
                steps.push(step);
            }
            Op::Put(TableId::Meta, META_STORE, &meta).write(bytes);
        });
        self.shared.backlog.await_room();
        let syncs = StoreSpans::begin(spans, SYNC, steps.len());
        let (sequence, asks) = match self.log.append(&mut group) {
            Ok(appended) => appended,
            Err(error) => {
                syncs.fail(&error.kind().to_string());
                return Err(error.to_string());
            }
        };
        drop(syncs);
        self.last = sequence;
        // Before the steps are published: a reader that knows a change must find it.
        let apps = steps.iter().flat_map(|step| once(&step.change).chain(&step.forgotten));
        let apps = apps.map(|change| change.app.clone());
        self.shared.backlog.push(group, sequence, apps);
        if asks {
            self.shared.backlog.wake();
        }
        Ok(steps)
    }

    /// Creates the log, marks the database as one with a log, and starts what applies the log.
    fn start_applier(&mut self) -> Result<(), String> {
        self.log.create().map_err(|error| error.to_string())?;
        self.write_meta(true)?;
        let applier = Applier::new(self.shared.clone(), self.log.segments.clone());
        self.applier = Some(if self.has_threads {
            let thread = std::thread::Builder::new().name("store-applier".to_string());
            let thread = thread.spawn(move || applier.run());
            Running::Thread(thread.map_err(|error| error.to_string())?)
        } else {
            Running::Steps(applier)
        });
        Ok(())
    }

    /// Writes the latest time. The database has all groups.
    fn write_meta(&self, has_log: bool) -> Result<(), String> {
        let database = self.shared.database();
        let database = database.as_ref().map_err(Clone::clone)?;
        write_meta(database, &self.meta(), self.last, has_log).map_err(|error| error.to_string())
    }

    /// Waits until the applier has stopped.
    fn join_applier(&mut self) {
        match self.applier.take() {
            // It catches its own panics.
            Some(Running::Thread(applier)) => drop(applier.join()),
            Some(Running::Steps(mut applier)) => while applier.step() {},
            None => {}
        }
    }

    fn meta(&self) -> Meta {
        let shared = &self.shared;
        Meta { epoch: shared.epoch, clock: shared.clock.latest(), marks: self.heads.marks() }
    }

    /// Reopens the database after an error, and finds out whether it has the last group.
    fn reopen(&mut self) {
        self.retry_at = Some(Instant::now() + self.shared.retry_interval);
        self.shared.backlog.stop();
        self.join_applier();
        let is_full = self.location.reserve.is_low();
        if is_full {
            self.location.reserve.release();
        }
        let acknowledged = Acknowledged { epoch: self.shared.epoch, sequence: self.last };
        let opened = self.location.open(None, Some(&acknowledged)).map_err(|e| e.in_full());
        let adopted = opened.and_then(|opened| self.adopt(opened));
        match adopted {
            Ok(()) if is_full => {
                tracing::warn!("the disk is full: deletions alone are written until there is room");
                self.shared.is_full.store(true, Ordering::Relaxed);
                self.retry_at = None;
            }
            Ok(()) => {
                tracing::info!("store can be used again");
                self.shared.is_full.store(false, Ordering::Relaxed);
                self.retry_at = None;
            }
            Err(reason) => self.shared.set_unusable(reason),
        }
    }

    /// Takes every commit again if the disk has room, or the database has it within its file after
    /// deletions.
    fn look_for_room(&mut self) {
        self.look_at = Instant::now() + LOOK_EVERY * self.shared.retry_interval;
        let has_room = self.location.reserve.fill()
            // Until then, the pages of what was deleted are not free.
            || (self.has_deleted && self.shared.backlog.is_empty() && self.has_free_pages());
        if has_room {
            tracing::info!("the store has room again");
            self.has_deleted = false;
            self.shared.is_full.store(false, Ordering::Relaxed);
        }
    }

    /// Returns whether the database has room within its file.
    fn has_free_pages(&self) -> bool {
        // redb frees the pages of one transaction in a later one.
        if self.write_meta(true).is_err() {
            return false;
        }
        let database = self.shared.database();
        let Ok(database) = database.as_ref() else { return false };
        let free = free_bytes(database, self.location.allocated_bytes());
        free.is_ok_and(|free| self.location.reserve.room() <= free)
    }

    fn adopt(&mut self, opened: Opened) -> Result<(), String> {
        let Opened { database, meta, heads, log, applied } = opened;
        if meta.epoch != self.shared.epoch {
            return Err("the file was replaced by another database; restart to use it".to_string());
        }
        // Reading may work where writing does not. Without this test write, the next commit would
        // fail immediately, again and again.
        let probe = Meta { clock: self.shared.clock.latest(), marks: heads.marks(), ..meta };
        write_meta(&database, &probe, applied, false).map_err(|e| e.to_string())?;
        let mut published = self.shared.published();
        let Published { heads: known, observers } = &mut *published;
        let (was, is) = (known.marks(), heads.marks());
        *known = heads.clone();
        known.changes_after(was.last).for_each(|c| observers.notify(|o| o.on_change(&c)));
        if was.forgotten < is.forgotten {
            observers.notify(|o| o.on_prune(Bucket::default(), is.forgotten));
        }
        drop(published);
        (self.heads, self.log, self.last) = (heads, log, applied);
        self.shared.backlog.reset(self.location.files.limits, applied);
        self.shared.set_database(Ok(database));
        Ok(())
    }

    /// Applies all groups, writes the latest time, and closes the files.
    pub(super) fn finish(&mut self) {
        let had_log = self.applier.is_some();
        self.backups.end();
        self.write_life();
        self.shared.backlog.end();
        self.join_applier();
        // Otherwise the next start applies the log.
        if self.shared.backlog.is_empty() && self.shared.health().is_ok() {
            match self.write_meta(false) {
                // The database has everything, so a version that does not know the log can use it.
                Ok(()) if had_log => {
                    if let Err(error) = self.log.segments.remove_all() {
                        tracing::warn!(%error, "log is not removed, the next start removes it");
                    }
                }
                Ok(()) => {}
                Err(error) => tracing::warn!(%error, "latest time is not stored"),
            }
        }
        self.shared.set_unusable("store is closed".to_string());
    }
}

impl Shared {
    fn is_full(&self) -> bool {
        self.is_full.load(Ordering::Relaxed)
    }

    /// Applies steps to the published heads, and notifies the observers.
    fn publish(&self, steps: &[HeadStep]) {
        let mut published = self.published();
        let Published { heads, observers } = &mut *published;
        for step in steps {
            heads.apply(step);
            observers.notify_of(step);
        }
    }

    /// Drops the database, with the reason why it cannot be used.
    pub(super) fn set_unusable(&self, reason: String) {
        self.set_database(Err(reason));
        self.backlog.stop();
    }

    fn set_database(&self, database: Result<Database, String>) {
        let mut place = write(&self.database);
        let old = std::mem::replace(&mut *place, database);
        drop(place);
        // A broken database may panic again when it is dropped. There is nothing left to lose.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(old)));
    }
}
