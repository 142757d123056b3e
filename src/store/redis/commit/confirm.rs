//! Confirms versions with up to four requests to Redis at once. Versions that arrive meanwhile form
//! the next request.

use std::sync::Arc;

use futures_util::stream::{FuturesUnordered, StreamExt};
use redis::{Cmd, Value};
use tokio::sync::{mpsc, oneshot};

use crate::domain::name::AppName;
use crate::store::redis::record::entry::EntryId;
use crate::store::redis::record::key::Key;
use crate::store::redis::record::reply;
use crate::store::redis::script;
use crate::store::{Applied, Bucket, CommitError, Version};

use super::attempts::{Attempts, GivenUp, passing_error};
use super::durability::Durability;
use super::sender::Sender;
use super::writer::IN_FLIGHT_MAX;
use super::{Commits, unavailable};

/// The maximum number of applications in one question. Redis serves no other client meanwhile, for
/// about 0.1 ms.
const GROUP_MAX: usize = 128;

/// A version to confirm.
pub(super) struct Job {
    pub(super) app: AppName,
    pub(super) bucket: Bucket,
    pub(super) version: Version,
    /// The last entry of the log, if this process had not read the version when it asked.
    pub(super) answer: oneshot::Sender<Result<Option<EntryId>, CommitError>>,
}

/// Confirms versions in some buckets, all on one master, until the queue is closed and empty.
pub(super) async fn run(commits: Arc<Commits>, tag: String, mut queue: mpsc::Receiver<Job>) {
    let sender = commits.sender(&tag);
    let mut in_flight = FuturesUnordered::new();
    let mut open = true;
    while open || !in_flight.is_empty() {
        let mut jobs = Vec::new();
        let takes = open && in_flight.len() < IN_FLIGHT_MAX;
        tokio::select! {
            Some(()) = in_flight.next() => {}
            count = queue.recv_many(&mut jobs, GROUP_MAX), if takes => open = count != 0,
        }
        if !jobs.is_empty() {
            in_flight.push(ask(&commits, &sender, jobs));
        }
    }
}

async fn ask(commits: &Commits, sender: &Sender<'_>, jobs: Vec<Job>) {
    match ask_all(commits, sender, &jobs).await {
        Ok(answers) => answer_all(commits, jobs, &answers),
        Err(GivenUp { reason, .. }) => {
            for job in jobs {
                let _ = job.answer.send(Err(unavailable(reason.clone(), Applied::No)));
            }
        }
    }
}

/// Returns an answer for each version.
async fn ask_all(
    commits: &Commits,
    sender: &Sender<'_>,
    jobs: &[Job],
) -> Result<Vec<Value>, GivenUp> {
    let question = mk_question(commits, jobs);
    let mut attempts = Attempts::new(sender);
    loop {
        let answer = attempts.send(&question).await?.pop().unwrap_or(Value::Nil);
        if let Some(error) = passing_error(&answer) {
            attempts.prepare_next(error).await?;
            continue;
        }
        match answer {
            Value::Array(answers) if answers.len() == jobs.len() => return Ok(answers),
            other => {
                let reason = format!("unexpected answer to a confirmation: {other:?}");
                return Err(GivenUp { reason, applied: Applied::No });
            }
        }
    }
}

fn mk_question(commits: &Commits, jobs: &[Job]) -> redis::Pipeline {
    let (keys, view) = (&commits.buckets.keys, &commits.log.view);
    let mut names = Vec::with_capacity(4 * jobs.len());
    for Job { app, bucket, .. } in jobs {
        let bucket = *bucket;
        let of_app =
            [Key::Heads(bucket), Key::App(bucket, app), Key::State(bucket), Key::Log(bucket)];
        names.extend(of_app.map(|key| keys.name(key)));
    }
    let mut call: Cmd = script::call(&script::CONFIRM, &names);
    call.arg(u8::from(commits.durability != Durability::Acknowledged));
    for Job { app, bucket, version, .. } in jobs {
        call.arg(app.to_string()).arg(version.revision.0).arg(version.quiet_commits);
        call.arg(version.epoch_floor).arg(&*view.history(*bucket));
        call.arg(u8::from(view.revision(*bucket, app) < version.revision));
    }
    let mut pipeline = redis::Pipeline::with_capacity(1);
    pipeline.add_command(call);
    pipeline
}

fn answer_all(commits: &Commits, jobs: Vec<Job>, answers: &[Value]) {
    for (job, answer) in jobs.into_iter().zip(answers) {
        let result = match commits.read_conflict(job.bucket, reply::items(answer)) {
            Some(conflict) => Err(conflict),
            None if matches!(answer, Value::Nil) => Ok(None),
            None => match reply::text(answer).and_then(|id| id.parse().ok()) {
                Some(last) => Ok(Some(last)),
                None => Err(unavailable(format!("unexpected version: {answer:?}"), Applied::No)),
            },
        };
        // The caller may have stopped waiting.
        let _ = job.answer.send(result);
    }
}
