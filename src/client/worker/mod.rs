//! A worker that stays: reports statuses, and can be asked for them, across restarts of the server.
//!
//! ```text
//!  Worker --put--> outbox <--next-- session --report, replace, clear--> server
//!  (handle)                 driver: one session after the other
//!  closure <--ask-- collector <---- session <--collect, ack, reject, drain-- server
//! ```

mod acknowledged;
mod collect;
mod driver;
mod error;
mod event;
mod options;
mod outbox;
mod retained;
mod session;
mod shared;

#[cfg(all(test, feature = "server"))]
mod tests;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::client::connection::endpoint;
use crate::client::worker::collect::Collector;
use crate::client::worker::driver::Driver;
use crate::client::worker::driver::Stop;
use crate::client::worker::outbox::Content;
use crate::client::worker::outbox::Key;
use crate::client::worker::outbox::key_of;
use crate::client::worker::shared::Phase;
use crate::client::worker::shared::Shared;
use crate::proto::v1::ErrorReport;
use crate::proto::v1::StatusKind;
use crate::proto::v1::StatusReport;

pub use acknowledged::Acknowledged;
pub use collect::CollectRequest;
pub use error::Error;
pub use event::Event;
pub use event::Events;
pub use options::Options;

/// A unit that speaks to the server for as long as it lives.
///
/// It connects by itself, and again when the connection is lost: after 100 ms at first and 30 s at
/// most, somewhere within that time, so that the workers of a restarted server do not come all at
/// once. What is reported meanwhile waits, the newest for each component, key and kind; what was
/// sent and not acknowledged is sent again.
///
/// Dropped, it says goodbye in the background if the runtime lives on; better call
/// [`shutdown`](Worker::shutdown).
///
/// ```no_run
/// use bellwether::client::Worker;
/// use bellwether::client::worker::Options;
/// use bellwether::proto::v1::{Level, StatusReport};
///
/// # async fn example() -> Result<(), bellwether::client::worker::Error> {
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
    /// Gone once it was waited for.
    driver: Option<JoinHandle<Result<(), Error>>>,
    shutdown_timeout: Duration,
}

impl Worker {
    /// Starts a worker, and returns at once: [`connected`](Worker::connected) waits for the first
    /// session.
    ///
    /// `collect` is called whenever the server asks for the pull set: the one of a component if the
    /// [request](CollectRequest) names one, else the one of the unit. It may take its time, in a
    /// task of its own; there is one call for each component at a time. If it panics, the question
    /// stays without an answer. When the worker ends, what is under way is dropped.
    ///
    /// # Errors
    /// [`InvalidServer`](crate::client::Error::InvalidServer) if an address is none.
    ///
    /// # Panics
    /// Outside of a Tokio runtime.
    pub fn connect<C, F>(options: Options, collect: C) -> Result<Worker, Error>
    where
        C: Fn(CollectRequest) -> F + Send + Sync + 'static,
        F: Future<Output = Vec<StatusReport>> + Send + 'static,
    {
        for server in &options.servers {
            endpoint(server)?;
        }
        let shared = Arc::new(Shared::new());
        let (stop, stopped) = watch::channel(None);
        let shutdown_timeout = options.shutdown_timeout;
        let collector = Collector::new(Arc::new(move |request| Box::pin(collect(request))));
        let driver = Driver::new(options, shared.clone(), collector, stopped);
        let driver = Some(tokio::spawn(driver.run()));
        Ok(Worker { shared, stop, driver, shutdown_timeout })
    }

    /// Waits for the first session, for as long as it takes. Returns the incarnation of the unit.
    ///
    /// # Errors
    /// What trying again cannot heal: the server refuses the worker for good.
    pub async fn connected(&self) -> Result<u64, Error> {
        let mut phase = self.shared.phase.subscribe();
        let known = phase.wait_for(|phase| !matches!(phase, Phase::New)).await;
        match known.map(|phase| phase.clone()) {
            Ok(Phase::Begun(incarnation)) => Ok(incarnation),
            Ok(Phase::Over(error)) => Err(error),
            Ok(Phase::New) | Err(_) => Err(Error::Ended),
        }
    }

