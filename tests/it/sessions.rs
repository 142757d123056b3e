//! Sessions of workers against the real server.

use bellwether::proto::v1;
use bellwether::proto::v1::connect_request::Message as Said;
use bellwether::proto::v1::connect_response::Message as Told;
use bellwether::proto::v1::{Freshness, Level, StatusKind};

use crate::peer::{Peer, hello, status};
use crate::server::{Server, eventually, get, reason};

pub async fn unit(server: &Server, application: &str, name: &str) -> Option<v1::Unit> {
    let request = v1::ListUnitsRequest { application: application.into(), ..Default::default() };
    let units = server.applications().await.list_units(request).await.ok()?.into_inner().units;
    units.into_iter().find(|unit| unit.name == name)
}

pub async fn level(server: &Server, application: &str) -> Level {
    let got = server.applications().await.get_application(get(application)).await.unwrap();
    got.into_inner().application.unwrap().status.unwrap().level()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_is_welcomed_reports_is_asked_and_leaves() {
    let server = Server::ephemeral();
    let mut peer = Peer::connect(&server, hello("web", "web/0")).await;
    assert_eq!(peer.welcome.incarnation, 1);
    assert!(peer.welcome.heartbeat_interval.is_some());
    let found = unit(&server, "web", "web/0").await.unwrap();
    assert!(found.connected && found.incarnation == 1);
    // The server asks a new worker immediately.
    let question = peer.question().await;
    let seq = peer.replace(&question.collect_id, vec![status(Level::Active, "serving")]).await;
    peer.acknowledged(seq).await;
    assert_eq!(level(&server, "web").await, Level::Active);
    let seq = peer.report(vec![status(Level::Blocked, "no database")]).await;
    peer.acknowledged(seq).await;
    assert_eq!(level(&server, "web").await, Level::Blocked);
    peer.say(Said::Goodbye(v1::Goodbye { removed: true })).await;
    peer.end().await.unwrap();
    assert_eq!(unit(&server, "web", "web/0").await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_incarnation_ends_the_old_one_and_its_late_reports_do_not_count() {
    let server = Server::ephemeral();
    let mut old = Peer::connect(&server, hello("web", "web/0")).await;
    let pull = v1::StatusReport { component: "db".into(), ..status(Level::Waiting, "pulled") };
    let seq = old.replace("", vec![pull]).await;
    old.acknowledged(seq).await;
    let seq = old.report(vec![status(Level::Maintenance, "pushed")]).await;
    old.acknowledged(seq).await;

    let mut new = Peer::connect(&server, hello("web", "web/0")).await;
    assert_eq!(new.welcome.incarnation, 2);
    assert_eq!(new.welcome.retained.len(), 1, "what was pushed is given back");
    assert_eq!(new.welcome.retained[0].message, "pushed");
    // The old worker is notified, and its stream ends.
    assert!(matches!(old.answer().await, Told::Superseded(s) if s.incarnation == 2));
    let ended = old.end().await.unwrap_err();
    assert_eq!(
        (ended.code(), reason(&ended).as_str()),
        (tonic::Code::Aborted, "STALE_INCARNATION")
    );
    // The old worker cannot reconnect.
    let again = v1::Hello { incarnation: Some(1), ..hello("web", "web/0") };
    let refused = Peer::try_connect(&server, again).await.err().unwrap();
    assert_eq!(reason(&refused), "STALE_INCARNATION");
    // The pull set of the old worker stays the last known one until the new worker has answered.
    let request = v1::ListStatusesRequest { application: "web".into(), ..Default::default() };
    let list = async || {
        let listed = server.applications().await.list_statuses(request.clone()).await.unwrap();
        listed.into_inner().statuses
    };
    let pulled = async || {
        let is_pull = |r: &v1::StatusRecord| r.report.as_ref().unwrap().kind() == StatusKind::Pull;
        list().await.into_iter().find(is_pull)
    };
    assert_eq!(pulled().await.unwrap().freshness(), Freshness::Stale);
    let seq = new.replace("", vec![status(Level::Active, "")]).await;
    new.acknowledged(seq).await;
    assert_eq!(pulled().await.unwrap().freshness(), Freshness::Fresh);
    assert_eq!(list().await.len(), 2, "what was pushed stays");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rejected_message_names_its_seq_and_the_rest_goes_on() {
    let server = Server::ephemeral();
    let mut peer = Peer::connect(&server, hello("web", "web/0")).await;
    let good = status(Level::Active, "");
    peer.report(vec![good.clone()]).await;
    let bad = peer.report(vec![good.clone(), v1::StatusReport::default()]).await;
    let last = peer.report(vec![status(Level::Waiting, "for a database")]).await;
    let mut rejected = Vec::new();
    loop {
        match peer.answer().await {
            Told::Reject(reject) => rejected.push((reject.seq, reject.status.unwrap())),
            Told::Ack(ack) if ack.seq == last => break,
            Told::Ack(_) => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(rejected.len(), 1);
    assert_eq!(rejected[0].0, bad);
    assert_eq!(rejected[0].1.code, tonic::Code::InvalidArgument as i32);
    assert!(rejected[0].1.message.contains("statuses[1].level"), "{rejected:?}");
    assert_eq!(level(&server, "web").await, Level::Waiting);
    // The refusal stays small enough for a client, however many entries are wrong.
    for (count, said) in [(1000, "; and 99"), (5000, "at most 1024 in one message")] {
        peer.report(vec![v1::StatusReport::default(); count]).await;
        let Told::Reject(reject) = peer.answer().await else { panic!() };
        let status = reject.status.unwrap();
        assert!(status.message.contains(said), "{}", status.message);
        assert!(prost::Message::encoded_len(&status) <= 4 << 10);
        peer.answer().await;
    }
    // A message without its required field is refused, and the session stays open.
    peer.say(Said::Error(Box::new(v1::ConnectError { seq: 9000, error: None }))).await;
    let Told::Reject(reject) = peer.answer().await else { panic!() };
    assert_eq!(reject.status.unwrap().code, tonic::Code::InvalidArgument as i32);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_vanishes_is_shown() {
    let server = Server::ephemeral();
    let peer = Peer::connect(&server, hello("web", "web/0")).await;
    let others = [
        Peer::connect(&server, hello("web", "web/1")).await,
        Peer::connect(&server, hello("web", "web/2")).await,
    ];
    drop(peer);
    eventually("it is not connected any more", async || {
        unit(&server, "web", "web/0").await.filter(|unit| !unit.connected)
    })
    .await;
    assert!(unit(&server, "web", "web/1").await.unwrap().connected);
    drop(others);
}

#[tokio::test(flavor = "multi_thread")]
async fn collecting_asks_each_worker_once_and_knows_who_did_not_answer() {
    let server = Server::ephemeral();
    let mut peer = Peer::connect(&server, hello("web", "web/0")).await;
    let mut silent = Peer::connect(&server, hello("web", "web/1")).await;
    let question = peer.question().await;
    let seq = peer.replace(&question.collect_id, vec![status(Level::Active, "first")]).await;
    peer.acknowledged(seq).await;
    silent.question().await;
    let request = v1::CollectApplicationRequest {
        application: "web".into(),
        deadline: Some(prost_types::Duration { seconds: 1, nanos: 0 }),
        ..Default::default()
    };
    let mut calls = Vec::new();
    for _ in 0..5 {
        let (mut client, request) = (server.applications().await, request.clone());
        calls.push(tokio::spawn(async move { client.collect_application(request).await }));
    }
    let question = peer.question().await;
    let answer = vec![status(Level::Maintenance, "second")];
    let seq = peer.replace(&question.collect_id, answer).await;
    peer.acknowledged(seq).await;
    for call in calls {
        let collected = call.await.unwrap().unwrap().into_inner();
        assert_eq!(collected.asked_count, 2);
        let [first, second] = &collected.answers[..] else { panic!("{collected:?}") };
        // Consecutive collects send two questions; concurrent collects share one.
        if first.answered {
            assert_eq!(first.statuses[0].report.as_ref().unwrap().message, "second");
        }
        assert!(!second.answered && second.age.is_none());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopping_server_ends_its_sessions_and_leaves_every_status_as_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let mut server = Server::on(directory.path());
    let mut peer = Peer::connect(&server, hello("web", "web/0")).await;
    let seq = peer.replace("", vec![status(Level::Active, "serving")]).await;
    peer.acknowledged(seq).await;
    server.terminate();
    let Told::Drain(drain) = peer.answer().await else { panic!() };
    assert!(drain.reconnect_after.is_some());
    assert_eq!(reason(&peer.end().await.unwrap_err()), "DRAINING");
    assert!(server.wait().success());
    let server = Server::on(directory.path());
    assert_eq!(level(&server, "web").await, Level::Active);
    let found = unit(&server, "web", "web/0").await.unwrap();
    assert!(!found.connected && found.freshness() == Freshness::Fresh, "{found:?}");
    let hello = v1::Hello { incarnation: Some(1), ..hello("web", "web/0") };
    let peer = Peer::connect(&server, hello).await;
    assert_eq!(peer.welcome.incarnation, 1);
    assert!(unit(&server, "web", "web/0").await.unwrap().connected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_server_leaves_its_units_the_time_to_come_back() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::on(directory.path());
    let mut peer = Peer::connect(&server, hello("web", "web/0")).await;
    let seq = peer.replace("", vec![status(Level::Active, "serving")]).await;
    peer.acknowledged(seq).await;
    server.kill();
    let server = Server::on(directory.path());
    let orphaned = eventually("nobody holds its session", async || {
        unit(&server, "web", "web/0").await.filter(|unit| !unit.connected)
    })
    .await;
    assert_eq!((orphaned.freshness(), orphaned.level()), (Freshness::Fresh, Level::Active));
}

#[tokio::test(flavor = "multi_thread")]
async fn registered_units_have_an_incarnation_and_get_back_what_they_pushed() {
    let server = Server::ephemeral();
    let mut client = v1::worker_service_client::WorkerServiceClient::new(server.channel().await);
    let request = v1::RegisterUnitRequest {
        application: "web".into(),
        unit: "web/0".into(),
        ttl: Some(prost_types::Duration { seconds: 30, nanos: 0 }),
        ..Default::default()
    };
    let first = client.register_unit(request.clone()).await.unwrap().into_inner();
    assert_eq!(first.incarnation, 1);
    assert_eq!(first.heartbeat_interval.unwrap().seconds, 10);
    let mut report = crate::server::mk_report("web", "web/0", Level::Blocked, "no volume");
    report.incarnation = Some(1);
    server.reports().await.report_status(report.clone()).await.unwrap();
    let second = client.register_unit(request.clone()).await.unwrap().into_inner();
    assert_eq!(second.incarnation, 2);
    assert_eq!(second.retained[0].message, "no volume");
    let refused = server.reports().await.report_status(report).await.unwrap_err();
    assert_eq!(reason(&refused), "STALE_INCARNATION");
    let same = v1::RegisterUnitRequest { previous_incarnation: Some(2), ..request };
    assert_eq!(client.register_unit(same).await.unwrap().into_inner().incarnation, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn push_statuses_of_a_replaced_pod_pass_to_its_successor() {
    let server = Server::ephemeral();
    let configure = v1::ConfigureApplicationRequest {
        application: "web".into(),
        config: Some(v1::ApplicationConfig {
            hand_over: Some(v1::HandOver { label: "slot".into() }),
            ..Default::default()
        }),
        ..Default::default()
    };
    server.applications().await.configure_application(configure).await.unwrap();
    let pod = |name: &str| v1::Hello {
        stateless: true,
        labels: [("slot".to_string(), "a".to_string())].into(),
        ..hello("web", name)
    };
    let mut first = Peer::connect(&server, pod("web-7d9f-x1")).await;
    let seq = first.report(vec![status(Level::Blocked, "schema too old")]).await;
    first.acknowledged(seq).await;
    first.say(Said::Goodbye(v1::Goodbye { removed: true })).await;
    first.end().await.unwrap();
    assert_eq!(level(&server, "web").await, Level::Blocked, "it waits for a successor");
    let second = Peer::connect(&server, pod("web-7d9f-x2")).await;
    assert_eq!(second.welcome.retained.len(), 1);
    assert_eq!(second.welcome.retained[0].message, "schema too old");
    assert_eq!(unit(&server, "web", "web-7d9f-x1").await, None);
    // The successor connects before the pod that it replaces departs.
    let third = Peer::connect(&server, pod("web-7d9f-x3")).await;
    assert!(third.welcome.retained.is_empty());
    second.say(Said::Goodbye(v1::Goodbye { removed: true })).await;
    let passed = eventually("the third has it", async || {
        let request = v1::ListStatusesRequest { application: "web".into(), ..Default::default() };
        let listed = server.applications().await.list_statuses(request).await.unwrap();
        let listed = listed.into_inner().statuses;
        listed.into_iter().find(|record| record.unit == "web-7d9f-x3")
    })
    .await;
    assert_eq!(passed.report.unwrap().message, "schema too old");
}
