//! Single cases of stateless units that are replaced: the successor of a unit that leaves, the
//! predecessor of a new one, and what passes.

use bellwether::domain::command::Command;
use bellwether::domain::level::Level;
use bellwether::domain::silence::lose_unit;
use bellwether::domain::status::Kind;

use crate::case::{
    Case, handing_over, newcomer, push, reporter, seconds, session, stateless, time, unit,
};

/// Returns an application in which `web-a` has pushed a status for a successor.
fn with_predecessor() -> Case {
    let mut case = handing_over();
    case.run(Command::Register(stateless("web-a"), None));
    case.run(push("web-a", Level::Waiting, Some(60)));
    case
}

fn depart(name: &str) -> Command {
    Command::Depart { reporter: reporter(name), ttl: seconds(30) }
}

fn level(case: &Case, name: &str) -> Option<Level> {
    let status = case.has_unit(name).then(|| case.status(name, "", Kind::Push)).flatten();
    status.map(|status| status.report.level)
}

fn lose(case: &mut Case, name: &str) {
    case.commit(|draft| lose_unit(draft, &unit(name)));
}

#[test]
fn a_unit_that_is_not_there_succeeds_no_other() {
    let gone: [fn(&mut Case); 4] = [
        |case| {
            case.run(Command::AnnounceStop(reporter("web-b")));
        },
        |case| lose(case, "web-b"),
        |case| {
            // The contact that it promised is missing.
            case.run(Command::Register(newcomer("web-b", Some(1)), Some(seconds(10))));
            case.at(20).pass();
        },
        |case| {
            case.run(push("web-b", Level::Active, None));
            case.run(depart("web-b"));
        },
    ];
    for (number, gone) in gone.into_iter().enumerate() {
        let mut case = with_predecessor();
        case.run(Command::Register(stateless("web-b"), None));
        if number == 3 {
            // Otherwise `web-a` succeeds it.
            lose(&mut case, "web-a");
        }
        gone(&mut case);
        let before = level(&case, "web-b");
        case.at(30).run(depart("web-a"));
        assert_eq!(level(&case, "web-a"), Some(Level::Waiting), "number {number}");
        assert_eq!(level(&case, "web-b"), before, "number {number}");
    }
}

#[test]
fn the_successor_is_the_unit_whose_presence_is_known_best() {
    let begin = |case: &mut Case, name: &str, how: &str| {
        let command = match how {
            "connected" => Command::Connect(stateless(name), session(0)),
            "promised" => Command::Register(stateless(name), Some(seconds(500))),
            _ => Command::Register(stateless(name), None),
        };
        case.now += 1;
        case.run(command);
    };
    for (earlier, later) in [("promised", "unbound"), ("connected", "promised")] {
        let mut case = with_predecessor();
        begin(&mut case, "web-b", earlier);
        begin(&mut case, "web-c", later);
        case.at(40).run(depart("web-a"));
        let levels = (level(&case, "web-b"), level(&case, "web-c"));
        assert_eq!(levels, (Some(Level::Waiting), None), "{earlier}, {later}");
    }
}

#[test]
fn a_new_unit_succeeds_the_one_that_has_left_before_one_that_is_lost() {
    let mut case = with_predecessor();
    case.at(2).run(Command::Register(stateless("web-b"), None));
    assert_eq!(level(&case, "web-a"), Some(Level::Waiting), "it is there");
    lose(&mut case, "web-a");
    case.at(5).run(push("web-b", Level::Blocked, None));
    case.run(depart("web-b"));
    case.at(6).run(Command::Register(stateless("web-c"), None));
    assert_eq!(level(&case, "web-c"), Some(Level::Blocked));
    assert_eq!(level(&case, "web-a"), Some(Level::Waiting));
    case.at(7).run(Command::Register(stateless("web-d"), None));
    assert_eq!((level(&case, "web-d"), case.has_unit("web-a")), (Some(Level::Waiting), false));
}

#[test]
fn a_passed_status_is_written_now_and_replaces_none() {
    let mut case = with_predecessor();
    case.at(2).run(Command::Register(stateless("web-b"), None));
    case.at(40).run(depart("web-a"));
    let passed = case.status("web-b", "", Kind::Push).unwrap();
    assert_eq!((passed.since, passed.update_time), (time(1), time(40)));
    assert_eq!(passed.expire_time, Some(time(61)));
    let mut case = with_predecessor();
    case.at(2).run(Command::Register(stateless("web-b"), None));
    case.run(push("web-b", Level::Active, None));
    case.at(40).run(depart("web-a"));
    assert_eq!(level(&case, "web-b"), Some(Level::Active));
}
