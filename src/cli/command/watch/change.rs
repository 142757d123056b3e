//! The state of applications as a watch printed it last, and the changes since then.

use std::collections::HashMap;

use bellwether_client::Event;
use jiff::Timestamp;

use crate::cli::level;
use crate::cli::render::paint::Paint;
use crate::cli::render::status::application_message;
use crate::cli::render::{Screen, one_line, time};
use crate::proto::v1::{AggregatedStatus, Application, Level};
use crate::service::severity::level_of;

/// Level and message of each application as printed last.
#[derive(Debug, Default)]
pub struct KnownLevels(HashMap<(String, String), (Level, String)>);

/// A change of an application.
#[derive(Debug, Clone)]
pub struct LevelChange {
    /// Namespace and name of the application.
    pub name: (String, String),
    time: Timestamp,
    /// The revision of the application; 0 if it is deleted.
    revision: u64,
    /// Level and message before the change, if known.
    before: Option<(Level, String)>,
    /// Level and message after the change; absent if the application is deleted.
    now: Option<(Level, String)>,
    /// The application after the change.
    pub application: Option<Box<Application>>,
}

impl KnownLevels {
    /// Takes an event; returns `None` for one without an application.
    pub fn take(&mut self, event: &Event) -> Option<LevelChange> {
        match event {
            Event::Upserted(application, _) => Some(self.upsert(application)),
            Event::Removed { namespace, name } => {
                let (name, time) = ((namespace.clone(), name.clone()), Timestamp::now());
                let before = self.0.remove(&name);
                Some(LevelChange { name, time, revision: 0, before, now: None, application: None })
            }
            Event::Current | Event::Disconnected { .. } => None,
        }
    }

    fn upsert(&mut self, application: &Application) -> LevelChange {
        let name = (application.namespace.clone(), application.name.clone());
        let now = (level_of(application), application_message(application, None));
        let before = self.0.insert(name.clone(), now.clone());
        LevelChange {
            name,
            time: time::from_wire(application.update_time.as_ref()).unwrap_or_default(),
            revision: application.revision,
            before,
            now: Some(now),
            application: Some(Box::new(application.clone())),
        }
    }

    /// Restores what was printed of an application.
    pub fn restore(&mut self, name: (String, String), level: Level, message: String) {
        self.0.insert(name, (level, message));
    }

    /// Returns what was printed of an application.
    pub fn of(&self, namespace: &str, name: &str) -> Option<&(Level, String)> {
        self.0.get(&(namespace.to_string(), name.to_string()))
    }
}

impl LevelChange {
    /// Whether level or message has changed.
    pub fn is_news(&self) -> bool {
        self.before != self.now
    }

    /// Merges a later change of the same application; the state before this one stays.
    pub fn merge(&mut self, later: LevelChange) {
        *self = LevelChange { before: self.before.take(), ..later };
    }

