//! Single edge cases, each of which was wrong once or is easy to get wrong.

use std::sync::Arc;
use std::time::Duration;

use bellwether::domain::app::AppState;
use bellwether::domain::apply::apply;
use bellwether::domain::command::{Command, NewStatus, Request};
use bellwether::domain::delete::delete;
use bellwether::domain::draft::Draft;
use bellwether::domain::expire::expire;
use bellwether::domain::index::Index;
use bellwether::domain::leadership::Claim;
use bellwether::domain::leadership::status::{Mode, NewApplicationStatus};
use bellwether::domain::level::Level;
use bellwether::domain::limits::{EXPIRED_PER_COMMIT_MAX, Limits};
use bellwether::domain::name::{ApplicationNotFound, PartName, UnitName};
use bellwether::domain::policy::ConfigPatch;
use bellwether::domain::rejected::Rejected;
use bellwether::domain::replay::Records;
use bellwether::domain::request::RequestId;
use bellwether::domain::revision::Revision;
use bellwether::domain::silence::lose_unit;
use bellwether::domain::status::report::Report;
use bellwether::domain::status::{Freshness, Kind, StatusKey};
use bellwether::domain::time::Timestamp;
use bellwether::domain::transition::{Transition, Write};
use bellwether::domain::unit::presence::{ReplicaId, SessionId};
use bellwether::domain::unit::refused::{IdentityError, IncarnationsUsedUp};
use bellwether::domain::unit::{Newcomer, Reporter, Unit};

use crate::outages::outages;
use crate::world::app_name;

fn unit(name: &str) -> UnitName {
    UnitName::new(name).unwrap()
}

fn report(name: &str, key: &str, level: Level, ttl: Option<u64>) -> Command {
    let reporter = Reporter::new(unit(name), None);
    let new = NewStatus {
        component: PartName::default(),
        key: PartName::new(key).unwrap(),
        report: Arc::new(Report { level, ttl: ttl.map(Duration::from_secs), ..Report::default() }),
        observe_time: None,
    };
    Command::Report(reporter, Kind::Push, new)
}

fn with_id(id: String, command: Command) -> Request {
    Request { id: Some((&*id).into()), command }
}

/// Commits at `now` seconds and returns the transition.
fn commit(state: &mut AppState, now: u64, requests: &[Request]) -> Transition {
    commit_within(state, now, requests, &Limits::default())
}

fn commit_within(
    state: &mut AppState,
    now: u64,
    requests: &[Request],
    limits: &Limits,
) -> Transition {
    let mut draft = Draft::new(state, limits, Timestamp::new(now * 1000));
    for request in requests {
        apply(&mut draft, request).unwrap();
    }
    let transition = draft.finish();
    state.replay(&transition);
    transition
}

fn run(state: &mut AppState, now: u64, commands: &[Command]) -> Transition {
    let requests = commands.iter().cloned();
    let requests = requests.map(|command| Request { id: None, command });
    commit(state, now, &requests.collect::<Vec<_>>())
}

/// Applies only the changes by time, in one commit.
fn pass(state: &mut AppState, now: u64) -> Transition {
    let limits = Limits::default();
    let mut draft = Draft::new(state, &limits, Timestamp::new(now * 1000));
    expire(&mut draft);
    let transition = draft.finish();
    state.replay(&transition);
    transition
}

fn empty() -> AppState {
    AppState::empty(app_name(), Revision(0))
}

#[test]
fn a_batch_forgets_no_more_answers_than_it_must() {
    let limits = Limits { request_ids_max: 8, ..Limits::default() };
    let mut state = empty();
    let ask = |n: usize| with_id(format!("r{n}"), report("web/0", "", Level::Active, None));
    for n in 0..8 {
        commit_within(&mut state, n as u64, &[ask(n)], &limits);
    }
    let batch: Vec<Request> = (8..12).map(ask).collect();
    let transition = commit_within(&mut state, 8, &batch, &limits);
    let forgotten = transition.writes.iter().filter_map(|write| match write {
        Write::Request(id, None) => Some(&**id),
        _ => None,
    });
    assert_eq!(forgotten.collect::<Vec<_>>(), ["r0", "r1", "r2", "r3"]);
    let again: Vec<Request> = (4..12).map(ask).collect();
    assert!(!commit_within(&mut state, 9, &again, &limits).is_durable());
}

