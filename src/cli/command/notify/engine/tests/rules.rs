//! The rules one by one.

use super::*;

#[test]
fn a_problem_is_sent_after_a_time_and_its_end_after_a_time() {
    let mut world = World::new(vec![mk_route("all")]);
    world.take(mk_fact("web", 1, Level::Blocked));
    world.pass(59);
    assert_eq!(world.told(), "");
    assert!(world.stored.is_empty());
    world.pass(60);
    assert_eq!(world.told(), "60 web problem");
    assert_eq!(world.stored.len(), 1);
    world.take(mk_fact("web", 2, Level::Active));
    world.pass(119);
    world.take(mk_fact("web", 3, Level::Blocked));
    world.pass(200);
    world.take(mk_fact("web", 4, Level::Active));
    world.pass(300);
    assert_eq!(world.told(), "60 web problem, 260 web resolved");
    assert!(world.stored.is_empty());
}

#[test]
fn a_level_that_began_before_the_process_is_sent_at_once() {
    let mut world = World::new(vec![mk_route("all")]);
    world.now = 1_000;
    let since = Timestamp::new(900_000);
    world.take(Fact { since, ..mk_fact("old", 1, Level::Error) });
    assert_eq!(world.told(), "1000 old problem");
}

#[test]
fn a_change_of_level_winner_or_action_is_sent_once_a_minute() {
    let mut world = World::new(vec![mk_route("all")]);
    world.take(mk_fact("web", 1, Level::Blocked));
    world.pass(60);
    world.take(mk_fact("web", 2, Level::Error));
    world.take(Fact { message: "other words".into(), ..mk_fact("web", 3, Level::Error) });
    world.pass(70);
    world.take(Fact { action: "juju resolve".into(), ..mk_fact("web", 4, Level::Error) });
    world.pass(80);
    world.take(Fact { action: "juju ssh".into(), ..mk_fact("web", 5, Level::Error) });
    world.pass(300);
    assert_eq!(world.told(), "60 web problem, 60 web changed, 120 web changed");
    assert_eq!(world.got[2].revision, 5);
}

#[test]
fn unknown_and_silent_open_nothing_and_close_nothing() {
    let mut world = World::new(vec![mk_route("all")]);
    world.take(mk_fact("never", 1, Level::Unknown));
    world.take(mk_fact("web", 1, Level::Blocked));
    world.pass(100);
    world.take(mk_fact("web", 2, Level::Unknown));
    world.pass(150);
    assert_eq!(world.told(), "60 web problem", "a moment without knowledge is no news");
    world.pass(1_000);
    world.take(Fact { silent: true, ..mk_fact("web", 3, Level::Active) });
    world.pass(2_000);
    assert_eq!(world.told(), "60 web problem, 160 web changed, 1000 web changed");
    world.take(mk_fact("web", 4, Level::Active));
    world.pass(3_000);
    assert!(world.told().ends_with(", 2060 web resolved"), "{}", world.told());
}

#[test]
fn each_way_to_end_is_sent_with_its_cause() {
    let ends = |world: &World| world.got.iter().map(|got| got.kind).collect::<Vec<_>>();
    for (end, expected) in [
        ("planned", Kind::Resolved(Ending::Planned)),
        ("deleted", Kind::Resolved(Ending::Deleted)),
        ("route", Kind::Resolved(Ending::RouteGone)),
        ("filter", Kind::Resolved(Ending::RouteGone)),
    ] {
        let mut world = World::new(vec![mk_route("all")]);
        let fact = mk_fact("web", 1, Level::Error);
        world.take(fact.clone());
        world.pass(60);
        match end {
            "planned" => {
                world.take(Fact { planned: true, ..mk_fact("web", 2, Level::Maintenance) });
            }
            "deleted" => {
                let time = world.time();
                world.engine.gone(&fact.subject, time);
                world.work();
            }
            "route" => world.restart(vec![mk_route("other")], &[fact]),
            _ => {
                let namespaces = vec!["infra".to_string()];
                world.restart(vec![Route { namespaces, ..mk_route("all") }], &[fact]);
            }
        }
        assert_eq!(ends(&world)[..2], [Kind::Problem, expected], "{end}");
        assert!(world.stored.keys().all(|name| name.route == "other"), "{end}");
    }
}

