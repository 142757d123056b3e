//! Properties of operations with any sequence of commands from any client, and with crashes of a
//! holder or the server at any point.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bellwether::domain::app::{AppState, Head};
use bellwether::domain::apply::apply;
use bellwether::domain::bytes::Bytes;
use bellwether::domain::classify::finding::Class;
use bellwether::domain::command::{Command, Request};
use bellwether::domain::data_loss::mark_uncertain;
use bellwether::domain::delete::delete;
use bellwether::domain::draft::Draft;
use bellwether::domain::expire::expire;
use bellwether::domain::limits::Limits;
use bellwether::domain::name::{OperationId, UnitName};
use bellwether::domain::operation::command::{
    NewOperation, Observed, OperationAction, OperationCommand, PayloadState,
};
use bellwether::domain::operation::refused::Refused;
use bellwether::domain::operation::{Kind, Operation, Payload, State};
use bellwether::domain::outage::{Downtime, Outages};
use bellwether::domain::rank::{Origin, Rank};
use bellwether::domain::rejected::Rejected;
use bellwether::domain::replay::Records;
use bellwether::domain::revision::Revision;
use bellwether::domain::time::Timestamp;
use bellwether::domain::transition::{Transition, Write};
use bellwether::domain::unit::Unit;
use proptest::prelude::*;

use crate::case::failure;
use crate::world::app_name;

const LEASE: Duration = Duration::from_secs(10);
const DEADLINE: Duration = Duration::from_secs(600);

/// A step of a random walk.
#[derive(Debug, Clone)]
enum Step {
    /// Time without commands; then the due changes are applied, if the flag is set.
    Pass(u64, bool),
    /// A command. `behind` is the difference of its fence to the newest.
    Ask { operation: u8, by: u8, what: Asked, behind: i8 },
    /// The server stops after the store took a commit and before the answer; it starts again from
    /// the stored state.
    Restart,
    /// A data loss.
    Loss,
    /// The application is removed.
    Remove,
    /// A unit is removed.
    RemoveUnit(u8),
}

#[derive(Debug, Clone)]
enum Asked {
    Begin { deterministic: bool, reversible: bool, rollback: bool, supersede: bool, timed: bool },
    Acquire { verify: bool, payload: u8 },
    Heartbeat,
    Release,
    Complete,
    Fail { class: u8, touched: bool, pushback: bool },
    Verify(u8),
    Cancel,
    Retry,
}

fn mk_asked() -> impl Strategy<Value = Asked> {
    let begin = any::<(bool, bool, bool, bool, bool)>();
    prop_oneof![
        4 => begin.prop_map(|(deterministic, reversible, rollback, supersede, timed)| {
            Asked::Begin { deterministic, reversible, rollback, supersede, timed }
        }),
        6 => (any::<bool>(), 0..12_u8)
            .prop_map(|(verify, payload)| Asked::Acquire { verify, payload }),
        3 => Just(Asked::Heartbeat),
        2 => Just(Asked::Release),
        2 => Just(Asked::Complete),
        4 => (0..9_u8, any::<bool>(), any::<bool>())
            .prop_map(|(class, touched, pushback)| Asked::Fail { class, touched, pushback }),
        2 => (0..3_u8).prop_map(Asked::Verify),
        1 => Just(Asked::Cancel),
        2 => Just(Asked::Retry),
    ]
}

fn mk_step() -> impl Strategy<Value = Step> {
    let pass = prop_oneof![1..9_000_u64, 9_000..12_000_u64, 12_000..1_500_000_u64];
    let behind = prop_oneof![6 => Just(0_i8), 1 => Just(1_i8), 1 => Just(-1_i8)];
    prop_oneof![
        6 => (pass, any::<bool>()).prop_map(|(millis, looks)| Step::Pass(millis, looks)),
        18 => (0..6_u8, 0..4_u8, mk_asked(), behind)
            .prop_map(|(operation, by, what, behind)| Step::Ask { operation, by, what, behind }),
        2 => Just(Step::Restart),
        1 => Just(Step::Loss),
        1 => Just(Step::Remove),
        1 => (1..3_u8).prop_map(Step::RemoveUnit),
    ]
}

