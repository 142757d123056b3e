//! Which components of a unit stand still, as its worker is told in its session.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::domain::fault::{Fault, FaultKey};
use crate::domain::name::PartName;
use crate::domain::revision::Revision;

/// The faults that hold components, and what the worker was told of them.
#[derive(Default)]
pub(super) struct Holds {
    /// Everything up to here is known.
    revision: Revision,
    /// By fault, as of the last that was heard of it; `None`: it holds nothing, which matters until
    /// the first time that all of them are known.
    faults: BTreeMap<Arc<FaultKey>, Option<Arc<Fault>>>,
    told: BTreeMap<PartName, Held>,
    /// Why components were let go that the worker still believes held.
    reasons: BTreeMap<PartName, &'static str>,
}

/// What became of a fault.
pub(super) struct Moved {
    pub(super) key: Arc<FaultKey>,
    /// `None`: it is over.
    pub(super) fault: Option<Arc<Fault>>,
    /// Why its component was let go, if somebody said so.
    pub(super) reason: Option<&'static str>,
}

/// What holds a component.
type Held = (Arc<FaultKey>, Arc<Fault>);

/// What the worker is to be told.
pub(super) enum Word {
    Held(Arc<FaultKey>, Arc<Fault>),
    Released(PartName, &'static str),
}

/// Why a component was let go, unless somebody said so.
const RESOLVED: &str = "Resolved";

impl Holds {
    /// All faults of the unit that hold, as of a revision. What was heard of later ones stays.
    pub(super) fn set(
        &mut self,
        revision: Revision,
        holding: impl Iterator<Item = (Arc<FaultKey>, Arc<Fault>)>,
    ) {
        if self.revision <= revision {
            self.faults.clear();
        }
        for (key, fault) in holding {
            self.faults.entry(key).or_insert(Some(fault));
        }
        self.faults.retain(|_, fault| fault.is_some());
        self.revision = self.revision.max(revision);
    }

    /// What became of faults at a revision, each with why it holds no longer if somebody said so.
    pub(super) fn note(&mut self, revision: Revision, changes: Vec<Moved>) {
        if revision <= self.revision {
            return;
        }
        self.revision = revision;
        for Moved { key, fault, reason } in changes {
            let fault = fault.filter(|fault| fault.held_since.is_some());
            if fault.is_none()
                && let Some(reason) = reason
            {
                self.reasons.insert(key.component.clone(), reason);
            }
            self.faults.insert(key, fault);
        }
    }

    /// As of now the worker knows.
    pub(super) fn all_told(&mut self) -> Vec<Held> {
        self.told = self.held();
        self.told.values().cloned().collect()
    }

    /// The next thing that the worker does not know.
    pub(super) fn next(&mut self) -> Option<Word> {
        let held = self.held();
        if let Some(component) = self.told.keys().find(|told| !held.contains_key(*told)).cloned() {
            self.told.remove(&component);
            let reason = self.reasons.remove(&component).unwrap_or(RESOLVED);
            return Some(Word::Released(component, reason));
        }
        let is_new = |(component, _): &(&PartName, &Held)| !self.told.contains_key(*component);
        let (component, (key, fault)) = held.iter().find(is_new)?;
        self.reasons.remove(component);
        self.told.insert(component.clone(), (key.clone(), fault.clone()));
        Some(Word::Held(key.clone(), fault.clone()))
    }

    /// Each component that is held, by what has held it longest.
    fn held(&self) -> BTreeMap<PartName, Held> {
        let mut held: BTreeMap<PartName, Held> = BTreeMap::new();
        for (key, fault) in self.faults.iter().filter_map(|(k, f)| Some((k, f.as_ref()?))) {
            let first = held.get(&key.component).map(|(_, first)| first.held_since);
            if first.is_none_or(|first| fault.held_since < first) {
                held.insert(key.component.clone(), (key.clone(), fault.clone()));
            }
        }
        held
    }
}
