//! The commits and confirmations of this process, from the queue to the acknowledgement.
//!
//! ```text
//!  commit ---> lane --pipelines--> Sender --> Redis     read_back: until the log has the entry
//!  confirm --> lane --questions-->   |                  rely_on: what is answered before that
//!                 '-- Attempts: until there is an answer, or the deadline passes
//!  blocks found --> Folds: fewer blocks, beside the commits
//! ```
//!
//! # Invariants
//!
//! - An application has at most one commit under way, and the numbers of its commits rise in the
//!   order in which they are sent. So a repeat is the last commit of its writer or refused
//!   ([`writer`]).
//! - A request is sent again only if Redis cannot have applied it twice: by its mark a commit gets
//!   the first answer, and a confirmation writes nothing.
//! - An acknowledged commit was read back from the master that it was sent to ([`read_back`]).
//! - Each queue is bounded: those of callers, the pipelines under way, the commits that wait in a
//!   lane, the folds and what they remember.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use crate::domain::name::AppName;
use crate::domain::revision::Revision;
use crate::domain::transition::Transition;
use crate::store::span::CommitSpan;
use crate::store::{Applied, Bucket, CommitError, ConflictCause, Version};
use crate::sync::lock;

use super::log::Log;
use super::log::unread::Confirmed;
use super::record::batch::Batch;
use super::record::key::tag;
use super::record::{Buckets, reply};

use durability::Durability;
use fold::Folds;
use sender::Sender;
use writer::{Committed, Job};

mod attempts;
mod confirm;
pub mod durability;
pub(crate) mod fold;
mod read_back;
mod sender;
mod writer;

/// The maximum number of commits that wait in the queue of a lane.
const QUEUE_MAX: usize = 1024;
/// The time to wait before the next attempt while Redis is unreachable: a failover takes a few
/// seconds.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The commits and confirmations of a process.
pub(crate) struct Commits {
    buckets: Arc<Buckets>,
    log: Arc<Log>,
    durability: Durability,
    pub(crate) folds: Arc<Folds>,
    /// The queues of each group of buckets; empty after the store is closed.
    lanes: Mutex<Vec<Queues>>,
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

/// The queues of a group of buckets.
#[derive(Clone)]
struct Queues {
    commits: mpsc::Sender<Job>,
    confirmations: mpsc::Sender<confirm::Job>,
}

impl Commits {
    pub(crate) fn new(buckets: Arc<Buckets>, log: Arc<Log>, durability: Durability) -> Commits {
        let folds = Arc::new(Folds::new(buckets.clone()));
        let (lanes, tasks) = (Mutex::default(), Mutex::default());
        Commits { buckets, log, durability, folds, lanes, tasks }
    }

    /// Starts the lane of some buckets, all on one master.
    pub(crate) fn start(self: &Arc<Commits>, group: &[Bucket]) {
        let Some(&first) = group.first() else { return };
        let (commits, jobs) = mpsc::channel(QUEUE_MAX);
        let commit = writer::run(self.clone(), tag(first), jobs);
        let (confirmations, jobs) = mpsc::channel(QUEUE_MAX);
        let confirm = confirm::run(self.clone(), tag(first), jobs);
        lock(&self.tasks).extend([tokio::spawn(commit), tokio::spawn(confirm)]);
        lock(&self.lanes).push(Queues { commits, confirmations });
    }

    /// Commits a transition, and waits until this process has read it back.
    pub(crate) async fn commit(&self, transition: Arc<Transition>) -> Result<(), CommitError> {
        let log = &self.log;
        let _waiting = log.pace.wait();
        let bucket = self.buckets.keys.bucket_of(&transition.app);
        let lane = self.lane(bucket)?;
        let history = log.view.history(bucket);
        let has_blocks = self.folds.has_blocks(&transition.app);
        let batch = Batch::encode(&transition, bucket, history, has_blocks, log.others());
        let (answer, answered) = oneshot::channel();
        let span = CommitSpan::current();
        let job = Job { batch, transition: transition.clone(), span, answer };
        lane.commits.send(job).await.map_err(|_| closed(Applied::No))?;
        drop(lane);
        // The transition is kept until the observers have received it, so that the reader need not
        // decode it.
        let (outcome, _kept) = answered.await.map_err(|_| closed(Applied::Maybe))?;
        if let Err(CommitError::Conflict { current, .. }) = outcome {
            log.await_missed(bucket, &transition.app, current).await;
        }
        let Committed { id, blocks } = outcome?;
        self.folds.heed(&transition, blocks);
        match id {
            None => {
                if transition.is_durable() {
                    log.view.refresh(&transition, bucket);
                }
                self.rely_on_base(&transition, bucket).await
            }
            Some(id) => self.read_back(bucket, transition.epoch_floor, id).await,
        }
    }

