//! One watch of the upstream: opened, resumed, started over, for as long as the relay runs.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bellwether_client::{Client, Error};
use tokio::time::timeout;

use super::copy::{Copy, ProvedBatch, Proven, Taken};
use super::{Relay, bucket};
use crate::proto::v1;
use crate::service::convert;
use crate::sync::lock;
use crate::telemetry::ResyncCause;

/// How soon the upstream sends a proof after a change. Until then the change waits.
const PROOF_AFTER: Duration = Duration::from_millis(1);

/// Bookmarks arrive every 5 s: three missing ones mean that the upstream is gone.
const SILENCE_MAX: Duration = Duration::from_secs(15);

/// The longest wait for the answer of an upstream that accepted the connection.
const OPEN_MAX: Duration = Duration::from_secs(5);

/// First and longest pause before another attempt.
const PAUSE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));

/// How often in a row an upstream may be behind the copy before the copy follows it back: a store
/// that was restored from an older copy stays behind.
const BEHIND_MAX: u32 = 3;

/// How a stream ended.
enum Ended {
    /// The upstream may continue where it ended.
    Lost(Error),
    /// The upstream answers nothing any more.
    Silent,
    /// The upstream stops.
    Drained,
    /// The copy must start over.
    Wrong(ResyncCause),
    /// What is proved cannot be served.
    Refused(String),
}

/// One watch.
pub(super) struct Feed {
    relay: Arc<Relay>,
    /// The upstream, and the part of its copy.
    place: (usize, usize),
    copy: Copy,
    client: Client,
    resume_token: String,
    failures: u32,
    behind: u32,
    is_known_lost: bool,
}

impl Feed {
    /// Creates the watch of a part of the copy of an upstream, with this client.
    pub(super) fn new(relay: Arc<Relay>, place: (usize, usize), client: Client) -> Feed {
        let namespace = relay.namespaces.get(place.1).cloned();
        Feed {
            client,
            relay,
            place,
            copy: Copy::new(namespace),
            resume_token: String::new(),
            failures: 0,
            behind: 0,
            is_known_lost: false,
        }
    }

    /// Follows the upstream until the task is dropped.
    pub(super) async fn follow(mut self) {
        loop {
            let relay = self.relay.clone();
            self.copy.begin(self.proven(&relay), !self.resume_token.is_empty());
            let ended = self.stream().await;
            lock(&relay.contacts).disconnected(self.place);
            let pause = self.after(ended);
            tokio::time::sleep(pause).await;
            // A vanished peer would cause another timeout on the old connection.
            self.client = self.client.reconnected();
        }
    }

    fn proven<'r>(&self, relay: &'r Relay) -> Proven<'r> {
        Proven { hub: &relay.hub, claims: &relay.claims, upstream: bucket(self.place.0) }
    }

    /// Decides what follows the end of a stream; returns the pause.
    fn after(&mut self, ended: Ended) -> Duration {
        let url = self.client.url().to_string();
        let text = match ended {
            Ended::Drained => "it stops".to_string(),
            Ended::Silent => format!("no message for {} s", SILENCE_MAX.as_secs()),
            Ended::Wrong(cause) => {
                self.relay.metrics.relay_resync(cause);
                self.resume_token.clear();
                tracing::warn!(url, cause = cause.word(), "the copy starts over");
                format!("the copy was wrong: {}", cause.word())
            }
            Ended::Refused(why) => why,
            Ended::Lost(error) => {
                if error.is_expired_token() && !self.waits_for(&error) {
                    self.relay.metrics.relay_resync(ResyncCause::Token);
                    self.resume_token.clear();
                }
                error.to_string()
            }
        };
        if !std::mem::replace(&mut self.is_known_lost, true) {
            tracing::warn!(url, reason = text, "the upstream is lost; the last copy is served");
        }
        lock(&self.relay.contacts).lost(self.place.0, &text);
        let full = PAUSE.0.saturating_mul(1 << self.failures.min(10)).min(PAUSE.1);
        self.failures = self.failures.saturating_add(1);
        full.mul_f64(0.5 + jitter() / 2.0)
    }

    /// Returns whether this upstream, or another server behind its address, may reach the token.
    fn waits_for(&mut self, error: &Error) -> bool {
        self.behind += 1;
        error.is_behind() && self.behind <= BEHIND_MAX
    }

    /// Follows one stream to its end.
    async fn stream(&mut self) -> Ended {
        let namespace = self.relay.namespaces.get(self.place.1);
        let request = v1::WatchApplicationsRequest {
            namespace: namespace.map_or_else(|| "-".to_string(), ToString::to_string),
            resume_token: self.resume_token.clone(),
            bookmark_interval: Some(convert::duration(PROOF_AFTER)),
            ..v1::WatchApplicationsRequest::default()
        };
        let mut applications = self.client.applications();
        let opened = match timeout(OPEN_MAX, applications.watch_applications(request)).await {
            Ok(opened) => self.client.answer(opened),
            Err(_elapsed) => return Ended::Silent,
        };
        let mut stream = match opened {
            Ok(stream) => stream,
            Err(error) => return Ended::Lost(error),
        };
        let relay = self.relay.clone();
        loop {
            let message = match timeout(SILENCE_MAX, stream.message()).await {
                Err(_elapsed) => return Ended::Silent,
                Ok(Err(status)) => return Ended::Lost(self.client.error(status)),
                Ok(Ok(None)) => return Ended::Drained,
                Ok(Ok(Some(message))) => message,
            };
            let proven = self.proven(&relay);
            match self.copy.take(message, proven) {
                Taken::Nothing => {}
                Taken::Drain => return Ended::Drained,
                Taken::Wrong(cause) => return Ended::Wrong(cause),
                Taken::Proved(batch) => {
                    if let Err(ended) = self.proved(batch) {
                        return ended;
                    }
                }
            }
        }
    }

    /// Takes over what is proved.
    fn proved(&mut self, batch: ProvedBatch) -> Result<(), Ended> {
        if batch.goes_back {
            self.behind += 1;
            if self.behind <= BEHIND_MAX {
                return Err(Ended::Wrong(ResyncCause::Behind));
            }
        }
        let token_text = batch.token_text.clone();
        self.relay.take_over(self.place, batch).map_err(Ended::Refused)?;
        (self.behind, self.failures) = (0, 0);
        self.resume_token = token_text;
        if std::mem::take(&mut self.is_known_lost) {
            tracing::info!(url = self.client.url(), "the copy is current again");
        }
        Ok(())
    }
}

/// Returns a number from 0 to 1, so that relays do not reconnect at the same moment.
fn jitter() -> f64 {
    use std::hash::BuildHasher;
    let random = std::hash::RandomState::new().hash_one(0_u8) as u32;
    f64::from(random) / f64::from(u32::MAX)
}

/// Looks each second whether a copy is stale, and whether those that there are must do.
pub(super) async fn watch_staleness(relay: Arc<Relay>) {
    let mut ticks = tokio::time::interval(Duration::from_secs(1));
    loop {
        ticks.tick().await;
        lock(&relay.contacts).open(relay.has_overlap.load(Ordering::Acquire));
        relay.look();
        relay.measure();
    }
}