#[test]
fn a_level_that_is_back_within_a_commit_begins_anew() {
    let mut state = empty();
    run(&mut state, 1, &[report("web/0", "", Level::Waiting, None)]);
    let levels = [Level::Active, Level::Waiting].map(|level| report("web/0", "", level, None));
    run(&mut state, 2, &levels);
    let since: Vec<Timestamp> = state.ranked().map(|rank| rank.since).collect();
    assert_eq!(since, [Timestamp::new(2000)]);
}

#[test]
fn an_answer_counts_for_ten_minutes_even_if_it_is_kept_longer() {
    let mut state = empty();
    let ask = with_id("r".to_string(), report("web/0", "", Level::Active, None));
    commit(&mut state, 0, std::slice::from_ref(&ask));
    run(&mut state, 1, &[Command::RemoveUnit(unit("web/0"))]);
    commit(&mut state, 599, std::slice::from_ref(&ask));
    assert!(state.unit(&unit("web/0")).is_none());
    commit(&mut state, 600, &[ask]);
    assert!(state.unit(&unit("web/0")).is_some());
}

/// A clock of the store that is set ahead is an outage too: a request that was sent before it must
/// not be applied again after it.
#[test]
fn an_answer_counts_for_ten_minutes_without_outages() {
    let mut state = empty();
    let ask = with_id("r".to_string(), report("web/0", "", Level::Active, None));
    commit(&mut state, 0, std::slice::from_ref(&ask));
    run(&mut state, 1, &[Command::RemoveUnit(unit("web/0"))]);
    state.note_outages(&outages(10, 3_010));
    commit(&mut state, 3_599, std::slice::from_ref(&ask));
    assert!(state.unit(&unit("web/0")).is_none());
    commit(&mut state, 3_600, &[ask]);
    assert!(state.unit(&unit("web/0")).is_some());
}

#[test]
fn a_batch_keeps_no_deadline_of_a_status_that_it_writes_again() {
    let mut state = empty();
    let brief = report("web/0", "", Level::Active, Some(90));
    run(&mut state, 0, std::slice::from_ref(&brief));
    let lasting = report("web/0", "", Level::Active, None);
    let transition = run(&mut state, 1, &[brief, lasting]);
    assert!(transition.memory_only.deadlines.is_empty());
    let status = state.status(&push_of("web/0")).unwrap();
    assert_eq!(status.expire_time, None);
    assert_eq!(state.unit(&unit("web/0")).unwrap().ttl_count, 0);
    pass(&mut state, 1000);
    assert_eq!(state.next_due(), None);
}

fn push_of(name: &str) -> StatusKey {
    StatusKey::new(unit(name), PartName::default(), PartName::default(), Kind::Push)
}

#[test]
fn the_record_of_a_unit_has_the_time_of_this_change() {
    let mut state = empty();
    run(&mut state, 0, &[report("web/0", "", Level::Active, None)]);
    let seen = |transition: &Transition| {
        transition.writes.iter().find_map(|write| match write {
            Write::Unit(_, Some(unit)) => Some(unit.last_seen),
            _ => None,
        })
    };
    // Another level leaves the unit as it is: its contact is kept in memory.
    let transition = run(&mut state, 7, &[report("web/0", "", Level::Blocked, None)]);
    assert_eq!(seen(&transition), None);
    assert_eq!(state.unit(&unit("web/0")).unwrap().last_seen, Timestamp::new(7000));
    let transition = run(&mut state, 9, &[report("web/0", "k", Level::Blocked, None)]);
    assert_eq!(seen(&transition), Some(Timestamp::new(9000)));
}

#[test]
fn the_answer_to_a_deletion_outlives_what_is_asked_in_vain() {
    let mut state = empty();
    run(&mut state, 0, &[report("web/0", "", Level::Active, None)]);
    let id = RequestId::from("d");
    let (transition, outcome) = delete(&state, Some(&id), Timestamp::new(1000)).unwrap();
    state.replay(&transition.unwrap());
    let before = state.clone();
    run(&mut state, 2, &[]);
    pass(&mut state, 3);
    assert_eq!(state, before);
    let again = delete(&state, Some(&id), Timestamp::new(4000)).unwrap();
    assert_eq!(again, (None, outcome));
    let other = delete(&state, None, Timestamp::new(4000));
    assert_eq!(other, Err(ApplicationNotFound.into()));
}

