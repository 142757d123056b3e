//! Invariants that hold after every commit.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bellwether::domain::app::{AppState, Head};
use bellwether::domain::apply::apply;
use bellwether::domain::command::{Command, NewStatus, Request};
use bellwether::domain::derive::derive;
use bellwether::domain::draft::Draft;
use bellwether::domain::level::Level;
use bellwether::domain::limits::Limits;
use bellwether::domain::name::UnitName;
use bellwether::domain::policy::ConfigPatch;
use bellwether::domain::rank::{Origin, Rank};
use bellwether::domain::revision::Revision;
use bellwether::domain::status::{Freshness, Kind, StatusKey};
use bellwether::domain::summary::Rule;
use bellwether::domain::time::Timestamp;
use bellwether::domain::unit::presence::{Presence, ReplicaId, SessionId};
use bellwether::domain::unit::{Newcomer, Reporter};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::commands::{Step, new_status, patch, steps, unit};
use crate::holds::{Damped, Flapping, Reported};
use crate::model::{Contribution, Counts, Status, Unit};
use crate::world::{World, app_name, ranked};

proptest! {
    #[test]
    fn the_core_agrees_with_the_model(steps in steps()) {
        let mut world = World::new();
        for step in &steps {
            world.step(step);
        }
    }

    #[test]
    fn a_repeat_changes_nothing_but_deadlines(steps in steps(), pick in any::<usize>()) {
        let mut world = World::new();
        for step in &steps {
            world.step(step);
        }
        check_repeat(&world, pick);
    }

    /// The order of reports never decides.
    #[test]
    fn the_order_of_reports_does_not_matter(
        (patch, mut reports, shuffled) in permuted()
    ) {
        let mut seen = BTreeSet::new();
        let mut identity = |(unit, kind, new): &(UnitName, Kind, NewStatus)| {
            seen.insert((unit.clone(), *kind, new.component.clone(), new.key.clone()))
        };
        reports.retain(|report| identity(report));
        let shuffled: Vec<_> = shuffled.into_iter().filter(|r| reports.contains(r)).collect();
        let (one, other) = (report_all(&patch, &reports), report_all(&patch, &shuffled));
        let shown = |state: &AppState| {
            let mut summary = (*state.head().summary).clone();
            summary.since = Timestamp::new(0);
            summary
        };
        prop_assert_eq!(shown(&one), shown(&other));
        prop_assert!(ranked(&one) == ranked(&other));
        // The lack of a quorum begins with the level of the application, as in the summary.
        let derived = |state: &AppState| {
            let mut derived = derive(state, 100);
            let lacking = derived.winner.as_mut().filter(|w| w.rank.origin == Origin::Quorum);
            if let Some(lacking) = lacking {
                lacking.rank.since = Timestamp::new(0);
            }
            derived
        };
        prop_assert_eq!(derived(&one), derived(&other));
    }
}

/// A restart allows for contacts at other replicas. A session that opens and ends in one commit
/// ends that allowance, as in two commits.
#[test]
fn a_session_within_one_commit_begins_a_new_promise() {
    let unit = UnitName::new("web/0").unwrap();
    let newcomer = || Newcomer {
        unit: unit.clone(),
        incarnation: Some(3),
        stateless: false,
        labels: BTreeMap::new(),
    };
    let ttl = Duration::from_secs(30);
    let session = SessionId { replica: ReplicaId(1), number: 0 };
    let commit = |commands: Vec<Command>| {
        let requests = commands.into_iter().map(|command| Request { id: None, command });
        Step::Commit(false, requests.collect())
    };
    let mut world = World::new();
    world.step(&commit(vec![Command::Register(newcomer(), Some(ttl))]));
    world.step(&Step::Restart);
    assert_eq!(world.state.next_due(), Some(Timestamp::new(1000 + 30_000 + 10_000)));
    let end_sessions = Command::EndSessions { replica: session.replica, ttl };
    world.step(&commit(vec![Command::Connect(newcomer(), session), end_sessions]));
    assert_eq!(world.state.next_due(), Some(Timestamp::new(1000 + 30_000)));
}

type Reports = Vec<(UnitName, Kind, NewStatus)>;

fn permuted() -> impl Strategy<Value = (ConfigPatch, Reports, Reports)> {
    let kind = prop_oneof![Just(Kind::Push), Just(Kind::Pull)];
    let reports = vec((unit(), kind, new_status()), 1..12);
    (patch(), reports).prop_flat_map(|(patch, reports)| {
        let shuffled = Just(reports.clone()).prop_shuffle();
        (Just(patch), Just(reports), shuffled)
    })
}

