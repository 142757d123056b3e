//! `/health/NAMESPACE/APPLICATION`: the answers of `grpc.health.v1` as statuses of HTTP.

use bellwether::proto::v1;
use http::Method;

use crate::cli::{ok, run};
use crate::server::{Server, eventually};
use crate::web::{VERSIONS, Version, get, report, request, send};

#[tokio::test(flavor = "multi_thread")]
async fn the_health_of_an_application_is_a_status_with_its_reason() {
    let server = Server::ephemeral();
    for version in VERSIONS {
        report(&server, "LEVEL_ACTIVE", "").await;
        let well = get(&server, version, "/health/default/web").await;
        assert_eq!((well.status, well.text().as_str()), (200, "default/web is active\n"));
        assert_eq!(well.header("cache-control"), "no-store");
        report(&server, "LEVEL_BLOCKED", "add a <b>database</b>").await;
        let ill = get(&server, version, "/health/default/web").await;
        assert_eq!((ill.status, ill.header("content-type")), (503, "text/plain; charset=utf-8"));
        assert_eq!(ill.text(), "default/web is blocked: web/0: add a <b>database</b>\n");
        let head = request(&server, Method::HEAD, "/health/default/web", &[], "");
        let head = send(&server, version, head).await;
        assert_eq!((head.status, head.body.len()), (503, 0));
        assert_eq!(head.header("content-length"), ill.body.len().to_string());
    }
}

/// Such characters hide a part of a text, reverse it, or break its line.
#[tokio::test(flavor = "multi_thread")]
async fn no_character_without_a_shape_is_shown() {
    let server = Server::ephemeral();
    let hidden = ['\u{200b}', '\u{2028}', '\u{2029}', '\u{2060}', '\u{feff}', '\u{202e}', '\u{ad}'];
    let message: String = hidden.iter().flat_map(|one| ['a', *one]).chain(['b']).collect();
    report(&server, "LEVEL_BLOCKED", &message).await;
    for path in ["/health/default/web", "/", "/?why=default/web"] {
        let text = get(&server, Version::Http1, path).await.text();
        let shown = hidden.iter().find(|one| text.contains(**one));
        assert_eq!(shown, None, "{path}: {text}");
    }
    let health = get(&server, Version::Http1, "/health/default/web").await;
    assert_eq!(health.text(), "default/web is blocked: web/0: aa a aaaab\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_levels_that_serve_are_those_of_the_configuration() {
    let server = Server::ephemeral();
    report(&server, "LEVEL_WAITING", "for a database").await;
    assert_eq!(get(&server, Version::Http1, "/health/default/web").await.status, 503);
    let configure = v1::ConfigureApplicationRequest {
        application: "web".into(),
        config: Some(v1::ApplicationConfig {
            serving_levels: vec![v1::Level::Active as i32, v1::Level::Waiting as i32],
            ..v1::ApplicationConfig::default()
        }),
        update_mask: Some(prost_types::FieldMask { paths: vec!["serving_levels".into()] }),
        ..v1::ConfigureApplicationRequest::default()
    };
    server.applications().await.configure_application(configure).await.unwrap();
    let answer = get(&server, Version::Http1, "/health/default/web").await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.text(), "default/web is waiting: web/0: for a database\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_is_not_known_is_not_found() {
    let server = Server::ephemeral();
    report(&server, "LEVEL_ACTIVE", "").await;
    for path in ["/health/default/api", "/health/web", "/health/a/b/c", "/health/default/%2f"] {
        assert_eq!(get(&server, Version::Http1, path).await.status, 404, "{path}");
    }
    let coded = get(&server, Version::Http1, "/health/default/%77eb").await;
    assert_eq!(coded.status, 200, "{coded:?}");
    let own = get(&server, Version::Http1, "/health").await;
    assert_eq!((own.status, own.text().as_str()), (200, "the server is serving\n"));
    let posted = request(&server, Method::POST, "/health/default/web", &[], "");
    assert_eq!(send(&server, Version::Http1, posted).await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ttl_that_has_passed_has_one_answer_everywhere() {
    let server = Server::ephemeral();
    ok(&server, &["report", "web/0", "--level", "active", "--ttl", "1s"]);
    let stale = eventually("the status is stale", async || {
        let answer = get(&server, Version::Http1, "/health/default/web").await;
        (answer.status == 503).then_some(answer)
    })
    .await;
    assert_eq!(stale.text(), "default/web is active, but units are silent\n");
    assert_eq!(run(&server, &["status", "--exit-status"]).code, Some(13));
    assert_eq!(run(&server, &["check", "--nagios", "web"]).code, Some(3));
    let why = ok(&server, &["why", "web"]);
    assert!(why.lines().next().unwrap().ends_with(", but 1 unit stale"), "{why}");
    let page = get(&server, Version::Http1, "/").await.text();
    assert!(page.contains("1 stale"), "{page}");
    ok(&server, &["report", "web/0", "--level", "active"]);
    assert_eq!(get(&server, Version::Http1, "/health/default/web").await.status, 200);
    let unit = run(&server, &["wait", "web/0", "--timeout", "1s"]);
    assert_eq!(unit.code, Some(2), "{}", unit.err);
}
