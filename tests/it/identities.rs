//! Who calls: tokens, client certificates, and what is neither. Streams end with the proof of their
//! caller.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use bellwether::proto::v1;
use bellwether::proto::v1::Level;
use bellwether_client::{Client, Error, Security};

use crate::authority::{Authority, EVERYTHING, connect};
use crate::server::{BINARY, Server, eventually, mk_report};

/// A file of tokens, and the tokens themselves.
pub struct TokenFile {
    directory: tempfile::TempDir,
}

impl TokenFile {
    pub fn new() -> TokenFile {
        TokenFile { directory: tempfile::tempdir().unwrap() }
    }

    /// Returns the path of the file with the digests.
    pub fn path(&self) -> String {
        self.directory.path().join("tokens.toml").display().to_string()
    }

    /// Makes a token, and returns the file that has it.
    pub fn create(&self, id: &str, ttl: &str) -> PathBuf {
        let out = run(&["token", "create", id, "--tokens", &self.path(), "--ttl", ttl]);
        self.write(id, &out)
    }

    /// Writes a file with a token.
    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Starts a server with these tokens and these grants.
    pub fn serve(&self, roles: &str) -> Server {
        let roles = self.write("roles.toml", roles).display().to_string();
        Server::start(&["--ephemeral", "--tokens", &self.path(), "--roles", &roles])
    }

    pub fn revoke(&self, id: &str) {
        run(&["token", "revoke", id, "--tokens", &self.path()]);
    }
}

fn run(line: &[&str]) -> String {
    let output = Command::new(BINARY).args(line).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

pub fn bearer(token: &Path) -> Security {
    Security { token_file: Some(token.to_path_buf()), ..Security::default() }
}

async fn report(client: &Client) -> Result<(), Error> {
    let request = client.request(mk_report("web", "web/0", Level::Active, "x"));
    client.answer(client.reports().report_status(request).await).map(drop)
}

/// Returns the reason with which a caller is refused; empty: it is served.
async fn refused(url: &str, security: Security) -> String {
    let client = Client::connect_with(url, security).await.unwrap();
    match report(&client).await {
        Ok(()) => String::new(),
        Err(error) => error.reason().unwrap_or("none").to_string(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_shown_once_and_proves_its_bearer() {
    let tokens = TokenFile::new();
    let good = tokens.create("good", "1h");
    let gone = tokens.create("gone", "1h");
    tokens.revoke("gone");
    let short = tokens.create("short", "1s");
    let shown = std::fs::read_to_string(&good).unwrap();
    let kept = std::fs::read_to_string(tokens.path()).unwrap();
    assert!(!kept.contains(shown.trim().rsplit_once('_').unwrap().1), "a digest, no token");
    let listed = run(&["token", "list", "--tokens", &tokens.path()]);
    assert!(listed.contains("good") && !listed.contains("gone"), "{listed}");
    let server = tokens.serve(EVERYTHING);
    let forged = tokens.write("forged", &shown.replace("good", "short"));
    let rubbish = tokens.write("rubbish", "eyJhbGciOiJub25lIn0.e30.");
    let url = server.url();
    eventually("the short token ends", async || {
        (refused(&url, bearer(&short)).await == "CREDENTIALS_INVALID").then_some(())
    })
    .await;
    for (security, expected) in [
        (bearer(&good), ""),
        (Security::default(), "CREDENTIALS_MISSING"),
        (bearer(&gone), "CREDENTIALS_INVALID"),
        (bearer(&short), "CREDENTIALS_INVALID"),
        (bearer(&forged), "CREDENTIALS_INVALID"),
        (bearer(&rubbish), "CREDENTIALS_INVALID"),
    ] {
        assert_eq!(refused(&server.url(), security.clone()).await, expected, "{security:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_streams_of_a_revoked_token_end_within_seconds_and_others_go_on() {
    let tokens = TokenFile::new();
    let (first, second) = (tokens.create("first", "1h"), tokens.create("second", "1h"));
    let expiring = tokens.create("expiring", "4s");
    let server = tokens.serve(EVERYTHING);
    let watch = async |token: &Path| {
        let client = Client::connect_with(&server.url(), bearer(token)).await.unwrap();
        let request = v1::WatchApplicationsRequest::default();
        client.applications().watch_applications(request).await.unwrap().into_inner()
    };
    let mut open = watch(&second).await;
    let mut ends = watch(&expiring).await;
    let mut revoked = watch(&first).await;
    let start = Instant::now();
    tokens.revoke("first");
    for (stream, within) in [(&mut revoked, 5), (&mut ends, 6)] {
        let status = loop {
            match stream.message().await {
                Ok(Some(_)) => {}
                Ok(None) => panic!("the stream ends without a status"),
                Err(status) => break status,
            }
        };
        assert_eq!(status.code(), tonic::Code::Unauthenticated);
        assert_eq!(crate::server::reason(&status), "CREDENTIALS_EXPIRED");
        assert!(start.elapsed() < Duration::from_secs(within), "{:?}", start.elapsed());
    }
    let client = Client::connect_with(&server.url(), bearer(&second)).await.unwrap();
    report(&client).await.unwrap();
    loop {
        let message = open.message().await.unwrap().unwrap();
        if format!("{message:?}").contains("web/0") || format!("{message:?}").contains("Upserted") {
            break;
        }
    }
    assert_eq!(refused(&server.url(), bearer(&first)).await, "CREDENTIALS_INVALID");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_names_one_caller_or_none() {
    let authority = Authority::new();
    let tokens = TokenFile::new();
    let token = tokens.create("bearer", "1h");
    let ca = authority.text("ca.pem");
    let flags = ["--tls-client-ca", &ca, "--tls-client-certificates", "optional"];
    let path = tokens.path();
    let server = authority
        .serve(&[flags.as_slice(), &["--tokens", &path, "--roles", &authority.roles()]].concat());
    let uri = "URI:spiffe://example.org/ns/default/app/web/unit/web/0";
    for (name, names, expected) in [
        ("one-uri", uri, ""),
        ("uri-and-dns", &format!("{uri},DNS:host"), ""),
        ("one-dns", "DNS:host", ""),
        ("two-uris", &format!("{uri},URI:spiffe://example.org/other"), "CREDENTIALS_INVALID"),
        ("two-dns", "DNS:a,DNS:b", "CREDENTIALS_INVALID"),
        ("an-address", "IP:127.0.0.1", "CREDENTIALS_INVALID"),
        ("a-pattern", "DNS:*.example.org", "CREDENTIALS_INVALID"),
    ] {
        authority.issue(name, &format!("subjectAltName={names}"));
        let client = connect(&server, authority.client(name)).await.unwrap();
        let reason = report(&client).await.err();
        let reason = reason.as_ref().and_then(Error::reason).unwrap_or_default().to_string();
        assert_eq!(reason, expected, "{name}");
    }
    authority.issue("name-alone", "extendedKeyUsage=clientAuth");
    let both = Security { token_file: Some(token.clone()), ..authority.client("one-uri") };
    for (security, expected) in [
        (authority.client("name-alone"), "CREDENTIALS_INVALID"),
        (authority.client(""), "CREDENTIALS_MISSING"),
        (both, "CREDENTIALS_INVALID"),
        (Security { token_file: Some(token), ..authority.client("") }, ""),
    ] {
        let client = connect(&server, security).await.unwrap();
        let reason = report(&client).await.err();
        let reason = reason.as_ref().and_then(Error::reason).unwrap_or_default().to_string();
        assert_eq!(reason, expected);
    }
}
