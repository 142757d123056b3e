//! Notices about the notifier itself: it cannot see, or it has no room for more problems. Each is
//! told once to every receiver, and its end.

use std::time::Duration;

use crate::domain::time::Timestamp;

/// An outage is sent after this.
pub const BLIND_AFTER: Duration = Duration::from_secs(120);
/// The pause after a failure.
const PAUSE: Duration = Duration::from_secs(5);

/// What a notice is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Topic {
    /// The watch has no connection.
    Blind,
    /// Problems are not sent, because too many are open.
    Full,
}

impl Topic {
    /// All topics.
    pub const ALL: [Topic; 2] = [Topic::Blind, Topic::Full];
}

/// A notice to deliver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Notice {
    /// The place of the receiver.
    pub receiver: usize,
    /// What it is about.
    pub topic: Topic,
    /// Whether it begins; otherwise it ends.
    pub begins: bool,
    /// Since when it holds.
    pub since: Timestamp,
}

#[derive(Debug, Clone, Default)]
struct NoticeState {
    told: Option<Timestamp>,
    is_busy: bool,
    /// After a failure.
    again_at: Option<Timestamp>,
    /// When a receiver that forgets needs it again.
    repeat_at: Option<Timestamp>,
}

/// The notices of all receivers.
#[derive(Debug)]
pub struct Notices {
    holds: [Option<Timestamp>; 2],
    sent: Vec<[NoticeState; 2]>,
    /// Receivers that forget what is not sent again.
    repeats: Vec<Option<Duration>>,
}

impl Notices {
    /// Creates the notices of receivers, each with the time after which it forgets.
    pub fn new(repeats: Vec<Option<Duration>>) -> Notices {
        let sent = vec![<[NoticeState; 2]>::default(); repeats.len()];
        Notices { holds: [None; 2], sent, repeats }
    }

    /// Takes whether a topic holds.
    pub fn set(&mut self, topic: Topic, holds: bool, now: Timestamp) {
        let since = &mut self.holds[topic as usize];
        *since = holds.then(|| since.unwrap_or(now));
    }

    /// Returns when [`turn`](Notices::turn) may have something to do.
    pub fn wakes_at(&self) -> Option<Timestamp> {
        let blind = self.holds[Topic::Blind as usize].map(|since| since.after(BLIND_AFTER));
        let is_told = |sent: &[NoticeState; 2]| sent[Topic::Blind as usize].told.is_some();
        let blind = blind.filter(|_| !self.sent.iter().all(is_told));
        let again = self.sent.iter().flatten().filter(|sent| !sent.is_busy);
        let again = again.flat_map(|sent| [sent.again_at, sent.repeat_at]);
        again.flatten().chain(blind).min()
    }

    /// Returns the notices to deliver now. The end of each is given to [`ended`](Notices::ended).
    pub fn turn(&mut self, now: Timestamp) -> Vec<Notice> {
        let mut notices = Vec::new();
        for (receiver, sent) in self.sent.iter_mut().enumerate() {
            for topic in Topic::ALL {
                let sent = &mut sent[topic as usize];
                let held = self.holds[topic as usize];
                let held =
                    held.filter(|since| topic != Topic::Blind || since.after(BLIND_AFTER) <= now);
                let is_due = sent.again_at.is_none_or(|at| at <= now);
                let is_again =
                    sent.again_at.is_some() || sent.repeat_at.is_some_and(|at| at <= now);
                let notice = match (held, sent.told) {
                    (Some(since), None) => Some((true, since)),
                    (Some(_), Some(since)) if is_again => Some((true, since)),
                    (None, Some(since)) => Some((false, since)),
                    _ => None,
                };
                let Some((begins, since)) = notice else { continue };
                if is_due && !sent.is_busy {
                    sent.is_busy = true;
                    notices.push(Notice { receiver, topic, begins, since });
                }
            }
        }
        notices
    }

    /// Takes the end of a delivery.
    pub fn ended(&mut self, notice: Notice, is_delivered: bool, now: Timestamp) {
        let repeat = self.repeats[notice.receiver];
        let sent = &mut self.sent[notice.receiver][notice.topic as usize];
        sent.is_busy = false;
        sent.again_at = (!is_delivered).then(|| now.after(PAUSE));
        let repeat = repeat.filter(|_| is_delivered && notice.begins);
        sent.repeat_at = repeat.map(|every| now.after(every));
        // A beginning that failed may have arrived, so its end is owed.
        sent.told = (notice.begins || !is_delivered).then_some(notice.since);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::new(seconds * 1000)
    }

    /// Returns what is sent, as `0+` for a beginning to the first receiver.
    fn turn(notices: &mut Notices, now: Timestamp, works: bool) -> String {
        let sent = notices.turn(now);
        for notice in &sent {
            notices.ended(*notice, works, now);
        }
        let words = sent
            .iter()
            .map(|notice| format!("{}{}", notice.receiver, if notice.begins { '+' } else { '-' }));
        words.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn an_outage_is_sent_once_after_two_minutes_and_its_end() {
        let mut notices = Notices::new(vec![None, Some(Duration::from_secs(60))]);
        notices.set(Topic::Blind, true, at(10));
        assert_eq!(turn(&mut notices, at(129), true), "");
        assert_eq!(notices.wakes_at(), Some(at(130)));
        assert_eq!(turn(&mut notices, at(130), true), "0+ 1+");
        assert_eq!(turn(&mut notices, at(140), true), "");
        assert_eq!(turn(&mut notices, at(190), true), "1+", "an alert is sent again");
        notices.set(Topic::Blind, false, at(200));
        assert_eq!(turn(&mut notices, at(200), true), "0- 1-");
        assert_eq!(turn(&mut notices, at(900), true), "");
    }

    #[test]
    fn a_short_outage_is_not_told() {
        let mut notices = Notices::new(vec![None]);
        notices.set(Topic::Blind, true, at(10));
        notices.set(Topic::Blind, false, at(100));
        assert_eq!(turn(&mut notices, at(500), true), "");
    }

    #[test]
    fn a_beginning_that_failed_has_an_end() {
        let mut notices = Notices::new(vec![None]);
        notices.set(Topic::Full, true, at(10));
        assert_eq!(turn(&mut notices, at(10), false), "0+");
        assert_eq!(turn(&mut notices, at(11), true), "");
        notices.set(Topic::Full, false, at(12));
        assert_eq!(turn(&mut notices, at(16), true), "0-");
        assert_eq!(turn(&mut notices, at(60), true), "");
    }
}
