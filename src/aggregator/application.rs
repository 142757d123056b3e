//! The task of one application: it batches, applies, commits and answers.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::OptionFuture;

use crate::domain::app::AppState;
use crate::domain::draft::Draft;
use crate::domain::name::AppName;
use crate::domain::rejected::Rejected;
use crate::domain::request::Outcome;
use crate::domain::revision::Revision;
use crate::domain::time::Timestamp;
use crate::domain::transition::Transition;
use crate::store::{Applied, CommitError, ConflictCause, Moment, ReadError, Version};
use crate::telemetry::{Callers, ReportResult};

use super::committed::{Progress, Shared};
use super::decision::{Decision, decide, decide_deletion, spread};
use super::mailbox::{Answer, Ask, Requests, Work};
use super::measured::measured;
use super::{Error, Inner};

/// Wait between two attempts of due changes at an unavailable store. Reports reach the store often
/// enough without it.
const STORE_PAUSE: Duration = Duration::from_secs(1);
/// The pause before an application with a deadline is loaded again after a failure. Longer, because
/// many applications may be due while the store is away.
const LOAD_RETRY: Duration = Duration::from_secs(10);

/// Idle time of a task whose application does not exist: long enough for a burst of reports to
/// create the application.
const UNKNOWN_IDLE_AFTER: Duration = Duration::from_secs(1);

/// The task of one application.
pub(super) struct Application {
    pub(super) name: AppName,
    inner: Arc<Inner>,
    pub(super) shared: Arc<Shared>,
    /// The store may have newer commits: the task must read again before the next decision.
    behind: bool,
    /// The result of a commit is unknown. The state that the task reads back must not be
    /// acknowledged before another commit has succeeded.
    unsettled: bool,
    /// When the state was last read from the store.
    read_at: Timestamp,
    /// The wait before due changes use the store again after a failure.
    pause: Duration,
    /// The calls whose commands are decided now.
    callers: Callers,
}

/// However the task ends, a request that it has not taken is not left waiting.
impl Drop for Application {
    fn drop(&mut self) {
        self.shared.mailbox.end();
    }
}

impl Application {
    /// Boxed, because a future has several places for what is moved into it.
    pub(super) fn new(name: AppName, inner: &Arc<Inner>) -> Box<Application> {
        let shared = Arc::new(Shared::loading(name.clone(), inner.options.mailbox_max));
        Box::new(Application {
            name,
            inner: inner.clone(),
            shared,
            behind: false,
            unsettled: false,
            read_at: Timestamp::default(),
            pause: Duration::ZERO,
            callers: Callers::default(),
        })
    }

    /// Runs until the application is idle, or the aggregator drains. The future of this task is in
    /// memory for as long as the application is active, those of its work only while they run.
    pub(super) async fn run(&mut self) {
        if let Err(error) = Box::pin(self.load()).await {
            self.shared.progress(Progress::Failed(error.clone()));
            self.retire();
            let retry = self.inner.store.now().after(LOAD_RETRY);
            self.inner.schedule.retry(&self.name, retry);
            let mut waiting = Vec::new();
            self.shared.mailbox.take_waiting(usize::MAX, &mut waiting);
            waiting.into_iter().for_each(|work| work.refuse(&error));
            return;
        }
        let mut batch = Vec::new();
        loop {
            let batch_max = self.inner.options.batch_max;
            let (next_due, exists, must_stay) = {
                let state = self.shared.state();
                (state.next_due(), state.exists(), state.has_deadline_in_memory())
            };
            let due = self.wait_until_due(next_due).map(tokio::time::sleep);
            let shared = self.shared.clone();
            let idle = match exists {
                true => self.inner.options.idle_after,
                // A request activated a task for an application that does not exist.
                false => UNKNOWN_IDLE_AFTER,
            };
            tokio::select! {
                is_open = shared.mailbox.take(batch_max, &mut batch) => match is_open {
                    false => return self.release().await,
                    true => {
                        self.gather(&mut batch).await;
                        Box::pin(self.serve(&mut batch)).await;
                    }
                },
                () = shared.replay_queue.arrived() => Box::pin(self.look()).await,
                Some(()) = OptionFuture::from(due) => Box::pin(self.serve(&mut batch)).await,
                () = tokio::time::sleep(idle), if !must_stay => {
                    // Waiting deadlines that only memory has must not be dropped.
                    self.retire();
                }
            }
        }
    }

    /// Returns the wait before due changes are decided, if there are any.
    fn wait_until_due(&self, next_due: Option<Timestamp>) -> Option<Duration> {
        if self.behind {
            return Some(self.pause);
        }
        let moment = self.inner.store.moment();
        // Nothing becomes due until the store answers.
        let pause = if moment.is_certain() { self.pause } else { self.pause.max(STORE_PAUSE) };
        next_due.map(|at| at.since(moment.judged).max(pause))
    }

    /// Collects concurrent requests for one common commit. Measured with calls of one report each
    /// on the memory store: a quarter of the commits, and a tenth more calls.
    async fn gather(&mut self, batch: &mut Vec<Work>) {
        tokio::task::yield_now().await;
        self.shared.mailbox.take_waiting(self.inner.options.batch_max, batch);
    }

