//! Sends commits in up to four pipelines at once. Commits that arrive meanwhile form the next one.
//!
//! Without an answer, it is unknown whether a commit was applied. The lane sends the same commit
//! again until Redis answers or the deadline passes. If Redis has applied it already, it returns
//! the first answer. This works because each application has at most one commit in flight.

use std::collections::{BTreeSet, HashSet, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use redis::{ServerError, Value};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::domain::name::AppName;
use crate::domain::transition::Transition;
use crate::store::{Applied, Bucket, CommitError};

use super::batch::{self, Batch, Mark};
use super::block::Blocks;
use super::durability::Sender;
use super::entry::EntryId;
use super::link::{LinkError, is_unserved};
use super::view::Kept;
use super::{Shared, reply, script};

/// The maximum number of commits in one pipeline, so that a commit does not wait long for those
/// before it.
const GROUP_MAX: usize = 128;
/// The maximum number of commits that a lane holds because their application has a commit in
/// flight.
const DEFERRED_MAX: usize = 4096;
/// The maximum number of pipelines in flight: Redis executes one while the next one travels.
pub(super) const IN_FLIGHT_MAX: usize = 4;
/// The deadline of a commit or a confirmation.
pub(super) const DEADLINE: Duration = Duration::from_secs(2);
/// The deadline of one that was never sent.
pub(super) const PATIENCE: Duration = Duration::from_millis(500);
/// The pause between two attempts.
pub(super) const RETRY_PAUSE: Duration = Duration::from_millis(25);

/// The result of a commit.
pub(super) type CommitOutcome = Result<Committed, CommitError>;

/// A commit that Redis has applied.
pub(super) struct Committed {
    /// The id of its log entry, if it has one.
    pub(super) id: Option<EntryId>,
    /// The blocks of its application; `None` if there are none, or if nothing was written.
    pub(super) blocks: Option<Blocks>,
}

/// A queued commit with the channel of its caller.
pub(super) struct Job {
    pub(super) batch: Batch,
    pub(super) transition: Arc<Transition>,
    pub(super) answer: oneshot::Sender<(CommitOutcome, Kept)>,
}

/// A commit with its number. The commits of one application are sent in the order of their numbers,
/// so Redis can refuse a commit that was given up and arrives late.
struct Numbered {
    job: Job,
    kept: Kept,
}

impl Numbered {
    /// Answers the caller, which may have stopped waiting.
    fn answer(self, outcome: CommitOutcome) {
        let _ = self.job.answer.send((outcome, self.kept));
    }
}

/// Sends the commits of some buckets, all on one master.
pub(super) struct Lane {
    shared: Arc<Shared>,
    tag: String,
    queue: mpsc::Receiver<Job>,
    deferred: VecDeque<Job>,
    busy: HashSet<AppName>,
}

type InFlight<'a> = FuturesUnordered<Pin<Box<dyn Future<Output = HashSet<AppName>> + Send + 'a>>>;

impl Lane {
    pub(super) fn new(shared: Arc<Shared>, tag: String, queue: mpsc::Receiver<Job>) -> Lane {
        Lane { shared, tag, queue, deferred: VecDeque::new(), busy: HashSet::new() }
    }

    /// Sends until the queue is closed and empty.
    pub(super) async fn run(mut self) {
        let (shared, tag) = (self.shared.clone(), self.tag.clone());
        let sender = Sender::new(&shared, &tag);
        let mut in_flight: InFlight<'_> = FuturesUnordered::new();
        let mut open = true;
        while open || !in_flight.is_empty() || !self.deferred.is_empty() {
            let takes = open && self.deferred.len() < DEFERRED_MAX;
            let sends = in_flight.len() < IN_FLIGHT_MAX;
            tokio::select! {
                Some(apps) = in_flight.next() => {
                    self.busy.retain(|app| !apps.contains(app));
                }
                job = self.queue.recv(), if takes && sends => match job {
                    Some(job) => self.deferred.push_back(job),
                    None => open = false,
                },
            }
            while self.deferred.len() < DEFERRED_MAX
                && let Ok(job) = self.queue.try_recv()
            {
                self.deferred.push_back(job);
            }
            while in_flight.len() < IN_FLIGHT_MAX {
                let group = self.next_group();
                if group.is_empty() {
                    break;
                }
                in_flight.push(Box::pin(send(&shared, &sender, group)));
            }
        }
    }

    /// Returns the commits to send now: one of each application that has none in flight.
    fn next_group(&mut self) -> Vec<Numbered> {
        let mut group = Vec::new();
        let mut kept = VecDeque::new();
        while let Some(job) = self.deferred.pop_front() {
            if group.len() < GROUP_MAX && self.busy.insert(job.batch.app.clone()) {
                let kept = self.shared.own.keep(job.transition.clone());
                group.push(Numbered { job, kept });
            } else {
                kept.push_back(job);
            }
            if group.len() == GROUP_MAX {
                break;
            }
        }
        kept.append(&mut self.deferred);
        self.deferred = kept;
        group
    }
}

/// Sends commits until each is answered. Returns their applications.
async fn send(shared: &Shared, sender: &Sender<'_>, group: Vec<Numbered>) -> HashSet<AppName> {
    let apps: HashSet<AppName> = group.iter().map(|n| n.job.batch.app.clone()).collect();
    let started = Instant::now();
    let mut left = group;
    let mut was_sent = false;
    loop {
        let reason = match sender.run(&mk_pipeline(shared, &left)).await {
            Ok(answers) => {
                was_sent = true;
                let busy;
                (left, busy) = answer_all(shared, left, answers);
                match busy {
                    _ if left.is_empty() => return apps,
                    None => {
                        // Its answer does not matter: the next attempt shows whether the script is
                        // loaded.
                        let _ = sender.run(&script::load_all()).await;
                        "NOSCRIPT after loading it".to_string()
                    }
                    Some(reason) => {
                        tokio::time::sleep(RETRY_PAUSE).await;
                        reason
                    }
                }
            }
            Err(LinkError::Refused { reason }) => {
                // Includes a commit that Redis made and the replicas or the disk did not confirm.
                give_up(shared, left, &reason, Applied::Maybe);
                return apps;
            }
            Err(LinkError::Ambiguous { reason }) => {
                was_sent = true;
                tokio::time::sleep(RETRY_PAUSE).await;
                reason
            }
            Err(LinkError::Away { reason }) => {
                tokio::time::sleep(RETRY_PAUSE).await;
                reason
            }
        };
        let patience = if was_sent { DEADLINE } else { PATIENCE };
        if patience <= started.elapsed() {
            let applied = if was_sent { Applied::Maybe } else { Applied::No };
            give_up(shared, left, &reason, applied);
            return apps;
        }
    }
}

fn mk_pipeline(shared: &Shared, jobs: &[Numbered]) -> redis::Pipeline {
    let mut pipeline = redis::Pipeline::with_capacity(1 + jobs.len());
    let buckets: BTreeSet<Bucket> = jobs.iter().map(|numbered| numbered.job.batch.bucket).collect();
    pipeline.add_command(batch::check_master(&shared.keys, buckets.into_iter()));
    for Numbered { job, kept } in jobs {
        let mark = Mark { writer: shared.writer.clone(), sequence: kept.sequence };
        pipeline.add_command(job.batch.call(&shared.keys, &shared.retention, &mark));
    }
    pipeline
}

/// Returns the commits that were not applied yet: this Redis server cannot write now, for the
/// returned reason, or it does not know the script.
fn answer_all(
    shared: &Shared,
    jobs: Vec<Numbered>,
    answers: Vec<Value>,
) -> (Vec<Numbered>, Option<String>) {
    let (mut left, mut busy) = (Vec::new(), None);
    // The first answer belongs to the check of the master, which fails where the commits fail.
    for (job, answer) in jobs.into_iter().zip(answers.into_iter().skip(1)) {
        let outcome = match &answer {
            Value::ServerError(error) if error.code() == "NOSCRIPT" => {
                left.push(job);
                continue;
            }
            Value::ServerError(error) if is_passing(&answer) => {
                left.push(job);
                busy = Some(error.to_string());
                continue;
            }
            Value::ServerError(error) => Err(shared.unavailable(error.to_string(), Applied::Maybe)),
            answer => read_outcome(shared, job.job.batch.bucket, answer).unwrap_or_else(|| {
                let reason = format!("unexpected answer to a commit: {answer:?}");
                Err(shared.unavailable(reason, Applied::Maybe))
            }),
        };
        job.answer(outcome);
    }
    (left, busy)
}

/// Returns whether nothing was applied, and another attempt may find another master or a ready one.
fn is_passing(answer: &Value) -> bool {
    let is_busy = |error: &ServerError| matches!(error.code(), "TRYAGAIN" | "BUSY");
    is_unserved(answer) || matches!(answer, Value::ServerError(error) if is_busy(error))
}

fn read_outcome(shared: &Shared, bucket: Bucket, answer: &Value) -> Option<CommitOutcome> {
    match reply::items(answer) {
        [done, id, blocks @ ..] if reply::number(done) == Some(1) => {
            let id = match reply::text(id)? {
                "" => None,
                id => Some(id.parse().ok()?),
            };
            let blocks = blocks.first().and_then(reply::bytes).and_then(Blocks::parse);
            Some(Ok(Committed { id, blocks }))
        }
        [_, conflict @ ..] => shared.read_conflict(bucket, conflict).map(Err),
        [] => None,
    }
}

fn give_up(shared: &Shared, jobs: Vec<Numbered>, reason: &str, applied: Applied) {
    for job in jobs {
        job.answer(Err(shared.unavailable(reason.to_string(), applied)));
    }
}
