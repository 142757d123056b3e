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
use crate::domain::app::AppState;
use crate::domain::classify::Finding;
use crate::domain::command::{Command, Rejected, Request, Speaker};
use crate::domain::data::etag;
use crate::domain::fault::FaultKey;
use crate::domain::name::{AppName, PartName, UnitName};
use crate::domain::request::Outcome;
use crate::domain::revision::Revision;
use crate::domain::session::SessionId;

use super::entry::{Ends, Entry, Over, Question};
use super::holds::Word;
use super::leading;
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
        let end = match (end, self.entry.over()) {
            // Heard in an answer to what it said last.
            (End::Closed, Some(Over::Superseded(current))) => self.superseded(current),
            (end, _) => end,
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
        let attention = self.inner.attention.clone();
        let entry = self.entry.clone();
        loop {
            let deadline = self.last_heard + self.entry.ttl;
            let served = tokio::select! {
                // What is there already was in time.
                biased;
                Some(Question { id, component, recompute, deadline }) = asks.recv() => {
                    let word = Told::Collect { id, component, recompute, deadline };
                    self.tell(told, word).await
                }
                (topic, callback) = self.entry.next_call() => {
                    let word = Told::RetryDue { topic, operation_id: callback.operation_id };
                    self.tell(told, word).await
                }
                word = self.entry.next_hold() => {
                    let word = match word {
                        Word::Held(key, fault) => Told::Hold { key, fault },
                        Word::Released(component, reason) => {
                            Told::HoldReleased { component, reason }
                        }
                    };
                    self.tell(told, word).await
                }
                word = entry.news.next(&entry) => self.tell(told, told_of(word)).await,
                chunk = chunks.next() => match chunk {
                    Some(chunk) => {
                        entry.heard(attention.now());
                        let taken = self.take(chunk, told).await;
                        self.last_heard = attention.now();
                        entry.heard(self.last_heard);
                        taken
                    }
                    None => Err(End::Closed),
                },
                () = attention.until(deadline) => Err(End::Silent(self.entry.ttl)),
            };
            if let Err(end) = served {
                return end;
            }
        }
    }

    /// Tells the worker, unless it does not read for so long that it cannot be there any more.
    async fn tell<R>(&mut self, told: &mpsc::Sender<Told<R>>, word: Told<R>) -> Result<(), End<R>> {
        let begun = self.inner.attention.now();
        let taken = tokio::time::timeout(self.entry.ttl, told.send(word)).await;
        // Meanwhile we did not listen.
        self.last_heard += self.inner.attention.now().saturating_sub(begun);
        match taken {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_gone)) => Err(End::Closed),
            Err(_elapsed) => Err(End::Silent(self.entry.ttl)),
        }
    }

    /// Commits what was read at once, and answers it.
    async fn take<R>(
        &mut self,
        chunk: Vec<Heard<R>>,
        told: &mpsc::Sender<Told<R>>,
    ) -> Result<(), End<R>> {
        let mut requests = Vec::new();
        let mut answers = Vec::new();
        let mut errors = Vec::new();
        let mut last_seq = None;
        let mut end = None;
        for heard in chunk {
            match heard {
                Heard::Heartbeat => {}
                Heard::Said { seq, command, answers: question } => {
                    last_seq = last_seq.max(Some(seq).filter(|seq| *seq != 0));
                    errors.extend(Met::of(seq, &command));
                    let claims = matches!(command, Command::ClaimLeadership(..));
                    if claims || matches!(command, Command::StepBack(_)) {
                        self.entry.news.wish(claims);
                    }
                    requests.push(Request { id: None, command });
                    answers.push(Asked { seq, question, claims });
                }
                Heard::Refused { seq, refusal } => {
                    last_seq = last_seq.max(Some(seq).filter(|seq| *seq != 0));
                    self.tell(told, Told::Refused { seq, refusal }).await?;
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
        for (asked, outcome) in answers.into_iter().zip(self.commit(requests).await) {
            let seq = asked.seq;
            match self.answer(told, asked, outcome).await? {
                Some(at) => revision = revision.max(at),
                None => errors.retain(|met| met.seq != seq),
            }
        }
        self.tell_verdicts(told, errors, revision).await?;
        if let Some(seq) = last_seq {
            self.tell(told, Told::Ack { seq, revision }).await?;
        }
        let Some((removed, end)) = end else {
            return Ok(());
        };
        if removed {
            self.depart().await;
        }
        Err(end)
    }

    /// Answers one thing that was said. Since when it is in force; `None` if it was refused.
    async fn answer<R>(
        &mut self,
        told: &mpsc::Sender<Told<R>>,
        Asked { seq, question, claims }: Asked,
        outcome: Result<Outcome, aggregator::Error>,
    ) -> Result<Option<Revision>, End<R>> {
        use Rejected::{LeaderIsExternal, LeaseHeld};
        if claims {
            self.entry.news.tell_again();
        }
        match outcome {
            Ok(Outcome { revision, .. }) => {
                if let Some(question) = question {
                    self.inner.answered(&self.entry, question, revision);
                }
                Ok(Some(revision))
            }
            // It waits in line, and is told.
            Err(aggregator::Error::Rejected(LeaseHeld { .. } | LeaderIsExternal { .. }))
                if claims =>
            {
                Ok(None)
            }
            Err(aggregator::Error::Rejected(rejected)) if is_over(&rejected) => {
                self.entry.end_because(&rejected);
                Err(End::Closed)
            }
            Err(error) => {
                self.tell(told, Told::Rejected { seq, error }).await?;
                Ok(None)
            }
        }
    }

    /// Says what to do about errors that were reported, as things stand after them.
    async fn tell_verdicts<R>(
        &mut self,
        told: &mpsc::Sender<Told<R>>,
        errors: Vec<Met>,
        revision: Revision,
    ) -> Result<(), End<R>> {
        if errors.is_empty() {
            return Ok(());
        }
        let unit = self.entry.unit().clone();
        let find = |state: &AppState| {
            let fault = |met: &Met| state.faults().get(&met.key(&unit)).cloned();
            errors.iter().map(fault).collect::<Vec<_>>()
        };
        let found = self.inner.aggregator.read(&self.entry.app, revision, find).await;
        // What it means is known, also if what became of it cannot be read any more.
        let found = found.unwrap_or_else(|_| vec![None; errors.len()]);
        for (Met { seq, finding, .. }, fault) in errors.into_iter().zip(found) {
            self.tell(told, Told::Verdict { seq, finding, fault }).await?;
        }
        Ok(())
    }

    async fn commit(&self, requests: Vec<Request>) -> Vec<Result<Outcome, aggregator::Error>> {
        if requests.is_empty() {
            return Vec::new();
        }
        let requests = Arc::new(requests);
        let outcomes = self.apply(&requests).await;
        let is_over = |outcome: &Result<Outcome, aggregator::Error>| {
            use aggregator::Error::Rejected as Refused;
            matches!(outcome, Err(Refused(Rejected::SessionOver { .. })))
        };
        if !outcomes.iter().any(is_over) || !self.inner.assert_session(&self.entry, false).await {
            return outcomes;
        }
        // Somebody believed us gone, and it is not so.
        self.apply(&requests).await
    }

    async fn apply(&self, requests: &Arc<Vec<Request>>) -> Vec<Result<Outcome, aggregator::Error>> {
        let count = requests.len();
        let outcomes = self.inner.aggregator.apply_all(&self.entry.app, requests.clone()).await;
        outcomes.unwrap_or_else(|error| vec![Err(error); count])
    }

    /// Who speaks in this session: what it says is refused once the unit holds a newer one.
    pub fn speaker(&self) -> Speaker {
        self.entry.speaker()
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

/// Something that was said, and is to be answered.
struct Asked {
    seq: u64,
    /// The question that it answers.
    question: Option<u64>,
    /// It asks to lead.
    claims: bool,
}

fn told_of<R>(word: leading::Word) -> Told<R> {
    match word {
        leading::Word::Leadership { leader, lease_epoch, heartbeat, is_self } => {
            Told::Leadership { leader, lease_epoch, is_self, heartbeat_interval: heartbeat }
        }
        leading::Word::Data { version } => Told::DataChanged { etag: etag(version) },
    }
}

/// An error that is answered with a verdict.
struct Met {
    seq: u64,
    component: PartName,
    target: Arc<str>,
    finding: Finding,
}

impl Met {
    fn of(seq: u64, command: &Command) -> Option<Met> {
        let Command::ReportError { component, target, error, .. } = command else {
            return None;
        };
        let finding = error.finding.clone();
        Some(Met { seq, component: component.clone(), target: target.clone(), finding })
    }

    fn key(&self, unit: &UnitName) -> FaultKey {
        let (component, target) = (self.component.clone(), self.target.clone());
        FaultKey { unit: unit.clone(), component, target }
    }
}

/// Whether a command was refused because the session has no say any more.
fn is_over(rejected: &Rejected) -> bool {
    use Rejected::{SessionOver, StaleIncarnation, UnitRemoved};
    matches!(rejected, SessionOver { .. } | StaleIncarnation { .. } | UnitRemoved { .. })
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
