//! Relays: the real binary in one or two levels behind a server, killed, cut off, and asked for
//! what only the server does.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::time::Duration;

use bellwether::proto::health::HealthCheckRequest;
use bellwether::proto::health::health_check_response::ServingStatus;
use bellwether::proto::v1;
use bellwether::proto::v1::Level;
use bellwether::proto::v1::watch_applications_response::Event as WireEvent;
use bellwether_client::{Client, Event, Watch};
use http::Method;
use tonic::Code;
use tonic_types::StatusExt;

use crate::identities::{TokenFile, bearer};
use crate::ops::fetch;
use crate::peer::{Peer, hello};
use crate::server::{BINARY, Server, eventually, get, mk_report, reason};
use crate::testing::Proxy;
use crate::web::{self, Version};

/// Returns the command of a relay of this upstream, to be changed and spawned.
pub fn relay_command(upstream: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(BINARY);
    command
        .args(["relay", "--print-addresses", "json", "--upstream", upstream])
        .env("BELLWETHER_GRPC_LISTEN", "127.0.0.1:0")
        .env("BELLWETHER_OPS_LISTEN", "127.0.0.1:0")
        .args(arguments)
        .env_remove("BELLWETHER_SERVER")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Starts a relay, and waits until it has a copy.
pub async fn relay_of(upstream: &str) -> Server {
    let relay = Server::spawn(relay_command(upstream, &[]));
    is_ready(&relay).await;
    relay
}

pub async fn is_ready(relay: &Server) {
    eventually("the relay has a copy", async || ready(relay).0.then_some(())).await;
}

/// Returns whether a server is ready, with its parts in words.
pub fn ready(server: &Server) -> (bool, String) {
    let (head, parts) = fetch(server.ops, "/readyz?verbose");
    (head.starts_with("HTTP/1.1 200"), parts)
}

pub fn metric(server: &Server, line: &str) -> u64 {
    let (_, text) = fetch(server.ops, "/metrics");
    let value = text.lines().find_map(|each| each.strip_prefix(line)?.trim().parse().ok());
    value.unwrap_or_else(|| panic!("no {line} in\n{text}"))
}

async fn report(server: &Server, application: &str, level: Level, message: &str) -> u64 {
    let unit = format!("{application}/0");
    let request = mk_report(application, &unit, level, message);
    server.reports().await.report_status(request).await.unwrap().into_inner().revision
}

pub async fn list(server: &Server, namespace: &str) -> Vec<v1::Application> {
    let request = v1::ListApplicationsRequest { namespace: namespace.into(), ..Default::default() };
    let mut applications = server.applications().await;
    applications.list_applications(request).await.unwrap().into_inner().applications
}

/// Waits until two servers list the same.
pub async fn agree(one: &Server, other: &Server) -> Vec<v1::Application> {
    eventually("both list the same", async || {
        let (ours, theirs) = (list(one, "-").await, list(other, "-").await);
        (ours == theirs).then_some(ours)
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn two_levels_of_relays_serve_what_the_server_has() {
    let server = Server::ephemeral();
    let first = relay_of(&server.url()).await;
    let second = relay_of(&first.url()).await;
    report(&server, "web", Level::Blocked, "add a database").await;
    let mut needs = mk_report("shop", "shop/0", Level::Waiting, "waits for web");
    let needed = v1::ApplicationNeed { application: "web".into(), ..Default::default() };
    let object = Some(v1::need::Object::Application(needed));
    needs.status.as_mut().unwrap().needs = vec![v1::Need { object }];
    server.reports().await.report_status(needs).await.unwrap();
    report(&server, "old", Level::Active, "").await;
    assert_eq!(agree(&server, &second).await.len(), 3);
    let deleted = v1::DeleteApplicationRequest { application: "old".into(), ..Default::default() };
    server.applications().await.delete_application(deleted).await.unwrap();
    assert_eq!(agree(&server, &second).await.len(), 2);

    let (mut of_server, mut of_relay) = (server.applications().await, second.applications().await);
    let revision = report(&server, "web", Level::Blocked, "add another database").await;
    let asked = v1::GetApplicationRequest { min_revision: revision, ..get("web") };
    let ours = of_relay.get_application(asked.clone()).await.unwrap();
    assert!(ours.metadata().get("bellwether-as-of").is_none());
    let theirs = of_server.get_application(asked).await.unwrap();
    assert_eq!(ours.into_inner(), theirs.into_inner());
    let blockers = |namespace: &str| v1::ListBlockersRequest {
        namespace: namespace.into(),
        ..Default::default()
    };
    let ours = of_relay.list_blockers(blockers("-")).await.unwrap().into_inner();
    assert_eq!(ours, of_server.list_blockers(blockers("-")).await.unwrap().into_inner());
    assert_eq!(ours.blockers[0].frees_count, 1, "{ours:?}");
    let why = v1::ExplainApplicationRequest { application: "shop".into(), ..Default::default() };
    let ours = of_relay.explain_application(why.clone()).await.unwrap().into_inner();
    assert_eq!(ours, of_server.explain_application(why).await.unwrap().into_inner());
    assert_eq!(ours.causes.len(), 1, "{ours:?}");
    let units = v1::ListUnitsRequest { application: "web".into(), ..Default::default() };
    let ours = of_relay.list_units(units.clone()).await.unwrap().into_inner();
    assert_eq!(ours, of_server.list_units(units).await.unwrap().into_inner());
    let namespaces = v1::ListNamespacesRequest::default();
    let ours = of_relay.list_namespaces(namespaces.clone()).await.unwrap().into_inner();
    assert_eq!(ours, of_server.list_namespaces(namespaces).await.unwrap().into_inner());

    let check = HealthCheckRequest { service: "default/web".into() };
    let health = second.health().await.check(check).await.unwrap().into_inner();
    assert_eq!(health.status(), ServingStatus::NotServing);
    let about = v1::GetServerInfoRequest::default();
    let about = second.about().await.get_server_info(about).await.unwrap().into_inner();
    assert!(about.features.contains(&"relay".to_string()), "{:?}", about.features);
    let page = web::get(&second, Version::Http1, "/").await.text();
    assert!(page.contains("add another database"), "{page}");
    let path = "/bellwether.v1.ApplicationService/GetApplication";
    let headers = [("content-type", "application/json")];
    let asked = r#"{"application":"web"}"#;
    let request = web::request(&second, Method::POST, path, &headers, asked);
    let json = web::send(&second, Version::Http1, request).await.text();
    assert!(json.contains("LEVEL_BLOCKED"), "{json}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relay_refuses_writes_and_sessions_with_the_address_to_use() {
    let server = Server::ephemeral();
    let relay = relay_of(&server.url()).await;
    let request = mk_report("web", "web/0", Level::Active, "");
    let refused = relay.reports().await.report_status(request).await.unwrap_err();
    assert_eq!((refused.code(), &*reason(&refused)), (Code::FailedPrecondition, "RELAY_READ_ONLY"));
    assert!(refused.message().contains(&server.url()), "{}", refused.message());
    let details = refused.get_error_details();
    assert_eq!(details.error_info().unwrap().metadata["upstream"], server.url());
    let deleted = v1::DeleteApplicationRequest { application: "web".into(), ..Default::default() };
    let refused = relay.applications().await.delete_application(deleted).await.unwrap_err();
    assert_eq!(reason(&refused), "RELAY_READ_ONLY");
    let refused = Peer::try_connect(&relay, hello("web", "web/0")).await.err().unwrap();
    assert_eq!(reason(&refused), "RELAY_READ_ONLY");
    let units = v1::WatchApplicationsRequest { include_units: true, ..Default::default() };
    let refused = match relay.applications().await.watch_applications(units).await {
        Err(refused) => refused,
        Ok(stream) => stream.into_inner().message().await.unwrap_err(),
    };
    assert_eq!(reason(&refused), "RELAY_READ_ONLY");
    let output = Command::new(BINARY)
        .args(["--server", &relay.url(), "report", "web/0", "--level", "active"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains(&server.url()), "{said}");
    assert!(list(&server, "-").await.is_empty());
}

/// A stream of messages, with the last token.
pub struct RawWatch {
    pub stream: tonic::Streaming<v1::WatchApplicationsResponse>,
}

impl RawWatch {
    pub async fn open(server: &Server, resume_token: &str) -> RawWatch {
        let request = v1::WatchApplicationsRequest {
            namespace: "-".into(),
            resume_token: resume_token.into(),
            ..Default::default()
        };
        let stream = server.applications().await.watch_applications(request).await.unwrap();
        RawWatch { stream: stream.into_inner() }
    }

    /// Reads to the next bookmark; returns it with its token and the names that came before.
    pub async fn bookmark(&mut self) -> (v1::Bookmark, String, Vec<String>, bool) {
        let (mut names, mut has_snapshot) = (Vec::new(), false);
        loop {
            let message = self.stream.message().await.unwrap().unwrap();
            match message.event.unwrap() {
                WireEvent::Upserted(application) => names.push(application.name),
                WireEvent::Removed(removed) => names.push(format!("-{}", removed.name)),
                WireEvent::SnapshotComplete(_) => has_snapshot = true,
                WireEvent::Bookmark(bookmark) => {
                    return (bookmark, message.resume_token, names, has_snapshot);
                }
                WireEvent::Drain(_) => panic!("a server drains"),
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_of_a_relay_continues_at_every_relay_and_at_the_server() {
    let server = Server::ephemeral();
    report(&server, "web", Level::Active, "").await;
    report(&server, "db", Level::Active, "").await;
    let one = relay_of(&server.url()).await;
    let other = relay_of(&one.url()).await;
    let mut watch = RawWatch::open(&one, "").await;
    let (bookmark, token, names, has_snapshot) = watch.bookmark().await;
    assert!(has_snapshot && bookmark.as_of_time.is_some(), "{bookmark:?}");
    assert_eq!(names, ["db", "web"]);
    report(&server, "web", Level::Blocked, "").await;
    agree(&server, &other).await;
    one.kill();
    for at in [&other, &server] {
        let mut resumed = RawWatch::open(at, &token).await;
        let (_, _, names, has_snapshot) = resumed.bookmark().await;
        assert!(!has_snapshot && names.contains(&"web".to_string()), "{names:?}");
    }
    let mut of_server = RawWatch::open(&server, "").await;
    let (_, token, ..) = of_server.bookmark().await;
    let mut resumed = RawWatch::open(&other, &token).await;
    let (_, _, names, has_snapshot) = resumed.bookmark().await;
    assert!(!has_snapshot, "{names:?}");
}

/// A copy that a client keeps by a verified watch.
#[derive(Default)]
pub struct ClientCopy(BTreeMap<String, (u64, i32)>);

impl ClientCopy {
    /// Follows until the copy is what the server lists.
    async fn follows(&mut self, watch: &mut Watch, server: &Server) {
        let wanted = list(server, "-").await.into_iter();
        let wanted: BTreeMap<_, _> = wanted
            .map(|app| (app.name, (app.revision, app.status.unwrap_or_default().level)))
            .collect();
        let follow = async {
            while self.0 != wanted {
                match watch.next().await.unwrap() {
                    Event::Upserted(app, _) => {
                        let level = app.status.unwrap_or_default().level;
                        self.0.insert(app.name, (app.revision, level));
                    }
                    Event::Removed { name, .. } => drop(self.0.remove(&name)),
                    // The watch itself compares the digests of bookmarks.
                    Event::Current | Event::Disconnected { .. } => {}
                }
            }
        };
        tokio::time::timeout(crate::server::DEADLINE, follow).await.expect("the copy follows");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn watchers_behind_two_levels_agree_with_a_server_that_is_killed_with_its_relays() {
    let data = tempfile::tempdir().unwrap();
    let mut server = Server::on(data.path());
    let to_server = Proxy::to(&server.grpc.to_string()).await;
    let upstream = format!("http://{}", to_server.address());
    let mut first = relay_of(&upstream).await;
    let to_first = Proxy::to(&first.grpc.to_string()).await;
    let second = relay_of(&format!("http://{}", to_first.address())).await;
    let client = Client::connect(&second.url()).await.unwrap();
    let request = v1::WatchApplicationsRequest { namespace: "-".into(), ..Default::default() };
    let mut watch = Watch::new(&client, request);
    let mut copy = ClientCopy::default();
    for round in 0..6_u32 {
        for n in 0..20_u32 {
            let level = if (n + round).is_multiple_of(3) { Level::Blocked } else { Level::Active };
            report(&server, &format!("app{}", (n * 7 + round) % 12), level, &round.to_string())
                .await;
            if n == 10 && round % 3 == 1 {
                first.kill();
                first = Server::spawn(relay_command(&upstream, &[]));
                to_first.lead_to(&first.grpc.to_string());
            }
            if n == 10 && round % 3 == 2 {
                server.kill();
                server = Server::on(data.path());
                to_server.lead_to(&server.grpc.to_string());
            }
        }
        copy.follows(&mut watch, &server).await;
    }
    agree(&server, &second).await;
    for relay in [&first, &second] {
        let wrong = metric(relay, r#"bellwether_relay_resyncs_total{cause="digest"}"#);
        assert_eq!(wrong, 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relay_that_is_cut_off_serves_on_and_says_as_of_when() {
    let server = Server::ephemeral();
    report(&server, "web", Level::Active, "fine").await;
    let proxy = Proxy::to(&server.grpc.to_string()).await;
    let first = relay_of(&format!("http://{}", proxy.address())).await;
    let relay = relay_of(&first.url()).await;
    agree(&server, &relay).await;
    let health = HealthCheckRequest { service: "default/web".into() };
    let mut health = relay.health().await.watch(health).await.unwrap().into_inner();
    let status = health.message().await.unwrap().unwrap();
    assert_eq!(status.status(), ServingStatus::Serving);
    let mut watch = RawWatch::open(&relay, "").await;
    watch.bookmark().await;
    proxy.black_hole();
    report(&server, "web", Level::Error, "broken").await;
    // Two bookmarks in the cut prove the same state.
    let (before, ..) = watch.bookmark().await;
    let (after, _, names, _) = watch.bookmark().await;
    assert_eq!((before.digest, names.len()), (after.digest, 0));
    let status = health.message().await.unwrap().unwrap();
    assert_eq!(status.status(), ServingStatus::Unknown);
    let since = eventually("the answers say as of when", async || {
        let answer = relay.applications().await.get_application(get("web")).await.unwrap();
        assert_eq!(answer.get_ref().application.as_ref().unwrap().revision, 1);
        Some(answer.metadata().get("bellwether-as-of")?.to_str().unwrap().to_string())
    })
    .await;
    let (is_ready, parts) = ready(&relay);
    assert!(is_ready && parts.contains("stale since"), "{parts}");
    // Its own upstream answers; that one's does not.
    assert!(parts.contains("it proves nothing newer"), "{parts}");
    let explain = v1::ExplainApplicationRequest { application: "web".into(), ..Default::default() };
    let mut explain = tonic::Request::new(explain);
    explain.set_timeout(Duration::from_secs(2));
    let refused = relay.applications().await.explain_application(explain).await.unwrap_err();
    assert_eq!(reason(&refused), "UPSTREAM_UNAVAILABLE", "{refused}");
    let page = web::get(&relay, Version::Http1, "/").await.text();
    assert!(
        page.contains("data-as-of") && page.contains(&format!("no contact with {}", first.url())),
        "{page}"
    );
    let probe = web::get(&relay, Version::Http1, "/health/default/web").await;
    assert!(probe.status == 503 && probe.text().contains("as of"), "{}", probe.text());
    let output = Command::new(BINARY).args(["--server", &relay.url(), "status"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains(&since), "{said}");
    assert!(0 < metric(&relay, "bellwether_relay_age_seconds"));
    proxy.heal();
    agree(&server, &relay).await;
    let answer = relay.applications().await.get_application(get("web")).await.unwrap();
    assert!(answer.metadata().get("bellwether-as-of").is_none());
    let status = health.message().await.unwrap().unwrap();
    assert_eq!(status.status(), ServingStatus::NotServing);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relay_without_a_copy_serves_nothing() {
    let server = Server::ephemeral();
    let proxy = Proxy::to(&server.grpc.to_string()).await;
    proxy.cut();
    let relay = Server::spawn(relay_command(&format!("http://{}", proxy.address()), &[]));
    let refused = relay.applications().await.get_application(get("web")).await.unwrap_err();
    assert_eq!((refused.code(), &*reason(&refused)), (Code::Unavailable, "UPSTREAM_UNAVAILABLE"));
    let units = v1::ListUnitsRequest { application: "web".into(), ..Default::default() };
    let refused = relay.applications().await.list_units(units).await.unwrap_err();
    assert_eq!(reason(&refused), "UPSTREAM_UNAVAILABLE");
    let health = relay.health().await.check(HealthCheckRequest::default()).await.unwrap();
    assert_eq!(health.into_inner().status(), ServingStatus::NotServing);
    assert!(!ready(&relay).0);
    proxy.heal();
    is_ready(&relay).await;
    assert!(list(&relay, "-").await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_at_a_relay_are_judged_by_the_relay_and_by_the_server() {
    let tokens = TokenFile::new();
    let [of_relay, of_ann, of_bob] = ["relay", "ann", "bob"].map(|id| tokens.create(id, "1h"));
    let roles = r#"
        [[grant]]
        role = "reader"
        to = ["token:relay"]
        namespace = "*"
        application = "*"
        [[grant]]
        role = "reader"
        to = ["token:ann"]
        namespace = "prod"
        application = "*"
        [[grant]]
        role = "operator"
        to = ["token:bob"]
        namespace = "*"
        application = "*"
        [[grant]]
        role = "worker"
        to = ["token:bob"]
        namespace = "*"
        application = "*"
        unit = "*"
    "#;
    let server = tokens.serve(roles);
    let operator = Client::connect_with(&server.url(), bearer(&of_bob)).await.unwrap();
    for namespace in ["prod", "dev"] {
        let request = v1::ReportStatusRequest {
            namespace: namespace.into(),
            ..mk_report("web", "web/0", Level::Active, namespace)
        };
        operator.call(request).await.unwrap();
    }
    // At the relay, ann reads dev too, and bob has no role.
    let own = roles.replace("\"prod\"", "\"*\"").replace("token:bob", "token:eve");
    let own = tokens.write("own.toml", &own).display().to_string();
    let token = of_relay.display().to_string();
    let arguments = ["--token-file", &token, "--tokens", &tokens.path(), "--roles", &own];
    let relay = Server::spawn(relay_command(&server.url(), &arguments));
    is_ready(&relay).await;
    let ann = Client::connect_with(&relay.url(), bearer(&of_ann)).await.unwrap();
    let listed = |namespace: &str| v1::ListApplicationsRequest {
        namespace: namespace.into(),
        ..Default::default()
    };
    // What the copy answers is the relay's own configuration.
    assert_eq!(ann.call(listed("-")).await.unwrap().applications.len(), 2);
    let explain = |namespace: &str| v1::ExplainApplicationRequest {
        namespace: namespace.into(),
        application: "web".into(),
        ..Default::default()
    };
    assert!(ann.call(explain("prod")).await.is_ok());
    // What the server answers is for her own token, not for that of the relay.
    let denied = ann.call(explain("dev")).await.unwrap_err();
    assert_eq!(denied.reason(), Some("SCOPE_DENIED"), "{denied}");
    let bob = Client::connect_with(&relay.url(), bearer(&of_bob)).await.unwrap();
    for namespace in ["prod", "dev"] {
        assert!(operator.call(explain(namespace)).await.is_ok());
        let denied = bob.call(explain(namespace)).await.unwrap_err();
        assert_eq!(denied.reason(), Some("SCOPE_DENIED"), "{denied}");
    }
    let nobody = Client::connect(&relay.url()).await.unwrap();
    let denied = nobody.call(explain("prod")).await.unwrap_err();
    assert_eq!(denied.reason(), Some("CREDENTIALS_MISSING"), "{denied}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relay_of_namespaces_has_those_alone() {
    let server = Server::ephemeral();
    for namespace in ["prod", "dev", "test"] {
        let request = v1::ReportStatusRequest {
            namespace: namespace.into(),
            ..mk_report("web", "web/0", Level::Active, namespace)
        };
        server.reports().await.report_status(request).await.unwrap();
    }
    let arguments = ["--namespaces", "prod,dev"];
    let relay = Server::spawn(relay_command(&server.url(), &arguments));
    is_ready(&relay).await;
    for (namespace, count) in [("prod", 1), ("dev", 1), ("test", 0), ("-", 0)] {
        let request =
            v1::ListApplicationsRequest { namespace: namespace.into(), ..Default::default() };
        match relay.applications().await.list_applications(request).await {
            Ok(page) => assert_eq!(page.into_inner().applications.len(), count, "{namespace}"),
            Err(refused) => {
                assert_eq!((count, &*reason(&refused)), (0, "RELAY_READ_ONLY"), "{namespace}");
                assert!(refused.message().contains("dev, prod"), "{}", refused.message());
            }
        }
    }
    let namespaces = v1::ListNamespacesRequest::default();
    let namespaces = relay.applications().await.list_namespaces(namespaces).await.unwrap();
    let names: Vec<String> =
        namespaces.into_inner().namespaces.into_iter().map(|each| each.name).collect();
    assert_eq!(names, ["dev", "prod"]);
    let request = v1::WatchApplicationsRequest { namespace: "prod".into(), ..Default::default() };
    let stream = relay.applications().await.watch_applications(request.clone()).await.unwrap();
    let mut watch = RawWatch { stream: stream.into_inner() };
    let (_, token, names, _) = watch.bookmark().await;
    assert_eq!(names, ["web"]);
    let resumed = v1::WatchApplicationsRequest { resume_token: token, ..request };
    let stream = server.applications().await.watch_applications(resumed).await.unwrap();
    let mut watch = RawWatch { stream: stream.into_inner() };
    assert!(!watch.bookmark().await.3);
    tokio::time::timeout(Duration::from_secs(60), watch.bookmark()).await.unwrap();
}
