//! TLS of the ports: who can connect, what is refused, and certificates that change while the
//! server runs.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::Instant;

use bellwether::proto::v1;
use bellwether::proto::v1::Level;
use bellwether_client::{Client, Error, Security};

use crate::authority::{Authority, connect, url};
use crate::ops::fetch;
use crate::server::{BINARY, DEADLINE, Server, command, eventually, mk_report, refused};

async fn report(client: &Client, message: &str) -> Result<u64, Error> {
    let request = client.request(mk_report("web", "web/0", Level::Active, message));
    let answer = client.answer(client.reports().report_status(request).await)?;
    Ok(answer.revision)
}

/// Returns the sentence with which a client is refused.
async fn sentence(server: &Server, security: Security) -> String {
    let refused = match connect(server, security).await {
        // With TLS 1.3 the refusal of a client certificate arrives after the handshake.
        Ok(client) => report(&client, "x").await.map(drop),
        Err(error) => Err(error),
    };
    refused.expect_err("the client is refused").to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_trusts_the_authority_is_served_and_others_learn_why_not() {
    let authority = Authority::new();
    let server = authority.serve(&[]);
    let client = connect(&server, authority.client("")).await.unwrap();
    assert_eq!(report(&client, "a").await.unwrap(), 1);

    let others = Authority::new();
    let said = sentence(&server, others.client("")).await;
    assert!(said.contains("an authority that is not trusted"), "{said}");
    let plain = Client::connect(&server.url()).await;
    let said = match plain {
        Ok(client) => report(&client, "x").await.unwrap_err(),
        Err(error) => error,
    };
    assert!(!matches!(said, Error::Refused(_)), "{said}");

    authority.issue("other", "subjectAltName=DNS:elsewhere");
    authority.issue_until("old", "subjectAltName=DNS:localhost", "-days -1");
    for (name, expected) in [("other", "for another name"), ("old", "has expired")] {
        let (certificate, key) =
            (authority.text(&format!("{name}.pem")), authority.text(&format!("{name}.key")));
        let flags = ["--ephemeral", "--tls-certificate", &certificate, "--tls-key", &key];
        let server = Server::start(&flags);
        let said = sentence(&server, authority.client("")).await;
        assert!(said.contains(expected), "{said}");
        let said = files_examined(&flags);
        let host = if name == "old" { "for localhost, until" } else { "for elsewhere, until" };
        assert!(said.contains(host), "{said}");
        assert_eq!(said.contains("it has expired"), name == "old", "{said}");
        let ca = authority.text("ca.pem");
        let line = ["doctor", "--ephemeral", "--connect", "--ca", &ca, "--server", &url(&server)];
        let output = Command::new(BINARY).args(line).output().unwrap();
        let out = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(output.status.code(), Some(1), "{out}");
        assert!(out.replace("\n", " ").contains("connection"), "{out}");
        let words = out.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains(expected), "{words}");
    }
}

