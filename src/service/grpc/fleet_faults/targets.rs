//! Open errors grouped by their target, over the applications of a caller.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use crate::domain::classify::finding::Class;
use crate::domain::fault::{Fault, FaultKey};
use crate::domain::name::{AppName, UnitName};
use crate::domain::time::Timestamp;

/// Targets that one answer groups: as many things as a fleet of 100,000 applications may depend on.
/// They take some 30 MB.
pub const TARGETS_MAX: usize = 65_536;

/// Applications that a row names.
const NAMED_MAX: usize = 8;

/// There are more than [`TARGETS_MAX`] targets.
#[derive(Debug, PartialEq, Eq)]
pub struct TooManyTargets;

/// The open errors with one target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Number of errors.
    pub faults: usize,
    /// Number of units.
    pub units: usize,
    /// Their classes.
    pub classes: BTreeSet<Class>,
    /// First report of the oldest one.
    pub first: Timestamp,
    /// Last report of any.
    pub last: Timestamp,
}

/// Groups the faults of one application, given in the order of their keys.
pub fn seen<'f>(
    faults: impl Iterator<Item = (&'f FaultKey, &'f Fault)>,
) -> BTreeMap<Arc<str>, Seen> {
    // Faults are ordered by unit first, so another unit than the last one is a new one.
    let mut last_units: HashMap<&str, &UnitName> = HashMap::new();
    let mut all: BTreeMap<Arc<str>, Seen> = BTreeMap::new();
    for (key, fault) in faults {
        let is_new = last_units.insert(&key.target, &key.unit) != Some(&key.unit);
        let one = Seen {
            faults: 1,
            units: usize::from(is_new),
            classes: BTreeSet::from([fault.class()]),
            first: fault.first,
            last: fault.last,
        };
        match all.get_mut(&key.target) {
            Some(known) => known.add(one),
            None => drop(all.insert(key.target.clone(), one)),
        }
    }
    all
}

impl Seen {
    fn add(&mut self, other: Seen) {
        self.faults += other.faults;
        self.units += other.units;
        self.classes.extend(other.classes);
        self.first = self.first.min(other.first);
        self.last = self.last.max(other.last);
    }
}

/// A target, and who has open errors with it.
#[derive(Debug, Clone)]
pub struct Target {
    /// Its name; empty for errors that name none.
    pub name: Arc<str>,
    /// The errors of all applications.
    pub seen: Seen,
    /// Number of applications.
    pub applications: usize,
    /// The first of these by name.
    pub named: Vec<AppName>,
}

/// The place of a target in the list: that with the most units is first, then that with the most
/// applications, then the names decide.
pub type Place = (Reverse<usize>, Reverse<usize>, Arc<str>);

impl Target {
    /// Returns its place.
    pub fn place(&self) -> Place {
        (Reverse(self.seen.units), Reverse(self.applications), self.name.clone())
    }
}

/// The targets of some applications.
#[derive(Debug, Default)]
pub struct Targets(HashMap<Arc<str>, Target>);

impl Targets {
    /// Adds what one application has. Applications are added by name.
    ///
    /// # Errors
    /// If there are too many targets.
    pub fn add(
        &mut self,
        app: &AppName,
        seen: BTreeMap<Arc<str>, Seen>,
    ) -> Result<(), TooManyTargets> {
        for (name, seen) in seen {
            if let Some(known) = self.0.get_mut(&name) {
                known.seen.add(seen);
                known.applications += 1;
                if known.named.len() < NAMED_MAX {
                    known.named.push(app.clone());
                }
                continue;
            }
            if TARGETS_MAX <= self.0.len() {
                return Err(TooManyTargets);
            }
            let named = vec![app.clone()];
            self.0.insert(name.clone(), Target { name, seen, applications: 1, named });
        }
        Ok(())
    }

    /// Returns up to `count_max` targets after a place, in order.
    pub fn page(self, after: Option<&Place>, count_max: usize) -> Vec<Target> {
        let is_next = |target: &Target| after.is_none_or(|after| *after < target.place());
        let mut page: Vec<Target> = self.0.into_values().filter(is_next).collect();
        page.sort_by_cached_key(Target::place);
        page.truncate(count_max);
        page
    }
}