    /// Returns the change as environment variables of a command. `because` is the chain from the
    /// application to its first causes.
    pub fn variables(&self, because: &[String]) -> Vec<(&'static str, String)> {
        let word = |level: Level| level::word(level.into()).to_string();
        let (event, level, message) = match &self.now {
            Some((level, message)) => ("upserted", word(*level), one_line(message)),
            None => ("removed", String::new(), String::new()),
        };
        let nothing = AggregatedStatus::default();
        let application = self.application.as_ref();
        let status = application.and_then(|it| it.status.as_ref()).unwrap_or(&nothing);
        let winner = status.winner.clone().unwrap_or_default();
        let since = time::from_wire(status.since_time.as_ref());
        let since = since.map(|since| since.strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
        vec![
            ("BELLWETHER_EVENT", event.to_string()),
            ("BELLWETHER_NAMESPACE", one_line(&self.name.0)),
            ("BELLWETHER_APPLICATION", one_line(&self.name.1)),
            ("BELLWETHER_LEVEL", level),
            ("BELLWETHER_LEVEL_FROM", self.level_before().map(word).unwrap_or_default()),
            ("BELLWETHER_MESSAGE", message),
            ("BELLWETHER_REVISION", self.revision.to_string()),
            ("BELLWETHER_SINCE", since.unwrap_or_default()),
            ("BELLWETHER_REASON", one_line(&status.reason)),
            ("BELLWETHER_ACTION", one_line(&status.action)),
            ("BELLWETHER_RULE", one_line(&status.rule)),
            ("BELLWETHER_UNIT", one_line(&winner.unit)),
            ("BELLWETHER_COMPONENT", one_line(&winner.component)),
            ("BELLWETHER_BECAUSE", because.join("\n")),
            ("BELLWETHER_PLANNED", status.planned.to_string()),
            ("BELLWETHER_ACKNOWLEDGED", status.acknowledged.to_string()),
        ]
    }

    /// Returns the level before, if it has changed.
    pub fn level_before(&self) -> Option<Level> {
        let before = self.before.as_ref().map(|(level, _)| *level)?;
        let now = self.now.as_ref().map(|(level, _)| *level);
        (Some(before) != now).then_some(before)
    }

    /// Formats `04:06:30Z  db  error -> maintenance  db/0: restoring backup`; `None` if neither
    /// level nor message changed. `namespaced` puts the namespace before the name.
    pub fn line(&self, namespaced: bool, screen: Screen) -> Option<String> {
        if !self.is_news() {
            return None;
        }
        let word = |level: Level| level::word(level.into());
        let (level, paint, message) = match &self.now {
            Some((level, message)) => {
                (word(*level), Paint::of_level((*level).into()), message.as_str())
            }
            None => ("gone", Paint::None, ""),
        };
        let level = paint.apply(level, screen.color);
        let level = match self.level_before() {
            Some(before) => format!("{} -> {level}", word(before)),
            None => level,
        };
        let (namespace, name) = &self.name;
        let name = if namespaced { format!("{namespace}/{name}") } else { name.clone() };
        let time = self.time.strftime("%H:%M:%SZ");
        let line = format!("{time}  {}  {level}  {}", one_line(&name), one_line(message));
        Some(format!("{}\n", line.trim_end()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::v1::StatusRef;

    fn mk_event(level: Level, message: &str) -> Event {
        let winner = StatusRef { unit: "db/0".into(), ..StatusRef::default() };
        Event::Upserted(
            Box::new(Application {
                namespace: "prod".into(),
                name: "db".into(),
                update_time: Some(prost_types::Timestamp { seconds: 14_790, nanos: 0 }),
                status: Some(AggregatedStatus {
                    level: level.into(),
                    message: message.into(),
                    winner: Some(winner),
                    ..AggregatedStatus::default()
                }),
                ..Application::default()
            }),
            vec![],
        )
    }

    #[test]
    fn a_line_has_each_change_once() {
        let mut known = KnownLevels::default();
        let mut line = |event: &Event, all: bool| {
            known.take(event).expect("a change").line(all, Screen::PLAIN)
        };
        let first = line(&mk_event(Level::Error, "no disk"), false);
        assert_eq!(first.as_deref(), Some("04:06:30Z  db  error  db/0: no disk\n"));
        assert_eq!(line(&mk_event(Level::Error, "no disk"), false), None);
        let next = line(&mk_event(Level::Maintenance, "restoring\u{1b}[2J 62%"), true);
        let expected = "04:06:30Z  prod/db  error -> maintenance  db/0: restoring [2J 62%\n";
        assert_eq!(next.as_deref(), Some(expected));
        let mut merged = known.take(&mk_event(Level::Blocked, "a")).expect("a change");
        merged.merge(known.take(&mk_event(Level::Active, "")).expect("a change"));
        let variables = merged.variables(&["dns is error".to_string()]);
        let mut values = variables.iter().map(|(_, value)| value.as_str());
        let first: Vec<_> = values.by_ref().take(7).collect();
        assert_eq!(first, ["upserted", "prod", "db", "active", "maintenance", "", "0"]);
        let rest = ["", "", "", "", "db/0", "", "dns is error", "false", "false"];
        assert_eq!(values.collect::<Vec<_>>(), rest);
        let removed = Event::Removed { namespace: "prod".into(), name: "db".into() };
        let gone = known.take(&removed).expect("a change").line(false, Screen::PLAIN);
        assert!(gone.is_some_and(|line| line.ends_with("  db  active -> gone\n")));
    }
}
