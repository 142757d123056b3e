//! The components of one unit that faults hold, and the messages about them to its worker: one when
//! the first fault holds a component, and one when no fault holds it any more.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::domain::fault::{Fault, FaultKey};
use crate::domain::name::PartName;
use crate::domain::revision::Revision;

use super::message::Outbound;

/// The faults that hold components, and the holds that the worker was sent.
#[derive(Default)]
pub(super) struct Holds {
    /// The revision up to which `faults` has every change.
    revision: Revision,
    /// Whether [`set`](Holds::set) was called. Before that, `faults` has only the changes since the
    /// opening of the session.
    is_complete: bool,
    /// The faults that hold components. `None`: the fault holds none any more. Such an entry is
    /// kept until the first `set`, which may have read an older state of the fault.
    faults: BTreeMap<Arc<FaultKey>, Option<Arc<Fault>>>,
    /// The components that are held according to the messages that the worker was sent.
    sent: BTreeMap<PartName, HeldComponent>,
    /// Why operators released components, for messages that the worker was not sent yet.
    reasons: BTreeMap<PartName, &'static str>,
}

/// A change of a fault.
pub(super) struct FaultChange {
    pub(super) key: Arc<FaultKey>,
    /// The new state; `None`: the fault is over.
    pub(super) fault: Option<Arc<Fault>>,
    /// The answer of the operator that released its component; `None`: no operator did.
    pub(super) reason: Option<&'static str>,
}

/// A fault that holds a component.
type HeldComponent = (Arc<FaultKey>, Arc<Fault>);

/// The reason of a release that no operator caused.
const RESOLVED: &str = "Resolved";