/// A push is contact, but it does not fulfil the ttl of another status.
#[test]
fn a_unit_that_reported_another_key_can_still_be_lost() {
    let mut state = empty();
    run(&mut state, 0, &[report("web/0", "", Level::Active, Some(30))]);
    pass(&mut state, 30);
    run(&mut state, 100, &[report("web/0", "k", Level::Active, None)]);
    let repeat = run(&mut state, 200, &[report("web/0", "k", Level::Active, None)]);
    assert!(!repeat.moves_revision() && repeat.events.is_empty());
    pass(&mut state, 319);
    assert_eq!(state.unit(&unit("web/0")).unwrap().freshness(), Freshness::Stale);
    pass(&mut state, 320);
    assert_eq!(state.unit(&unit("web/0")).unwrap().freshness(), Freshness::Lost);
    assert_eq!(state.next_due(), None);
}

/// The unit was lost before, but until now another status kept the application blocked.
#[test]
fn a_revealed_level_begins_at_its_reveal() {
    let mut state = empty();
    run(&mut state, 0, &[report("web/0", "", Level::Active, Some(30))]);
    run(&mut state, 1, &[report("web/1", "", Level::Blocked, None)]);
    pass(&mut state, 30);
    pass(&mut state, 150);
    assert_eq!(state.unit(&unit("web/0")).unwrap().lost_since, Some(Timestamp::new(150_000)));
    run(&mut state, 200, &[report("web/1", "", Level::Active, None)]);
    let summary = &state.head().summary;
    assert_eq!((summary.level, summary.since), (Level::Waiting, Timestamp::new(200_000)));
}

#[test]
fn the_level_unknown_is_the_same_reported_or_not() {
    let mut state = empty();
    run(&mut state, 1, &[Command::Configure(Box::default())]);
    run(&mut state, 5, &[report("web/0", "", Level::Unknown, None)]);
    assert_eq!(state.head().summary.since, Timestamp::new(1000));
    run(&mut state, 9, &[Command::RemoveUnit(unit("web/0"))]);
    assert_eq!(state.head().summary.since, Timestamp::new(1000));
}

/// Else it would grow with each unit that ever was.
#[test]
fn an_index_without_contributions_is_empty() {
    let mut state = empty();
    run(&mut state, 1, &[report("web/0", "", Level::Active, None)]);
    let rank = state.ranked().next().unwrap().clone();
    let mut index = Index::default();
    index.insert(rank.clone());
    assert_ne!(index, Index::default());
    index.remove(&rank);
    assert_eq!(index, Index::default());
}

/// Its new expiry must be stored, so the revision moves; but no event is added.
#[test]
fn a_leader_that_repeats_itself_makes_no_history() {
    let mut state = empty();
    let claim = Claim { unit: unit("web/0"), lease_epoch: 0, decided_outside: false };
    let leader = Some(Some(claim.unit.clone()));
    let configure = Command::Configure(Box::new(ConfigPatch {
        external_leader: leader,
        ..ConfigPatch::default()
    }));
    let says = Command::SetApplicationStatus(
        claim,
        NewApplicationStatus {
            mode: Mode::Override,
            level: Level::Waiting,
            message: "".into(),
            reason: "".into(),
            action: "".into(),
            ttl: Some(Duration::from_secs(60)),
            observe_time: None,
        },
    );
    run(&mut state, 0, &[configure, says.clone()]);
    let transition = run(&mut state, 50, &[says]);
    assert!(transition.is_durable() && transition.events.is_empty());
    pass(&mut state, 109);
    assert_eq!(state.head().summary.level, Level::Waiting);
    pass(&mut state, 110);
    assert_eq!(state.head().summary.level, Level::Unknown);
}

