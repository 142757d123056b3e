//! Tests of budgets, of bodies on their way, and of what ends when it is not taken.

use std::convert::Infallible;
use std::future::{Future, pending};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::{Buf, Bytes};
use http_body::{Body, Frame};
use hyper::rt::Executor;
use tokio::time::Instant;

use super::untaken::{waits_for_handler, waits_for_peer};
use super::*;
use crate::telemetry::Metrics;

const WAIT: Duration = Duration::from_secs(2);

/// The budgets of a connection, its peer and the server.
struct Budgets([Arc<Budget>; 3]);

impl Budgets {
    fn new(connection: usize, peer: usize, total: usize) -> Budgets {
        let budget = |limit, max| Budget::new(limit, max);
        Budgets([budget("connection", connection), budget("peer", peer), budget("total", total)])
    }

    fn room(&self) -> Arc<Room> {
        let [connection, peer, total] = self.0.clone();
        Room::of_connection(connection, peer, total, WAIT)
    }

    /// Returns the room of another connection and another peer.
    fn other(&self) -> Budgets {
        let [connection, peer, total] = &self.0;
        let own = [connection, peer].map(|budget| Budget::new(budget.limit, budget.max));
        let [connection, peer] = own;
        Budgets([connection, peer, total.clone()])
    }

    fn used(&self) -> [usize; 3] {
        [0, 1, 2].map(|at| self.0[at].used())
    }
}

const MIB: usize = 1 << 20;

#[test]
fn a_refusal_names_the_budget_and_takes_nothing() {
    let budgets = Budgets::new(4 * MIB, 5 * MIB, 16 * MIB);
    let first = Share::take(&budgets.room(), 4 * MIB).unwrap();
    assert_eq!(Share::take(&budgets.room(), MIB).unwrap_err().0.limit, "connection");
    let other =
        Budgets([Budget::new("connection", 4 * MIB), budgets.0[1].clone(), budgets.0[2].clone()]);
    assert_eq!(Share::take(&other.room(), 2 * MIB).unwrap_err().0.limit, "peer");
    assert_eq!(budgets.used(), [4 * MIB; 3]);
    assert_eq!(other.used()[0], 0);
    drop(first);
    assert_eq!(budgets.used(), [0; 3]);
}

#[test]
fn short_answers_have_a_reserve_and_a_single_answer_always_fits() {
    let budgets = Budgets::new(8 * size::CALL, 80 * size::CALL, 80 * size::CALL);
    let room = budgets.room();
    let long = Share::take(&room, 20 * size::CALL).unwrap();
    assert!(Share::take(&room, size::CALL).is_err(), "far above the limit");
    drop(long);
    let held: Vec<_> = (0..20).map_while(|_| Share::take(&room, size::CALL).ok()).collect();
    assert_eq!(held.len(), 9, "an eighth more");
    assert!(!room.is_open());
}

#[test]
fn a_peer_that_uses_little_is_served_when_others_have_filled_the_server() {
    let greedy = Budgets::new(64 * MIB, 64 * MIB, 16 * MIB);
    let _held = Share::take(&greedy.room(), 16 * MIB).unwrap();
    assert_eq!(Share::take(&greedy.room(), MIB).unwrap_err().0.limit, "total");
    let modest = greedy.other();
    let own = Share::take(&modest.room(), MIB).unwrap();
    assert!(modest.room().is_open());
    assert!(Share::take(&modest.room(), MIB).is_err(), "it uses a MiB now");
    // What is above the limit is bounded too.
    let more: Vec<_> =
        (0..20).map_while(|_| Share::take(&greedy.other().room(), MIB).ok()).collect();
    assert_eq!(more.len(), 7);
    drop(own);
}

#[tokio::test(start_paused = true)]
async fn a_call_waits_for_room_and_is_refused_after_a_while() {
    let budgets = Budgets::new(MIB, MIB, MIB);
    let room = budgets.room();
    let first = Share::take(&room, MIB).unwrap();
    let start = Instant::now();
    assert_eq!(Share::wait(&room, MIB).await.unwrap_err().0.limit, "connection");
    assert_eq!(start.elapsed(), WAIT);
    // Each in its turn, as soon as there is room.
    let waiting = (0..10).map(|_| {
        let room = room.clone();
        tokio::spawn(async move {
            let share = Share::wait(&room, MIB).await;
            tokio::time::sleep(Duration::from_millis(100)).await;
            share.is_ok()
        })
    });
    let waiting: Vec<_> = waiting.collect();
    tokio::time::sleep(Duration::from_millis(100)).await;
    drop(first);
    for one in waiting {
        assert!(one.await.unwrap());
    }
    assert_eq!(budgets.used(), [0; 3]);
}

