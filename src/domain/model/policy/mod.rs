//! The configuration of an application: order of severity, silence, latches and damping.

pub(in crate::domain) mod changes;

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use crate::domain::level::{LEVELS, Level};
use crate::domain::model::limits::{
    CALM_AFTER_DEFAULT, COLLECT_INTERVAL_DEFAULT, LEASE_DURATION_DEFAULT, LOST_AFTER_DEFAULT,
    REPLACED_AFTER_DEFAULT,
};
use crate::domain::model::name::{PartName, UnitName};
use crate::domain::model::quorum::Quorum;
use crate::domain::model::status::{Kind, StatusKey};
use crate::domain::word::worded;

/// A named order of severity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Policy {
    /// error blocked maintenance waiting active terminated unknown: as Juju since 2023 and ops.
    Juju,
    /// Waiting above maintenance: as the OpenStack charms.
    OpenStack,
    /// Unknown above active: an unknown level is not a good one.
    Strict,
    /// All levels, worst first.
    Custom(#[serde(deserialize_with = "completed")] [Level; LEVELS]),
}

/// The order of [`Policy::Juju`].
const JUJU: [Level; LEVELS] = [
    Level::Error,
    Level::Blocked,
    Level::Maintenance,
    Level::Waiting,
    Level::Active,
    Level::Terminated,
    Level::Unknown,
];

/// Reads a custom order. A record from before a level does not name it: the level then follows the
/// one that it follows in Juju's order.
fn completed<'de, D: Deserializer<'de>>(record: D) -> Result<[Level; LEVELS], D::Error> {
    let mut order = Vec::<Level>::deserialize(record)?;
    for (n, level) in JUJU.iter().enumerate() {
        if !order.contains(level) {
            let before = n.checked_sub(1).map(|before| JUJU[before]);
            let place = order.iter().position(|known| Some(*known) == before);
            order.insert(place.map_or(0, |place| place + 1), *level);
        }
    }
    let named = order.len();
    order
        .try_into()
        .map_err(|_| D::Error::custom(format!("{named} levels in an order of {LEVELS}")))
}

impl Policy {
    /// Returns the name on the wire.
    pub fn name(&self) -> &'static str {
        match self {
            Policy::Juju => "juju",
            Policy::OpenStack => "openstack",
            Policy::Strict => "strict",
            Policy::Custom(_) => "custom",
        }
    }

    /// Returns all levels, worst first.
    pub fn order(&self) -> [Level; LEVELS] {
        use Level::{Active, Blocked, Error, Maintenance, Terminated, Unknown, Waiting};
        match self {
            Policy::Juju => JUJU,
            Policy::OpenStack => {
                [Error, Blocked, Waiting, Maintenance, Active, Terminated, Unknown]
            }
            Policy::Strict => [Error, Blocked, Maintenance, Waiting, Unknown, Active, Terminated],
            Policy::Custom(order) => *order,
        }
    }

    /// Returns whether a level is more severe than active.
    pub fn is_bad(&self, level: Level) -> bool {
        self.severity(level) < self.severity(Level::Active)
    }

    /// Returns the position as which a contribution under planned work counts at worst: that of
    /// maintenance. An order with maintenance behind active has 0, so that planned work changes no
    /// level: it would make the application active.
    pub(in crate::domain) fn severity_of_planned(&self) -> u8 {
        match self.is_bad(Level::Maintenance) {
            true => self.severity(Level::Maintenance),
            false => 0,
        }
    }

    /// Returns the position of a level in the order: 0 is the worst.
    pub fn severity(&self, level: Level) -> u8 {
        let place = self.order().iter().position(|l| *l == level);
        place.map_or(u8::MAX, |p| p as u8)
    }
}

worded! {
    /// The contribution of a lost unit.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    pub enum LostUnits {
        /// No contribution; the unit is only counted.
        Ignore = "ignore",
        /// One contribution of level waiting.
        Waiting = "waiting",
        /// One contribution of level blocked.
        Blocked = "blocked",
    }
}

