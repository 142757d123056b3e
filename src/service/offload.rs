//! Work beside the threads that serve connections: decoding a large request, rendering a large
//! answer.
//!
//! A poll of 30 ms keeps its thread from every socket. While all threads of the runtime are in such
//! polls, no other client is answered. So work that may take longer than a millisecond runs on
//! threads of its own, in a bounded number of places; the rest waits its turn.

use std::future::{Future, pending, poll_fn};
use std::panic::resume_unwind;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::sync::Semaphore;
use tracing::Span;

use crate::telemetry::{Metrics, OffloadedWork};

/// Bytes above which a message is decoded, or an answer rendered, beside the runtime. Fewer bytes
/// take less than a millisecond.
pub const LARGE_BYTES: usize = 64 << 10;

/// Runs long work. Cheap to clone.
#[derive(Clone)]
pub struct Offload {
    places: Arc<Semaphore>,
    metrics: Metrics,
}

impl Offload {
    /// Creates a number of places, at least one.
    pub fn new(places: usize, metrics: Metrics) -> Offload {
        let places = places.clamp(1, Semaphore::MAX_PERMITS);
        Offload { places: Arc::new(Semaphore::new(places)), metrics }
    }

    /// Runs work when a place is free. Work that has begun is finished, even if no caller waits for
    /// it any more; its place is taken until then.
    pub async fn run<T: Send + 'static>(
        &self,
        kind: OffloadedWork,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> T {
        let waiting = self.metrics.offload_waiting();
        let Ok(place) = self.places.clone().acquire_owned().await else {
            // The semaphore is never closed.
            return pending().await;
        };
        drop(waiting);
        self.metrics.offloaded(kind);
        let span = Span::current();
        let done = tokio::task::spawn_blocking(move || {
            let _place = place;
            span.in_scope(work)
        });
        match done.await.map_err(tokio::task::JoinError::try_into_panic) {
            Ok(result) => result,
            Err(Ok(panic)) => resume_unwind(panic),
            // The runtime ends, and this task with it.
            Err(Err(_cancelled)) => pending().await,
        }
    }

    /// Runs a future whose first poll takes long. If it is not ready then, this task goes on with
    /// it.
    pub async fn first_poll<F>(&self, kind: OffloadedWork, future: F) -> F::Output
    where
        F: Future<Output: Send> + Send + 'static,
    {
        let waker = poll_fn(|context| Poll::Ready(context.waker().clone())).await;
        let mut future = Box::pin(future);
        let polled = self.run(kind, move || {
            let polled = future.as_mut().poll(&mut Context::from_waker(&waker));
            (polled, future)
        });
        match polled.await {
            (Poll::Ready(output), _) => output,
            (Poll::Pending, future) => future.await,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use futures_util::FutureExt;

    use super::*;

    fn offload(places: usize) -> Offload {
        Offload::new(places, Metrics::disabled())
    }

    #[tokio::test]
    async fn work_runs_on_another_thread_and_other_tasks_go_on_meanwhile() {
        let offload = offload(1);
        let (free, blocked) = mpsc::channel::<()>();
        let work = offload.run(OffloadedWork::Decode, move || {
            blocked.recv().unwrap();
            thread::current().id()
        });
        // The only thread of the runtime serves the other task.
        let other = async { free.send(()).unwrap() };
        let (worker, ()) = tokio::join!(work, other);
        assert_ne!(worker, thread::current().id());
    }

    #[tokio::test]
    async fn work_beyond_the_places_waits_and_may_be_given_up() {
        let offload = offload(1);
        let (free, blocked) = mpsc::channel::<()>();
        let mut first =
            Box::pin(offload.run(OffloadedWork::Decode, move || blocked.recv().unwrap()));
        assert!(first.as_mut().now_or_never().is_none());
        let mut given_up =
            Box::pin(offload.run(OffloadedWork::Decode, || panic!("it was given up")));
        assert!(given_up.as_mut().now_or_never().is_none());
        drop(given_up);
        // Work that has begun keeps its place, although nothing waits for it.
        drop(first);
        assert_eq!(offload.places.available_permits(), 0);
        free.send(()).unwrap();
        assert_eq!(offload.run(OffloadedWork::Decode, || 7).await, 7);
    }

    #[tokio::test]
    async fn a_future_is_polled_there_once_and_then_here() {
        let here = thread::current().id();
        let mut polls = Vec::new();
        let future = poll_fn(move |context| {
            polls.push(thread::current().id());
            context.waker().wake_by_ref();
            if polls.len() == 2 { Poll::Ready(std::mem::take(&mut polls)) } else { Poll::Pending }
        });
        let polls = offload(1).first_poll(OffloadedWork::Decode, future).await;
        assert!(polls[0] != here && polls[1] == here, "{polls:?}");
    }

    #[tokio::test]
    async fn a_panic_of_the_work_is_one_of_its_caller() {
        let offload = offload(1);
        let work = offload.run(OffloadedWork::Decode, || panic!("planted"));
        let panicked = std::panic::AssertUnwindSafe(work).catch_unwind().await;
        assert!(panicked.is_err());
        assert_eq!(offload.run(OffloadedWork::Decode, || 7).await, 7, "its place is free");
    }
}
