//! Outages: each deadline moves by the time in which no replica could act, and by no more. Two
//! applications get the same commands, one of them with an outage in between; both behave alike.

use std::sync::Arc;
use std::time::Duration;

use bellwether::domain::app::AppState;
use bellwether::domain::command::Command;
use bellwether::domain::draft::Draft;
use bellwether::domain::expire::expire;
use bellwether::domain::leadership::Claim;
use bellwether::domain::level::Level;
use bellwether::domain::limits::Limits;
use bellwether::domain::name::UnitName;
use bellwether::domain::operation::State;
use bellwether::domain::operation::command::{NewOperation, OperationAction};
use bellwether::domain::outage::{Downtime, Outages};
use bellwether::domain::status::Freshness;
use bellwether::domain::time::Timestamp;
use proptest::collection::vec;
use proptest::prelude::*;

use crate::calls::call_on;
use crate::case::{Case, new_operation, newcomer, push, reporter, seconds, time, unit};

/// Returns one outage, in seconds.
pub fn outages(from: u64, until: u64) -> Arc<Outages> {
    let mut outages = Outages::default();
    outages.add(Downtime { from: time(from), until: time(until) });
    Arc::new(outages)
}

#[derive(Debug, Clone)]
enum Step {
    Pass(u64),
    Report(usize, u64),
    Promise(usize, u64),
    Claim(usize, u64),
    Renew(usize),
    Begin(usize),
    Heartbeat(usize),
}

const UNITS: [&str; 3] = ["web/0", "web/1", "web/2"];

fn step() -> impl Strategy<Value = Step> {
    let unit = || 0..UNITS.len();
    prop_oneof![
        8 => (1..20u64).prop_map(Step::Pass),
        3 => (unit(), 5..40u64).prop_map(|(unit, ttl)| Step::Report(unit, ttl)),
        1 => (unit(), 5..40u64).prop_map(|(unit, ttl)| Step::Promise(unit, ttl)),
        2 => (unit(), 5..40u64).prop_map(|(unit, length)| Step::Claim(unit, length)),
        3 => unit().prop_map(Step::Renew),
        1 => unit().prop_map(Step::Begin),
        2 => unit().prop_map(Step::Heartbeat),
    ]
}

/// Returns whether the command is accepted.
fn take(case: &mut Case, step: &Step) -> bool {
    case.pass();
    let command = match *step {
        Step::Pass(span) => {
            let until = case.now + span;
            while case.now < until {
                case.now += 1;
                case.pass();
            }
            return true;
        }
        Step::Report(of, ttl) => push(UNITS[of], Level::Active, Some(ttl)),
        Step::Promise(of, ttl) => Command::Register(newcomer(UNITS[of], None), Some(seconds(ttl))),
        Step::Claim(of, length) => {
            Command::ClaimLeadership(reporter(UNITS[of]), Some(seconds(length)))
        }
        Step::Renew(of) => {
            let lease_epoch = case.state.head().lease_epoch;
            let claim = Claim { unit: unit(UNITS[of]), lease_epoch, decided_outside: false };
            Command::RenewLeadership(claim)
        }
        Step::Begin(of) => {
            // A deadline is a moment that the client names, and does not move.
            let begin = NewOperation { deadline: None, ..new_operation() };
            let begin = OperationAction::Begin(begin.into());
            return call_on(case, "op", UNITS[of], begin).is_ok();
        }
        Step::Heartbeat(of) => {
            let held = case.state.operations().iter().next().map(|(_, held)| held.fence);
            let fence = held.unwrap_or_default();
            let beat = OperationAction::Heartbeat { fence, checkpoint: None, progress: None };
            return call_on(case, "op", UNITS[of], beat).is_ok();
        }
    };
    case.ask(command).is_ok()
}

type Shown = (Level, Option<UnitName>, u64, Vec<Option<Freshness>>, Option<State>);

