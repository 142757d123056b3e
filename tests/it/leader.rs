//! Leadership and the leader's data through the real service: the vectors, the refusals, and the
//! messages to sessions and watchers.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::path::Path;
use std::time::{Duration, Instant};

use bellwether::proto::v1;
use bellwether::proto::v1::connect_request::Message as Said;
use bellwether::proto::v1::connect_response::Message as Told;
use bellwether::proto::v1::watch_app_data_response::Event;
use futures_util::FutureExt;
use futures_util::future::join_all;
use tonic::{Code, Status, Streaming};
use yaml_serde::Value;

use crate::peer::{Peer, hello};
use crate::redis::Redis;
use crate::server::{Server, eventually, get, reason};

fn text(value: &Value, key: &str) -> String {
    value[key].as_str().unwrap_or_default().to_string()
}

fn value(given: &Value) -> bytes::Bytes {
    match given.as_str() {
        Some(text) => text.to_string().into(),
        None => text(given, "repeat").repeat(given["count"].as_u64().unwrap() as usize).into(),
    }
}

pub fn seconds(seconds: i64) -> Option<prost_types::Duration> {
    Some(prost_types::Duration { seconds, nanos: 0 })
}

pub async fn configure(server: &Server, application: &str, lease_seconds: i64) {
    let request = v1::ConfigureApplicationRequest {
        application: application.into(),
        config: Some(v1::ApplicationConfig {
            lease_duration: seconds(lease_seconds),
            ..Default::default()
        }),
        ..Default::default()
    };
    server.applications().await.configure_application(request).await.unwrap();
}

async fn register(server: &Server, application: &str, unit: &str) -> u64 {
    let mut client = v1::worker_service_client::WorkerServiceClient::new(server.channel().await);
    let request = v1::RegisterUnitRequest {
        application: application.into(),
        unit: unit.into(),
        ..Default::default()
    };
    client.register_unit(request).await.unwrap().into_inner().incarnation
}

pub async fn claim(server: &Server, application: &str, unit: &str) -> Result<v1::Lease, Status> {
    let request = v1::ClaimLeadershipRequest {
        application: application.into(),
        unit: unit.into(),
        ..Default::default()
    };
    Ok(server.leaders().await.claim_leadership(request).await?.into_inner().lease.unwrap())
}

pub async fn leader(server: &Server, application: &str) -> v1::GetLeaderResponse {
    let request = v1::GetLeaderRequest { application: application.into(), ..Default::default() };
    server.leaders().await.get_leader(request).await.unwrap().into_inner()
}

pub async fn transfer(server: &Server, application: &str, to: &str) -> Result<v1::Lease, Status> {
    let (application, to_unit) = (application.to_string(), to.to_string());
    let request = v1::TransferLeadershipRequest { application, to_unit, ..Default::default() };
    let transferred = server.leaders().await.transfer_leadership(request).await?;
    Ok(transferred.into_inner().lease.unwrap())
}

/// Writes one key of the data of `web`. Returns the etag.
pub async fn write(
    server: &Server,
    unit: &str,
    lease_epoch: u64,
    key: &str,
    value: &str,
) -> Result<String, Status> {
    let request = update(unit, lease_epoch, key, value);
    Ok(server.app_data().await.update_app_data(request).await?.into_inner().etag)
}

async fn data(server: &Server, application: &str) -> v1::AppData {
    let request = v1::GetAppDataRequest { application: application.into(), ..Default::default() };
    server.app_data().await.get_app_data(request).await.unwrap().into_inner().app_data.unwrap()
}

fn update(unit: &str, lease_epoch: u64, key: &str, value: &str) -> v1::UpdateAppDataRequest {
    v1::UpdateAppDataRequest {
        application: "web".into(),
        unit: unit.into(),
        lease_epoch,
        set: [(key.to_string(), value.to_string().into())].into(),
        ..Default::default()
    }
}

// === the vectors ===