/// A server outage is not the units' failure: after it, every unit gets the time that was left.
#[test]
fn an_outage_moves_a_ttl_and_a_silence() {
    let mut state = empty();
    let commands = [
        report("web/0", "", Level::Active, Some(30)),
        report("web/1", "", Level::Active, Some(60)),
    ];
    run(&mut state, 0, &commands);
    pass(&mut state, 30);
    state.note_outages(&outages(40, 1_000));
    pass(&mut state, 1_019);
    assert_eq!(state.unit(&unit("web/1")).unwrap().freshness(), Freshness::Fresh);
    pass(&mut state, 1_020);
    assert_eq!(state.unit(&unit("web/1")).unwrap().freshness(), Freshness::Stale);
    pass(&mut state, 1_109);
    assert_eq!(state.unit(&unit("web/0")).unwrap().lost_since, None);
    pass(&mut state, 1_110);
    assert_eq!(state.unit(&unit("web/0")).unwrap().freshness(), Freshness::Lost);
}

#[test]
fn due_changes_over_one_commit_are_committed_in_several() {
    let mut state = empty();
    let units = 0..=EXPIRED_PER_COMMIT_MAX;
    let commands = units.map(|n| report(&format!("web/{n}"), "", Level::Active, Some(30)));
    run(&mut state, 0, &commands.collect::<Vec<_>>());
    let first = pass(&mut state, 30);
    assert_eq!(first.head.summary.totals.stale_units as usize, EXPIRED_PER_COMMIT_MAX);
    assert_eq!(state.next_due(), Some(Timestamp::new(30_000)));
    let second = pass(&mut state, 30);
    assert_eq!(second.head.summary.totals.stale_units as usize, EXPIRED_PER_COMMIT_MAX + 1);
    assert_eq!(state.next_due(), Some(Timestamp::new(150_000)));
}

/// An entry that is no longer due must not come up repeatedly.
#[test]
fn deadlines_moved_by_repeats_are_examined_once() {
    let mut state = empty();
    let again = report("web/0", "", Level::Active, Some(90));
    run(&mut state, 0, std::slice::from_ref(&again));
    let repeated = run(&mut state, 29, std::slice::from_ref(&again));
    assert!(!repeated.is_durable());
    assert_eq!(repeated.memory_only.deadlines.len(), 1);
    let written = run(&mut state, 30, std::slice::from_ref(&again));
    assert!(written.is_durable() && !written.moves_revision());
    run(&mut state, 31, &[again]);
    assert!(!pass(&mut state, 120).is_durable());
    assert_eq!(state.next_due(), Some(Timestamp::new(121_000)));
}

// === the life of units ===

fn register(name: &str, incarnation: Option<u64>, ttl: Option<u64>) -> Command {
    let labels = std::collections::BTreeMap::new();
    let who = Newcomer { unit: unit(name), incarnation, stateless: false, labels };
    Command::Register(who, ttl.map(Duration::from_secs))
}

fn refusal(state: &AppState, now: u64, command: Command) -> Option<Rejected> {
    let limits = Limits::default();
    let mut draft = Draft::new(state, &limits, Timestamp::new(now * 1000));
    apply(&mut draft, &Request { id: None, command }).err()
}

fn speaks(name: &str, incarnation: u64) -> Command {
    Command::ReportAll(Reporter::new(unit(name), Some(incarnation)), Vec::new())
}

/// Many request ids of one client must not evict fences, or the reverse.
#[test]
fn answers_and_fences_have_separate_limits() {
    let limits = Limits { request_ids_max: 8, units_max: 8, ..Limits::default() };
    let mut state = empty();
    run(&mut state, 0, &[register("web/0", None, None)]);
    run(&mut state, 1, &[Command::RemoveUnit(unit("web/0"))]);
    for n in 0..20 {
        let ask = with_id(format!("r{n}"), report("web/1", "", Level::Active, None));
        commit_within(&mut state, 2 + n, &[ask], &limits);
    }
    let removed = Some(IdentityError::UnitRemoved { unit: unit("web/0"), given: 1 }.into());
    assert_eq!(refusal(&state, 30, speaks("web/0", 1)), removed);
    for n in 2..20 {
        let name = format!("web/{n}");
        commit_within(
            &mut state,
            30 + n,
            &[
                Request { id: None, command: register(&name, None, None) },
                Request { id: None, command: Command::RemoveUnit(unit(&name)) },
            ],
            &limits,
        );
    }
    assert_eq!(refusal(&state, 60, speaks("web/0", 1)), None, "the oldest fence is forgotten");
    let again = with_id("r12".into(), report("web/1", "", Level::Blocked, None));
    assert!(!commit_within(&mut state, 60, &[again], &limits).is_durable());
}

