//! A worker: reports statuses and answers questions, across restarts of the server.
//!
//! ```text
//!  Worker --put--> outbox <--next-- session --report, replace, clear--> server
//!  (handle)                 driver: one session after the other
//!  closure <--ask-- collector <---- session <--collect, ack, reject, drain-- server
//! ```

mod acknowledged;
mod collect;
mod context;
mod cut;
mod driver;
mod error;
mod event;
mod options;
mod outbox;
mod retained;
mod session;
mod shared;

#[cfg(test)]
mod tests;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::backoff::Backoff;
use crate::connection::endpoint;
use crate::proto::v1::{ErrorReport, StatusKind, StatusReport};
use crate::worker::collect::Collector;
use crate::worker::context::{Context, Stop};
use crate::worker::driver::Driver;
use crate::worker::outbox::{Content, Key, key_of};
use crate::worker::shared::{Phase, Shared};

pub use acknowledged::Acknowledged;
pub use collect::{CollectAnswer, CollectRequest};
pub use error::Error;
pub use event::{Event, Events};
pub use options::Options;

/// A unit with a permanent session.
///
/// It connects automatically, and again after a lost connection: with a random pause of at most
/// 100 ms at first and 30 s later, so that the workers of a restarted server do not reconnect
/// together. Reports wait meanwhile, the newest for each component, key and kind. Reports that
/// were sent and not acknowledged are sent again.
///
/// If it is dropped, it sends a goodbye in the background while the runtime lives;
/// [`shutdown`](Worker::shutdown) is better.
///
/// ```no_run
/// use bellwether_client::Worker;
/// use bellwether_client::worker::Options;
/// use bellwether_client::proto::v1::{Level, StatusReport};
///
/// # async fn example() -> Result<(), bellwether_client::worker::Error> {
/// let options = Options::new("http://127.0.0.1:50051", "web", "web/0");
/// // Whenever the server asks, the whole pull set of the unit.
/// let worker = Worker::connect(options, |_question| async {
///     let is_up = tokio::net::TcpStream::connect("127.0.0.1:80").await.is_ok();
///     let level = if is_up { Level::Active } else { Level::Error };
///     vec![StatusReport { level: level.into(), ..StatusReport::default() }]
/// })?;
/// // What is known only when something was tried. It need not wait for a connection.
/// worker.set_status(StatusReport {
///     component: "database".to_string(),
///     level: Level::Blocked.into(),
///     message: "the password is refused".to_string(),
///     action: "set a new password".to_string(),
///     ..StatusReport::default()
/// });
/// worker.flush().await?;
/// worker.shutdown(false).await
/// # }
/// ```
#[derive(Debug)]
pub struct Worker {
    shared: Arc<Shared>,
    stop: watch::Sender<Option<Stop>>,
    /// `None` once its end was awaited.
    driver: Option<JoinHandle<Result<(), Error>>>,
    shutdown_timeout: Duration,
}

impl Worker {
    /// Starts a worker and returns immediately: [`connected`](Worker::connected) waits for the
    /// first session.
    ///
    /// `collect` is called whenever the server asks for the pull set: for that of a component if
    /// the [request](CollectRequest) names one, otherwise for that of the unit. It runs in a
    /// separate task and may take its time; there is one call for each component at a time. If it
    /// panics, the question gets no answer. When the worker ends, running calls are dropped.
    ///
    /// # Errors
    /// [`InvalidServer`](crate::Error::InvalidServer) if an address is not valid.
    ///
    /// # Panics
    /// Outside of a Tokio runtime.
    pub fn connect<C, F>(options: Options, collect: C) -> Result<Worker, Error>
    where
        C: Fn(CollectRequest) -> F + Send + Sync + 'static,
        F: Future<Output = Vec<StatusReport>> + Send + 'static,
    {
        Worker::connect_answering(options, move |request| {
            let set = collect(request);
            async move { CollectAnswer::Set(set.await) }
        })
    }

    /// Starts a worker like [`connect`](Worker::connect), whose answers need not be sets.
    ///
    /// # Errors
    /// [`InvalidServer`](crate::Error::InvalidServer) if an address is not valid.
    ///
    /// # Panics
    /// Outside of a Tokio runtime.
    pub fn connect_answering<C, F>(options: Options, answer: C) -> Result<Worker, Error>
    where
        C: Fn(CollectRequest) -> F + Send + Sync + 'static,
        F: Future<Output = CollectAnswer> + Send + 'static,
    {
        for server in &options.servers {
            endpoint(server)?;
        }
        let shared = Arc::new(Shared::new());
        let (stop, stopped) = watch::channel(None);
        let shutdown_timeout = options.shutdown_timeout;
        let collector = Collector::new(Arc::new(move |request| Box::pin(answer(request))));
        let backoff = Backoff::wide();
        let context =
            Context { options, shared: shared.clone(), collector, stop: stopped, backoff };
        let driver = Some(tokio::spawn(Driver::new(context).run()));
        Ok(Worker { shared, stop, driver, shutdown_timeout })
    }

    /// Waits for the first session without a time limit. Returns the incarnation of the unit.
    ///
    /// # Errors
    /// Errors that a retry cannot heal: the server refuses the worker for good.
    pub async fn connected(&self) -> Result<u64, Error> {
        let mut phase = self.shared.phase.subscribe();
        let known = phase.wait_for(|phase| !matches!(phase, Phase::New)).await;
        match known.map(|phase| phase.clone()) {
            Ok(Phase::Begun(incarnation)) => Ok(incarnation),
            Ok(Phase::Over(error)) => Err(error),
            Ok(Phase::New) | Err(_) => Err(Error::Ended),
        }
    }