#[test]
fn an_application_that_is_deleted_while_no_process_runs_has_an_end() {
    let mut world = World::new(vec![mk_route("all")]);
    world.take(mk_fact("web", 1, Level::Error));
    world.pass(60);
    world.restart(vec![mk_route("all")], &[]);
    assert_eq!(world.told(), "60 web problem, 60 web resolved");
}

#[test]
fn marks_are_ignored_by_a_route_that_sends_them() {
    let mut world = World::new(vec![Route { sends_marked: true, ..mk_route("all") }]);
    world.take(Fact { acknowledged: true, ..mk_fact("web", 1, Level::Error) });
    world.take(Fact { planned: true, ..mk_fact("db", 1, Level::Maintenance) });
    world.pass(60);
    assert_eq!(world.told(), "60 db problem, 60 web problem");
}

#[test]
fn an_acknowledged_problem_is_sent_again_if_it_gets_worse_than_what_was_sent() {
    let mut world = World::new(vec![mk_route("all")]);
    world.take(mk_fact("web", 1, Level::Waiting));
    world.pass(60);
    world.take(Fact { acknowledged: true, ..mk_fact("web", 2, Level::Error) });
    world.pass(600);
    assert_eq!(world.told(), "60 web problem, 60 web changed");
    let expired = Fact { acknowledgement_expired: true, ..mk_fact("web", 3, Level::Error) };
    world.take(expired.clone());
    assert!(world.told().ends_with(", 600 web changed"), "{}", world.told());
    world.take(expired);
    world.pass(2_000);
    assert_eq!(world.got.len(), 3);
}

#[test]
fn the_end_of_an_acknowledgement_is_sent_also_by_the_next_process() {
    let mut world = World::new(vec![mk_route("all")]);
    world.take(mk_fact("web", 1, Level::Error));
    world.pass(60);
    world.take(Fact { acknowledged: true, ..mk_fact("web", 2, Level::Error) });
    assert_eq!(world.engine.acknowledged_at(&AppRef::new("prod", "web")), Some(2));
    world.restart(vec![mk_route("all")], &[]);
    let world_knows = world.stored.values().next().map(|told| told.acknowledged);
    assert_eq!(world_knows, None, "the application is gone, and so is the record");
    let mut world = World::new(vec![mk_route("all")]);
    world.take(mk_fact("web", 1, Level::Error));
    world.pass(60);
    world.take(Fact { acknowledged: true, ..mk_fact("web", 2, Level::Error) });
    let expired = Fact { acknowledgement_expired: true, ..mk_fact("web", 3, Level::Error) };
    world.restart(vec![mk_route("all")], &[expired]);
    assert_eq!(world.told(), "60 web problem, 60 web changed");
}

#[test]
fn a_receiver_that_fails_holds_back_its_own_route_and_gets_the_newest_state() {
    let mut world = World::new(vec![mk_route("a"), mk_route("b")]);
    world.failing = vec![0];
    for application in ["db", "web"] {
        world.take(mk_fact(application, 1, Level::Blocked));
    }
    world.pass(70);
    assert_eq!(world.told(), "60 db problem, 60 web problem");
    assert!(world.got.iter().all(|got| got.route == "b"));
    assert_eq!(world.engine.owed_since().len(), 1);
    world.take(mk_fact("web", 2, Level::Error));
    world.pass(3_600);
    world.failing.clear();
    world.pass(3_600 + 300);
    let of_a = world.got.iter().filter(|got| got.route == "a");
    let mut of_a: Vec<_> =
        of_a.map(|got| (&*got.application, got.kind.word(), got.revision)).collect();
    // Each attempt is for the application that has waited the longest.
    of_a.sort_by_key(|(application, ..)| *application);
    // `web` was tried with revision 1, so what differs from that is a change.
    assert_eq!(of_a, [("db", "problem", 1), ("web", "problem", 2), ("web", "changed", 2)]);
    assert!(world.engine.owed_since().is_empty());
}

#[test]
fn a_problem_that_may_have_been_sent_is_sent_and_ended() {
    let mut world = World::new(vec![mk_route("all")]);
    world.failing = vec![0];
    world.take(mk_fact("web", 1, Level::Blocked));
    world.pass(61);
    let opened = world.stored.values().next().map(|told| told.opened);
    world.take(mk_fact("web", 2, Level::Active));
    world.pass(600);
    world.failing.clear();
    world.restart(vec![mk_route("all")], &[mk_fact("web", 2, Level::Active)]);
    world.pass(900);
    let got: Vec<_> = world.got.iter().map(|got| (got.kind.word(), Some(got.opened))).collect();
    assert_eq!(got, [("problem", opened), ("resolved", opened)]);
}