    /// Compares a version with the stored one. What this process has not read is remembered.
    pub(crate) async fn confirm(&self, app: &AppName, version: Version) -> Result<(), CommitError> {
        let bucket = self.buckets.keys.bucket_of(app);
        let lane = self.lane(bucket)?;
        let (answer, answered) = oneshot::channel();
        let job = confirm::Job { app: app.clone(), bucket, version, answer };
        lane.confirmations.send(job).await.map_err(|_| closed(Applied::No))?;
        drop(lane);
        let confirmed = answered.await.map_err(|_| closed(Applied::No))?;
        if let Err(CommitError::Conflict { current, .. }) = confirmed {
            self.log.await_missed(bucket, app, current).await;
        }
        let Some(entry) = confirmed? else { return Ok(()) };
        let Version { revision, epoch_floor, .. } = version;
        match self.log.view.rely_on(bucket, app, Confirmed { revision, epoch_floor, entry }) {
            true => Ok(()),
            // As the next master would say.
            false => Err(CommitError::Conflict { current: revision, cause: ConflictCause::Master }),
        }
    }

    /// Completes the commits that are queued. Later ones are refused.
    pub(crate) async fn close(&self) {
        lock(&self.lanes).clear();
        let tasks = std::mem::take(&mut *lock(&self.tasks));
        for task in tasks {
            // A task that panicked has nothing left to finish.
            let _ = task.await;
        }
    }

    /// Stops the lanes, wherever they are.
    pub(crate) fn abort(&self) {
        lock(&self.tasks).iter().for_each(JoinHandle::abort);
    }

    /// Logs a warning if a failover may leave two masters that both acknowledge writes.
    pub(crate) async fn warn_of_two_masters(&self) {
        if self.durability != Durability::Acknowledged {
            return;
        }
        let Ok(info) = self.buckets.info(&tag(Bucket(0)), "replication").await else { return };
        if !info.text("slave0").is_empty() && info.text("min_slaves_good_slaves").is_empty() {
            tracing::warn!(
                "during a failover two masters of Redis may acknowledge writes, and those of one \
                 are lost; set min-replicas-to-write 1 there, or use --durability replicated:1"
            );
        }
    }

    fn lane(&self, bucket: Bucket) -> Result<Queues, CommitError> {
        let lanes = lock(&self.lanes);
        // There is one lane for all buckets, or one for each.
        let lane = lanes.get(usize::from(bucket.0)).or_else(|| lanes.first()).cloned();
        lane.ok_or_else(|| closed(Applied::No))
    }

    fn sender<'a>(&'a self, tag: &'a str) -> Sender<'a> {
        Sender::new(&*self.buckets.servers, self.durability, tag)
    }

    /// Reads a conflict in the answer of `commit.lua` or `confirm.lua`. If another master serves
    /// than the one that the readers have compared, they compare again.
    fn read_conflict(&self, bucket: Bucket, answer: &[redis::Value]) -> Option<CommitError> {
        let [current, cause, number @ ..] = answer else { return None };
        let cause = match reply::text(cause)? {
            "master" => {
                let number = number.first().and_then(reply::number);
                if number != self.log.view.note(bucket).map(|note| note.epoch_floor) {
                    self.log.suspect();
                }
                ConflictCause::Master
            }
            "revision" => ConflictCause::Revision,
            "quiet" => ConflictCause::QuietCommits,
            "overtaken" => ConflictCause::Overtaken,
            "request" => ConflictCause::Request,
            _ => return None,
        };
        Some(CommitError::Conflict { current: Revision(reply::number(current)?), cause })
    }
}

fn unavailable(reason: String, applied: Applied) -> CommitError {
    CommitError::Unavailable { reason, applied, retry_after: RETRY_AFTER }
}

fn closed(applied: Applied) -> CommitError {
    unavailable("store is closed".to_string(), applied)
}
