//! Configuration of an application: its order of severity and what silence means.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::limits::{COLLECT_INTERVAL_DEFAULT, LOST_AFTER_DEFAULT};
use super::name::UnitName;
use super::status::{LEVELS, Level};

/// A named order of severity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Policy {
    /// error blocked maintenance waiting active terminated unknown: as Juju since 2023 and ops.
    Juju,
    /// Waiting above maintenance: as the OpenStack charms.
    OpenStack,
    /// Unknown above active: what is not known is not well.
    Strict,
    /// All levels, worst first.
    Custom([Level; LEVELS]),
}

impl Policy {
    /// The name on the wire.
    pub fn name(&self) -> &'static str {
        match self {
            Policy::Juju => "juju",
            Policy::OpenStack => "openstack",
            Policy::Strict => "strict",
            Policy::Custom(_) => "custom",
        }
    }

    /// All levels, worst first.
    pub fn order(&self) -> [Level; LEVELS] {
        use Level::{Active, Blocked, Error, Maintenance, Terminated, Unknown, Waiting};
        match self {
            Policy::Juju => [Error, Blocked, Maintenance, Waiting, Active, Terminated, Unknown],
            Policy::OpenStack => {
                [Error, Blocked, Waiting, Maintenance, Active, Terminated, Unknown]
            }
            Policy::Strict => [Error, Blocked, Maintenance, Waiting, Unknown, Active, Terminated],
            Policy::Custom(order) => *order,
        }
    }

    /// Place of a level in the order: 0 is the worst.
    pub fn severity(&self, level: Level) -> u8 {
        let place = self.order().iter().position(|l| *l == level);
        place.map_or(u8::MAX, |p| p as u8)
    }
}

/// What a lost unit contributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum LostUnits {
    /// Nothing; it is only counted.
    Ignore,
    /// One contribution of level waiting.
    Waiting,
    /// One contribution of level blocked.
    Blocked,
}

impl LostUnits {
    /// The level of the contribution, if there is one.
    pub fn level(self) -> Option<Level> {
        match self {
            LostUnits::Ignore => None,
            LostUnits::Waiting => Some(Level::Waiting),
            LostUnits::Blocked => Some(Level::Blocked),
        }
    }
}

/// Configuration of one application.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Config {
    /// Order of severity.
    pub policy: Policy,
    /// What a lost unit contributes.
    pub lost_units: LostUnits,
    /// For statuses reported without a ttl of their own.
    pub default_ttl: Option<Duration>,
    /// Silence after the last ttl before a unit is lost.
    pub lost_after: Duration,
    /// Levels at which the health service answers SERVING.
    pub serving_levels: Vec<Level>,
    /// Present while leadership is decided outside; the unit is `""` while nobody leads.
    pub external_leader: Option<UnitName>,
    /// How often connected units are asked how they are, unless somebody asks earlier.
    #[serde(default = "collect_interval_default")]
    pub collect_interval: Duration,
    /// Present if what a replaced stateless unit pushed passes to its successor: the label whose
    /// value both have. With `""` any stateless unit of the application is one.
    #[serde(default)]
    pub hand_over: Option<Box<str>>,
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
        }
    }
}

/// A change of configuration: fields that are `Some` are set.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[allow(clippy::option_option)] // set to none is not the same as leave alone
pub struct ConfigPatch {
    /// See [`Config::policy`].
    pub policy: Option<Policy>,
    /// See [`Config::lost_units`].
    pub lost_units: Option<LostUnits>,
    /// See [`Config::default_ttl`].
    pub default_ttl: Option<Option<Duration>>,
    /// See [`Config::lost_after`].
    pub lost_after: Option<Duration>,
    /// See [`Config::serving_levels`].
    pub serving_levels: Option<Vec<Level>>,
    /// See [`Config::external_leader`].
    pub external_leader: Option<Option<UnitName>>,
    /// See [`Config::collect_interval`].
    pub collect_interval: Option<Duration>,
    /// See [`Config::hand_over`].
    pub hand_over: Option<Option<Box<str>>>,
}

impl Config {
    /// This configuration with a change.
    #[must_use]
    pub fn patched(&self, patch: &ConfigPatch) -> Config {
        let ConfigPatch {
            policy,
            lost_units,
            default_ttl,
            lost_after,
            serving_levels,
            external_leader,
            collect_interval,
            hand_over,
        } = patch.clone();
        Config {
            policy: policy.unwrap_or_else(|| self.policy.clone()),
            lost_units: lost_units.unwrap_or(self.lost_units),
            default_ttl: default_ttl.unwrap_or(self.default_ttl),
            lost_after: lost_after.unwrap_or(self.lost_after),
            serving_levels: serving_levels.unwrap_or_else(|| self.serving_levels.clone()),
            external_leader: external_leader.unwrap_or_else(|| self.external_leader.clone()),
            collect_interval: collect_interval.unwrap_or(self.collect_interval),
            hand_over: hand_over.unwrap_or_else(|| self.hand_over.clone()),
        }
    }
}
