//! Single cases of leadership: how long a lease lasts, what each command on it changes, and who
//! may not lead.

use bellwether::domain::app::AppState;
use bellwether::domain::command::{Command, NewStatus};
use bellwether::domain::history::{Cause, Change, StatusEvent};
use bellwether::domain::leadership::Claim;
use bellwether::domain::leadership::status::{Mode, NewApplicationStatus};
use bellwether::domain::level::Level;
use bellwether::domain::name::UnitName;
use bellwether::domain::policy::ConfigPatch;
use bellwether::domain::rejected::Rejected;
use bellwether::domain::replay::Records;
use bellwether::domain::silence::lose_unit;
use bellwether::domain::status::Kind;

use crate::case::{
    Case, configure, new_status, newcomer, push, reporter, seconds, session, stateless, time, unit,
};
use crate::world::app_name;

fn claim_for(name: &str, duration: Option<u64>) -> Command {
    Command::ClaimLeadership(reporter(name), duration.map(seconds))
}

fn led_by(name: &str, lease_epoch: u64) -> Claim {
    Claim { unit: unit(name), lease_epoch, decided_outside: false }
}

fn connect(name: &str, number: u64) -> Command {
    Command::Connect(newcomer(name, None), session(number))
}

fn leader(case: &Case) -> Option<&str> {
    case.state.head().leader().map(UnitName::as_str)
}

/// Returns the length of the lease and its end, in seconds.
fn lease(case: &Case) -> (u64, Option<u64>) {
    let lease = case.state.head().lease.as_ref().unwrap();
    (lease.duration.as_secs(), lease.ends.map(|at| at.millis() / 1000))
}

fn lose(case: &mut Case, name: &str) {
    case.commit(|draft| lose_unit(draft, &unit(name)));
}

/// Returns a status of the application, observed at a time in seconds, as the leader sets it.
fn says(claim: Claim, level: Level, observed: Option<u64>, ttl: Option<u64>) -> Command {
    let status = NewApplicationStatus {
        mode: Mode::Contribute,
        level,
        message: "text".into(),
        reason: "Why".into(),
        action: "act".into(),
        ttl: ttl.map(seconds),
        observe_time: observed.map(time),
    };
    Command::SetApplicationStatus(claim, status)
}

/// Returns an application in which `web/0` leads for 10 s from 1 s on, and `web/1` waits.
fn led() -> Case {
    let mut case = Case::new();
    let told = case.run(claim_for("web/0", Some(10)));
    assert_eq!((told.changed, told.lease_epoch), (true, 1));
    assert!(matches!(case.ask(claim_for("web/1", Some(10))), Err(Rejected::LeaseHeld(_))));
    case
}

/// Returns an application in which `web/0` leads while its session lasts.
fn led_in_session() -> Case {
    let mut case = Case::new();
    case.run(connect("web/0", 0));
    case.run(claim_for("web/0", Some(10)));
    assert_eq!(lease(&case), (10, None));
    case
}

#[test]
fn a_leader_extends_its_lease_by_a_claim_or_a_renewal() {
    let mut case = led();
    assert_eq!(lease(&case), (10, Some(11)));
    let steps = [
        (5, claim_for("web/0", Some(10)), (10, Some(15)), true),
        (5, claim_for("web/0", Some(10)), (10, Some(15)), false),
        (6, claim_for("web/0", Some(20)), (20, Some(26)), true),
        (7, claim_for("web/0", None), (20, Some(27)), true),
        (8, Command::RenewLeadership(led_by("web/0", 1)), (20, Some(28)), true),
        (8, Command::RenewLeadership(led_by("web/0", 1)), (20, Some(28)), false),
    ];
    for (now, command, expected, changed) in steps {
        let told = case.at(now).run(command.clone());
        assert_eq!((lease(&case), told.changed), (expected, changed), "{command:?}");
        assert_eq!(told.lease_epoch, 1);
    }
}

