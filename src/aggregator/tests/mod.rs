//! Tests of the aggregator on the memory store, with a paused clock.

mod redis;
mod replicas;

use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::domain::command::{Command, NewStatus};
use crate::domain::level::Level;
use crate::domain::limits::LimitExceeded;
use crate::domain::name::{ApplicationNotFound, PartName, UnitName};
use crate::domain::rejected::Rejected;
use crate::domain::request::RequestId;
use crate::domain::status::report::Report;
use crate::domain::status::{Freshness, Kind};
use crate::domain::unit::Reporter;
use crate::store::faulty::FaultyStore;
use crate::store::{MemoryStore, Retention};

fn mk_app(name: &str) -> AppName {
    AppName::new("", name).unwrap()
}

fn mk_report(unit: &str, level: Level, message: &str, ttl: Option<u64>) -> Request {
    let reporter = Reporter::new(UnitName::new(unit).unwrap(), None);
    let report = Report {
        level,
        message: message.into(),
        ttl: ttl.map(Duration::from_secs),
        ..Report::default()
    };
    let status = NewStatus {
        component: PartName::default(),
        key: PartName::default(),
        report: Arc::new(report),
        observe_time: None,
    };
    Request { id: None, command: Command::Report(reporter, Kind::Push, status) }
}

fn start(store: Arc<dyn Store>) -> Aggregator {
    Aggregator::start(store, Options::default(), Metrics::disabled())
}

fn mk_store() -> Arc<FaultyStore> {
    FaultyStore::over(MemoryStore::new(Retention::default()))
}