/// A unit without an incarnation may begin again after a removal; the fence stays.
#[test]
fn a_fence_holds_after_another_incarnation_of_the_unit() {
    let mut state = empty();
    run(&mut state, 0, &[register("web/0", Some(5), None)]);
    run(&mut state, 1, &[Command::RemoveUnit(unit("web/0"))]);
    run(&mut state, 11, &[report("web/0", "", Level::Active, None)]);
    let removed = Some(IdentityError::UnitRemoved { unit: unit("web/0"), given: 5 }.into());
    assert_eq!(refusal(&state, 12, speaks("web/0", 5)), removed);
    run(&mut state, 13, &[register("web/0", None, None)]);
    assert_eq!(state.unit(&unit("web/0")).unwrap().incarnation, 6);
}

#[test]
fn an_incarnation_that_was_never_given_out_is_refused() {
    let mut state = empty();
    run(&mut state, 0, &[register("web/0", None, None)]);
    let refused = |state: &AppState, given: u64, current: u64| {
        let unit = unit("web/0");
        let expected = Some(IdentityError::UnknownIncarnation { unit, given, current }.into());
        for command in [speaks("web/0", given), register("web/0", Some(given), None)] {
            assert_eq!(refusal(state, 1, command), expected, "{given}");
        }
    };
    for given in [u64::MAX, (1 << 63) + 1, (1 << 32) + 2] {
        refused(&state, given, 1);
    }
    assert_eq!(refusal(&state, 1, speaks("web/0", (1 << 32) + 1)), None);
    // A fence is an assigned incarnation, so later ones may follow.
    run(&mut state, 1, &[speaks("web/0", 1 << 32), Command::RemoveUnit(unit("web/0"))]);
    assert_eq!(refusal(&state, 2, speaks("web/0", 1 << 33)), None);
    refused(&state, (1 << 33) + 1, 1 << 32);
}

/// A report can raise the incarnation only so far that as many remain to be assigned.
#[test]
fn reports_cannot_use_up_the_incarnations_of_a_unit() {
    let mut state = empty();
    run(&mut state, 0, &[register("web/0", None, None)]);
    for known in [(1 << 63) - (1 << 32), 1 << 63] {
        state = with_incarnation(state, known - 1);
        run(&mut state, 0, &[speaks("web/0", known)]);
        run(&mut state, 1, &[register("web/0", None, None)]);
        let begun = state.unit(&unit("web/0")).unwrap().incarnation;
        assert_eq!(begun, known + 1);
        assert_eq!(refusal(&state, 2, speaks("web/0", begun)), None);
    }
    let given = (1 << 63) + 2;
    let refused = refusal(&state, 3, speaks("web/0", given));
    let is_unknown =
        matches!(refused, Some(Rejected::Identity(IdentityError::UnknownIncarnation { .. })));
    assert!(is_unknown, "{refused:?}");
    // An incarnation accepted by an earlier version causes no panic, and no second worker of the
    // same incarnation.
    let last = with_incarnation(state, u64::MAX);
    let refused = refusal(&last, 3, register("web/0", None, None));
    assert_eq!(refused, Some(IncarnationsUsedUp { unit: unit("web/0") }.into()));
    assert_eq!(refusal(&last, 3, speaks("web/0", u64::MAX)), None);
}

/// Returns the state with another stored incarnation of the unit.
fn with_incarnation(state: AppState, incarnation: u64) -> AppState {
    let known = state.unit(&unit("web/0")).unwrap().clone();
    let unit = (unit("web/0"), Unit { incarnation, ..known });
    let records = Records { units: vec![unit], ..Records::of_head(state.head().clone()) };
    AppState::load(app_name(), records)
}

