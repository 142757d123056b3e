//! A relay: serves a copy of another server that the digest of that server has proved.
//!
//! ```text
//!  upstream --watch--> Feed --> Copy --bookmark: equal--> Hub --> lists, watches, health, page
//!                               '------ not equal: start over, counted
//!  caller --explain, units, history--> pass --the caller's token--> upstream
//!  caller --writes, sessions--> refused, with the address of the upstream
//! ```
//!
//! Nothing reaches the hub before it is proved, so every bookmark of the hub is one of the
//! upstream. While the upstream is away, the hub has its last proved state, and says as of when.

mod copy;
mod explain;
mod feed;
mod pass;
mod raw;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bellwether_client::{Client, Error, Security};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use crate::domain::time::Timestamp;
use crate::service::call::Within;
use crate::sync::lock;
use crate::telemetry::{Metrics, RelayState};
use crate::watch::{Cursors, Hub, Proved};
use copy::ProvedBatch;
use explain::Explanations;
use feed::Feed;

/// How long the upstream may prove nothing before answers say as of when they are.
const STALE_AFTER: Duration = Duration::from_secs(15);

/// Characters of the reason why the upstream was lost. That of another relay has its own reason in
/// it, and in a circle of relays each has all of them.
const PROBLEM_MAX: usize = 300;

/// What a relay follows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelayOptions {
    /// The address of the upstream.
    pub upstream: String,
    /// The namespaces to serve; empty: all.
    pub namespaces: Vec<Arc<str>>,
    /// The credentials of the relay.
    pub security: Security,
}

/// The sender of whether the copy is stale.
type Silent = watch::Sender<bool>;

/// The state of a relay.
pub struct Relay {
    hub: Arc<Hub>,
    /// Watches, with the credentials of the relay.
    client: Client,
    /// Passes calls on, without credentials of its own.
    plain: Client,
    /// Whether the tokens of callers may travel to the upstream.
    passes_tokens: bool,
    namespaces: Vec<Arc<str>>,
    metrics: Metrics,
    state: Mutex<State>,
    /// Held by the part that takes a batch over: landmarks need their order.
    turn: Mutex<()>,
    is_stale: Silent,
    explanations: Explanations,
}

struct State {
    parts: Vec<Part>,
    /// As of when all parts are current, and when that last advanced by the clock of this process.
    as_of: Option<(Timestamp, Instant)>,
    /// Why the upstream was lost.
    problem: String,
}

#[derive(Clone, Default)]
struct Part {
    is_connected: bool,
    proved: Option<(Proved, Timestamp)>,
}

impl Relay {
    /// Creates a relay that has no copy yet.
    ///
    /// # Errors
    /// If the address or a file of the credentials cannot be used.
    pub fn new(options: RelayOptions, hub: Arc<Hub>, metrics: Metrics) -> Result<Relay, Error> {
        let RelayOptions { upstream, namespaces, security } = options;
        let without = Security { ca: security.ca.clone(), ..Security::default() };
        let plain = Client::connect_lazily(&upstream, without)?;
        let client = Client::connect_lazily(&upstream, security)?;
        let parts = vec![Part::default(); namespaces.len().max(1)];
        Ok(Relay {
            hub,
            passes_tokens: plain.hides_tokens(),
            client,
            plain,
            namespaces,
            metrics,
            state: Mutex::new(State { parts, as_of: None, problem: String::new() }),
            turn: Mutex::default(),
            is_stale: watch::Sender::new(false),
            explanations: Explanations::default(),
        })
    }

    /// Starts to follow the upstream; the tasks end when they are dropped.
    pub fn start(self: &Arc<Self>) -> Vec<AbortOnDropHandle<()>> {
        let parts = lock(&self.state).parts.len();
        let feeds = (0..parts).map(|part| tokio::spawn(Feed::new(self.clone(), part).follow()));
        let staleness = tokio::spawn(feed::watch_staleness(self.clone()));
        feeds.chain([staleness]).map(AbortOnDropHandle::new).collect()
    }

    /// Returns the address of the upstream.
    pub fn upstream(&self) -> &str {
        self.client.url()
    }