#[test]
fn a_lease_lasts_as_long_as_the_session_and_then_as_long_as_it_is() {
    let mut case = led_in_session();
    let told = case.at(100).run(Command::RenewLeadership(led_by("web/0", 1)));
    assert_eq!((told.changed, lease(&case)), (false, (10, None)));
    let ttl = seconds(60);
    let name = || unit("web/0");
    let ended = Command::Disconnect { unit: name(), session: session(0), ttl, silent: false };
    case.at(200).run(ended);
    assert_eq!(lease(&case), (10, Some(210)));
    case.at(205).run(Command::Connect(newcomer("web/0", Some(1)), session(1)));
    assert_eq!(lease(&case), (10, None));
    // A claim is contact, even if the lease needs none.
    lose(&mut case, "web/0");
    assert!(case.at(206).run(claim_for("web/0", None)).changed);
    // A new incarnation has not claimed yet.
    case.at(300).run(connect("web/0", 2));
    assert_eq!(leader(&case), None);
}

#[test]
fn a_command_on_leadership_says_whether_it_changed_anything() {
    let release = |name| Command::ReleaseLeadership(led_by(name, 1));
    let step_back = |name| Command::StepBack(reporter(name));
    let transfer = |name| Command::TransferLeadership(unit(name));
    let cases = [
        (release("web/0"), true, Some("web/1"), 2),
        (step_back("web/0"), true, Some("web/1"), 2),
        (step_back("web/1"), true, Some("web/0"), 1),
        (step_back("web/2"), false, Some("web/0"), 1),
        (transfer("web/0"), false, Some("web/0"), 1),
        (transfer("web/1"), true, Some("web/1"), 2),
        (transfer("web/2"), true, Some("web/2"), 2),
    ];
    for (command, changed, leads, epoch) in cases {
        let mut case = led();
        case.run(push("web/2", Level::Active, None));
        let told = case.run(command.clone());
        assert_eq!((told.changed, leader(&case)), (changed, leads), "{command:?}");
        assert_eq!(case.state.head().lease_epoch, epoch, "{command:?}");
        if let Command::TransferLeadership(_) = command {
            assert_eq!(told.lease_epoch, epoch);
        }
        // A unit that leads waits no longer, nor does one that stepped back.
        let waits = case.unit("web/1").candidate.is_some();
        assert_eq!(waits, leads != Some("web/1") && command != step_back("web/1"), "{command:?}");
        // A free lease can be released again and again.
        case.at(100).pass();
        if leader(&case).is_none() {
            assert!(!case.run(release("web/0")).changed);
        }
    }
    let mut case = led();
    lose(&mut case, "web/1");
    case.run(step_back("web/1"));
    lose(&mut case, "web/1");
    assert!(case.run(step_back("web/1")).changed, "it is back");
}

#[test]
fn leadership_goes_to_a_unit_that_is_there_alone() {
    let mut case = led();
    let hand_over = Some(Some("".into()));
    case.run(configure(ConfigPatch { hand_over, ..ConfigPatch::default() }));
    case.run(Command::Register(stateless("web/2"), None));
    case.run(push("web/2", Level::Active, None));
    case.run(Command::Depart { reporter: reporter("web/2"), ttl: seconds(30) });
    lose(&mut case, "web/1");
    for gone in ["web/1", "web/2"] {
        let refused = case.ask(Command::TransferLeadership(unit(gone))).unwrap_err();
        assert!(matches!(refused, Rejected::UnitNotThere(_)), "{gone}: {refused}");
        assert_eq!(leader(&case), Some("web/0"));
    }
    // A lost candidate does not lead until it is back.
    case.run(Command::ReleaseLeadership(led_by("web/0", 1)));
    assert_eq!(leader(&case), None);
    case.run(push("web/1", Level::Active, None));
    assert_eq!(leader(&case), Some("web/1"));
}

#[test]
fn a_candidate_whose_promise_is_over_does_not_lead() {
    for (now, leads) in [(10, Some("web/1")), (11, None), (12, None)] {
        let mut case = Case::new();
        case.run(Command::Register(newcomer("web/1", None), Some(seconds(10))));
        case.run(claim_for("web/0", Some(100)));
        assert!(case.ask(claim_for("web/1", None)).is_err());
        // Before the changes by time.
        case.at(now).run(Command::ReleaseLeadership(led_by("web/0", 1)));
        assert_eq!(leader(&case), leads, "{now}");
    }
}

