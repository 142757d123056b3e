//! When a wait is over: a pure state machine over events and time.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::cli::level;
use crate::client::Event;
use crate::proto::v1::Level;

/// What is waited for.
#[derive(Debug, Clone)]
pub struct Goal {
    /// The levels that are wanted.
    pub levels: Vec<Level>,
    /// The levels that end the wait as failed.
    pub fail_on: Vec<Level>,
    /// Whether one application is enough.
    pub any: bool,
    /// How long it must hold.
    pub stable_for: Duration,
}

/// What is known of one application.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Its level.
    pub level: Level,
    /// Its message.
    pub message: String,
}

/// Where a wait stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// The goal is met.
    Met,
    /// This application, at a level of `fail_on`, cannot be waited for.
    Unmet(String),
    /// The goal is met until now; at this moment it is met for good.
    Holding(Instant),
    /// Not yet.
    Pending,
}

/// Follows the applications waited for.
#[derive(Debug)]
pub struct Progress {
    goal: Goal,
    seen: BTreeMap<String, Option<Seen>>,
    /// Nothing is judged while what we know may be old.
    current: bool,
    met_since: Option<Instant>,
}

impl Progress {
    /// Begins to wait for these applications, of which nothing is known yet.
    pub fn new(goal: Goal, applications: &[String]) -> Progress {
        Progress {
            goal,
            seen: applications.iter().map(|name| (name.clone(), None)).collect(),
            current: false,
            met_since: None,
        }
    }

    /// Takes an event; true if what is known has changed.
    pub fn take(&mut self, event: &Event, now: Instant) -> bool {
        let before = self.seen.clone();
        match event {
            Event::Upserted(application, _) => {
                let status = application.status.clone().unwrap_or_default();
                let seen = Seen {
                    level: Level::try_from(status.level).unwrap_or(Level::Unknown),
                    message: status.message,
                };
                self.set(&application.name, Some(seen));
            }
            Event::Removed { name, .. } => self.set(name, None),
            Event::Current => self.current = true,
            // Whether it held meanwhile nobody knows.
            Event::Disconnected { .. } => self.current = false,
        }
        if !self.is_met() {
            self.met_since = None;
        } else if self.met_since.is_none() {
            self.met_since = Some(now);
        }
        self.seen != before
    }

    fn set(&mut self, name: &str, seen: Option<Seen>) {
        if let Some(known) = self.seen.get_mut(name) {
            *known = seen;
        }
    }

    /// Where the wait stands at this moment.
    pub fn standing(&self, now: Instant) -> Standing {
        if let Some(since) = self.met_since {
            // Of a moment further away than time goes nothing is to be seen.
            return match since.checked_add(self.goal.stable_for) {
                Some(until) if until <= now => Standing::Met,
                Some(until) => Standing::Holding(until),
                None => Standing::Pending,
            };
        }
        match self.failed() {
            Some(name) if self.current => Standing::Unmet(name),
            _ => Standing::Pending,
        }
    }

    fn is_met(&self) -> bool {
        let reached = |seen: &Option<Seen>| {
            seen.as_ref().is_some_and(|s| self.goal.levels.contains(&s.level))
        };
        self.current
            && if self.goal.any {
                self.seen.values().any(reached)
            } else {
                self.seen.values().all(reached)
            }
    }

    /// With `any` the goal is lost only when no application is left that could reach it.
    fn failed(&self) -> Option<String> {
        let mut failed = self.seen.iter().filter(|(_, seen)| {
            seen.as_ref().is_some_and(|s| self.goal.fail_on.contains(&s.level))
        });
        let first = failed.next()?.0.clone();
        (!self.goal.any || failed.count() + 1 == self.seen.len()).then_some(first)
    }

    /// `web waiting: for db; db not there yet`: what the wait still lacks, or all if nothing.
    pub fn describe(&self) -> String {
        let lacks = |seen: &Option<Seen>| {
            seen.as_ref().is_none_or(|s| !self.goal.levels.contains(&s.level))
        };
        let all = !self.seen.values().any(lacks);
        let words: Vec<String> = self
            .seen
            .iter()
            .filter(|(_, seen)| all || lacks(seen))
            .map(|(name, seen)| describe(name, seen.as_ref()))
            .collect();
        words.join("; ")
    }

    /// One application in words.
    pub fn describe_one(&self, name: &str) -> String {
        describe(name, self.seen.get(name).and_then(Option::as_ref))
    }
}

