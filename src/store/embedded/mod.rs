//! A store in a local directory: a log, and redb behind it. A commit is synced to the log before it
//! is acknowledged.
//!
//! ```text
//!  commit --encode--> queue --> Writer: group, compare, append, sync --> publish --> answer
//!                                          '--> Backlog --> Applier: redb   |
//!  load, events --await_applied--> read transactions                        |
//!  follow <------------------------------- heads, observers <---------------'
//! ```
//!
//! The applier brings groups into redb in order, in few and large transactions. A read of an
//! application with unapplied changes waits for the applier, so that all reads read redb.
//!
//! After a disk error the store cannot be used: commits fail with `Unavailable` until the writer
//! has reopened it from the files. The writer retries on its own.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, MutexGuard, RwLock, RwLockReadGuard};
use std::thread::JoinHandle;
use std::time::Duration;

use redb::Database;
use tokio::sync::{Notify, Semaphore, oneshot};

use crate::domain::name::AppName;
use crate::domain::replay::Records;
use crate::domain::time::Timestamp;
use crate::domain::transition::Transition;
use crate::domain::unit::presence::ReplicaId;
use crate::sync::{self, lock};

use super::clock::{self, Clock};
use super::heads::{Heads, Observers};
use super::moment::{Life, Moment, OUTAGE_MIN};
use super::span::CommitSpan;
use super::{
    Applied, Broadcast, Bucket, CommitError, Epoch, MasterChange, NumberedEvent, Observer,
    ReadError, Retention, Space, Store, Version, random_store_id,
};

use applier::SharedBacklog;
use batch::Batch;
use file::{Files, Location, Opened};
use read::ReadFailure;
use writer::{Job, Writer};

mod applier;
pub mod backup;
mod batch;
mod data_loss;
pub(crate) mod disk;
mod error;
pub(crate) mod examine;
mod file;
mod group;
mod header;
mod life;
mod limits;
mod log;
mod newest;
mod op;
mod overlay;
mod read;
mod recover;
mod reserve;
#[cfg(any(test, feature = "testing"))]
pub mod stepwise;
mod tables;
mod writer;

pub use error::OpenError;

#[cfg(test)]
mod tests;

/// The maximum number of transitions that are queued or being written: several groups, so that the
/// writer always has a next one.
const QUEUE_MAX: usize = 1024;

/// Why a commit is refused that makes no room.
const FULL: &str = "No space left on device: deletions alone are written until there is room; free \
                    some on the data directory, or delete applications or units";

/// The settings of an embedded store.
#[derive(Debug, Clone)]
pub struct Options {
    /// How much history is kept.
    pub retention: Retention,
    /// The pause between attempts to reopen the database after an error.
    pub retry_interval: Duration,
    /// The epoch of a store that is opened even if a part of its log is damaged or missing. What
    /// can be read is served, and a data loss is recorded: the epoch changes, so that the same
    /// value accepts no later loss.
    pub accepts_data_loss: Option<String>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            retention: Retention::default(),
            retry_interval: Duration::from_secs(1),
            accepts_data_loss: None,
        }
    }
}

/// A store in a local directory.
pub struct EmbeddedStore {
    shared: Arc<Shared>,
    directory: PathBuf,
    room: Arc<Semaphore>,
    /// The queue of the writer; `None` after the store is closed.
    queue: Mutex<Option<Sender<Job>>>,
    writer: Mutex<Option<JoinHandle<()>>>,
    /// Set if the store has no threads: its caller does the steps, and each notifies this.
    stepped: Option<Arc<Notify>>,
}

/// The data that the writer and the readers share.
struct Shared {
    retention: Retention,
    retry_interval: Duration,
    clock: Clock,
    life: Mutex<Life>,
    /// Since when the writer works without a pause, in milliseconds of the clock; 0: it waits.
    turn_since: AtomicU64,
    epoch: Epoch,
    replica: ReplicaId,
    /// The database, or the reason why it cannot be used.
    database: RwLock<Result<Database, String>>,
    /// Whether the disk is full, so that deletions alone are written.
    is_full: AtomicBool,
    backlog: SharedBacklog,
    published: Mutex<Published>,
}

/// The heads that are committed and sent to observers.
struct Published {
    heads: Heads,
    observers: Observers,
}

impl EmbeddedStore {
    /// Opens the store in a directory, and creates both if they do not exist. It takes time because
    /// it reads and checks the whole file.
    ///
    /// # Errors
    ///
    /// `DamagedLog` or `MissingLog` if acknowledged commits may be lost, unless
    /// [`Options::accepts_data_loss`] has the epoch of the store. Nothing is changed then.
    pub fn open(dir: &Path, options: Options) -> Result<EmbeddedStore, OpenError> {
        EmbeddedStore::open_with(dir, options, Files::of(dir))
    }

