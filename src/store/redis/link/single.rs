//! One link: the current connection to a master, or why there is none.

use std::sync::{Arc, Weak};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{Pipeline, Value};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::dial::Dialer;
use super::error::{Hint, LinkError, hint};
use super::master::Master;
use super::servers::{Connection, Dedicated};
use super::target::Address;

/// The receiver of the changes of a link: the routing table.
pub(super) trait LinkObserver: Send + Sync {
    /// The link has another connection, or another reason why it cannot be used.
    fn changed(&self);

    /// Another server may have to serve, so the routes need a new look.
    fn misrouted(&self);
}

/// A supervised connection to one master.
pub(super) struct MasterLink {
    /// The target of the link, as in "Redis at host:port".
    pub(super) name: String,
    pub(super) dialer: Arc<Dialer>,
    observer: Weak<dyn LinkObserver>,
    /// Ends the supervisor.
    pub(super) ended: CancellationToken,
    state: watch::Sender<State>,
}

struct State {
    /// The time since which the link is ready, or is not.
    since: Instant,
    live: Option<Arc<Live>>,
    /// Whether a check on the connection was not answered in time. No new request is sent
    /// meanwhile.
    is_suspect: bool,
    /// Why the link is not ready.
    failure: LinkError,
}

/// A connection to a master.
#[derive(Clone)]
pub(super) struct Live {
    pub(super) connection: MultiplexedConnection,
    pub(super) address: Address,
    pub(super) master: Master,
    pub(super) events: mpsc::Sender<Event>,
}

/// A connection of the `redis` crate, whose clones share a socket.
struct Socket(MultiplexedConnection);

#[async_trait::async_trait]
impl Connection for Socket {
    async fn run(&self, pipeline: &Pipeline) -> Result<Vec<Value>, LinkError> {
        let answers = self.0.clone().send_packed_commands(pipeline, 0, pipeline.len()).await;
        answers.map_err(|error| LinkError::Ambiguous { reason: error.to_string() })
    }
}

/// An event on a connection, for the supervisor.
#[derive(Debug)]
pub(super) enum Event {
    /// The connection is closed.
    Disconnected,
    /// A pipeline was not answered; the supervisor should check the server.
    Unanswered,
    /// The master reports with this code that it cannot serve.
    Leave(String),
}

impl MasterLink {
    pub(super) fn new(
        name: String,
        dialer: Arc<Dialer>,
        observer: Weak<dyn LinkObserver>,
        ended: CancellationToken,
    ) -> MasterLink {
        let failure = LinkError::away(format!("{name} has not been reached yet"));
        let state = State { since: Instant::now(), live: None, is_suspect: false, failure };
        MasterLink { name, dialer, observer, ended, state: watch::Sender::new(state) }
    }

    /// Runs a pipeline. Returns every reply in order.
    pub(super) async fn run(&self, pipeline: &Pipeline) -> Result<Vec<Value>, LinkError> {
        if pipeline.is_empty() {
            return Ok(Vec::new());
        }
        let live = self.ready().await?;
        let mut connection = live.connection.clone();
        let replies = match connection.send_packed_commands(pipeline, 0, pipeline.len()).await {
            Ok(replies) => replies,
            Err(error) => {
                let _ = live.events.try_send(Event::Unanswered);
                return Err(LinkError::ambiguous(&live.master.address, &error));
            }
        };
        self.heed(&live, &replies);
        Ok(replies)
    }

    /// Opens a separate connection to the master.
    pub(super) async fn dedicated(&self, patience: Duration) -> Result<Dedicated, LinkError> {
        let live = self.ready().await?;
        let config = self.dialer.config().set_response_timeout(None);
        let (mut connection, found) = self.dialer.open_master(&live.address, &config).await?;
        if !found.is_same(&live.master) {
            let reason = format!("{} is another server than a moment ago", live.address);
            return Err(LinkError::Away { reason });
        }
        connection.set_response_timeout(patience);
        Ok(Dedicated { connection: Arc::new(Socket(connection)), master: live.master.clone() })
    }

    /// Returns the current connection; waits for one only if it has just been lost.
    pub(super) async fn ready(&self) -> Result<Arc<Live>, LinkError> {
        let mut states = self.state.subscribe();
        let deadline = states.borrow().since + self.dialer.options.wait_for_link;
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

    /// Returns the master of the current connection.
    pub(super) fn master(&self) -> Option<Master> {
        self.state.borrow().live.as_ref().map(|live| live.master.clone())
    }

    /// Returns whether the link can be used, and a sentence if not.
    pub(super) fn health(&self) -> Result<(), String> {
        let state = self.state.borrow();
        match state.is_ready() {
            true => Ok(()),
            false => Err(format!(
                "{} is unreachable since {}: {}",
                self.name,
                (jiff::Timestamp::now() - state.since.elapsed()).strftime("%Y-%m-%dT%H:%M:%SZ"),
                state.failure.reason()
            )),
        }
    }

    /// Returns why the link is not ready, if it is not.
    pub(super) fn failure(&self) -> Option<LinkError> {
        let state = self.state.borrow();
        (!state.is_ready()).then(|| state.failure.clone())
    }

    /// Sets why there still is no connection.
    pub(super) fn fail(&self, failure: LinkError) {
        self.change(|state| state.failure = failure);
    }

    /// Stops the use of the connection, for this reason, until it is published again.
    pub(super) fn suspect(&self, reason: String) {
        self.change(|state| {
            state.is_suspect = true;
            state.failure = LinkError::Away { reason };
        });
    }

    /// Sets the connection to use from now on.
    pub(super) fn publish(&self, live: Arc<Live>) {
        self.change(|state| {
            state.is_suspect = false;
            state.live = Some(live);
        });
    }

    /// Drops the connection, for this reason.
    pub(super) fn lose(&self, reason: String) {
        self.change(|state| {
            state.live = None;
            state.failure = LinkError::Away { reason };
        });
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        self.state.send_modify(|state| {
            let was_ready = state.is_ready();
            change(state);
            if was_ready != state.is_ready() {
                state.since = Instant::now();
            }
        });
        if let Some(observer) = self.observer.upgrade() {
            observer.changed();
        }
    }

    /// Requests a new look at the routes.
    pub(super) fn note_misrouted(&self) {
        if let Some(observer) = self.observer.upgrade() {
            observer.misrouted();
        }
    }

    /// Acts on replies that say that another server should serve.
    fn heed(&self, live: &Live, replies: &[Value]) {
        match replies.iter().find_map(hint) {
            Some((Hint::Leave, code)) => {
                let _ = live.events.try_send(Event::Leave(code.to_string()));
            }
            Some((Hint::Remap, _code)) => self.note_misrouted(),
            None => (),
        }
    }
}

impl State {
    fn is_ready(&self) -> bool {
        self.live.is_some() && !self.is_suspect
    }
}