fn report_all(patch: &ConfigPatch, reports: &Reports) -> AppState {
    let mut state = AppState::empty(app_name(), Revision(0));
    let commands = reports.iter().map(|(unit, kind, new)| {
        let reporter = Reporter::new(unit.clone(), None);
        Command::Report(reporter, *kind, new.clone())
    });
    let configure = Command::Configure(Box::new(patch.clone()));
    for command in std::iter::once(configure).chain(commands) {
        let limits = Limits::default();
        let mut draft = Draft::new(&state, &limits, Timestamp::new(5000));
        apply(&mut draft, &Request { id: None, command }).unwrap();
        let transition = draft.finish();
        state.replay(&transition);
    }
    state
}

// === one state ===

/// Checks the state against the model, the store and the deadlines.
pub fn check(world: &World) {
    let (state, model) = (&world.state, &world.model);
    let expected = model.contributions();
    let found: Vec<Contribution> = state.ranked().map(|r| contribution(state, r)).collect();
    assert_eq!(found, expected);
    let scratch = state.contributions_from_scratch();
    assert!(ranked(state) == scratch.into_iter().collect::<Vec<Rank>>());
    model.check_holds();
    let head = state.head();
    assert_eq!(state.exists(), model.exists);
    assert_eq!(head.revision.0, model.revision);
    assert_eq!(head.losses, model.losses);
    assert_eq!(head.sessions, model.sessions());
    let (level, message) = model.result();
    assert_eq!(head.summary.level, level);
    assert!(head.summary.message.starts_with(&message), "{:?}", head.summary);
    assert_eq!(counts(head), model.counts());
    check_rule(world, &expected);
    check_units(world);
    check_statuses(world);
    check_derived(world, &model.ordered());
    check_deadlines(world);
    check_loaded(world);
}

fn contribution(state: &AppState, rank: &Rank) -> Contribution {
    let status = state.status(&rank.key);
    let leader = state.head().application_status.as_ref();
    let (origin, message) = match rank.origin {
        Origin::Leader => ("leader", leader.unwrap().message.to_string()),
        Origin::Lost => ("lost", words(state, rank)),
        Origin::Uncertain => {
            ("uncertain", format!("unit {} uncertain: the store may have lost its", rank.key.unit))
        }
        Origin::Operation => panic!("nobody began one"),
        Origin::Fault => panic!("no command of this model opens one"),
        Origin::Quorum => panic!("no unit contributes it"),
        Origin::Reported(Kind::Pull) => ("pull", status.unwrap().report.message.to_string()),
        Origin::Reported(Kind::Push) => ("push", status.unwrap().report.message.to_string()),
    };
    Contribution {
        unit: rank.key.unit.to_string(),
        component: rank.key.component.as_str().to_string(),
        key: rank.key.key.as_str().to_string(),
        origin,
        level: rank.level,
        precedence: rank.precedence,
        priority: rank.priority,
        since: rank.since.millis(),
        asks: rank.asks,
        flaps: rank.flaps,
        message,
        places: (rank.place.in_unit(), rank.place.in_component()),
    }
}

/// Returns the message of a contribution, as in the explanation of the status.
fn words(state: &AppState, rank: &Rank) -> String {
    let derived = derive(state, 1000);
    let mut all = derived.winner.iter().chain(&derived.others);
    all.find(|one| one.rank == *rank).unwrap().words.message.to_string()
}

fn counts(head: &Head) -> Counts {
    let totals = &head.summary.totals;
    Counts {
        active_units: totals.active_units,
        units: totals.units,
        units_by_level: totals.units_by_level,
        stale_units: totals.stale_units,
        lost_units: totals.lost_units,
        uncertain_units: totals.uncertain_units,
        contributions: totals.contributions,
        asking: totals.asking,
        flapping: totals.flapping,
    }
}