impl Holds {
    /// Sets the faults that hold components of the unit, as read at a revision. Changes that
    /// [`note`](Holds::note) recorded at later revisions remain.
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
        self.is_complete = true;
        self.revision = self.revision.max(revision);
    }

    /// Records the changes of faults at a revision.
    pub(super) fn note(&mut self, revision: Revision, changes: Vec<FaultChange>) {
        if revision <= self.revision {
            return;
        }
        self.revision = revision;
        for FaultChange { key, fault, reason } in changes {
            let fault = fault.filter(|fault| fault.held_since.is_some());
            if fault.is_none()
                && let Some(reason) = reason
            {
                self.reasons.insert(key.component.clone(), reason);
            }
            match fault {
                None if self.is_complete => self.faults.remove(&key),
                fault => self.faults.insert(key, fault),
            };
        }
    }

    /// Returns all holds and marks them as sent.
    pub(super) fn all_sent(&mut self) -> Vec<HeldComponent> {
        self.sent = self.held();
        self.sent.values().cloned().collect()
    }

    /// Returns the next update that the worker was not sent.
    pub(super) fn next<R>(&mut self) -> Option<Outbound<R>> {
        let held = self.held();
        if let Some(component) = self.sent.keys().find(|sent| !held.contains_key(*sent)).cloned() {
            self.sent.remove(&component);
            let reason = self.reasons.remove(&component).unwrap_or(RESOLVED);
            return Some(Outbound::HoldReleased { component, reason });
        }
        let is_new =
            |(component, _): &(&PartName, &HeldComponent)| !self.sent.contains_key(*component);
        let (component, (key, fault)) = held.iter().find(is_new)?;
        self.reasons.remove(component);
        self.sent.insert(component.clone(), (key.clone(), fault.clone()));
        Some(Outbound::Hold { key: key.clone(), fault: fault.clone() })
    }

    /// Returns each held component with the fault that has held it longest.
    fn held(&self) -> BTreeMap<PartName, HeldComponent> {
        let mut held: BTreeMap<PartName, HeldComponent> = BTreeMap::new();
        for (key, fault) in self.faults.iter().filter_map(|(k, f)| Some((k, f.as_ref()?))) {
            let first = held.get(&key.component).map(|(_, first)| first.held_since);
            if first.is_none_or(|first| fault.held_since < first) {
                held.insert(key.component.clone(), (key.clone(), fault.clone()));
            }
        }
        held
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::classify::finding::{ErrorOrigin, Evidence, Hints};
    use crate::domain::classify::{Rules, classify};
    use crate::domain::fault::{NewError, Stage};
    use crate::domain::name::UnitName;
    use crate::domain::time::Timestamp;

    fn mk_key(component: &str, target: &str) -> Arc<FaultKey> {
        let component = PartName::new(component).unwrap();
        let unit = UnitName::new("web/0").unwrap();
        Arc::new(FaultKey { unit, component, target: target.into() })
    }

    fn mk_fault(held_since: Option<u64>) -> Arc<Fault> {
        let evidence = Evidence {
            system: "grpc".into(),
            code: "DATA_LOSS".into(),
            origin: ErrorOrigin::Peer,
            outcome: None,
            domain: "".into(),
            reason: "".into(),
            message: "".into(),
            retry_after: None,
            hints: Hints::default(),
        };
        let error = NewError {
            shortest_wait: None,
            needs: Default::default(),
            finding: classify(&Rules::default(), &evidence),
            evidence,
            internal_detail: Default::default(),
            action: "".into(),
            operation_id: "".into(),
            attempt: 0,
            generation: "".into(),
        };
        let (first, last, since) = Default::default();
        Arc::new(Fault {
            error,
            count: 1,
            attempts: 0,
            attempts_left: 10,
            first,
            last,
            failing_since: None,
            stage: Stage::Quiet,
            stage_ends: None,
            since,
            shown: "".into(),
            retry_time: None,
            ask_time: None,
            incarnation: 0,
            held_since: held_since.map(Timestamp::new),
            while_stopping: false,
            intermittent: None,
            needs: Default::default(),
        })
    }

    fn change(key: &Arc<FaultKey>, fault: Option<Arc<Fault>>) -> Vec<FaultChange> {
        vec![FaultChange { key: key.clone(), fault, reason: None }]
    }

    fn words(holds: &mut Holds) -> Vec<String> {
        std::iter::from_fn(|| holds.next::<()>())
            .map(|word| match word {
                Outbound::Hold { key, .. } => {
                    format!("{} held by {}", key.component.as_str(), key.target)
                }
                Outbound::HoldReleased { component, reason } => {
                    format!("{} released: {reason}", component.as_str())
                }
                other => panic!("{other:?}"),
            })
            .collect()
    }

    #[test]
    fn a_component_is_held_while_anything_holds_it() {
        let (pg, mysql, cache) = (mk_key("db", "pg"), mk_key("db", "mysql"), mk_key("cache", ""));
        let mut holds = Holds::default();
        // A change noted before the complete read may be newer than the read.
        holds.note(Revision(5), change(&cache, None));
        let all = [(cache.clone(), mk_fault(Some(1))), (pg.clone(), mk_fault(Some(2)))];
        holds.set(Revision(4), all.into_iter());
        assert_eq!(holds.all_sent().len(), 1);
        assert!(words(&mut holds).is_empty(), "all of that was sent");
        holds.note(Revision(6), change(&mysql, Some(mk_fault(Some(3)))));
        assert!(words(&mut holds).is_empty(), "the component was held already");
        holds.note(Revision(7), change(&pg, Some(mk_fault(None))));
        assert!(words(&mut holds).is_empty(), "something still holds it");
        let skipped = FaultChange { key: mysql, fault: None, reason: Some("Skip") };
        holds.note(Revision(8), vec![skipped]);
        assert_eq!(words(&mut holds), ["db released: Skip"]);
        holds.note(Revision(8), change(&pg, Some(mk_fault(Some(4)))));
        assert!(words(&mut holds).is_empty(), "that is known already");
        holds.note(Revision(9), change(&pg, Some(mk_fault(Some(4)))));
        assert_eq!(words(&mut holds), ["db held by pg"]);
        holds.set(Revision(12), std::iter::empty());
        assert_eq!(words(&mut holds), ["db released: Resolved"]);
        assert!(holds.faults.is_empty(), "what is over is not kept");
    }
}