    /// Waits for the end of the worker. Returns the reason.
    pub async fn over(&self) -> Error {
        let mut phase = self.shared.phase.subscribe();
        let known = phase.wait_for(|phase| matches!(phase, Phase::Over(_))).await;
        match known.map(|phase| phase.clone()) {
            Ok(Phase::Over(error)) => error,
            _ => Error::Ended,
        }
    }

    /// Reports a status. It replaces the one of the same component, key and kind. Returns
    /// immediately.
    ///
    /// The status starts when the server receives it; set `observe_time` if it may have to wait.
    pub fn set_status(&self, status: StatusReport) -> Acknowledged {
        self.set_statuses(vec![status])
    }

    /// Reports several statuses, each like a single one. The result is the first error, if there is
    /// one.
    pub fn set_statuses(&self, statuses: Vec<StatusReport>) -> Acknowledged {
        let items = statuses.into_iter().map(|status| {
            let key = key_of(&status);
            (key, Content::Status(Box::new(status)))
        });
        self.shared.put(items.collect())
    }

    /// Removes a status; without a kind, both the push and the pull status.
    pub fn clear_status(
        &self,
        component: &str,
        key: &str,
        kind: Option<StatusKind>,
    ) -> Acknowledged {
        let kinds = match kind {
            Some(kind @ (StatusKind::Push | StatusKind::Pull)) => vec![kind],
            Some(StatusKind::Unspecified) | None => vec![StatusKind::Push, StatusKind::Pull],
        };
        let items = kinds.into_iter().map(|kind| {
            let (component, key) = (component.to_string(), key.to_string());
            (Key::Status { component, key, kind: kind.into() }, Content::Nothing)
        });
        self.shared.put(items.collect())
    }

    /// Replaces the whole pull set of a component, or without one that of the unit, without a
    /// question.
    pub fn replace_statuses(
        &self,
        component: Option<&str>,
        statuses: Vec<StatusReport>,
    ) -> Acknowledged {
        let key = Key::Set(component.map(str::to_string));
        self.shared.put(vec![(key, Content::Set(statuses))])
    }

    /// Reports an error and returns immediately; the answer comes as [`Event::Verdict`]. Of several
    /// errors of one target that wait to be sent only the last counts. An error that was sent when
    /// a session ended may count twice.
    pub fn report_error(&self, error: ErrorReport) -> Acknowledged {
        let (component, target) = (error.component.clone(), error.target.clone());
        let content = Content::Error(Box::new(error));
        self.shared.put(vec![(Key::Target { component, target }, content)])
    }

    /// Reports that a target works again; with an empty `target`, that all targets of the component
    /// work. `generation` as in the error; may be empty.
    pub fn resolve_error(&self, component: &str, target: &str, generation: &str) -> Acknowledged {
        let (component, target) = (component.to_string(), target.to_string());
        let content = Content::Works(generation.to_string());
        self.shared.put(vec![(Key::Target { component, target }, content)])
    }

    /// Announces that the worker is about to stop: what it reports from now on ends with this
    /// incarnation, and does not pass to a successor. The session stays open until
    /// [`shutdown`](Worker::shutdown).
    pub fn announce_stop(&self) -> Acknowledged {
        self.shared.put(vec![(Key::Stopping, Content::Nothing)])
    }

    /// Waits until the server has acknowledged all reports up to now.
    ///
    /// # Errors
    /// If one of them is rejected, or the worker has ended.
    pub async fn flush(&self) -> Result<(), Error> {
        let outcomes = self.shared.outbox().outcomes();
        Acknowledged(Ok(outcomes)).await.map(drop)
    }

    /// Claims leadership of the application, in this session and in later ones, and again after it
    /// was deposed, until [`release_leadership`](Worker::release_leadership). Returns immediately:
    /// [`Event::Leadership`] names the leader, first in answer to the claim and then at each
    /// change. While another unit leads, this one waits in line. While it leads, it sends
    /// heartbeats often enough to keep its lease.
    pub fn claim_leadership(&self) {
        self.shared.want_to_lead(true);
    }

    /// Steps back from leadership, or leaves the line.
    pub fn release_leadership(&self) {
        self.shared.want_to_lead(false);
    }

    /// Returns the epoch of the unit's lease, from the last leadership message; `None` if the unit
    /// does not lead by that message. 0 if leadership is decided outside. The server refuses the
    /// writes of a leader that has lost its lease.
    pub fn lease_epoch(&self) -> Option<u64> {
        self.shared.lease_epoch()
    }

    /// Returns the events of the worker: the first caller receives them from the start, others from
    /// now on.
    pub fn events(&self) -> Events {
        self.shared.events()
    }

    /// Returns the push statuses that the server had of this unit when the session opened,
    /// including those of earlier incarnations.
    pub fn retained(&self) -> Vec<StatusReport> {
        self.shared.retained()
    }

    /// Ends the worker: waits until everything is acknowledged, then sends a goodbye. With
    /// `removed` the unit is removed for good, with its statuses.
    ///
    /// # Errors
    /// If that was not possible within [`Options::shutdown_timeout`], or the worker ended before.
    pub async fn shutdown(mut self, removed: bool) -> Result<(), Error> {
        self.ask_to_stop(removed);
        match self.driver.take() {
            Some(driver) => driver.await.unwrap_or(Err(Error::Ended)),
            None => Err(Error::Ended),
        }
    }

    fn ask_to_stop(&self, removed: bool) {
        let until = Instant::now() + self.shutdown_timeout;
        self.stop.send_if_modified(|stop| match stop {
            Some(_) => false,
            None => {
                *stop = Some(Stop { until, removed });
                true
            }
        });
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.ask_to_stop(false);
    }
}
