//! Decides when a wait is over: a pure state machine over events and time.

use std::collections::BTreeMap;
use std::time::Duration;

use bellwether_client::Event;
use jiff::Timestamp;
use tokio::time::Instant;

use crate::cli::render::time;
use crate::cli::{level, span};
use crate::domain::severity::Severity;
use crate::proto::v1::{Application, Level, Unit};
use crate::service::severity;
use crate::service::severity::{Silence, level_of};

/// The most silent units that are named; the rest is counted.
const NAMED_MAX: usize = 3;

/// How long a first answer may be on its way before the server counts as silent.
const SOON: Duration = Duration::from_secs(1);

/// The goal of a wait.
#[derive(Debug, Clone)]
pub struct Goal {
    /// The levels that are wanted.
    pub levels: Vec<Level>,
    /// The levels that end the wait as failed.
    pub fail_on: Vec<Level>,
    /// Whether one application is enough.
    pub any: bool,
    /// Whether a level counts although silent units may have left it.
    pub allow_stale: bool,
    /// How long the goal must hold.
    pub stable_for: Duration,
}

/// The last known state of one application.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen {
    level: Level,
    severity: Severity,
    message: String,
    /// Its silent units, if they make the level unreliable.
    silence: Silence,
    /// Name of each silent unit that the server listed, with the time of its last contact.
    silent: Vec<(String, Option<Timestamp>)>,
}

/// The state of a wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// The goal is met.
    Met,
    /// This application is at a level of `fail_on`.
    Unmet(String),
    /// The goal is met; it counts if it still is at this time.
    Holding(Instant),
    /// The goal is not met yet.
    Pending,
}

/// The progress of a wait over its applications.
#[derive(Debug)]
pub struct Progress {
    goal: Goal,
    seen: BTreeMap<String, Option<Seen>>,
    /// Whether the state is current; while it is not, nothing is judged.
    current: bool,
    /// Whether the server ever sent the whole state.
    reached: bool,
    /// The time of the last contact with the server, or of the start of the wait.
    heard: Instant,
    /// Whether the connection is lost.
    away: bool,
    met_since: Option<Instant>,
}

impl Progress {
    /// Starts a wait for these applications, with nothing known yet.
    pub fn new(goal: Goal, applications: &[String], now: Instant) -> Progress {
        Progress {
            goal,
            seen: applications.iter().map(|name| (name.clone(), None)).collect(),
            current: false,
            reached: false,
            heard: now,
            away: false,
            met_since: None,
        }
    }

    /// Takes an event; returns whether the known state has changed.
    pub fn take(&mut self, event: &Event, now: Instant) -> bool {
        let before = (self.seen.clone(), self.away, self.reached);
        self.away = false;
        match event {
            Event::Upserted(application, _) => {
                self.set(&application.name, Some(Seen::of(application)));
            }
            Event::Removed { name, .. } => self.set(name, None),
            Event::Current => (self.current, self.reached) = (true, true),
            // Whether the goal held meanwhile is unknown.
            Event::Disconnected { .. } => (self.current, self.away) = (false, true),
        }
        if !self.away {
            self.heard = now;
        }
        self.met_since = self.is_met().then(|| self.met_since.unwrap_or(now));
        // The first state arrives in parts; it is printed only once it is complete.
        let may_print = self.reached || self.away;
        may_print && (self.seen.clone(), self.away, self.reached) != before
    }

    fn set(&mut self, name: &str, seen: Option<Seen>) {
        if let Some(known) = self.seen.get_mut(name) {
            *known = seen;
        }
    }

    /// Whether this application meets the goal except for silent units: the caller then asks the
    /// server for their names.
    pub fn lacks_a_word(&self, name: &str) -> bool {
        matches!(self.seen.get(name), Some(Some(seen)) if self.is_doubtful(seen))
    }

    /// Takes the units of an application.
    pub fn take_units(&mut self, name: &str, units: &[Unit]) {
        if let Some(Some(seen)) = self.seen.get_mut(name) {
            let silent = units.iter().filter(|unit| severity::is_silent(unit));
            let heard = |unit: &Unit| time::from_wire(unit.last_seen_time.as_ref());
            seen.silent = silent.map(|unit| (unit.name.clone(), heard(unit))).collect();
        }
    }

    /// Returns the names of applications that do not exist.
    pub fn absent(&self) -> Vec<String> {
        let absent = self.seen.iter().filter(|(_, seen)| seen.is_none());
        absent.map(|(name, _)| name.clone()).collect()
    }

    /// Whether the server ever sent the whole state.
    pub fn was_reached(&self) -> bool {
        self.reached
    }

