//! Ends what is not taken: a stream of HTTP/2 whose window stays closed, and a connection whose
//! peer does not read. The peer may answer pings all the while.
//!
//! On HTTP/2 the task of a stream waits either for its handler or for the window of the peer; the
//! body notes which, and [`StreamExecutor`] ends a task that has waited too long for its peer. The
//! end is a reset of the stream, because no other frame passes bytes that wait.

use std::cell::Cell;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use pin_project_lite::pin_project;
use tokio::time::{Instant, Sleep, sleep};

use crate::telemetry::{Metrics, UntakenEnd};

/// What a stream waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WaitsFor {
    /// The same as before.
    Same,
    /// The next bytes of the answer.
    Handler,
    /// The peer: it has bytes to take.
    Peer,
}

tokio::task_local! {
    static WAITS_FOR: Cell<WaitsFor>;
}

/// Notes that the stream of this task waits for its handler.
pub(super) fn waits_for_handler() {
    note(WaitsFor::Handler);
}

/// Notes that the stream of this task has bytes for its peer. Each call is progress.
pub(super) fn waits_for_peer() {
    note(WaitsFor::Peer);
}

fn note(now: WaitsFor) {
    // The task of a connection of HTTP/1.1 has no such note: its bytes are watched below.
    let _none = WAITS_FOR.try_with(|noted| noted.set(now));
}

/// How long bytes may wait, and the count of what was ended.
#[derive(Clone)]
pub struct Untaken {
    /// How long bytes wait while the peer takes none of them.
    pub max: Duration,
    /// Counts what was ended.
    pub metrics: Metrics,
}

/// Runs the streams of HTTP/2 connections.
#[derive(Clone)]
pub struct StreamExecutor(pub Untaken);

impl<F> hyper::rt::Executor<F> for StreamExecutor
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, stream: F) {
        let taken = UntilUntaken { stream, timer: None, untaken: self.0.clone() };
        tokio::spawn(WAITS_FOR.scope(Cell::new(WaitsFor::Same), taken));
    }
}

pin_project! {
    /// Runs a stream to its end, or until its peer has taken nothing for too long. Dropping it
    /// resets the stream and discards its bytes. An asynchronous function would keep the stream
    /// twice: as its argument and as what it polls.
    struct UntilUntaken<F> {
        #[pin]
        stream: F,
        timer: Option<Pin<Box<Sleep>>>,
        untaken: Untaken,
    }
}

impl<F: Future<Output = ()>> Future for UntilUntaken<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = self.project();
        note(WaitsFor::Same);
        if this.stream.poll(context).is_ready() {
            return Poll::Ready(());
        }
        match WAITS_FOR.with(Cell::get) {
            WaitsFor::Same => {}
            WaitsFor::Handler => *this.timer = None,
            WaitsFor::Peer => restart(this.timer, this.untaken.max),
        }
        match this.timer {
            Some(timer) => ready!(timer.as_mut().poll(context)),
            None => return Poll::Pending,
        }
        this.untaken.metrics.untaken(UntakenEnd::Stream);
        tracing::debug!("a stream is reset: the peer takes nothing of an answer");
        Poll::Ready(())
    }
}

fn restart(timer: &mut Option<Pin<Box<Sleep>>>, time: Duration) {
    match timer {
        Some(timer) => timer.as_mut().reset(Instant::now() + time),
        None => *timer = Some(Box::pin(sleep(time))),
    }
}

/// Watches the bytes that a connection has to write.
pub struct Watch {
    untaken: Untaken,
    timer: Option<Pin<Box<Sleep>>>,
}

impl Watch {
    /// Creates a watch of a connection without such bytes.
    pub fn new(untaken: Untaken) -> Watch {
        Watch { untaken, timer: None }
    }

    /// Notes that the peer has taken some bytes, or all.
    pub fn progress(&mut self) {
        self.timer = None;
    }

    /// Fails if the peer has taken none of the bytes for too long. If not yet, the task is woken
    /// when it has.
    ///
    /// # Errors
    /// `TimedOut`, which ends the connection.
    pub fn poll_waiting(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        let max = self.untaken.max;
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(max)));
        if timer.as_mut().poll(context).is_pending() {
            return Ok(());
        }
        self.untaken.metrics.untaken(UntakenEnd::Connection);
        let text = format!("the peer has taken no byte of an answer for {} s", max.as_secs());
        Err(io::Error::new(io::ErrorKind::TimedOut, text))
    }
}
