//! Which of the many cursors of one stream have something to look at. Each has a waker of its own;
//! that of the stream's task is woken by any of them.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Wake, Waker};

/// Those to look at, in the order in which they were woken; each once.
#[derive(Debug, Default)]
pub struct Ready(Mutex<Queue>);

#[derive(Debug, Default)]
struct Queue {
    woken: VecDeque<Arc<Bell>>,
    task: Option<Waker>,
}

/// Puts one of them into the queue.
#[derive(Debug)]
struct Bell {
    key: u64,
    is_queued: AtomicBool,
    ready: Arc<Ready>,
}

impl Ready {
    /// The waker of one, which is to be looked at from the start.
    pub fn join(self: &Arc<Self>, key: u64) -> Waker {
        let bell = Bell { key, is_queued: AtomicBool::new(false), ready: self.clone() };
        let waker = Waker::from(Arc::new(bell));
        waker.wake_by_ref();
        waker
    }

    /// The next to look at; without one, this task is woken when there is.
    pub fn next(&self, context: &Context<'_>) -> Option<u64> {
        let mut queue = self.locked();
        let Some(bell) = queue.woken.pop_front() else {
            queue.task = Some(context.waker().clone());
            return None;
        };
        // Before the look: what comes after it is another one.
        bell.is_queued.store(false, Ordering::Release);
        Some(bell.key)
    }

    fn locked(&self) -> MutexGuard<'_, Queue> {
        self.0.lock().expect("nothing panics while it is held")
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        if self.is_queued.swap(true, Ordering::AcqRel) {
            return;
        }
        let ready = self.ready.clone();
        let mut queue = ready.locked();
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
    fn each_is_looked_at_once_for_all_that_woke_it() {
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
