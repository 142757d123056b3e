//! TLS to Redis: the certificates that the server trusts, and certificates that change while it
//! runs.

use bellwether::proto::v1::Level;

use crate::load::{check_refusal, insist};
use crate::ops::fetch;
use crate::server::{Server, eventually, mk_report, refused};
use crate::testing::{Certificates, TlsServer};

#[tokio::test(flavor = "multi_thread")]
async fn the_right_authority_is_trusted_and_a_wrong_one_refused_at_the_start() {
    let Some(redis) = TlsServer::start().await else { return };
    let path = |certificates: &Certificates, name| certificates.path(name).display().to_string();
    let trusted = tempfile::tempdir().unwrap();
    let ca = trusted.path().join("ca.pem");
    std::fs::copy(redis.certificates.path("ca.pem"), &ca).unwrap();
    let (url, ca_path) = (redis.url(), ca.display().to_string());
    let client = path(&redis.certificates, "client.pem");
    let key = path(&redis.certificates, "client.key");
    let trusts = |ca: &str| {
        let flags = ["--store", &url, "--store-ca", ca, "--store-certificate", &client];
        let flags = [flags.as_slice(), &["--store-key", &key]].concat();
        flags.into_iter().map(str::to_string).collect::<Vec<String>>()
    };
    let others = Certificates::make();
    for (wrong, says) in [(path(&others, "ca.pem"), "check the CA file"), ("none".into(), "none")] {
        let flags = trusts(&wrong);
        let (code, said) = refused(&flags.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains(says), "{said}");
        assert!(!said.contains("panicked"), "{said}");
    }
    let flags = trusts(&ca_path);
    let server = Server::start(&flags.iter().map(String::as_str).collect::<Vec<_>>());
    insist(&server, mk_report("web", "web/0", Level::Active, "0")).await;

    // Redis presents another certificate, from an unknown authority.
    let (shown, its_key) = (path(&others, "server.pem"), path(&others, "server.key"));
    let words = ["CONFIG", "SET", "tls-cert-file", &shown, "tls-key-file", &its_key];
    redis.server.call::<()>(&words).await.unwrap();
    let _killed: i64 = redis.server.call(&["CLIENT", "KILL", "TYPE", "normal"]).await.unwrap();
    let mut reports = server.reports().await;
    let refusal = eventually("a refusal", async || {
        reports.report_status(mk_report("web", "web/0", Level::Waiting, "1")).await.err()
    })
    .await;
    check_refusal(&refusal);
    eventually("the operator is told why", async || {
        let ready = fetch(server.ops, "/readyz?verbose");
        (ready.0.contains("503") && ready.1.contains("check the CA file")).then_some(())
    })
    .await;
    // Once the server trusts the authority, it recovers without help.
    std::fs::copy(others.path("ca.pem"), &ca).unwrap();
    insist(&server, mk_report("web", "web/0", Level::Blocked, "2")).await;
}