#[test]
fn a_lease_lapses_with_the_session_and_epoch_of_its_holder_alone() {
    let lapse =
        |name, epoch, number| Command::LapseLeadership(led_by(name, epoch), session(number));
    let cases = [
        (lapse("web/0", 1, 0), true),
        (lapse("web/0", 1, 7), false),
        (lapse("web/0", 2, 0), false),
        (lapse("web/1", 1, 1), false),
        (lapse("web/9", 1, 0), false),
    ];
    for (command, lapses) in cases {
        let mut case = led_in_session();
        case.run(connect("web/1", 1));
        let told = case.run(command.clone());
        assert_eq!((told.changed, leader(&case).is_none()), (lapses, lapses), "{command:?}");
    }
    // After the end of the session, unless the unit has reported since.
    for (reports, lapses) in [(false, true), (true, false)] {
        let mut case = led_in_session();
        let (name, ttl) = (unit("web/0"), seconds(60));
        let ended = Command::Disconnect { unit: name, session: session(0), ttl, silent: false };
        case.run(ended);
        if reports {
            case.run(push("web/0", Level::Active, None));
        }
        assert_eq!(case.run(lapse("web/0", 1, 0)).changed, lapses);
    }
}

/// A store may have such a lease from an earlier version.
#[test]
fn a_lease_of_an_earlier_incarnation_is_granted_again() {
    let old = || {
        let mut case = Case::new();
        let drop_leader_status = Some(true);
        case.run(configure(ConfigPatch { drop_leader_status, ..ConfigPatch::default() }));
        case.run(Command::Register(newcomer("web/0", None), None));
        case.run(claim_for("web/0", Some(10)));
        case.run(says(led_by("web/0", 1), Level::Blocked, None, None));
        let mut head = case.state.head().clone();
        head.lease.as_mut().unwrap().incarnation = 0;
        let units = case.state.units_after(None);
        let units = units.map(|(name, unit)| (name.clone(), unit.clone())).collect();
        case.state = AppState::load(app_name(), Records { units, ..Records::of_head(head) });
        case
    };
    for command in [claim_for("web/0", None), Command::TransferLeadership(unit("web/0"))] {
        let mut case = old();
        assert_eq!((leader(&case), case.shown().0), (Some("web/0"), Level::Blocked));
        let told = case.run(command.clone());
        assert_eq!((told.changed, told.lease_epoch), (true, 2), "{command:?}");
        assert_eq!(case.state.head().lease.as_ref().unwrap().incarnation, 1);
        assert_eq!(case.shown().0, Level::Unknown, "the status goes with the epoch");
    }
    // The lease itself goes on to its end.
    let mut case = old();
    let again = Command::Connect(newcomer("web/0", Some(1)), session(0));
    case.at(5).run(again);
    assert_eq!(lease(&case), (10, Some(11)));
    assert_eq!(case.state.next_due(), Some(time(11)));
}

