//! One session from welcome to end: commits the worker's messages in chunks and acknowledges them,
//! sends updates to the worker, ends after silence.
//!
//! Nothing is read while a chunk is being committed: the flow control of the connection slows a
//! worker that is faster than the store.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{Stream, StreamExt};
use tokio::sync::mpsc;
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::aggregator;
use crate::domain::app::AppState;
use crate::domain::classify::finding::Finding;
use crate::domain::command::{Command, Request};
use crate::domain::fault::FaultKey;
use crate::domain::name::AppName;
use crate::domain::rejected::Rejected;
use crate::domain::request::Outcome;
use crate::domain::revision::Revision;
use crate::domain::unit::Reporter;
use crate::domain::unit::refused::IdentityError;

use super::entry::Entry;
use super::message::{Inbound, Outbound, Question};
use super::registry::Permit;
use super::{Inner, spread};

/// Workers per second that reconnect to the other replicas while this server drains. With more
/// workers than fit into [`RECONNECT_AFTER_MAX`], the rate is higher.
const RECONNECTS_PER_SECOND: u32 = 200;
/// The longest reconnect delay for a drained worker.
const RECONNECT_AFTER_MAX: Duration = Duration::from_secs(10);

/// An open session.
pub struct Session {
    inner: Arc<Inner>,
    entry: Arc<Entry>,
    asks: mpsc::Receiver<Question>,
    /// Start of the worker's silence, by the liveness clock. The time that the session spends on
    /// messages and updates does not count as silence.
    last_contact: Duration,
    /// `depart` has committed the end, or `finish` handles it. Then `drop` does nothing.
    ended: bool,
    _place: Permit,
    _token: TaskTrackerToken,
}

/// The reason for the end of a session.
#[derive(Debug)]
pub enum End<R> {
    /// The worker sent a goodbye.
    Goodbye,
    /// The stream ended without a goodbye.
    Closed,
    /// The worker was silent for this long, or did not read.
    Silent(Duration),
    /// A newer session of the unit took over.
    Superseded {
        /// The application.
        app: AppName,
        /// The incarnation of the newer.
        current: u64,
        /// Why commands of this session are refused from now on.
        why: IdentityError,
    },
    /// This server stops.
    Draining,
    /// The worker sent a message that a session does not allow.
    Broken(R),
}

impl Session {
    pub(super) fn new(
        inner: Arc<Inner>,
        entry: Arc<Entry>,
        asks: mpsc::Receiver<Question>,
        place: Permit,
        token: TaskTrackerToken,
    ) -> Session {
        let last_contact = inner.liveness_clock.now();
        Session { inner, entry, asks, last_contact, ended: false, _place: place, _token: token }
    }

    /// Serves the worker until its session ends.
    pub async fn run<R: Send>(
        mut self,
        inbound: impl Stream<Item = Inbound<R>> + Unpin + Send,
        outbound: mpsc::Sender<Outbound<R>>,
    ) -> End<R> {
        self.inner.ask_newcomer(&self.entry);
        let (entry, draining) = (self.entry.clone(), self.inner.draining.clone());
        let end = tokio::select! {
            biased;
            current = entry.taken_over() => self.superseded(current),
            () = draining.cancelled() => End::Draining,
            end = self.serve(inbound, &outbound) => end,
        };
        let last = match &end {
            End::Superseded { current, .. } => Some(Outbound::Superseded { incarnation: *current }),
            End::Draining => {
                let sessions = u32::try_from(self.inner.table.len()).unwrap_or(u32::MAX);
                let span = Duration::from_secs(u64::from(1 + sessions / RECONNECTS_PER_SECOND));
                Some(Outbound::Drain { reconnect_after: spread(span.min(RECONNECT_AFTER_MAX)) })
            }
            _ => None,
        };
        if let Some(message) = last {
            // A worker that does not read finds out from the end of the stream.
            let _ = outbound.try_send(message);
        }
        self.finish(&end).await;
        end
    }

    async fn serve<R: Send>(
        &mut self,
        inbound: impl Stream<Item = Inbound<R>> + Unpin + Send,
        outbound: &mpsc::Sender<Outbound<R>>,
    ) -> End<R> {
        let mut chunks = inbound.ready_chunks(self.inner.options.chunk_max);
        let liveness_clock = self.inner.liveness_clock.clone();
        let entry = self.entry.clone();
        loop {
            let deadline = self.last_contact + self.entry.ttl;
            let served = tokio::select! {
                // Messages that have arrived were in time: the deadline is checked last.
                biased;
                Some(question) = self.asks.recv() => {
                    self.send(outbound, Outbound::Collect(question)).await
                }
                update = entry.next_update() => self.send(outbound, update).await,
                chunk = chunks.next() => match chunk {
                    Some(chunk) => {
                        entry.note_contact(liveness_clock.now());
                        let taken = self.take(chunk, outbound).await;
                        self.last_contact = liveness_clock.now();
                        entry.note_contact(self.last_contact);
                        taken
                    }
                    None => Err(self.closed()),
                },
                () = liveness_clock.until(deadline) => Err(End::Silent(self.entry.ttl)),
            };
            if let Err(end) = served {
                return end;
            }
        }
    }

