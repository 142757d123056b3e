//! The task of a worker: runs one session after the other until the worker stops.

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::worker::context::{Context, Stop, stopped};
use crate::worker::cut::Cut;
use crate::worker::error::Error;
use crate::worker::event::Event;
use crate::worker::session::Session;
use crate::worker::shared::Phase;

/// The state of the task.
pub(super) struct Driver {
    context: Context,
    /// Number of attempts so far; each uses the next server.
    attempt: usize,
}

impl Driver {
    pub(super) fn new(context: Context) -> Driver {
        Driver { context, attempt: 0 }
    }

    /// Runs until the worker ends. Returns `Ok` after a clean end.
    pub(super) async fn run(mut self) -> Result<(), Error> {
        let end = loop {
            let mut stop = self.context.stop.clone();
            let cut = tokio::select! {
                cut = self.session() => cut,
                () = until_deadline(&mut stop) => break Err(Error::NoGoodbye),
            };
            self.context.shared.outbox().end_session();
            self.context.collector.end_session();
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
        let server =
            self.context.options.servers[self.attempt % self.context.options.servers.len()].clone();
        self.context.shared.tell(Event::Connecting { server: server.clone() });
        self.attempt = self.attempt.wrapping_add(1);
        match Session::open(&mut self.context, &server).await {
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
                let pause = self.context.backoff.pause(error.retry_after());
                self.context.shared.tell(Event::Disconnected { error, pause });
                Ok(Instant::now() + pause)
            }
        }
    }

    /// Returns whether the worker stops before it has reported anything: then no goodbye is needed.
    fn is_done(&self) -> bool {
        let asked = *self.context.stop.borrow();
        let is_new = matches!(*self.context.shared.phase.borrow(), Phase::New);
        asked.is_some_and(|stop| !stop.removed) && is_new && self.context.shared.outbox().len() == 0
    }

    /// Waits. A request to stop ends the wait once, so that a server receives it soon. Returns
    /// false if nothing is left to do.
    async fn wait(&mut self, until: Instant) -> bool {
        let known = self.context.stop.borrow().is_some();
        let mut stop = self.context.stop.clone();
        let cut_short = async {
            match known {
                // The next attempt detects the deadline.
                true => until_deadline(&mut stop).await,
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
                self.context.shared.tell(Event::Superseded { incarnation: *incarnation });
            }
            Err(error @ Error::Client(_)) => {
                self.context.shared.tell(Event::Ended { error: error.clone() })
            }
            _ => (),
        }
        let error = end.clone().err().unwrap_or(Error::Ended);
        match (self.context.shared.end(&error), end) {
            (count, Ok(()) | Err(Error::NoGoodbye)) if 0 < count => {
                Err(Error::Unacknowledged { count })
            }
            (_, end) => end,
        }
    }
}

/// Waits until the deadline of the stop.
async fn until_deadline(stop: &mut watch::Receiver<Option<Stop>>) {
    let stop = stopped(stop).await;
    sleep_until(stop.until).await;
}
