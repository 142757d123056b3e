//! Relays of several upstreams: real servers with different namespaces, served as one.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use bellwether::proto::v1;
use bellwether::proto::v1::Level;
use bellwether_client::Client;
use tonic::{Code, Status};
use tonic_types::StatusExt;

use crate::identities::{TokenFile, bearer};
use crate::peer::{Peer, hello};
use crate::relay::{RawWatch, is_ready, list, relay_command, relay_of};
use crate::server::{Server, cause, eventually, mk_report, reason};

/// Reports the status of a unit of an application in a namespace.
pub async fn report(server: &Server, namespace: &str, name: &str, level: Level) -> u64 {
    let report = mk_report(name, &format!("{name}/0"), level, "");
    let request = v1::ReportStatusRequest { namespace: namespace.into(), ..report };
    server.reports().await.report_status(request).await.unwrap().into_inner().revision
}

/// Starts a relay of several upstreams, and waits until it has a copy of each.
pub async fn union_of(upstreams: &[&str]) -> Server {
    let relay = Server::spawn(relay_command(&upstreams.join(","), &[]));
    is_ready(&relay).await;
    relay
}

/// A server with `prod/web` and `prod/db`, and one with `dev/api`.
pub async fn two_servers() -> (Server, Server) {
    let (prod, dev) = (Server::ephemeral(), Server::ephemeral());
    report(&prod, "prod", "web", Level::Active).await;
    report(&prod, "prod", "db", Level::Blocked).await;
    report(&dev, "dev", "api", Level::Active).await;
    (prod, dev)
}

pub fn explain(namespace: &str, application: &str) -> v1::ExplainApplicationRequest {
    v1::ExplainApplicationRequest {
        namespace: namespace.into(),
        application: application.into(),
        ..Default::default()
    }
}

/// Returns the facts of a refusal.
pub fn facts(status: &Status) -> BTreeMap<String, String> {
    let details = status.get_error_details();
    details.error_info().unwrap().metadata.clone().into_iter().collect()
}