#[test]
fn a_status_of_the_leader_begins_when_it_was_observed_unless_that_is_ahead() {
    let status = |level, observed, ttl| says(led_by("web/0", 1), level, observed, ttl);
    let mut case = Case::new();
    case.run(claim_for("web/0", Some(1000)));
    let steps = [
        (10, status(Level::Blocked, Some(7), None), 7, true, 1),
        (20, status(Level::Waiting, Some(21), None), 20, true, 1),
        (30, status(Level::Active, Some(30), Some(60)), 30, true, 1),
        (30, status(Level::Active, Some(30), Some(60)), 30, false, 0),
        // A repeat with another end makes no history.
        (40, status(Level::Active, Some(40), Some(60)), 30, true, 0),
    ];
    for (now, command, since, changed, events) in steps {
        let told = case.at(now).run(command.clone());
        assert_eq!(told.changed, changed, "{command:?}");
        let kept = case.state.head().application_status.clone().unwrap();
        assert_eq!(kept.since, time(since), "{command:?}");
        let told = case.last.as_ref().unwrap().events.iter();
        let told: Vec<_> = told.filter(|event| event.cause == Cause::LeaderSet).collect();
        assert_eq!(told.len(), events, "{command:?}");
        for event in told {
            assert!(event.subject.as_ref().is_some_and(|subject| subject.unit.is_application()));
            assert_eq!((&*event.message, &*event.reason), ("text", "Why"));
        }
    }
    // The end of before is examined once more.
    case.at(90).pass();
    assert!(case.state.head().application_status.is_some());
    assert_eq!(case.state.next_due(), Some(time(100)));
    case.at(100).pass();
    assert_eq!(case.state.head().application_status, None);
    let event = &case.last.as_ref().unwrap().events[0];
    assert_eq!((event.from, event.to), (Some(Level::Active), None));
    assert!(event.subject.as_ref().is_some_and(|subject| subject.unit.is_application()));
    // Withdrawn by the leader: once.
    case.run(status(Level::Blocked, None, None));
    let clear = || Command::ClearApplicationStatus(led_by("web/0", 1));
    let told = case.run(clear());
    assert_eq!((told.changed, told.removed), (true, 1));
    let event = &case.last.as_ref().unwrap().events[0];
    assert_eq!((event.from, event.to), (Some(Level::Blocked), None));
    let told = case.run(clear());
    assert_eq!((told.changed, told.removed), (false, 0));
}

#[test]
fn a_status_that_the_leader_keeps_begins_with_its_level_and_ends_with_the_epoch() {
    let mut case = Case::new();
    let drop_leader_status = Some(true);
    case.run(configure(ConfigPatch { drop_leader_status, ..ConfigPatch::default() }));
    case.run(claim_for("web/0", Some(1000)));
    let keep = |level, observed: Option<u64>, ttl| {
        let new = new_status("", level, ttl);
        let set = vec![NewStatus { observe_time: observed.map(time), ..new }];
        Command::ReplaceApplicationStatuses(led_by("web/0", 1), None, set)
    };
    let steps = [
        (10, keep(Level::Blocked, Some(7), None), (7, Some(7)), true),
        // The same level, with another ttl.
        (11, keep(Level::Blocked, Some(8), Some(600)), (7, Some(8)), true),
        (12, keep(Level::Blocked, Some(9), Some(600)), (7, Some(8)), false),
        (20, keep(Level::Waiting, Some(21), None), (20, Some(20)), true),
        (30, keep(Level::Active, None, None), (30, None), true),
    ];
    for (now, command, (since, observed), changed) in steps {
        let told = case.at(now).run(command.clone());
        assert_eq!((told.changed, told.removed), (changed, 0), "{command:?}");
        let kept = case.status("", "", Kind::Pull).unwrap();
        assert_eq!((kept.since, kept.observe_time), (time(since), observed.map(time)));
    }
    case.run(Command::ReleaseLeadership(led_by("web/0", 1)));
    assert_eq!(case.status("", "", Kind::Pull), None);
    let events = &case.last.as_ref().unwrap().events;
    let gone = events.iter().find(|event| event.cause == Cause::LeaderEnded).unwrap();
    assert_eq!((gone.from, gone.to), (Some(Level::Active), None));
}

#[test]
fn a_status_that_moves_in_its_set_keeps_a_later_end() {
    let mut case = Case::new();
    case.run(claim_for("web/0", Some(1000)));
    let set = |keys: [&str; 2]| {
        let set = keys.map(|key| new_status(key, Level::Blocked, Some(60))).to_vec();
        Command::ReplaceApplicationStatuses(led_by("web/0", 1), None, set)
    };
    case.at(100).run(set(["a", "b"]));
    // A clock that goes back must not end the statuses earlier.
    assert!(case.at(90).run(set(["b", "a"])).changed, "the order");
    for key in ["a", "b"] {
        assert_eq!(case.status("", key, Kind::Pull).unwrap().expire_time, Some(time(160)), "{key}");
    }
}

