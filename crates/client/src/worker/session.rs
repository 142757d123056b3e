//! One session with one server: sends reports and heartbeats, and handles the server's messages.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::codec::Streaming;

use crate::backoff::Backoff;
use crate::connection::Client;
use crate::error::{Error, Refusal};
use crate::proto::span;
use crate::proto::v1::connect_request::Message as Said;
use crate::proto::v1::connect_response::Message as Heard;
use crate::proto::v1::{
    ClaimLeadership, Collect, ConnectDrain, ConnectRequest, ConnectResponse, Goodbye, Heartbeat,
    Leadership, Reject, ReleaseLeadership, Welcome,
};
use crate::worker::collect::{Answered, CollectAnswer, CollectRequest, Collector};
use crate::worker::context::{Context, Stop, stopped};
use crate::worker::cut::{Cut, STALE};
use crate::worker::error::Error as WorkerError;
use crate::worker::event::Event;
use crate::worker::outbox::{Content, Key};
use crate::worker::retained;
use crate::worker::shared::{Phase, Shared};

/// A welcome needs one commit; a slower store is unavailable.
const WELCOME_MAX: Duration = Duration::from_secs(10);

/// A commit takes milliseconds: a server that acknowledges nothing for this long is gone.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// A session of this length proves that the server is good.
const STEADY: Duration = Duration::from_secs(5);

/// Used if the server sets none.
const HEARTBEAT_DEFAULT: Duration = Duration::from_secs(10);

/// A longer interval saves nothing.
const HEARTBEAT_MAX: Duration = Duration::from_secs(3600);

/// Used if the server sets none.
const UNACKNOWLEDGED_DEFAULT: usize = 64;

/// Messages queued for the connection. The rest waits in the outbox, where it can be replaced.
const QUEUE: usize = 4;

/// An open session.
pub(super) struct Session<'a> {
    url: String,
    shared: Arc<Shared>,
    collector: &'a mut Collector,
    stop: watch::Receiver<Option<Stop>>,
    stopping: Option<Stop>,
    outgoing: mpsc::Sender<ConnectRequest>,
    incoming: Streaming<ConnectResponse>,
    incarnation: u64,
    heartbeat: Duration,
    /// The longest interval between heartbeats while the unit leads; `None`: it does not lead.
    leads: Option<Duration>,
    /// The last leadership message of this session, if any.
    asked_to_lead: Option<bool>,
    unacknowledged_max: usize,
    /// The server's clock, and the instant at which it was read.
    clock: (SystemTime, Instant),
    said_at: Instant,
    contact_at: Instant,
    /// When the first message was sent since all earlier ones were acknowledged.
    owed_at: Instant,
    /// Nothing is sent before this instant: the server refused temporarily.
    resting: Option<Instant>,
    rests: Backoff,
    pauses: &'a mut Backoff,
    /// The server stops; the instant of the next connection.
    drained: Option<Instant>,
}

/// A thing that can happen in a session.
enum Next {
    Heard(Result<Option<ConnectResponse>, tonic::Status>),
    /// There is something to send, and the queue accepts it.
    Room,
    Answered(Answered),
    /// A heartbeat is due.
    Quiet,
    /// There may be something to send.
    Changed,
    Rested,
    /// An acknowledgement is missing, and the server has sent no message for too long.
    Silent,
    Drained(Instant),
    Stop(Stop),
}

