//! Single cases of several commands in one commit: each sees those before it, and what a commit
//! writes contains what its other commands changed in memory only.

use std::time::Duration;

use bellwether::domain::apply::apply;
use bellwether::domain::command::{Command, NewStatus, Request};
use bellwether::domain::level::Level;
use bellwether::domain::policy::{ConfigPatch, Damping, Scope};
use bellwether::domain::status::Kind;
use bellwether::domain::unit::Reporter;

use crate::case::{
    Case, configure, handing_over, new_status, newcomer, pull, push, reporter, stateless, time,
    unit,
};

/// Commits these commands together.
fn together(case: &mut Case, commands: Vec<Command>) {
    case.commit(|draft| {
        for command in commands {
            apply(draft, &Request { id: None, command }).unwrap();
        }
    });
}

#[test]
fn a_unit_that_is_removed_and_begins_again_has_answered_no_pull() {
    let mut case = Case::new();
    case.run(pull("web/0", &["db"]));
    together(
        case.at(5),
        vec![
            pull("web/0", &["db"]),
            pull("web/1", &["db"]),
            Command::RemoveUnit(unit("web/1")),
            Command::Register(newcomer("web/1", None), None),
        ],
    );
    assert_eq!(case.unit("web/0").last_answer, time(5));
    assert_eq!(case.unit("web/1").last_answer, time(0));
}

/// The repeats alone would not be written, because they are early.
#[test]
fn a_confirmed_status_has_the_deadline_of_its_last_repeat() {
    let mut case = Case::new();
    let as_incarnation = |incarnation| Reporter::new(unit("web/0"), Some(incarnation));
    let set = || {
        let set: [NewStatus; 2] =
            [("db", 30), ("net", 90)].map(|(key, ttl)| new_status(key, Level::Active, Some(ttl)));
        Command::Replace(as_incarnation(1), None, set.to_vec())
    };
    case.run(set());
    together(
        case.at(5),
        vec![
            set(),
            Command::Register(newcomer("web/0", None), None),
            Command::Confirm(as_incarnation(2), None),
        ],
    );
    let ends = |key| case.status("web/0", key, Kind::Pull).unwrap().expire_time;
    assert_eq!([ends("db"), ends("net")], [35, 95].map(|at| Some(time(at))));
}

/// The record that the confirmation writes has the deadline of the repeat after it.
#[test]
fn a_repeat_after_a_confirmation_moves_the_deadline() {
    let mut case = Case::new();
    let set = |incarnation| {
        let set = vec![new_status("db", Level::Active, Some(30))];
        Command::Replace(Reporter::new(unit("web/0"), Some(incarnation)), None, set)
    };
    case.run(set(1));
    // Early, so that this deadline is in memory only.
    case.at(9).run(set(1));
    let confirm = Command::Confirm(Reporter::new(unit("web/0"), Some(2)), None);
    let begin = Command::Register(newcomer("web/0", None), None);
    together(case.at(12), vec![begin, confirm, set(2)]);
    let status = case.status("web/0", "db", Kind::Pull).unwrap();
    assert_eq!((status.incarnation, status.expire_time), (2, Some(time(42))));
}

/// The status passes to the successor in the commit of a repeat, which alone would not be written.
#[test]
fn a_status_that_passes_to_a_successor_has_the_deadline_of_its_last_repeat() {
    let mut case = handing_over();
    for name in ["web-a", "web-b"] {
        case.run(Command::Register(stateless(name), None));
    }
    let said = || push("web-a", Level::Waiting, Some(60));
    case.run(said());
    let depart = Command::Depart { reporter: reporter("web-a"), ttl: Duration::from_secs(30) };
    together(case.at(9), vec![said(), depart]);
    let status = case.status("web-b", "", Kind::Push).unwrap();
    assert_eq!(status.expire_time, Some(time(69)));
}

/// The end of damping writes the status in the commit of a repeat, which alone is not written.
#[test]
fn a_status_that_is_no_longer_damped_has_the_deadline_of_its_last_repeat() {
    let mut case = Case::new();
    let damped = |scopes| {
        let damping = Some(Damping { scopes, ..Damping::default() });
        configure(ConfigPatch { damping, ..ConfigPatch::default() })
    };
    case.run(damped(vec![Scope::All]));
    let said = |level| push("web/0", level, Some(60));
    case.run(said(Level::Active));
    case.run(said(Level::Blocked));
    together(case.at(9), vec![said(Level::Blocked), damped(Vec::new())]);
    let status = case.status("web/0", "", Kind::Push).unwrap();
    assert_eq!(status.expire_time, Some(time(69)));
}

#[test]
fn results_count_for_flapping_as_in_commits_of_their_own() {
    let mut case = Case::new();
    let calm_after = Duration::from_secs(60);
    let damping = Damping { scopes: vec![Scope::All], calm_after, ..Damping::default() };
    case.run(configure(ConfigPatch { damping: Some(damping), ..ConfigPatch::default() }));
    let said = |level| push("web/0", level, None);
    for level in [Level::Active, Level::Blocked] {
        case.run(said(level));
    }
    let results = [Level::Blocked, Level::Active, Level::Active];
    let mut alone = Case::new();
    alone.state = case.state.clone();
    for level in results {
        alone.run(said(level));
    }
    together(&mut case, results.map(said).to_vec());
    let status = |case: &Case| case.status("web/0", "", Kind::Push);
    assert_eq!(status(&case), status(&alone));
}
