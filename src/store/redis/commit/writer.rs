//! Sends commits in up to four pipelines at once. Commits that arrive meanwhile form the next one.
//!
//! Without an answer, it is unknown whether a commit was applied. The lane sends the same commit
//! again until Redis answers or the deadline passes. If Redis has applied it already, it returns
//! the first answer. This works because each application has at most one commit in flight.

use std::collections::{BTreeSet, HashSet, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::stream::{FuturesUnordered, StreamExt};
use redis::{ServerError, Value};
use tokio::sync::{mpsc, oneshot};

use crate::domain::name::AppName;
use crate::domain::transition::Transition;
use crate::store::redis::log::own::CommitGuard;
use crate::store::redis::record::batch::Batch;
use crate::store::redis::record::block::Blocks;
use crate::store::redis::record::entry::EntryId;
use crate::store::redis::record::reply;
use crate::store::redis::record::state::check_master;
use crate::store::span::{CommitSpan, StoreSpans};
use crate::store::{Applied, Bucket, CommitError};

use super::attempts::{Attempts, GivenUp, passing_error};
use super::sender::Sender;
use super::{Commits, unavailable};

/// The maximum number of commits in one pipeline, so that a commit does not wait long for those
/// before it.
const GROUP_MAX: usize = 128;
/// The maximum number of commits that a lane holds because their application has a commit in
/// flight.
const DEFERRED_MAX: usize = 4096;
/// The maximum number of pipelines in flight: Redis executes one while the next one travels.
pub(super) const IN_FLIGHT_MAX: usize = 4;

/// The system and the operation in the spans of the store.
const SCRIPT: (&str, &str) = ("redis", "EVALSHA");

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
    /// Its span, if it is exported.
    pub(super) span: Option<CommitSpan>,
    pub(super) answer: oneshot::Sender<(CommitOutcome, CommitGuard)>,
}

/// A commit with its number. The commits of one application are sent in the order of their numbers,
/// so Redis can refuse a commit that was given up and arrives late.
type Numbered = (Job, CommitGuard);

/// Answers the caller, which may have stopped waiting.
fn answer((job, guard): Numbered, outcome: CommitOutcome) {
    // The span of the caller ends later.
    drop(job.span);
    let _ = job.answer.send((outcome, guard));
}

/// The commits that wait for the next pipelines.
#[derive(Default)]
struct Lane {
    deferred: VecDeque<Job>,
    /// The applications with a commit in flight.
    busy: HashSet<AppName>,
}

/// The commits of a store, and how those of a lane are sent.
type Sending<'a> = (&'a Commits, &'a Sender<'a>);

type InFlight<'a> = FuturesUnordered<Pin<Box<dyn Future<Output = HashSet<AppName>> + Send + 'a>>>;

/// Sends the commits of some buckets, all on one master, until the queue is closed and empty.
pub(super) async fn run(commits: Arc<Commits>, tag: String, mut queue: mpsc::Receiver<Job>) {
    let sending = (&*commits, &commits.sender(&tag));
    let mut lane = Lane::default();
    let mut in_flight: InFlight<'_> = FuturesUnordered::new();
    let mut open = true;
    while open || !in_flight.is_empty() || !lane.deferred.is_empty() {
        let takes = open && lane.deferred.len() < DEFERRED_MAX;
        let sends = in_flight.len() < IN_FLIGHT_MAX;
        tokio::select! {
            Some(apps) = in_flight.next() => {
                lane.busy.retain(|app| !apps.contains(app));
            }
            job = queue.recv(), if takes && sends => match job {
                Some(job) => lane.deferred.push_back(job),
                None => open = false,
            },
        }
        while lane.deferred.len() < DEFERRED_MAX
            && let Ok(job) = queue.try_recv()
        {
            lane.deferred.push_back(job);
        }
        while in_flight.len() < IN_FLIGHT_MAX {
            let group = lane.next_group(&commits);
            if group.is_empty() {
                break;
            }
            in_flight.push(Box::pin(send(sending, group)));
        }
    }
}