impl<'a> Session<'a> {
    /// Connects and waits for the welcome.
    pub(super) async fn open(context: &'a mut Context, url: &str) -> Result<Session<'a>, Cut> {
        let (security, timeout_max) =
            (context.options.security.clone(), context.options.connect_timeout);
        let client = Client::connect_within(url, security, timeout_max);
        let client = client.await.map_err(Cut::before_welcome)?;
        let (outgoing, queue) = mpsc::channel(QUEUE);
        let incarnation = match *context.shared.phase.borrow() {
            Phase::Begun(incarnation) => Some(incarnation),
            Phase::New | Phase::Over(_) => context.options.incarnation,
        };
        let hello = Said::Hello(Box::new(context.options.hello(incarnation)));
        let _ = outgoing.try_send(ConnectRequest { message: Some(hello) });
        let opening = async {
            let stream = client.workers().connect(ReceiverStream::new(queue)).await;
            let mut incoming = client.answer(stream)?;
            let first =
                incoming.message().await.map_err(|status| Error::from_status(url, status))?;
            Ok::<_, Error>((first, incoming))
        };
        let (first, incoming) = timeout(WELCOME_MAX, opening)
            .await
            .map_err(|_| Cut::Lost(Error::away(url, "the server does not answer")))?
            .map_err(Cut::before_welcome)?;
        let welcome = match first.and_then(|first| first.message) {
            Some(Heard::Welcome(welcome)) => {
                retained::whole(&client, &context.options, welcome).await
            }
            Some(Heard::Superseded(by)) => return Err(superseded(by.incarnation, incarnation)),
            Some(Heard::Drain(drain)) => {
                return Err(Cut::Drained(drained(&context.shared, &mut context.backoff, &drain)));
            }
            Some(_) => {
                return Err(Cut::Lost(Error::away(url, "the server did not send a welcome")));
            }
            None => return Err(Cut::Lost(Error::stream_ended())),
        };
        Ok(Session::begin(context, url, welcome, outgoing, incoming))
    }

    fn begin(
        context: &'a mut Context,
        url: &str,
        welcome: Welcome,
        outgoing: mpsc::Sender<ConnectRequest>,
        incoming: Streaming<ConnectResponse>,
    ) -> Session<'a> {
        let now = Instant::now();
        let server_time = welcome.server_time.and_then(|time| time.try_into().ok());
        let heartbeat = span(welcome.heartbeat_interval);
        let session = Session {
            url: url.to_string(),
            shared: context.shared.clone(),
            collector: &mut context.collector,
            stop: context.stop.clone(),
            stopping: None,
            outgoing,
            incoming,
            incarnation: welcome.incarnation,
            heartbeat: heartbeat
                .filter(|interval| !interval.is_zero())
                .map_or(HEARTBEAT_DEFAULT, |interval| interval.min(HEARTBEAT_MAX)),
            leads: None,
            asked_to_lead: None,
            unacknowledged_max: usize::try_from(welcome.unacknowledged_max)
                .ok()
                .filter(|max| 0 < *max)
                .unwrap_or(UNACKNOWLEDGED_DEFAULT),
            clock: (server_time.unwrap_or_else(SystemTime::now), now),
            said_at: now,
            contact_at: now,
            owed_at: now,
            resting: None,
            rests: Backoff::wide(),
            pauses: &mut context.backoff,
            drained: None,
        };
        let healed = session.shared.begin(welcome.incarnation, welcome.retained.clone());
        if 0 < healed {
            tracing::info!(healed, "the server lost statuses, which are sent again");
        }
        session.shared.tell(Event::Connected {
            session_id: welcome.session_id,
            incarnation: welcome.incarnation,
            retained: welcome.retained,
            operations: welcome.operations,
            leader: welcome.leader,
            lease_epoch: welcome.lease_epoch,
        });
        session
    }

    /// Runs until the end of the session.
    pub(super) async fn run(mut self) -> Cut {
        loop {
            if let Some(cut) = self.step().await {
                self.prove();
                return cut;
            }
            if let Some(stop) = self.stopping
                && self.shared.outbox().len() == 0
            {
                return self.say_goodbye(stop.removed).await;
            }
        }
    }

    /// Handles the next thing that happens.
    async fn step(&mut self) -> Option<Cut> {
        match self.next().await {
            Next::Heard(Ok(Some(message))) => return self.hear(message.message?),
            Next::Heard(Ok(None)) => return Some(self.over(Error::stream_ended())),
            Next::Heard(Err(status)) => {
                return Some(self.over(Error::from_status(&self.url, status)));
            }
            Next::Room => match self.must_ask() {
                true => self.ask_to_lead(),
                false => self.say_next(),
            },
            Next::Answered(answered) => self.answer(answered),
            Next::Quiet => self.say(Said::Heartbeat(Heartbeat {})),
            Next::Changed => (),
            Next::Rested => self.resting = None,
            Next::Silent => return Some(Cut::Lost(Error::away(&self.url, &silence()))),
            Next::Drained(until) => return Some(Cut::Drained(until)),
            Next::Stop(stop) => self.stopping = Some(stop),
        }
        None
    }

    /// Waits for the next thing that happens. Cancel safe.
    async fn next(&mut self) -> Next {
        let may_send = self.may_send() || self.must_ask();
        let silent_at = self.silent_at();
        tokio::select! {
            incoming = self.incoming.message() => Next::Heard(incoming),
            Ok(_) = self.outgoing.reserve(), if may_send => Next::Room,
            answered = self.collector.answered() => Next::Answered(answered),
            () = sleep_until(self.said_at + self.leads.unwrap_or(self.heartbeat)) => Next::Quiet,
            () = self.shared.changed.notified() => Next::Changed,
            () = due(self.resting) => Next::Rested,
            () = due(silent_at) => Next::Silent,
            () = due(self.drained) => Next::Drained(self.drained.unwrap_or(self.said_at)),
            stop = stopped(&mut self.stop), if self.stopping.is_none() => Next::Stop(stop),
        }
    }

