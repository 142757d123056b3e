//! Single cases of units: how they begin, return, announce a stop and depart.

use bellwether::domain::command::Command;
use bellwether::domain::level::Level;
use bellwether::domain::name::UnitName;
use bellwether::domain::rejected::Rejected;
use bellwether::domain::revision::Revision;
use bellwether::domain::silence::lose_unit;
use bellwether::domain::status::Kind;
use bellwether::domain::unit::departure::Departure;
use bellwether::domain::unit::presence::Presence;
use bellwether::domain::unit::refused::IdentityError;
use bellwether::domain::unit::{Reporter, Topic};

use crate::case::{
    Case, handing_over, new_status, newcomer, part, pull, push, reporter, seconds, session,
    stateless, time, unit,
};

fn topic() -> Topic {
    Topic::retry(part("db"), "pg")
}

fn add_callback(name: &str, at: u64) -> Command {
    Command::AddCallback { unit: unit(name), topic: topic(), at: time(at), operation_id: "".into() }
}

fn clear(reporter: Reporter) -> Command {
    Command::Clear { reporter, component: None, key: None, kind: None }
}

/// Returns a unit that sends as this incarnation.
fn sender(name: &str, incarnation: u64) -> Reporter {
    Reporter::new(unit(name), Some(incarnation))
}

fn claim(reporter: Reporter) -> Command {
    Command::ClaimLeadership(reporter, None)
}

/// Returns an application in which `web/0` leads and `web/1` waits to lead, both as their first
/// incarnation.
fn with_candidate() -> Case {
    let mut case = Case::new();
    case.run(Command::Connect(newcomer("web/0", None), session(0)));
    case.run(Command::Connect(newcomer("web/1", None), session(1)));
    case.run(claim(sender("web/0", 1)));
    assert!(matches!(case.ask(claim(sender("web/1", 1))), Err(Rejected::LeaseHeld(_))));
    assert!(case.unit("web/1").candidate.is_some());
    case
}

fn leader(case: &Case) -> Option<&str> {
    case.state.head().leader().map(UnitName::as_str)
}

#[test]
fn a_candidate_waits_as_one_incarnation_alone() {
    let again = |incarnation| Command::Connect(newcomer("web/1", incarnation), session(2));
    let says = |incarnation| {
        Command::Report(
            sender("web/1", incarnation),
            Kind::Push,
            new_status("", Level::Active, None),
        )
    };
    // Lost first, so that a report changes the record.
    let lose = |case: &mut Case| {
        case.commit(|draft| lose_unit(draft, &unit("web/1")));
    };
    for (next, waits) in
        [(again(Some(1)), true), (again(None), false), (says(1), true), (says(2), false)]
    {
        let mut case = with_candidate();
        lose(&mut case);
        case.run(next.clone());
        assert_eq!(case.unit("web/1").candidate.is_some(), waits, "{next:?}");
        case.run(Command::StepBack(sender("web/0", 1)));
        assert_eq!(leader(&case), waits.then_some("web/1"), "{next:?}");
    }
}

#[test]
fn an_announced_stop_ends_with_its_incarnation_alone() {
    let says = |incarnation| Command::Confirm(sender("web/0", incarnation), None);
    let again = |incarnation| Command::Register(newcomer("web/0", incarnation), None);
    for (next, stops) in
        [(again(Some(1)), true), (again(None), false), (says(1), true), (says(2), false)]
    {
        let mut case = Case::new();
        case.run(again(None));
        case.run(Command::AnnounceStop(sender("web/0", 1)));
        case.commit(|draft| lose_unit(draft, &unit("web/0")));
        case.at(5).run(next.clone());
        let departure = if stops { Departure::Stopping(time(1)) } else { Departure::None };
        assert_eq!(case.unit("web/0").departure, departure, "{next:?}");
    }
}

#[test]
fn a_session_replaces_another_that_was_opened_at_an_earlier_revision() {
    let mut case = Case::new();
    case.run(push("web/9", Level::Active, None));
    let opened = case.run(Command::Connect(newcomer("web/0", None), session(0))).revision;
    assert_eq!(opened, Revision(2));
    let confirm = |number, since| {
        Command::Reconnect(newcomer("web/0", Some(1)), session(number), Revision(since))
    };
    let held = |case: &Case| case.unit("web/0").session();
    // An older one, and one that cannot be ordered with the one that is held.
    for since in [1, 2] {
        let refused = case.ask(confirm(7, since)).unwrap_err();
        let is_over = matches!(refused, Rejected::Identity(IdentityError::SessionOver { .. }));
        assert!(is_over, "{since}: {refused}");
        assert_eq!(held(&case), Some(session(0)));
    }
    assert!(!case.run(confirm(0, 2)).changed);
    // The store has lost the newer one.
    assert!(case.run(confirm(7, 3)).changed);
    assert_eq!((held(&case), case.unit("web/0").session_since), (Some(session(7)), Revision(3)));
}

#[test]
fn another_silence_of_a_unit_is_no_visible_change() {
    let mut case = Case::new();
    let register = |incarnation| Command::Register(newcomer("web/0", incarnation), None);
    case.run(register(None));
    case.run(push("web/0", Level::Active, Some(10)));
    case.at(11).pass();
    let ends = case.unit("web/0").silence_ends.unwrap();
    let told = case.at(20).run(register(Some(1)));
    assert!(!told.changed && !case.last.as_ref().unwrap().moves_revision(), "{told:?}");
    assert_eq!(case.unit("web/0").silence_ends, Some(ends.after(seconds(9))));
}

