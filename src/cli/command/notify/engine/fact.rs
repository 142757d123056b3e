//! What the engine knows of an application: the parts of its newest state that rules and messages
//! need.

use std::fmt;
use std::sync::Arc;

use crate::cli::command::notify::hash::short_hash;
use crate::domain::time::Timestamp;
use crate::proto::v1::need::Object;
use crate::proto::v1::{AggregatedStatus, Application, Level, StatusRef};
use crate::service::severity::{Silence, level_of};

/// The name of an application, cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AppRef {
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its name.
    pub application: Arc<str>,
}

impl AppRef {
    /// Returns the name of an application.
    pub fn new(namespace: &str, application: &str) -> AppRef {
        AppRef { namespace: namespace.into(), application: application.into() }
    }
}

impl fmt::Display for AppRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.application)
    }
}

/// Something that an application needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Needed {
    /// Another application, at one of these levels.
    Application(AppRef, Vec<Level>),
    /// Something that is no application, in words.
    Outside(Arc<str>),
}

/// The newest state of an application.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fact {
    /// The application.
    pub subject: AppRef,
    /// Its revision.
    pub revision: u64,
    /// Its level.
    pub level: Level,
    /// The levels in the order of its policy, the worst first.
    pub order: Arc<[Level]>,
    /// Since when it has the level, by the store's clock.
    pub since: Timestamp,
    /// Texts of the winner.
    pub message: String,
    /// Its machine-readable cause.
    pub reason: String,
    /// What a person can do.
    pub action: String,
    /// The rule that chose the winner.
    pub rule: String,
    /// The winning contribution.
    pub winner: StatusRef,
    /// Whether units are stale, lost or uncertain, so that a good level proves nothing.
    pub silent: bool,
    /// Whether planned work covers the winner.
    pub planned: bool,
    /// Whether the winner is acknowledged.
    pub acknowledged: bool,
    /// Whether an acknowledgement that the engine knew of has ended by its time.
    pub acknowledgement_expired: bool,
    /// What it needs.
    pub needs: Vec<Needed>,
}

/// The order of levels of an application without a configuration.
pub const JUJU: [Level; 7] = [
    Level::Error,
    Level::Blocked,
    Level::Maintenance,
    Level::Waiting,
    Level::Active,
    Level::Terminated,
    Level::Unknown,
];

impl Fact {
    /// Takes what the engine needs of an application.
    pub fn of(application: &Application) -> Fact {
        let nothing = AggregatedStatus::default();
        let status = application.status.as_ref().unwrap_or(&nothing);
        let policy = application.config.as_ref().and_then(|config| config.policy.as_ref());
        let order = policy.map(|policy| policy.order().collect::<Vec<_>>()).unwrap_or_default();
        let time = status.since_time.as_ref();
        let millis = time.map_or(0, |time| time.seconds * 1000 + i64::from(time.nanos) / 1_000_000);
        let needs = application.needs.iter().filter_map(|stated| stated.need.as_ref());
        let needs = needs.filter_map(|need| need.object.as_ref());
        Fact {
            subject: AppRef::new(&application.namespace, &application.name),
            revision: application.revision,
            level: level_of(application),
            order: if order.is_empty() { JUJU.into() } else { order.into() },
            since: Timestamp::new(u64::try_from(millis).unwrap_or(0)),
            message: status.message.clone(),
            reason: status.reason.clone(),
            action: status.action.clone(),
            rule: status.rule.clone(),
            winner: status.winner.clone().unwrap_or_default(),
            silent: Silence::of(application).is_any(),
            planned: status.planned,
            acknowledged: status.acknowledged,
            acknowledgement_expired: false,
            needs: needs.map(|object| Needed::of(object, &application.namespace)).collect(),
        }
    }

    /// Whether it is at a level that needs nothing.
    pub fn is_well(&self) -> bool {
        matches!(self.level, Level::Active | Level::Terminated)
    }

    /// Whether a level is at least as severe as another one, by the policy of the application.
    pub fn is_at_least(&self, level: Level, other: Level) -> bool {
        let place = |level| self.order.iter().position(|known| *known == level);
        place(level).is_some_and(|place_of| place(other).is_some_and(|other| place_of <= other))
    }

    /// Returns what a person notices of the state: of two equal ones the second is no news.
    pub fn face(&self) -> Face {
        let StatusRef { unit, component, key, target, .. } = &self.winner;
        Face {
            level: self.level,
            winner: short_hash(&[unit, component, key, target]),
            action: short_hash(&[&self.action]),
        }
    }
}

impl Needed {
    fn of(object: &Object, namespace: &str) -> Needed {
        match object {
            Object::Outside(words) => Needed::Outside(words.as_str().into()),
            Object::Application(need) => {
                let given = Some(need.namespace.as_str()).filter(|given| !given.is_empty());
                let subject = AppRef::new(given.unwrap_or(namespace), &need.application);
                let levels: Vec<Level> = need.levels().collect();
                let levels = if levels.is_empty() { vec![Level::Active] } else { levels };
                Needed::Application(subject, levels)
            }
        }
    }
}

/// What a person notices of a state: level, winner and action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Face {
    /// The level.
    pub level: Level,
    /// A hash of the winner.
    pub winner: u32,
    /// A hash of the action.
    pub action: u32,
}