fn check_rule(world: &World, expected: &[Contribution]) {
    let overrides = world.model.leader_says.as_ref().is_some_and(|s| s.overrides);
    match (&world.state.head().summary.rule, expected) {
        (Rule::Override, _) => assert!(overrides),
        (Rule::Quorum(turnout), _) => {
            assert!(!overrides && world.model.is_decided_by_quorum());
            let quorum = world.model.quorum().unwrap();
            assert_eq!(turnout.words(), quorum.words());
        }
        (rule, _) if world.model.is_decided_by_quorum() => assert_eq!(*rule, Rule::Override),
        (Rule::Nothing, []) | (Rule::Only, [_]) => assert!(!overrides),
        (Rule::Beat { by, .. }, [first, second, ..]) => {
            assert!(!overrides);
            assert_eq!(format!("{by:?}"), world.model.rule_between(first, second));
        }
        (rule, _) => panic!("{rule:?} for {expected:?}"),
    }
}

fn check_units(world: &World) {
    let model = &world.model;
    assert_eq!(world.state.units_after(None).count(), model.units.len());
    for expected in &model.units {
        let name = UnitName::new(&expected.name).unwrap();
        let found = world.state.unit(&name).unwrap();
        assert_eq!(found.incarnation, expected.incarnation);
        assert_eq!(found.lost_since.map(|t| t.millis()), expected.lost_since);
        assert_eq!(found.uncertain_since.map(|t| t.millis()), expected.uncertain_since);
        assert_eq!(found.silence_ends.map(|t| t.millis()), expected.silence_ends, "{name}");
        assert_eq!(found.quiet_since.map(|t| t.millis()), expected.quiet_since, "{name}");
        assert_eq!(found.presence, expected.presence);
        assert_eq!(found.last_seen.millis(), expected.last_seen, "{name}");
        assert_eq!(
            (found.stateless, found.has_departed()),
            (expected.stateless, expected.departed)
        );
        assert_eq!((&found.labels, found.began.millis()), (&expected.labels, expected.began));
        assert_eq!(found.last_answer.millis(), expected.last_answer, "{name}");
        assert_eq!(found.callbacks, expected.callbacks, "{name}");
        let of = || model.of(&expected.name);
        assert_eq!(found.status_count as usize, of().count());
        assert_eq!(found.ttl_count as usize, of().filter(|s| s.ends.is_some()).count());
        assert_eq!(found.stale_count as usize, of().filter(|s| s.stale).count());
        assert_eq!(found.stale_since.is_some(), of().any(|s| s.stale));
        let outlived = of().filter(|s| model.is_outlived(s)).count();
        assert_eq!(found.outlived_count as usize, outlived);
        let contributions = model.contributions();
        let level = contributions.iter().find(|c| c.unit == expected.name);
        let strongest = world.state.strongest_of(&name);
        assert_eq!(strongest.map(|r| r.level), level.map(|c| c.level));
    }
}

fn check_statuses(world: &World) {
    assert_eq!(world.state.status_count(), world.model.statuses.len());
    let first = StatusKey::first_of(&UnitName::application());
    for (key, found) in world.state.statuses().from(&first) {
        let mut expected = world.model.statuses.iter().filter(|s| same_key(key, s));
        let expected = expected.next().unwrap();
        assert_eq!(*found.report, expected.report);
        assert_eq!(found.since.millis(), expected.since);
        assert_eq!(found.expire_time.map(|t| t.millis()), expected.ends, "{key:?}");
        assert_eq!(found.end_time.map(|t| t.millis()), expected.over, "{key:?}");
        assert_eq!(found.stale, expected.stale);
        assert_eq!(found.incarnation, expected.incarnation);
        let outlived =
            world.state.unit(&key.unit).is_some_and(|unit| unit.has_outlived(key, found));
        assert_eq!(outlived, world.model.is_outlived(expected));
        assert_eq!(held(found), expected.held, "{key:?}");
        let mut bits = expected.results.clone();
        bits.splice(0..0, [false; 20]);
        assert_eq!(results(found), bits[bits.len() - 20..], "{key:?}");
    }
}

fn held(status: &bellwether::domain::status::Status) -> Option<Damped> {
    let held = status.held.as_ref()?;
    Some(Damped {
        latest: held.latest.as_ref().map(|said| Reported {
            report: (*said.report).clone(),
            incarnation: said.incarnation,
            observed: said.observe_time.map(|at| at.millis()),
        }),
        good: held.good_count,
        flapping: held
            .flapping
            .map(|f| Flapping { since: f.since.millis(), calm: f.calm_time.millis() }),
    })
}

/// Returns the results that count for flapping, the oldest first.
pub fn results(status: &bellwether::domain::status::Status) -> Vec<bool> {
    let bits = serde_json::to_value(status.swings).unwrap().as_u64().unwrap();
    (0..20).map(|place| bits >> place & 1 == 1).collect()
}

