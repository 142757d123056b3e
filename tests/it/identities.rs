//! Who calls: tokens, client certificates, and what is neither. Streams end with the proof of their
//! caller.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use bellwether::proto::v1;
use bellwether::proto::v1::Level;
use bellwether_client::{Client, Error, Security};

use crate::authority::{Authority, EVERYTHING, connect};
use crate::server::{BINARY, DEADLINE, Server, command, eventually, mk_report};

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
        self.serve_with(roles, "")
    }

    /// The same, with a configuration file.
    pub fn serve_with(&self, roles: &str, config: &str) -> Server {
        let roles = self.write("roles.toml", roles).display().to_string();
        let arguments = ["--ephemeral", "--tokens", &self.path(), "--roles", &roles];
        Server::configured(&arguments, config)
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
    for stream in [&mut revoked, &mut ends] {
        let status = loop {
            match stream.message().await {
                Ok(Some(_)) => {}
                Ok(None) => panic!("the stream ends without a status"),
                Err(status) => break status,
            }
        };
        assert_eq!(status.code(), tonic::Code::Unauthenticated);
        assert_eq!(crate::server::reason(&status), "CREDENTIALS_EXPIRED");
        assert!(start.elapsed() < DEADLINE, "{:?}", start.elapsed());
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

/// Returns the status of `GET path` with this token.
fn status_of(address: SocketAddr, path: &str, token: Option<&Path>) -> String {
    let header = token.map_or_else(String::new, |token| {
        let token = std::fs::read_to_string(token).unwrap();
        format!("Authorization: Bearer {}\r\n", token.trim())
    });
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{header}\r\n");
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let code = answer.split(' ').nth(1).unwrap();
    format!("{code} {}", answer.rsplit("\r\n").next().unwrap().chars().take(2).collect::<String>())
}

#[test]
fn metrics_are_for_this_machine_and_for_callers_who_may_read_everything() {
    // The address of this machine on a network, if it has one.
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    let own = socket.connect("192.0.2.1:9").and_then(|()| socket.local_addr());
    let Some(own) = own.ok().map(|own| own.ip()).filter(|own| !own.is_loopback()) else { return };
    let tokens = TokenFile::new();
    let (all, some) = (tokens.create("all", "1h"), tokens.create("some", "1h"));
    let roles = "[[grant]]\nrole = 'reader'\nto = ['token:all']\nnamespace = '*'\n\
                 application = '*'\n[[grant]]\nrole = 'reader'\nto = ['token:some']\n\
                 namespace = 'default'\napplication = '*'\n";
    let roles = tokens.write("roles.toml", roles).display().to_string();
    let path = tokens.path();
    let flags = ["--ephemeral", "--tokens", &path, "--roles", &roles, "--insecure"];
    let mut command = command(&flags);
    command.env("BELLWETHER_OPS_LISTEN", "0.0.0.0:0");
    let server = Server::spawn(command);
    let far = SocketAddr::new(own, server.ops.port());
    let near = SocketAddr::from(([127, 0, 0, 1], server.ops.port()));
    for (address, path, token, expected) in [
        (near, "/metrics", None, "200"),
        (far, "/metrics", None, "401"),
        (far, "/metrics", Some(&*some), "403"),
        (far, "/metrics", Some(&*all), "200"),
        (far, "/livez", None, "200 ok"),
        (far, "/readyz", None, "200 ok"),
        (far, "/readyz?verbose", None, "200 ok"),
        (far, "/readyz?verbose", Some(&*all), "200 "),
    ] {
        let status = status_of(address, path, token);
        assert!(status.starts_with(expected), "{address} {path} {token:?}: {status}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn thousands_of_wrong_tokens_cost_a_line_a_second_and_no_place() {
    let tokens = TokenFile::new();
    let good = tokens.create("good", "1h");
    let roles = tokens.write("roles.toml", EVERYTHING).display().to_string();
    let path = tokens.path();
    let mut command = command(&["--ephemeral", "--tokens", &path, "--roles", &roles]);
    let log = tokens.write("log", "");
    command.stderr(std::fs::File::create(&log).unwrap());
    let server = Server::spawn(command);
    let wrong = tokens.write("wrong", &format!("bw_good_{}", "0".repeat(64)));
    let stranger = Client::connect_with(&server.url(), bearer(&wrong)).await.unwrap();
    let honest = Client::connect_with(&server.url(), bearer(&good)).await.unwrap();
    let start = Instant::now();
    for _ in 0..20 {
        let refused = (0..100).map(|_| report(&stranger));
        let refused = futures_util::future::join_all(refused).await;
        let is_refused = |answer: &Result<(), Error>| {
            answer.as_ref().is_err_and(|error| error.reason() == Some("CREDENTIALS_INVALID"))
        };
        assert!(refused.iter().all(is_refused));
        report(&honest).await.unwrap();
    }
    let lines = std::fs::read_to_string(&log).unwrap();
    let lines = lines.lines().filter(|line| line.contains("callers were refused")).count();
    let seconds = usize::try_from(start.elapsed().as_secs()).unwrap();
    assert!((1..=seconds + 2).contains(&lines), "{lines} lines in {seconds} s");
    let secret = std::fs::read_to_string(&good).unwrap();
    let log = std::fs::read_to_string(&log).unwrap();
    assert!(!log.contains(secret.trim()) && !log.contains("0000000000"), "no token is logged");
}
