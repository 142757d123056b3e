//! What a worker was promised to be told at a certain time, wherever its session is by then.
//!
//! A promise is part of the unit's record, so it outlives sessions and servers. Time makes it due;
//! whoever holds the unit's session then tells the worker, and tells it again in each new session
//! until it is called off.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::app::Unit;
use super::apply::Effect;
use super::command::Rejected;
use super::draft::Draft;
use super::limits::CALLBACKS_PER_UNIT_MAX;
use super::name::{PartName, UnitName};
use super::room::within;
use super::time::Timestamp;

/// What a callback is about: one thing that a component of the unit does.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Topic {
    /// The component.
    pub component: PartName,
    /// What it asks or acts on.
    pub target: Box<str>,
}

/// A promise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Callback {
    /// When the worker is to be told.
    pub at: Timestamp,
    /// The operation it belongs to; `""` if to none.
    pub operation_id: Box<str>,
    /// The time has come.
    pub due: bool,
}

/// The callbacks of one unit.
pub type Callbacks = BTreeMap<Topic, Callback>;

impl Draft<'_> {
    /// Promises a unit to be told at a time; takes the place of what it was promised about the same
    /// topic.
    pub(super) fn call_back(
        &mut self,
        name: &UnitName,
        topic: &Topic,
        at: Timestamp,
        operation_id: &str,
    ) -> Result<Effect, Rejected> {
        self.unit_exists(name)?;
        let mut unit = self.unit(name).cloned().unwrap_or_default();
        let callback = Callback { at, operation_id: operation_id.into(), due: at <= self.now };
        if unit.callbacks.insert(topic.clone(), callback.clone()) == Some(callback) {
            return Ok(Effect::default());
        }
        let what = || format!("callbacks of unit {name}");
        let count = unit.callbacks.len();
        within("callbacks_per_unit_max", CALLBACKS_PER_UNIT_MAX, count, what)?;
        self.put_unit(name.clone(), Some(unit));
        Ok(Effect { changed: true, ..Effect::default() })
    }

    /// What was promised about this topic is not needed any more.
    pub(super) fn call_off(&mut self, name: &UnitName, topic: &Topic) -> Effect {
        let promised = self.unit(name).filter(|unit| unit.callbacks.contains_key(topic));
        let Some(mut unit) = promised.cloned() else {
            return Effect::default();
        };
        unit.callbacks.remove(topic);
        self.put_unit(name.clone(), Some(unit));
        Effect { changed: true, ..Effect::default() }
    }

    /// The time of some promises has come.
    pub(super) fn ring(&mut self, name: &UnitName) {
        let now = self.now;
        let Some(mut unit) = self.unit(name).cloned() else {
            return;
        };
        for callback in unit.callbacks.values_mut().filter(|callback| callback.at <= now) {
            callback.due = true;
        }
        self.put_unit(name.clone(), Some(unit));
    }
}

impl Unit {
    /// When the next promise is due.
    pub(super) fn next_callback(&self) -> Option<Timestamp> {
        let open = self.callbacks.values().filter(|callback| !callback.due);
        open.map(|callback| callback.at).min()
    }

    /// What the worker is to be told now, until it is called off.
    pub fn due_callbacks(&self) -> impl Iterator<Item = (&Topic, &Callback)> {
        self.callbacks.iter().filter(|(_, callback)| callback.due)
    }
}
