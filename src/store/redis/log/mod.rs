//! The logs of all buckets as this process has read them, and what it relies on before it has.
//!
//! ```text
//!  Redis --XREAD--> Reader --entry--> View: all heads --> observers
//!                     |                 ^
//!                     | new connection, | replace
//!                     | or suspicion    |
//!                     '--> verify --> repair: heads to correct
//! ```
//!
//! # Invariants
//!
//! - A change has the next position of its bucket, or the reader reads all heads ([`view`]).
//! - Everything that a reader takes from a master follows [`View::meet_master`] for that master. An
//!   answer that relies on something unread is added under the lock of the view, and refused if the
//!   reader has met another master since ([`unread`]). So what a failover may have lost is known
//!   when the reader compares.
//! - The note of a master is used for commits only after the comparison with it: a commit with a
//!   note is based on a compared state ([`reader`]).
//! - Observers get changes in order of position, and what a loss has changed before the loss.
//! - Who waits for an entry says so, and the readers ask at once ([`pace`]).
//! - Marks at applications and the list of other processes only save work ([`membership`]).

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use crate::domain::name::AppName;
use crate::domain::revision::Revision;
use crate::domain::time::Timestamp;
use crate::domain::unit::presence::ReplicaId;
use crate::store::{Broadcast, Bucket, Epoch, ReadError};
use crate::sync::lock;

use super::error::OpenError;
use super::link::LinkError;
use super::record::key::Key;
use super::record::read::FoundApp;
use super::record::{Buckets, reply};
use super::time::Time;

use membership::Membership;
use own::Own;
use pace::ReaderPace;
use reader::Reader;
use view::View;

mod logged;
pub(crate) mod membership;
pub(crate) mod own;
mod pace;
pub(crate) mod reader;
mod repair;
pub(crate) mod unread;
pub(crate) mod view;

/// The time that a refused commit waits for the commit that it lost to. A reader that follows the
/// log has it within a millisecond; a longer wait does not help if it does not follow.
const MISSED_MAX: Duration = Duration::from_millis(100);
/// The time in which the reader must compare a new master with what was seen before. After this
/// time `load` of an application on it fails.
const COMPARED_MAX: Duration = Duration::from_secs(1);

/// The logs of all buckets, as this process has read them.
pub(crate) struct Log {
    buckets: Arc<Buckets>,
    pub(crate) time: Time,
    pub(crate) view: View,
    pub(crate) own: Arc<Own>,
    pub(crate) pace: Arc<ReaderPace>,
    replica: ReplicaId,
    membership: Mutex<Membership>,
    /// Sends when the serving master may differ from the one that the readers compared.
    suspicions: watch::Sender<()>,
    /// Why a log is not followed, by the first bucket of its group.
    troubles: Mutex<BTreeMap<Bucket, String>>,
    closed: AtomicBool,
}

impl Log {
    /// Returns the logs of a store with this epoch, for the process `replica`. Nothing is read yet.
    pub(crate) async fn open(
        buckets: Arc<Buckets>,
        epoch: Epoch,
        replica: ReplicaId,
    ) -> Result<Log, OpenError> {
        let own = Arc::new(Own::new(replica));
        let beaten = membership::last_beat(&*buckets.servers, &buckets.keys).await?;
        let time = Time::start(buckets.clone(), own.writer().clone(), beaten).await?;
        Ok(Log {
            view: View::new(buckets.keys.buckets, epoch),
            buckets,
            time,
            own,
            pace: Arc::default(),
            replica,
            membership: Mutex::new(Membership::new(replica)),
            suspicions: watch::Sender::default(),
            troubles: Mutex::default(),
            closed: AtomicBool::default(),
        })
    }

    /// Reads the heads of some buckets that share a connection, and returns the reader that follows
    /// their logs.
    pub(crate) async fn catch_up(self: &Arc<Log>, group: Vec<Bucket>) -> Result<Reader, OpenError> {
        let mut reader = Reader::new(self.clone(), group);
        reader.catch_up().await?;
        Ok(reader)
    }

