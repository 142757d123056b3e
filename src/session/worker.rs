//! One session from welcome to end: what is read is committed in chunks and acknowledged, what the
//! worker is to know is told, silence ends it.
//!
//! Nothing is read while a chunk is being committed, so it is the connection's flow control that
//! holds back a sender who is faster than the store.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{Stream, StreamExt};
use tokio::sync::mpsc;
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::aggregator;
use crate::domain::command::{Command, Rejected, Request, Speaker};
use crate::domain::name::{AppName, UnitName};
use crate::domain::request::Outcome;
use crate::domain::revision::Revision;
use crate::domain::session::SessionId;

use super::entry::{Ends, Entry, Over, Question};
use super::message::{Heard, Told};
use super::table::Place;
use super::{Inner, spread};

/// Workers a second that a rollout sends to the other replicas.
const RECONNECTS_PER_SECOND: u32 = 200;
/// The longest that a drained worker is asked to wait.
const RECONNECT_AFTER_MAX: Duration = Duration::from_secs(10);

/// An open session.
pub struct Session {
    inner: Arc<Inner>,
    entry: Arc<Entry>,
    ends: Option<Ends>,
    /// By the clock of attention.
    last_heard: Duration,
    /// Its end is committed, or is nobody's business any more.
    ended: bool,
    _place: Place,
    _token: TaskTrackerToken,
}

/// Why a session ended.
#[derive(Debug)]
pub enum End<R> {
    /// The worker said goodbye.
    Goodbye,
    /// The stream ended without a word.
    Closed,
    /// The worker was not heard for this long, or did not read.
    Silent(Duration),
    /// A newer session of the unit took over.
    Superseded {
        /// The application.
        app: AppName,
        /// The unit.
        unit: UnitName,
        /// The incarnation of this session.
        given: u64,
        /// The incarnation of the newer.
        current: u64,
    },
    /// This server stops.
    Draining,
    /// What it said has no place in a session.
    Broken(R),
}

/// Tells the worker something; with how the session ends if it does not take it.
async fn tell<R>(told: &mpsc::Sender<Told<R>>, word: Told<R>, ttl: Duration) -> Option<End<R>> {
    match tokio::time::timeout(ttl, told.send(word)).await {
        Ok(Ok(())) => None,
        Ok(Err(_gone)) => Some(End::Closed),
        Err(_elapsed) => Some(End::Silent(ttl)),
    }
}

/// The worker is gone: nobody takes what it is told.
struct Gone;

impl Session {
    pub(super) fn new(
        inner: Arc<Inner>,
        entry: Arc<Entry>,
        ends: Ends,
        place: Place,
        token: TaskTrackerToken,
    ) -> Session {
        let last_heard = inner.attention.now();
        Session {
            inner,
            entry,
            ends: Some(ends),
            last_heard,
            ended: false,
            _place: place,
            _token: token,
        }
    }

    /// The session, for logs.
    pub fn id(&self) -> SessionId {
        self.entry.session
    }

    /// Serves the worker until its session ends.
    pub async fn run<R, S>(mut self, heard: S, told: mpsc::Sender<Told<R>>) -> End<R>
    where
        R: Send,
        S: Stream<Item = Heard<R>> + Unpin + Send,
    {
        let Some(Ends { mut over, asks }) = self.ends.take() else {
            return End::Closed;
        };
        self.inner.ask_newcomer(&self.entry);
        let draining = self.inner.draining.clone();
        let end = tokio::select! {
            biased;
            superseded = over.wait_for(Option::is_some) => match superseded.as_deref() {
                Ok(Some(Over::Superseded(current))) => self.superseded(*current),
                // The entry is ours: it lives as long as we do.
                _ => End::Closed,
            },
            () = draining.cancelled() => End::Draining,
            end = self.serve(heard, asks, &told) => end,
        };
        let last_word = match &end {
            End::Superseded { current, .. } => Some(Told::Superseded { incarnation: *current }),
            End::Draining => {
                let sessions = u32::try_from(self.inner.table.len()).unwrap_or(u32::MAX);
                let span = Duration::from_secs(u64::from(1 + sessions / RECONNECTS_PER_SECOND));
                Some(Told::Drain { reconnect_after: spread(span.min(RECONNECT_AFTER_MAX)) })
            }
            _ => None,
        };
        if let Some(word) = last_word {
            // Who does not read finds out by itself.
            let _ = told.try_send(word);
        }
        self.finish(&end).await;
        end
    }

    fn superseded<R>(&self, current: u64) -> End<R> {
        End::Superseded {
            app: self.entry.app.clone(),
            unit: self.entry.unit().clone(),
            given: self.entry.incarnation,
            current,
        }
    }

