//! What goes wrong with one of several upstreams: it is cut off, away from the start, killed, has a
//! namespace of another one, or its store.

use std::process::Command;
use std::time::Duration;

use bellwether::proto::health::HealthCheckRequest;
use bellwether::proto::health::health_check_response::ServingStatus;
use bellwether::proto::v1;
use bellwether::proto::v1::Level;
use bellwether_client::{Client, Event, Watch};
use tonic::{Code, Status};

use crate::relay::{RawWatch, is_ready, list, metric, ready, relay_command};
use crate::relay_union::{adds_up, explain, facts, report, two_servers, union_of};
use crate::server::{BINARY, DEADLINE, Server, eventually, reason};
use crate::testing::Proxy;
use crate::web::{self, Version};

async fn try_list(server: &Server, namespace: &str) -> Result<(usize, Option<String>), Status> {
    let request = v1::ListApplicationsRequest { namespace: namespace.into(), ..Default::default() };
    let answer = server.applications().await.list_applications(request).await?;
    let upstream = answer.metadata().get("bellwether-as-of-upstream");
    let upstream = upstream.map(|text| text.to_str().unwrap().to_string());
    assert_eq!(upstream.is_some(), answer.metadata().contains_key("bellwether-as-of"));
    Ok((answer.into_inner().applications.len(), upstream))
}

async fn health_of(server: &Server, service: &str) -> ServingStatus {
    let request = HealthCheckRequest { service: service.into() };
    server.health().await.check(request).await.unwrap().into_inner().status()
}

async fn delete(server: &Server, namespace: &str, application: &str) {
    let (namespace, application) = (namespace.to_string(), application.to_string());
    let request = v1::DeleteApplicationRequest { namespace, application, ..Default::default() };
    server.applications().await.delete_application(request).await.unwrap();
}

async fn watch_of(server: &Server, namespace: &str) -> RawWatch {
    let request =
        v1::WatchApplicationsRequest { namespace: namespace.into(), ..Default::default() };
    let stream = server.applications().await.watch_applications(request).await.unwrap();
    RawWatch { stream: stream.into_inner() }
}

/// Reads a watch to its end.
async fn end_of(mut watch: RawWatch) -> Status {
    let read = async {
        loop {
            if let Err(status) = watch.stream.message().await {
                return status;
            }
        }
    };
    tokio::time::timeout(DEADLINE, read).await.expect("the watch ends")
}

