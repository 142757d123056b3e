//! Answers that wait: none reaches a caller whose proof has ended meanwhile, by any protocol.

use std::path::Path;

use bellwether::proto::v1;
use bellwether::proto::v1::Level;
use bellwether_client::Client;
use http::Method;
use tokio::task::JoinHandle;

use crate::authority::EVERYTHING;
use crate::identities::{TokenFile, bearer};
use crate::peer::{Peer, hello};
use crate::server::{Server, eventually, get, mk_report, reason};
use crate::web::{JSON, VERSIONS, Version, request, send};

const GET: &str = "/bellwether.v1.ApplicationService/GetApplication";

async fn client(server: &Server, token: &Path) -> Client {
    Client::connect_with(&server.url(), bearer(token)).await.unwrap()
}

async fn report(client: &Client, message: &str) {
    let report = client.request(mk_report("web", "web/0", Level::Active, message));
    client.reports().report_status(report).await.unwrap();
}

/// Waits for revision 2 by gRPC. Returns the reason of the refusal; empty: it is answered.
async fn wait(client: Client) -> String {
    let wire = v1::GetApplicationRequest { min_revision: 2, ..get("web") };
    let answer = client.applications().get_application(client.request(wire)).await;
    answer.err().map_or_else(String::new, |status| reason(&status))
}

/// Waits for revision 2 by JSON. Returns the text of the answer.
fn wait_for_json(server: &Server, version: Version, token: &Path) -> JoinHandle<String> {
    let token = std::fs::read_to_string(token).unwrap();
    let bearer = format!("Bearer {}", token.trim());
    let headers = [("content-type", JSON), ("authorization", &*bearer)];
    let body = r#"{"application": "web", "min_revision": "2"}"#;
    let request = request(server, Method::POST, GET, &headers, body);
    let address = server.grpc;
    tokio::spawn(async move {
        crate::web::read(crate::web::open(address, version, request).await).await.text()
    })
}

/// Waits until new calls of this caller are refused.
async fn is_refused(client: &Client, expected: &str) {
    eventually("new calls are refused", async || {
        let answer = client.applications().get_application(client.request(get("web"))).await;
        answer.is_err_and(|status| reason(&status) == expected).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_that_waited_is_not_answered_to_a_caller_that_was_revoked() {
    let tokens = TokenFile::new();
    let [writer, revoked, loses] = ["writer", "revoked", "loses"].map(|id| tokens.create(id, "1h"));
    let expiring = tokens.create("expiring", "10s");
    let server = tokens.serve(EVERYTHING);
    let writer = client(&server, &writer).await;
    report(&writer, "first").await;
    let clients = [&revoked, &expiring, &loses].map(|token| client(&server, token));
    let [gone, expired, changed] =
        futures_util::future::join_all(clients).await.try_into().unwrap();
    let waits = [&gone, &expired, &changed].map(|client| tokio::spawn(wait(client.clone())));
    let json = VERSIONS.map(|version| wait_for_json(&server, version, &revoked));
    let own = tokio::spawn(wait(writer.clone()));
    tokens.revoke("revoked");
    let others = EVERYTHING.replace("\"*\"]", "\"token:writer\", \"token:expiring\"]");
    tokens.write("roles.toml", &others);
    for (client, expected) in [
        (&gone, "CREDENTIALS_INVALID"),
        (&changed, "SCOPE_DENIED"),
        (&expired, "CREDENTIALS_INVALID"),
    ] {
        is_refused(client, expected).await;
    }
    report(&writer, "second").await;
    assert_eq!(own.await.unwrap(), "", "the others are answered");
    let expected = ["CREDENTIALS_EXPIRED", "CREDENTIALS_EXPIRED", "RIGHTS_CHANGED"];
    for (wait, expected) in waits.into_iter().zip(expected) {
        assert_eq!(wait.await.unwrap(), expected);
    }
    for answer in json {
        let text = answer.await.unwrap();
        assert!(text.contains("CREDENTIALS_EXPIRED") && !text.contains("second"), "{text}");
    }
    let headers = [("content-type", JSON), ("authorization", "Bearer bw_revoked_0")];
    let again = request(&server, Method::POST, GET, &headers, r#"{"application": "web"}"#);
    assert_eq!(send(&server, Version::Http1, again).await.status, 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collect_is_not_answered_to_a_caller_that_was_revoked() {
    let tokens = TokenFile::new();
    let [worker, operator] = ["worker", "operator"].map(|id| tokens.create(id, "1h"));
    let server = tokens.serve(EVERYTHING);
    let (worker, operator) = (client(&server, &worker).await, client(&server, &operator).await);
    let mut peer = Peer::by(worker.workers(), hello("web", "web/0")).await.unwrap();
    let first = peer.question().await;
    let seq = peer.replace(&first.collect_id, Vec::new()).await;
    peer.acknowledged(seq).await;
    let caller = operator.clone();
    let collect = tokio::spawn(async move {
        let wire = v1::CollectApplicationRequest {
            application: "web".into(),
            deadline: Some(prost_types::Duration { seconds: 15, nanos: 0 }),
            ..Default::default()
        };
        caller.applications().collect_application(caller.request(wire)).await
    });
    // The worker does not answer.
    peer.question().await;
    tokens.revoke("operator");
    is_refused(&operator, "CREDENTIALS_INVALID").await;
    let status = collect.await.unwrap().unwrap_err();
    assert_eq!(reason(&status), "CREDENTIALS_EXPIRED");
}
