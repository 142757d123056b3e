//! Load on open streams: each keeps a number of messages unacknowledged, and sends the next after
//! an acknowledgement. One thread per core, as in `load`.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use anyhow::{Context as _, bail};
use futures_util::Stream;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tonic::transport::{Channel, Endpoint};
use tonic::{Status, Streaming};

use crate::load::{self, Measured, Part, Plan};

/// One message in so many is timed: timing each would cost as much as sending it.
const TIMED_EVERY: u64 = 32;

/// The messages on the streams of one side.
pub trait Exchange: Send + Sync + 'static {
    /// The message that the load sends.
    type Sent: Send + 'static;
    /// The message that the server sends.
    type Told: Send + 'static;

    /// Opens stream number `stream`.
    fn open(
        &self,
        channel: Channel,
        stream: usize,
        messages: Messages<Self>,
    ) -> impl Future<Output = Result<Streaming<Self::Told>, Status>> + Send;

    /// Returns the message that opens a session, if any.
    fn hello(&self, stream: usize) -> Option<Self::Sent>;

    /// Returns message number `seq` of a stream, counted from 1, in the round that starts at
    /// `first`.
    fn message(&self, stream: usize, first: u64, seq: u64) -> Self::Sent;

    /// Returns the number up to which messages are acknowledged. A message of the server without an
    /// acknowledgement is no failure, unless it reports one.
    fn acknowledged(&self, told: Self::Told, before: u64) -> Result<u64, Status>;
}

/// The messages of one stream, limited to a number of unacknowledged ones.
pub struct Messages<E: Exchange + ?Sized> {
    exchange: Arc<E>,
    stream: usize,
    first: u64,
    shared: Arc<Shared>,
    greeted: bool,
}

/// State that sender and reader of one stream share.
struct Shared {
    window: u64,
    sent: AtomicU64,
    acknowledged: AtomicU64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    waker: Option<Waker>,
    timed: std::collections::VecDeque<(u64, Instant)>,
    ended: bool,
}