    fn say(&mut self, message: Said) {
        self.said_at = Instant::now();
        // A full queue needs no heartbeat. The end of a stream is detected by the receiver, and
        // what it did not take is sent again in the next session.
        let _ = self.outgoing.try_send(ConnectRequest { message: Some(message) });
    }

    /// Sends the oldest pending entry; the queue accepts it.
    fn say_next(&mut self) {
        let message = self.shared.outbox().next();
        let Some(message) = message else { return };
        self.say(message);
        if self.shared.outbox().sent_count() == 1 {
            self.owed_at = self.said_at;
        }
    }

    fn may_send(&self) -> bool {
        let outbox = self.shared.outbox();
        self.drained.is_none()
            && self.resting.is_none()
            && outbox.has_pending()
            && outbox.sent_count() < self.unacknowledged_max
    }

    /// Returns whether the server does not know the unit's present wish to lead or not to lead.
    fn must_ask(&self) -> bool {
        let wants = self.shared.wants_to_lead.load(Ordering::Relaxed);
        // A claim outlives its session, so its withdrawal must too.
        let is_known = match self.asked_to_lead {
            Some(asked) => asked == wants,
            None => !wants && !self.shared.has_claimed.load(Ordering::Relaxed),
        };
        !is_known && self.drained.is_none() && self.resting.is_none()
    }

    fn ask_to_lead(&mut self) {
        let wants = self.shared.wants_to_lead.load(Ordering::Relaxed);
        self.asked_to_lead = Some(wants);
        self.shared.has_claimed.store(wants, Ordering::Relaxed);
        self.say(match wants {
            true => Said::ClaimLeadership(ClaimLeadership {}),
            false => Said::ReleaseLeadership(ReleaseLeadership {}),
        });
    }

    fn led(&mut self, leadership: Leadership) {
        if !leadership.is_self && self.shared.lease_epoch().is_some() {
            // Deposed, and not in line: a unit that still wants to lead must claim again.
            self.ask_again();
        }
        let interval = span(leadership.heartbeat_interval);
        self.leads = interval.filter(|i| leadership.is_self && !i.is_zero());
        self.leads = self.leads.map(|interval| interval.min(self.heartbeat));
        self.shared.set_lease_epoch(leadership.is_self.then_some(leadership.lease_epoch));
        self.shared.tell(Event::Leadership(leadership));
    }

    /// Invalidates the last leadership message of this session.
    fn ask_again(&mut self) {
        if self.asked_to_lead.take().is_some() {
            self.shared.has_claimed.store(true, Ordering::Relaxed);
        }
    }

    /// Returns when the server counts as gone, if a message has no acknowledgement.
    fn silent_at(&self) -> Option<Instant> {
        let owes = 0 < self.shared.outbox().sent_count();
        owes.then(|| self.contact_at.max(self.owed_at) + SILENCE_MAX)
    }

    /// Handles the end of the stream, which is expected after a drain.
    fn over(&self, error: Error) -> Cut {
        match self.drained {
            Some(until) => Cut::Drained(until),
            None => Cut::after_welcome(error),
        }
    }

    fn hear(&mut self, message: Heard) -> Option<Cut> {
        self.contact_at = Instant::now();
        match message {
            Heard::Ack(ack) => {
                self.rests.reset();
                self.shared.outbox().acknowledge(ack.seq, ack.revision);
            }
            Heard::Reject(reject) => return self.rejected(reject),
            Heard::Collect(collect) => self.ask(collect),
            Heard::Superseded(by) => {
                return Some(superseded(by.incarnation, Some(self.incarnation)));
            }
            Heard::Drain(drain) => {
                self.prove();
                self.drained = Some(drained(&self.shared, self.pauses, &drain));
            }
            Heard::Verdict(incoming) => {
                let about = self.shared.outbox().target_of(incoming.seq);
                if let Some(((component, target), verdict)) = about.zip(incoming.verdict) {
                    self.shared.tell(Event::Verdict { component, target, verdict });
                }
            }
            Heard::RetryDue(due) => self.shared.tell(Event::RetryDue(due)),
            Heard::CallbackDue(due) => self.shared.tell(Event::CallbackDue(due)),
            Heard::NeedsMet(met) => self.shared.tell(Event::NeedsMet(met)),
            Heard::Hold(hold) => self.shared.tell(Event::Hold(hold)),
            Heard::HoldReleased(released) => self.shared.tell(Event::HoldReleased(released)),
            Heard::Leadership(leadership) => self.led(leadership),
            Heard::AppDataChanged(data) => {
                self.shared.tell(Event::AppDataChanged { etag: data.etag });
            }
            // Only the first welcome counts.
            Heard::Welcome(_) => (),
        }
        None
    }

