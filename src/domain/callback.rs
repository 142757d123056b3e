//! Callbacks: a worker asks for a notification at a certain time.
//!
//! A callback is part of the unit's record, so it outlives sessions and servers. Once it is due,
//! the replica that holds the unit's session notifies the worker, and notifies it again in each new
//! session until the callback is cancelled.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::app::Unit;
use super::apply::Effect;
use super::command::Rejected;
use super::draft::Draft;
use super::limits::CALLBACKS_PER_UNIT_MAX;
use super::name::{PartName, UnitName};
use super::quota::within;
use super::time::Timestamp;

/// The subject of a callback: one target of a component of the unit.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Topic {
    /// The component.
    pub component: PartName,
    /// The target that the component asks or acts on.
    pub target: Box<str>,
}

/// A callback that a worker requested.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Callback {
    /// When the worker is notified.
    pub at: Timestamp,
    /// The operation of the callback; `""` if there is none.
    pub operation_id: Box<str>,
    /// Whether the time has come.
    pub due: bool,
}

/// The callbacks of one unit.
pub type Callbacks = BTreeMap<Topic, Callback>;

impl Draft<'_> {
    /// Adds a callback for a unit; it replaces an earlier one with the same topic.
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

    /// Cancels the callback with this topic.
    pub(super) fn call_off(&mut self, name: &UnitName, topic: &Topic) -> Effect {
        let promised = self.unit(name).filter(|unit| unit.callbacks.contains_key(topic));
        let Some(mut unit) = promised.cloned() else {
            return Effect::default();
        };
        unit.callbacks.remove(topic);
        self.put_unit(name.clone(), Some(unit));
        Effect { changed: true, ..Effect::default() }
    }

    /// Marks the callbacks whose time has come as due.
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
    /// Returns the time of the next callback that is not due yet.
    pub(super) fn next_callback(&self) -> Option<Timestamp> {
        let open = self.callbacks.values().filter(|callback| !callback.due);
        open.map(|callback| callback.at).min()
    }

    /// Returns the due callbacks: the worker is notified of each until it is cancelled.
    pub fn due_callbacks(&self) -> impl Iterator<Item = (&Topic, &Callback)> {
        self.callbacks.iter().filter(|(_, callback)| callback.due)
    }
}