    async fn serve<R, S>(
        &mut self,
        heard: S,
        mut asks: mpsc::Receiver<Question>,
        told: &mpsc::Sender<Told<R>>,
    ) -> End<R>
    where
        R: Send,
        S: Stream<Item = Heard<R>> + Unpin + Send,
    {
        let mut chunks = heard.ready_chunks(self.inner.options.chunk_max);
        loop {
            let attention = self.inner.attention.clone();
            let ttl = self.inner.session_ttl();
            let deadline = self.last_heard + ttl;
            tokio::select! {
                chunk = chunks.next() => {
                    let Some(chunk) = chunk else {
                        return End::Closed;
                    };
                    self.last_heard = attention.now();
                    let taken = tokio::time::timeout(ttl, self.take(chunk, told)).await;
                    match taken {
                        Ok(Ok(None)) => {}
                        Ok(Ok(Some(end))) => return end,
                        Ok(Err(Gone)) => return End::Closed,
                        // It sends and does not read, or the store is away: the latter it is told.
                        Err(_elapsed) => return End::Silent(ttl),
                    }
                }
                Some(question) = asks.recv() => {
                    let Question { id, component, recompute, deadline } = question;
                    let word = Told::Collect { id, component, recompute, deadline };
                    if let Some(end) = tell(told, word, ttl).await {
                        return end;
                    }
                }
                (topic, callback) = self.entry.next_call() => {
                    let word = Told::RetryDue { topic, operation_id: callback.operation_id };
                    if let Some(end) = tell(told, word, ttl).await {
                        return end;
                    }
                }
                () = attention.until(deadline) => return End::Silent(ttl),
            }
        }
    }

    /// Commits what was read at once, and answers it.
    async fn take<R>(
        &mut self,
        chunk: Vec<Heard<R>>,
        told: &mpsc::Sender<Told<R>>,
    ) -> Result<Option<End<R>>, Gone> {
        let mut requests = Vec::new();
        let mut answers = Vec::new();
        let mut last_seq = None;
        let mut end = None;
        for heard in chunk {
            match heard {
                Heard::Heartbeat => {}
                Heard::Said { seq, command, answers: question } => {
                    last_seq = last_seq.max(Some(seq));
                    requests.push(Request { id: None, command: self.spoken(command) });
                    answers.push((seq, question));
                }
                Heard::Refused { seq, refusal } => {
                    last_seq = last_seq.max(Some(seq).filter(|seq| *seq != 0));
                    told.send(Told::Refused { seq, refusal }).await.map_err(|_| Gone)?;
                }
                Heard::Goodbye { removed } => {
                    end = Some((removed, End::Goodbye));
                    break;
                }
                Heard::Broken(refusal) => {
                    end = Some((false, End::Broken(refusal)));
                    break;
                }
            }
        }
        let mut revision = self.entry.revision;
        if !requests.is_empty() {
            let outcomes = self.inner.aggregator.apply_all(&self.entry.app, requests).await;
            let count = answers.len();
            let outcomes = outcomes.unwrap_or_else(|error| vec![Err(error); count]);
            for ((seq, question), outcome) in answers.into_iter().zip(outcomes) {
                match self.answer(question, outcome) {
                    Ok(at) => revision = revision.max(at),
                    Err(error) => {
                        told.send(Told::Rejected { seq, error }).await.map_err(|_| Gone)?;
                    }
                }
            }
        }
        if let Some(seq) = last_seq {
            told.send(Told::Ack { seq, revision }).await.map_err(|_| Gone)?;
        }
        let Some((removed, end)) = end else {
            return Ok(None);
        };
        if removed {
            self.depart().await;
        }
        Ok(Some(end))
    }

    fn answer(
        &self,
        question: Option<u64>,
        outcome: Result<Outcome, aggregator::Error>,
    ) -> Result<Revision, aggregator::Error> {
        let outcome = outcome.inspect_err(|error| {
            if let aggregator::Error::Rejected(Rejected::StaleIncarnation { current, .. }) = error {
                self.entry.end(Over::Superseded(*current));
            }
        })?;
        if let Some(question) = question {
            self.inner.answered(&self.entry, question, outcome.revision);
        }
        Ok(outcome.revision)
    }

    /// A command as said in this session.
    fn spoken(&self, command: Command) -> Command {
        let speaker = self.speaker();
        match command {
            Command::Report(_, kind, new) => Command::Report(speaker, kind, new),
            Command::ReportAll(_, statuses) => Command::ReportAll(speaker, statuses),
            Command::Replace(_, component, set) => Command::Replace(speaker, component, set),
            Command::Clear { component, key, kind, .. } => {
                Command::Clear { speaker, component, key, kind }
            }
            other => other,
        }
    }

    fn speaker(&self) -> Speaker {
        Speaker {
            unit: self.entry.unit().clone(),
            incarnation: Some(self.entry.incarnation),
            session: Some(self.entry.session),
        }
    }

    /// The unit will not come back.
    async fn depart(&mut self) {
        // First, so that its removal is not taken for somebody else's doing.
        self.leave();
        let ttl = self.inner.session_ttl();
        let command = Command::Depart { speaker: self.speaker(), ttl };
        let request = Request { id: None, command };
        // If it fails, it shows as a unit that is gone without a word.
        let departed = self.inner.aggregator.apply(&self.entry.app, request).await;
        self.ended |= departed.is_ok();
    }

    /// Makes the end known: at once if we know that it is one, after a look around if it may be us
    /// who cannot hear.
    async fn finish<R>(&mut self, end: &End<R>) {
        // First, so that its end is not taken for somebody's mistake.
        self.leave();
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        match end {
            End::Superseded { .. } => {}
            End::Goodbye | End::Draining | End::Broken(_) => {
                self.inner.disconnect(&self.entry, false).await;
            }
            End::Closed => self.inner.vanish(&self.entry, false),
            End::Silent(_) => self.inner.vanish(&self.entry, true),
        }
    }

    fn leave(&self) {
        let entry = &self.entry;
        self.inner.table.remove(&entry.app, entry.unit(), entry.session);
    }
}

/// A session that was cut off without running to its end: its call was.
impl Drop for Session {
    fn drop(&mut self) {
        if !self.ended {
            self.leave();
            self.inner.vanish(&self.entry, false);
        }
    }
}