    fn open_with(dir: &Path, options: Options, files: Files) -> Result<EmbeddedStore, OpenError> {
        let (store, writer) = EmbeddedStore::prepare(dir, options, files, clock::wall_clock, None)?;
        let thread = std::thread::Builder::new().name("store-writer".to_string());
        let thread = thread.spawn(move || writer.run());
        let thread = thread.map_err(|source| OpenError::Io { path: dir.to_path_buf(), source })?;
        *lock(&store.writer) = Some(thread);
        Ok(store)
    }

    /// Opens the store without starting its writer. `wall` returns the time of the wall clock.
    fn prepare(
        dir: &Path,
        options: Options,
        files: Files,
        wall: impl Fn() -> Timestamp,
        stepped: Option<Arc<Notify>>,
    ) -> Result<(EmbeddedStore, Writer), OpenError> {
        let location = Location::new(dir, files);
        location.create()?;
        // A start may have to apply the log.
        location.reserve.release();
        for finding in location.open_to_others() {
            tracing::warn!("{finding}");
        }
        let Opened { database, meta, heads, log, applied } =
            location.open(options.accepts_data_loss.as_deref(), None)?;
        let (life_file, mut life) = location.open_life(meta.epoch.store_id)?;
        location.reserve.fill();
        let is_full = location.reserve.is_out();
        life.alive = life.alive.max(meta.clock);
        let clock = Clock::starting_at(wall(), life.alive);
        life.start(clock.now());
        let shared = Arc::new(Shared {
            retention: options.retention,
            retry_interval: options.retry_interval,
            clock,
            life: Mutex::new(life),
            turn_since: AtomicU64::new(0),
            epoch: meta.epoch,
            replica: ReplicaId(random_store_id()),
            database: RwLock::new(Ok(database)),
            is_full: AtomicBool::new(is_full),
            backlog: SharedBacklog::new(location.files.limits, applied),
            published: Mutex::new(Published { heads, observers: Observers::default() }),
        });
        let (queue, jobs) = mpsc::channel();
        let has_threads = stepped.is_none();
        let log = (log, applied);
        let writer = Writer::new(shared.clone(), location, log, life_file, jobs, has_threads);
        let store = EmbeddedStore {
            shared,
            directory: dir.to_path_buf(),
            room: Arc::new(Semaphore::new(QUEUE_MAX)),
            queue: Mutex::new(Some(queue)),
            writer: Mutex::new(None),
            stepped,
        };
        Ok((store, writer))
    }

    /// Closes the queue. Returns the writer thread to the first caller, which joins it.
    fn stop(&self) -> Option<JoinHandle<()>> {
        self.room.close();
        lock(&self.queue).take();
        lock(&self.writer).take()
    }

    /// Reads on a thread that may block on the disk.
    async fn read<T: Send + 'static>(
        &self,
        app: &AppName,
        read: impl FnOnce(&Shared, &Database) -> Result<T, ReadFailure> + Send + 'static,
    ) -> Result<T, ReadError> {
        if let Some(stepped) = &self.stepped {
            let mut step = std::pin::pin!(stepped.notified());
            while !self.shared.backlog.want(app) {
                step.as_mut().await;
                step.set(stepped.notified());
            }
            return self.shared.read(app, read);
        }
        let shared = self.shared.clone();
        let what = app.clone();
        let task = tokio::task::spawn_blocking(move || {
            shared.backlog.await_applied(&what);
            shared.read(&what, read)
        });
        task.await.unwrap_or_else(|error| {
            Err(ReadError::Corrupt { record: app.to_string(), reason: error.to_string() })
        })
    }
}

#[async_trait::async_trait]
impl Store for EmbeddedStore {
    fn now(&self) -> Timestamp {
        self.shared.clock.now()
    }

    fn moment(&self) -> Moment {
        self.shared.moment()
    }

    fn epoch(&self) -> Epoch {
        self.shared.epoch
    }

    fn epoch_floor(&self, _: &AppName) -> u64 {
        0
    }

    fn buckets(&self) -> u16 {
        1
    }

    fn is_shared(&self) -> bool {
        false
    }

    async fn load(&self, app: &AppName) -> Result<Records, ReadError> {
        let name = app.clone();
        self.read(app, move |shared, database| {
            // The database may lack the newest floor.
            let floor = || shared.published().heads.marks().revision_floor;
            read::read_app(database, &name, floor)
        })
        .await
    }

    async fn release(&self, _: &AppName) {}

    async fn commit(&self, transition: Arc<Transition>) -> Result<(), CommitError> {
        if !transition.is_durable() {
            // Without waiting for the group that is being written.
            self.shared.check_usable()?;
            return self.shared.published().heads.compare(&transition.app, transition.base);
        }
        let batch = Batch::encode(transition);
        let gone = |applied| {
            let reason = self.shared.health().err();
            self.shared.unavailable(reason.unwrap_or_else(|| "store is closed".into()), applied)
        };
        let room = self.room.clone().acquire_owned().await.map_err(|_| gone(Applied::No))?;
        let (answer, answered) = oneshot::channel();
        let job = Job { batch, span: CommitSpan::current(), answer, room };
        let sent = lock(&self.queue).as_ref().is_some_and(|q| q.send(job).is_ok());
        if !sent {
            return Err(gone(Applied::No));
        }
        answered.await.unwrap_or_else(|_| Err(gone(Applied::Maybe)))
    }