impl LostUnits {
    /// Returns the level of the contribution, if there is one.
    pub fn level(self) -> Option<Level> {
        match self {
            LostUnits::Ignore => None,
            LostUnits::Waiting => Some(Level::Waiting),
            LostUnits::Blocked => Some(Level::Blocked),
        }
    }
}

/// The components that a setting covers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Scope {
    /// Every component.
    All,
    /// One component; `""` covers the statuses of units as a whole.
    Component(PartName),
}

impl Scope {
    fn has(&self, component: &PartName) -> bool {
        match self {
            Scope::All => true,
            Scope::Component(own) => own == component,
        }
    }
}

/// A latch: a bad pull status stays visible until enough good ones came in a row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Latch {
    /// The components.
    pub scope: Scope,
    /// Number of good results needed; see [`GOOD_COUNT`](crate::domain::model::limits::GOOD_COUNT).
    pub good_count: u32,
}

/// The damping of flapping statuses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Damping {
    /// The components; empty disables damping.
    pub scopes: Vec<Scope>,
    /// Flapping starts above this value, in percent.
    pub start_percent: u32,
    /// Flapping continues above this value, in percent.
    pub stop_percent: u32,
    /// Flapping ends when the level has not changed for this long.
    pub calm_after: Duration,
}

impl Default for Damping {
    fn default() -> Damping {
        Damping {
            scopes: Vec::new(),
            start_percent: 30,
            stop_percent: 25,
            calm_after: CALM_AFTER_DEFAULT,
        }
    }
}

/// The configuration of one application.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Config {
    /// The order of severity.
    pub policy: Policy,
    /// The contribution of a lost unit.
    pub lost_units: LostUnits,
    /// The ttl of statuses reported without one.
    pub default_ttl: Option<Duration>,
    /// Silence after the last ttl before a unit is lost.
    pub lost_after: Duration,
    /// Levels at which the health service answers SERVING.
    pub serving_levels: Vec<Level>,
    /// Present if leadership is decided outside; the unit is `""` if no unit leads.
    pub external_leader: Option<UnitName>,
    /// Interval between pulls of connected units, unless a collection is requested earlier.
    #[serde(default = "collect_interval_default")]
    pub collect_interval: Duration,
    /// Present if the pushed statuses of a replaced stateless unit pass to its successor. The value
    /// is the label whose value both units share; with `""` any stateless unit of the application
    /// is a successor.
    #[serde(default)]
    pub hand_over: Option<Box<str>>,
    /// The latches; one that names its component has priority over the one for all.
    #[serde(default)]
    pub latches: Vec<Latch>,
    /// The damped components and the thresholds.
    #[serde(default)]
    pub damping: Damping,
    /// Length of the lease of a leader, unless its claim gives one.
    #[serde(default = "lease_duration_default")]
    pub lease_duration: Duration,
    /// Whether the leader's status of the application ends with its lease.
    #[serde(default)]
    pub drop_leader_status: bool,
    /// How long a stateless unit stays lost before it is removed, once as many successors are
    /// fresh; zero: it is never removed.
    #[serde(default = "replaced_after_default")]
    pub replaced_after: Duration,
    /// How many active units are enough; `None`: each unit may decide. Not written then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quorum: Option<Quorum>,
}

fn replaced_after_default() -> Duration {
    REPLACED_AFTER_DEFAULT
}

fn lease_duration_default() -> Duration {
    LEASE_DURATION_DEFAULT
}

fn collect_interval_default() -> Duration {
    COLLECT_INTERVAL_DEFAULT
}

impl Default for Config {
    fn default() -> Config {
        Config {
            policy: Policy::Juju,
            lost_units: LostUnits::Waiting,
            default_ttl: None,
            lost_after: LOST_AFTER_DEFAULT,
            serving_levels: vec![Level::Active],
            external_leader: None,
            collect_interval: COLLECT_INTERVAL_DEFAULT,
            hand_over: None,
            latches: Vec::new(),
            damping: Damping::default(),
            lease_duration: LEASE_DURATION_DEFAULT,
            drop_leader_status: false,
            replaced_after: REPLACED_AFTER_DEFAULT,
            quorum: None,
        }
    }
}