/// Returns an application in which `web-a` has departed at 21 s, with 30 s for a successor: it has
/// pushed a status whose ttl is over, and pulled two.
fn departed() -> Case {
    let mut case = handing_over();
    case.run(Command::Register(stateless("web-a"), None));
    case.run(push("web-a", Level::Waiting, Some(10)));
    case.run(pull("web-a", &["", "db"]));
    case.run(add_callback("web-a", 40));
    case.at(11).pass();
    assert!(case.unit("web-a").silence_ends.is_some());
    let told = case.at(21).run(Command::Depart { reporter: reporter("web-a"), ttl: seconds(30) });
    assert_eq!((told.changed, told.removed), (true, 2), "the pulled statuses go at once");
    case
}

#[test]
fn a_departed_unit_keeps_its_pushed_statuses_for_a_successor_and_nothing_else() {
    let mut case = departed();
    let gone = case.unit("web-a");
    assert_eq!(gone.departure, Departure::Departed);
    assert_eq!(gone.presence, Presence::Promised(seconds(30)));
    assert!(gone.callbacks.is_empty(), "it cannot be called back");
    assert_eq!(gone.silence_ends, None, "the time of its successor counts, not its silence");
    assert_eq!(case.state.next_due(), Some(time(51)));
    let told = case.at(50).run(Command::Register(stateless("web-b"), None));
    assert_eq!((told.removed, case.has_unit("web-a")), (1, false));
    assert_eq!(case.status("web-b", "", Kind::Push).unwrap().report.level, Level::Waiting);
}

#[test]
fn a_departed_unit_is_not_brought_back_by_what_it_sent_before() {
    let word = || push("web-a", Level::Active, None);
    for late in [word(), clear(reporter("web-a"))] {
        let mut case = departed();
        let before = case.unit("web-a").clone();
        let refused = case.at(30).ask(late.clone()).unwrap_err();
        let waits = match refused {
            Rejected::Identity(IdentityError::JustRemoved { wait, .. }) => wait,
            refused => panic!("{late:?}: {refused}"),
        };
        assert_eq!((waits, case.unit("web-a")), (seconds(1), &before));
        // Ten seconds after, it is a unit that came back.
        case.at(31).run(late);
        assert_eq!(case.unit("web-a").departure, Departure::None);
        assert_eq!(case.unit("web-a").presence, Presence::Unbound);
    }
}

#[test]
fn a_clear_of_nothing_is_contact_in_a_session_or_of_a_new_incarnation() {
    let of = |incarnation, session| Reporter { unit: unit("web/0"), incarnation, session };
    let senders = [
        (of(None, None), false),
        (of(Some(1), None), false),
        (of(Some(2), None), true),
        (of(None, Some(session(0))), true),
        (of(Some(1), Some(session(0))), true),
    ];
    for (sender, is_contact) in senders {
        let mut case = Case::new();
        case.run(Command::Connect(newcomer("web/0", None), session(0)));
        case.commit(|draft| lose_unit(draft, &unit("web/0")));
        let told = case.at(5).run(clear(sender.clone()));
        let is_back = case.unit("web/0").lost_since.is_none();
        assert_eq!((told.changed, is_back), (is_contact, is_contact), "{sender:?}");
    }
}

#[test]
fn a_cancelled_callback_is_a_change_that_comes_once() {
    let mut case = Case::new();
    case.run(push("web/0", Level::Active, None));
    assert!(case.run(add_callback("web/0", 40)).changed);
    assert!(!case.run(add_callback("web/0", 40)).changed);
    let cancel_callback = || Command::CancelCallback { unit: unit("web/0"), topic: topic() };
    assert!(case.run(cancel_callback()).changed);
    assert!(case.unit("web/0").callbacks.is_empty());
    assert!(!case.run(cancel_callback()).changed);
}

#[test]
fn a_callback_is_due_at_its_time() {
    let mut case = Case::new();
    case.run(push("web/0", Level::Active, None));
    case.run(add_callback("web/0", 40));
    for (now, due) in [(39, false), (40, true)] {
        case.at(now).pass();
        assert_eq!(case.unit("web/0").callbacks[&topic()].due, due, "at {now}");
    }
}

#[test]
fn an_announced_stop_is_a_change_that_comes_once() {
    let mut case = Case::new();
    case.run(push("web/0", Level::Active, None));
    let stop = || Command::AnnounceStop(reporter("web/0"));
    assert!(case.run(stop()).changed);
    assert!(!case.run(stop()).changed);
    case.commit(|draft| lose_unit(draft, &unit("web/0")));
    assert!(case.run(stop()).changed, "the unit is back");
}

#[test]
fn a_clear_that_removes_nothing_changes_nothing() {
    let mut case = Case::new();
    case.run(Command::Connect(newcomer("web/0", None), session(0)));
    let sender = Reporter { session: Some(session(0)), ..reporter("web/0") };
    let told = case.run(clear(sender));
    assert_eq!((told.changed, told.removed), (false, 0));
}