    async fn confirm(&self, app: &AppName, version: Version) -> Result<(), CommitError> {
        self.shared.check_usable()?;
        version.compare(&self.shared.published().heads.head(app))
    }

    fn follow(&self, observer: Arc<dyn Observer>) {
        let Published { heads, observers } = &mut *self.shared.published();
        observers.add(observer.clone(), [&*heads]);
        if self.shared.epoch.losses != 0 {
            observer.on_master(Bucket::default(), &MasterChange::LostWrites(self.shared.epoch));
        }
    }

    async fn events(
        &self,
        app: &AppName,
        before: Option<u64>,
        count_max: usize,
    ) -> Result<Vec<NumberedEvent>, ReadError> {
        let (name, now) = (app.clone(), self.now());
        self.read(app, move |shared, database| {
            read::read_events(database, &name, before, count_max, &shared.retention, now)
        })
        .await
    }

    fn replica(&self) -> ReplicaId {
        self.shared.replica
    }

    async fn beat(&self) -> Result<BTreeMap<ReplicaId, Timestamp>, ReadError> {
        Ok(BTreeMap::from([(self.shared.replica, self.now())]))
    }

    async fn broadcast(&self, notice: Broadcast) -> Result<(), ReadError> {
        self.shared.published().observers.notify(|observer| observer.on_broadcast(&notice));
        Ok(())
    }

    async fn space(&self) -> Option<Space> {
        let directory = self.directory.clone();
        tokio::task::spawn_blocking(move || disk::space_of(&directory)).await.ok().flatten()
    }

    fn health(&self) -> Result<(), String> {
        self.shared.health()?;
        match self.shared.is_full.load(Ordering::Relaxed) {
            true => Err(FULL.to_string()),
            false => Ok(()),
        }
    }

    async fn close(&self) {
        if let Some(writer) = self.stop() {
            let joined = tokio::task::spawn_blocking(move || writer.join()).await;
            // The writer catches its own panics, and reports them through `health`.
            debug_assert!(matches!(joined, Ok(Ok(()))));
        }
    }
}

/// Closes a store that was not closed, so that another process can use the directory.
impl Drop for EmbeddedStore {
    fn drop(&mut self) {
        if let Some(writer) = self.stop() {
            let _ = writer.join();
        }
    }
}

impl Shared {
    fn database(&self) -> RwLockReadGuard<'_, Result<Database, String>> {
        sync::read(&self.database)
    }

    fn read<T>(
        &self,
        app: &AppName,
        read: impl FnOnce(&Shared, &Database) -> Result<T, ReadFailure>,
    ) -> Result<T, ReadError> {
        match &*self.database() {
            Ok(database) => read(self, database).map_err(|failure| failure.into_read_error(app)),
            Err(reason) => Err(ReadError::Unavailable { reason: reason.clone() }),
        }
    }

    fn published(&self) -> MutexGuard<'_, Published> {
        lock(&self.published)
    }

    fn health(&self) -> Result<(), String> {
        self.database().as_ref().map(|_| ()).map_err(Clone::clone)
    }

    /// Returns the time. While the store can be used and the disk answers, this is a sign of life.
    fn moment(&self) -> Moment {
        let is_usable = self.health().is_ok() && !self.is_full.load(Ordering::Relaxed);
        let now = self.clock.now();
        let stalls = match self.turn_since.load(Ordering::Relaxed) {
            0 => Duration::ZERO,
            since => now.since(Timestamp::new(since)),
        };
        let mut life = lock(&self.life);
        if is_usable && stalls < writer::LIFE_EVERY {
            life.mark(now);
        }
        // A disk that stands still is an outage from the last sign of life on, if it lasts.
        let is_certain = is_usable && stalls < OUTAGE_MIN;
        let judged = if is_certain { now } else { life.alive.min(now) };
        Moment { now, judged, outages: life.outages.clone() }
    }

    /// Returns the last sign of life and the outages as a start now should find them: one that has
    /// not ended is there until now.
    fn life(&self) -> Life {
        let (now, mut life) = (self.clock.now(), lock(&self.life).clone());
        if OUTAGE_MIN <= now.since(life.alive) {
            life.mark(now);
        }
        life
    }

    fn check_usable(&self) -> Result<(), CommitError> {
        self.health().map_err(|reason| self.unavailable(reason, Applied::No))
    }

    fn unavailable(&self, reason: String, applied: Applied) -> CommitError {
        CommitError::Unavailable { reason, applied, retry_after: self.retry_interval }
    }
}