pub fn same_key(key: &StatusKey, status: &Status) -> bool {
    key.unit.as_str() == status.unit
        && key.component.as_str() == status.component
        && key.key.as_str() == status.key
        && key.kind == status.kind
}

fn check_derived(world: &World, expected: &[Contribution]) {
    let overrides = world.state.head().summary.rule == Rule::Override;
    for others_max in [0, 1, 3, 1000] {
        let derived = derive(&world.state, others_max);
        let missed = world.model.missed_quorum().filter(|_| !overrides);
        let winner = derived.winner.as_ref().filter(|_| missed.is_none());
        if let Some(missed) = &missed {
            let lack = derived.winner.as_ref().unwrap();
            assert_eq!((lack.rank.level, &*lack.words.message), (Level::Waiting, &**missed));
            assert_eq!(lack.rank.origin, Origin::Quorum);
        }
        let winners = usize::from(winner.is_some());
        assert_eq!(winner.is_some(), !overrides && missed.is_none() && !expected.is_empty());
        assert_eq!(derived.others_count, expected.len() - winners);
        assert_eq!(derived.others.len(), others_max.min(derived.others_count));
        let listed = winner.into_iter().chain(&derived.others);
        for (found, expected) in listed.zip(expected) {
            assert_eq!(contribution(&world.state, &found.rank), *expected);
            assert!(found.words.message.starts_with(&expected.message));
            let wins = found.beaten_by.is_empty();
            assert_eq!(wins, winners == 1 && *expected == world.model.ordered()[0]);
            let is_within = found.beaten_by == "within the quorum";
            assert_eq!(is_within, winners == 1 && world.model.loses_by_quorum(expected));
            let lost = expected.origin == "lost";
            assert_eq!(found.freshness == Freshness::Lost, lost);
            let uncertain = expected.origin == "uncertain";
            assert_eq!(found.freshness == Freshness::Uncertain, uncertain);
        }
        let reported = |c: &&Contribution| c.origin == "pull" || c.origin == "push";
        let silent = world.model.statuses.len() - expected.iter().filter(reported).count();
        assert_eq!(derived.silent_count, silent);
    }
}

// === time ===

fn check_deadlines(world: &World) {
    let earliest = world.model.deadlines().into_iter().min();
    let state = &world.state;
    for promised in [state.next_due(), state.head().next_due] {
        match (promised, earliest) {
            (Some(promised), Some(earliest)) => {
                assert!(
                    promised.millis() <= earliest,
                    "{promised:?} {:?} {earliest}",
                    state.next_due()
                );
            }
            (None, Some(earliest)) => panic!("nobody looks at {earliest}"),
            (_, None) => {}
        }
    }
    let overdue = |at: Timestamp| at.millis() <= world.now;
    if state.next_due().is_some_and(overdue) {
        let really = earliest.is_some_and(|at| at <= world.now);
        assert!(really, "what no longer stands is looked at for ever");
    }
}

/// Checks that the level of an application begins when it moves, and only then.
pub fn check_since(before: &Head, world: &World) {
    let head = world.state.head();
    let (old, new) = (&before.summary, &head.summary);
    if head.revision == before.revision || head.deleted {
        return;
    }
    if old.level == new.level && !before.deleted {
        assert_eq!(old.since, new.since);
        return;
    }
    let leader = world.model.leader_says.as_ref().filter(|s| s.overrides);
    let said = leader.map(|s| s.since);
    let contributions = world.model.ordered();
    let said = said.or(contributions.first().map(|c| c.since));
    assert!(new.since.millis() == world.now || Some(new.since.millis()) == said);
    assert!(new.since.millis() <= world.now);
}