/// Returns what `doctor` says about the files of these flags, in one line.
fn files_examined(flags: &[&str]) -> String {
    let output = Command::new(BINARY).arg("doctor").args(flags).output().unwrap();
    let out = String::from_utf8_lossy(&output.stdout).into_owned();
    out.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn openssl(arguments: &[&str]) -> String {
    let output = Command::new("openssl").args(arguments).stdin(Stdio::null()).output().unwrap();
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

/// What scanners of TLS look for: each cipher that `openssl` knows, one by one.
#[test]
fn only_ciphers_with_forward_secrecy_and_authentication_are_accepted() {
    let authority = Authority::new();
    let server = authority.serve(&[]);
    let address = server.grpc.to_string();
    let all = openssl(&["ciphers", "-s", "-tls1_2", "ALL:COMPLEMENTOFALL:@SECLEVEL=0"]);
    let accepted: Vec<&str> = all
        .trim()
        .split(':')
        .filter(|cipher| {
            let cipher = format!("{cipher}:@SECLEVEL=0");
            let line = ["s_client", "-connect", &address, "-tls1_2", "-cipher", &cipher];
            !openssl(&line).contains("Cipher is (NONE)")
        })
        .collect();
    assert!(30 < all.split(':').count(), "{all}");
    assert_eq!(
        accepted,
        [
            "ECDHE-ECDSA-AES256-GCM-SHA384",
            "ECDHE-ECDSA-CHACHA20-POLY1305",
            "ECDHE-ECDSA-AES128-GCM-SHA256",
        ]
    );
}

#[test]
fn old_protocols_and_other_applications_are_refused() {
    let authority = Authority::new();
    let server = authority.serve(&[]);
    let address = server.grpc.to_string();
    let ask = |more: &[&str]| {
        let line = ["s_client", "-connect", &address, "-cipher", "DEFAULT@SECLEVEL=0"];
        openssl(&[line.as_slice(), more].concat())
    };
    for version in ["-tls1_2", "-tls1_3"] {
        let said = ask(&[version, "-alpn", "h2"]);
        assert!(said.contains("ALPN protocol: h2"), "{version}: {said}");
    }
    for old in ["-tls1", "-tls1_1"] {
        let said = ask(&[old, "-alpn", "h2"]);
        assert!(said.contains("Cipher is (NONE)"), "{old}: {said}");
    }
    let said = ask(&["-alpn", "http/1.1"]);
    assert!(said.contains("ALPN protocol: http/1.1"), "{said}");
    let said = ask(&["-alpn", "spdy/3"]);
    assert!(
        said.contains("Cipher is (NONE)") || said.contains("no application protocol"),
        "{said}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_certificate_is_demanded_where_it_is_required() {
    let authority = Authority::new();
    authority.issue("client", "subjectAltName=URI:spiffe://example/ns/a/app/b/unit/b/0");
    authority.issue("wrong-use", "extendedKeyUsage=serverAuth\nsubjectAltName=DNS:w");
    let others = Authority::new();
    others.issue("client", "subjectAltName=DNS:client");
    let ca = authority.text("ca.pem");
    let roles = authority.roles();
    let server = authority.serve(&["--tls-client-ca", &ca, "--roles", &roles]);
    let client = connect(&server, authority.client("client")).await.unwrap();
    report(&client, "a").await.unwrap();
    let said = sentence(&server, authority.client("")).await;
    // Sometimes the client learns only that the connection has ended.
    assert!(said.contains("demands a certificate of the client"), "{said}");
    let stranger = Security { ca: Some(authority.path("ca.pem")), ..others.client("client") };
    for security in [stranger, authority.client("wrong-use")] {
        let said = sentence(&server, security).await;
        assert!(!said.contains("not found"), "{said}");
    }
    let flags = ["--tls-client-ca", &ca, "--tls-client-certificates", "optional"];
    let optional = authority.serve(&[flags.as_slice(), &["--roles", &roles]].concat());
    let client = connect(&optional, authority.client("client")).await.unwrap();
    report(&client, "known").await.unwrap();
    let client = connect(&optional, authority.client("")).await.unwrap();
    assert_eq!(report(&client, "x").await.unwrap_err().reason(), Some("CREDENTIALS_MISSING"));
}

#[tokio::test(flavor = "multi_thread")]
async fn new_files_serve_new_connections_and_open_streams_go_on() {
    let (first, second) = (Authority::new(), Authority::new());
    let server = first.serve(&[]);
    let old = connect(&server, first.client("")).await.unwrap();
    let mut watch = old
        .applications()
        .watch_applications(v1::WatchApplicationsRequest::default())
        .await
        .unwrap()
        .into_inner();
    let old_ca = first.copy_of("ca.pem");
    first.replace(&["server.pem", "server.key", "ca.pem"], &second);
    server.signal("HUP");
    let trusts_new = second.client("");
    let new =
        eventually("the new certificate", async || connect(&server, trusts_new.clone()).await.ok())
            .await;
    let trusts_old = Security { ca: Some(old_ca), ..Security::default() };
    let said = sentence(&server, trusts_old).await;
    assert!(said.contains("not trusted"), "{said}");
    report(&new, "by the new connection").await.unwrap();
    eventually("the old stream has the change", async || {
        let message = watch.message().await.unwrap().unwrap();
        format!("{message:?}").contains("by the new connection").then_some(())
    })
    .await;
    report(&old, "by the old connection").await.unwrap();

    // A broken file: the last good one stays, the metric says so.
    let stale = || {
        let metrics = fetch(server.ops, "/metrics").1;
        metrics
            .lines()
            .find_map(|l| l.strip_prefix("bellwether_security_stale_files ")?.parse().ok())
    };
    for (text, count) in [("broken", 1), ("", 1)] {
        std::fs::write(first.path("server.pem"), text).unwrap();
        server.signal("HUP");
        eventually("the metric", async || (stale() == Some(count)).then_some(())).await;
        let client = connect(&server, second.client("")).await.unwrap();
        report(&client, text).await.unwrap();
    }
    first.replace(&["server.pem"], &second);
    server.signal("HUP");
    eventually("the metric", async || (stale() == Some(0)).then_some(())).await;
}

#[test]
fn a_stalled_handshake_is_ended() {
    let authority = Authority::new();
    let server = authority.serve(&["--ops-tls"]);
    for address in [server.grpc, server.ops] {
        let start = Instant::now();
        let mut stream = TcpStream::connect(address).unwrap();
        // The first bytes of a hello of TLS.
        stream.write_all(&[22, 3, 1, 2, 0, 1]).unwrap();
        stream.set_read_timeout(Some(2 * DEADLINE)).unwrap();
        assert_eq!(stream.read(&mut [0; 16]).unwrap_or(0), 0, "{address}");
        assert!(start.elapsed() < DEADLINE, "{address}: {:?}", start.elapsed());
    }
}

#[test]
fn the_ops_port_has_tls_if_it_is_asked_for() {
    let authority = Authority::new();
    authority.issue("client", "subjectAltName=DNS:client");
    let ca = authority.text("ca.pem");
    let server =
        authority.serve(&["--ops-tls", "--tls-client-ca", &ca, "--roles", &authority.roles()]);
    let address = server.ops.to_string();
    let mut client = Command::new("openssl")
        .args(["s_client", "-quiet", "-verify_return_error", "-CAfile", &ca, "-connect", &address])
        .args(["-alpn", "http/1.1"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let request = b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    let mut input = client.stdin.take().unwrap();
    input.write_all(request).unwrap();
    let mut said = String::new();
    client.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    client.wait().unwrap();
    assert!(said.starts_with("HTTP/1.1 200"), "{said}");
}

#[test]
fn an_incomplete_configuration_of_tls_does_not_start() {
    let authority = Authority::new();
    let (certificate, key) = (authority.text("server.pem"), authority.text("server.key"));
    let (ca, other) = (authority.text("ca.pem"), authority.text("ca.key"));
    let with = |more: &[&str]| {
        let own = ["--ephemeral", "--tls-certificate", &certificate, "--tls-key", &key];
        refused(&[own.as_slice(), more].concat())
    };
    let far = ["--grpc-listen", "0.0.0.0:0"];
    let roles = authority.roles();
    for ((code, said), expected) in [
        (refused(&["--ephemeral", "--tls-certificate", &certificate]), "needs --tls-key"),
        (refused(&["--ephemeral", "--tls-key", &key]), "needs --tls-certificate"),
        (refused(&["--ephemeral", "--ops-tls"]), "needs --tls-certificate"),
        (with(&["--tls-client-certificates", "required"]), "needs --tls-client-ca"),
        (with(&["--tls-client-certificates", "maybe"]), "none, optional or required"),
        (refused(&[&["--ephemeral"], far.as_slice()].concat()), "without TLS and a way to know"),
        (with(&far), "without a way to know its callers"),
        (with(&["--tls-client-ca", &ca]), "no --roles FILE says"),
        (with(&["--roles", &roles]), "--roles has no effect"),
        (
            with(&["--tls-client-ca", &ca, "--roles", &roles, "--ops-listen", "0.0.0.0:0"]),
            "without TLS (--ops-tls)",
        ),
    ] {
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains(expected), "{expected}: {said}");
    }
    let swapped = ["--ephemeral", "--tls-certificate", &certificate, "--tls-key", &other];
    let (code, said) = refused(&swapped);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("it is not the key of"), "{said}");
    let said = files_examined(&swapped);
    assert!(said.contains("it is not the key of"), "{said}");
    let swapped = ["--ephemeral", "--tls-certificate", &key, "--tls-key", &key];
    let (_, said) = refused(&swapped);
    assert!(said.contains("it has no certificate in PEM"), "{said}");
    let (_, said) = refused(&["--ephemeral", "--tls-certificate", "none", "--tls-key", &key]);
    assert!(said.contains("read none"), "{said}");
}

#[test]
fn another_machine_is_served_when_its_certificate_is_demanded() {
    let authority = Authority::new();
    let ca = authority.text("ca.pem");
    let flags = authority.flags(&[
        "--tls-client-ca",
        &ca,
        "--roles",
        &authority.roles(),
        "--grpc-listen",
        "0.0.0.0:0",
    ]);
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let mut command = command(&flags);
    command.env_remove("BELLWETHER_GRPC_LISTEN");
    let server = Server::spawn(command);
    assert!(server.grpc.ip().is_unspecified());
}