fn id(n: u8) -> OperationId {
    OperationId::new(&format!("up-{n}")).unwrap()
}

/// Two operations in five are the work of `web/1` or `web/2`.
fn own_unit(operation: u8) -> UnitName {
    match operation {
        3 => UnitName::new("web/1").unwrap(),
        4.. => UnitName::new("web/2").unwrap(),
        _ => UnitName::application(),
    }
}

/// The application with its stored records.
struct Stage {
    now: Timestamp,
    losses: u32,
    state: AppState,
    stored: Stored,
}

#[derive(Default)]
struct Stored {
    head: Option<Head>,
    units: std::collections::BTreeMap<UnitName, Unit>,
    operations: std::collections::BTreeMap<OperationId, Arc<Operation>>,
    payloads: std::collections::BTreeMap<OperationId, Bytes>,
}

impl Stored {
    fn write(&mut self, transition: &Transition) {
        if transition.is_deletion() {
            *self = Stored::default();
        }
        self.head = Some((*transition.head).clone());
        for write in &transition.writes {
            match write {
                Write::Unit(name, Some(unit)) => {
                    self.units.insert(name.clone(), (**unit).clone());
                }
                Write::Unit(name, None) => drop(self.units.remove(name)),
                Write::Operation(id, Some(record)) => {
                    self.operations.insert(id.clone(), record.clone());
                }
                Write::Operation(id, None) => drop(self.operations.remove(id)),
                Write::Payload(id, Some(payload)) => {
                    self.payloads.insert(id.clone(), payload.clone());
                }
                Write::Payload(id, None) => drop(self.payloads.remove(id)),
                _ => {}
            }
        }
    }

    fn load(&self) -> AppState {
        let Some(head) = self.head.clone() else {
            return AppState::empty(app_name(), Revision(0));
        };
        let records = Records {
            units: self.units.clone().into_iter().collect(),
            operations: self.operations.clone().into_iter().collect(),
            payloads: self.payloads.clone().into_iter().collect(),
            ..Records::of_head(head)
        };
        AppState::load(app_name(), records)
    }
}

impl Stage {
    fn order(&self, operation: u8, by: u8, what: &Asked, behind: i8) -> OperationCommand {
        let id = id(operation);
        let newest = self.state.operations().get(&id).map_or(1, |o| o.fence);
        let fence = newest.saturating_add_signed(i64::from(behind));
        let action = match what {
            Asked::Begin { deterministic, reversible, rollback, supersede, timed } => {
                OperationAction::Begin(Box::new(NewOperation {
                    unit: own_unit(operation),
                    kind: if *rollback { Kind::Rollback } else { Kind::Upgrade },
                    from_version: "v1".into(),
                    target_version: format!("v{operation}").into(),
                    payload: Payload::default(),
                    bytes: Some(Bytes::from(vec![operation])),
                    deterministic: *deterministic,
                    reversible: *reversible,
                    attempts_max: 3,
                    interruptions_max: 2,
                    deadline: timed.then_some(self.now.after(DEADLINE)),
                    lease_duration: LEASE,
                    supersede: *supersede,
                    note: "".into(),
                }))
            }
            Asked::Acquire { verify, payload } => OperationAction::Acquire {
                verify: *verify,
                payload: match payload {
                    0 => PayloadState::Changed,
                    1 => PayloadState::Missing,
                    _ => PayloadState::Intact,
                },
            },
            Asked::Heartbeat => {
                OperationAction::Heartbeat { fence, checkpoint: None, progress: None }
            }
            Asked::Release => OperationAction::Release { fence },
            Asked::Complete => OperationAction::Complete { fence },
            Asked::Fail { class, touched, pushback } => OperationAction::Fail {
                fence,
                failure: failure(Class::ALL[usize::from(*class)]),
                touched: *touched,
                retry_after: pushback.then_some(Duration::from_secs(7)),
            },
            Asked::Verify(0) => OperationAction::Verify { fence, observed: Observed::Applied },
            Asked::Verify(1) => OperationAction::Verify { fence, observed: Observed::NotApplied },
            Asked::Verify(_) => OperationAction::Verify { fence, observed: Observed::Undetermined },
            Asked::Cancel => OperationAction::Cancel,
            Asked::Retry => OperationAction::Retry,
        };
        let by = match by {
            0 => UnitName::application(),
            n => UnitName::new(&format!("web/{n}")).unwrap(),
        };
        let is_begin = matches!(action, OperationAction::Begin(_));
        // The conversion of requests guarantees that a unit begins only work of its own.
        let is_foreign = is_begin && !own_unit(operation).is_application() && !by.is_application();
        let by = if is_foreign { own_unit(operation) } else { by };
        OperationCommand { id, by, action }
    }

