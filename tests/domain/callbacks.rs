//! Callbacks that a unit requests: due at their time, replaced, cancelled, and bounded.

use bellwether::domain::apply::apply;
use bellwether::domain::command::{Command, Request};
use bellwether::domain::level::Level;
use bellwether::domain::limits::CALLBACKS_PER_UNIT_MAX;
use bellwether::domain::rejected::Rejected;
use bellwether::domain::request::RequestId;
use bellwether::domain::unit::refused::IdentityError;
use bellwether::domain::unit::{Reporter, Topic};

use crate::case::{Case, newcomer, part, push, reporter, seconds, session, time, unit};

fn topic(key: &str) -> Topic {
    Topic::requested(part(""), part(key))
}

fn request_by(reporter: Reporter, key: &str, after: Option<u64>) -> Command {
    let (topic, after) = (topic(key), after.map(seconds));
    Command::RequestCallback { reporter, topic, after, reason: "the volume attaches".into() }
}

fn request(key: &str, after: u64) -> Command {
    request_by(reporter("web/0"), key, Some(after))
}

fn cancel(key: &str) -> Command {
    request_by(reporter("web/0"), key, None)
}

/// Returns the keys of the due callbacks.
fn due(case: &Case) -> Vec<String> {
    let due = case.unit("web/0").due_callbacks();
    due.map(|(topic, _)| topic.key.as_ref().unwrap().as_str().to_string()).collect()
}

#[test]
fn a_request_begins_the_unit_and_is_due_at_its_time() {
    let mut case = Case::new();
    assert!(case.at(10).run(request("volume", 30)).changed);
    let callback = &case.unit("web/0").callbacks[&topic("volume")];
    let asked = callback.request.as_ref().unwrap();
    assert_eq!((asked.time, &*asked.reason), (time(10), "the volume attaches"));
    assert_eq!(case.state.next_due(), Some(time(40)));
    for (now, expected) in [(39, &[][..]), (40, &["volume"])] {
        case.at(now).pass();
        assert_eq!(due(&case), expected, "at {now}");
    }
}

#[test]
fn a_later_request_with_the_same_key_replaces_it_and_others_stay() {
    let mut case = Case::new();
    case.at(10).run(request("volume", 30));
    case.run(request("", 30));
    case.run(request_by(reporter("web/0"), "other", Some(100)));
    case.at(40).pass();
    assert_eq!(due(&case), ["", "volume"]);
    case.run(request("volume", 30));
    assert_eq!(due(&case), [""]);
    case.at(70).pass();
    assert_eq!(due(&case), ["", "volume"]);
}

#[test]
fn a_callback_stays_due_until_it_is_cancelled() {
    let mut case = Case::new();
    case.at(10).run(request("volume", 30));
    case.at(1000).pass();
    case.run(Command::Register(newcomer("web/0", None), None));
    assert_eq!(due(&case), ["volume"], "a new incarnation does not end it");
    assert!(case.run(cancel("volume")).changed);
    assert!(case.unit("web/0").callbacks.is_empty());
    assert!(!case.run(cancel("volume")).changed);
}

#[test]
fn a_cancellation_begins_no_unit() {
    let mut case = Case::new();
    assert!(!case.run(cancel("volume")).changed);
    assert!(!case.has_unit("web/0"));
}

#[test]
fn a_cancellation_is_contact_in_a_session_alone() {
    for (session, is_back) in [(None, false), (Some(session(0)), true)] {
        let mut case = Case::new();
        case.run(Command::Connect(newcomer("web/0", None), crate::case::session(0)));
        case.commit(|draft| {
            bellwether::domain::silence::lose_unit(draft, &unit("web/0"));
        });
        let sender = Reporter { session, ..reporter("web/0") };
        assert_eq!(case.run(request_by(sender, "volume", None)).changed, is_back);
        assert_eq!(case.unit("web/0").lost_since.is_none(), is_back);
    }
}

#[test]
fn an_older_incarnation_requests_and_cancels_nothing() {
    let mut case = Case::new();
    for _ in 0..2 {
        case.run(Command::Register(newcomer("web/0", None), None));
    }
    let older = || Reporter::new(unit("web/0"), Some(1));
    for after in [Some(30), None] {
        let refused = case.ask(request_by(older(), "volume", after)).unwrap_err();
        let Rejected::Identity(IdentityError::StaleIncarnation { given, .. }) = refused else {
            panic!("{refused}");
        };
        assert_eq!(given, 1);
    }
}

#[test]
fn a_removed_unit_has_no_callbacks() {
    let mut case = Case::new();
    case.at(10).run(request("volume", 30));
    case.run(Command::RemoveUnit(unit("web/0")));
    assert!(!case.has_unit("web/0"));
    let refused = case.ask(request("volume", 30)).unwrap_err();
    assert!(matches!(refused, Rejected::Identity(IdentityError::JustRemoved { .. })), "{refused}");
}

#[test]
fn a_repeat_of_a_request_does_not_move_the_time() {
    let mut case = Case::new();
    let mut send = |now: u64| {
        let id = Some(RequestId::from("r1"));
        let request = Request { id, command: request("volume", 30) };
        case.at(now).commit(|draft| apply(draft, &request).unwrap().changed)
    };
    assert!(send(10) && send(20), "the repeat gets the same answer");
    assert_eq!(case.unit("web/0").callbacks[&topic("volume")].at, time(40));
}

/// Neither kind takes the place of the other.
#[test]
fn requested_callbacks_and_retries_are_bounded_apart() {
    let mut case = Case::new();
    case.run(push("web/0", Level::Active, None));
    case.commit(|draft| {
        for n in 0..CALLBACKS_PER_UNIT_MAX {
            let command = request(&n.to_string(), 30);
            apply(draft, &Request { id: None, command }).unwrap();
        }
    });
    let Err(Rejected::LimitExceeded(refused)) = case.ask(request("more", 30)) else {
        panic!("more than {CALLBACKS_PER_UNIT_MAX}");
    };
    assert_eq!(refused.limit, "callbacks_per_unit_max");
    case.run(request("7", 60));
    let topic = Topic::retry(part("db"), "pg");
    let retry =
        Command::AddCallback { unit: unit("web/0"), topic, at: time(9), operation_id: "".into() };
    assert!(case.run(retry).changed);
    assert!(case.run(cancel("8")).changed);
    assert!(case.run(request("more", 30)).changed);
}
