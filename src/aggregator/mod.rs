//! The aggregator decides commands: each active application has one task, which owns the local
//! state. The task drains its mailbox, applies the whole batch, commits once, then answers all. The
//! next batch gathers during the commit. No command is acknowledged before its commit.
//!
//! Other replicas decide too. Their commits arrive from the store: the task of an active
//! application replays them, or reads the state again if one is missing. A decision takes effect
//! only by a commit that compares revisions, so two concurrent decisions do no harm. Deadlines that
//! repeats move are not compared; `docs/design/redis.md` describes how they are handled.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::domain::app::AppState;
use crate::domain::command::Request;
use crate::domain::limits::{LimitExceeded, Limits};
use crate::domain::name::{AppName, ApplicationNotFound};
use crate::domain::request::{Outcome, RequestId};
use crate::domain::revision::Revision;
use crate::domain::time::Timestamp;
use crate::store::Store;
use crate::sync::lock;
use crate::telemetry::{CallSpan, Metrics};

mod application;
mod committed;
mod data_loss;
mod decision;
pub mod error;
mod failure;
mod mailbox;
mod measured;
mod outage;
mod replay_queue;
mod schedule;
mod sweep;

pub use error::Error;

use application::Application;
use committed::Shared;
use mailbox::{Answer, Ask, Closed, Requests, Work};
use outage::Outage;
use replay_queue::StoreObserver;
use schedule::Schedule;

/// Limits and times of the aggregator.
#[derive(Debug, Clone)]
pub struct Options {
    /// Limits within one application.
    pub limits: Limits,
    /// Maximum number of applications, active or not.
    pub applications_max: usize,
    /// Maximum number of applications in one namespace.
    pub applications_per_namespace_max: usize,
    /// Maximum number of requests that wait for one application.
    pub mailbox_max: usize,
    /// Number of commands at which a commit takes no further request.
    pub batch_max: usize,
    /// How long a command waits for space in the mailbox before it is refused.
    pub mailbox_wait: Duration,
    /// Maximum number of attempts of one batch when commits lose races.
    pub commit_attempts_max: usize,
    /// Idle time after which an application's state is released from memory.
    pub idle_after: Duration,
}

impl Default for Options {
    /// The mailbox holds two batches: one gathers during the commit of the other. A second of
    /// waiting is longer than any healthy commit, and shorter than a typical client's deadline. A
    /// replica on a busy machine loses a dozen races in a row against two idle ones; an attempt
    /// takes about a millisecond.
    fn default() -> Options {
        Options {
            limits: Limits::default(),
            applications_max: 100_000,
            applications_per_namespace_max: 100_000,
            mailbox_max: 2048,
            batch_max: 1024,
            mailbox_wait: Duration::from_secs(1),
            commit_attempts_max: 64,
            idle_after: Duration::from_secs(600),
        }
    }
}

/// Applies commands and answers reads. Cheap to clone.
#[derive(Clone)]
pub struct Aggregator {
    inner: Arc<Inner>,
}

pub(crate) struct Inner {
    store: Arc<dyn Store>,
    options: Options,
    metrics: Metrics,
    /// By hash: each call and each change looks its application up.
    active: Mutex<HashMap<AppName, Arc<Shared>>>,
    schedule: Schedule,
    draining: CancellationToken,
    tasks: TaskTracker,
    outage: Outage,
}

impl Aggregator {
    /// Starts an aggregator on a store. Must be called within a runtime.
    pub fn start(store: Arc<dyn Store>, options: Options, metrics: Metrics) -> Aggregator {
        let inner = Arc::new(Inner {
            outage: Outage::default(),
            store,
            options,
            metrics,
            active: Mutex::default(),
            schedule: Schedule::default(),
            draining: CancellationToken::new(),
            tasks: TaskTracker::new(),
        });
        inner.store.follow(Arc::new(StoreObserver::new(&inner)));
        inner.tasks.spawn(sweep::run(inner.clone()));
        inner.tasks.spawn(data_loss::run(inner.clone()));
        inner.tasks.spawn(outage::run(inner.clone()));
        Aggregator { inner }
    }

    /// Applies a command. When it returns `Ok`, the command is committed.
    pub async fn apply(&self, app: &AppName, request: Request) -> Result<Outcome, Error> {
        self.inner.ask(app, Ask::Apply(Requests::One(Box::new(request)))).await
    }

    /// Applies several commands in order, each as a whole or not at all, and answers each. Costs
    /// less than separate calls.
    pub async fn apply_all(
        &self,
        app: &AppName,
        requests: Arc<Vec<Request>>,
    ) -> Result<Vec<Result<Outcome, Error>>, Error> {
        let (answer, answered) = oneshot::channel();
        let ask = Ask::Apply(Requests::All(requests));
        let work = Work { ask, answer: Answer::All(answer), caller: CallSpan::current() };
        self.inner.send(app, work).await?;
        answered.await.map_err(|_| self.inner.unanswered())
    }