    /// Waits until the worker is over. Returns why.
    pub async fn over(&self) -> Error {
        let mut phase = self.shared.phase.subscribe();
        let known = phase.wait_for(|phase| matches!(phase, Phase::Over(_))).await;
        match known.map(|phase| phase.clone()) {
            Ok(Phase::Over(error)) => error,
            _ => Error::Ended,
        }
    }

    /// Reports a status, in place of the one of the same component, key and kind. Returns at once.
    ///
    /// It counts as begun when the server hears of it; give `observe_time` if it may have to wait.
    pub fn set_status(&self, status: StatusReport) -> Acknowledged {
        self.set_statuses(vec![status])
    }

    /// Reports several statuses, each as if alone. The answer is that of all of them: the first
    /// error, if there is one.
    pub fn set_statuses(&self, statuses: Vec<StatusReport>) -> Acknowledged {
        let items = statuses.into_iter().map(|status| {
            let key = key_of(&status);
            (key, Content::Status(Box::new(status)))
        });
        self.shared.put(items.collect())
    }

    /// Removes a status; without a kind, that of both.
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

    /// Replaces the whole pull set of a component, or without one that of the unit, unasked.
    pub fn replace_statuses(
        &self,
        component: Option<&str>,
        statuses: Vec<StatusReport>,
    ) -> Acknowledged {
        let key = Key::Set(component.map(str::to_string));
        self.shared.put(vec![(key, Content::Set(statuses))])
    }

    /// Tells of an error that was met. Returns at once; what to do about it comes as
    /// [`Event::Verdict`]. Of errors of one target that wait to be sent only the last counts; one
    /// that was sent when a session ended may count twice.
    pub fn report_error(&self, error: ErrorReport) -> Acknowledged {
        let (component, target) = (error.component.clone(), error.target.clone());
        let content = Content::Error(Box::new(error));
        self.shared.put(vec![(Key::Target { component, target }, content)])
    }

    /// Tells that what failed works, or with an empty `target` that everything does that the
    /// component asks or acts on. `generation` as in the error; may be empty.
    pub fn resolve_error(&self, component: &str, target: &str, generation: &str) -> Acknowledged {
        let (component, target) = (component.to_string(), target.to_string());
        let content = Content::Works(generation.to_string());
        self.shared.put(vec![(Key::Target { component, target }, content)])
    }

    /// Waits until the server has acknowledged all that was reported up to now.
    ///
    /// # Errors
    /// If anything of it is rejected, or the worker is over.
    pub async fn flush(&self) -> Result<(), Error> {
        let outcomes = self.shared.outbox().outcomes();
        Acknowledged::waiting(outcomes).await.map(drop)
    }

    /// Asks to lead the application, in this session and those after it, and again when it was
    /// deposed, until [`release_leadership`](Worker::release_leadership). Returns at once:
    /// [`Event::Leadership`] says who leads, at once and at each change. Where another unit leads,
    /// this one waits in line. While it leads it is heard often enough to go on.
    pub fn claim_leadership(&self) {
        self.shared.want_to_lead(true);
    }

    /// Steps back, or waits no longer.
    pub fn release_leadership(&self) {
        self.shared.want_to_lead(false);
    }

    /// Epoch of the lease that the unit has, by what it was told last: for the writes of a leader,
    /// which are refused if it is not so any more. 0 where leadership is decided outside.
    pub fn lease_epoch(&self) -> Option<u64> {
        self.shared.lease_epoch()
    }

    /// What happens to the worker: the first to ask hears it from the start, others from now on.
    pub fn events(&self) -> Events {
        self.shared.events()
    }

    /// The push statuses that the server had of this unit when the session began: what earlier
    /// incarnations left behind, too.
    pub fn retained(&self) -> Vec<StatusReport> {
        self.shared.retained()
    }

    /// Ends the worker: waits until all is acknowledged, then says goodbye. With `removed` the unit
    /// will not come back, and is removed with its statuses.
    ///
    /// # Errors
    /// If that was not possible within the time that [`Options::shutdown_timeout`] gives, or the
    /// worker was over before.
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
