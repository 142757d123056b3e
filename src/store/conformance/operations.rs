//! Operations are stored with all their fields, and their quiet commits are not overlooked.

use std::sync::Arc;
use std::time::Duration;

use crate::domain::bytes::Bytes;
use crate::domain::classify::finding::Class;
use crate::domain::command::Command;
use crate::domain::name::{OperationId, UnitName};
use crate::domain::operation::command::{
    NewOperation, OperationAction, OperationCommand, PayloadState,
};
use crate::domain::operation::{Event, Failure, Kind, Lease, Operation, Payload, Reason, State};
use crate::domain::time::Timestamp;
use crate::domain::transition::Write;
use crate::store::{ConflictCause, Store};

use super::deployment::Pair;
use super::driver::{Driver, Recorder, mk_app, mk_conflict};

fn mk_id() -> OperationId {
    OperationId::new("up-v2").unwrap()
}

pub(super) fn mk_command(by: &str, action: OperationAction) -> Command {
    let by = if by.is_empty() { UnitName::application() } else { UnitName::new(by).unwrap() };
    Command::Operate(OperationCommand { id: mk_id(), by, action })
}

pub(super) fn mk_begin() -> OperationAction {
    OperationAction::Begin(Box::new(NewOperation {
        unit: UnitName::application(),
        kind: Kind::Upgrade,
        from_version: "v1".into(),
        target_version: "v2".into(),
        payload: Payload { uri: "".into(), digest: "sha256:0".into() },
        bytes: Some(Bytes::from(vec![0, 159, 146, 150])),
        deterministic: true,
        reversible: false,
        attempts_max: 3,
        interruptions_max: 100,
        deadline: None,
        lease_duration: Duration::from_secs(3600),
        supersede: false,
        note: "".into(),
    }))
}

/// Returns a random command on one of three operations by one of two units; many are refused.
pub(super) fn mk_order(dice: u64) -> Command {
    let fence = 1 + (dice >> 4) % 2;
    let action = match dice % 8 {
        0..=2 => mk_begin(),
        3 => OperationAction::Acquire { verify: dice & 64 == 0, payload: PayloadState::Intact },
        4 => OperationAction::Heartbeat {
            fence,
            checkpoint: Some(Bytes::from(vec![1; (dice % 40) as usize])),
            progress: (dice & 128 == 0).then(|| "half".into()),
        },
        5 => OperationAction::Complete { fence },
        6 => OperationAction::Release { fence },
        _ => OperationAction::Cancel,
    };
    let id = OperationId::new(&format!("up-{}", (dice >> 8) % 3)).unwrap();
    let by = UnitName::new(&format!("web/{}", (dice >> 10) % 2)).unwrap();
    Command::Operate(OperationCommand { id, by, action })
}

/// Returns an operation with every field set.
fn mk_operation() -> Operation {
    let at = |n: u64| Timestamp::new(32_503_680_000_000 + n);
    Operation {
        unit: UnitName::application(),
        kind: Kind::Rollback,
        from_version: "v2".into(),
        target_version: "v1".into(),
        payload: Payload { uri: "https://x/y".into(), digest: "sha256:ab".into() },
        deterministic: true,
        reversible: true,
        state: State::Verifying,
        reason: Reason::Failed(Class::Dependency),
        fence: u64::MAX,
        lease: Some(Lease { holder: UnitName::new("web/0").unwrap(), expire_time: at(9) }),
        lease_duration: Duration::from_millis(1500),
        attempts_failed: 1,
        attempts_max: 2,
        interruptions: 3,
        interruptions_max: 4,
        touched: true,
        cut_off: true,
        checkpoint: Bytes::from((0..=255).collect::<Vec<u8>>()),
        progress: "Schritt 3/7".into(),
        create_time: at(1),
        update_time: at(2),
        deadline: Some(at(99)),
        time_allowed: Some(Duration::from_secs(98)),
        deadline_exceeded: true,
        retry_time: Some(at(7)),
        waits: 5,
        last_error: Some(Failure {
            class: Class::Transient,
            component: "db".into(),
            target: "postgres".into(),
            system: "grpc".into(),
            code: "UNAVAILABLE".into(),
            domain: "example.com".into(),
            reason: "NO_ROUTE".into(),
            message: "no route".into(),
            tried_again: None,
        }),
        next_target: "v3".into(),
        note: "because".into(),
        unclaimed_since: Some(at(3)),
        neglected: true,
        turn: 8,
        history: vec![Event {
            time: at(2),
            from: Some(State::Ready),
            to: State::Verifying,
            by: UnitName::application(),
            reason: Reason::Acquired,
            fence: 6,
        }],
    }
}

pub(super) async fn every_field_of_an_operation_comes_back(store: Arc<dyn Store>) {
    let mut web = Driver::new(&store, "web").await;
    web.report("web/0", "up").await;
    let mut transition = web.draft(super::driver::mk_report("web/0", "down"));
    let payload = Bytes::from(vec![7; 256 << 10]);
    transition.writes.push(Write::Operation(mk_id(), Some(Arc::new(mk_operation()))));
    transition.writes.push(Write::Payload(mk_id(), Some(payload.clone())));
    web.commit(transition).await.unwrap();
    let records = store.load(&mk_app("web")).await.unwrap();
    assert_eq!(records.operations, [(mk_id(), Arc::new(mk_operation()))]);
    assert_eq!(records.payloads, [(mk_id(), payload)]);

    let mut transition = web.draft(super::driver::mk_report("web/0", "up"));
    transition.writes.extend([Write::Operation(mk_id(), None), Write::Payload(mk_id(), None)]);
    web.commit(transition).await.unwrap();
    let records = store.load(&mk_app("web")).await.unwrap();
    assert!(records.operations.is_empty() && records.payloads.is_empty());
}

fn mk_heartbeat() -> Command {
    let checkpoint = Some(Bytes::from(vec![1]));
    mk_command("web/0", OperationAction::Heartbeat { fence: 1, checkpoint, progress: None })
}

/// A heartbeat does not move the revision, and no observer receives it.
pub(super) async fn a_renewed_lease_is_kept(store: Arc<dyn Store>) {
    let mut web = Driver::new(&store, "web").await;
    web.run(mk_command("web/0", mk_begin())).await;
    let recorder = Recorder::on(&store);
    let (notified, revision) = (recorder.notified(), web.revision());
    web.run(mk_heartbeat()).await;
    assert_eq!((recorder.notified(), web.revision()), (notified, revision));
    web.check().await;
}

/// A process that does not know the heartbeat must not end the lease.
pub(super) async fn a_renewed_lease_is_not_overlooked([one, other]: Pair) {
    let mut web = Driver::new(&one, "web").await;
    web.run(mk_command("web/0", mk_begin())).await;
    let mut behind = Driver::new(&other, "web").await;
    web.run(mk_heartbeat()).await;
    let lapse = behind.draft(mk_command("", OperationAction::Cancel));
    let conflict = mk_conflict(web.revision(), ConflictCause::QuietCommits);
    assert_eq!(behind.commit(lapse).await, conflict);
}

pub(super) async fn a_deletion_leaves_what_was_open_without_its_payload(store: Arc<dyn Store>) {
    let mut web = Driver::new(&store, "web").await;
    web.run(mk_command("web/0", mk_begin())).await;
    web.delete().await;
    let records = store.load(&mk_app("web")).await.unwrap();
    let [(id, operation)] = records.operations.as_slice() else {
        panic!("{:?}", records.operations);
    };
    assert_eq!((id, operation.state), (&mk_id(), State::Abandoned));
    assert!(records.payloads.is_empty());
    web.check().await;
}