/// An outage moves the earlier promise, not the next one.
#[test]
fn a_new_deadline_is_judged_on_its_own() {
    let mut state = empty();
    run(&mut state, 0, &[register("web/0", None, Some(1_000_000))]);
    state.note_outages(&outages(1, 10));
    run(&mut state, 11, &[register("web/0", Some(1), Some(30))]);
    pass(&mut state, 40);
    assert_eq!(state.unit(&unit("web/0")).unwrap().freshness(), Freshness::Fresh);
    pass(&mut state, 41);
    assert_eq!(state.unit(&unit("web/0")).unwrap().freshness(), Freshness::Stale);
}

/// Each replica keeps its own contacts; a write by another replica does not undo them.
#[test]
fn a_commit_of_another_replica_does_not_undo_contacts() {
    let mut here = empty();
    let commands =
        [register("web/0", None, Some(90)), report("web/0", "", Level::Active, Some(20))];
    run(&mut here, 0, &commands);
    let mut elsewhere = here.clone();
    assert!(!run(&mut here, 19, &[speaks("web/0", 1)]).is_durable());
    here.replay(&pass(&mut elsewhere, 20));
    let known = here.unit(&unit("web/0")).unwrap();
    assert_eq!(known.last_seen, Timestamp::new(19_000));
    assert_eq!(known.last_seen_written, Timestamp::new(0));
    pass(&mut here, 108);
    assert_eq!(here.unit(&unit("web/0")).unwrap().quiet_since, None);
    pass(&mut here, 109);
    assert!(here.unit(&unit("web/0")).unwrap().quiet_since.is_some());
}

#[test]
fn a_message_of_both_kinds_is_counted_as_one() {
    let limits =
        Limits { statuses_per_unit_max: 3, keys_per_component_max: 3, ..Limits::default() };
    let of = |kind: Kind, keys: &[&str]| {
        let new = keys.iter().map(|key| match report("web/0", key, Level::Active, None) {
            Command::Report(_, _, new) => (kind, new),
            _ => unreachable!(),
        });
        new.collect::<Vec<_>>()
    };
    let all = |set| Command::ReportAll(Reporter::new(unit("web/0"), None), set);
    let state = empty();
    let mut draft = Draft::new(&state, &limits, Timestamp::new(0));
    let mut ask = |command| apply(&mut draft, &Request { id: None, command });
    let four = [of(Kind::Pull, &["a", "b"]), of(Kind::Push, &["a", "b"])].concat();
    assert!(matches!(ask(all(four)), Err(Rejected::LimitExceeded(_))));
    let twice = [of(Kind::Pull, &["a", "b"]), of(Kind::Push, &["a"]), of(Kind::Pull, &["a"])];
    assert!(ask(all(twice.concat())).is_ok());
}

/// A lost unit cannot become quiet, and must not stay due for ever.
#[test]
fn a_lost_unit_whose_session_ends_in_silence_stays_lost() {
    let mut state = empty();
    let session = SessionId { replica: ReplicaId(1), number: 1 };
    let who = Newcomer {
        unit: unit("web/0"),
        incarnation: None,
        stateless: false,
        labels: std::collections::BTreeMap::new(),
    };
    run(&mut state, 0, &[Command::Connect(who, session)]);
    let limits = Limits::default();
    let mut draft = Draft::new(&state, &limits, Timestamp::new(1000));
    lose_unit(&mut draft, &unit("web/0"));
    let transition = draft.finish();
    state.replay(&transition);
    let (ttl, silent) = (Duration::from_secs(30), true);
    run(&mut state, 2, &[Command::Disconnect { unit: unit("web/0"), session, ttl, silent }]);
    assert_eq!(state.next_due(), None);
    assert!(state.head().sessions.is_empty());
}

/// A unit that reports every second of a promise for a month is due once, not two million times.
#[test]
fn a_kept_deadline_is_examined_once() {
    let mut state = empty();
    run(&mut state, 0, &[register("web/0", None, Some(30))]);
    for now in 1..=28 {
        let level = [Level::Active, Level::Waiting][usize::from(now % 4 < 2)];
        run(&mut state, now, &[report("web/0", "", level, None)]);
    }
    // As of the last record, which is written every third of the promise. One look corrects it.
    assert_eq!(state.next_due(), Some(Timestamp::new(51_000)));
    assert!(!pass(&mut state, 51).is_durable());
    assert_eq!(state.next_due(), Some(Timestamp::new(58_000)));
}