    /// Deletes an application with everything but its history.
    pub async fn delete(&self, app: &AppName, id: Option<RequestId>) -> Result<Outcome, Error> {
        self.inner.ask(app, Ask::Delete(id.map(Box::new))).await
    }

    /// Reads the committed state at `min_revision` or later. Waits for that revision until the
    /// caller gives up.
    pub async fn read<T>(
        &self,
        app: &AppName,
        min_revision: Revision,
        read: impl FnOnce(&AppState) -> T,
    ) -> Result<T, Error> {
        let task = self.inner.activate(app)?;
        task.loaded().await?;
        task.reached(min_revision).await;
        task.loaded().await?;
        let state = task.state();
        match state.exists() {
            true => Ok(read(&state)),
            false => Err(Error::Rejected(ApplicationNotFound.into())),
        }
    }

    /// Returns since when the store is unavailable, if it is: reads return the state as of then.
    pub fn away_since(&self) -> Option<Timestamp> {
        self.inner.outage.away_since()
    }

    /// Refuses new commands, finishes the accepted ones, and stops.
    pub async fn drain(&self) {
        self.inner.draining.cancel();
        for task in self.inner.take_active().into_values() {
            task.mailbox.close();
        }
        self.inner.tasks.close();
        self.inner.tasks.wait().await;
    }
}

impl Inner {
    async fn ask(self: &Arc<Inner>, app: &AppName, ask: Ask) -> Result<Outcome, Error> {
        let (answer, answered) = oneshot::channel();
        let work = Work { ask, answer: Answer::One(answer), caller: CallSpan::current() };
        self.send(app, work).await?;
        answered.await.unwrap_or_else(|_| Err(self.unanswered()))
    }

    /// Returns the error of a request that its task did not answer: only a drain or a bug ends a
    /// task so.
    fn unanswered(&self) -> Error {
        match self.draining.is_cancelled() {
            true => Error::Draining,
            false => Error::Failed,
        }
    }

    /// Puts a request into the mailbox of an application.
    async fn send(self: &Arc<Inner>, app: &AppName, mut work: Work) -> Result<(), Error> {
        loop {
            let task = self.activate(app)?;
            let wait = self.options.mailbox_wait;
            match tokio::time::timeout(wait, task.mailbox.send(work)).await {
                Ok(Ok(())) => return Ok(()),
                // The task retired in between: the next round starts another.
                Ok(Err(Closed(unsent))) => {
                    self.forget(app, &task);
                    work = unsent;
                }
                Err(_elapsed) => {
                    return Err(Error::Overloaded {
                        mailbox_max: self.options.mailbox_max,
                        retry_after: wait,
                    });
                }
            }
        }
    }

    /// Returns the task of an application, and starts it if necessary.
    fn activate(self: &Arc<Inner>, app: &AppName) -> Result<Arc<Shared>, Error> {
        let mut active = lock(&self.active);
        // Under the lock: a drain closes the mailboxes of all tasks that are in the map.
        if self.draining.is_cancelled() {
            return Err(Error::Draining);
        }
        if let Some(task) = active.get(app) {
            return Ok(task.clone());
        }
        if !self.schedule.knows(app) {
            self.check_applications(app, active.len())?;
        }
        let application = Application::new(app.clone(), self);
        let task = application.shared.clone();
        self.tasks.spawn(failure::run(self.clone(), application));
        active.insert(app.clone(), task.clone());
        Ok(task)
    }

    /// Checks that there may be one more application.
    fn check_applications(&self, app: &AppName, active: usize) -> Result<(), Error> {
        let exceeded =
            |limit, what, max| Err(Error::Rejected(LimitExceeded { limit, what, max }.into()));
        let max = self.options.applications_max;
        if max <= self.schedule.len().max(active) {
            return exceeded("applications_max", "applications of this server".to_string(), max);
        }
        let max = self.options.applications_per_namespace_max;
        if max <= self.schedule.len_of(app.namespace()) {
            let what = format!("applications of namespace {}", app.namespace());
            return exceeded("applications_per_namespace_max", what, max);
        }
        Ok(())
    }

    /// Removes all tasks from the map, and returns them by name.
    fn take_active(&self) -> BTreeMap<AppName, Arc<Shared>> {
        std::mem::take(&mut *lock(&self.active)).into_iter().collect()
    }

    /// Removes a task that has ended from the map, if it is still there.
    fn forget(&self, app: &AppName, task: &Arc<Shared>) {
        let mut active = lock(&self.active);
        if active.get(app).is_some_and(|known| Arc::ptr_eq(known, task)) {
            active.remove(app);
        }
    }
}

#[cfg(test)]
mod tests;