/// Checks the metrics of the contact with each upstream.
async fn check_metrics(relay: &Server, upstreams: [(&String, u64); 2]) {
    for (upstream, is_connected) in upstreams {
        let label = format!("{{upstream=\"{upstream}\"}}");
        let connected = format!("bellwether_relay_upstream_connected{label}");
        eventually("the metric of the upstream", async || {
            (metric(relay, &connected) == is_connected).then_some(())
        })
        .await;
        let age = metric(relay, &format!("bellwether_relay_upstream_age_seconds{label}"));
        assert_eq!(age < 15, is_connected == 1, "{upstream}: {age} s");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn namespaces_of_the_other_upstreams_stay_current_in_a_cut() {
    let (prod, dev) = two_servers().await;
    let proxy = Proxy::to(&dev.grpc.to_string()).await;
    let behind = format!("http://{}", proxy.address());
    let relay = union_of(&[&prod.url(), &behind]).await;
    let mut of_prod = watch_of(&relay, "prod").await;
    let mut of_all = watch_of(&relay, "-").await;
    of_prod.bookmark().await;
    proxy.black_hole();
    let cut = eventually("lists name the upstream that is cut off", async || {
        let (count, upstream) = try_list(&relay, "dev").await.unwrap();
        assert_eq!(count, 1);
        upstream
    })
    .await;
    assert_eq!(cut, behind);
    assert_eq!(try_list(&relay, "prod").await.unwrap(), (2, None));
    assert_eq!(try_list(&relay, "-").await.unwrap(), (3, Some(behind.clone())));
    // The time as of which a watch is current is that of what it covers.
    report(&prod, "prod", "web", Level::Error).await;
    let current = eventually("the change comes", async || {
        let (bookmark, _, names, _) = of_prod.bookmark().await;
        names.contains(&"web".to_string()).then_some(bookmark.as_of_time.unwrap())
    })
    .await;
    let last = eventually("the change comes to a watch of all", async || {
        let (bookmark, _, names, _) = of_all.bookmark().await;
        names.contains(&"web".to_string()).then_some(bookmark.as_of_time.unwrap())
    })
    .await;
    assert!(10 <= current.seconds - last.seconds, "{last:?} {current:?}");
    assert_eq!(health_of(&relay, "dev/api").await, ServingStatus::Unknown);
    assert_eq!(health_of(&relay, "dev/").await, ServingStatus::Unknown);
    assert_eq!(health_of(&relay, "prod/web").await, ServingStatus::NotServing);
    let (is_ready, parts) = ready(&relay);
    assert!(is_ready && parts.contains(&format!("copy of {}", prod.url())), "{parts}");
    assert!(parts.contains("stale since") && parts.contains(&behind), "{parts}");
    check_metrics(&relay, [(&prod.url(), 1), (&behind, 0)]).await;
    relay.applications().await.explain_application(explain("prod", "web")).await.unwrap();
    let mut away = tonic::Request::new(explain("dev", "api"));
    away.set_timeout(Duration::from_secs(4));
    let refused = relay.applications().await.explain_application(away).await.unwrap_err();
    assert_eq!(reason(&refused), "UPSTREAM_UNAVAILABLE");
    assert_eq!(facts(&refused)["upstream"], behind);
    let said = |namespace: &str| {
        let arguments = ["--server", &relay.url(), "status", "-n", namespace];
        let output = Command::new(BINARY).args(arguments).output().unwrap();
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(said("dev").contains(&format!("no contact with {behind}")), "{}", said("dev"));
    assert_eq!(said("prod"), "");
    let alarm = format!("no contact with {behind}");
    for (path, is_alarmed) in [("/?ns=dev", true), ("/?ns=prod", false)] {
        let page = web::get(&relay, Version::Http1, path).await.text();
        assert_eq!(page.contains(&alarm), is_alarmed, "{page}");
    }
    proxy.heal();
    eventually("lists name no upstream", async || {
        let (count, upstream) = try_list(&relay, "-").await.unwrap();
        (count == 3 && upstream.is_none()).then_some(())
    })
    .await;
    adds_up(&relay, &[&prod, &dev]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relay_begins_without_an_upstream_that_is_away() {
    let (prod, dev) = two_servers().await;
    let proxy = Proxy::to(&dev.grpc.to_string()).await;
    proxy.cut();
    let behind = format!("http://{}", proxy.address());
    let upstreams = format!("{},{behind}", prod.url());
    let relay = Server::spawn(relay_command(&upstreams, &[]));
    is_ready(&relay).await;
    assert_eq!(try_list(&relay, "prod").await.unwrap(), (2, None));
    let mut watch = watch_of(&relay, "prod").await;
    let (_, token, names, _) = watch.bookmark().await;
    assert_eq!((names.len(), token.is_empty()), (2, false));
    // It may have these namespaces.
    for namespace in ["-", "dev"] {
        let refused = try_list(&relay, namespace).await.unwrap_err();
        assert_eq!(reason(&refused), "UPSTREAM_UNAVAILABLE", "{namespace}");
        assert_eq!(facts(&refused)["upstream"], behind, "{namespace}");
    }
    let (_, parts) = ready(&relay);
    assert!(parts.contains(&format!("no proved copy of {behind} yet")), "{parts}");
    proxy.heal();
    eventually("the relay has both", async || try_list(&relay, "-").await.ok()).await;
    adds_up(&relay, &[&prod, &dev]).await;
    let (_, _, names, _) = watch.bookmark().await;
    assert!(names.is_empty(), "{names:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_of_two_upstreams_is_refused_at_the_start() {
    let (prod, dev) = two_servers().await;
    report(&dev, "prod", "old", Level::Active).await;
    let relay = Server::spawn(relay_command(&format!("{},{}", prod.url(), dev.url()), &[]));
    let refused = eventually("the overlap is refused", async || {
        let refused = try_list(&relay, "dev").await.unwrap_err();
        (reason(&refused) == "NAMESPACE_OVERLAP").then_some(refused)
    })
    .await;
    assert_eq!(refused.code(), Code::Unavailable);
    let facts = facts(&refused);
    assert_eq!(facts["namespace"], "prod");
    let mut both = [&*facts["upstream"], &*facts["other_upstream"]];
    let (prod_url, dev_url) = (prod.url(), dev.url());
    let mut expected = [&*prod_url, &*dev_url];
    both.sort_unstable();
    expected.sort_unstable();
    assert_eq!(both, expected);
    let (is_ready, parts) = ready(&relay);
    assert!(!is_ready && parts.contains("namespace prod is at"), "{parts}");
    assert_eq!(health_of(&relay, "").await, ServingStatus::NotServing);
    delete(&dev, "prod", "old").await;
    eventually("the relay serves", async || ready(&relay).0.then_some(())).await;
    assert_eq!(adds_up(&relay, &[&prod, &dev]).await.len(), 3);
}

/// Waits for an event of a verified watch.
async fn wait_for(watch: &mut Watch, is_it: impl Fn(&Event) -> bool) {
    let wait = async { while !is_it(&watch.next().await.unwrap()) {} };
    tokio::time::timeout(DEADLINE, wait).await.expect("the event comes");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_overlap_that_appears_later_hides_the_namespace_and_nothing_else() {
    let (prod, dev) = two_servers().await;
    let relay = union_of(&[&prod.url(), &dev.url()]).await;
    let (of_all, of_prod) = (watch_of(&relay, "-").await, watch_of(&relay, "prod").await);
    let mut of_dev = watch_of(&relay, "dev").await;
    of_dev.bookmark().await;
    let client = Client::connect(&relay.url()).await.unwrap();
    let request = v1::WatchApplicationsRequest { namespace: "-".into(), ..Default::default() };
    let mut verified = Watch::new(&client, request);
    wait_for(&mut verified, |event| matches!(event, Event::Current)).await;
    let mut health = HealthCheckRequest { service: "prod/web".into() };
    let mut health_watch = relay.health().await.watch(health.clone()).await.unwrap().into_inner();
    let status = health_watch.message().await.unwrap().unwrap().status();
    assert_eq!(status, ServingStatus::Serving);

    // The same name at both: the second one must not replace the first, nor the reverse.
    report(&dev, "prod", "web", Level::Error).await;
    for watch in [of_all, of_prod] {
        assert_eq!(reason(&end_of(watch).await), "NAMESPACE_OVERLAP");
    }
    wait_for(&mut verified, |event| matches!(event, Event::Disconnected { .. })).await;
    let status = health_watch.message().await.unwrap().unwrap().status();
    assert_eq!(status, ServingStatus::Unknown);
    for namespace in ["-", "prod"] {
        let refused = try_list(&relay, namespace).await.unwrap_err();
        assert_eq!(reason(&refused), "NAMESPACE_OVERLAP", "{namespace}");
    }
    health.service = "prod/web".into();
    let refused = relay.health().await.check(health).await.unwrap_err();
    assert_eq!(reason(&refused), "NAMESPACE_OVERLAP");
    let (is_ready, parts) = ready(&relay);
    assert!(is_ready && parts.contains("namespace prod is at"), "{parts}");
    eventually("the metric counts it", async || {
        (metric(&relay, "bellwether_relay_overlaps") == 1).then_some(())
    })
    .await;
    let page = web::get(&relay, Version::Http1, "/").await.text();
    assert!(page.contains("namespace prod is at"), "{page}");
    let output = Command::new(BINARY).args(["--server", &relay.url(), "status", "-A"]).output();
    let said = String::from_utf8(output.unwrap().stderr).unwrap();
    assert!(said.contains("namespace prod is at"), "{said}");
    // The rest goes on.
    report(&dev, "dev", "api", Level::Blocked).await;
    let changed = eventually("the change comes", async || {
        let (_, _, names, _) = of_dev.bookmark().await;
        (!names.is_empty()).then_some(names)
    })
    .await;
    assert_eq!(changed, ["api"]);

    // The first one leaves: the namespace is that of the second one.
    delete(&prod, "prod", "web").await;
    delete(&prod, "prod", "db").await;
    assert_eq!(adds_up(&relay, &[&prod, &dev]).await.len(), 2);
    let is_error = |event: &Event| match event {
        Event::Upserted(app, _) => app.status.clone().unwrap_or_default().level() == Level::Error,
        _ => false,
    };
    wait_for(&mut verified, is_error).await;
    wait_for(&mut verified, |event| matches!(event, Event::Current)).await;
    let wrong = metric(&relay, r#"bellwether_relay_resyncs_total{cause="digest"}"#);
    assert_eq!(wrong, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_addresses_of_one_store_are_no_union() {
    let (prod, _) = two_servers().await;
    let proxy = Proxy::to(&prod.grpc.to_string()).await;
    let again = format!("http://{}", proxy.address());
    let relay = Server::spawn(relay_command(&format!("{},{again}", prod.url()), &[]));
    let refused = eventually("the store is refused", async || {
        let refused = try_list(&relay, "prod").await.unwrap_err();
        (reason(&refused) == "NAMESPACE_OVERLAP").then_some(refused)
    })
    .await;
    assert!(refused.message().contains("lead to one store"), "{}", refused.message());
    assert!(refused.message().contains(&again), "{}", refused.message());
    let (is_ready, parts) = ready(&relay);
    assert!(!is_ready && parts.contains("lead to one store"), "{parts}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_verified_watch_of_a_union_survives_kills_of_its_servers() {
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut servers = [Server::on(one.path()), Server::on(other.path())];
    let mut proxies = Vec::new();
    for (server, namespace) in servers.iter().zip(["prod", "dev"]) {
        report(server, namespace, "app0", Level::Active).await;
        proxies.push(Proxy::to(&server.grpc.to_string()).await);
    }
    let urls: Vec<String> =
        proxies.iter().map(|proxy| format!("http://{}", proxy.address())).collect();
    let relay = union_of(&[&urls[0], &urls[1]]).await;
    let client = Client::connect(&relay.url()).await.unwrap();
    let request = v1::WatchApplicationsRequest { namespace: "-".into(), ..Default::default() };
    let mut watch = Watch::new(&client, request);
    wait_for(&mut watch, |event| matches!(event, Event::Current)).await;
    for round in 0..4_usize {
        for n in 0..20_usize {
            let level = if (n + round).is_multiple_of(3) { Level::Blocked } else { Level::Active };
            let name = format!("app{}", (n * 7 + round) % 10);
            report(&servers[n % 2], ["prod", "dev"][n % 2], &name, level).await;
            if n == 10 {
                let data = [&one, &other][round % 2].path();
                let at = round % 2;
                let [first, second] = servers;
                let (killed, kept) = if at == 0 { (first, second) } else { (second, first) };
                killed.kill();
                let again = Server::on(data);
                proxies[at].lead_to(&again.grpc.to_string());
                servers = if at == 0 { [again, kept] } else { [kept, again] };
            }
        }
        let all = adds_up(&relay, &[&servers[0], &servers[1]]).await;
        // Two owners of 10 names each.
        assert!(all.len() <= 20, "{}", all.len());
    }
    let last = report(&servers[1], "dev", "last", Level::Active).await;
    let is_last = |event: &Event| match event {
        Event::Upserted(app, _) => app.name == "last" && app.revision == last,
        _ => false,
    };
    wait_for(&mut watch, is_last).await;
    assert_eq!(list(&relay, "-").await, adds_up(&relay, &[&servers[0], &servers[1]]).await);
    assert_eq!(metric(&relay, r#"bellwether_relay_resyncs_total{cause="digest"}"#), 0);
}
