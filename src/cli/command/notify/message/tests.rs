//! What a person reads, and what a program gets.

use std::sync::Arc;

use super::*;
use crate::cli::command::notify::config::Destination;
use crate::cli::command::notify::engine::fact::Face;
use crate::cli::command::notify::engine::pair::Told;
use crate::cli::command::notify::engine::route::Levels;
use crate::proto::v1::Level;

fn mk_route() -> Route {
    Route {
        name: "all".into(),
        to: "ops".into(),
        namespaces: Vec::new(),
        applications: Vec::new(),
        levels: Levels::AtLeast(Level::Blocked),
        stable_for: Default::default(),
        recover_after: Default::default(),
        sends_marked: false,
        each: false,
        is_gone: false,
        delivery: Destination::Command(Vec::new()).delivery(),
    }
}

fn mk_delivery(kind: Kind) -> Delivery {
    let since = Timestamp::new(1_000_000);
    let fact = Fact {
        subject: AppRef::new("prod", "postgresql"),
        revision: 9,
        level: Level::Blocked,
        order: [Level::Blocked].into(),
        since,
        message: "no backup\u{1b}[2J target".into(),
        reason: "NoTarget".into(),
        action: "juju integrate postgresql s3-integrator".into(),
        rule: "highest level".into(),
        winner: StatusRef { unit: "postgresql/0".into(), ..StatusRef::default() },
        silent: false,
        planned: false,
        acknowledged: false,
        acknowledgement_expired: false,
        needs: Vec::new(),
    };
    let frees = ["web", "shop", "cart", "a", "b"].map(|name| AppRef::new("prod", name));
    Delivery {
        route: 0,
        subject: fact.subject.clone(),
        kind,
        told: Told {
            opened: Timestamp::new(2_000_000),
            revision: 4,
            face: Face { level: Level::Error, winner: 0, action: 0 },
            since,
            attempted: None,
            message: "was said".into(),
            acknowledged: 0,
        },
        fact: Some(Arc::new(fact)),
        frees: frees.to_vec(),
    }
}

fn text(delivery: &Delivery) -> String {
    let now = Timestamp::new(1_000_000 + 3 * 3_600_000);
    message(delivery, &mk_route(), None, Some("https://s.example.com"), now).text
}

#[test]
fn a_problem_is_three_lines() {
    let expected = "prod/postgresql is blocked (3h): postgresql/0: no backup [2J target\n\
                    -> juju integrate postgresql s3-integrator\n\
                    frees 5: web, shop, cart, +2";
    assert_eq!(text(&mk_delivery(Kind::Problem)), expected);
}

#[test]
fn each_kind_has_its_first_line() {
    for (kind, expected) in [
        (Kind::Repeat, "prod/postgresql is blocked (3h): postgresql/0: no backup [2J target"),
        (
            Kind::Changed(ChangeKind::State),
            "prod/postgresql is blocked, was error: postgresql/0: no backup [2J target",
        ),
        (
            Kind::Changed(ChangeKind::AcknowledgementExpired),
            "prod/postgresql is still blocked, and its acknowledgement has ended: postgresql/0: no \
             backup [2J target",
        ),
        (Kind::Resolved(Ending::Recovered), "prod/postgresql is blocked; it was error for 3h"),
        (
            Kind::Resolved(Ending::Planned),
            "prod/postgresql is covered by planned work; it was error for 3h",
        ),
        (
            Kind::Resolved(Ending::RouteGone),
            "prod/postgresql is no longer followed by the route all; it was error for 3h",
        ),
    ] {
        assert_eq!(text(&mk_delivery(kind)).lines().next(), Some(expected));
    }
    let mut back = mk_delivery(Kind::Resolved(Ending::Recovered));
    back.told.face.level = Level::Blocked;
    assert_eq!(text(&back), "prod/postgresql had recovered; it was blocked for 3h");
    let gone = Delivery { fact: None, ..mk_delivery(Kind::Resolved(Ending::Deleted)) };
    assert_eq!(text(&gone), "prod/postgresql is deleted; it was error for 3h");
    let over = Delivery { fact: None, ..mk_delivery(Kind::Problem) };
    let sent = message(&over, &mk_route(), None, None, Timestamp::new(9_000_000));
    assert_eq!((&*sent.level, &*sent.message), ("error", "was said"));
    assert!(text(&over).starts_with("prod/postgresql is error (3h): was said"), "{}", text(&over));
}

