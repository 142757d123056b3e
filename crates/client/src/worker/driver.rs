//! The task of a worker: runs one session after the other until the worker stops.

use std::sync::Arc;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::backoff::Backoff;
use crate::error;
use crate::error::Refusal;
use crate::worker::collect::Collector;
use crate::worker::error::Error;
use crate::worker::event::Event;
use crate::worker::options::Options;
use crate::worker::session::Session;
use crate::worker::shared::{Phase, Shared};

/// The reason with which a server ends an incarnation or a session.
pub(super) const STALE: &str = "STALE_INCARNATION";

/// A request to stop the worker.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stop {
    /// The deadline.
    pub(super) until: Instant,
    /// Whether the unit is removed for good.
    pub(super) removed: bool,
}

/// The reason for the end of a session, or of an attempt to open one.
#[derive(Debug)]
pub(super) enum Cut {
    /// The goodbye was sent.
    Stopped,
    /// A retry cannot help.
    Final(Error),
    /// A retry may help.
    Lost(error::Error),
    /// The server stops. The next attempt comes after this instant.
    Drained(Instant),
}

impl Cut {
    /// Classifies the error of an attempt: the server refuses `hello`, or was not reached.
    pub(super) fn before_welcome(error: error::Error) -> Cut {
        match error {
            error::Error::Refused(refusal) if refusal.reason == STALE => superseded(&refusal),
            error if error.is_passing() => Cut::Lost(error),
            error => Cut::Final(Error::Client(error)),
        }
    }

    /// Classifies the error of a session. A server may answer STALE_INCARNATION for a session that
    /// is over without naming a rival: then the next `hello` decides, which is refused if there is
    /// one.
    pub(super) fn after_welcome(error: error::Error) -> Cut {
        let names_rival = |refusal: &Refusal| {
            let facts = ["given", "current"];
            facts.iter().any(|fact| refusal.metadata.contains_key(*fact))
        };
        match error {
            error::Error::Refused(refusal) if refusal.reason == STALE && !names_rival(&refusal) => {
                Cut::Lost(error::Error::Refused(refusal))
            }
            error => Cut::before_welcome(error),
        }
    }
}

/// Returns the final error, with the newer incarnation if the server sent it.
fn superseded(refusal: &Refusal) -> Cut {
    let incarnation = refusal.metadata.get("current").and_then(|number| number.parse().ok());
    Cut::Final(Error::Superseded { incarnation, detail: refusal.message.clone() })
}

/// The state of the task.
pub(super) struct Driver {
    pub(super) options: Options,
    pub(super) shared: Arc<Shared>,
    pub(super) collector: Collector,
    pub(super) stop: watch::Receiver<Option<Stop>>,
    pub(super) backoff: Backoff,
    /// Number of attempts so far; each uses the next server.
    attempt: usize,
}

impl Driver {
    pub(super) fn new(
        options: Options,
        shared: Arc<Shared>,
        collector: Collector,
        stop: watch::Receiver<Option<Stop>>,
    ) -> Driver {
        Driver { options, shared, collector, stop, backoff: Backoff::wide(), attempt: 0 }
    }

    /// Runs until the worker ends. Returns `Ok` after a clean end.
    pub(super) async fn run(mut self) -> Result<(), Error> {
        let end = loop {
            let mut stop = self.stop.clone();
            let cut = tokio::select! {
                cut = self.session() => cut,
                () = patience(&mut stop) => break Err(Error::NoGoodbye),
            };
            self.shared.outbox().end_session();
            self.collector.end_session();
            match self.pause_after(cut) {
                Ok(until) if self.is_done() || !self.wait(until).await => break Ok(()),
                Ok(_) => (),
                Err(Error::Ended) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        self.end(end)
    }

    /// Makes one attempt, from the connection to its end.
    async fn session(&mut self) -> Cut {
        let server = self.options.servers[self.attempt % self.options.servers.len()].clone();
        self.shared.tell(Event::Connecting { server: server.clone() });
        self.attempt = self.attempt.wrapping_add(1);
        match Session::open(self, &server).await {
            Ok(session) => session.run().await,
            Err(cut) => cut,
        }
    }

    /// Returns the end of the pause, and reports the event; or returns why the worker ends.
    fn pause_after(&mut self, cut: Cut) -> Result<Instant, Error> {
        match cut {
            Cut::Stopped => Err(Error::Ended),
            Cut::Final(error) => Err(error),
            // The event was sent by the session.
            Cut::Drained(until) => Ok(until),
            Cut::Lost(error) => {
                let pause = self.backoff.pause(error.retry_after());
                self.shared.tell(Event::Disconnected { error, pause });
                Ok(Instant::now() + pause)
            }
        }
    }

    /// Returns whether the worker stops before it has reported anything: then no goodbye is needed.
    fn is_done(&self) -> bool {
        let asked = *self.stop.borrow();
        let is_new = matches!(*self.shared.phase.borrow(), Phase::New);
        asked.is_some_and(|stop| !stop.removed) && is_new && self.shared.outbox().len() == 0
    }

    /// Waits. A request to stop ends the wait once, so that a server receives it soon. Returns
    /// false if nothing is left to do.
    async fn wait(&mut self, until: Instant) -> bool {
        let known = self.stop.borrow().is_some();
        let mut stop = self.stop.clone();
        let cut_short = async {
            match known {
                // The next attempt detects the deadline.
                true => patience(&mut stop).await,
                false => drop(stopped(&mut stop).await),
            }
        };
        tokio::select! {
            () = sleep_until(until) => (),
            () = cut_short => (),
        }
        !self.is_done()
    }

    fn end(self, end: Result<(), Error>) -> Result<(), Error> {
        match &end {
            Err(Error::Superseded { incarnation, .. }) => {
                self.shared.tell(Event::Superseded { incarnation: *incarnation });
            }
            Err(error @ Error::Client(_)) => {
                self.shared.tell(Event::Ended { error: error.clone() })
            }
            _ => (),
        }
        let error = end.clone().err().unwrap_or(Error::Ended);
        match (self.shared.end(&error), end) {
            (count, Ok(()) | Err(Error::NoGoodbye)) if 0 < count => {
                Err(Error::Unacknowledged { count })
            }
            (_, end) => end,
        }
    }
}

/// Waits for a request to stop.
pub(super) async fn stopped(stop: &mut watch::Receiver<Option<Stop>>) -> Stop {
    match stop.wait_for(Option::is_some).await.map(|stop| *stop) {
        Ok(Some(stop)) => stop,
        // The handle is gone without a request, which its drop does not do.
        Ok(None) | Err(_) => Stop { until: Instant::now(), removed: false },
    }
}

/// Waits until the deadline of the stop.
async fn patience(stop: &mut watch::Receiver<Option<Stop>>) {
    let stop = stopped(stop).await;
    sleep_until(stop.until).await;
}
