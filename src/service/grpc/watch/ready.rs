//! A queue of the cursors of one stream that may have an event. Each cursor has its own waker, and
//! each of these wakes the task of the stream.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};

use crate::sync::lock;

/// The cursors to poll, in the order in which they were woken; each once.
#[derive(Debug, Default)]
pub struct Ready(Mutex<Queue>);

#[derive(Debug, Default)]
struct Queue {
    woken: VecDeque<Arc<CursorWaker>>,
    task: Option<Waker>,
}

/// Adds one cursor to the queue.
#[derive(Debug)]
struct CursorWaker {
    key: u64,
    is_queued: AtomicBool,
    ready: Arc<Ready>,
}

impl Ready {
    /// Returns the waker of a new cursor. The cursor is queued immediately.
    pub fn join(self: &Arc<Self>, key: u64) -> Waker {
        let cursor = CursorWaker { key, is_queued: AtomicBool::new(false), ready: self.clone() };
        let waker = Waker::from(Arc::new(cursor));
        waker.wake_by_ref();
        waker
    }

    /// Returns the next cursor to poll. If there is none, `context` is woken when there is one.
    pub fn next(&self, context: &Context<'_>) -> Option<u64> {
        let mut queue = lock(&self.0);
        let Some(cursor) = queue.woken.pop_front() else {
            queue.task = Some(context.waker().clone());
            return None;
        };
        // Reset before the poll: a later event queues the cursor again.
        cursor.is_queued.store(false, Ordering::Release);
        Some(cursor.key)
    }
}

impl Wake for CursorWaker {
    fn wake(self: Arc<Self>) {
        if self.is_queued.swap(true, Ordering::AcqRel) {
            return;
        }
        let ready = self.ready.clone();
        let mut queue = lock(&ready.0);
        queue.woken.push_back(self);
        let task = queue.task.take();
        drop(queue);
        if let Some(task) = task {
            task.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_watch_is_polled_once_for_all_its_wakeups() {
        let ready = Arc::new(Ready::default());
        let context = Context::from_waker(Waker::noop());
        let [first, second] = [1, 2].map(|key| ready.join(key));
        first.wake_by_ref();
        assert_eq!(ready.next(&context), Some(1));
        first.wake_by_ref();
        second.wake_by_ref();
        assert_eq!([2, 1].map(Some), [ready.next(&context), ready.next(&context)]);
        assert_eq!(ready.next(&context), None);
    }
}