/// Runs one step; `Ok(false)` is a negative answer.
async fn act(
    server: &Server,
    id: &str,
    step: &Value,
    etags: &[String],
    pace: &Pace,
) -> Result<bool, Status> {
    let (application, unit) = (id.to_string(), text(step, "unit"));
    let lease_epoch = step["epoch"].as_u64().unwrap_or_default();
    match step["do"].as_str().unwrap() {
        "claim" => claim(server, id, &unit).await.map(|_| true),
        "renew" => {
            let request =
                v1::RenewLeadershipRequest { application, unit, lease_epoch, ..Default::default() };
            server.leaders().await.renew_leadership(request).await.map(|_| true)
        }
        "release" => {
            let request = v1::ReleaseLeadershipRequest {
                application,
                unit,
                lease_epoch,
                ..Default::default()
            };
            server.leaders().await.release_leadership(request).await.map(|_| true)
        }
        "transfer" => {
            let to_unit = text(step, "to");
            let request =
                v1::TransferLeadershipRequest { application, to_unit, ..Default::default() };
            server.leaders().await.transfer_leadership(request).await.map(|_| true)
        }
        "check" => Ok(leader(server, id).await.lease.is_some_and(|lease| lease.unit == unit)),
        "remove_unit" => {
            let request = v1::RemoveUnitRequest { application, unit, ..Default::default() };
            server.applications().await.remove_unit(request).await.map(|_| true)
        }
        "set_data" => {
            let request = v1::UpdateAppDataRequest {
                application,
                unit,
                lease_epoch,
                ..patch_of(step, etags)
            };
            server.app_data().await.update_app_data(request).await.map(|_| true)
        }
        "set_status" => {
            let request = v1::SetApplicationStatusRequest {
                application,
                unit,
                lease_epoch,
                ..status_of(step, pace)
            };
            server.applications().await.set_application_status(request).await.map(|_| true)
        }
        "clear_status" => {
            let request = v1::ClearApplicationStatusRequest {
                application,
                unit,
                lease_epoch,
                ..Default::default()
            };
            server.applications().await.clear_application_status(request).await.map(|_| true)
        }
        "get_data" | "drain_unit" => Ok(true),
        other => panic!("no step {other}"),
    }
}

fn status_of(step: &Value, pace: &Pace) -> v1::SetApplicationStatusRequest {
    let level = format!("LEVEL_{}", text(step, "level").to_uppercase());
    let mode = format!("APPLICATION_STATUS_MODE_{}", text(step, "mode").to_uppercase());
    let ttl = millis(&step["ttl_ms"]).map(|ttl| pace.of(ttl));
    v1::SetApplicationStatusRequest {
        level: v1::Level::from_str_name(&level).unwrap() as i32,
        message: text(step, "message"),
        mode: v1::ApplicationStatusMode::from_str_name(&mode).unwrap_or_default() as i32,
        ttl: ttl.map(|ttl| ttl.try_into().unwrap()),
        ..Default::default()
    }
}

fn patch_of(step: &Value, etags: &[String]) -> v1::UpdateAppDataRequest {
    let pairs = step["set"].as_mapping().into_iter().flatten();
    let set = pairs.map(|(key, v)| (key.as_str().unwrap().to_string(), value(v))).collect();
    let delete = step["delete"].as_sequence().into_iter().flatten();
    let delete = delete.map(|key| key.as_str().unwrap().to_string()).collect();
    let etag = step.get("etag").map(|etag| match etag.as_str() {
        Some(text) => text.to_string(),
        None => etags[etag["after_step"].as_u64().unwrap() as usize - 1].clone(),
    });
    v1::UpdateAppDataRequest { set, delete, etag, ..Default::default() }
}

/// The speed-up of the cases that depend on time.
const SPEED: u32 = 3;
/// A step that started or was checked later than this may have overlapped with the next one.
const LATE: Duration = Duration::from_millis(100);
const ATTEMPTS: usize = 10;

/// The times at which the steps of a case run.
enum Pace {
    /// One step after the other: time alone changes nothing.
    AtOnce,
    /// Each step at its time. Holds the due time of the current step and the largest delay of a
    /// check.
    Timed(Cell<Instant>, Cell<Duration>),
}

impl Pace {
    fn in_time() -> Pace {
        Pace::Timed(Cell::new(Instant::now()), Cell::default())
    }

    /// Returns the duration of a lease or a status ttl at this pace.
    fn of(&self, duration: Duration) -> Duration {
        match self {
            Pace::AtOnce => duration,
            Pace::Timed(..) => duration / SPEED,
        }
    }