    /// Removes this task from the active ones, and closes its mailbox. Requests that wait in it are
    /// still served.
    fn retire(&mut self) {
        self.inner.forget(&self.name, &self.shared);
        self.shared.mailbox.close();
    }

    /// Notifies the store that this process no longer follows the application. A process that ends
    /// need not: it follows nothing any more.
    async fn release(&self) {
        if !self.inner.draining.is_cancelled() {
            self.inner.store.release(&self.name).await;
        }
    }

    async fn load(&mut self) -> Result<(), Error> {
        let now = self.inner.store.now();
        // Before the read, so that commits during the read are not missed.
        self.behind = true;
        self.shared.replay_queue.forget_gap();
        let records = self.inner.store.load(&self.name).await.inspect_err(|error| {
            if matches!(error, ReadError::Unavailable { .. }) {
                self.inner.outage.begun(now);
            }
        })?;
        self.inner.outage.over();
        let mut state = AppState::load(self.name.clone(), records);
        state.note_outages(&self.inner.store.moment().outages);
        state.allow_for_repeats();
        (self.behind, self.read_at) = (false, now);
        let revision = state.head().revision;
        *self.shared.state_mut() = state;
        self.shared.progress(Progress::At(revision));
        Ok(())
    }

    /// Applies the commits of other replicas, so that local readers see them soon.
    async fn look(&mut self) {
        self.catch_up();
        if self.behind && self.load().await.is_err() {
            self.pause = STORE_PAUSE;
        }
    }

    /// Returns the time for a decision. The state knows the outages until then.
    fn moment(&self) -> Moment {
        let moment = self.inner.store.moment();
        self.shared.state_mut().note_outages(&moment.outages);
        moment
    }

    /// Replays the arrived commits that continue the state without a gap.
    fn catch_up(&mut self) {
        let arrived = self.shared.replay_queue.take();
        self.behind |= arrived.has_gap;
        let mut state = self.shared.state_mut();
        for (revision, transition) in arrived.commits {
            let known = state.head().revision;
            if revision <= known {
                continue; // known already
            }
            // Quiet commits are not broadcast; only the store has them.
            let quiet = state.head().quiet_commits;
            let follows = |t: &Arc<Transition>| {
                t.base == known && t.base_quiet == quiet && revision == t.head.revision
            };
            match transition.filter(follows) {
                Some(transition) => state.replay(&transition),
                None => self.behind = true,
            }
        }
        let revision = state.head().revision;
        drop(state);
        self.shared.progress(Progress::At(revision));
    }

    /// Returns whether another replica may have moved a deadline that is due: it does not write
    /// every repeat, and does not broadcast those that it writes.
    fn must_read_to_judge(&self, now: Timestamp) -> bool {
        let due = self.shared.state().next_due().filter(|due| *due <= now);
        self.inner.store.is_shared() && due.is_some_and(|due| self.read_at < due)
    }

    /// Answers a batch. A deletion is a separate commit, in its position among the others.
    async fn serve(&mut self, batch: &mut Vec<Work>) {
        let mut batch = std::mem::take(batch).into_iter().peekable();
        loop {
            let mut together: Vec<Requests> = Vec::new();
            let mut answers: Vec<Answer> = Vec::new();
            let mut count = 0;
            let mut looks: Vec<Answer> = Vec::new();
            let mut deletion = None;
            while count < self.inner.options.batch_max
                && let Some(work) = batch.next()
            {
                match work.ask {
                    Ask::Apply(requests) => {
                        self.callers.add(work.caller);
                        count += requests.len();
                        together.push(requests);
                        answers.push(work.answer);
                    }
                    Ask::Look => looks.push(work.answer),
                    Ask::Delete(id) => {
                        deletion = Some((id.map(|id| *id), work.answer, work.caller));
                        break;
                    }
                }
            }
            let outcomes =
                self.commit(|state, inner, moment| decide(state, inner, moment, &together));
            let outcomes = outcomes.await;
            // A span ends with the last reference to it.
            self.callers.clear();
            for look in looks {
                let revision = self.shared.state().head().revision;
                let seen = Outcome { revision, ..Outcome::default() };
                let seen = outcomes.as_ref().map(|_| seen).map_err(Clone::clone);
                look.send(std::iter::once(seen));
            }
            let mut outcomes = spread(outcomes, count).into_iter();
            for (requests, answer) in together.iter().zip(answers) {
                let own = outcomes.by_ref().take(requests.len());
                answer.send(own.inspect(|outcome| self.count(outcome)));
            }
            if let Some((id, answer, caller)) = deletion {
                self.callers.add(caller);
                let id = id.as_ref();
                let outcome = self.commit(|state, _, at| decide_deletion(state, at.now, id));
                let outcome = outcome.await;
                self.callers.clear();
                answer.send(spread(outcome, 1).into_iter());
            }
            if batch.peek().is_none() {
                return;
            }
        }
    }