static DEFAULT: LazyLock<Arc<Config>> = LazyLock::new(Arc::default);

/// A change of the configuration: sets the fields that are `Some`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[allow(clippy::option_option)] // `Some(None)` clears, `None` keeps
pub struct ConfigPatch {
    /// The new [`Config::policy`].
    pub policy: Option<Policy>,
    /// The new [`Config::lost_units`].
    pub lost_units: Option<LostUnits>,
    /// The new [`Config::default_ttl`].
    pub default_ttl: Option<Option<Duration>>,
    /// The new [`Config::lost_after`].
    pub lost_after: Option<Duration>,
    /// The new [`Config::serving_levels`].
    pub serving_levels: Option<Vec<Level>>,
    /// The new [`Config::external_leader`].
    pub external_leader: Option<Option<UnitName>>,
    /// The new [`Config::collect_interval`].
    pub collect_interval: Option<Duration>,
    /// The new [`Config::hand_over`].
    pub hand_over: Option<Option<Box<str>>>,
    /// The new [`Config::latches`].
    pub latches: Option<Vec<Latch>>,
    /// The new [`Config::damping`].
    pub damping: Option<Damping>,
    /// The new [`Config::lease_duration`].
    pub lease_duration: Option<Duration>,
    /// The new [`Config::drop_leader_status`].
    pub drop_leader_status: Option<bool>,
    /// The new [`Config::replaced_after`].
    pub replaced_after: Option<Duration>,
    /// The new [`Config::quorum`].
    pub quorum: Option<Option<Quorum>>,
}

impl Config {
    /// Returns the configuration to share. Most applications have the default, and share it with
    /// each other.
    pub fn shared(self) -> Arc<Config> {
        match self == **DEFAULT {
            true => DEFAULT.clone(),
            false => Arc::new(self),
        }
    }

    /// Returns this configuration with a change applied.
    #[must_use]
    pub fn patched(&self, patch: &ConfigPatch) -> Config {
        fn new<T: Clone>(patch: &Option<T>, old: &T) -> T {
            patch.as_ref().unwrap_or(old).clone()
        }
        Config {
            policy: new(&patch.policy, &self.policy),
            lost_units: new(&patch.lost_units, &self.lost_units),
            default_ttl: new(&patch.default_ttl, &self.default_ttl),
            lost_after: new(&patch.lost_after, &self.lost_after),
            serving_levels: new(&patch.serving_levels, &self.serving_levels),
            external_leader: new(&patch.external_leader, &self.external_leader),
            collect_interval: new(&patch.collect_interval, &self.collect_interval),
            hand_over: new(&patch.hand_over, &self.hand_over),
            latches: new(&patch.latches, &self.latches),
            damping: new(&patch.damping, &self.damping),
            lease_duration: new(&patch.lease_duration, &self.lease_duration),
            drop_leader_status: new(&patch.drop_leader_status, &self.drop_leader_status),
            replaced_after: new(&patch.replaced_after, &self.replaced_after),
            quorum: new(&patch.quorum, &self.quorum),
        }
    }

    /// Returns the number of good results in a row that end a bad one of this status, if it is
    /// latched.
    pub fn latch_of(&self, key: &StatusKey) -> Option<u32> {
        let latches = self.latches.iter().filter(|_| key.kind == Kind::Pull);
        let mut found = latches.filter(|latch| latch.scope.has(&key.component));
        let named = found.clone().find(|latch| latch.scope != Scope::All);
        named.or_else(|| found.next()).map(|latch| latch.good_count)
    }

    /// Returns the damping of this status, if it is damped.
    pub fn damping_of(&self, key: &StatusKey) -> Option<&Damping> {
        let mut scopes = self.damping.scopes.iter();
        scopes.any(|scope| scope.has(&key.component)).then_some(&self.damping)
    }
}
