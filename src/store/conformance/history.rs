//! Tests of the history of applications.

use std::sync::Arc;

use crate::domain::command::{Command, Request};
use crate::domain::history::Cause;
use crate::domain::name::UnitName;
use crate::domain::time::Timestamp;
use crate::store::{NumberedEvent, Store};

use super::driver::{Driver, mk_app, mk_report};

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

pub(super) async fn history_is_bounded_in_number(store: Arc<dyn Store>) {
    let mut web = Driver::new(&store, "web").await;
    for n in 0..9 {
        web.report("web/0", &"x".repeat(n)).await;
        let events = web.events().await;
        let next = web.state.head().next_event;
        let expected: Vec<u64> = (next.saturating_sub(5)..next).rev().collect();
        let numbers: Vec<u64> = events.iter().map(|e| e.number).collect();
        assert_eq!(numbers, expected);
    }
    web.check().await;
}

/// The store keeps events for a minute.
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
        let words: std::collections::BTreeSet<_> = words.collect();
        words.into_iter().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(report_at(&mut web, "ancient", 200).await, "");
    assert_eq!(report_at(&mut web, "old", 100).await, "");
    assert_eq!(report_at(&mut web, "recent", 30).await, "recent");
    assert_eq!(report_at(&mut web, "new", 0).await, "new recent");
    web.check().await;
}
