//! Collects queued commits into groups. Each group is written with one sync.

use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

/// The maximum length of a group. A longer group delays each of its commits more than it saves.
pub(super) const MAX: usize = 256;

/// The maximum time for which a group waits until it has as many commits as the last one. A sync
/// writes whole pages, so two commits in a group cost the disk as much as one.
pub(super) const WAIT: Duration = Duration::from_micros(300);
/// A group of this length does not wait: it fills a page, and each commit that it waits for wakes
/// the thread.
const ENOUGH: usize = 8;

/// Returns a group of the first commit and what is queued behind it. A group that is shorter than
/// the last one waits for the other callers of that one. A caller on its own does not wait.
pub(super) fn gather<T>(
    first: T,
    queue: &Receiver<T>,
    last_length: usize,
    wait: Duration,
) -> Vec<T> {
    let until = Instant::now() + wait;
    let mut group = vec![first];
    loop {
        group.extend(queue.try_iter().take(MAX - group.len()));
        if last_length.min(ENOUGH) <= group.len() {
            return group;
        }
        match queue.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(next) => group.push(next),
            Err(_) => return group,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{self, Sender};
    use std::thread;

    use super::*;

    /// Longer than any test may take.
    const LONG: Duration = Duration::from_secs(3600);
    const DEADLINE: Duration = Duration::from_secs(20);

    /// A queue with the commits 2, 3, ...
    fn mk_queue(length: usize) -> (Sender<usize>, Receiver<usize>) {
        let (sender, queue) = mpsc::channel();
        for n in 0..length {
            sender.send(n + 2).unwrap();
        }
        (sender, queue)
    }

    /// Gathers in a thread, so that a group that waits too long fails the test.
    fn gathered(queue: Receiver<usize>, last_length: usize, wait: Duration) -> Vec<usize> {
        let (done, group) = mpsc::channel();
        thread::spawn(move || done.send(gather(1, &queue, last_length, wait)));
        group.recv_timeout(DEADLINE).expect("a group that does not wait")
    }

    #[test]
    fn a_group_as_long_as_the_last_one_or_of_eight_does_not_wait() {
        for (queued, last_length) in [(0, 0), (0, 1), (3, 4), (7, 8), (7, 200), (9, 2)] {
            let (_open, queue) = mk_queue(queued);
            let group = gathered(queue, last_length, LONG);
            assert_eq!(group, Vec::from_iter(1..=queued + 1), "after a group of {last_length}");
        }
    }

    #[test]
    fn a_shorter_group_waits_for_the_others() {
        let (sender, queue) = mk_queue(0);
        let (done, group) = mpsc::channel();
        thread::spawn(move || done.send(gather(1, &queue, 3, LONG)));
        sender.send(2).unwrap();
        assert_eq!(group.try_recv(), Err(mpsc::TryRecvError::Empty));
        sender.send(3).unwrap();
        assert_eq!(group.recv_timeout(DEADLINE), Ok(vec![1, 2, 3]));
    }

    #[test]
    fn a_group_ends_when_its_time_or_the_queue_ends() {
        let (_open, queue) = mk_queue(1);
        assert_eq!(gathered(queue, 3, Duration::from_millis(1)), [1, 2]);
        let (open, queue) = mk_queue(1);
        drop(open);
        assert_eq!(gathered(queue, 3, LONG), [1, 2]);
    }

    #[test]
    fn a_group_has_a_maximum_length() {
        let (_open, queue) = mk_queue(2 * MAX);
        assert_eq!(gathered(queue, 0, LONG).len(), MAX);
    }
}
