//! The units of a draft: the stored records, overlaid with those that the draft writes or removes.

use std::collections::BTreeMap;

use crate::domain::model::name::UnitName;
use crate::domain::model::time::Timestamp;
use crate::domain::model::transition::Write;
use crate::domain::model::unit::Unit;

/// The records of units after a draft.
pub struct UnitDraft<'a> {
    base: &'a BTreeMap<UnitName, Box<Unit>>,
    written: BTreeMap<UnitName, Option<Unit>>,
    /// Number of units after the draft, cached so that a batch of new units does not count them
    /// repeatedly.
    count: usize,
}

impl<'a> UnitDraft<'a> {
    pub fn new(base: &'a BTreeMap<UnitName, Box<Unit>>) -> UnitDraft<'a> {
        UnitDraft { base, written: BTreeMap::new(), count: base.len() }
    }

    pub fn get(&self, name: &UnitName) -> Option<&Unit> {
        match self.written.get(name) {
            Some(unit) => unit.as_ref(),
            None => self.base.get(name).map(|unit| &**unit),
        }
    }

    /// Returns the number of units.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Returns the stored copy of a unit's name. Names that share memory compare without reading
    /// the text.
    pub fn known_name<'n>(&'n self, name: &'n UnitName) -> &'n UnitName {
        let written = || self.written.get_key_value(name).map(|(known, _)| known);
        let known = self.base.get_key_value(name).map(|(known, _)| known);
        known.or_else(written).unwrap_or(name)
    }

    /// Returns the matching units. Visits each unit; compares names only for units that match.
    pub fn matching<'b>(
        &'b self,
        is_wanted: impl Fn(&Unit) -> bool + Copy + 'b,
    ) -> impl Iterator<Item = (&'b UnitName, &'b Unit)> {
        let known = self.base.iter().map(|(name, unit)| (name, &**unit));
        let known = known.filter(move |(_, unit)| is_wanted(unit));
        let kept = known.filter(|(name, _)| !self.written.contains_key(*name));
        let written = self.written.iter().filter_map(|(name, unit)| Some((name, unit.as_ref()?)));
        kept.chain(written.filter(move |(_, unit)| is_wanted(unit)))
    }

    /// Writes or removes a unit.
    pub fn put(&mut self, name: UnitName, unit: Option<Unit>) {
        self.count += usize::from(unit.is_some());
        self.count -= usize::from(self.get(&name).is_some());
        self.written.insert(name, unit);
    }

    /// Changes the record of a unit that exists.
    pub fn change(&mut self, name: &UnitName, change: impl FnOnce(&mut Unit)) {
        let written = self.written.entry(name.clone());
        let unit = written.or_insert_with(|| self.base.get(name).map(|unit| (**unit).clone()));
        unit.as_mut().map(change);
    }

    /// Returns whether the draft writes or removes a unit.
    pub fn contains(&self, name: &UnitName) -> bool {
        self.written.contains_key(name)
    }

    /// Returns the names that the draft writes or removes.
    pub fn names(&self) -> impl Iterator<Item = &UnitName> {
        self.written.keys()
    }

    /// Returns the records that the draft writes.
    pub fn written(&self) -> impl Iterator<Item = &Unit> {
        self.written.values().flatten()
    }

    /// Returns a record that the draft writes.
    pub fn written_mut(&mut self, name: &UnitName) -> Option<&mut Unit> {
        self.written.get_mut(name)?.as_mut()
    }

    /// Returns the records to write and to remove.
    pub fn into_writes(self) -> impl Iterator<Item = Write> {
        self.written.into_iter().map(|(name, mut unit)| {
            if let Some(unit) = &mut unit {
                // Keeps the transition equal to its stored form, which does not have this field.
                unit.last_seen_written = Timestamp::default();
            }
            Write::Unit(name, unit.map(Box::new))
        })
    }
}