/// Checks that the stored records give the same state, except for deadlines that an unwritten
/// repeat moved.
fn check_loaded(world: &World) {
    let (state, loaded) = (&world.state, world.store.load());
    let plain = |state: &AppState| Head { next_due: None, ..state.head().clone() };
    assert_eq!(plain(&loaded), plain(state));
    assert!(ranked(&loaded) == ranked(state));
    assert_eq!(loaded.units_after(None).count(), world.model.units.len());
    for (name, unit) in state.units_after(None) {
        let mut kept = loaded.unit(name).unwrap().clone();
        assert!(kept.last_seen <= unit.last_seen);
        if let Presence::Promised(ttl) = unit.presence {
            assert!(world.restarted || unit.last_seen.since(kept.last_seen) < ttl / 3);
        }
        kept.last_seen = unit.last_seen;
        assert!(kept.last_answer <= unit.last_answer);
        kept.last_answer = unit.last_answer;
        if world.restarted {
            kept.silence_ends = kept.silence_ends.and(unit.silence_ends);
            kept.not_before = unit.not_before;
        }
        assert_eq!(kept, *unit);
    }
    assert_eq!(loaded.status_count(), state.status_count());
    let first = StatusKey::first_of(&UnitName::application());
    for (key, status) in state.statuses().from(&first) {
        let mut kept = (**loaded.status(key).unwrap()).clone();
        let (written, until) = (kept.expire_time.take(), status.expire_time);
        assert!(written <= until);
        if let (Some(written), Some(until), Some(ttl)) = (written, until, status.ttl()) {
            assert!(world.restarted || until.since(written) < ttl / 3, "{written:?} {until:?}");
        }
        // Results without a level change are not written on their own.
        let written = results(&kept);
        let forgotten = (0..=20).any(|n| {
            let (lost, rest) = written.split_at(n);
            let zeros = vec![false; n];
            // Each lost result appears as a zero at the new end.
            let _ = lost;
            [rest, &zeros].concat() == results(status)
        });
        assert!(forgotten, "{written:?} {:?}", status.swings);
        kept.swings = status.swings;
        if world.restarted {
            kept.held = status.held.clone();
        }
        kept.expire_time = status.expire_time;
        assert_eq!(kept.expire_time_written, status.expire_time_written);
        assert_eq!(kept, **status);
    }
}

fn check_repeat(world: &World, pick: usize) {
    let state = &world.state;
    let first = StatusKey::first_of(&UnitName::application());
    let believed = |s: &Status| {
        let is_heard =
            |unit: &Unit| unit.is_believed() && unit.quiet_since.is_none() && !unit.departed;
        !s.stale
            && s.held.is_none()
            // A status that is reported alone leaves its set.
            && s.place.is_none()
            && world.model.unit(&s.unit).is_some_and(is_heard)
    };
    let statuses = world.model.statuses.iter().filter(|s| believed(s));
    let statuses: Vec<&Status> = statuses.collect();
    let Some(again) = statuses.get(pick % statuses.len().max(1)) else {
        return;
    };
    // A fenced unit may not even repeat its reports.
    if again.incarnation != world.model.unit(&again.unit).unwrap().incarnation {
        return;
    }
    // With thresholds lowered since the last result, this one may be the first that flaps.
    let said =
        Reported { report: again.report.clone(), incarnation: again.incarnation, observed: None };
    let next = world.model.one_more(again, Some(said), again.incarnation, world.now);
    if next.is_some_and(|next| next.flaps()) {
        return;
    }
    let (key, _) = state.statuses().from(&first).find(|(k, _)| same_key(k, again)).unwrap();
    let incarnation = Some(again.incarnation).filter(|n| *n != 0);
    let reporter = Reporter::new(key.unit.clone(), incarnation);
    let new = NewStatus {
        component: key.component.clone(),
        key: key.key.clone(),
        report: Arc::new(again.report.clone()),
        observe_time: Some(Timestamp::new(world.now)),
    };
    // A status without a ttl would now get the default one.
    if new.report.ttl.is_none() && world.model.config.default_ttl.is_some() {
        return;
    }
    let request = Request { id: None, command: Command::Report(reporter, key.kind, new) };
    let mut draft = Draft::new(state, &world.limits, Timestamp::new(world.now));
    let outcome = apply(&mut draft, &request).unwrap();
    let transition = draft.finish();
    assert!(!outcome.changed && !transition.moves_revision());
    assert!(transition.events.is_empty());
    let mut after = state.clone();
    after.replay(&transition);
    assert_eq!(after.head().summary, state.head().summary);
    assert!(ranked(&after) == ranked(state));
    for (key, before) in state.statuses().from(&first) {
        let mut status = (**after.status(key).unwrap()).clone();
        assert!(before.expire_time <= status.expire_time);
        status.expire_time = before.expire_time;
        status.expire_time_written = before.expire_time_written;
        assert!(before.end_time <= status.end_time);
        status.end_time = before.end_time;
        status.swings = before.swings;
        assert_eq!(status, **before);
    }
}
