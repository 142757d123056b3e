//! One link: the connection to a master that there is now, or why there is none.

use std::sync::{Arc, Weak};

use redis::aio::MultiplexedConnection;
use redis::{Pipeline, RedisResult, Value};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::board::Board;
use super::dial::Dialer;
use super::error::{Hint, LinkError, hint};
use super::master::Master;
use super::target::Address;

/// Events that wait for the supervisor. Losing one is no matter: the next question finds out.
const EVENTS_MAX: usize = 8;

/// A supervised way to one master.
pub(super) struct Link {
    /// What it leads to, as in "Redis at host:port".
    pub(super) name: String,
    pub(super) dialer: Arc<Dialer>,
    pub(super) board: Weak<Board>,
    /// Ends the supervisor.
    pub(super) ended: CancellationToken,
    state: watch::Sender<State>,
}

/// Where a link stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Finding out where the master is.
    Resolving,
    /// Making a connection and asking who is there.
    Connecting,
    /// In use.
    Ready,
    /// Connected, and a question was not answered in time. Nothing new is sent meanwhile.
    Suspect,
}

struct State {
    phase: Phase,
    /// Since when it is ready, or has not been.
    since: Since,
    live: Option<Arc<Live>>,
    /// Why it is not ready.
    failure: LinkError,
}

/// A moment by both clocks: one to measure by, one to show.
#[derive(Clone, Copy)]
struct Since {
    instant: Instant,
    time: jiff::Timestamp,
}

/// A connection to a master.
pub(super) struct Live {
    pub(super) connection: MultiplexedConnection,
    pub(super) address: Address,
    pub(super) master: Master,
    pub(super) events: mpsc::Sender<Event>,
}

/// What the supervisor is told about a connection.
#[derive(Debug)]
pub(super) enum Event {
    /// It is closed.
    Disconnected,
    /// A pipeline was not answered; it should be asked whether it is there.
    Unanswered,
    /// The master says that it cannot serve, with this code.
    Leave(String),
}

impl Link {
    pub(super) fn new(
        name: String,
        dialer: Arc<Dialer>,
        board: Weak<Board>,
        ended: CancellationToken,
    ) -> Link {
        let failure = LinkError::away(format!("{name} has not been reached yet"));
        let state = State { phase: Phase::Resolving, since: Since::now(), live: None, failure };
        Link { name, dialer, board, ended, state: watch::Sender::new(state) }
    }

    /// Runs a pipeline; every reply in order.
    pub(super) async fn run(&self, pipeline: &Pipeline) -> Result<Vec<Value>, LinkError> {
        if pipeline.is_empty() {
            return Ok(Vec::new());
        }
        let live = self.ready().await?;
        let replies = match send(&mut live.connection.clone(), pipeline).await {
            Ok(replies) => replies,
            Err(error) => {
                let _ = live.events.try_send(Event::Unanswered);
                return Err(LinkError::ambiguous(&live.master.address, &error));
            }
        };
        self.heed(&live, &replies);
        Ok(replies)
    }

    /// The connection of now; waits for one only if it has just been lost.
    pub(super) async fn ready(&self) -> Result<Arc<Live>, LinkError> {
        let mut states = self.state.subscribe();
        let since = states.borrow().since.instant;
        let deadline = since + self.dialer.options.wait_for_link;
        let waited = tokio::time::timeout_at(deadline, states.wait_for(State::is_ready)).await;
        let state = match waited {
            Ok(Ok(state)) => state,
            _ => self.state.borrow(),
        };
        match &state.live {
            Some(live) if state.is_ready() => Ok(live.clone()),
            _ => Err(state.failure.clone()),
        }
    }

    /// The master that it is connected to.
    pub(super) fn master(&self) -> Option<Master> {
        self.state.borrow().live.as_ref().map(|live| live.master.clone())
    }