    /// Drafts, commits and replays.
    fn commit(&mut self, order: Option<&OperationCommand>) -> Option<Result<(), Rejected>> {
        let before = self.state.clone();
        let limits = Limits::default();
        let mut draft = Draft::new(&before, &limits, self.now);
        mark_uncertain(&mut draft, self.losses);
        expire(&mut draft);
        let request =
            order.map(|order| Request { id: None, command: Command::Operate(order.clone()) });
        let answer = request.map(|request| apply(&mut draft, &request).map(drop));
        let transition = draft.finish();
        self.stored.write(&transition);
        self.state.replay(&transition);
        answer
    }

    fn remove_unit(&mut self, unit: &UnitName) {
        let before = self.state.clone();
        let limits = Limits::default();
        let mut draft = Draft::new(&before, &limits, self.now);
        let command = Command::RemoveUnit(unit.clone());
        let _ = apply(&mut draft, &Request { id: None, command });
        let transition = draft.finish();
        self.stored.write(&transition);
        self.state.replay(&transition);
    }

    fn check(&self) {
        let open: Vec<_> = self.state.operations().all_open().collect();
        let scopes: BTreeSet<&UnitName> = open.iter().map(|(_, o)| &o.unit).collect();
        assert_eq!(open.len(), scopes.len(), "{open:?}");
        for (id, operation) in self.state.operations().iter() {
            let works =
                matches!(operation.state, State::Running | State::Verifying | State::Cancelling);
            assert_eq!(operation.lease.is_some(), works, "{id}: {operation:?}");
            assert!(operation.history.len() <= 64);
        }
        let ranks: BTreeSet<Rank> = self.state.ranked().cloned().collect();
        assert_eq!(ranks, self.state.contributions_from_scratch());
        let level = ranks.first().map_or_else(Default::default, |rank| rank.level);
        assert_eq!(self.state.head().summary.level, level);
        self.check_winner();
        let loaded = self.stored.load();
        assert_eq!(loaded.operations(), self.state.operations(), "what is stored is what is known");
        let looks = |state: &AppState| state.next_due().map_or(u64::MAX, |at| at.millis());
        assert!(looks(&self.state) <= looks(&loaded));
        self.check_way_out();
    }

    /// Checks that the head says of the operation that wins what its record says.
    fn check_winner(&self) {
        let head = self.state.head();
        let winner = head.summary.winner.as_ref();
        let operates = winner.filter(|winner| winner.origin == Origin::Operation);
        let shown = winner.and_then(|winner| winner.operation.as_deref());
        assert_eq!(operates.is_some(), shown.is_some(), "{winner:?}");
        let Some((winner, shown)) = operates.zip(shown) else { return };
        let record = self.state.operations().get(&shown.id).expect("its record");
        assert_eq!((&record.unit, record.state), (&winner.unit, shown.state));
        assert_eq!(record.progress, shown.progress);
    }

    /// Checks that an open operation can be ended, and an unfinished one completed: on a copy, as
    /// after a crash of the server.
    fn check_way_out(&self) {
        for (id, open) in self.state.operations().all_open() {
            self.check_way_out_of(id, open);
        }
    }

