//! The properties hold within tiny bounds, and each refuses a planted fault.

use std::collections::BTreeSet;

use stateright::{Checker, Expectation, HasDiscoveries, Model};

use crate::commits::{self, Commits};
use crate::leases::{self, Leases};
use crate::{bounds, explore};

#[test]
fn the_properties_hold_within_tiny_bounds() {
    let (commits, leases) = bounds(true);
    for bounds in commits {
        assert_eq!(explore("commits", Commits { bounds, fault: None }, 1), 0);
    }
    for bounds in leases {
        assert_eq!(explore("leases", Leases { bounds, fault: None }, 1), 0);
    }
}

/// Returns the names of the properties that must hold.
fn promises<M: Model>(model: &M) -> BTreeSet<&'static str> {
    let always = |property: &stateright::Property<M>| {
        matches!(property.expectation, Expectation::Always).then_some(property.name)
    };
    model.properties().iter().filter_map(always).collect()
}

#[test]
fn each_property_of_commits_refuses_a_planted_fault() {
    use commits::Fault::*;
    let (all, _) = bounds(true);
    let tiny = all[0];
    let racing = commits::Bounds { reports: 2, failovers: 0, ..tiny };
    let plan = [
        (RevisionNotCompared, racing, "two contents of a revision are of two epochs"),
        (FloorStays, tiny, commits::KEPT),
        (LaterEntrySuffices, tiny, commits::KEPT),
        (ConfirmedUnread, tiny, commits::KEPT),
        (LossUncounted, tiny, commits::KEPT),
        (AcknowledgedUnread, tiny, "an acknowledged commit is shown"),
        (RepairKeepsRevision, tiny, "observers never go back"),
        (MasterNotShown, tiny, "all replicas show what the server has"),
        (RepairKeepsRevision, tiny, "two contents of a revision are of two epochs"),
    ];
    let model = |fault, bounds| Commits { bounds, fault };
    let refused: BTreeSet<_> = plan.iter().map(|(.., name)| *name).collect();
    assert_eq!(refused, promises(&model(None, tiny)));
    for (fault, bounds, name) in plan {
        let wanted = HasDiscoveries::AnyOf([name].into());
        let checker = model(Some(fault), bounds).checker().finish_when(wanted).spawn_bfs().join();
        assert!(checker.discovery(name).is_some(), "{fault:?} is not refused by: {name}");
    }
}

/// A request id holds within one epoch of the store: a failover may lose the answer with the
/// report.
#[test]
fn a_call_that_outlives_its_answer_replaces_a_newer_report() {
    let (all, _) = bounds(true);
    let bounds = commits::Bounds { reports: 2, old_calls: true, ..all[0] };
    let wanted = HasDiscoveries::AnyOf([commits::KEPT].into());
    let model = Commits { bounds, fault: None };
    let checker = model.checker().finish_when(wanted).spawn_bfs().join();
    assert!(checker.discovery(commits::KEPT).is_some());
}

#[test]
fn each_property_of_leases_refuses_a_planted_fault() {
    use leases::Fault::*;
    let plan = [
        (FloorStays, "an epoch has one holder"),
        (FloorStays, "epochs only rise"),
        (EpochNotCompared, "only the leader writes, within its lease"),
        (TimeOfTheSender, "only the leader writes, within its lease"),
        (FloorStays, "no data version is given twice"),
        (EtagNotCompared, "a write replaces what its writer has read"),
    ];
    let (_, all) = bounds(true);
    let model = |fault| Leases { bounds: all[0], fault };
    let refused: BTreeSet<_> = plan.iter().map(|(_, name)| *name).collect();
    assert_eq!(refused, promises(&model(None)));
    for (fault, name) in plan {
        let wanted = HasDiscoveries::AnyOf([name].into());
        let checker = model(Some(fault)).checker().finish_when(wanted).spawn_bfs().join();
        assert!(checker.discovery(name).is_some(), "{fault:?} is not refused by: {name}");
    }
}