#[test]
fn an_end_that_may_have_been_sent_is_sent_before_the_next_problem() {
    for restarts in [false, true] {
        let mut world = World::new(vec![mk_route("all")]);
        world.take(mk_fact("web", 1, Level::Blocked));
        world.pass(60);
        world.failing = vec![0];
        world.take(mk_fact("web", 2, Level::Active));
        world.pass(121);
        let back = mk_fact("web", 3, Level::Blocked);
        match restarts {
            true => world.restart(vec![mk_route("all")], std::slice::from_ref(&back)),
            false => world.take(back),
        }
        world.failing.clear();
        world.pass(600);
        let got: Vec<_> = world.got.iter().map(|got| got.kind.word()).collect();
        assert_eq!(got, ["problem", "resolved", "problem"], "{restarts}");
        assert!(world.got[0].opened < world.got[2].opened);
    }
}

#[test]
fn a_change_that_may_have_been_sent_is_followed_by_the_newest_state() {
    for restarts in [false, true] {
        let mut world = World::new(vec![mk_route("all")]);
        let blocked = mk_fact("web", 1, Level::Blocked);
        world.take(blocked.clone());
        world.pass(60);
        world.failing = vec![0];
        world.take(mk_fact("web", 2, Level::Error));
        let back = Fact { revision: 3, ..blocked };
        match restarts {
            true => world.restart(vec![mk_route("all")], std::slice::from_ref(&back)),
            false => world.take(back),
        }
        world.failing.clear();
        world.pass(600);
        let got: Vec<_> = world.got.iter().map(|got| (got.kind.word(), got.revision)).collect();
        assert_eq!(got, [("problem", 1), ("changed", 3)], "{restarts}");
    }
}

#[test]
fn a_receiver_that_is_gone_gets_nothing_more() {
    let mut world = World::new(vec![mk_route("all")]);
    world.take(mk_fact("web", 1, Level::Blocked));
    world.now = 60;
    let work = world.engine.turn(world.time());
    world.engine.ended(&work.send[0], Outcome::TurnedOff, world.time());
    world.take(mk_fact("db", 1, Level::Blocked));
    world.pass(9_000);
    assert_eq!(world.told(), "");
    assert_eq!(world.engine.wakes_at(), None);
}

#[test]
fn an_open_problem_is_sent_again_to_a_receiver_that_forgets() {
    let every = Duration::from_secs(60);
    let delivery = DeliveryWay { at_once_max: 512, repeat_every: Some(every) };
    let route = Route { delivery, ..mk_route("all") };
    let mut world = World::new(vec![route.clone()]);
    let fact = mk_fact("web", 1, Level::Blocked);
    world.take(fact.clone());
    world.pass(240);
    let repeats = |world: &World| world.got.iter().filter(|got| got.kind == Kind::Repeat).count();
    assert_eq!(repeats(&world), 3);
    world.restart(vec![route], &[fact]);
    assert_eq!(repeats(&world), 4, "a new process sends it at once");
}

#[test]
fn nothing_is_sent_while_the_engine_cannot_see() {
    let mut world = World::new(vec![mk_route("all")]);
    world.take(mk_fact("web", 1, Level::Blocked));
    world.engine.blind();
    world.pass(600);
    assert_eq!(world.told(), "");
    world.take(mk_fact("web", 2, Level::Active));
    let time = world.time();
    world.engine.sees(time);
    world.pass(900);
    assert_eq!(world.told(), "");
}

#[test]
fn beyond_the_room_problems_wait_and_are_counted() {
    let mut world = World::with_room(vec![mk_route("all")], 2);
    for application in ["a", "b", "c", "d"] {
        world.take(mk_fact(application, 1, Level::Blocked));
    }
    world.pass(60);
    assert_eq!(world.told(), "60 a problem, 60 b problem");
    assert_eq!((world.engine.open_count(), world.engine.unsent_count()), (2, 2));
    world.take(mk_fact("d", 2, Level::Active));
    assert_eq!(world.engine.unsent_count(), 1);
    world.take(mk_fact("a", 2, Level::Active));
    world.pass(200);
    assert!(world.told().ends_with("120 a resolved, 120 c problem"), "{}", world.told());
    assert_eq!(world.engine.unsent_count(), 0);
}
