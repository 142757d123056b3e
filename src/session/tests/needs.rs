//! Workers are notified when what they need is well.

use super::*;
use crate::domain::need::{Need, Needs};
use crate::domain::stated::index::RecordKey;
use crate::domain::status::report::Details;
use crate::session::MayRead;

fn app_at(name: &str, levels: &[Level]) -> Need {
    Need::application(mk_app(name), levels.to_vec())
}

fn app(name: &str) -> Need {
    app_at(name, &[])
}

/// Reports that a unit of an application has a level, and what it needs.
async fn report(replica: &Replica, unit: &str, level: Level, needs: Vec<Need>) {
    let details = Details { needs: Needs::from_iter(needs), ..Details::default() };
    let report = Report { level, ..Report::default() }.with(details);
    let status = NewStatus { report: Arc::new(report), ..mk_status("db", level, "") };
    let command = Command::Report(Reporter::new(mk_unit(unit), None), Kind::Push, status);
    replica.apply(unit.split('/').next().unwrap(), command).await;
}

/// Returns how long it takes until the worker is notified, and of which component; `None` if it is
/// not within a minute.
async fn notified(worker: &mut Worker) -> Option<(Duration, String)> {
    let start = Instant::now();
    let heard = tokio::time::timeout(secs(60), async {
        loop {
            match worker.outbound.recv().await.expect("the session has ended") {
                Outbound::NeedsMet(RecordKey::Status(key)) => {
                    return key.component.as_str().to_string();
                }
                Outbound::NeedsMet(RecordKey::Fault(key)) => return key.target.to_string(),
                _ => {}
            }
        }
    });
    heard.await.ok().map(|component| (start.elapsed(), component))
}

async fn worker(replica: &Replica, unit: &str) -> Worker {
    let worker = replica.worker(unit).await;
    worker.keep_alive();
    worker
}

#[tokio::test(start_paused = true)]
async fn a_worker_is_notified_once_all_needs_are_met_for_a_second() {
    let replica = Replica::new();
    let mut web = worker(&replica, "web/0").await;
    report(&replica, "web/0", Level::Waiting, vec![app("db"), app("cache")]).await;
    report(&replica, "db/0", Level::Active, vec![]).await;
    assert_eq!(notified(&mut web).await, None, "the other need is unmet");
    report(&replica, "cache/0", Level::Active, vec![]).await;
    let (after, component) = notified(&mut web).await.unwrap();
    assert_eq!(component, "db");
    assert!(secs(1) <= after && after < Duration::from_millis(1050), "{after:?}");
    assert_eq!(notified(&mut web).await, None, "once");
    // Each time that they become met.
    report(&replica, "db/0", Level::Blocked, vec![]).await;
    assert_eq!(notified(&mut web).await, None);
    report(&replica, "db/0", Level::Active, vec![]).await;
    assert!(notified(&mut web).await.is_some());
}