impl Lane {
    /// Returns the commits to send now: one of each application that has none in flight.
    fn next_group(&mut self, commits: &Commits) -> Vec<Numbered> {
        let mut group = Vec::new();
        let mut kept = VecDeque::new();
        while let Some(job) = self.deferred.pop_front() {
            if group.len() < GROUP_MAX && self.busy.insert(job.batch.app.clone()) {
                let guard = commits.log.own.keep(job.transition.clone());
                group.push((job, guard));
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
async fn send(sending: Sending<'_>, mut group: Vec<Numbered>) -> HashSet<AppName> {
    let apps: HashSet<AppName> = group.iter().map(|(job, _)| job.batch.app.clone()).collect();
    if let Err(GivenUp { reason, applied }) = send_all(sending, &mut group).await {
        for job in group {
            answer(job, Err(unavailable(reason.clone(), applied)));
        }
    }
    apps
}

/// Sends commits, and removes each that is answered.
async fn send_all((commits, sender): Sending<'_>, left: &mut Vec<Numbered>) -> Result<(), GivenUp> {
    let mut attempts = Attempts::new(sender);
    loop {
        let traced = left.iter().filter_map(|(job, _)| job.span.as_ref());
        let calls = StoreSpans::begin(traced, SCRIPT, left.len());
        let sent = attempts.send(&mk_pipeline(commits, left)).await;
        let answers = match sent {
            Ok(answers) => answers,
            Err(given_up) => {
                calls.fail("unavailable");
                return Err(given_up);
            }
        };
        drop(calls);
        match answer_all(commits, left, &answers) {
            Some(error) => attempts.prepare_next(error).await?,
            None => return Ok(()),
        }
    }
}

fn mk_pipeline(Commits { buckets, .. }: &Commits, jobs: &[Numbered]) -> redis::Pipeline {
    let mut pipeline = redis::Pipeline::with_capacity(1 + jobs.len());
    let written: BTreeSet<Bucket> = jobs.iter().map(|(job, _)| job.batch.bucket).collect();
    pipeline.add_command(check_master(&buckets.keys, written.into_iter()));
    for (job, guard) in jobs {
        pipeline.add_command(job.batch.call(buckets, &guard.mark));
    }
    pipeline
}

/// Answers commits. Leaves those that were not applied yet, and returns the error of one of them:
/// this Redis server cannot write now, or it does not know the script.
fn answer_all<'a>(
    commits: &Commits,
    jobs: &mut Vec<Numbered>,
    answers: &'a [Value],
) -> Option<&'a ServerError> {
    let mut passing = None;
    // The first answer belongs to the check of the master, which fails where the commits fail.
    for (job, reply) in std::mem::take(jobs).into_iter().zip(answers.iter().skip(1)) {
        if let Some(error) = passing_error(reply) {
            jobs.push(job);
            passing = Some(error);
            continue;
        }
        let outcome = match reply {
            Value::ServerError(error) => Err(unavailable(error.to_string(), Applied::Maybe)),
            reply => read_outcome(commits, job.0.batch.bucket, reply).unwrap_or_else(|| {
                let reason = format!("unexpected answer to a commit: {reply:?}");
                Err(unavailable(reason, Applied::Maybe))
            }),
        };
        answer(job, outcome);
    }
    passing
}

fn read_outcome(commits: &Commits, bucket: Bucket, answer: &Value) -> Option<CommitOutcome> {
    match reply::items(answer) {
        [done, id, blocks @ ..] if reply::number(done) == Some(1) => {
            let id = match reply::text(id)? {
                "" => None,
                id => Some(id.parse().ok()?),
            };
            let blocks = blocks.first().and_then(reply::bytes).and_then(Blocks::parse);
            Some(Ok(Committed { id, blocks }))
        }
        [_, conflict @ ..] => commits.read_conflict(bucket, conflict).map(Err),
        [] => None,
    }
}
