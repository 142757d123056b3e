//! Looks at all sets of files again and again. A set on a network that does not answer delays none
//! of the others.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, timeout, timeout_at};

use super::Reload;

/// How often the files are read: a revoked token is refused within this time. Polling also notices
/// the symbolic links that Kubernetes replaces, which notifications of a file system often miss.
pub const PERIOD: Duration = Duration::from_secs(3);

/// How long a look may take before the set counts as stale.
const LOOK_MAX: Duration = Duration::from_secs(2);

/// Reads all values again at each period, and at once when `reload_now` is notified. Passes to
/// `after` how many of them are stale, and whether one has changed. Runs until it is dropped.
pub async fn follow(
    all: Vec<Arc<dyn Reload>>,
    reload_now: Arc<Notify>,
    after: impl Fn(usize, bool),
) {
    let mut looks: Vec<Look> = all.into_iter().map(Look::of).collect();
    loop {
        // Either way the files are read.
        let _elapsed = timeout(PERIOD, reload_now.notified()).await;
        looks.iter_mut().for_each(Look::begin);
        let until = Instant::now() + LOOK_MAX;
        let mut has_changed = false;
        for look in &mut looks {
            has_changed |= look.end(until).await;
        }
        after(looks.iter().filter(|look| look.set.is_stale()).count(), has_changed);
    }
}

/// The looks at one set of files, one at a time.
struct Look {
    set: Arc<dyn Reload>,
    /// Receives whether a new value is in force, at the end of the look under way.
    under_way: Option<oneshot::Receiver<bool>>,
    is_overdue: bool,
}

impl Look {
    fn of(set: Arc<dyn Reload>) -> Look {
        Look { set, under_way: None, is_overdue: false }
    }

    /// Begins a look, unless one is under way.
    fn begin(&mut self) {
        if self.under_way.is_some() {
            return;
        }
        let (done, ended) = oneshot::channel();
        let set = self.set.clone();
        // No thread of the runtime: its end would wait for a file that does not answer.
        let thread = std::thread::Builder::new().name("security-files".to_string());
        let look = move || {
            // The server may have stopped meanwhile.
            let _ = done.send(set.reload());
        };
        match thread.spawn(look) {
            Ok(_detached) => self.under_way = Some(ended),
            Err(error) => tracing::error!(%error, "start the thread that reads security files"),
        }
    }

    /// Waits for the end of the look under way until `until`, or not at all if it is overdue.
    /// Returns whether a new value is in force.
    async fn end(&mut self, until: Instant) -> bool {
        let Some(ended) = &mut self.under_way else { return false };
        let until = if self.is_overdue { Instant::now() } else { until };
        match timeout_at(until, ended).await {
            Ok(has_changed) => {
                (self.under_way, self.is_overdue) = (None, false);
                has_changed.unwrap_or(false)
            }
            Err(_elapsed) if self.is_overdue => false,
            Err(_elapsed) => {
                self.is_overdue = true;
                self.set.overdue(LOOK_MAX);
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc::{Receiver, channel};

    use super::*;
    use crate::sync::lock;

    /// A set whose looks wait for a sign.
    struct Hanging {
        signs: Mutex<Receiver<()>>,
        looks: AtomicUsize,
        overdue: AtomicUsize,
    }

    impl Reload for Hanging {
        fn name(&self) -> &'static str {
            "hanging"
        }

        fn reload(&self) -> bool {
            self.looks.fetch_add(1, Ordering::Relaxed);
            lock(&self.signs).recv().is_ok()
        }

        fn overdue(&self, _: Duration) {
            self.overdue.fetch_add(1, Ordering::Relaxed);
        }

        fn is_stale(&self) -> bool {
            0 < self.overdue.load(Ordering::Relaxed)
        }

        fn age(&self) -> Duration {
            Duration::ZERO
        }
    }

    fn mk_hanging() -> (std::sync::mpsc::Sender<()>, Arc<Hanging>) {
        let (sign, signs) = channel();
        let [looks, overdue] = [0, 0].map(AtomicUsize::new);
        (sign, Arc::new(Hanging { signs: Mutex::new(signs), looks, overdue }))
    }

    #[tokio::test]
    async fn a_set_that_does_not_answer_delays_no_other() {
        let ((first_sign, first), (second_sign, second)) = (mk_hanging(), mk_hanging());
        let (now, round) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (noted, ended) = (seen.clone(), round.clone());
        let sets: Vec<Arc<dyn Reload>> = vec![first.clone(), second.clone()];
        let following = tokio::spawn(follow(sets, now.clone(), move |stale, has_changed| {
            lock(&noted).push((stale, has_changed));
            ended.notify_one();
        }));
        for _ in 0..3 {
            second_sign.send(()).unwrap();
            now.notify_one();
            round.notified().await;
        }
        assert_eq!(*lock(&seen), [(1, true); 3], "the other one is read in each round");
        let count = |count: &AtomicUsize| count.load(Ordering::Relaxed);
        assert_eq!((count(&first.looks), count(&first.overdue)), (1, 1), "one look, one line");
        first_sign.send(()).unwrap();
        while count(&first.looks) == 1 {
            second_sign.send(()).unwrap();
            now.notify_one();
            round.notified().await;
        }
        following.abort();
    }
}