    fn check_way_out_of(&self, id: &OperationId, open: &Operation) {
        let copy = || Stage {
            now: self.now,
            losses: self.losses,
            state: self.stored.load(),
            stored: Stored { head: self.stored.head.clone(), ..Stored::default() },
        };
        let ask = |stage: &mut Stage, action: OperationAction| {
            let by = match open.unit.is_application() {
                true => UnitName::new("web/9").unwrap(),
                false => open.unit.clone(),
            };
            stage.commit(Some(&OperationCommand { id: id.clone(), by, action })).unwrap()
        };
        let mut cancelled = copy();
        cancelled.commit(None);
        if !cancelled.state.operations().get(id).unwrap().is_open() {
            // Its deadline had passed before, without a commit since.
            return;
        }
        ask(&mut cancelled, OperationAction::Cancel).unwrap();
        cancelled.now = cancelled.now.after(LEASE);
        cancelled.commit(None);
        assert!(!cancelled.state.operations().get(id).unwrap().is_open());

        let mut resumed = copy();
        // Longer than any lease and any wait.
        resumed.now = resumed.now.after(Duration::from_secs(240));
        resumed.commit(None);
        let state = |stage: &Stage| stage.state.operations().get(id).unwrap().state;
        if matches!(state(&resumed), State::Blocked | State::Failed) {
            ask(&mut resumed, OperationAction::Retry).unwrap();
        }
        if state(&resumed).is_terminal() {
            // It was cancelled, and its holder is gone.
            return;
        }
        ask(
            &mut resumed,
            OperationAction::Acquire { verify: false, payload: PayloadState::Intact },
        )
        .unwrap();
        let fence = resumed.state.operations().get(id).unwrap().fence;
        if state(&resumed) == State::Verifying {
            ask(&mut resumed, OperationAction::Verify { fence, observed: Observed::NotApplied })
                .unwrap();
        }
        ask(&mut resumed, OperationAction::Complete { fence }).unwrap();
        assert_eq!(state(&resumed), State::Succeeded);
    }

    fn ask(&mut self, order: &OperationCommand, behind: i8) {
        // Applies the changes by time first.
        self.commit(None);
        let before = self.state.operations().get(&order.id).cloned();
        let answer = self.commit(Some(order)).unwrap();
        let after = self.state.operations().get(&order.id).cloned();
        let writes = !matches!(
            order.action,
            OperationAction::Begin(_)
                | OperationAction::Acquire { .. }
                | OperationAction::Cancel
                | OperationAction::Retry
        );
        if let Some(before) = before.as_ref().filter(|_| writes && behind != 0) {
            assert!(answer.is_err(), "{order:?} on {before:?}");
            assert_eq!(Some(before), after.as_ref(), "a stale fence changes nothing");
        }
        if let (Some(before), Some(after)) = (before, after) {
            check_fence(&before, &after, order, answer.is_ok());
            check_counters(&before, &after, order);
            let refused = matches!(answer, Err(Rejected::Operation(Refused::NotFound { .. })));
            assert!(!refused);
        }
    }
}

/// Checks that a fence grows only at an acquire, and at a new begin after a removal. It grows by
/// one unless the store lost writes since.
fn check_fence(before: &Operation, after: &Operation, order: &OperationCommand, ok: bool) {
    let grew = after.fence - before.fence;
    let acquired = matches!(order.action, OperationAction::Acquire { .. }) && ok;
    let reborn = matches!(order.action, OperationAction::Begin(_))
        && before.reason.word() == "ORPHANED"
        && ok;
    assert_eq!(0 < grew, acquired || reborn, "{order:?} on {before:?}");
    assert!(grew <= 1 || (1 << 32) <= after.fence, "{order:?} on {before:?}");
    if acquired {
        assert_eq!(after.holder(), Some(&order.by));
        assert!(before.lease.is_none());
    }
}

/// Checks that a command moves a counter only for its own reason. A command never counts an
/// interruption, except that a deadline passes at the same moment.
fn check_counters(before: &Operation, after: &Operation, order: &OperationCommand) {
    let cleared = after.attempts_failed == 0 && after.interruptions == 0;
    match &order.action {
        OperationAction::Fail { failure, touched, .. } => {
            let counts = match failure.class {
                Class::Unclassified => true,
                Class::Transient => *touched,
                _ => false,
            };
            let failed = after.attempts_failed - before.attempts_failed;
            assert!(failed <= u32::from(counts), "{order:?} on {before:?}");
            assert_eq!(after.interruptions, before.interruptions);
        }
        OperationAction::Retry
        | OperationAction::Complete { .. }
        | OperationAction::Verify { .. }
        | OperationAction::Begin(_)
            if before.state != after.state =>
        {
            let blocked = before.state == State::Blocked && after.attempts_failed == 0;
            let same = after.attempts_failed == before.attempts_failed;
            assert!(cleared || blocked || same, "{order:?} on {before:?}");
        }
        _ => {
            assert_eq!(after.attempts_failed, before.attempts_failed, "{order:?} on {before:?}");
            assert_eq!(after.interruptions, before.interruptions, "{order:?} on {before:?}");
        }
    }
}

