//! A relay: serves a copy of other servers that the digests of those servers have proved.
//!
//! ```text
//!  upstream --watch--> Feed --> Copy --bookmark: equal--> claims --> Hub --> lists, watches,
//!                               '- not equal: start over  '- one owner for     health, page
//!                                  and count               each namespace
//!  caller --explain, units, history--> pass --the caller's token--> upstream of the namespace
//!  caller --writes, sessions--> refused, with the address of the upstream
//! ```
//!
//! Nothing reaches the hub before it is proved, so every bookmark of the hub is the sum of those of
//! the upstreams. While an upstream is away, the hub has its last proved state, and says as of
//! when.

mod claims;
mod contact;
mod copy;
mod explain;
mod extent;
mod feed;
mod pass;
mod raw;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use bellwether_client::{Client, Error, Security};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use crate::domain::name::AppName;
use crate::domain::time::Timestamp;
use crate::store::Bucket;
use crate::sync::lock;
use crate::telemetry::{Metrics, RelayState, UpstreamState};
use crate::watch::{Copied, Hub, Proved, Scope};
use claims::{NamespaceClaims, Overlap};
use contact::UpstreamContacts;
pub use contact::UpstreamSet;
use copy::ProvedBatch;
use explain::Explanations;
use feed::Feed;

/// Upstreams of one relay: a token of its readers names the positions of each.
pub const UPSTREAMS_MAX: usize = 16;

/// What a relay follows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelayOptions {
    /// The addresses of the upstreams, each once: 1 to 16.
    pub upstreams: Vec<String>,
    /// The namespaces to serve; empty: all.
    pub namespaces: Vec<Arc<str>>,
    /// The credentials of the relay.
    pub security: Security,
}

/// One upstream.
struct Upstream {
    /// Watches, with the credentials of the relay.
    client: Client,
    /// Passes calls on, without credentials of its own.
    plain: Client,
    /// Whether the tokens of callers may travel to the upstream.
    passes_tokens: bool,
}

/// Since when a copy proves nothing of now, and of whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stale {
    /// As of when it is.
    pub since: Timestamp,
    /// The addresses of the upstreams.
    pub upstreams: String,
}

/// The state of a relay.
pub struct Relay {
    hub: Arc<Hub>,
    upstreams: Vec<Upstream>,
    namespaces: Vec<Arc<str>>,
    metrics: Metrics,
    contacts: Mutex<UpstreamContacts>,
    /// Of several upstreams: which has which namespace.
    claims: Mutex<NamespaceClaims>,
    /// Whether two of them have one namespace: for a cheap check at each message of a watch.
    has_overlap: AtomicBool,
    /// Held by the part that takes a batch over: landmarks need their order.
    turn: Mutex<()>,
    /// Changes whenever something becomes stale, or is not any more.
    staleness: watch::Sender<(UpstreamSet, usize)>,
    explanations: Explanations,
}

impl Relay {
    /// Creates a relay that has no copy yet.
    ///
    /// # Errors
    /// If an address or a file of the credentials cannot be used.
    pub fn new(options: RelayOptions, hub: Arc<Hub>, metrics: Metrics) -> Result<Relay, Error> {
        let RelayOptions { upstreams, namespaces, security } = options;
        let connect = |url: &String| {
            let without = Security { ca: security.ca.clone(), ..Security::default() };
            let plain = Client::connect_lazily(url, without)?;
            let client = Client::connect_lazily(url, security.clone())?;
            Ok(Upstream { passes_tokens: plain.hides_tokens(), client, plain })
        };
        let upstreams = upstreams.iter().map(connect).collect::<Result<Vec<_>, Error>>()?;
        let contacts = UpstreamContacts::new(upstreams.len(), namespaces.len().max(1));
        Ok(Relay {
            hub,
            upstreams,
            namespaces,
            metrics,
            contacts: Mutex::new(contacts),
            claims: Mutex::default(),
            has_overlap: AtomicBool::new(false),
            turn: Mutex::default(),
            staleness: watch::Sender::new((UpstreamSet::default(), 0)),
            explanations: Explanations::default(),
        })
    }

    /// Starts to follow the upstreams; the tasks end when they are dropped.
    pub fn start(self: &Arc<Self>) -> Vec<AbortOnDropHandle<()>> {
        let parts = self.namespaces.len().max(1);
        let feeds =
            self.upstreams.iter().enumerate().flat_map(|(upstream, Upstream { client, .. })| {
                let feed = move |part| Feed::new(self.clone(), (upstream, part), client.clone());
                (0..parts).map(move |part| tokio::spawn(feed(part).follow()))
            });
        let staleness = tokio::spawn(feed::watch_staleness(self.clone()));
        feeds.chain([staleness]).map(AbortOnDropHandle::new).collect()
    }