    /// Waits for the time of a step.
    async fn wait(&self, start: Instant, at: Duration) {
        if let Pace::Timed(due, latest) = self {
            latest.set(self.latest());
            due.set(start + at / SPEED);
            tokio::time::sleep_until(due.get().into()).await;
        }
    }

    fn latest(&self) -> Duration {
        match self {
            Pace::AtOnce => Duration::ZERO,
            Pace::Timed(due, latest) => due.get().elapsed().max(latest.get()),
        }
    }
}

fn millis(value: &Value) -> Option<Duration> {
    value.as_u64().map(Duration::from_millis)
}

async fn play(server: &Server, case: &Value, id: &str, pace: &Pace) {
    let lease = match pace {
        Pace::AtOnce => Duration::from_secs(300),
        Pace::Timed(..) => pace.of(millis(&case["config"]["lease_ms"]).unwrap()),
    };
    configure(server, id, lease.as_secs().try_into().unwrap()).await;
    let steps = case["steps"].as_sequence().unwrap();
    for name in steps.iter().flat_map(|step| [text(step, "unit"), text(step, "to")]) {
        if !name.is_empty() {
            register(server, id, &name).await;
        }
    }
    let (mut etags, start) = (Vec::new(), Instant::now());
    for (n, step) in steps.iter().enumerate() {
        let place = format!("{id} step {}", n + 1);
        let before = (data(server, id).await.etag, leader(server, id).await.revision);
        pace.wait(start, millis(&step["at"]).unwrap()).await;
        let outcome = act(server, id, step, &etags, pace).await;
        let expect = &step["expect"];
        if let Some(ok) = expect["ok"].as_bool() {
            assert_eq!(matches!(outcome, Ok(true)), ok, "{place}: {outcome:?}");
        }
        if let Some(expected) = expect["reason"].as_str() {
            assert_eq!(reason(outcome.as_ref().unwrap_err()), expected, "{place}");
        }
        let found = leader(server, id).await;
        if let Some(expected) = expect.get("leader") {
            let unit = found.lease.as_ref().map(|lease| lease.unit.as_str());
            assert_eq!(unit, expected.as_str(), "{place}");
        }
        if let Some(epoch) = expect["epoch"].as_u64() {
            assert_eq!(found.lease_epoch, epoch, "{place}");
        }
        let kept = data(server, id).await;
        if let Some(expected) = expect["data"].as_mapping() {
            let pairs = expected.iter();
            let pairs = pairs.map(|(key, v)| (key.as_str().unwrap().to_string(), value(v)));
            assert!(kept.data == pairs.collect(), "{place}");
        }
        if let Some(event) = expect["event"].as_bool() {
            assert_eq!(kept.etag != before.0, event, "{place}");
        }
        if let Some(moved) = expect["revision_moved"].as_bool() {
            assert_eq!(found.revision != before.1, moved, "{place}");
        }
        if let Some(level) = expect["level"].as_str() {
            let got = server.applications().await.get_application(get(id)).await.unwrap();
            let status = got.into_inner().application.unwrap().status.unwrap();
            let level = format!("LEVEL_{}", level.to_uppercase());
            assert_eq!(status.level().as_str_name(), level, "{place}");
        }
        etags.push(kept.etag);
    }
}

/// Returns true if time alone changes nothing in the case.
fn is_timeless(case: &Value) -> bool {
    let lease = case["config"]["lease_ms"].as_u64().unwrap();
    let mut steps = case["steps"].as_sequence().unwrap().iter();
    steps.all(|step| step["at"].as_u64().unwrap() < lease && step.get("ttl_ms").is_none())
}

async fn play_all(server: &Server) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = path.join("tests/vectors/leadership-and-data.yaml");
    let cases: Vec<Value> = yaml_serde::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let (timeless, timed): (Vec<_>, Vec<_>) = cases.iter().partition(|case| is_timeless(case));
    assert!(!timed.is_empty() && 20 < timeless.len(), "{} of {}", timeless.len(), cases.len());
    for case in timeless {
        play(server, case, &text(case, "id"), &Pace::AtOnce).await;
    }
    join_all(timed.into_iter().map(|case| play_in_time(server, case))).await;
}