    /// Returns the end of a stream without a goodbye. The store observer or the refusal of a
    /// command may have found a newer session, which is the reason then.
    fn closed<R>(&self) -> End<R> {
        match self.entry.superseded() {
            Some(current) => self.superseded(current),
            None => End::Closed,
        }
    }

    /// Returns the end of a session that one of `current` took over.
    fn superseded<R>(&self, current: u64) -> End<R> {
        let (app, why) = (self.entry.app.clone(), self.entry.refused_after(current));
        End::Superseded { app, current, why }
    }

    /// Sends an update. Ends the session if the worker does not read for its whole ttl.
    async fn send<R>(
        &mut self,
        outbound: &mpsc::Sender<Outbound<R>>,
        message: Outbound<R>,
    ) -> Result<(), End<R>> {
        let begun = self.inner.liveness_clock.now();
        let taken = tokio::time::timeout(self.entry.ttl, outbound.send(message)).await;
        // The wait does not count as silence: nothing was read meanwhile.
        self.last_contact += self.inner.liveness_clock.now().saturating_sub(begun);
        match taken {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_gone)) => Err(self.closed()),
            Err(_elapsed) => Err(End::Silent(self.entry.ttl)),
        }
    }

    /// Commits a chunk and answers it.
    async fn take<R>(
        &mut self,
        chunk: Vec<Inbound<R>>,
        outbound: &mpsc::Sender<Outbound<R>>,
    ) -> Result<(), End<R>> {
        // None for a heartbeat on its own, and most often as many as there are messages.
        let is_command = |inbound: &&Inbound<R>| matches!(inbound, Inbound::Command { .. });
        let commands = chunk.iter().filter(is_command).count();
        let mut requests = Vec::with_capacity(commands);
        let mut asked = Vec::with_capacity(commands);
        let mut last_seq = 0;
        let mut end = None;
        for inbound in chunk {
            match inbound {
                Inbound::Heartbeat => {}
                Inbound::Command { seq, command, answers: question } => {
                    last_seq = last_seq.max(seq);
                    let claims = matches!(command, Command::ClaimLeadership(..));
                    if claims || matches!(command, Command::StepBack(_)) {
                        self.entry.update(|updates| updates.news.wish(claims));
                    }
                    let error = reported(&command).map(Box::new);
                    asked.push(Asked { seq, question, claims, error });
                    requests.push(Request { id: None, command });
                }
                Inbound::Refused { seq, refusal } => {
                    last_seq = last_seq.max(seq);
                    self.send(outbound, Outbound::Refused { seq, refusal }).await?;
                }
                Inbound::Goodbye { removed } => {
                    end = Some((removed, End::Goodbye));
                    break;
                }
                Inbound::Broken(refusal) => {
                    end = Some((false, End::Broken(refusal)));
                    break;
                }
            }
        }
        let mut revision = self.entry.revision;
        let mut errors = Vec::new();
        for (asked, outcome) in asked.into_iter().zip(self.commit(requests).await) {
            if let Some(at) = self.answer(outbound, &asked, outcome).await? {
                revision = revision.max(at);
                errors.extend(asked.error.map(|error| (asked.seq, error)));
            }
        }
        self.send_verdicts(outbound, errors, revision).await?;
        if last_seq != 0 {
            self.send(outbound, Outbound::Ack { seq: last_seq, revision }).await?;
        }
        let Some((removed, end)) = end else {
            return Ok(());
        };
        if removed {
            self.depart().await;
        }
        Err(end)
    }

    /// Answers one command. Returns the revision at which it is in force; `None` if it was refused.
    async fn answer<R>(
        &mut self,
        outbound: &mpsc::Sender<Outbound<R>>,
        &Asked { seq, question, claims, .. }: &Asked,
        outcome: Result<Outcome, aggregator::Error>,
    ) -> Result<Option<Revision>, End<R>> {
        use Rejected::{LeaderIsExternal, LeaseHeld};
        if claims {
            self.entry.update(|updates| updates.news.send_again());
        }
        match outcome {
            Ok(Outcome { revision, .. }) => {
                if let Some(question) = question {
                    self.inner.answered(&self.entry, question, revision);
                }
                Ok(Some(revision))
            }
            // The answer is the leadership message: the unit waits in line, or the leader is set
            // outside.
            Err(aggregator::Error::Rejected(LeaseHeld(_) | LeaderIsExternal(_))) if claims => {
                Ok(None)
            }
            Err(aggregator::Error::Rejected(rejected)) if is_over(&rejected) => {
                self.entry.end_because(&rejected);
                Err(self.closed())
            }
            Err(error) => {
                self.send(outbound, Outbound::Rejected { seq, error }).await?;
                Ok(None)
            }
        }
    }

    /// Sends a verdict for each reported error, from the state after the commit.
    async fn send_verdicts<R>(
        &mut self,
        outbound: &mpsc::Sender<Outbound<R>>,
        errors: Vec<(u64, Box<(FaultKey, Finding)>)>,
        revision: Revision,
    ) -> Result<(), End<R>> {
        if errors.is_empty() {
            return Ok(());
        }
        let find = |state: &AppState| -> Vec<_> {
            errors.iter().map(|(_, error)| state.faults().get(&error.0).cloned()).collect()
        };
        let found = self.inner.aggregator.read(&self.entry.app, revision, find).await;
        // The finding is known even if the state cannot be read.
        let found = found.unwrap_or_else(|_| vec![None; errors.len()]);
        for ((seq, error), fault) in errors.into_iter().zip(found) {
            let finding = error.1;
            self.send(outbound, Outbound::Verdict { seq, finding, fault }).await?;
        }
        Ok(())
    }

    async fn commit(&self, requests: Vec<Request>) -> Vec<Result<Outcome, aggregator::Error>> {
        if requests.is_empty() {
            return Vec::new();
        }
        let requests = Arc::new(requests);
        let outcomes = self.inner.apply_all(&self.entry.app, &requests).await;
        let is_over = |outcome: &Result<Outcome, aggregator::Error>| {
            use aggregator::Error::Rejected as Refused;
            matches!(outcome, Err(Refused(Rejected::Identity(IdentityError::SessionOver { .. }))))
        };
        if !outcomes.iter().any(is_over) || !self.inner.assert_session(&self.entry).await {
            return outcomes;
        }
        // The store had closed or lost this session, and `assert_session` has written it again.
        self.inner.apply_all(&self.entry.app, &requests).await
    }

    /// Returns the author of commands in this session. They are refused once the unit holds a newer
    /// session.
    pub fn reporter(&self) -> Reporter {
        self.entry.reporter()
    }

    /// Commits the departure of the unit. A unit whose statuses wait for a successor remains.
    async fn depart(&mut self) {
        // First, so that the observer does not take the removal for a takeover.
        self.leave();
        let ttl = self.inner.session_ttl();
        let command = Command::Depart { reporter: self.reporter(), ttl };
        // If this fails, `finish` disconnects the unit, as after a goodbye without `removed`.
        let departed = self.inner.apply(&self.entry.app, command).await;
        self.ended |= departed.is_ok();
    }

    /// Commits the end of the session: immediately if the end is certain, after a delay if this
    /// replica may be cut off.
    async fn finish<R>(&mut self, end: &End<R>) {
        // First, so that the observer does not assert the session again.
        self.leave();
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        match end {
            End::Superseded { .. } => {}
            End::Goodbye | End::Draining | End::Broken(_) => {
                self.inner.disconnect(&self.entry, false).await;
            }
            End::Closed => self.inner.lose_sight(&self.entry, false),
            End::Silent(_) => self.inner.lose_sight(&self.entry, true),
        }
    }

    fn leave(&self) {
        let entry = &self.entry;
        self.inner.table.remove(&entry.app, entry.unit(), entry.session);
        self.inner.ringer.forget(entry.session);
    }
}

/// A command that waits for its outcome.
struct Asked {
    seq: u64,
    /// The question that it answers.
    question: Option<u64>,
    /// Whether it is a claim of leadership.
    claims: bool,
    /// The error that it reports, which a verdict answers. Boxed: most commands report none.
    error: Option<Box<(FaultKey, Finding)>>,
}

/// Returns the key of the fault that a reported error belongs to, and the finding.
pub fn reported(command: &Command) -> Option<(FaultKey, Finding)> {
    let Command::ReportError { reporter, component, target, error } = command else { return None };
    let unit = reporter.unit.clone();
    let key = FaultKey { unit, component: component.clone(), target: target.clone() };
    Some((key, error.finding.clone()))
}

/// Returns whether a command was refused because its session is over.
fn is_over(rejected: &Rejected) -> bool {
    let Rejected::Identity(refused) = rejected else { return false };
    !matches!(refused, IdentityError::UnknownIncarnation { .. })
}

/// Handles a session that was dropped before its end, because its call was cancelled.
impl Drop for Session {
    fn drop(&mut self) {
        if !self.ended {
            self.leave();
            self.inner.lose_sight(&self.entry, false);
        }
    }
}