#[tokio::test(start_paused = true)]
async fn an_application_that_is_well_for_a_moment_releases_no_worker() {
    let replica = Replica::new();
    let mut web = worker(&replica, "web/0").await;
    report(&replica, "web/0", Level::Waiting, vec![app("db")]).await;
    for _ in 0..5 {
        report(&replica, "db/0", Level::Active, vec![]).await;
        tokio::time::sleep(Duration::from_millis(300)).await;
        report(&replica, "db/0", Level::Waiting, vec![]).await;
        tokio::time::sleep(Duration::from_millis(900)).await;
    }
    assert_eq!(notified(&mut web).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_new_session_is_notified_again_while_the_needs_are_met() {
    let replica = Replica::new();
    report(&replica, "db/0", Level::Active, vec![]).await;
    report(&replica, "web/0", Level::Waiting, vec![app("db")]).await;
    let mut first = worker(&replica, "web/0").await;
    assert!(notified(&mut first).await.is_some());
    assert_eq!(notified(&mut first).await, None);
    let mut second = worker(&replica, "web/0").await;
    assert!(notified(&mut second).await.is_some());
    report(&replica, "web/0", Level::Active, vec![app("db")]).await;
    let mut third = worker(&replica, "web/0").await;
    assert_eq!(notified(&mut third).await, None, "a status that is well states nothing");
}

#[tokio::test(start_paused = true)]
async fn a_report_that_states_the_same_needs_is_no_new_reason() {
    let replica = Replica::new();
    let mut web = worker(&replica, "web/0").await;
    report(&replica, "db/0", Level::Active, vec![]).await;
    report(&replica, "web/0", Level::Waiting, vec![app("db")]).await;
    assert!(notified(&mut web).await.is_some());
    report(&replica, "web/0", Level::Blocked, vec![app("db")]).await;
    assert_eq!(notified(&mut web).await, None);
    let other = vec![app_at("db", &[Level::Active, Level::Waiting])];
    report(&replica, "web/0", Level::Waiting, other).await;
    assert!(notified(&mut web).await.is_some(), "other needs are");
}

#[tokio::test(start_paused = true)]
async fn things_outside_and_silent_units_meet_no_need() {
    let replica = Replica::new();
    let mut web = worker(&replica, "web/0").await;
    report(&replica, "db/0", Level::Active, vec![]).await;
    let needs = vec![app("db"), Need::Outside("quota".into())];
    report(&replica, "web/0", Level::Waiting, needs).await;
    assert_eq!(notified(&mut web).await, None);
    // A unit of the needed application leaves without a goodbye, and is lost after a while.
    let lost = replica.worker("db/1").await;
    lost.lose_sight().await;
    tokio::time::sleep(secs(600)).await;
    report(&replica, "web/0", Level::Waiting, vec![app("db")]).await;
    assert_eq!(notified(&mut web).await, None, "{:?}", replica.freshness("db/1").await);
    replica.apply("db", Command::RemoveUnit(mk_unit("db/1"))).await;
    report(&replica, "db/0", Level::Active, vec![]).await;
    assert!(notified(&mut web).await.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_worker_learns_nothing_of_an_application_that_it_may_not_read() {
    let replica = Replica::new();
    let who = Newcomer {
        unit: mk_unit("web/0"),
        incarnation: None,
        stateless: false,
        labels: BTreeMap::new(),
    };
    let may_read: MayRead = Arc::new(|app| app.application() != "secret");
    let hello = Hello { app: mk_app("web"), who, may_read };
    let (session, welcome) = replica.sessions.open(hello).await.unwrap();
    let (say, inbound) = mpsc::channel(1000);
    let (tell, outbound) = mpsc::channel(16);
    let session = tokio::spawn(session.run(ReceiverStream::new(inbound), tell));
    let mut web = Worker { say, outbound, welcome, session, seq: 0 };
    web.keep_alive();
    for level in Level::ALL {
        report(&replica, "secret/0", level, vec![]).await;
        report(&replica, "web/0", Level::Waiting, vec![app_at("secret", &[level])]).await;
        assert_eq!(notified(&mut web).await, None, "{level:?}");
    }
    report(&replica, "open/0", Level::Active, vec![]).await;
    report(&replica, "web/0", Level::Waiting, vec![app("open")]).await;
    assert!(notified(&mut web).await.is_some());
}

#[tokio::test(start_paused = true)]
async fn changes_at_another_replica_are_seen() {
    let [here, there] = Replica::two();
    let mut web = worker(&here, "web/0").await;
    report(&there, "web/0", Level::Waiting, vec![app("db")]).await;
    report(&there, "db/0", Level::Active, vec![]).await;
    assert!(notified(&mut web).await.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_session_that_ends_leaves_nothing() {
    let replica = Replica::new();
    let web = worker(&replica, "web/0").await;
    report(&replica, "web/0", Level::Waiting, vec![app("db")]).await;
    let waits = || replica.sessions.inner.ringer.is_empty();
    after(async || !waits()).await;
    web.lose_sight().await;
    after(async || waits()).await;
}