/// Runs a case, and repeats it if it failed because this machine was too slow for it.
async fn play_in_time(server: &Server, case: &Value) {
    for attempt in 1..=ATTEMPTS {
        let (id, pace) = (format!("{}-{attempt}", text(case, "id")), Pace::in_time());
        let played = AssertUnwindSafe(play(server, case, &id, &pace)).catch_unwind().await;
        match played {
            Ok(()) => return,
            Err(_) if LATE < pace.latest() && attempt < ATTEMPTS => {}
            Err(why) => resume_unwind(why),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_vectors_hold_on_the_embedded_store() {
    let dir = tempfile::tempdir().unwrap();
    play_all(&Server::on(dir.path())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_vectors_hold_on_redis() {
    let Some(redis) = Redis::start(&[]) else { return };
    play_all(&Server::start(&["--store", &redis.url()])).await;
}

// === refusals ===

#[tokio::test(flavor = "multi_thread")]
async fn invalid_requests_are_refused_and_change_nothing() {
    let server = Server::ephemeral();
    register(&server, "web", "web/0").await;
    register(&server, "web", "web/1").await;
    assert_eq!(register(&server, "web", "web/0").await, 2);
    let superseded = v1::ClaimLeadershipRequest {
        application: "web".into(),
        unit: "web/0".into(),
        incarnation: Some(1),
        ..Default::default()
    };
    let refused = server.leaders().await.claim_leadership(superseded.clone()).await.unwrap_err();
    assert_eq!(reason(&refused), "STALE_INCARNATION");
    for lease_duration in [seconds(1), seconds(301)] {
        let request = v1::ClaimLeadershipRequest { lease_duration, ..superseded.clone() };
        let refused = server.leaders().await.claim_leadership(request).await.unwrap_err();
        assert_eq!(reason(&refused), "INVALID_VALUE");
    }
    let lease = claim(&server, "web", "web/0").await.unwrap();
    assert_eq!((lease.lease_epoch, lease.incarnation), (1, 2));
    let held = claim(&server, "web", "web/1").await.unwrap_err();
    assert_eq!((held.code(), reason(&held).as_str()), (Code::FailedPrecondition, "LEASE_HELD"));
    let details = tonic_types::StatusExt::get_error_details(&held);
    let facts = &details.error_info().unwrap().metadata;
    assert_eq!((&*facts["holder"], &*facts["lease_epoch"]), ("web/0", "1"));
    assert!(facts["expires"].ends_with('Z'), "{facts:?}");
    let before = data(&server, "web").await;

    let good = || update("web/0", 1, "key", "value");
    let long = "x".repeat(257);
    let set = |key: &str, value: String| v1::UpdateAppDataRequest {
        set: [(key.to_string(), value.into())].into(),
        ..good()
    };
    let many = (0..10_001).map(|n| (n.to_string(), "x".into())).collect();
    let delete = vec!["key".to_string()];
    let cases = [
        (v1::UpdateAppDataRequest { lease_epoch: 7, ..good() }, "NOT_LEADER"),
        (v1::UpdateAppDataRequest { lease_epoch: 0, ..good() }, "NOT_LEADER"),
        (v1::UpdateAppDataRequest { unit: "web/1".into(), ..good() }, "NOT_LEADER"),
        (v1::UpdateAppDataRequest { etag: Some("nonsense".into()), ..good() }, "ETAG_MISMATCH"),
        (v1::UpdateAppDataRequest { set: many, ..good() }, "REQUEST_TOO_LARGE"),
        (v1::UpdateAppDataRequest { delete: delete.clone(), ..good() }, "INVALID_VALUE"),
        (v1::UpdateAppDataRequest { delete: vec![String::new()], ..good() }, "INVALID_VALUE"),
        (set("", "x".into()), "INVALID_VALUE"),
        (set(&long, "x".into()), "VALUE_TOO_LARGE"),
        (set("key", "x".repeat(65_537)), "VALUE_TOO_LARGE"),
    ];
    for (request, expected) in cases {
        let refused = server.app_data().await.update_app_data(request).await.unwrap_err();
        assert_eq!(reason(&refused), expected, "{}", refused.message());
        assert!(!refused.message().contains("xxxxxxxxxxxxxxxxxxxx"), "{}", refused.message());
    }
    assert_eq!(data(&server, "web").await, before);
    let transfer = |to: &str| v1::TransferLeadershipRequest {
        application: "web".into(),
        to_unit: to.into(),
        ..Default::default()
    };
    let unknown = server.leaders().await.transfer_leadership(transfer("web/9")).await.unwrap_err();
    assert_eq!(reason(&unknown), "UNIT_NOT_FOUND");
    assert_eq!(leader(&server, "web").await.candidates, ["web/1"]);
}

/// Returns the fields of a refusal that name the leader.
fn names(refused: Status) -> (String, String, String) {
    let details = tonic_types::StatusExt::get_error_details(&refused);
    let facts = &details.error_info().unwrap().metadata;
    let fact = |key: &str| facts.get(key).cloned().unwrap_or_default();
    (reason(&refused), fact("leader"), fact("lease_epoch"))
}

#[tokio::test(flavor = "multi_thread")]
async fn every_path_refuses_who_does_not_lead_with_one_error_that_names_who_does() {
    let server = Server::ephemeral();
    register(&server, "web", "web/0").await;
    register(&server, "web", "web/1").await;
    claim(&server, "web", "web/0").await.unwrap();
    let (application, unit, lease_epoch) = ("web".to_string(), "web/1".to_string(), 1);
    let mut leaders = server.leaders().await;
    let mut applications = server.applications().await;
    let renew = v1::RenewLeadershipRequest {
        application: application.clone(),
        unit: unit.clone(),
        lease_epoch,
        ..Default::default()
    };
    let release = v1::ReleaseLeadershipRequest {
        application: application.clone(),
        unit: unit.clone(),
        lease_epoch,
        ..Default::default()
    };
    let set = v1::SetApplicationStatusRequest {
        application: application.clone(),
        unit: unit.clone(),
        lease_epoch,
        level: v1::Level::Active as i32,
        ..Default::default()
    };
    let clear =
        v1::ClearApplicationStatusRequest { application, unit, lease_epoch, ..Default::default() };
    let refused = [
        leaders.renew_leadership(renew).await.unwrap_err(),
        leaders.release_leadership(release).await.unwrap_err(),
        applications.set_application_status(set).await.unwrap_err(),
        applications.clear_application_status(clear).await.unwrap_err(),
        server.app_data().await.update_app_data(update("web/1", 1, "a", "b")).await.unwrap_err(),
    ];
    for refused in refused {
        assert_eq!(names(refused), ("NOT_LEADER".into(), "web/0".into(), "1".into()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_unit_is_not_made_the_leader() {
    let server = Server::ephemeral();
    let mut report = crate::server::mk_report("web", "web/0", v1::Level::Active, "up");
    report.status.as_mut().unwrap().ttl = seconds(1);
    server.reports().await.report_status(report).await.unwrap();
    let request = v1::ConfigureApplicationRequest {
        application: "web".into(),
        config: Some(v1::ApplicationConfig {
            ttls: Some(v1::Ttls { lost_after: seconds(1), ..Default::default() }),
            ..Default::default()
        }),
        ..Default::default()
    };
    server.applications().await.configure_application(request).await.unwrap();
    eventually("it is lost", async || {
        let unit = crate::sessions::unit(&server, "web", "web/0").await?;
        (unit.freshness() == v1::Freshness::Lost).then_some(())
    })
    .await;
    let request = v1::TransferLeadershipRequest {
        application: "web".into(),
        to_unit: "web/0".into(),
        ..Default::default()
    };
    let refused = server.leaders().await.transfer_leadership(request).await.unwrap_err();
    assert_eq!(reason(&refused), "INVALID_VALUE");
    assert!(refused.message().contains("lost"), "{}", refused.message());
}

// === messages ===

async fn leadership(peer: &mut Peer) -> v1::Leadership {
    loop {
        match peer.answer().await {
            Told::Leadership(leadership) => return leadership,
            Told::Reject(reject) => panic!("{reject:?}"),
            _ => {}
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_claim_wait_in_line_and_get_the_lease() {
    let Some(redis) = Redis::start(&[]) else { return };
    let one = Server::start(&["--store", &redis.url()]);
    let other = Server::start(&["--store", &redis.url()]);
    configure(&one, "web", 30).await;
    let mut first = Peer::connect(&one, hello("web", "web/0")).await;
    let mut second = Peer::connect(&other, hello("web", "web/1")).await;
    first.keep_alive();
    second.keep_alive();
    let claim = || Said::ClaimLeadership(v1::ClaimLeadership {});
    first.say(claim()).await;
    let told = leadership(&mut first).await;
    assert_eq!((&*told.leader, told.lease_epoch, told.is_self), ("web/0", 1, true));
    assert_eq!(told.heartbeat_interval, seconds(10));
    let told = leadership(&mut second).await;
    assert_eq!((&*told.leader, told.lease_epoch, told.is_self), ("web/0", 1, false));
    assert_eq!(told.heartbeat_interval, None);
    // Waiting is not an error, and the answer names the leader.
    second.say(claim()).await;
    assert!(!leadership(&mut second).await.is_self);
    eventually("it waits", async || {
        (leader(&one, "web").await.candidates == ["web/1"]).then_some(())
    })
    .await;
    let lease = leader(&other, "web").await.lease.unwrap();
    assert!(lease.expire_time.is_none(), "it lasts as long as its session");

    let wrote = one.app_data().await.update_app_data(update("web/0", 1, "db", "web")).await;
    let etag = wrote.unwrap().into_inner().etag;
    for peer in [&mut first, &mut second] {
        loop {
            if let Told::AppDataChanged(changed) = peer.answer().await {
                assert_eq!(changed.etag, etag);
                break;
            }
        }
    }
    first.say(Said::ReleaseLeadership(v1::ReleaseLeadership {})).await;
    let told = leadership(&mut second).await;
    assert_eq!((&*told.leader, told.lease_epoch, told.is_self), ("web/1", 2, true));
    let told = leadership(&mut first).await;
    assert_eq!((&*told.leader, told.is_self), ("web/1", false));
    // A leader that says goodbye without a return hands over immediately.
    first.say(claim()).await;
    leadership(&mut first).await;
    second.say(Said::Goodbye(v1::Goodbye { removed: true })).await;
    let told = leadership(&mut first).await;
    assert_eq!((told.lease_epoch, told.is_self), (3, true));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_connects_again_within_its_lease_still_leads() {
    let server = Server::ephemeral();
    configure(&server, "web", 30).await;
    let mut peer = Peer::connect(&server, hello("web", "web/0")).await;
    peer.say(Said::ClaimLeadership(v1::ClaimLeadership {})).await;
    assert_eq!(leadership(&mut peer).await.lease_epoch, 1);
    drop(peer);
    let again = v1::Hello { incarnation: Some(1), ..hello("web", "web/0") };
    let mut peer = Peer::connect(&server, again).await;
    let told = leadership(&mut peer).await;
    assert_eq!((told.lease_epoch, told.is_self), (1, true));
    // A new incarnation of the unit must claim again.
    let newer = Peer::connect(&server, hello("web", "web/0")).await;
    assert_eq!((newer.welcome.leader.as_str(), newer.welcome.incarnation), ("", 2));
    let refused = server.app_data().await.update_app_data(update("web/0", 1, "a", "b")).await;
    assert_eq!(reason(&refused.unwrap_err()), "NOT_LEADER");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_is_silent_for_its_lease_leads_no_longer_in_an_open_session() {
    let server = Server::ephemeral();
    configure(&server, "web", 2).await;
    let mut silent = Peer::connect(&server, hello("web", "web/0")).await;
    silent.say(Said::ClaimLeadership(v1::ClaimLeadership {})).await;
    assert!(leadership(&mut silent).await.is_self);
    let told = leadership(&mut silent).await;
    assert_eq!((&*told.leader, told.lease_epoch, told.is_self), ("", 1, false));
    // The session was only slow and stays open.
    let seq = silent.report(vec![crate::peer::status(v1::Level::Active, "here")]).await;
    silent.acknowledged(seq).await;
}

async fn next_data(stream: &mut Streaming<v1::WatchAppDataResponse>) -> v1::AppData {
    match stream.message().await.unwrap().unwrap().event {
        Some(Event::AppData(app_data)) => app_data,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_sends_the_data_first_then_each_change_and_its_end() {
    let server = Server::ephemeral();
    let request = || v1::WatchAppDataRequest { application: "web".into(), ..Default::default() };
    let mut stream = server.app_data().await.watch_app_data(request()).await.unwrap().into_inner();
    assert!(next_data(&mut stream).await.data.is_empty());
    register(&server, "web", "web/0").await;
    claim(&server, "web", "web/0").await.unwrap();
    let mut client = server.app_data().await;
    let wrote = client.update_app_data(update("web/0", 1, "a", "1")).await.unwrap().into_inner();
    let told = next_data(&mut stream).await;
    assert_eq!((&told.data["a"][..], &told.etag), (&b"1"[..], &wrote.etag));
    // A call that changes nothing does not wake the watch, and neither does a change outside the
    // data.
    let same = client.update_app_data(update("web/0", 1, "a", "1")).await.unwrap().into_inner();
    assert_eq!((same.changed, &same.etag, same.revision), (false, &wrote.etag, wrote.revision));
    let report = crate::server::mk_report("web", "web/0", v1::Level::Active, "up");
    server.reports().await.report_status(report).await.unwrap();
    let next = client.update_app_data(update("web/0", 1, "b", "2")).await.unwrap().into_inner();
    let told = next_data(&mut stream).await;
    assert_eq!((told.data.len(), &told.etag), (2, &next.etag));
    let request = v1::DeleteApplicationRequest { application: "web".into(), ..Default::default() };
    server.applications().await.delete_application(request).await.unwrap();
    assert!(next_data(&mut stream).await.data.is_empty());
    server.terminate();
    assert!(matches!(stream.message().await.unwrap().unwrap().event, Some(Event::Drain(_))));
    assert_eq!(reason(&stream.message().await.unwrap_err()), "DRAINING");
}

#[tokio::test(flavor = "multi_thread")]
async fn values_are_in_no_log_metric_history_or_status() {
    let Some(redis) = Redis::start(&[]) else { return };
    for store in [&["--ephemeral"][..], &["--store", &redis.url()]] {
        let log = tempfile::NamedTempFile::new().unwrap();
        let mut command = crate::server::command(store);
        command.env("BELLWETHER_LOG", "info,bellwether=trace").stderr(log.reopen().unwrap());
        let mut server = Server::spawn(command);
        register(&server, "web", "web/0").await;
        claim(&server, "web", "web/0").await.unwrap();
        let mut client = server.app_data().await;
        client.update_app_data(update("web/0", 1, "db", "kept-value")).await.unwrap();
        let late = update("web/0", 7, "db", "late-value");
        let large = update("web/0", 1, "db", &"large-value".repeat(6000));
        let stray = v1::UpdateAppDataRequest {
            delete: vec!["db".into()],
            ..update("web/0", 1, "db", "stray-value")
        };
        let mut seen = String::new();
        for request in [late, large, stray] {
            seen += &format!("{:?}", client.update_app_data(request).await.unwrap_err());
        }
        for path in ["/metrics", "/readyz?verbose", "/"] {
            seen += &crate::ops::fetch(server.ops, path).1;
        }
        let events =
            v1::ListStatusEventsRequest { application: "web".into(), ..Default::default() };
        let mut applications = server.applications().await;
        seen += &format!("{:?}", applications.list_status_events(events).await.unwrap());
        seen += &format!("{:?}", applications.get_application(get("web")).await.unwrap());
        assert_eq!(data(&server, "web").await.data["db"], "kept-value");
        server.terminate();
        server.wait();
        let log = std::fs::read_to_string(log.path()).unwrap();
        assert!(log.contains("UpdateAppData"), "calls are logged: {log}");
        for value in ["kept-value", "late-value", "large-value", "stray-value"] {
            assert!(!seen.contains(value), "{value} is in {seen}");
            assert!(!log.contains(value), "{value} is in {log}");
        }
    }
}

#[tokio::test]
async fn a_transfer_to_the_leader_answers_the_lease_in_force() {
    let Some(redis) = Redis::start(&[]) else { return };
    for server in [Server::ephemeral(), Server::start(&["--store", &redis.url()])] {
        for unit in ["web/0", "web/1"] {
            register(&server, "web", unit).await;
        }
        let lease = claim(&server, "web", "web/0").await.unwrap();
        let request = v1::TransferLeadershipRequest {
            application: "web".into(),
            to_unit: "web/0".into(),
            ..Default::default()
        };
        let with_id = v1::TransferLeadershipRequest { request_id: "1".into(), ..request.clone() };
        for request in [request, with_id.clone(), with_id] {
            let answer = server.leaders().await.transfer_leadership(request).await.unwrap();
            assert_eq!(answer.into_inner().lease.as_ref(), Some(&lease));
        }
    }
}