/// Waits until a relay lists what its upstreams list, in order.
pub async fn adds_up(relay: &Server, upstreams: &[&Server]) -> Vec<v1::Application> {
    eventually("the relay lists the same", async || {
        let mut all = Vec::new();
        for upstream in upstreams {
            all.extend(list(upstream, "-").await);
        }
        all.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        (list(relay, "-").await == all).then_some(all)
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn several_upstreams_are_served_as_one_over_two_levels() {
    let (prod, dev) = two_servers().await;
    let first = union_of(&[&prod.url(), &dev.url()]).await;
    let relay = relay_of(&first.url()).await;
    assert_eq!(adds_up(&relay, &[&prod, &dev]).await.len(), 3);
    report(&prod, "prod", "web", Level::Error).await;
    report(&dev, "test", "api", Level::Waiting).await;
    assert_eq!(adds_up(&relay, &[&prod, &dev]).await.len(), 4);
    let mut digests = Vec::new();
    for server in [&prod, &dev, &first, &relay] {
        let (bookmark, ..) = RawWatch::open(server, "").await.bookmark().await;
        digests.push(u64::from_str_radix(&bookmark.digest, 16).unwrap());
    }
    assert_eq!(digests[2..], [digests[0].wrapping_add(digests[1]); 2]);
    for (server, namespace, name) in [(&prod, "prod", "web"), (&dev, "test", "api")] {
        let explain = explain(namespace, name);
        let ours = relay.applications().await.explain_application(explain.clone()).await.unwrap();
        let theirs = server.applications().await.explain_application(explain).await.unwrap();
        assert_eq!(ours.into_inner(), theirs.into_inner());
    }
    let namespaces = v1::ListNamespacesRequest::default();
    let namespaces = relay.applications().await.list_namespaces(namespaces).await.unwrap();
    let names = namespaces.into_inner().namespaces.into_iter().map(|each| each.name);
    assert_eq!(names.collect::<Vec<_>>(), ["dev", "prod", "test"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_are_refused_with_the_address_of_the_upstream_that_has_the_namespace() {
    let (prod, dev) = two_servers().await;
    let relay = union_of(&[&prod.url(), &dev.url()]).await;
    let both = format!("{}, {}", prod.url(), dev.url());
    for (namespace, upstream) in [("prod", prod.url()), ("dev", dev.url()), ("new", both.clone())] {
        let report = mk_report("web", "web/0", Level::Active, "");
        let request = v1::ReportStatusRequest { namespace: namespace.into(), ..report };
        let refused = relay.reports().await.report_status(request).await.unwrap_err();
        assert_eq!(reason(&refused), "RELAY_READ_ONLY");
        assert_eq!(facts(&refused)["upstream"], upstream, "{namespace}");
        assert!(refused.message().contains(&upstream.replace(", ", " or ")), "{refused}");
        let hello = v1::Hello { namespace: namespace.into(), ..hello("web", "web/0") };
        let refused = Peer::try_connect(&relay, hello).await.err().unwrap();
        assert_eq!(facts(&refused)["upstream"], upstream, "{namespace}");
        let request = v1::WatchApplicationsRequest {
            namespace: namespace.into(),
            include_units: true,
            ..Default::default()
        };
        let refused = match relay.applications().await.watch_applications(request).await {
            Err(refused) => refused,
            Ok(stream) => stream.into_inner().message().await.unwrap_err(),
        };
        assert_eq!(facts(&refused)["upstream"], upstream, "{namespace}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_no_upstream_answers_alone_is_refused() {
    let (prod, dev) = two_servers().await;
    let relay = union_of(&[&prod.url(), &dev.url()]).await;
    let mut applications = relay.applications().await;
    let hour_ago = SystemTime::now() - Duration::from_secs(3600);
    let past = |namespace: &str, named: &[&str]| v1::ListPastRequest {
        namespace: namespace.into(),
        applications: named.iter().map(ToString::to_string).collect(),
        start_time: Some(hour_ago.into()),
        slot: Some(prost_types::Duration { seconds: 60, nanos: 0 }),
        slot_count: 60,
        ..Default::default()
    };
    let both = format!("{}, {}", prod.url(), dev.url());
    for request in [past("-", &["prod/web", "dev/api"]), past("new", &["web"])] {
        let refused = applications.list_past(request.clone()).await.unwrap_err();
        let found = (refused.code(), reason(&refused), facts(&refused)["upstream"].clone());
        let expected = (Code::FailedPrecondition, "UPSTREAM_UNDETERMINED".into(), both.clone());
        assert_eq!(found, expected, "{request:?}");
    }
    applications.list_past(past("-", &["prod/web", "prod/db"])).await.unwrap();
    let faults = |namespace: &str| v1::ListFaultsRequest {
        namespace: namespace.into(),
        ..Default::default()
    };
    let refused = applications.list_faults(faults("-")).await.unwrap_err();
    assert_eq!(reason(&refused), "UPSTREAM_UNDETERMINED");
    applications.list_faults(faults("dev")).await.unwrap();
    // The history of what was deleted is where it was.
    let (namespace, application) = ("dev".to_string(), "api".to_string());
    let deleted = v1::DeleteApplicationRequest {
        namespace: namespace.clone(),
        application: application.clone(),
        ..Default::default()
    };
    dev.applications().await.delete_application(deleted).await.unwrap();
    assert_eq!(adds_up(&relay, &[&prod, &dev]).await.len(), 2);
    let history = v1::ListStatusEventsRequest { namespace, application, ..Default::default() };
    let events = applications.list_status_events(history).await.unwrap().into_inner().events;
    assert!(!events.is_empty());
    let invalid = applications.explain_application(explain("prod", "No Name")).await.unwrap_err();
    assert_eq!(reason(&invalid), "INVALID_NAME");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_of_a_union_continues_at_relays_with_the_same_upstreams() {
    let (prod, dev) = two_servers().await;
    let one = union_of(&[&prod.url(), &dev.url()]).await;
    // In another order, by another way.
    let of_dev = relay_of(&dev.url()).await;
    let other = union_of(&[&of_dev.url(), &prod.url()]).await;
    let mut watch = RawWatch::open(&one, "").await;
    let (_, token, names, has_snapshot) = watch.bookmark().await;
    assert_eq!((names.len(), has_snapshot), (3, true));
    report(&prod, "prod", "web", Level::Error).await;
    report(&dev, "dev", "cache", Level::Active).await;
    adds_up(&other, &[&prod, &dev]).await;
    one.kill();
    let (_, newer, names, has_snapshot) = RawWatch::open(&other, &token).await.bookmark().await;
    assert!(!has_snapshot, "{names:?}");
    assert!(["web", "cache"].iter().all(|name| names.iter().any(|sent| sent == name)), "{names:?}");
    let above = relay_of(&other.url()).await;
    let (_, _, names, has_snapshot) = RawWatch::open(&above, &newer).await.bookmark().await;
    assert!(!has_snapshot, "{names:?}");

    // A reader of one store has to learn what the others have, and the reverse.
    let (_, of_store, ..) = RawWatch::open(&prod, "").await.bookmark().await;
    for (server, token) in [(&other, of_store), (&prod, newer)] {
        let request = v1::WatchApplicationsRequest {
            namespace: "-".into(),
            resume_token: token,
            ..Default::default()
        };
        let refused = match server.applications().await.watch_applications(request).await {
            Err(refused) => refused,
            Ok(stream) => stream.into_inner().message().await.unwrap_err(),
        };
        assert_eq!(reason(&refused), "RESUME_TOKEN_EXPIRED");
        assert_eq!(cause(&refused), "other_store");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_token_of_a_caller_goes_to_the_upstream_of_the_namespace() {
    let grant = |who: &str, namespace: &str| {
        format!(
            "[[grant]]\nrole = \"reader\"\nto = [\"token:{who}\"]\nnamespace = \"{namespace}\"\n\
             application = \"*\"\n"
        )
    };
    let worker = "[[grant]]\nrole = \"worker\"\nto = [\"token:worker\"]\nnamespace = \"*\"\n\
                  application = \"*\"\nunit = \"*\"\n";
    let (at_prod, at_dev) = (TokenFile::new(), TokenFile::new());
    let [of_relay, of_ann, of_bob, of_worker] =
        ["relay", "ann", "bob", "worker"].map(|id| at_prod.create(id, "1h"));
    // The second server knows the relay and the worker, not ann and bob.
    std::fs::copy(at_prod.path(), at_dev.path()).unwrap();
    ["ann", "bob"].iter().for_each(|id| at_dev.revoke(id));
    let common = format!("{}{worker}", grant("relay", "*"));
    let prod = at_prod.serve(&format!("{common}{}", grant("bob", "*") + &grant("ann", "prod")));
    let dev = at_dev.serve(&common);
    for (server, namespace) in [(&prod, "prod"), (&dev, "dev")] {
        let worker = Client::connect_with(&server.url(), bearer(&of_worker)).await.unwrap();
        let report = mk_report("web", "web/0", Level::Active, "");
        let request = v1::ReportStatusRequest { namespace: namespace.into(), ..report };
        worker.call(request).await.unwrap();
    }
    let own = format!("{}{}", grant("bob", "*"), grant("ann", "prod"));
    let own = at_prod.write("own.toml", &(own + worker)).display().to_string();
    let token = of_relay.display().to_string();
    let arguments = ["--token-file", &token, "--tokens", &at_prod.path(), "--roles", &own];
    let upstreams = format!("{},{}", prod.url(), dev.url());
    let relay = Server::spawn(relay_command(&upstreams, &arguments));
    is_ready(&relay).await;
    let ann = Client::connect_with(&relay.url(), bearer(&of_ann)).await.unwrap();
    let bob = Client::connect_with(&relay.url(), bearer(&of_bob)).await.unwrap();
    let listed =
        |name: &str| v1::ListApplicationsRequest { namespace: name.into(), ..Default::default() };
    assert_eq!(bob.call(listed("-")).await.unwrap().applications.len(), 2);
    assert_eq!(ann.call(listed("prod")).await.unwrap().applications.len(), 1);
    for namespace in ["-", "dev"] {
        let denied = ann.call(listed(namespace)).await.unwrap_err();
        assert_eq!(denied.reason(), Some("SCOPE_DENIED"), "{namespace}");
    }
    for caller in [&ann, &bob] {
        assert!(caller.call(explain("prod", "web")).await.is_ok());
    }
    let denied = bob.call(explain("dev", "web")).await.unwrap_err();
    assert_eq!(denied.reason(), Some("CREDENTIALS_INVALID"), "{denied}");
    // Where a namespace is, is for those who have a right in it.
    let worker = Client::connect_with(&relay.url(), bearer(&of_worker)).await.unwrap();
    let report = mk_report("web", "web/0", Level::Active, "");
    let report = v1::ReportStatusRequest { namespace: "dev".into(), ..report };
    let refused = worker.call(report).await.unwrap_err().to_string();
    assert!(refused.contains(&dev.url()) && !refused.contains(&prod.url()), "{refused}");
}

#[test]
fn upstreams_that_cannot_be_a_union_are_refused_at_the_start() {
    let said = |upstreams: &str| {
        let output = relay_command(upstreams, &[]).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8(output.stderr).unwrap()
    };
    let twice = said("http://127.0.0.1:1,http://127.0.0.1:1/");
    assert!(twice.contains("http://127.0.0.1:1 is given twice"), "{twice}");
    let many: Vec<String> = (1..18).map(|port| format!("http://127.0.0.1:{port}")).collect();
    let many = said(&many.join(","));
    assert!(many.contains("name at most 16"), "{many}");
}