    /// Returns the part of the store that it serves; `None`: all.
    pub fn within(&self) -> Option<Arc<Within>> {
        let (namespaces, upstream) = (self.namespaces.clone(), self.upstream().to_string());
        (!namespaces.is_empty()).then(|| Arc::new(Within { namespaces, upstream }))
    }

    /// Returns whether there is a proved copy of everything that it serves.
    pub fn is_ready(&self) -> bool {
        lock(&self.state).as_of.is_some()
    }

    /// Returns as of when the copy is current.
    pub fn as_of(&self) -> Option<Timestamp> {
        lock(&self.state).as_of.map(|(as_of, _)| as_of)
    }

    /// Returns the same if the upstream has proved nothing newer for 15 s.
    pub fn stale_since(&self) -> Option<Timestamp> {
        let state = lock(&self.state);
        state.as_of.filter(|(_, at)| STALE_AFTER < at.elapsed()).map(|(as_of, _)| as_of)
    }

    /// Returns a receiver of whether the copy is stale.
    pub fn staleness(&self) -> watch::Receiver<bool> {
        self.is_stale.subscribe()
    }

    /// Returns whether it can serve, with a sentence about the upstream.
    pub fn health(&self) -> Result<String, String> {
        let stale = self.stale_since();
        let state = lock(&self.state);
        let url = self.upstream();
        match (&state.as_of, stale) {
            (None, _) => Err(format!("no proved copy of {url} yet: {}", state.problem)),
            (Some(_), Some(since)) => {
                let why = match state.problem.as_str() {
                    "" => "it proves nothing newer; if it is a relay, its upstream is lost",
                    problem => problem,
                };
                Ok(format!("stale since {}: {url}: {why}", since.to_utc()))
            }
            (Some(_), None) => Ok(format!("copy of {url}")),
        }
    }

    /// Takes over a batch of a part.
    fn take_over(&self, part: usize, batch: ProvedBatch) {
        let ProvedBatch { changes, token, as_of, .. } = batch;
        // An older upstream does not say as of when it is current: it is now.
        let as_of = as_of.unwrap_or_else(now);
        let _turn = lock(&self.turn);
        let (epoch, cursors) = (token.epoch, token.cursors);
        let own = Proved { epoch, all_of: cursors.clone(), none_after: cursors };
        let mut state = lock(&self.state);
        if let Some(part) = state.parts.get_mut(part) {
            *part = Part { is_connected: true, proved: Some((own.clone(), as_of)) };
        }
        if state.parts.iter().all(|part| part.is_connected) {
            state.problem.clear();
        }
        let others = state.parts.iter().filter_map(|part| part.proved.as_ref());
        let proved = others.filter(|(other, _)| other.epoch == epoch).fold(own, joined);
        drop(state);
        self.hub.take_over(changes, proved);
        let mut state = lock(&self.state);
        let all: Option<Vec<Timestamp>> =
            state.parts.iter().map(|part| part.proved.as_ref().map(|(_, as_of)| *as_of)).collect();
        let Some(oldest) = all.and_then(|all| all.into_iter().min()) else { return };
        if state.as_of.is_none_or(|(known, _)| known < oldest) {
            state.as_of = Some((oldest, Instant::now()));
        }
    }

    fn disconnected(&self, part: usize) {
        if let Some(part) = lock(&self.state).parts.get_mut(part) {
            part.is_connected = false;
        }
    }

    fn lost(&self, problem: &str) {
        lock(&self.state).problem = problem.chars().take(PROBLEM_MAX).collect();
    }

    fn measure(&self) {
        let state = lock(&self.state);
        let is_connected = state.parts.iter().all(|part| part.is_connected);
        let age = state.as_of.map(|(as_of, _)| now().since(as_of));
        self.metrics.relay(RelayState { is_connected, age });
    }
}

/// Returns what two parts of one store prove together.
fn joined(proved: Proved, (other, _): &(Proved, Timestamp)) -> Proved {
    let Proved { epoch, all_of, none_after } = proved;
    Proved {
        epoch,
        all_of: Arc::new(Cursors::lowest(&all_of, &other.all_of)),
        none_after: Arc::new(Cursors::highest(&none_after, &other.none_after)),
    }
}

fn now() -> Timestamp {
    let since = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    Timestamp::default().after(since)
}
