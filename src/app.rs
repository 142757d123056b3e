//! Composes the server: build, run, drain. The binary, tests and programs that embed the server use
//! it in the same way.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Serialize;
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::aggregator::Aggregator;
use crate::config::{Callers, Config, StoreChoice};
use crate::domain::classify::Rules;
use crate::proto::v1::StoreKind;
use crate::security::identity::jwt::{Issuer, fetch};
use crate::security::identity::token::TokenFile;
use crate::security::reload::{self, Reload};
use crate::security::role::RoleFile;
use crate::security::tls::{Port, Tls};
use crate::security::{self, Protection, Reloaded};
use crate::service::edge::{self, Gate};
use crate::service::ops::{self, Ops, Readiness};
use crate::service::relay::Relay;
use crate::service::{self, About, ErrorRules, Parts};
use crate::session::Sessions;
use crate::store::embedded::{self, EmbeddedStore};
use crate::store::redis::link::Kind;
use crate::store::redis::{self, RedisStore};
use crate::store::{MemoryStore, OpenError, Space, Store, watch_space};
use crate::telemetry::{Metrics, Prometheus};
use crate::watch::{Hub, Limits};

/// A server that has opened its store and its ports and does not serve yet.
pub struct App {
    config: Config,
    grpc: TcpListener,
    ops: TcpListener,
    parts: Parts,
    prometheus: Prometheus,
    tls: Option<Arc<Reloaded<security::tls::Files>>>,
    reload_now: Arc<Notify>,
}

/// The addresses that the server listens on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Addresses {
    /// For gRPC.
    pub grpc: SocketAddr,
    /// For operators.
    pub ops: SocketAddr,
}

/// How the drain of the server ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Drained {
    /// Every open call ended within the deadline.
    Cleanly,
    /// Some calls were cut off at the deadline.
    CutOff,
}