    /// Returns the address of an upstream.
    fn url(&self, upstream: usize) -> &str {
        self.upstreams.get(upstream).map_or("", |upstream| upstream.client.url())
    }

    /// Returns the addresses of some upstreams, in a sentence.
    fn urls(&self, set: UpstreamSet, between: &str) -> String {
        let all = (0..self.upstreams.len()).filter(|upstream| set.has(*upstream));
        all.map(|upstream| self.url(upstream)).collect::<Vec<_>>().join(between)
    }

    fn all(&self) -> UpstreamSet {
        UpstreamSet::below(self.upstreams.len())
    }

    fn is_union(&self) -> bool {
        1 < self.upstreams.len()
    }

    /// Returns whether it serves: there is a proved copy.
    pub fn is_ready(&self) -> bool {
        lock(&self.contacts).is_open()
    }

    /// Returns the upstreams that a namespace depends on: its owner, or all of them; `None`: all
    /// namespaces.
    fn upstreams_of(&self, namespace: Option<&str>) -> UpstreamSet {
        let owner = namespace.filter(|_| self.is_union());
        let owner = owner.and_then(|namespace| self.claims().owner(namespace));
        owner.map_or_else(|| self.all(), UpstreamSet::of)
    }

    /// Returns the upstreams that a watch depends on.
    fn upstreams_of_scope(&self, scope: &Scope) -> UpstreamSet {
        match scope {
            Scope::Applications(apps) if self.is_union() => {
                let mut names: Vec<&str> = apps.iter().map(AppName::namespace).collect();
                names.dedup();
                names.into_iter().map(|name| self.upstreams_of(Some(name))).collect()
            }
            Scope::Namespace(namespace) => self.upstreams_of(Some(namespace)),
            Scope::All | Scope::Applications(_) => self.all(),
        }
    }

    /// Returns as of when the copy is current for a watch.
    pub fn as_of(&self, scope: &Scope) -> Option<Timestamp> {
        let upstreams = self.upstreams_of_scope(scope);
        lock(&self.contacts).as_of(upstreams)
    }

    /// Returns since when what a namespace depends on has proved nothing newer, after 15 s;
    /// `None`: all namespaces.
    pub fn stale(&self, namespace: Option<&str>) -> Option<Stale> {
        let upstreams = self.upstreams_of(namespace);
        let (since, stale) = lock(&self.contacts).stale(upstreams)?;
        Some(Stale { since, upstreams: self.urls(stale, ", ") })
    }

    /// Returns whether the copy says nothing of how a namespace is now; `None`: of all.
    pub fn is_unsure(&self, namespace: Option<&str>) -> bool {
        !self.is_ready() || self.stale(namespace).is_some() || self.is_contested(namespace)
    }

    fn is_contested(&self, namespace: Option<&str>) -> bool {
        let is_any = self.has_overlap.load(Ordering::Acquire);
        is_any && namespace.is_none_or(|namespace| self.claims().overlap(namespace).is_some())
    }

    /// Returns a receiver that notices when something becomes stale.
    pub fn staleness(&self) -> watch::Receiver<(UpstreamSet, usize)> {
        self.staleness.subscribe()
    }

    /// Returns for each upstream whether the relay can serve, with a sentence about it.
    pub fn health(&self) -> Vec<Result<String, String>> {
        let problem = self.conflict().map(|problem| problem.text().to_string());
        let contacts = lock(&self.contacts);
        let is_open = contacts.is_open();
        let judge = |text| if is_open { Ok(text) } else { Err(text) };
        let about = contacts.iter().enumerate().map(|(upstream, contact)| {
            let url = self.url(upstream);
            match (contact.as_of(), contact.stale_since()) {
                (None, _) => judge(format!("no proved copy of {url} yet: {}", contact.problem)),
                (Some(_), Some(since)) => {
                    let why = match contact.problem.as_str() {
                        "" => "it proves nothing newer; if it is a relay, its upstream is lost",
                        problem => problem,
                    };
                    Ok(format!("stale since {}: {url}: {why}", since.to_utc()))
                }
                (Some(_), None) => Ok(format!("copy of {url}")),
            }
        });
        about.chain(problem.map(judge)).collect()
    }