    /// Whether the connection to the server is lost.
    pub fn is_away(&self) -> bool {
        self.away
    }

    /// Returns the state of the wait at this time.
    pub fn standing(&self, now: Instant) -> Standing {
        if let Some(since) = self.met_since {
            // A time beyond the range of the clock is never reached.
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

    fn reached_by(&self, seen: &Seen) -> bool {
        self.goal.levels.contains(&seen.level) && !self.is_doubtful(seen)
    }

    /// Whether this would meet the goal, but silent units make it unreliable.
    fn is_doubtful(&self, seen: &Seen) -> bool {
        let is_wanted = self.goal.levels.contains(&seen.level);
        is_wanted && seen.silence.is_any() && !self.goal.allow_stale
    }

    fn is_met(&self) -> bool {
        let reached = |seen: &Option<Seen>| seen.as_ref().is_some_and(|s| self.reached_by(s));
        let mut seen = self.seen.values();
        self.current && if self.goal.any { seen.any(reached) } else { seen.all(reached) }
    }

    /// Returns the worst application at a level of `fail_on`. With `any` the wait fails only when
    /// no application is left that could reach the goal.
    fn failed(&self) -> Option<String> {
        let is_failed = |seen: &Seen| self.goal.fail_on.contains(&seen.level);
        let seen = self.seen.iter().filter_map(|(name, seen)| Some((name, seen.as_ref()?)));
        let failed: Vec<(&String, &Seen)> = seen.filter(|(_, seen)| is_failed(seen)).collect();
        let worst = failed.iter().min_by_key(|(_, seen)| seen.severity)?;
        (!self.goal.any || failed.len() == self.seen.len()).then(|| worst.0.clone())
    }

    /// Returns the applications that the wait still lacks.
    pub fn lacking(&self) -> impl Iterator<Item = &String> {
        let lacks = |seen: &Option<Seen>| seen.as_ref().is_none_or(|s| !self.reached_by(s));
        self.seen.iter().filter(move |(_, seen)| lacks(seen)).map(|(name, _)| name)
    }

    /// Formats `web waiting: for db; db not there yet`: the applications that the wait still lacks,
    /// or all if it lacks none. During an outage: for how long.
    pub fn describe(&self, now: Instant, clock: Timestamp) -> String {
        let silent_for = now.saturating_duration_since(self.heard);
        let unreachable = || format!("server unreachable for {}", span::exact(silent_for));
        if !self.reached && silent_for < SOON && !self.away {
            return "no answer from the server yet".to_string();
        }
        if !self.reached {
            return unreachable();
        }
        let mut named: Vec<&String> = self.lacking().collect();
        if named.is_empty() {
            named.extend(self.seen.keys());
        }
        let words: Vec<_> = named.iter().map(|name| self.describe_one(name, clock)).collect();
        match self.away {
            true => format!("{}; before that: {}", unreachable(), words.join("; ")),
            false => words.join("; "),
        }
    }

    /// Describes one application.
    pub fn describe_one(&self, name: &str, clock: Timestamp) -> String {
        let Some(Some(seen)) = self.seen.get(name) else {
            return format!("{name} not there yet");
        };
        let word = level::word(seen.level.into());
        if self.is_doubtful(seen) {
            return format!("{name} {word}, but {}{}", seen.silence.words(), seen.who(clock));
        }
        match seen.message.as_str() {
            "" => format!("{name} {word}"),
            message => format!("{name} {word}: {message}"),
        }
    }
}

impl Seen {
    fn of(application: &Application) -> Seen {
        let hides = severity::hides(application);
        Seen {
            level: level_of(application),
            severity: severity::of(application),
            message: application.status.clone().unwrap_or_default().message,
            silence: if hides { Silence::of(application) } else { Silence::default() },
            silent: Vec::new(),
        }
    }

    /// Formats ` (a/0, silent for 3s)`: the silent units, if they are known.
    fn who(&self, clock: Timestamp) -> String {
        let word = |(name, heard): &(String, Option<Timestamp>)| match heard {
            Some(at) => format!("{name}, silent for {}", span::exact(time::age(*at, clock))),
            None => name.clone(),
        };
        let mut named: Vec<String> = self.silent.iter().take(NAMED_MAX).map(word).collect();
        if NAMED_MAX < self.silent.len() {
            named.push(format!("and {} more", self.silent.len() - NAMED_MAX));
        }
        if named.is_empty() { String::new() } else { format!(" ({})", named.join("; ")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::v1::{AggregatedStatus, Freshness};
    use bellwether_client::Error;

    fn mk_progress(any: bool, fail_on: &[Level], stable: u64) -> Progress {
        let goal = Goal {
            levels: vec![Level::Active],
            fail_on: fail_on.to_vec(),
            any,
            allow_stale: false,
            stable_for: Duration::from_secs(stable),
        };
        Progress::new(goal, &["db".to_string(), "web".to_string()], Instant::now())
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

    fn describe(progress: &Progress) -> String {
        progress.describe(Instant::now(), Timestamp::UNIX_EPOCH)
    }

    fn mk_stale(name: &str) -> Event {
        let application = Application {
            name: name.into(),
            status: Some(AggregatedStatus {
                level: Level::Active.into(),
                stale_units: 1,
                ..AggregatedStatus::default()
            }),
            ..Application::default()
        };
        Event::Upserted(Box::new(application), vec![])
    }

    #[test]
    fn a_stale_level_counts_only_if_that_is_allowed() {
        let (mut progress, now) = (mk_progress(true, &[], 0), Instant::now());
        let events = [mk_stale("web"), Event::Current];
        assert_eq!(take(&mut progress, now, &events), Standing::Pending);
        assert!(progress.lacks_a_word("web"));
        let unit = Unit {
            name: "web/0".into(),
            freshness: Freshness::Stale.into(),
            last_seen_time: Some(prost_types::Timestamp { seconds: -3, nanos: 0 }),
            ..Unit::default()
        };
        progress.take_units("web", &[unit]);
        let text = progress.describe_one("web", Timestamp::UNIX_EPOCH);
        assert_eq!(text, "web active, but 1 unit stale (web/0, silent for 3s)");
        progress.goal.allow_stale = true;
        assert_eq!(take(&mut progress, now, &[mk_stale("web")]), Standing::Met);
    }

    #[test]
    fn a_server_without_an_answer_is_named_with_the_time_waited() {
        let (mut progress, start) = (mk_progress(true, &[], 0), Instant::now());
        let text = |progress: &Progress, seconds| {
            let now = progress.heard + Duration::from_secs(seconds);
            progress.describe(now, Timestamp::UNIX_EPOCH)
        };
        assert_eq!(text(&progress, 3), "server unreachable for 3s");
        assert!(!progress.was_reached());
        take(&mut progress, start, &[mk_upsert("web", Level::Waiting), Event::Current]);
        assert!(progress.was_reached());
        assert!(progress.take(&mk_disconnected(), start + Duration::from_secs(1)));
        let expected = "server unreachable for 4s; before that: db not there yet; web waiting: so";
        assert_eq!(text(&progress, 4), expected);
    }

    #[test]
    fn all_named_applications_must_exist_at_the_level() {
        let (mut progress, now) = (mk_progress(false, &[], 0), Instant::now());
        let events = [mk_upsert("web", Level::Active), Event::Current];
        assert_eq!(take(&mut progress, now, &events), Standing::Pending);
        assert_eq!(describe(&progress), "db not there yet");
        let events = [mk_upsert("db", Level::Waiting)];
        assert_eq!(take(&mut progress, now, &events), Standing::Pending);
        assert_eq!(describe(&progress), "db waiting: so");
        let events = [mk_upsert("db", Level::Active)];
        assert_eq!(take(&mut progress, now, &events), Standing::Met);
    }

    #[test]
    fn with_any_one_application_is_enough() {
        let (mut progress, now) = (mk_progress(true, &[Level::Error], 0), Instant::now());
        let events = [mk_upsert("web", Level::Error), Event::Current];
        assert_eq!(take(&mut progress, now, &events), Standing::Pending);
        let events = [mk_upsert("db", Level::Active)];
        assert_eq!(take(&mut progress, now, &events), Standing::Met);
        let events = [mk_upsert("db", Level::Error)];
        assert_eq!(take(&mut progress, now, &events), Standing::Unmet("db".into()));
    }

    #[test]
    fn a_level_must_hold_for_the_requested_time() {
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
    fn a_level_to_fail_on_ends_the_wait() {
        let (mut progress, now) = (mk_progress(false, &[Level::Blocked], 0), Instant::now());
        let events = [mk_upsert("web", Level::Blocked)];
        assert_eq!(take(&mut progress, now, &events), Standing::Pending);
        assert_eq!(take(&mut progress, now, &[Event::Current]), Standing::Unmet("web".into()));
        progress.goal.fail_on.push(Level::Waiting);
        let events = [mk_upsert("db", Level::Waiting)];
        assert_eq!(take(&mut progress, now, &events), Standing::Unmet("web".into()));
        assert_eq!(progress.describe_one("web", Timestamp::UNIX_EPOCH), "web blocked: so");
    }
}