    /// Notifies all other processes that this process reads their logs, before it serves a request.
    pub(crate) async fn join(&self) -> Result<(), OpenError> {
        let (buckets, keys) = (&self.buckets, &self.buckets.keys);
        let beat = membership::beat(keys, self.replica, self.time.now());
        let beat = buckets.call(&keys.name(Key::Replicas), &beat).await?;
        let join = membership::join(keys, Bucket(0), self.replica);
        let join = buckets.run_one(Bucket(0), &join).await?;
        Ok(reply::check(&[beat, join])?)
    }

    /// Returns the id of this process.
    pub(crate) fn replica(&self) -> ReplicaId {
        self.replica
    }

    /// Records that this process is alive, and returns when each process last did.
    pub(crate) async fn beat(&self) -> Result<BTreeMap<ReplicaId, Timestamp>, ReadError> {
        let keys = &self.buckets.keys;
        let joined = lock(&self.membership).joined;
        let call = membership::beat(keys, self.replica, self.time.now());
        let answer = self.buckets.call(&keys.name(Key::Replicas), &call).await?;
        let living = membership::read_beat(&answer)?;
        lock(&self.membership).hear(&living, joined);
        Ok(living)
    }

    /// Adds a message to the log of the bucket of its application.
    pub(crate) async fn broadcast(&self, notice: &Broadcast) -> Result<(), LinkError> {
        let keys = &self.buckets.keys;
        let bucket = keys.bucket_of(&notice.app);
        self.buckets.run_one(bucket, &membership::broadcast(keys, bucket, notice)).await?;
        Ok(())
    }

    /// Returns the other processes that may follow an application, as one text; `None` if they are
    /// not known.
    pub(crate) fn others(&self) -> Option<Arc<str>> {
        lock(&self.membership).others.clone()
    }

    /// Reads an application on a master that was compared.
    pub(crate) async fn load(&self, app: &AppName) -> Result<FoundApp, ReadError> {
        let bucket = self.buckets.keys.bucket_of(app);
        let started = Instant::now();
        // Before the read: a commit after the mark has its transition in the log.
        if !lock(&self.membership).is_alone() {
            self.set_mark(app, true).await;
        }
        loop {
            let mut noted = self.view.follow_note(bucket);
            let seen = self.view.revision(bucket, app);
            let found = self.buckets.load(bucket, app).await?;
            // A transition based on this state would hide the data loss.
            let is_known = found.losses <= self.view.cursor(bucket).2;
            if is_known && seen <= found.records.head.revision && found.noted == *noted.borrow() {
                return Ok(found);
            }
            if found.noted != *noted.borrow() {
                self.suspect();
                let left = COMPARED_MAX.saturating_sub(started.elapsed());
                if let Ok(Ok(())) = tokio::time::timeout(left, noted.changed()).await {
                    continue;
                }
            }
            let reason = "Redis may have lost writes; the comparison is not complete".to_string();
            return Err(ReadError::Unavailable { reason });
        }
    }

    /// Adds or removes the mark of this process at an application.
    pub(crate) async fn set_mark(&self, app: &AppName, follows: bool) {
        let keys = &self.buckets.keys;
        let bucket = keys.bucket_of(app);
        let call = membership::mark((keys, bucket), app, self.own.writer(), follows);
        // Without the mark this process loads the application more often, which is correct too.
        if let Err(error) = self.buckets.call(&keys.name(Key::App(bucket, app)), &call).await {
            tracing::debug!(%app, reason = error.reason(), "cannot mark what this process follows");
        }
    }

    /// Records that another master may serve than the one that the readers have compared.
    pub(crate) fn suspect(&self) {
        self.suspicions.send_replace(());
    }

    /// Waits for a commit that this process has not seen yet. The log delivers it, so the caller
    /// need not load the application.
    pub(crate) async fn await_missed(&self, bucket: Bucket, app: &AppName, current: Revision) {
        let _waiting = self.pace.wait();
        let _ = tokio::time::timeout(MISSED_MAX, self.view.until_at(bucket, app, current)).await;
    }

    /// Returns whether every log is followed and every master reached; if not, why.
    pub(crate) fn health(&self) -> Result<(), String> {
        if self.closed.load(Ordering::Relaxed) {
            return Err("store is closed".to_string());
        }
        self.buckets.servers.health()?;
        lock(&self.troubles).values().next().map_or(Ok(()), |trouble| Err(trouble.clone()))
    }

    /// Records that the store is closed.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
    }
}