    /// Takes over a batch of a part of an upstream.
    ///
    /// # Errors
    /// If another upstream has the same store: what it has would have two owners.
    fn take_over(&self, place: (usize, usize), batch: ProvedBatch) -> Result<(), String> {
        let ProvedBatch { changes, token, as_of, .. } = batch;
        let upstream = place.0;
        // An older upstream does not say as of when it is current: it is now.
        let as_of = as_of.unwrap_or_else(now);
        let _turn = lock(&self.turn);
        let proved = {
            let (own, mut contacts) = (Proved::by(&token), lock(&self.contacts));
            if let Some(twin) = contacts.note_twin(upstream, &own) {
                return Err(self.same_store(twin, upstream));
            }
            contacts.prove(place, own, as_of);
            contacts.proved_by(upstream)
        };
        match self.is_union() {
            true => self.share_out(upstream, changes, proved),
            false => self.hub.take_over(bucket(upstream), changes, proved),
        }
        let mut contacts = lock(&self.contacts);
        contacts.advance(upstream);
        contacts.open(self.has_overlap.load(Ordering::Acquire));
        Ok(())
    }

    /// Gives the hub what is the upstream's own, and what others have of the namespaces that it
    /// has left.
    fn share_out(&self, upstream: usize, changes: Vec<Copied>, proved: Option<Proved>) {
        let (released, before) = {
            let mut claims = self.claims();
            let before: Vec<Overlap> = claims.overlaps().collect();
            let is_known = |app: &AppName| self.hub.get(app).is_some();
            let sorted = claims.take(upstream, changes, is_known);
            let released = claims.release(&sorted);
            // Before the hub can say that it has all of this: a watch looks after each message.
            if claims.overlaps().next().is_some() {
                self.has_overlap.store(true, Ordering::Release);
            }
            drop(claims);
            self.hub.take_over(bucket(upstream), sorted.own, proved);
            (released, before)
        };
        for (other, changes) in &released {
            let proved = lock(&self.contacts).proved_by(*other);
            self.hub.take_over(bucket(*other), changes.clone(), proved);
        }
        let mut claims = self.claims();
        claims.settle(&released);
        let after: Vec<Overlap> = claims.overlaps().collect();
        self.has_overlap.store(!after.is_empty(), Ordering::Release);
        drop(claims);
        if before != after {
            self.report_overlaps(&before, &after);
        }
    }

    fn report_overlaps(&self, before: &[Overlap], after: &[Overlap]) {
        for Overlap { namespace, upstreams } in after.iter().filter(|each| !before.contains(each)) {
            let (one, other) = (self.url(upstreams.0), self.url(upstreams.1));
            tracing::error!(%namespace, one, other, "two upstreams have one namespace");
        }
        let is_left = |each: &&Overlap| after.iter().all(|now| now.namespace != each.namespace);
        for Overlap { namespace, .. } in before.iter().filter(is_left) {
            tracing::info!(%namespace, "the namespace has one upstream again");
        }
        self.hub.wake();
        self.look();
    }

    /// Notices what has become stale.
    fn look(&self) {
        let stale = lock(&self.contacts).stale(self.all()).map(|(_, stale)| stale);
        let now = (stale.unwrap_or_default(), self.claims().overlaps().count());
        self.staleness.send_if_modified(|known| std::mem::replace(known, now) != now);
    }

    fn claims(&self) -> MutexGuard<'_, NamespaceClaims> {
        lock(&self.claims)
    }

    fn measure(&self) {
        let overlaps = self.claims().overlaps().count() as u64;
        let contacts = lock(&self.contacts);
        let is_connected = contacts.iter().all(|contact| contact.is_connected());
        let as_of = contacts.as_of(self.all()).filter(|_| contacts.seen() == self.all());
        let age = as_of.map(|as_of| now().since(as_of));
        let upstreams = contacts.iter().enumerate().map(|(upstream, contact)| UpstreamState {
            upstream: self.url(upstream).into(),
            is_connected: contact.is_connected(),
            age: contact.as_of().map(|as_of| now().since(as_of)),
        });
        let upstreams = upstreams.collect();
        self.metrics.relay(RelayState { is_connected, age, overlaps, upstreams });
    }
}

/// Returns the bucket of an upstream in the hub.
fn bucket(upstream: usize) -> Bucket {
    Bucket(upstream as u16)
}

fn now() -> Timestamp {
    let since = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    Timestamp::default().after(since)
}