/// Why the server could not start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The store could not be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A file of TLS, tokens, roles or issuer keys is invalid.
    #[error(transparent)]
    Security(#[from] security::Error),
    /// The upstream of a relay has an unusable address, or credentials that cannot be read.
    #[error(transparent)]
    Upstream(#[from] bellwether_client::Error),
    /// The server cannot listen on an address.
    #[error(transparent)]
    Listen(std::io::Error),
}

impl App {
    /// Opens the store and the ports. Errors of either show here, before the server serves.
    pub async fn build(
        config: Config,
        metrics: Metrics,
        prometheus: Prometheus,
    ) -> Result<App, Error> {
        let files = config.tls.as_ref().map(|tls| tls.files.clone());
        let tls = files.map(Reloaded::open).transpose()?;
        let protection = Arc::new(protection(&config, tls.as_ref())?);
        for issuer in protection.remote_issuers() {
            // Without the keys the server starts too: it refuses the tokens of this issuer.
            fetch::refresh(issuer).await;
        }
        let grpc = edge::bind(config.grpc_listen).await.map_err(Error::Listen)?;
        let ops = edge::bind(config.ops_listen).await.map_err(Error::Listen)?;
        let store = open_store(&config).await?;
        let limits = Limits { waits_max: config.service.waiting_reads_max, ..Limits::default() };
        let hub = match &config.relay {
            Some(relay) => Hub::of_relay(limits, relay.upstreams.len() as u16),
            None => Hub::new(store.epoch(), store.buckets(), store.is_shared(), limits),
        };
        let hub = Arc::new(hub.with_time(store.now()));
        let relay = match config.relay.clone() {
            Some(options) => Some(Arc::new(Relay::new(options, hub.clone(), metrics.clone())?)),
            None => {
                store.follow(hub.clone());
                None
            }
        };
        let aggregator =
            Aggregator::start(store.clone(), config.aggregator.clone(), metrics.clone());
        let sessions = Sessions::start(
            store.clone(),
            aggregator.clone(),
            hub.clone(),
            config.session.clone(),
            metrics.clone(),
        );
        let (counted, shown) = (hub.clone(), hub.clone());
        let shown_max = config.metrics_applications_max;
        metrics.observe_fleet(move || counted.fleet());
        prometheus.observe_applications(move || ops::states(&shown, shown_max));
        metrics.observe_limits(service::code::refused_by_limit);
        let rules = config.error_rules.as_ref().map_or_else(Rules::default, |(_, r)| r.clone());
        let parts = Parts {
            aggregator,
            hub,
            sessions,
            store,
            error_rules: ErrorRules::new(rules, metrics.clone()),
            metrics,
            protection,
            about: About { store_kind: store_kind(&config), limits: config.limits() },
            relay,
            draining: CancellationToken::new(),
        };
        Ok(App { config, grpc, ops, parts, prometheus, tls, reload_now: Arc::default() })
    }

    /// Returns a handle: when it is notified, the server reads all security files again at once.
    pub fn reload_now(&self) -> Arc<Notify> {
        self.reload_now.clone()
    }

    /// Returns the error rules in force. They may be replaced while the server runs.
    pub fn error_rules(&self) -> ErrorRules {
        self.parts.error_rules.clone()
    }

    /// Returns the addresses that the server listens on.
    ///
    /// # Errors
    /// If the operating system does not name the address of a port.
    pub fn addresses(&self) -> Result<Addresses, Error> {
        Ok(Addresses {
            grpc: self.grpc.local_addr().map_err(Error::Listen)?,
            ops: self.ops.local_addr().map_err(Error::Listen)?,
        })
    }

    /// Serves until `shutdown` resolves, then drains: the server notifies and ends streams, lets
    /// open calls finish within the deadline, commits what it has accepted, and closes the store.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> Drained {
        let App { config, parts, .. } = self;
        let (aggregator, sessions) = (parts.aggregator.clone(), parts.sessions.clone());
        let (hub, store, draining) =
            (parts.hub.clone(), parts.store.clone(), parts.draining.clone());
        let (metrics, protection) = (parts.metrics.clone(), parts.protection.clone());
        let stopped = CancellationToken::new();
        let gate = Gate::new(config.service.connections.clone(), metrics.clone());
        let relay = parts.relay.clone();
        let ready = readiness(&store, relay.as_ref(), &draining, &gate);
        let mut files: Vec<Arc<dyn Reload>> = self.tls.iter().map(|tls| tls.clone() as _).collect();
        files.extend(protection.files());
        let followed = files.clone();
        metrics.observe_files(move || Protection::ages(&followed));
        let tls = |port| self.tls.clone().map(|files| Tls::new(files, port));
        let has_tls = config.tls.as_ref().is_some_and(|tls| tls.with_ops);
        let (prometheus, origins) = (self.prometheus, config.service.origins.clone());
        let router = Ops { prometheus, protection: protection.clone(), origins, ready }.router();
        let ops = tokio::spawn(ops::serve(
            self.ops,
            router,
            tls(Port::Ops).filter(|_| has_tls),
            metrics.clone(),
            stopped.clone(),
        ));
        let grpc_tls = tls(Port::Grpc);
        let fetches = follow_issuers(&protection);
        let feeds = relay.as_ref().map(Relay::start);
        let space = follow_space(&store, &metrics);
        let blockers = follow_blockers(&hub, &store, &metrics);
        let follow = reload::follow(files, self.reload_now, move |stale, has_changed| {
            metrics.stale_files(stale);
            if has_changed {
                protection.changed();
            }
        });
        let follow = AbortOnDropHandle::new(tokio::spawn(follow));
        let server = service::server(parts, &config.service, gate, grpc_tls);
        let mut serving = tokio::spawn(edge::serve(self.grpc, server, draining.clone()));
        let failed = tokio::select! {
            () = shutdown => None,
            ended = &mut serving => Some(ended),
        };
        draining.cancel();
        hub.end_waits();
        let ended = if failed.is_some() {
            failed
        } else {
            // A client that never answers would keep the server running for ever.
            let served = tokio::time::timeout(config.drain_deadline, &mut serving);
            let sessions = tokio::time::timeout(config.drain_deadline, sessions.drain());
            let (served, _cut_off) = tokio::join!(served, sessions);
            served.ok()
        };
        serving.abort();
        let drained = match ended {
            Some(Ok(())) => Drained::Cleanly,
            Some(Err(panicked)) => std::panic::resume_unwind(panicked.into_panic()),
            None => Drained::CutOff,
        };
        aggregator.drain().await;
        store.close().await;
        stopped.cancel();
        drop((follow, fetches, feeds, space, blockers));
        // The ops port serves until the end, so that operators can observe the drain.
        let _ = tokio::time::timeout(OPS_DEADLINE, ops).await;
        drained
    }
}

/// Opens the store. A relay has an empty one.
async fn open_store(config: &Config) -> Result<Arc<dyn Store>, Error> {
    let retention = config.retention.clone();
    let store: Arc<dyn Store> = match &config.store {
        StoreChoice::Memory => Arc::new(MemoryStore::new(retention)),
        StoreChoice::Embedded(dir) => {
            let accepts_data_loss = config.accept_data_loss.clone();
            let options =
                embedded::Options { retention, accepts_data_loss, ..embedded::Options::default() };
            Arc::new(EmbeddedStore::open(dir, options).map_err(OpenError::from)?)
        }
        StoreChoice::Redis(target, durability, layout) => {
            let (durability, layout) = (*durability, layout.clone());
            let link = redis::link::Options::default();
            let options = redis::Options { layout, durability, retention, link };
            let opened = RedisStore::open(target.as_ref().clone(), options).await;
            Arc::new(opened.map_err(OpenError::from)?)
        }
    };
    Ok(store)
}