/// Returns what an application shows, without its times.
fn shown(case: &Case) -> Shown {
    let head = case.state.head();
    let of = |name: &&str| case.state.unit(&unit(name)).map(|unit| unit.freshness());
    let operation = case.state.operations().iter().next().map(|(_, held)| held.state);
    let leader = head.leader().cloned();
    (head.summary.level, leader, head.lease_epoch, UNITS.iter().map(of).collect(), operation)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn an_application_after_an_outage_behaves_as_one_without(
        before in vec(step(), 0..20),
        lengths in vec(1..500u64, 1..3),
        after in vec(step(), 0..20),
    ) {
        let (mut plain, mut other) = (Case::new(), Case::new());
        for step in &before {
            prop_assert_eq!(take(&mut plain, step), take(&mut other, step));
        }
        let mut outages = Outages::default();
        for length in lengths {
            let from = time(other.now);
            other.now += length;
            outages.add(Downtime { from, until: time(other.now) });
            // Whatever is written in between has nothing of the outage.
            other.state.note_outages(&Arc::new(outages.clone()));
            let touch = Step::Report(2, 30);
            prop_assert_eq!(take(&mut plain, &touch), take(&mut other, &touch));
        }
        for step in &after {
            prop_assert_eq!(take(&mut plain, step), take(&mut other, step), "{:?}", step);
            prop_assert_eq!(shown(&plain), shown(&other), "{:?}", step);
        }
    }
}

/// The first writes after a restart contain nothing of the outage: another restart cannot count it
/// once more.
#[test]
fn a_lease_that_is_written_after_many_restarts_ends_once() {
    let mut case = Case::new();
    case.at(100).run(Command::ClaimLeadership(reporter("web/0"), Some(seconds(15))));
    let mut known = Outages::default();
    for n in 0..4 {
        let from = 103 + 4 * n;
        known.add(Downtime { from: time(from), until: time(from + 1) });
        case.state.note_outages(&Arc::new(known.clone()));
        case.at(from + 2).run(push("web/5", Level::Active, None));
        let lease = case.state.head().lease.clone().unwrap();
        assert_eq!(lease.ends, Some(time(115)));
        assert_eq!(case.state.deadlines().of_lease(&lease), Some(time(116 + n)));
    }
    case.at(118).pass();
    assert_eq!(case.state.head().leader().map(UnitName::as_str), Some("web/0"));
    case.at(119).pass();
    assert_eq!(case.state.head().leader(), None);
}

/// Right after an outage a process may not know of it. Until it does, it judges nothing.
#[test]
fn no_deadline_is_judged_after_the_time_that_is_known() {
    let mut case = Case::new();
    case.run(Command::ClaimLeadership(reporter("web/0"), Some(seconds(15))));
    case.run(push("web/0", Level::Active, Some(10)));
    let judge = |state: &AppState, judged: u64| {
        let limits = Limits::default();
        let mut draft = Draft::new(state, &limits, time(60));
        draft.judge_until(time(judged));
        expire(&mut draft);
        let mut judged = state.clone();
        judged.replay(&draft.finish());
        let unit = judged.unit(&unit("web/0")).unwrap().freshness();
        (judged.head().leader().is_some(), unit)
    };
    assert_eq!(judge(&case.state, 10), (true, Freshness::Fresh));
    assert_eq!(judge(&case.state, 11), (true, Freshness::Stale));
    assert_eq!(judge(&case.state, 16), (false, Freshness::Stale));
    assert_eq!(judge(&case.state, 600), (false, Freshness::Stale));
    // The outage is known: all of it is added.
    case.state.note_outages(&outages(5, 58));
    assert_eq!(judge(&case.state, 60), (true, Freshness::Fresh));
    let wait = |at: Timestamp| Duration::from_millis(at.millis());
    assert_eq!(case.state.next_due().map(wait), Some(seconds(11 + 53)));
}