fn describe(name: &str, seen: Option<&Seen>) -> String {
    match seen {
        None => format!("{name} not there yet"),
        Some(seen) => {
            let word = level::word(seen.level.into());
            match seen.message.as_str() {
                "" => format!("{name} {word}"),
                message => format!("{name} {word}: {message}"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Error;
    use crate::proto::v1::AggregatedStatus;
    use crate::proto::v1::Application;

    fn mk_progress(any: bool, fail_on: &[Level], stable: u64) -> Progress {
        let goal = Goal {
            levels: vec![Level::Active],
            fail_on: fail_on.to_vec(),
            any,
            stable_for: Duration::from_secs(stable),
        };
        Progress::new(goal, &["db".to_string(), "web".to_string()])
    }

    fn mk_upsert(name: &str, level: Level) -> Event {
        let application = Application {
            name: name.into(),
            status: Some(AggregatedStatus {
                level: level.into(),
                message: "so".into(),
                ..AggregatedStatus::default()
            }),
            ..Application::default()
        };
        Event::Upserted(Box::new(application), vec![])
    }

    fn mk_disconnected() -> Event {
        Event::Disconnected {
            error: Error::Unreachable { url: "http://h:1".into(), detail: "gone".into() },
            pause: Duration::ZERO,
        }
    }

    fn take(progress: &mut Progress, now: Instant, events: &[Event]) -> Standing {
        for event in events {
            progress.take(event, now);
        }
        progress.standing(now)
    }

    #[test]
    fn all_must_be_there_and_at_the_level() {
        let (mut progress, now) = (mk_progress(false, &[], 0), Instant::now());
        let events = [mk_upsert("web", Level::Active), Event::Current];
        assert_eq!(take(&mut progress, now, &events), Standing::Pending);
        assert_eq!(progress.describe(), "db not there yet");
        let events = [mk_upsert("db", Level::Waiting)];
        assert_eq!(take(&mut progress, now, &events), Standing::Pending);
        assert_eq!(progress.describe(), "db waiting: so");
        let events = [mk_upsert("db", Level::Active)];
        assert_eq!(take(&mut progress, now, &events), Standing::Met);
    }

    #[test]
    fn of_any_one_is_enough() {
        let (mut progress, now) = (mk_progress(true, &[Level::Error], 0), Instant::now());
        let events = [mk_upsert("web", Level::Error), Event::Current];
        assert_eq!(take(&mut progress, now, &events), Standing::Pending);
        let events = [mk_upsert("db", Level::Active)];
        assert_eq!(take(&mut progress, now, &events), Standing::Met);
        let events = [mk_upsert("db", Level::Error)];
        assert_eq!(take(&mut progress, now, &events), Standing::Unmet("db".into()));
    }

    #[test]
    fn it_must_hold_for_as_long_as_asked() {
        let (mut progress, start) = (mk_progress(true, &[], 5), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        let events = [mk_upsert("web", Level::Active), Event::Current];
        assert_eq!(take(&mut progress, at(0), &events), Standing::Holding(at(5)));
        take(&mut progress, at(3), &[mk_upsert("web", Level::Waiting)]);
        let events = [mk_upsert("web", Level::Active)];
        assert_eq!(take(&mut progress, at(4), &events), Standing::Holding(at(9)));
        assert_eq!(progress.standing(at(9)), Standing::Met);
    }

    #[test]
    fn a_lost_connection_starts_the_holding_anew() {
        let (mut progress, start) = (mk_progress(true, &[], 5), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        take(&mut progress, at(0), &[mk_upsert("web", Level::Active), Event::Current]);
        assert_eq!(take(&mut progress, at(4), &[mk_disconnected()]), Standing::Pending);
        assert_eq!(take(&mut progress, at(8), &[Event::Current]), Standing::Holding(at(13)));
    }

    #[test]
    fn a_level_to_fail_on_ends_it() {
        let (mut progress, now) = (mk_progress(false, &[Level::Blocked], 0), Instant::now());
        let events = [mk_upsert("web", Level::Blocked)];
        assert_eq!(take(&mut progress, now, &events), Standing::Pending);
        assert_eq!(take(&mut progress, now, &[Event::Current]), Standing::Unmet("web".into()));
        assert_eq!(progress.describe_one("web"), "web blocked: so");
    }
}
