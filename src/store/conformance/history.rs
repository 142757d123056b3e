//! Tests of the history of applications.

use std::sync::Arc;

use crate::domain::command::{Command, Request};
use crate::domain::history::Cause;
use crate::domain::leadership::Claim;
use crate::domain::level::Level;
use crate::domain::name::UnitName;
use crate::domain::policy::{ConfigPatch, Policy};
use crate::domain::status::Kind;
use crate::domain::time::Timestamp;
use crate::store::{NumberedEvent, Store};

use super::driver::{Driver, mk_app, mk_report, mk_reporter, mk_status};

pub(super) async fn history_is_paged_and_outlives_its_subjects(store: Arc<dyn Store>) {
    let mut web = Driver::new(&store, "web").await;
    let mut other = Driver::new(&store, "web-2").await;
    for word in ["one", "two", "three", "four"] {
        web.report("web/0", word).await;
        other.report("web/0", word).await;
    }
    let unit = UnitName::new("web/0").unwrap();
    web.run(Command::RemoveUnit(unit)).await;
    web.delete().await;

    let all = web.events().await;
    let numbers: Vec<u64> = all.iter().map(|e| e.number).collect();
    let expected: Vec<u64> = (0..web.state.head().next_event).rev().collect();
    assert_eq!(numbers, expected);
    assert!(all.is_sorted_by(|newer, older| older.event.revision <= newer.event.revision));
    assert_eq!(all.first().map(|e| e.event.cause), Some(Cause::Deleted));
    assert!(all.iter().any(|e| e.event.cause == Cause::UnitRemoved));
    assert!(all.iter().any(|e| &*e.event.message == "one"));

    let mut paged: Vec<NumberedEvent> = Vec::new();
    loop {
        let before = paged.last().map(|e| e.number);
        let page = store.events(&mk_app("web"), before, 3).await.unwrap();
        assert!(page.len() <= 3);
        if page.is_empty() {
            break;
        }
        paged.extend(page);
    }
    assert_eq!(paged, all);
    let none = store.events(&mk_app("web"), Some(0), 3).await.unwrap();
    assert_eq!(none, []);
    let beyond = store.events(&mk_app("web"), Some(u64::MAX), 1).await.unwrap();
    assert_eq!(beyond, all[..1]);
    other.check().await;
    assert_eq!(other.events().await.len() as u64, other.state.head().next_event);
}

/// The store keeps five events about units, and three of the application itself.
pub(super) async fn each_kind_of_event_is_bounded_in_number(store: Arc<dyn Store>) {
    let mut web = Driver::new(&store, "web").await;
    let mut added: [Vec<u64>; 2] = Default::default();
    for n in 0..9 {
        let before = web.state.head().next_event;
        let transition = web.draft(mk_report("web/0", &"x".repeat(n)));
        for (number, event) in (before..).zip(&transition.events) {
            added[usize::from(event.is_own())].push(number);
        }
        web.commit(transition).await.unwrap();
        let [others, own] = &added;
        let newest =
            |of: &[u64], max: usize| of.iter().rev().take(max).copied().collect::<Vec<_>>();
        let mut expected = [newest(others, 5), newest(own, 3)].concat();
        expected.sort_unstable_by(|a, b| b.cmp(a));
        let events = web.events().await;
        let numbers: Vec<u64> = events.iter().map(|e| e.number).collect();
        assert_eq!(numbers, expected);
        let mut paged: Vec<NumberedEvent> = Vec::new();
        loop {
            let last = paged.last().map(|event| event.number);
            let page = store.events(&mk_app("web"), last, 2).await.unwrap();
            if page.is_empty() {
                break;
            }
            paged.extend(page);
        }
        assert_eq!(paged, events);
    }
    web.check().await;
}

pub(super) async fn noise_of_a_unit_evicts_no_event_of_its_application(store: Arc<dyn Store>) {
    let mut web = Driver::new(&store, "web").await;
    let push = |unit: &str, level: Level, message: &str| {
        let status = mk_status("workload", level, message);
        Command::Report(mk_reporter(unit), Kind::Push, status)
    };
    web.run(push("web/0", Level::Blocked, "add a database")).await;
    let openstack = ConfigPatch { policy: Some(Policy::OpenStack), ..ConfigPatch::default() };
    web.run(Command::Configure(Box::new(openstack))).await;
    web.run(Command::ClaimLeadership(mk_reporter("web/0"), None)).await;
    let own = |events: &[NumberedEvent]| {
        let own = events.iter().filter(|numbered| numbered.event.is_own()).cloned();
        own.collect::<Vec<_>>()
    };
    let before = own(&web.events().await);
    for cause in [Cause::Derived, Cause::Configured, Cause::LeaderClaimed] {
        assert!(before.iter().any(|numbered| numbered.event.cause == cause), "{cause:?}");
    }
    // Below the winner nothing about the application changes.
    for _ in 0..100 {
        let levels = [Level::Waiting, Level::Active].into_iter().cycle().take(100);
        let flips: Vec<_> = levels.map(|level| push("web/1", level, "a flip")).collect();
        let transition = web.draft_all(flips);
        web.commit(transition).await.unwrap();
    }
    // Nor does it for statuses that its leader keeps.
    let lease_epoch = web.state.head().lease_epoch;
    let unit = UnitName::new("web/0").unwrap();
    let claim = Claim { unit, lease_epoch, decided_outside: false };
    for _ in 0..12 {
        let levels = [Level::Waiting, Level::Active].into_iter().cycle().take(100);
        let flips = levels.map(|level| {
            let set = vec![mk_status("workload", level, "a flip")];
            Command::ReplaceApplicationStatuses(claim.clone(), None, set)
        });
        let transition = web.draft_all(flips.collect::<Vec<_>>());
        web.commit(transition).await.unwrap();
    }
    assert!(11_200 < web.state.head().next_event);
    let events = web.events().await;
    assert_eq!(own(&events), before);
    assert_eq!(events.len(), 1000 + before.len());
    web.check().await;
}

/// The store keeps events about units for a minute, and those of the application for two.
pub(super) async fn history_is_bounded_in_age(store: Arc<dyn Store>) {
    let mut web = Driver::new(&store, "web").await;
    let now = store.now();
    let report_at = async |web: &mut Driver, word: &str, seconds_ago: u64| {
        let request = Request { id: None, command: mk_report("web/0", word) };
        let time = Timestamp::new(now.millis() - seconds_ago * 1000);
        let transition = web.draft_requests([request], time);
        web.commit(transition).await.unwrap();
        let events = web.events().await;
        let words = events.iter().map(|e| e.event.message.to_string());
        let mut words: Vec<String> = words.collect();
        words.sort();
        words.join(" ")
    };
    // An event about the unit, and one of the application itself.
    assert_eq!(report_at(&mut web, "ancient", 200).await, "");
    assert_eq!(report_at(&mut web, "old", 100).await, "old");
    assert_eq!(report_at(&mut web, "recent", 30).await, "old recent recent");
    assert_eq!(report_at(&mut web, "new", 0).await, "new new old recent recent");
    web.check().await;
}