async fn level(aggregator: &Aggregator, app: &AppName) -> Level {
    let read = aggregator.read(app, Revision(0), |s| s.head().summary.level).await;
    read.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_report_is_committed_before_it_is_acknowledged() {
    let store = mk_store();
    let aggregator = start(store.clone());
    let app = mk_app("web");
    let report = mk_report("web/0", Level::Blocked, "add a relation", None);
    let outcome = aggregator.apply(&app, report.clone()).await.unwrap();
    assert_eq!((outcome.revision, outcome.changed), (Revision(1), true));
    assert_eq!(store.load(&app).await.unwrap().head.revision, Revision(1));
    let again = aggregator.apply(&app, report).await.unwrap();
    assert_eq!((again.revision, again.changed), (Revision(1), false));
    assert_eq!(level(&aggregator, &app).await, Level::Blocked);
}

#[tokio::test(start_paused = true)]
async fn reports_that_wait_are_committed_together() {
    let aggregator = start(mk_store());
    let app = mk_app("web");
    let reports = (0..500).map(|n| {
        let report = mk_report(&format!("web/{n}"), Level::Active, "", None);
        let (aggregator, app) = (aggregator.clone(), app.clone());
        tokio::spawn(async move { aggregator.apply(&app, report).await.unwrap() })
    });
    for report in reports.collect::<Vec<_>>() {
        report.await.unwrap();
    }
    let head = aggregator.read(&app, Revision(0), |s| s.head().clone()).await.unwrap();
    assert_eq!(head.summary.totals.units, 500);
    assert!(head.revision < Revision(100), "{} commits", head.revision);
}

#[tokio::test(start_paused = true)]
async fn time_alone_makes_stale_then_lost() {
    let aggregator = start(mk_store());
    let app = mk_app("web");
    let report = mk_report("web/0", Level::Active, "up", Some(30));
    aggregator.apply(&app, report.clone()).await.unwrap();
    let freshness = async |revision| {
        let unit = UnitName::new("web/0").unwrap();
        let read = |s: &AppState| s.unit(&unit).unwrap().freshness();
        aggregator.read(&app, revision, read).await.unwrap()
    };
    assert_eq!(freshness(Revision(1)).await, Freshness::Fresh);
    // A read at the next revision waits for it: the paused clock advances automatically.
    let before = tokio::time::Instant::now();
    assert_eq!(freshness(Revision(2)).await, Freshness::Stale);
    assert_eq!(before.elapsed().as_secs(), 30);
    assert_eq!(level(&aggregator, &app).await, Level::Active);
    assert_eq!(freshness(Revision(3)).await, Freshness::Lost);
    assert_eq!(before.elapsed().as_secs(), 150);
    assert_eq!(level(&aggregator, &app).await, Level::Waiting);
    aggregator.apply(&app, report).await.unwrap();
    assert_eq!(freshness(Revision(4)).await, Freshness::Fresh);
    assert_eq!(level(&aggregator, &app).await, Level::Active);
}

#[tokio::test(start_paused = true)]
async fn a_repeat_moves_the_deadline_and_nothing_else() {
    let aggregator = start(mk_store());
    let app = mk_app("web");
    let report = mk_report("web/0", Level::Active, "up", Some(30));
    for _ in 0..20 {
        let outcome = aggregator.apply(&app, report.clone()).await.unwrap();
        assert_eq!(outcome.revision, Revision(1));
        tokio::time::advance(Duration::from_secs(20)).await;
    }
    assert_eq!(level(&aggregator, &app).await, Level::Active);
    let stale = aggregator.read(&app, Revision(2), |s| s.head().summary.totals.stale_units);
    assert_eq!(stale.await.unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_restart_moves_a_ttl_and_expires_applications_without_requests() {
    let store = mk_store();
    let app = mk_app("web");
    let first = start(store.clone());
    let report = mk_report("web/0", Level::Active, "up", Some(30));
    first.apply(&app, report).await.unwrap();
    first.drain().await;
    store.set_away(true);
    tokio::time::advance(Duration::from_secs(3600)).await;
    store.set_away(false);
    let restarted = tokio::time::Instant::now();
    let second = start(store.clone());
    // Without any request, only the sweep can find the due application.
    loop {
        let head = store.load(&app).await.unwrap().head;
        if head.summary.totals.stale_units == 1 {
            break;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(restarted.elapsed() < Duration::from_secs(60), "never went stale");
    }
    assert!(Duration::from_secs(30) <= restarted.elapsed());
    second.drain().await;
}

/// A commit may still pass while an outage that has begun is not known: the unit may have had no
/// server to report to.
#[tokio::test(start_paused = true)]
async fn a_commit_judges_no_deadline_beyond_the_known_outages() {
    let store = mk_store();
    let aggregator = start(store.clone());
    let app = mk_app("web");
    aggregator.apply(&app, mk_report("web/0", Level::Active, "up", Some(30))).await.unwrap();
    store.hold_judgement(true);
    tokio::time::advance(Duration::from_secs(60)).await;
    for (other, stale) in [("web/1", 0), ("web/2", 1)] {
        aggregator.apply(&app, mk_report(other, Level::Active, "", None)).await.unwrap();
        let head = store.load(&app).await.unwrap().head;
        assert_eq!(head.summary.totals.stale_units, stale, "with {other}");
        store.hold_judgement(false);
    }
}

/// The sweep finds the due application during the outage, and again after it.
#[tokio::test(start_paused = true)]
async fn an_application_that_is_due_during_an_outage_expires_after_it() {
    let store = mk_store();
    let app = mk_app("web");
    let first = start(store.clone());
    let report = mk_report("web/0", Level::Active, "up", Some(30));
    first.apply(&app, report).await.unwrap();
    first.drain().await;
    store.set_away(true);
    let second = start(store.clone());
    tokio::time::sleep(Duration::from_secs(600)).await;
    store.set_away(false);
    let back = tokio::time::Instant::now();
    while store.load(&app).await.unwrap().head.summary.totals.stale_units == 0 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(back.elapsed() < Duration::from_secs(60), "never went stale");
    }
    second.drain().await;
}

#[tokio::test(start_paused = true)]
async fn deletion_keeps_its_place_and_the_count_goes_on() {
    let aggregator = start(mk_store());
    let app = mk_app("web");
    let report = mk_report("web/0", Level::Error, "down", None);
    aggregator.apply(&app, report.clone()).await.unwrap();
    let id: Option<RequestId> = Some("once".into());
    let deleted = aggregator.delete(&app, id.clone()).await.unwrap();
    assert_eq!(deleted.revision, Revision(2));
    assert_eq!(aggregator.delete(&app, id).await.unwrap(), deleted);
    let gone = aggregator.read(&app, Revision(0), |_| ()).await;
    assert_eq!(gone, Err(Error::Rejected(ApplicationNotFound.into())));
    assert!(aggregator.delete(&app, None).await.is_err());
    let again = aggregator.apply(&app, report).await.unwrap();
    assert_eq!(again.revision, Revision(3));
}

#[tokio::test(start_paused = true)]
async fn draining_refuses_what_is_new() {
    let aggregator = start(mk_store());
    let app = mk_app("web");
    let report = mk_report("web/0", Level::Active, "", None);
    aggregator.apply(&app, report.clone()).await.unwrap();
    aggregator.drain().await;
    assert_eq!(aggregator.apply(&app, report).await, Err(Error::Draining));
}

#[tokio::test(start_paused = true)]
async fn applications_are_bounded() {
    let options = Options { applications_max: 2, ..Options::default() };
    let aggregator = Aggregator::start(mk_store(), options, Metrics::disabled());
    let report = mk_report("u/0", Level::Active, "", None);
    for name in ["a", "b"] {
        aggregator.apply(&mk_app(name), report.clone()).await.unwrap();
    }
    let refused = aggregator.apply(&mk_app("c"), report.clone()).await;
    let limit = "applications_max";
    assert!(matches!(
        refused,
        Err(Error::Rejected(Rejected::LimitExceeded(LimitExceeded { limit: l, max: 2, .. })))
            if l == limit
    ));
    assert!(aggregator.apply(&mk_app("a"), report).await.is_ok());
}

/// It is kept for as long as its application is active.
#[tokio::test(start_paused = true)]
async fn the_future_of_a_task_is_small() {
    let aggregator = start(mk_store());
    let task = Application::new(mk_app("web"), &aggregator.inner);
    let bytes = size_of_val(&failure::run(aggregator.inner.clone(), task));
    assert!(bytes <= 640, "{bytes}");
}

#[tokio::test(start_paused = true)]
async fn an_idle_application_is_released_and_found_again() {
    let aggregator = start(mk_store());
    let app = mk_app("web");
    aggregator.apply(&app, mk_report("web/0", Level::Blocked, "x", None)).await.unwrap();
    let active = || lock(&aggregator.inner.active).len();
    assert_eq!(active(), 1);
    tokio::time::sleep(Options::default().idle_after * 2).await;
    assert_eq!(active(), 0);
    assert_eq!(level(&aggregator, &app).await, Level::Blocked);
}

#[tokio::test(start_paused = true)]
async fn nothing_expires_because_the_store_was_away() {
    let store = mk_store();
    let aggregator = start(store.clone());
    let app = mk_app("web");
    let report = mk_report("web/0", Level::Active, "up", Some(30));
    aggregator.apply(&app, report).await.unwrap();
    store.set_away(true);
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert!(aggregator.away_since().is_some());
    let back = tokio::time::Instant::now();
    store.set_away(false);
    let stale = aggregator.read(&app, Revision(2), |s| s.head().summary.totals.stale_units);
    assert_eq!(stale.await.unwrap(), 1);
    assert!(Duration::from_secs(30) <= back.elapsed(), "it had one ttl left to be repeated");
    assert!(aggregator.away_since().is_none());
}

/// No commit of this application meets the outage: a unit could not report during it anyway.
#[tokio::test(start_paused = true)]
async fn an_outage_that_no_commit_met_moves_a_ttl_too() {
    let store = mk_store();
    let aggregator = start(store.clone());
    let app = mk_app("web");
    let report = mk_report("web/0", Level::Active, "up", Some(30));
    aggregator.apply(&app, report).await.unwrap();
    tokio::time::sleep(Duration::from_secs(10)).await;
    store.set_away(true);
    tokio::time::sleep(Duration::from_secs(15)).await;
    let back = tokio::time::Instant::now();
    store.set_away(false);
    let stale = aggregator.read(&app, Revision(2), |s| s.head().summary.totals.stale_units);
    assert_eq!(stale.await.unwrap(), 1);
    let waited = back.elapsed();
    assert!((20..=23).contains(&waited.as_secs()), "stale {waited:?} after the outage");
}

/// The first commit is applied, but the store may lose it: a repeat finds it, and is acknowledged
/// only after a commit that succeeds.
#[tokio::test(start_paused = true)]
async fn a_commit_in_doubt_is_acknowledged_only_after_another_commit() {
    let store = mk_store();
    let aggregator = start(store.clone());
    let app = mk_app("web");
    let report = mk_report("web/0", Level::Active, "up", None);
    store.lose_answers(2);
    for attempt in 1..=2 {
        let refused = aggregator.apply(&app, report.clone()).await;
        assert!(matches!(refused, Err(Error::Unavailable { .. })), "{attempt}: {refused:?}");
        assert_eq!(store.commits(), attempt);
    }
    let outcome = aggregator.apply(&app, report.clone()).await.unwrap();
    assert_eq!((outcome.changed, outcome.revision), (false, Revision(1)));
    assert_eq!(store.commits(), 3);
    aggregator.apply(&app, report).await.unwrap();
    assert_eq!(store.commits(), 3, "nothing is open after the commit that succeeded");
}

#[tokio::test(start_paused = true)]
async fn a_full_mailbox_is_a_typed_error() {
    let store = mk_store();
    let options = Options { mailbox_max: 2, batch_max: 1, ..Options::default() };
    let aggregator = Aggregator::start(store.clone(), options, Metrics::disabled());
    let app = mk_app("web");
    let report = |n: usize| mk_report(&format!("web/{n}"), Level::Active, "", None);
    aggregator.apply(&app, report(0)).await.unwrap();
    store.set_hanging(true);
    // One command is in a commit and two wait; the mailbox is full for the others.
    let asked: Vec<_> = (1..6)
        .map(|n| {
            let (aggregator, app) = (aggregator.clone(), app.clone());
            tokio::spawn(async move { aggregator.apply(&app, report(n)).await })
        })
        .collect();
    tokio::time::sleep(Options::default().mailbox_wait * 2).await;
    store.set_hanging(false);
    let mut overloaded = 0;
    for answer in asked {
        match answer.await.unwrap() {
            Ok(outcome) => assert!(outcome.changed),
            Err(Error::Overloaded { mailbox_max: 2, .. }) => overloaded += 1,
            Err(other) => panic!("{other}"),
        }
    }
    assert_eq!(overloaded, 2);
}

#[tokio::test(start_paused = true)]
async fn a_lost_race_is_decided_anew() {
    let store = mk_store();
    store.set_rivals(5);
    let aggregator = start(store.clone());
    let app = mk_app("web");
    let report = mk_report("web/0", Level::Active, "up", None);
    let outcome = aggregator.apply(&app, report).await.unwrap();
    assert_eq!(outcome.revision, Revision(6), "after five of the other's");
    let units = aggregator.read(&app, Revision(0), |s| s.head().summary.totals.units).await;
    assert_eq!(units.unwrap(), 2);
    store.set_rivals(1000);
    let refused = aggregator.apply(&app, mk_report("web/0", Level::Error, "", None)).await;
    let attempts = Options::default().commit_attempts_max;
    assert_eq!(refused, Err(Error::Contention { attempts }));
}

#[tokio::test(start_paused = true)]
async fn without_the_store_reads_continue_and_reports_are_refused() {
    let store = mk_store();
    let aggregator = start(store.clone());
    let app = mk_app("web");
    let report = mk_report("web/0", Level::Active, "up", Some(30));
    aggregator.apply(&app, report.clone()).await.unwrap();
    store.set_away(true);
    let worse = mk_report("web/0", Level::Error, "down", Some(30));
    let refused = aggregator.apply(&app, worse.clone()).await;
    assert!(matches!(refused, Err(Error::Unavailable { .. })));
    assert_eq!(level(&aggregator, &app).await, Level::Active);
    // The ttl passes during the outage; nothing spins, and the status becomes stale after it.
    tokio::time::sleep(Duration::from_secs(60)).await;
    store.set_away(false);
    let stale = aggregator.read(&app, Revision(2), |s| s.head().summary.totals.stale_units);
    assert_eq!(stale.await.unwrap(), 1);
    assert!(aggregator.apply(&app, worse).await.unwrap().changed);
}

#[tokio::test(start_paused = true)]
async fn a_panic_ends_a_task_and_the_next_request_starts_it_from_the_store() {
    let store = mk_store();
    let telemetry = crate::telemetry::Telemetry::local("").unwrap();
    let aggregator =
        Aggregator::start(store.clone(), Options::default(), telemetry.metrics().clone());
    let (app, other) = (mk_app("web"), mk_app("other"));
    let report = |level| mk_report("web/0", level, "", None);
    aggregator.apply(&app, report(Level::Active)).await.unwrap();
    let waiting = tokio::spawn({
        let (aggregator, app) = (aggregator.clone(), app.clone());
        async move { aggregator.read(&app, Revision(9), |_| ()).await }
    });
    tokio::task::yield_now().await;
    store.panic_in_commits(1);
    let failed = aggregator.apply(&app, report(Level::Blocked)).await;
    assert_eq!(failed, Err(Error::Failed));
    assert_eq!(waiting.await.unwrap(), Err(Error::Failed));
    assert_eq!(level(&aggregator, &app).await, Level::Blocked, "as the store has it");
    aggregator.apply(&app, report(Level::Waiting)).await.unwrap();
    assert_eq!(level(&aggregator, &app).await, Level::Waiting);
    aggregator.apply(&other, report(Level::Active)).await.unwrap();
    let text = telemetry.prometheus().text();
    assert!(text.contains("bellwether_panics_total{place=\"application\"} 1"), "{text}");
    aggregator.drain().await;
}
