//! Single cases of the deletion of an application: what its head and its operations keep.

use std::sync::Arc;

use bellwether::domain::bytes::Bytes;
use bellwether::domain::command::Command;
use bellwether::domain::data::DataPatch;
use bellwether::domain::delete::delete;
use bellwether::domain::leadership::Claim;
use bellwether::domain::level::Level;
use bellwether::domain::name::OperationId;
use bellwether::domain::operation::Reason;
use bellwether::domain::operation::command::{NewOperation, OperationAction, OperationCommand};
use bellwether::domain::policy::{ConfigPatch, Policy};
use bellwether::domain::status::Kind;
use bellwether::domain::usage::StoredCounts;

use crate::case::{Case, configure, new_operation, push, reporter, time, unit};

fn id(name: &str) -> OperationId {
    OperationId::new(name).unwrap()
}

fn operate(case: &mut Case, name: &str, action: OperationAction) {
    case.run(Command::Operate(OperationCommand { id: id(name), by: unit("web/0"), action }));
}

/// Deletes the application, and replays it.
fn delete_all(case: &mut Case) {
    let (transition, _) = delete(&case.state, None, time(case.now)).unwrap();
    case.state.replay(&transition.unwrap());
}

#[test]
fn a_deletion_is_the_last_update_of_an_application() {
    let mut case = Case::new();
    case.run(push("web/0", Level::Active, Some(30)));
    operate(&mut case, "open", OperationAction::Begin(new_operation().into()));
    // Extends the lease of the operation, without a visible change.
    let heartbeat = OperationAction::Heartbeat { fence: 1, checkpoint: None, progress: None };
    operate(case.at(5), "open", heartbeat);
    assert!(case.status("web/0", "", Kind::Push).is_some());
    let before = case.state.head().clone();
    assert_eq!(before.quiet_commits, 1);
    delete_all(case.at(25));
    let head = case.state.head();
    assert_eq!((head.revision, head.update_time), (before.revision.next(), time(25)));
    assert_eq!(head.quiet_commits, before.quiet_commits);
    assert_eq!(case.status("web/0", "", Kind::Push), None);
}

/// As a state that is loaded after the deletion has it: the store refuses transitions under another
/// floor.
#[test]
fn a_replayed_deletion_keeps_the_epoch_floor() {
    let mut case = Case::new();
    case.run(push("web/0", Level::Active, None));
    case.state.epoch_floor = 1 << 40;
    delete_all(&mut case);
    assert!(!case.state.exists());
    assert_eq!(case.state.epoch_floor, 1 << 40);
}

#[test]
fn a_deleted_application_keeps_the_size_of_its_history() {
    let mut case = Case::new();
    case.run(push("web/0", Level::Active, None));
    let counted = |case: &Case| case.state.head().counts.unwrap().history_bytes;
    let before = counted(&case);
    assert!(0 < before);
    delete_all(&mut case);
    assert!(before <= counted(&case), "{before} {}", counted(&case));
}

#[test]
fn a_deleted_application_keeps_its_open_operations_alone_and_counts_them() {
    let mut case = Case::new();
    operate(&mut case, "done", OperationAction::Begin(new_operation().into()));
    operate(&mut case, "done", OperationAction::Complete { fence: 1 });
    operate(&mut case, "open", OperationAction::Begin(new_operation().into()));
    // An application that was created again, and is deleted again, keeps the operation.
    for _ in 0..2 {
        delete_all(&mut case);
        let kept: Vec<_> = case.state.operations().iter().collect();
        let [(name, operation)] = kept[..] else {
            panic!("{kept:?}");
        };
        assert_eq!((name, operation.reason), (&id("open"), Reason::Orphaned));
        let counted = case.state.head().counts.unwrap();
        assert_eq!(counted, StoredCounts { statuses: 0, operations: 1, ..counted });
        assert!(0 < counted.record_bytes, "{counted:?}");
        case.run(push("web/1", Level::Active, None));
    }
}

#[test]
fn an_operation_that_is_late_when_its_application_is_deleted_is_orphaned() {
    let mut case = Case::new();
    operate(&mut case, "open", OperationAction::Begin(new_operation().into()));
    // After the lease and the deadline, before a commit has found that.
    delete_all(case.at(1000));
    let reasons: Vec<_> = case.state.operations().iter().map(|(_, o)| o.reason).collect();
    assert_eq!(reasons, [Reason::Orphaned]);
    // It does not block an operation of a new application of the name.
    let next = NewOperation { deadline: None, ..new_operation() };
    operate(&mut case, "next", OperationAction::Begin(next.into()));
}

#[test]
fn an_application_whose_last_unit_was_removed_is_deleted_after_a_month() {
    let mut case = Case::new();
    case.run(push("web/0", Level::Active, None));
    assert_eq!(case.state.head().abandoned_until, None);
    case.at(5).run(Command::RemoveUnit(unit("web/0")));
    let month = 30 * 24 * 3600;
    assert_eq!(case.state.next_due(), Some(time(5 + month)));
    assert!(!case.state.is_abandoned(time(4 + month)) && case.state.is_abandoned(time(5 + month)));
    delete_all(case.at(5 + month));
    assert!(!case.state.exists() && !case.state.is_abandoned(time(9 + month)));
    assert_eq!(case.state.next_due(), None);
}

fn be_strict(case: &mut Case) {
    let policy = Some(Policy::Strict);
    case.run(configure(ConfigPatch { policy, ..ConfigPatch::default() }));
}

/// Lets the unit lead, and store data.
fn keep_data(case: &mut Case) {
    case.run(Command::ClaimLeadership(reporter("web/0"), None));
    let claim = Claim { unit: unit("web/0"), lease_epoch: 1, decided_outside: false };
    let set = [(Arc::from("key"), Bytes::from(b"value".to_vec()))].into();
    case.run(Command::UpdateData(claim, DataPatch { set, ..DataPatch::default() }));
}

#[test]
fn an_application_with_anything_to_keep_is_not_abandoned() {
    let one: [fn(&mut Case); 4] = [
        be_strict,
        keep_data,
        |case| operate(case, "open", OperationAction::Begin(new_operation().into())),
        |case| {
            case.run(push("web/1", Level::Active, None));
        },
    ];
    for set in one {
        let mut case = Case::new();
        case.run(push("web/0", Level::Active, None));
        set(&mut case);
        case.run(Command::RemoveUnit(unit("web/0")));
        assert_eq!(case.state.head().abandoned_until, None);
    }
}

#[test]
fn a_report_ends_the_wait_of_an_abandoned_application() {
    let mut case = Case::new();
    case.run(push("web/0", Level::Active, None));
    case.run(Command::RemoveUnit(unit("web/0")));
    assert!(case.state.head().abandoned_until.is_some());
    case.at(60).run(push("web/1", Level::Active, None));
    assert_eq!((case.state.head().abandoned_until, case.state.next_due()), (None, None));
    case.limits.abandoned_after = None;
    case.run(Command::RemoveUnit(unit("web/1")));
    assert_eq!(case.state.head().abandoned_until, None);
}
