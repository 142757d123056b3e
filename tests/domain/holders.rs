//! The leader and the holder of an operation after a data loss, and on another master of the store:
//! a later grant may be lost, so neither continues under its former number.

use std::sync::Arc;
use std::time::Duration;

use bellwether::domain::app::AppState;
use bellwether::domain::apply::apply;
use bellwether::domain::bytes::Bytes;
use bellwether::domain::command::{Command, Request};
use bellwether::domain::data::DataPatch;
use bellwether::domain::data_loss::{mark_uncertain, uncertain_head};
use bellwether::domain::draft::Draft;
use bellwether::domain::expire::expire;
use bellwether::domain::leadership::Claim;
use bellwether::domain::level::Level;
use bellwether::domain::limits::Limits;
use bellwether::domain::name::{OperationId, UnitName};
use bellwether::domain::operation::command::{
    NewOperation, OperationAction, OperationCommand, PayloadState,
};
use bellwether::domain::operation::refused::Refused;
use bellwether::domain::operation::{Operation, State};
use bellwether::domain::rejected::Rejected;
use bellwether::domain::revision::Revision;
use bellwether::domain::time::Timestamp;
use bellwether::domain::unit::Reporter;

use crate::case::{self, Case, new_operation};
use crate::world::app_name;

const LEASE: Duration = Duration::from_secs(10);
/// Each data loss raises the counts by this much, above all that clients may have received.
const COUNTS_PER_LOSS: u64 = 1 << 32;

fn id() -> OperationId {
    OperationId::new("up-v2").unwrap()
}

fn begin() -> OperationAction {
    let new = NewOperation {
        interruptions_max: 3,
        deadline: None,
        lease_duration: LEASE,
        ..new_operation()
    };
    OperationAction::Begin(Box::new(new))
}

/// Commits a command, after what a data loss and time change.
fn commit(
    state: &mut AppState,
    (now, losses): (u64, u32),
    command: Option<Command>,
) -> Result<(), Rejected> {
    let before = state.clone();
    let limits = Limits::default();
    let mut draft = Draft::new(&before, &limits, Timestamp::new(now));
    mark_uncertain(&mut draft, losses);
    expire(&mut draft);
    let request = command.map(|command| Request { id: None, command });
    let answer = request.map_or(Ok(()), |request| apply(&mut draft, &request).map(drop));
    let transition = draft.finish();
    state.replay(&transition);
    answer
}

fn operate(by: &str, action: OperationAction) -> Option<Command> {
    let by = UnitName::new(by).unwrap();
    Some(Command::Operate(OperationCommand { id: id(), by, action }))
}

fn operation(state: &AppState) -> &Operation {
    state.operations().get(&id()).unwrap()
}

/// Returns a state in which `web/0` works.
fn working() -> AppState {
    let mut state = AppState::empty(app_name(), Revision(0));
    commit(&mut state, (1_000, 0), operate("web/0", begin())).unwrap();
    assert_eq!((operation(&state).state, operation(&state).fence), (State::Running, 1));
    state
}

/// Checks that `web/0` is out, and that another unit continues under a fence above `floor`.
fn check_that_another_continues(mut state: AppState, losses: u32, floor: u64) {
    let heartbeat = || OperationAction::Heartbeat { fence: 1, checkpoint: None, progress: None };
    assert_eq!(operation(&state).state, State::Interrupted);
    assert_eq!(operation(&state).holder(), None);
    let refused = commit(&mut state, (2_000, losses), operate("web/0", heartbeat()));
    assert!(matches!(refused, Err(Rejected::Operation(Refused::StaleFence { .. }))), "{refused:?}");
    let text = refused.unwrap_err().to_string();
    assert!(text.contains("or the store may have lost writes"), "{text}");
    let acquire = OperationAction::Acquire { verify: false, payload: PayloadState::Intact };
    commit(&mut state, (3_000, losses), operate("web/1", acquire)).unwrap();
    assert!(floor.max(1) < operation(&state).fence, "{:?}", operation(&state));
    let refused = commit(&mut state, (4_000, losses), operate("web/0", heartbeat()));
    assert!(matches!(refused, Err(Rejected::Operation(Refused::StaleFence { .. }))), "{refused:?}");
}

#[test]
fn a_data_loss_takes_the_operation_from_its_holder() {
    let mut state = working();
    commit(&mut state, (1_500, 1), None).unwrap();
    check_that_another_continues(state, 1, COUNTS_PER_LOSS);
}

#[test]
fn another_master_takes_the_operation_from_its_holder() {
    let mut state = working();
    state.epoch_floor = 1 << 20;
    commit(&mut state, (1_500, 0), None).unwrap();
    check_that_another_continues(state, 0, 1 << 20);
}

/// Returns a state in which `web/0` leads.
fn led() -> AppState {
    let mut state = AppState::empty(app_name(), Revision(0));
    let reporter = Reporter::new(UnitName::new("web/0").unwrap(), None);
    let claim = Command::ClaimLeadership(reporter, Some(LEASE));
    commit(&mut state, (1_000, 0), Some(claim)).unwrap();
    assert_eq!(state.head().lease_epoch, 1);
    state
}

/// Checks that `web/0` leads under an epoch above `floor`, and no longer under that of before.
fn check_that_the_epoch_rose(mut state: AppState, losses: u32, floor: u64) {
    let epoch = state.head().lease_epoch;
    assert!(floor.max(1) < epoch, "{epoch}");
    assert_eq!(state.head().leader().map(UnitName::as_str), Some("web/0"));
    let write = |lease_epoch| {
        let unit = UnitName::new("web/0").unwrap();
        let claim = Claim { unit, lease_epoch, decided_outside: false };
        let set = [(Arc::from("key"), Bytes::from(b"value".to_vec()))].into();
        Some(Command::UpdateData(claim, DataPatch { set, ..DataPatch::default() }))
    };
    assert!(commit(&mut state, (2_000, losses), write(1)).is_err());
    commit(&mut state, (2_000, losses), write(epoch)).unwrap();
    assert!(floor < state.head().data.version);
}

#[test]
fn a_data_loss_moves_the_leader_to_a_new_epoch() {
    let mut state = led();
    commit(&mut state, (1_500, 1), None).unwrap();
    check_that_the_epoch_rose(state, 1, COUNTS_PER_LOSS);
}

#[test]
fn another_master_moves_the_leader_to_a_new_epoch() {
    // The other master may have given out the same epoch.
    for floor in [1, 1 << 20] {
        let mut state = led();
        state.epoch_floor = floor;
        commit(&mut state, (1_500, 0), None).unwrap();
        check_that_the_epoch_rose(state, 0, floor);
    }
}

#[test]
fn a_head_after_a_data_loss_waits_since_the_loss_or_since_before() {
    for (level, since) in [(Level::Active, 9), (Level::Waiting, 1)] {
        let mut case = Case::new();
        case.run(case::push("web/0", level, None));
        let summary = uncertain_head(case.state.head().clone(), 1, 0, case::time(9)).summary;
        assert_eq!((summary.level, &*summary.reason), (Level::Waiting, "Uncertain"));
        assert_eq!(summary.since, case::time(since), "{level:?}");
    }
}