impl Shared {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<E: Exchange> Stream for Messages<E> {
    type Item = E::Sent;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<E::Sent>> {
        if !std::mem::replace(&mut self.greeted, true)
            && let Some(hello) = self.exchange.hello(self.stream)
        {
            return Poll::Ready(Some(hello));
        }
        let shared = &self.shared;
        let seq = shared.sent.load(Ordering::Relaxed) + 1;
        if shared.window < seq - shared.acknowledged.load(Ordering::Acquire) {
            let mut state = shared.state();
            // An acknowledgement may have arrived between the first check and the lock.
            if shared.window < seq - shared.acknowledged.load(Ordering::Acquire) {
                state.waker = Some(context.waker().clone());
                return if state.ended { Poll::Ready(None) } else { Poll::Pending };
            }
        }
        if seq.is_multiple_of(TIMED_EVERY) {
            let mut state = shared.state();
            if state.ended {
                return Poll::Ready(None);
            }
            state.timed.push_back((seq, Instant::now()));
        }
        shared.sent.store(seq, Ordering::Relaxed);
        Poll::Ready(Some(self.exchange.message(self.stream, self.first, seq)))
    }
}

/// Runs `plan` against the server at `url`, with `streams` on each connection. Dropping the future
/// ends the load.
pub async fn run<E: Exchange>(
    exchange: Arc<E>,
    url: String,
    plan: Plan,
    streams: usize,
    first: u64,
) -> anyhow::Result<Measured> {
    run_at(exchange, Endpoint::from_shared(url)?, plan, streams, first).await
}

/// Runs `plan` against an endpoint, which may have TLS.
pub async fn run_at<E: Exchange>(
    exchange: Arc<E>,
    endpoint: Endpoint,
    plan: Plan,
    streams: usize,
    first: u64,
) -> anyhow::Result<Measured> {
    let endpoint = endpoint.tcp_nodelay(true);
    let share = Share { exchange, endpoint, plan: plan.clone(), streams, first };
    load::on_threads(&plan, move |part| share.clone().run(part)).await
}

/// The share of the load of every thread.
struct Share<E> {
    exchange: Arc<E>,
    endpoint: Endpoint,
    plan: Plan,
    streams: usize,
    first: u64,
}

impl<E> Clone for Share<E> {
    fn clone(&self) -> Share<E> {
        let Share { exchange, endpoint, plan, streams, first } = self;
        let (endpoint, plan) = (endpoint.clone(), plan.clone());
        Share { exchange: exchange.clone(), endpoint, plan, streams: *streams, first: *first }
    }
}

impl<E: Exchange> Share<E> {
    async fn run(self, part: Part) -> anyhow::Result<Measured> {
        let mut open = JoinSet::new();
        for connection in &part.connections {
            let channel = self.endpoint.connect().await.context("connect")?;
            for n in 0..self.streams {
                let stream = connection * self.streams + n;
                let shared = Arc::new(Shared {
                    window: self.plan.in_flight as u64,
                    sent: AtomicU64::new(0),
                    acknowledged: AtomicU64::new(0),
                    state: Mutex::default(),
                });
                let messages = Messages {
                    exchange: self.exchange.clone(),
                    stream,
                    first: self.first,
                    shared: shared.clone(),
                    greeted: false,
                };
                let (exchange, channel) = (self.exchange.clone(), channel.clone());
                open.spawn(async move {
                    let told = exchange.open(channel, stream, messages).await?;
                    Ok::<_, Status>((shared, told))
                });
            }
        }
        let mut opened = Vec::new();
        while let Some(stream) = open.join_next().await {
            opened.push(stream??);
        }
        part.connected.wait().await;
        let opens = Instant::now() + self.plan.warm_up;
        let closes = opens + self.plan.window;
        let mut readers = JoinSet::new();
        for (shared, told) in opened {
            let (exchange, window) = (self.exchange.clone(), self.plan.window);
            readers.spawn(read(exchange, shared, told, opens, closes, window));
        }
        let mut total = Measured::empty(self.plan.window)?;
        while let Some(measured) = readers.join_next().await {
            total.merge(&measured??)?;
        }
        Ok(total)
    }
}

async fn read<E: Exchange>(
    exchange: Arc<E>,
    shared: Arc<Shared>,
    mut told: Streaming<E::Told>,
    opens: Instant,
    closes: Instant,
    window: std::time::Duration,
) -> anyhow::Result<Measured> {
    let mut measured = Measured::empty(window)?;
    loop {
        let message = match tokio::time::timeout_at(closes, told.message()).await {
            Ok(Ok(Some(message))) => message,
            Ok(Ok(None)) => bail!("the stream has ended"),
            Ok(Err(status)) => {
                measured.fail(&status);
                break;
            }
            Err(_over) => break,
        };
        let now = Instant::now();
        let before = shared.acknowledged.load(Ordering::Relaxed);
        let up_to = match exchange.acknowledged(message, before) {
            Ok(up_to) => up_to,
            Err(status) => {
                measured.fail(&status);
                break;
            }
        };
        if up_to <= before {
            continue;
        }
        shared.acknowledged.store(up_to, Ordering::Release);
        let mut state = shared.state();
        if let Some(waker) = state.waker.take() {
            waker.wake();
        }
        while state.timed.front().is_some_and(|(seq, _)| *seq <= up_to) {
            if let Some((_, sent)) = state.timed.pop_front().filter(|_| opens <= now) {
                measured.latencies.saturating_record((now - sent).as_micros() as u64);
            }
        }
        drop(state);
        if opens <= now {
            measured.acknowledged += up_to - before;
        }
    }
    let mut state = shared.state();
    state.ended = true;
    state.waker.take().into_iter().for_each(Waker::wake);
    Ok(measured)
}
