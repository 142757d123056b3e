//! Confirms versions with up to four requests to Redis at once. Versions that arrive meanwhile form
//! the next request.

use std::sync::Arc;

use futures_util::stream::{FuturesUnordered, StreamExt};
use redis::{Cmd, Value};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::domain::name::AppName;
use crate::store::{Applied, Bucket, CommitError, Version};

use super::durability::{Durability, Sender};
use super::entry::EntryId;
use super::key::Key;
use super::link::{LinkError, is_unserved};
use super::writer::{DEADLINE, IN_FLIGHT_MAX, PATIENCE, RETRY_PAUSE};
use super::{Shared, reply, script};

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
pub(super) async fn run(shared: Arc<Shared>, tag: String, mut queue: mpsc::Receiver<Job>) {
    let sender = Sender::new(&shared, &tag);
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
            in_flight.push(ask(&shared, &sender, jobs));
        }
    }
}

/// Asks until Redis answers or the deadline passes.
async fn ask(shared: &Shared, sender: &Sender<'_>, jobs: Vec<Job>) {
    let started = Instant::now();
    let question = mk_question(shared, &jobs);
    let mut was_sent = false;
    let reason = loop {
        let reason = match sender.run(&question).await {
            Ok(answers) => match answers.first() {
                Some(Value::Array(answers)) if answers.len() == jobs.len() => {
                    return answer_all(shared, jobs, answers);
                }
                Some(Value::ServerError(error)) if error.code() == "NOSCRIPT" => {
                    // The next attempt shows whether loading has worked.
                    let _ = sender.run(&script::load_all()).await;
                    "NOSCRIPT after loading it".to_string()
                }
                Some(unserved) if is_unserved(unserved) => format!("{unserved:?}"),
                answer => break format!("unexpected answer to a confirmation: {answer:?}"),
            },
            Err(LinkError::Refused { reason }) => break reason,
            Err(LinkError::Ambiguous { reason }) => {
                was_sent = true;
                reason
            }
            Err(LinkError::Away { reason }) => reason,
        };
        let patience = if was_sent { DEADLINE } else { PATIENCE };
        if patience <= started.elapsed() {
            break reason;
        }
        tokio::time::sleep(RETRY_PAUSE).await;
    };
    for job in jobs {
        let _ = job.answer.send(Err(shared.unavailable(reason.clone(), Applied::No)));
    }
}

fn mk_question(shared: &Shared, jobs: &[Job]) -> redis::Pipeline {
    let mut names = Vec::with_capacity(4 * jobs.len());
    for Job { app, bucket, .. } in jobs {
        let bucket = *bucket;
        let keys =
            [Key::Heads(bucket), Key::App(bucket, app), Key::State(bucket), Key::Log(bucket)];
        names.extend(keys.map(|key| shared.keys.name(key)));
    }
    let mut call: Cmd = script::call(&script::CONFIRM, &names);
    call.arg(u8::from(shared.durability != Durability::Acknowledged));
    for Job { app, bucket, version, .. } in jobs {
        call.arg(app.to_string()).arg(version.revision.0).arg(version.quiet_commits);
        call.arg(version.epoch_floor).arg(&*shared.view.history(*bucket));
        call.arg(u8::from(shared.view.revision(*bucket, app) < version.revision));
    }
    let mut pipeline = redis::Pipeline::with_capacity(1);
    pipeline.add_command(call);
    pipeline
}

fn answer_all(shared: &Shared, jobs: Vec<Job>, answers: &[Value]) {
    for (job, answer) in jobs.into_iter().zip(answers) {
        let result = match shared.read_conflict(job.bucket, reply::items(answer)) {
            Some(conflict) => Err(conflict),
            None if matches!(answer, Value::Nil) => Ok(None),
            None => match reply::text(answer).and_then(|id| id.parse().ok()) {
                Some(last) => Ok(Some(last)),
                None => {
                    let reason = format!("unexpected version: {answer:?}");
                    Err(shared.unavailable(reason, Applied::No))
                }
            },
        };
        // The caller may have stopped waiting.
        let _ = job.answer.send(result);
    }
}