/// Starts the task that measures the space of the store.
fn follow_space(store: &Arc<dyn Store>, metrics: &Metrics) -> AbortOnDropHandle<()> {
    let metrics = metrics.clone();
    let space = watch_space(store.clone(), move |space| {
        metrics.store_space(space.map(|Space { free, capacity, .. }| [free, capacity]));
    });
    AbortOnDropHandle::new(tokio::spawn(space))
}

/// Interval between two counts of what blocks: a fraction of that of a scrape.
const BLOCKERS_INTERVAL: Duration = Duration::from_secs(10);

/// Starts the task that counts what blocks, for the metrics.
fn follow_blockers(
    hub: &Arc<Hub>,
    store: &Arc<dyn Store>,
    metrics: &Metrics,
) -> AbortOnDropHandle<()> {
    let (hub, store, metrics) = (hub.clone(), store.clone(), metrics.clone());
    AbortOnDropHandle::new(tokio::spawn(async move {
        loop {
            let (seen, now) = (hub.clone(), store.now());
            let counted = tokio::task::spawn_blocking(move || {
                let begun = Instant::now();
                (seen.count_causes(now), begun.elapsed())
            });
            if let Ok((counts, time)) = counted.await {
                metrics.blockers(counts);
                metrics.blockers_evaluated(time);
            }
            tokio::time::sleep(BLOCKERS_INTERVAL).await;
        }
    }))
}

/// Starts the tasks that fetch the keys of issuers; each ends when its handle is dropped.
fn follow_issuers(protection: &Arc<Protection>) -> Vec<AbortOnDropHandle<()>> {
    let follow = |issuer: &Arc<Reloaded<Issuer>>| {
        let protection = protection.clone();
        let fetch = fetch::follow(issuer.clone(), move || protection.changed());
        AbortOnDropHandle::new(tokio::spawn(fetch))
    };
    protection.remote_issuers().map(follow).collect()
}

/// Opens the files that say who the callers are.
fn protection(
    config: &Config,
    tls: Option<&Arc<Reloaded<security::tls::Files>>>,
) -> Result<Protection, security::Error> {
    let Callers { tokens, issuers, roles } = config.callers.clone();
    let asks = config.tls.as_ref().is_some_and(|tls| tls.asks_clients());
    Ok(Protection {
        tokens: tokens.map(TokenFile).map(Reloaded::open).transpose()?,
        issuers: issuers.into_iter().map(Reloaded::open).collect::<Result<_, _>>()?,
        certificates: tls.filter(|_| asks).map(|tls| Tls::new(tls.clone(), Port::Grpc)),
        roles: roles.map(RoleFile).map(Reloaded::open).transpose()?,
        ..Protection::default()
    })
}

/// How long a scrape that is under way may take to finish.
const OPS_DEADLINE: Duration = Duration::from_millis(500);

fn store_kind(config: &Config) -> StoreKind {
    match &config.store {
        // That of the upstream, which may be a relay too.
        _ if config.relay.is_some() => StoreKind::Unspecified,
        StoreChoice::Memory => StoreKind::Memory,
        StoreChoice::Embedded(_) => StoreKind::Embedded,
        StoreChoice::Redis(target, ..) => match target.kind() {
            Kind::Standalone => StoreKind::Redis,
            Kind::Sentinel => StoreKind::RedisSentinel,
            Kind::Cluster => StoreKind::RedisCluster,
        },
    }
}

fn readiness(
    store: &Arc<dyn Store>,
    relay: Option<&Arc<Relay>>,
    draining: &CancellationToken,
    gate: &Gate,
) -> Arc<dyn Fn() -> Readiness + Send + Sync> {
    let (store, relay) = (store.clone(), relay.cloned());
    let (draining, gate) = (draining.clone(), gate.clone());
    Arc::new(move || {
        let serving = if draining.is_cancelled() { Err("stopping".to_string()) } else { Ok(()) };
        let parts = Readiness::default();
        let parts = match &relay {
            None => parts.with("store", store.health()),
            Some(relay) => {
                relay.health().into_iter().fold(parts, |parts, upstream| match upstream {
                    Ok(note) => parts.with_note("upstream", note),
                    Err(problem) => parts.with("upstream", Err(problem)),
                })
            }
        };
        let parts = parts.with("serving", serving);
        // A full server is ready: it replaces idle connections, so sending clients elsewhere does
        // not help.
        parts.with_note("connections", gate.text())
    })
}
