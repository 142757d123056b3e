//! Single cases of the deletion of an application: what its head and its operations keep.

use bellwether::domain::command::Command;
use bellwether::domain::delete::delete;
use bellwether::domain::level::Level;
use bellwether::domain::name::OperationId;
use bellwether::domain::operation::Reason;
use bellwether::domain::operation::command::{NewOperation, OperationAction, OperationCommand};
use bellwether::domain::status::Kind;
use bellwether::domain::usage::StoredCounts;

use crate::case::{Case, new_operation, push, time, unit};

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