#[test]
fn the_id_is_that_of_the_problem_and_of_the_revision_of_a_change() {
    let id = |kind, revision| {
        let mut delivery = mk_delivery(kind);
        Arc::make_mut(delivery.fact.as_mut().unwrap()).revision = revision;
        message(&delivery, &mk_route(), None, None, Timestamp::new(0)).id
    };
    assert_eq!(id(Kind::Problem, 9), id(Kind::Problem, 10));
    assert_eq!(id(Kind::Problem, 9), id(Kind::Repeat, 9));
    assert_eq!(id(Kind::Resolved(Ending::Planned), 9), id(Kind::Resolved(Ending::Recovered), 11));
    assert_ne!(id(Kind::Changed(ChangeKind::State), 9), id(Kind::Changed(ChangeKind::State), 10));
    assert_ne!(id(Kind::Problem, 9), id(Kind::Resolved(Ending::Recovered), 9));
}

#[test]
fn a_message_has_every_fact_and_no_control_characters() {
    let delivery = mk_delivery(Kind::Changed(ChangeKind::State));
    let page = Some("https://s.example.com");
    let message = message(&delivery, &mk_route(), None, page, Timestamp::new(9_000_000));
    let json = serde_json::to_value(&message).unwrap();
    for (key, expected) in [
        ("type", "changed"),
        ("namespace", "prod"),
        ("application", "postgresql"),
        ("level", "blocked"),
        ("level_before", "error"),
        ("since", "1970-01-01T00:16:40Z"),
        ("message", "no backup [2J target"),
        ("reason", "NoTarget"),
        ("rule", "highest level"),
        ("url", "https://s.example.com/?why=prod/postgresql"),
    ] {
        assert_eq!(json[key], expected, "{key}");
    }
    assert_eq!((&json["revision"], &json["coalesced_count"]), (&9.into(), &4.into()));
    assert_eq!(json["winner"]["unit"], "postgresql/0");
    assert_eq!((&json["frees_count"], &json["frees"][0]), (&5.into(), &"prod/web".into()));
    let variables = message.variables();
    let value = |name: &str| variables.iter().find(|(it, _)| *it == name).map(|(_, v)| v.as_str());
    assert_eq!(value("BELLWETHER_UNIT"), Some("postgresql/0"));
    assert_eq!(value("BELLWETHER_ACKNOWLEDGED"), Some("false"));
    assert!(variables.iter().all(|(name, _)| name.starts_with("BELLWETHER_")));
    assert!(!json.to_string().contains("\\u001b"));
}

#[test]
fn a_message_of_long_texts_fits_a_webhook() {
    let mut delivery = mk_delivery(Kind::Problem);
    let fact = Arc::make_mut(delivery.fact.as_mut().unwrap());
    fact.message = "m".repeat(4_096);
    fact.action = "\u{1f980}".repeat(1_024);
    fact.rule = "r".repeat(4_096);
    let long = "n".repeat(253);
    delivery.frees = (0..10_000).map(|n| AppRef::new(&long, &format!("{n:0>253}"))).collect();
    let message = message(&delivery, &mk_route(), None, None, Timestamp::new(0));
    let length = serde_json::to_vec(&message).unwrap().len();
    assert!(length < 20_000, "{length}");
    assert_eq!((message.frees_count, message.frees.len()), (10_000, LINES_MAX));
}