    /// Whether it can be used; a sentence if not.
    pub(super) fn health(&self) -> Result<(), String> {
        let state = self.state.borrow();
        match state.phase {
            Phase::Ready => Ok(()),
            Phase::Resolving | Phase::Connecting | Phase::Suspect => Err(format!(
                "{} is away since {}: {}",
                self.name,
                state.since.time.strftime("%Y-%m-%dT%H:%M:%SZ"),
                state.failure.reason()
            )),
        }
    }

    /// Why it is not ready, if it is not.
    pub(super) fn failure(&self) -> Option<LinkError> {
        let state = self.state.borrow();
        (!state.is_ready()).then(|| state.failure.clone())
    }

    /// Returns when the connection with this number is no longer the one in use.
    pub(super) async fn lost(&self, connection: u64) {
        let mut states = self.state.subscribe();
        let is_other = |state: &State| {
            state.live.as_ref().is_none_or(|live| live.master.connection != connection)
        };
        let _ = states.wait_for(is_other).await;
    }

    /// Goes on to another phase without a connection, or to and from `Suspect` with it.
    pub(super) fn enter(&self, phase: Phase) {
        self.change(|state| state.phase = phase);
    }

    /// Still has no connection, for this reason.
    pub(super) fn fail(&self, failure: LinkError) {
        self.change(|state| state.failure = failure);
    }

    /// Has a connection from now on.
    pub(super) fn publish(&self, live: Arc<Live>) {
        self.change(|state| {
            state.phase = Phase::Ready;
            state.live = Some(live);
        });
    }

    /// No longer has a connection, for this reason.
    pub(super) fn lose(&self, reason: String) {
        self.change(|state| {
            state.phase = Phase::Resolving;
            state.live = None;
            state.failure = LinkError::Away { reason };
        });
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        self.state.send_modify(|state| {
            let was_ready = state.is_ready();
            change(state);
            if was_ready != state.is_ready() {
                state.since = Since::now();
            }
        });
        if let Some(board) = self.board.upgrade() {
            board.publish();
        }
    }

    /// Acts on replies that say that we are in the wrong place.
    fn heed(&self, live: &Live, replies: &[Value]) {
        match replies.iter().find_map(hint) {
            Some((Hint::Leave, code)) => {
                let _ = live.events.try_send(Event::Leave(code.to_string()));
            }
            Some((Hint::Remap, _code)) => {
                if let Some(board) = self.board.upgrade() {
                    board.remap.notify_one();
                }
            }
            None => (),
        }
    }
}

impl State {
    fn is_ready(&self) -> bool {
        self.phase == Phase::Ready
    }
}

impl Since {
    fn now() -> Since {
        Since { instant: Instant::now(), time: jiff::Timestamp::now() }
    }
}

impl Live {
    /// The same connection to a master whose history has another name now.
    pub(super) fn renamed(&self, replid: &str) -> Live {
        let (connection, address) = (self.connection.clone(), self.address.clone());
        let master = Master { replid: replid.to_string(), ..self.master.clone() };
        Live { connection, address, master, events: self.events.clone() }
    }

    /// The two ends of the events of a connection.
    pub(super) fn events() -> (mpsc::Sender<Event>, mpsc::Receiver<Event>) {
        mpsc::channel(EVENTS_MAX)
    }
}

/// Sends a pipeline and takes the replies as they come, errors in their places. Of an atomic one
/// they are those of its commands, or for each of them the reason why none was executed.
pub(super) async fn send(
    connection: &mut MultiplexedConnection,
    pipeline: &Pipeline,
) -> RedisResult<Vec<Value>> {
    let commands = pipeline.len();
    if !pipeline.is_transaction() {
        return connection.send_packed_commands(pipeline, 0, commands).await;
    }
    // MULTI, QUEUED for each command, and EXEC.
    let mut replies = connection.send_packed_commands(pipeline, 0, commands + 2).await?;
    Ok(match replies.pop() {
        Some(Value::Array(replies)) => replies,
        Some(reason) => vec![reason; commands],
        None => Vec::new(),
    })
}
