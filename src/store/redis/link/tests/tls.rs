//! TLS: both sides check the certificate of the other.

use crate::store::redis::testing::TlsServer;

use super::*;

#[tokio::test]
async fn both_sides_show_a_certificate() {
    let Some(tls) = TlsServer::start().await else { return };
    let path = |name| Some(tls.certificates.path(name));
    let files =
        TlsFiles { ca: path("ca.pem"), certificate: path("client.pem"), key: path("client.key") };
    let links = try_connect(&tls.url(), files.clone()).await.unwrap();
    until_served(&links, "{b00}").await;
    let dedicated = links.dedicated("{b00}", DEADLINE).await.unwrap();
    let mut ping = redis::pipe();
    ping.cmd("PING");
    let pong = dedicated.connection.run(&ping).await;
    assert_eq!(pong.unwrap(), [Value::SimpleString("PONG".into())]);

    let table = [
        (TlsFiles { ca: None, ..files.clone() }, "check the CA file"),
        (TlsFiles { ca: path("client.pem"), ..files.clone() }, "check the CA file"),
        (TlsFiles { certificate: None, key: None, ..files.clone() }, "check the client cert"),
        (TlsFiles { ca: path("none.pem"), ..files.clone() }, "cannot read"),
        (TlsFiles { ca: path("ca.key"), key: path("ca.pem"), ..files.clone() }, "cannot be used"),
    ];
    for (files, expected) in table {
        let error = try_connect(&tls.url(), files).await.map(drop).unwrap_err();
        assert!(matches!(&error, LinkError::Refused { .. }), "{error}");
        assert!(error.reason().contains(expected), "{error}");
    }
    let without = refusal(&format!("redis://127.0.0.1:{}", tls.tls_port)).await;
    assert!(without.reason().contains("127.0.0.1"), "{without}");
    let plain = try_connect(&tls.server.url().replace("redis://", "rediss://"), files).await;
    let plain = plain.map(drop).unwrap_err();
    assert!(plain.reason().contains("whether it uses TLS"), "{plain}");
}