    fn rejected(&mut self, reject: Reject) -> Option<Cut> {
        let refusal = Refusal::from(reject.status.unwrap_or_default());
        if refusal.reason == STALE {
            return Some(Cut::after_welcome(Error::Refused(Box::new(refusal))));
        }
        if reject.seq == 0 && is_passing(&refusal) {
            // Only leadership messages are refused without a number.
            self.ask_again();
            self.resting = Some(Instant::now() + self.rests.pause(refusal.retry_after));
            return None;
        }
        let mut outbox = self.shared.outbox();
        if is_passing(&refusal) {
            // The entries after it are sent again after it: their order must be kept.
            outbox.take_back(reject.seq);
            self.resting = Some(Instant::now() + self.rests.pause(refusal.retry_after));
        } else if outbox.take_back_plain(reject.seq, &refusal) {
            // The loop of the session sends it.
        } else if let Some((component, key)) = outbox.reject(reject.seq, &refusal) {
            let refusal = Box::new(refusal);
            self.shared.tell(Event::Rejected { component, key, refusal });
        }
        None
    }

    fn ask(&mut self, collect: Collect) {
        let (server_time, read_at) = self.clock;
        let until = collect.deadline.and_then(|time| SystemTime::try_from(time).ok());
        let left = until.map(|until| until.duration_since(server_time).unwrap_or_default());
        let request = CollectRequest {
            component: collect.component,
            recompute: collect.recompute,
            deadline: left.and_then(|left| read_at.into_std().checked_add(left)),
        };
        self.collector.ask(collect.collect_id, request);
    }

    fn answer(&mut self, answered: Answered) {
        let Answered { component, ids, answer, .. } = answered;
        let content = match answer {
            Ok(CollectAnswer::Set(statuses)) => Content::Set(statuses),
            Ok(CollectAnswer::Unchanged) if !ids.is_empty() => Content::Unchanged,
            Ok(CollectAnswer::Unchanged | CollectAnswer::Nothing) => return,
            Err(panic) => {
                tracing::error!(panic, "the closure that answers collects panicked");
                return self.shared.tell(Event::CollectFailed { panic });
            }
        };
        let keys = match ids.is_empty() {
            true => vec![Key::Set(component)],
            false => ids.into_iter().map(|id| Key::Answer(id, component.clone())).collect(),
        };
        // No caller waits: a failure is reported as an event.
        let _ = self.shared.put(keys.into_iter().map(|key| (key, content.clone())).collect());
    }

    /// A session that lasted proves that the server is good; a mere welcome does not.
    fn prove(&mut self) {
        if STEADY <= self.clock.1.elapsed() {
            self.pauses.reset();
        }
    }

    async fn say_goodbye(self, removed: bool) -> Cut {
        let Session { outgoing, mut incoming, url, .. } = self;
        let goodbye = Said::Goodbye(Goodbye { removed });
        let _ = outgoing.send(ConnectRequest { message: Some(goodbye) }).await;
        drop(outgoing);
        loop {
            match incoming.message().await {
                Ok(Some(_)) => (),
                Ok(None) => return Cut::Stopped,
                // Only a removal must have arrived.
                Err(_) if !removed => return Cut::Stopped,
                Err(status) => return Cut::after_welcome(Error::from_status(&url, status)),
            }
        }
    }
}

/// Returns whether the server may accept the same message later, without a change of its limits.
fn is_passing(refusal: &Refusal) -> bool {
    use tonic::Code::*;
    refusal.reason == "RATE_LIMITED"
        || matches!(refusal.code, Unavailable | Aborted | DeadlineExceeded | Cancelled)
}

/// Waits until an instant that may never come.
async fn due(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// Handles a drain: returns the instant of the next connection.
fn drained(shared: &Shared, pauses: &mut Backoff, drain: &ConnectDrain) -> Instant {
    let pause = pauses.pause(span(drain.reconnect_after));
    shared.tell(Event::Drained { pause });
    Instant::now() + pause
}

/// A server that does not know the end of this worker's previous session reports it as a rival. A
/// real rival has a newer incarnation.
fn superseded(by: u64, own: Option<u64>) -> Cut {
    match own == Some(by) {
        true => {
            let text = "another session of this incarnation took over";
            Cut::Lost(Error::Refused(Box::new(Refusal::from(tonic::Status::unavailable(text)))))
        }
        false => Cut::Final(WorkerError::Superseded {
            incarnation: Some(by),
            detail: format!("incarnation {by} of the unit has taken over"),
        }),
    }
}

fn silence() -> String {
    format!("nothing acknowledged for {} s", SILENCE_MAX.as_secs())
}
