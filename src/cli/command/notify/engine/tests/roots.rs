//! One cause, one message.

use super::*;
use crate::cli::command::notify::engine::fact::Needed;

fn needs(application: &str, on: &[&str]) -> Fact {
    let needed = |on: &&str| match on.strip_prefix('!') {
        Some(words) => Needed::Outside(words.into()),
        None => Needed::Application(AppRef::new("prod", on), vec![Level::Active]),
    };
    Fact { needs: on.iter().map(needed).collect(), ..mk_fact(application, 1, Level::Waiting) }
}

fn at_least_blocked() -> Route {
    Route { levels: Levels::AtLeast(Level::Blocked), ..mk_route("all") }
}

#[test]
fn applications_behind_a_cause_that_is_sent_are_listed_in_its_message() {
    let mut world = World::new(vec![mk_route("all")]);
    world.take(needs("shop", &["web"]));
    world.take(needs("web", &["db"]));
    world.take(needs("cart", &["db"]));
    world.take(Fact { action: "add a disk".into(), ..mk_fact("db", 1, Level::Blocked) });
    world.pass(600);
    assert_eq!(world.told(), "60 db problem");
    assert_eq!(world.got[0].frees, 3);
    for application in ["db", "web", "cart", "shop"] {
        world.take(mk_fact(application, 2, Level::Active));
    }
    world.pass(1_000);
    assert_eq!(world.told(), "60 db problem, 660 db resolved");
}

#[test]
fn a_route_may_ask_for_each() {
    let mut world = World::new(vec![Route { each: true, ..mk_route("all") }]);
    world.take(mk_fact("db", 1, Level::Blocked));
    world.take(needs("web", &["db"]));
    world.pass(60);
    assert_eq!(world.told(), "60 db problem, 60 web problem");
}

#[test]
fn an_application_with_another_cause_is_sent_alone() {
    let mut world = World::new(vec![mk_route("all")]);
    world.take(mk_fact("db", 1, Level::Blocked));
    world.take(mk_fact("dns", 1, Level::Error));
    world.take(needs("web", &["db", "dns"]));
    world.pass(60);
    assert_eq!(world.told(), "60 db problem, 60 dns problem, 60 web problem");
}

#[test]
fn a_cause_that_the_route_is_not_about_is_sent_with_its_first_application() {
    for cause in ["db", "!quota of prod"] {
        let mut world = World::new(vec![mk_route("all")]);
        let namespaces = vec!["prod".to_string()];
        let applications = vec!["a*".to_string()];
        world = World::new(vec![Route { namespaces, applications, ..world.routes.remove(0) }]);
        for application in ["a1", "a2", "a3"] {
            world.take(needs(application, &[cause]));
        }
        world.pass(100);
        assert_eq!(world.told(), "60 a1 problem", "{cause}");
        // The first one recovers, the cause stays: the next one stands for it.
        world.take(mk_fact("a1", 2, Level::Active));
        world.pass(1_000);
        assert_eq!(world.told(), "60 a1 problem, 160 a1 resolved, 160 a2 problem", "{cause}");
    }
}

#[test]
fn a_listed_application_is_sent_a_while_after_its_cause_has_ended() {
    let mut world = World::new(vec![mk_route("all")]);
    world.take(mk_fact("db", 1, Level::Blocked));
    world.take(needs("web", &["db"]));
    world.pass(600);
    world.take(mk_fact("db", 2, Level::Active));
    world.pass(659);
    assert_eq!(world.told(), "60 db problem");
    world.pass(700);
    assert_eq!(world.told(), "60 db problem, 660 db resolved, 660 web problem");
}

#[test]
fn applications_behind_a_marked_cause_are_silent() {
    let mut world = World::new(vec![mk_route("all")]);
    world.take(Fact { planned: true, ..mk_fact("db", 1, Level::Maintenance) });
    world.take(needs("web", &["db"]));
    world.pass(600);
    assert_eq!(world.told(), "");
    world.take(mk_fact("db", 2, Level::Error));
    world.pass(700);
    assert_eq!(world.told(), "660 db problem");
}

#[test]
fn a_circle_is_sent_once() {
    let mut world = World::new(vec![mk_route("all")]);
    world.take(needs("a", &["b"]));
    world.take(needs("b", &["a"]));
    world.take(needs("c", &["a"]));
    world.pass(100);
    assert_eq!(world.told(), "60 a problem");
    assert_eq!(world.got[0].frees, 2);
}

#[test]
fn a_cause_that_is_milder_than_the_route_is_sent_with_its_first_application() {
    let mut world = World::new(vec![at_least_blocked()]);
    world.take(mk_fact("db", 1, Level::Waiting));
    for application in ["a1", "a2"] {
        world.take(Fact { level: Level::Blocked, ..needs(application, &["db"]) });
    }
    world.pass(100);
    assert_eq!(world.told(), "60 a1 problem");
}

#[test]
fn the_end_of_a_problem_that_was_sent_alone_is_sent_although_a_cause_came_later() {
    let mut world = World::new(vec![mk_route("all")]);
    world.take(mk_fact("web", 1, Level::Error));
    world.pass(100);
    world.take(mk_fact("db", 1, Level::Error));
    world.take(Fact { level: Level::Error, revision: 2, ..needs("web", &["db"]) });
    world.pass(200);
    world.take(mk_fact("web", 3, Level::Active));
    world.pass(300);
    world.take(mk_fact("db", 2, Level::Active));
    world.pass(400);
    let expected = "60 web problem, 160 db problem, 260 web resolved, 360 db resolved";
    assert_eq!(world.told(), expected);
}

#[test]
fn ten_thousand_applications_behind_one_cause_are_one_message() {
    let mut world = World::new(vec![Route { stable_for: Duration::ZERO, ..mk_route("all") }]);
    let time = world.time();
    for number in 0..10_000 {
        world.engine.take(needs(&format!("app-{number}"), &["zone"]), time);
    }
    world.engine.take(mk_fact("zone", 1, Level::Error), time);
    world.pass(10);
    assert_eq!(world.told(), "0 zone problem");
    assert_eq!(world.got[0].frees, 10_000);
}