#[test]
fn a_status_that_ends_with_its_lease_is_removed_once_by_the_next_set() {
    let mut case = Case::new();
    let drop_leader_status = Some(true);
    case.run(configure(ConfigPatch { drop_leader_status, ..ConfigPatch::default() }));
    case.run(claim_for("web/0", Some(1000)));
    let set = vec![new_status("", Level::Blocked, None)];
    case.run(Command::ReplaceApplicationStatuses(led_by("web/0", 1), None, set));
    let other = Claim { unit: unit("web/1"), lease_epoch: 0, decided_outside: true };
    let told = case.run(Command::ReplaceApplicationStatuses(other, None, Vec::new()));
    assert_eq!(case.status("", "", Kind::Pull), None);
    assert_eq!((told.changed, told.removed), (true, 0), "the end of the lease removed it");
    let events = &case.last.as_ref().unwrap().events;
    let of_status = |event: &&StatusEvent| event.subject.is_some() && event.from.is_some();
    assert!(events.iter().all(|event| event.cause != Cause::LeaderCleared), "{events:?}");
    assert_eq!(events.iter().filter(of_status).count(), 1, "{events:?}");
}

#[test]
fn a_leader_decided_outside_becomes_one_with_its_first_write() {
    let claim = |outside| Claim { unit: unit("web/0"), lease_epoch: 0, decided_outside: outside };
    let clear = |outside| Command::ClearApplicationStatus(claim(outside));
    let mut case = led();
    let told = case.run(clear(true));
    assert_eq!((told.changed, told.removed), (true, 0), "it leads anew");
    assert_eq!(case.state.head().config.external_leader, Some(unit("web/0")));
    assert_eq!(case.state.head().lease, None);
    assert!(!case.run(clear(true)).changed);
    assert!(!case.run(clear(false)).changed);
    let of = |outside| Command::ReplaceApplicationStatuses(claim(outside), None, Vec::new());
    assert!(!case.run(of(true)).changed);
    // Another one takes over with an empty set.
    let other = Claim { unit: unit("web/5"), ..claim(true) };
    assert!(case.run(Command::ReplaceApplicationStatuses(other, None, Vec::new())).changed);
    // And another with the status that is set already.
    let other = |name| Claim { unit: unit(name), ..claim(true) };
    case.run(says(other("web/5"), Level::Active, None, None));
    for (name, changed) in [("web/5", false), ("web/6", true), ("web/6", false)] {
        assert_eq!(case.run(says(other(name), Level::Active, None, None)).changed, changed);
    }
    let refused = case.ask(claim_for("web/1", None)).unwrap_err();
    assert!(matches!(refused, Rejected::LeaderIsExternal(_)), "{refused}");
}

#[test]
fn the_history_names_the_leader_before_and_after_and_its_epoch() {
    let mut case = led();
    case.run(Command::StepBack(reporter("web/0")));
    let events = case.last.unwrap().events;
    let told: Vec<Change> = events.into_iter().flat_map(|event| event.changes).collect();
    let expected = [("leader", "web/0", ""), ("leader", "", "web/1"), ("lease_epoch", "", "2")];
    assert_eq!(told, expected.map(|(field, from, to)| Change::new(field, from, to)));
}

#[test]
fn the_level_that_the_leader_sets_begins_when_it_was_observed_or_when_it_decides() {
    let since = |case: &Case| (case.shown().0, case.state.head().summary.since);
    let mut case = led();
    let epoch = case.at(20).run(claim_for("web/0", Some(100))).lease_epoch;
    let leader = || led_by("web/0", epoch);
    case.run(says(leader(), Level::Waiting, Some(15), None));
    assert_eq!(since(&case), (Level::Waiting, time(15)));
    case.run(says(leader(), Level::Maintenance, Some(16), None));
    assert_eq!(since(&case), (Level::Maintenance, time(16)));
    case.at(25).run(push("web/1", Level::Error, None));
    case.at(30).run(Command::RemoveUnit(unit("web/1")));
    assert_eq!(since(&case), (Level::Maintenance, time(30)));
}