/// Checks that time alone counts at most one interruption, and only of a held operation.
fn check_passing(before: &AppState, after: &AppState) {
    for (id, old) in before.operations().iter() {
        let Some(new) = after.operations().get(id) else {
            continue;
        };
        assert_eq!(new.fence, old.fence);
        assert_eq!(new.attempts_failed, old.attempts_failed);
        let lapsed = new.interruptions - old.interruptions;
        let held = matches!(old.state, State::Running | State::Verifying);
        assert!(lapsed <= u32::from(held), "{old:?}");
        if new.state != old.state {
            assert!(old.lease.is_some() || old.deadline.is_some(), "{old:?}");
        }
    }
}

/// A holder that returns after a server outage still has its lease, however long the outage was.
#[test]
fn an_outage_of_the_server_is_no_failure_of_a_worker() {
    let mut stage = Stage {
        now: Timestamp::new(1_700_000_000_000),
        losses: 0,
        state: AppState::empty(app_name(), Revision(0)),
        stored: Stored::default(),
    };
    let begin = Asked::Begin {
        deterministic: true,
        reversible: false,
        rollback: false,
        supersede: false,
        timed: false,
    };
    let begin = stage.order(0, 1, &begin, 0);
    stage.commit(Some(&begin)).unwrap().unwrap();
    let heartbeat = stage.order(0, 1, &Asked::Heartbeat, 0);
    let mut known = Outages::default();
    let mut restart = |stage: &mut Stage| {
        let from = stage.now;
        stage.now = from.after(Duration::from_secs(3600));
        known.add(Downtime { from, until: stage.now });
        stage.state = stage.stored.load();
        stage.state.note_outages(&Arc::new(known.clone()));
    };
    restart(&mut stage);
    stage.commit(Some(&heartbeat)).unwrap().unwrap();
    let open = |stage: &Stage| stage.state.operations().open().unwrap().1.clone();
    assert_eq!((open(&stage).state, open(&stage).interruptions), (State::Running, 0));
    let release = stage.order(0, 1, &Asked::Release, 0);
    stage.commit(Some(&release)).unwrap().unwrap();
    restart(&mut stage);
    stage.commit(None);
    assert!(!open(&stage).neglected);
    stage.now = stage.now.after(Duration::from_secs(3600));
    stage.commit(None);
    assert!(open(&stage).neglected);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn operations_keep_their_invariants(steps in proptest::collection::vec(mk_step(), 1..60)) {
        let mut stage = Stage {
            now: Timestamp::new(1_700_000_000_000),
            losses: 0,
            state: AppState::empty(app_name(), Revision(0)),
            stored: Stored::default(),
        };
        for step in &steps {
            match step {
                Step::Pass(millis, looks) => {
                    stage.now = Timestamp::new(stage.now.millis() + millis);
                    let before = stage.state.clone();
                    if *looks {
                        stage.commit(None);
                        check_passing(&before, &stage.state);
                    }
                }
                Step::Ask { operation, by, what, behind } => {
                    let order = stage.order(*operation, *by, what, *behind);
                    stage.ask(&order, *behind);
                }
                Step::Restart => stage.state = stage.stored.load(),
                Step::Loss => {
                    stage.losses += 1;
                    stage.commit(None);
                }
                Step::RemoveUnit(n) => {
                    let unit = UnitName::new(&format!("web/{n}")).unwrap();
                    stage.remove_unit(&unit);
                    prop_assert!(stage.state.operations().all_open().all(|(_, o)| o.unit != unit));
                }
                Step::Remove => {
                    if let Ok((Some(transition), _)) = delete(&stage.state, None, stage.now) {
                        stage.stored.write(&transition);
                        stage.state.replay(&transition);
                        prop_assert!(stage.state.operations().all_open().next().is_none());
                    }
                }
            }
            stage.check();
        }
    }
}
