//! Tracks writes on their way to a watcher, and how long each of them takes.
//!
//! An event has the newest state of a key, so it also completes all earlier writes to that key.
//! Such a write takes until the watcher receives a newer state; these are counted separately.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

use anyhow::bail;
use hdrhistogram::Histogram;
use tokio::time::Instant;
use tonic::Status;

/// Longest delay that is recorded; a longer one counts as this long.
const DELAY_MICROS_MAX: u64 = 60_000_000;

/// The delays of writes. Only those that were due within the window count.
#[derive(Debug, Clone)]
pub struct Delays {
    /// Microseconds from when a write was due until it was sent: a delay of the load itself.
    pub due_to_sent: Histogram<u64>,
    /// Microseconds from when a write was due until it was acknowledged.
    pub due_to_acknowledged: Histogram<u64>,
    /// Microseconds from when a write was due until the watcher received it.
    pub due_to_seen: Histogram<u64>,
    /// Microseconds from the acknowledgement until the watcher received the write; 0 if it did
    /// before.
    pub acknowledged_to_seen: Histogram<u64>,
    /// Writes that the watcher received before they were acknowledged.
    pub seen_first: u64,
    /// Writes that the watcher received only by the event of a later one.
    pub overtaken: u64,
    /// Failures by their message, warm-up included.
    pub failures: BTreeMap<String, u64>,
}

/// The writes that are not yet both acknowledged and seen, with the delays of all others.
pub struct Pending {
    keys: u64,
    writes: HashMap<u64, Write>,
    /// The unseen writes of each key, the first one first.
    unseen: HashMap<u64, VecDeque<u64>>,
    delays: Delays,
}

struct Write {
    due: Instant,
    counts: bool,
    acknowledged: Option<Instant>,
    seen: Option<Instant>,
}

impl Delays {
    /// Returns empty delays.
    pub fn none() -> anyhow::Result<Delays> {
        let histogram = || Histogram::new_with_bounds(1, DELAY_MICROS_MAX, 3);
        Ok(Delays {
            due_to_sent: histogram()?,
            due_to_acknowledged: histogram()?,
            due_to_seen: histogram()?,
            acknowledged_to_seen: histogram()?,
            seen_first: 0,
            overtaken: 0,
            failures: BTreeMap::new(),
        })
    }

    /// Adds the delays of another round.
    pub fn merge(&mut self, other: &Delays) -> anyhow::Result<()> {
        self.due_to_sent.add(&other.due_to_sent)?;
        self.due_to_acknowledged.add(&other.due_to_acknowledged)?;
        self.due_to_seen.add(&other.due_to_seen)?;
        self.acknowledged_to_seen.add(&other.acknowledged_to_seen)?;
        self.seen_first += other.seen_first;
        self.overtaken += other.overtaken;
        for (failure, count) in &other.failures {
            *self.failures.entry(failure.clone()).or_default() += count;
        }
        Ok(())
    }

    /// Fails if any write failed, with the messages and their counts.
    pub fn check(&self) -> anyhow::Result<()> {
        let count: u64 = self.failures.values().sum();
        if count == 0 {
            return Ok(());
        }
        let said = self.failures.iter().map(|(what, count)| format!("\n  {count} x {what}"));
        bail!("{count} writes failed:{}", said.collect::<String>());
    }
}

impl Pending {
    /// Creates a tracker in which write number n goes to key n modulo `keys`.
    pub fn new(keys: u64) -> anyhow::Result<Pending> {
        let (writes, unseen) = (HashMap::new(), HashMap::new());
        Ok(Pending { keys, writes, unseen, delays: Delays::none()? })
    }

    /// Notes that a write that was due at `due` is sent at `now`.
    pub fn send(&mut self, sequence: u64, due: Instant, now: Instant, counts: bool) {
        let write = Write { due, counts, acknowledged: None, seen: None };
        self.writes.insert(sequence, write);
        self.unseen.entry(sequence % self.keys).or_default().push_back(sequence);
        if counts {
            record(&mut self.delays.due_to_sent, now - due);
        }
    }

    /// Notes that a write is acknowledged.
    pub fn acknowledge(&mut self, sequence: u64, at: Instant) {
        if let Some(write) = self.writes.get_mut(&sequence) {
            write.acknowledged = Some(at);
            self.finish(sequence);
        }
    }

    /// Notes that a write is refused, so that no watcher will receive it.
    pub fn fail(&mut self, sequence: u64, status: &Status) {
        let what = format!("{:?}: {}", status.code(), status.message());
        *self.delays.failures.entry(what).or_default() += 1;
        self.writes.remove(&sequence);
        let unseen = self.unseen.entry(sequence % self.keys).or_default();
        unseen.retain(|waiting| *waiting != sequence);
    }

