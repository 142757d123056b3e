//! The stored state equals the replayed state, for any number of writers and repeats.

use std::sync::Arc;
use std::time::Duration;

use crate::domain::app::AppState;
use crate::domain::apply::apply;
use crate::domain::command::{Command, NewStatus, Request};
use crate::domain::delete::delete;
use crate::domain::draft::Draft;
use crate::domain::expire::expire;
use crate::domain::leadership::Claim;
use crate::domain::leadership::status::{Mode, NewApplicationStatus};
use crate::domain::level::Level;
use crate::domain::limits::{Limits, REQUEST_TTL};
use crate::domain::name::UnitName;
use crate::domain::policy::{ConfigPatch, Latch, LostUnits, Policy, Scope};
use crate::domain::revision::Revision;
use crate::domain::status::Kind;
use crate::domain::status::report::{Details, Report};
use crate::domain::time::Timestamp;
use crate::domain::transition::Transition;
use crate::domain::unit::presence::{ReplicaId, SessionId};
use crate::domain::unit::{Newcomer, Reporter};
use crate::store::{CommitError, ConflictCause, Store};

use super::deployment::Pair;
use super::driver::{Driver, Recorder, mk_app, mk_conflict, mk_report, mk_reporter, mk_status};

pub(super) async fn writers_of_one_application_take_turns(store: Arc<dyn Store>) {
    const WRITERS: u64 = 8;
    const COMMITS: u64 = 15;
    let tasks = (0..WRITERS).map(|n| {
        let store = store.clone();
        tokio::spawn(async move {
            let unit = format!("u/{n}");
            for i in 1..=COMMITS {
                loop {
                    let mut driver = Driver::new(&store, "web").await;
                    let before = driver.revision();
                    let report = driver.draft(mk_report(&unit, &format!("{i}")));
                    match driver.commit(report).await {
                        Ok(()) => break,
                        Err(CommitError::Conflict { current, .. }) => assert!(before < current),
                        Err(other) => panic!("{other}"),
                    }
                }
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    let end = Driver::new(&store, "web").await;
    assert_eq!(end.revision(), Revision(WRITERS * COMMITS));
    for n in 0..WRITERS {
        let unit = UnitName::new(&format!("u/{n}")).unwrap();
        let (_, status) = end.state.statuses().of(&unit, None).next().unwrap();
        assert_eq!(*status.report.message, *COMMITS.to_string());
    }
    let events = end.events().await;
    let numbers: Vec<u64> = events.iter().map(|e| e.number).rev().collect();
    let expected: Vec<u64> = (0..end.state.head().next_event).collect();
    assert_eq!(numbers, expected);
}

pub(super) async fn many_applications_at_once(store: Arc<dyn Store>) {
    let tasks = (0..300).map(|n| {
        let store = store.clone();
        tokio::spawn(async move {
            let mut driver = Driver::new(&store, &format!("app-{n}")).await;
            for word in ["one", "two", "three"] {
                driver.report("u/0", word).await;
            }
            driver.check().await;
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    let recorder = Recorder::on(&store);
    assert_eq!(recorder.notified().len(), 300);
    if store.buckets() == 1 {
        assert_eq!(recorder.positions().last(), Some(&900));
    }
}

pub(super) async fn repeats_are_kept_and_told_to_nobody(store: Arc<dyn Store>) {
    let mut web = Driver::new(&store, "web").await;
    let recorder = Recorder::on(&store);
    let mut status = mk_status("workload", Level::Active, "here");
    Arc::make_mut(&mut status.report).ttl = Some(Duration::from_secs(60));
    let report = Command::Report(mk_reporter("web/0"), Kind::Push, status);
    let start = store.now();
    let repeat_at = async |web: &mut Driver, id: &str, seconds: u64| {
        let request = Request { id: Some(id.into()), command: report.clone() };
        let now = start.after(Duration::from_secs(seconds));
        let transition = web.draft_requests([request], now);
        web.commit(transition).await.unwrap();
    };
    repeat_at(&mut web, "first", 0).await;
    let notified = recorder.notified();
    repeat_at(&mut web, "second", 1).await;
    repeat_at(&mut web, "third", 50).await;
    assert_eq!(recorder.notified(), notified);
    assert_eq!(web.revision(), Revision(1));

    let records = store.load(&mk_app("web")).await.unwrap();
    let ids: Vec<&str> = records.requests.iter().map(|(id, _)| &**id).collect();
    assert_eq!(ids, ["first", "second", "third"]);
    let deadline = start.after(Duration::from_secs(50 + 60));
    assert_eq!(records.statuses[0].1.expire_time, Some(deadline));
    assert_eq!(records.head, *web.state.head());
    let sent_again = Recorder::on(&store);
    assert_eq!(sent_again.notified(), notified);

    // Answers to requests survive a deletion, its own answer included; no other record does.
    let id = "last".into();
    let now = store.now();
    let (deletion, _) = delete(&web.state, Some(&id), now).unwrap();
    web.commit(deletion.unwrap()).await.unwrap();
    let records = store.load(&mk_app("web")).await.unwrap();
    let ids: Vec<&str> = records.requests.iter().map(|(id, _)| &**id).collect();
    assert_eq!(ids, ["first", "last", "second", "third"]);
    assert!(records.units.is_empty() && records.statuses.is_empty());
}

/// No observer receives a quiet commit, so two processes may not know each other's answers.
pub(super) async fn a_request_is_answered_once([one, other]: Pair) {
    let mut first = Driver::new(&one, "web").await;
    first.report("web/0", "up").await;
    let mut second = Driver::new(&other, "web").await;
    let request =
        |id: &str, word| [Request { id: Some(id.into()), command: mk_report("web/0", word) }];
    let now = one.now();
    let repeat = first.draft_requests(request("once", "up"), now);
    assert!(!repeat.moves_revision());
    first.commit(repeat).await.unwrap();
    let conflict = mk_conflict(Revision(1), ConflictCause::Request);
    for word in ["up", "something else"] {
        let again = second.draft_requests(request("once", word), now);
        assert_eq!(second.commit(again).await, conflict);
    }
    // A deletion is not refused, even if it answers the same request.
    let (deletion, _) = delete(&second.state, Some(&"once".into()), now).unwrap();

    let mut second = Driver::new(&other, "web").await;
    let answered = second.draft_requests(request("once", "something else"), now);
    assert!(!answered.is_durable(), "it is known");
    // A request with another id succeeds, and so does the same one after its answer is too old.
    second.commit(second.draft_requests(request("other", "up"), now)).await.unwrap();
    assert_eq!(other.commit(Arc::new(deletion.unwrap())).await, Ok(()));
    // Nor does it remove an answer that its process does not know.
    let records = one.load(&mk_app("web")).await.unwrap();
    let ids: Vec<&str> = records.requests.iter().map(|(id, _)| &**id).collect();
    assert_eq!(ids, ["once", "other"]);
    let mut second = Driver::new(&other, "web").await;
    // A restart of the store is an outage, which does not count.
    let later = now.after(2 * REQUEST_TTL);
    let late = second.draft_requests(request("once", "late"), later);
    second.commit(late).await.unwrap();
    assert_eq!(second.revision(), Revision(3));
    second.check().await;
}

/// A fixed sequence of all kinds of requests.
pub(super) async fn what_is_loaded_is_what_was_replayed(store: Arc<dyn Store>) {
    let mut web = Driver::new(&store, "web").await;
    let mut dice = Dice(7);
    let mut now = store.now();
    for _ in 0..200 {
        now = now.after(Duration::from_millis(dice.roll(400)));
        let transition = match dice.roll(12) {
            0 if web.state.exists() => {
                let deleted = delete(&web.state, None, now);
                deleted.unwrap().0.unwrap()
            }
            _ => asked(&mut dice, &web.state, now),
        };
        web.commit(transition).await.unwrap();
        web.check().await;
        // The copy may schedule one look more than needed, never one less.
        let looks_at = |state: &AppState| state.next_due().map_or(u64::MAX, |at| at.millis());
        assert!(looks_at(&web.state) <= looks_at(&web.reload().await));
    }
}

/// Returns a transition of elapsed time and a few requests, some of which may be refused.
fn asked(dice: &mut Dice, state: &AppState, now: Timestamp) -> Transition {
    let limits = Limits::default();
    let mut draft = Draft::new(state, &limits, now);
    if dice.roll(3) == 0 {
        expire(&mut draft);
    }
    for _ in 0..dice.roll(4) {
        if let Some(request) = request(dice, state) {
            let _ = apply(&mut draft, &request);
        }
    }
    draft.finish()
}

/// Returns a random request without a ttl: deadlines that a repeat moved are only in memory.
fn request(dice: &mut Dice, state: &AppState) -> Option<Request> {
    let unit = format!("web/{}", dice.roll(12));
    let message = "m".repeat(dice.roll(40) as usize);
    let level = Level::ALL[dice.roll(7) as usize];
    let reporter = mk_reporter(&unit);
    let mut status = mk_status(["", "db", "net"][dice.roll(3) as usize], level, &message);
    let priority = dice.roll(3) as i32;
    let report = Report::clone(&status.report);
    status.report = Arc::new(report.with(Details { priority, ..Details::default() }));
    let command = match dice.roll(14) {
        0..=3 => Command::Report(reporter, Kind::Push, status),
        4 => {
            let second = mk_status("second", Level::Waiting, &message);
            let set = [mk_status("first", level, &message), second];
            let set = set[..dice.roll(3) as usize].to_vec();
            Command::Replace(reporter, None, set)
        }
        5 => Command::Configure(Box::new(ConfigPatch {
            policy: Some([Policy::Juju, Policy::OpenStack][dice.roll(2) as usize].clone()),
            lost_units: Some([LostUnits::Ignore, LostUnits::Blocked][dice.roll(2) as usize]),
            external_leader: Some(Some(UnitName::new(&unit).unwrap())),
            latches: Some(vec![Latch { scope: Scope::All, good_count: 2 + dice.roll(2) as u32 }]),
            hand_over: Some([None, Some("".into())][dice.roll(2) as usize].clone()),
            ..ConfigPatch::default()
        })),
        6 if dice.roll(2) == 0 => {
            let claim = Claim {
                unit: state.head().leader()?.clone(),
                lease_epoch: 0,
                decided_outside: false,
            };
            let set = [mk_status("", level, &message), mk_status("db", Level::Waiting, &message)];
            Command::ReplaceApplicationStatuses(claim, None, set[..dice.roll(3) as usize].to_vec())
        }
        6 => {
            let leader = state.head().leader()?.clone();
            Command::SetApplicationStatus(
                Claim { unit: leader, lease_epoch: 0, decided_outside: false },
                NewApplicationStatus {
                    mode: [Mode::Contribute, Mode::Override][dice.roll(2) as usize],
                    level,
                    message: message.into(),
                    reason: "".into(),
                    action: "".into(),
                    ttl: Some(Duration::from_secs(1 + dice.roll(5))),
                    observe_time: None,
                },
            )
        }
        11..=13 => super::operations::mk_order(dice.roll(1 << 20)),
        7..=9 => coming_or_going(dice, reporter, status),
        _ => {
            let reporter = Reporter {
                incarnation: Some(1 + dice.roll(1000) + state.head().revision.0 * 1000),
                ..reporter
            };
            Command::Report(reporter, Kind::Pull, status)
        }
    };
    Some(Request { id: Some((&*format!("id-{}", dice.roll(1 << 40))).into()), command })
}

/// Returns a command with which a unit appears or leaves.
fn coming_or_going(dice: &mut Dice, reporter: Reporter, status: NewStatus) -> Command {
    let replica = ReplicaId(1 + dice.roll(2));
    let session = SessionId { replica, number: dice.roll(3) };
    let ttl = Duration::from_secs(1);
    let unit = reporter.unit.clone();
    let labels = [("zone".into(), "a".into())].into();
    let who = Newcomer { unit, incarnation: None, stateless: dice.roll(2) == 0, labels };
    match dice.roll(8) {
        0..=2 => Command::Connect(who, session),
        3 => Command::Register(who, None),
        4 => Command::Disconnect { unit: who.unit, session, ttl, silent: true },
        5 => Command::EndSessions { replica, ttl },
        6 => Command::Depart { reporter, ttl },
        _ => Command::ReportAll(reporter, vec![(Kind::Push, status.clone()), (Kind::Pull, status)]),
    }
}

/// A generator of the same numbers each time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        let step = self.0.wrapping_mul(6_364_136_223_846_793_005);
        self.0 = step.wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}
