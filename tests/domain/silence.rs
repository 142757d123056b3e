//! Single cases of silence: the contact that a unit promised, what its silence leads to, and what
//! another replica has written of it.

use bellwether::domain::app::AppState;
use bellwether::domain::command::Command;
use bellwether::domain::data_loss::mark_uncertain;
use bellwether::domain::history::{Cause, StatusEvent};
use bellwether::domain::level::Level;
use bellwether::domain::silence::lose_unit;
use bellwether::domain::status::Freshness;
use bellwether::domain::unit::Newcomer;

use crate::case::{
    Case, handing_over, newcomer, pull, push, reporter, seconds, stateless, time, unit,
};
use crate::outages::outages;

/// Registers a unit that promises contact every so many seconds.
fn register(who: Newcomer, promise: u64) -> Command {
    Command::Register(who, Some(seconds(promise)))
}

/// Returns an application whose stateless unit `web/0` promises contact every so many seconds, and
/// has pushed a status for a successor.
fn with_hand_over(promise: u64) -> Case {
    let mut case = handing_over();
    case.run(register(stateless("web/0"), promise));
    case.run(push("web/0", Level::Active, None));
    case
}

fn depart(ttl: u64) -> Command {
    Command::Depart { reporter: reporter("web/0"), ttl: seconds(ttl) }
}

/// Returns the last event about the unit, with its freshness.
fn told(case: &Case) -> (Cause, Freshness) {
    let of_unit = |event: &&StatusEvent| {
        event.subject.as_ref().is_some_and(|subject| subject.unit == unit("web/0"))
    };
    let event = case.last.as_ref().unwrap().events.iter().rfind(of_unit).unwrap();
    (event.cause, event.freshness)
}

/// Returns the state after a commit of another replica, which has the state `before`.
fn after_another(case: &Case, before: &AppState, now: u64, command: Command) -> AppState {
    let mut other = Case::new();
    other.state = before.clone();
    other.at(now).run(command);
    let mut state = case.state.clone();
    state.replay(&other.last.unwrap());
    state
}

#[test]
fn the_history_names_the_freshness_of_a_silent_unit() {
    let mut case = Case::new();
    case.run(register(newcomer("web/0", None), 10));
    case.at(11).pass();
    assert_eq!(told(&case), (Cause::Expired, Freshness::Stale));
    let ends = case.unit("web/0").silence_ends.unwrap();
    case.at(ends.millis() / 1000).pass();
    assert_eq!(told(&case), (Cause::UnitLost, Freshness::Lost));
    case.commit(|draft| mark_uncertain(draft, 1));
    assert_eq!(told(&case), (Cause::Doubted, Freshness::Uncertain));
}

/// The contact that would have ended its silence may be among the lost writes.
#[test]
fn silence_counts_from_a_data_loss() {
    let mut case = Case::new();
    case.run(register(newcomer("web/0", None), 10));
    case.at(11).pass();
    let lost_after = case.unit("web/0").silence_ends.unwrap().millis() / 1000 - 11;
    for (losses, at) in [(1, 50), (2, 70)] {
        case.at(at).commit(|draft| mark_uncertain(draft, losses));
        let unit = case.unit("web/0");
        assert_eq!(unit.silence_ends, Some(time(at + lost_after)));
        assert_eq!(unit.uncertain_since, Some(time(50)), "since the first loss");
    }
    case.at(70 + lost_after - 1).pass();
    assert_eq!(case.unit("web/0").lost_since, None);
    case.at(70 + lost_after).pass();
    assert_eq!(case.unit("web/0").lost_since, Some(time(70 + lost_after)));
    let ends = case.unit("web/0").silence_ends;
    case.at(300).commit(|draft| mark_uncertain(draft, 3));
    assert_eq!(case.unit("web/0").silence_ends, ends, "a lost unit has no contact to wait for");
}

#[test]
fn the_application_says_why_a_unit_is_lost() {
    let stop = Command::AnnounceStop(reporter("web/0"));
    for (command, why) in [
        (None, "no contact within its ttl"),
        (Some(stop), "it announced its stop and has not come back"),
        (Some(depart(10)), "it has left without a successor"),
    ] {
        let mut case = with_hand_over(10);
        command.map(|command| case.run(command));
        case.commit(|draft| lose_unit(draft, &unit("web/0")));
        let ends = "it is removed once a successor is fresh";
        assert_eq!(case.shown().1, format!("unit web/0 lost: {why}; {ends}"));
    }
}

#[test]
fn an_outage_of_the_server_does_not_prolong_a_promise_that_begins_later() {
    let mut case = with_hand_over(100);
    case.state.note_outages(&outages(20, 50));
    assert_eq!(case.state.next_due(), Some(time(131)));
    case.at(51).run(depart(30));
    assert_eq!(case.state.next_due(), Some(time(81)));
}

#[test]
fn a_contact_counts_for_the_promise_in_which_it_came() {
    let mut case = Case::new();
    case.run(register(newcomer("web/0", None), 60));
    // Too early to be written, so no other replica knows of it.
    let before = case.state.clone();
    case.at(9).run(Command::Confirm(reporter("web/0"), None));
    let last_seen = |state: &AppState| state.unit(&unit("web/0")).unwrap().last_seen;
    assert_eq!((last_seen(&before), last_seen(&case.state)), (time(1), time(9)));
    for (promise, seen) in [(60, 9), (90, 5)] {
        let labels = [("zone".into(), "a".into())].into();
        let who = Newcomer { labels, ..newcomer("web/0", Some(1)) };
        let state = after_another(&case, &before, 5, register(who, promise));
        assert_eq!(last_seen(&state), time(seen), "{promise}");
    }
}

/// A unit without an incarnation may have been removed, and have begun again.
#[test]
fn an_answer_to_a_pull_is_of_one_incarnation() {
    for (incarnation, answered) in [(1, 9), (0, 1)] {
        let mut case = Case::new();
        if incarnation != 0 {
            case.run(Command::Register(newcomer("web/0", None), None));
        }
        case.run(pull("web/0", &["db"]));
        let before = case.state.clone();
        case.at(9).run(pull("web/0", &["db"]));
        let state = after_another(&case, &before, 5, push("web/0", Level::Waiting, Some(60)));
        let kept = state.unit(&unit("web/0")).unwrap();
        assert_eq!((kept.incarnation, kept.last_answer), (incarnation, time(answered)));
    }
}

#[test]
fn a_new_promise_replaces_the_deadline_of_the_one_before() {
    let mut case = Case::new();
    case.run(register(newcomer("web/0", None), 10));
    assert_eq!(case.state.head().next_due, Some(time(11)));
    case.at(9).run(register(newcomer("web/0", Some(1)), 100));
    assert_eq!(case.state.head().next_due, Some(time(109)));
}