    /// Notes that the watcher received a write, and with it all earlier ones to the same key.
    pub fn see(&mut self, sequence: u64, at: Instant) {
        let unseen = self.unseen.entry(sequence % self.keys).or_default();
        let seen: Vec<u64> =
            unseen.iter().copied().take_while(|&waiting| waiting <= sequence).collect();
        unseen.drain(..seen.len());
        for answered in seen {
            if let Some(write) = self.writes.get_mut(&answered) {
                write.seen = Some(at);
                self.delays.overtaken += u64::from(write.counts && answered < sequence);
                self.finish(answered);
            }
        }
    }

    /// Returns the number of writes that are not both acknowledged and seen.
    pub fn len(&self) -> usize {
        self.writes.len()
    }

    /// Whether all writes are acknowledged and seen.
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// Returns the measured delays.
    pub fn into_delays(self) -> Delays {
        self.delays
    }

    /// Counts a write that is both acknowledged and seen.
    fn finish(&mut self, sequence: u64) {
        let Some(write) = self.writes.get(&sequence) else { return };
        let (Some(acknowledged), Some(seen)) = (write.acknowledged, write.seen) else { return };
        if write.counts {
            let (due, delays) = (write.due, &mut self.delays);
            record(&mut delays.due_to_acknowledged, acknowledged - due);
            record(&mut delays.due_to_seen, seen - due);
            record(&mut delays.acknowledged_to_seen, seen.saturating_duration_since(acknowledged));
            delays.seen_first += u64::from(seen < acknowledged);
        }
        self.writes.remove(&sequence);
    }
}

fn record(histogram: &mut Histogram<u64>, delay: Duration) {
    histogram.saturating_record(delay.as_micros() as u64);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a tracker of ten keys; a write each millisecond, sent when due.
    fn pending(sequences: &[u64]) -> (Pending, impl Fn(u64) -> Instant) {
        let start = Instant::now();
        let at = move |millis| start + Duration::from_millis(millis);
        let mut pending = Pending::new(10).unwrap();
        for &sequence in sequences {
            pending.send(sequence, at(sequence), at(sequence), true);
        }
        (pending, at)
    }

    fn millis(histogram: &Histogram<u64>) -> Vec<u64> {
        histogram.iter_recorded().map(|v| (v.value_iterated_to() + 500) / 1000).collect()
    }

    #[test]
    fn a_write_counts_when_it_is_acknowledged_and_seen_in_either_order() {
        let (mut pending, at) = pending(&[1, 2]);
        pending.acknowledge(1, at(4));
        pending.see(2, at(10));
        assert_eq!(pending.len(), 2);
        pending.see(1, at(9));
        pending.acknowledge(2, at(22));
        assert!(pending.is_empty());
        let delays = pending.into_delays();
        assert_eq!(millis(&delays.due_to_acknowledged), [3, 20]);
        assert_eq!(millis(&delays.due_to_seen), [8]);
        assert_eq!(millis(&delays.acknowledged_to_seen), [0, 5]);
        assert_eq!((delays.seen_first, delays.overtaken), (1, 0));
    }

    #[test]
    fn a_later_event_of_the_same_key_answers_earlier_writes_which_are_counted_apart() {
        let (mut pending, at) = pending(&[1, 11, 12, 21]);
        for sequence in [1, 11, 12, 21] {
            pending.acknowledge(sequence, at(sequence));
        }
        pending.see(11, at(30));
        assert_eq!(pending.len(), 2, "12 is another key, 21 is later");
        // Late, and already seen by a later write.
        pending.see(1, at(40));
        pending.see(12, at(50));
        pending.see(21, at(50));
        assert!(pending.is_empty());
        let delays = pending.into_delays();
        assert_eq!(delays.overtaken, 1);
        assert_eq!(millis(&delays.due_to_seen), [19, 29, 38]);
    }

    #[test]
    fn warm_up_and_what_others_wrote_do_not_count() {
        let (mut pending, at) = pending(&[]);
        pending.send(3, at(0), at(1), false);
        pending.see(3, at(2));
        pending.acknowledge(3, at(3));
        pending.see(4, at(4));
        assert!(pending.is_empty());
        let delays = pending.into_delays();
        assert_eq!(delays.due_to_seen.len() + delays.due_to_sent.len(), 0);
        assert_eq!(delays.seen_first, 0);
    }

    #[test]
    fn a_failed_write_ends_the_wait_and_is_counted() {
        let (mut pending, at) = pending(&[1, 11]);
        pending.fail(1, &Status::unavailable("draining"));
        pending.acknowledge(11, at(12));
        pending.see(11, at(13));
        assert!(pending.is_empty());
        let delays = pending.into_delays();
        assert_eq!(delays.overtaken, 0);
        let mut total = Delays::none().unwrap();
        total.merge(&delays).unwrap();
        total.merge(&delays).unwrap();
        let error = total.check().unwrap_err().to_string();
        assert_eq!(error, "2 writes failed:\n  2 x Unavailable: draining");
    }
}