    /// Decides and commits, and decides again after each lost race.
    async fn commit<D>(&mut self, decide: D) -> Result<Vec<Result<Outcome, Rejected>>, Error>
    where
        D: Fn(&AppState, &Inner, &Moment) -> Decision,
    {
        let attempts_max = self.inner.options.commit_attempts_max;
        let mut attempts = 1;
        loop {
            self.refresh().await?;
            let moment = self.moment();
            let attempt = self.attempt(&decide, &moment);
            match self.prove(&attempt).await {
                Ok(()) => return Ok(self.take_in(attempt.decision)),
                Err(CommitError::Conflict { current, cause }) if attempts < attempts_max => {
                    self.note_conflict(attempt.base, current, cause);
                    attempts += 1;
                }
                Err(error) => {
                    self.note_failure(&error, moment.now);
                    return Err(Error::of_commit(error, attempts));
                }
            }
        }
    }

    /// Brings the state up to date, by the log or from the store.
    async fn refresh(&mut self) -> Result<(), Error> {
        self.catch_up();
        // A state read from another master may differ at the same revision.
        let epoch_floor = self.inner.store.epoch_floor(&self.name);
        self.behind |= self.shared.state().epoch_floor != epoch_floor;
        if self.behind || self.must_read_to_judge(self.moment().judged) {
            self.pause = STORE_PAUSE;
            self.load().await?;
            self.pause = Duration::ZERO;
            self.catch_up();
        }
        Ok(())
    }

    /// Decides on the present state. Answers that rely on an unsettled commit need a transition,
    /// even an empty one.
    fn attempt<D>(&self, decide: D, moment: &Moment) -> Attempt
    where
        D: Fn(&AppState, &Inner, &Moment) -> Decision,
    {
        let state = self.shared.state();
        let Decision { transition, outcomes } = decide(&state, &self.inner, moment);
        let is_unsettled = self.unsettled && !outcomes.is_empty();
        let nothing = || Draft::new(&state, &self.inner.options.limits, moment.now).finish();
        let transition = transition.or_else(|| is_unsettled.then(|| Arc::new(nothing())));
        let decision = Decision { transition, outcomes };
        Attempt { base: Version::of(&state), decision, is_unsettled }
    }

    /// Takes a decision that was proved into the own state. Returns its answers.
    fn take_in(&self, decision: Decision) -> Vec<Result<Outcome, Rejected>> {
        if let Some(transition) = decision.transition {
            self.shared.state_mut().replay(&transition);
            self.shared.progress(Progress::At(transition.head.revision));
        }
        decision.outcomes
    }

    /// Replays the commits that won a race, and finds whether the store has more of them.
    fn note_conflict(&mut self, base: Version, current: Revision, cause: ConflictCause) {
        self.catch_up();
        let known = self.shared.state().head().revision;
        // The log delivers missed revisions only, and none after a loss of writes.
        self.behind |= match cause {
            ConflictCause::Revision => known < current || current < base.revision,
            _ => true,
        };
    }

    /// Makes the next decision wait for a read of the store.
    fn note_failure(&mut self, error: &CommitError, now: Timestamp) {
        if matches!(error, CommitError::Unavailable { .. }) {
            self.inner.outage.begun(now);
        }
        self.behind = true;
        self.pause = STORE_PAUSE;
    }

    /// Makes the answers of a decision durable: commits its transition, or confirms that its base
    /// version is still the newest. A store of a single process has no newer version.
    async fn prove(&mut self, attempt: &Attempt) -> Result<(), CommitError> {
        let Attempt { base, decision: Decision { transition, outcomes }, is_unsettled } = attempt;
        let is_shared = self.inner.store.is_shared();
        let needs_proof = is_shared && !outcomes.is_empty();
        let to_commit =
            transition.as_ref().filter(|transition| transition.is_durable() || *is_unsettled);
        let Some(transition) = to_commit else {
            return match needs_proof {
                true => self.inner.store.confirm(&self.name, *base).await,
                false => Ok(()),
            };
        };
        self.shared.replay_queue.expect(transition.head.revision);
        let committed = self.inner.store.commit(transition.clone());
        let metrics = &self.inner.metrics;
        let result = measured(metrics, &self.callers, outcomes.len(), committed).await;
        match &result {
            Ok(()) => (self.pause, self.unsettled) = (Duration::ZERO, false),
            Err(CommitError::Unavailable { applied: Applied::No, .. }) => {}
            Err(CommitError::Unavailable { .. }) => self.unsettled = true,
            Err(CommitError::Conflict { .. }) => {}
        }
        result
    }

    fn count(&self, outcome: &Result<Outcome, Error>) {
        self.inner.metrics.report(match outcome {
            Ok(outcome) if outcome.changed => ReportResult::Changed,
            Ok(_) => ReportResult::Repeated,
            Err(_) => ReportResult::Rejected,
        });
    }
}

/// One attempt to make a decision durable.
struct Attempt {
    /// The version that the decision is based on.
    base: Version,
    decision: Decision,
    /// The result of an earlier commit is unknown: another commit must succeed first.
    is_unsettled: bool,
}