#[tokio::test(start_paused = true)]
async fn few_calls_wait_at_the_same_time() {
    let budgets = Budgets::new(MIB, MIB, MIB);
    let room = budgets.room();
    let _held = Share::take(&room, MIB).unwrap();
    let mut waiting: Vec<_> = (0..300).map(|_| Box::pin(Share::wait(&room, MIB))).collect();
    let mut context = Context::from_waker(Waker::noop());
    let polled = waiting.iter_mut().map(|one| one.as_mut().poll(&mut context).is_ready());
    let refused = polled.filter(|is_refused| *is_refused).count();
    assert!((40..50).contains(&refused), "{refused}");
}

/// A body of these messages; the task never gets another one.
struct Messages(Vec<Bytes>);

impl Body for Messages {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.pop().map(|bytes| Ok(Frame::data(bytes))))
    }
}

fn poll<B: Body + Unpin>(body: &mut B) -> Poll<Option<B::Data>> {
    let polled = Pin::new(body).poll_frame(&mut Context::from_waker(Waker::noop()));
    polled.map(|frame| frame.and_then(Result::ok).and_then(|frame| frame.into_data().ok()))
}

#[test]
fn a_long_answer_counts_until_its_last_byte_is_written() {
    let budgets = Budgets::new(MIB, MIB, MIB);
    let share = Share::take(&budgets.room(), size::CALL).unwrap();
    let long = Bytes::from(vec![7; 100_000]);
    let mut body = AnswerBody::new(Messages(vec![long.clone()]), (), share, false, true);
    let mut parts = Vec::new();
    while let Poll::Ready(Some(part)) = poll(&mut body) {
        parts.push(part);
    }
    drop(body);
    assert!(parts.iter().all(|part| part.remaining() <= 16 << 10));
    // The last byte is only asked for when the window has room for all others.
    assert_eq!(parts.last().unwrap().remaining(), 1);
    let all: Vec<u8> = parts.iter().flat_map(|part| part.chunk().to_vec()).collect();
    assert_eq!(all, long);
    let last = parts.pop();
    drop(parts);
    assert_eq!(budgets.used(), [size::CALL + long.len(); 3]);
    drop(last);
    assert_eq!(budgets.used(), [0; 3]);
}

#[tokio::test]
async fn a_stream_renders_nothing_before_there_is_room() {
    let budgets = Budgets::new(MIB, MIB, MIB);
    let room = budgets.room();
    let share = Share::take(&room, size::CALL).unwrap();
    let messages = Messages(vec![Bytes::from(vec![7; 2000]), Bytes::from_static(b"short")]);
    let mut stream = AnswerBody::new(messages, (), share, true, true);
    assert_eq!(budgets.used(), [0; 3], "a stream has a limit of its own");
    let held = Share::force(&room, 2 * MIB);
    assert!(poll(&mut stream).is_pending());
    drop(held);
    let Poll::Ready(Some(short)) = poll(&mut stream) else { panic!("there is room") };
    assert_eq!((short.chunk(), budgets.used()), (&b"short"[..], [0; 3]));
    let Poll::Ready(Some(long)) = poll(&mut stream) else { panic!("there is room") };
    assert_eq!(budgets.used(), [2000; 3]);
    drop(long);
    assert_eq!(budgets.used(), [0; 3]);
}

/// Runs a stream, and returns the time after which it has ended.
async fn lasts(stream: impl Future<Output = ()> + Send + 'static) -> Option<Duration> {
    let (over, ended) = tokio::sync::oneshot::channel::<()>();
    let untaken = Untaken { max: Duration::from_secs(30), metrics: Metrics::disabled() };
    StreamExecutor(untaken).execute(async move {
        let _over = over;
        stream.await;
    });
    let start = Instant::now();
    let ended = tokio::time::timeout(Duration::from_secs(3600), ended).await;
    ended.is_ok().then(|| start.elapsed())
}

#[tokio::test(start_paused = true)]
async fn a_stream_ends_when_its_peer_takes_nothing_and_not_while_its_handler_works() {
    let seconds = |n| Some(Duration::from_secs(n));
    assert_eq!(
        lasts(async {
            waits_for_peer();
            pending().await
        })
        .await,
        seconds(30)
    );
    assert_eq!(
        lasts(async {
            waits_for_handler();
            pending().await
        })
        .await,
        None
    );
    assert_eq!(lasts(pending()).await, None, "the handler has not answered yet");
    let slow = async {
        for _ in 0..10 {
            waits_for_peer();
            tokio::time::sleep(Duration::from_secs(29)).await;
        }
        pending().await
    };
    assert_eq!(lasts(slow).await, seconds(9 * 29 + 30));
    let silent = async {
        waits_for_peer();
        tokio::time::sleep(Duration::from_secs(29)).await;
        waits_for_handler();
        pending().await
    };
    assert_eq!(lasts(silent).await, None);
}
