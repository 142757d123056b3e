//! Sessions of browsers: a form takes a token, and its cookie can read what the token may read.

use std::fs::File;
use std::path::Path;
use std::process::Command;

use bellwether::proto::v1::Level;
use bellwether_client::Client;
use http::Method;

use crate::authority::{Authority, EVERYTHING};
use crate::identities::{TokenFile, bearer};
use crate::server::{DEADLINE, Server, command, eventually, mk_report};
use crate::web::{Answer, VERSIONS, Version, next_frame, open, request, send};

const ROLES: &str = r#"
[[grant]]
role = "worker"
to = ["token:web"]
namespace = "*"
application = "*"
unit = "*"
[[grant]]
role = "reader"
to = ["token:all"]
namespace = "*"
application = "*"
[[grant]]
role = "reader"
to = ["token:other"]
namespace = "other"
application = "*"
[[grant]]
role = "reader"
to = ["token:one"]
namespace = "default"
application = "web"
"#;

const FORM: (&str, &str) = ("content-type", "application/x-www-form-urlencoded");
const WATCH: &str = "/bellwether.v1.ApplicationService/WatchApplications\
                     ?message=%7B%22namespace%22%3A%22-%22%7D";

fn text(token: &Path) -> String {
    std::fs::read_to_string(token).unwrap().trim().to_string()
}

/// Reports `default/web` and `other/db`.
async fn fill(server: &Server, worker: &Path) {
    let client = Client::connect_with(&server.url(), bearer(worker)).await.unwrap();
    for (namespace, application) in [("default", "web"), ("other", "db")] {
        let mut report = mk_report(application, "one/0", Level::Blocked, "a secret of mine");
        report.namespace = namespace.into();
        client.reports().report_status(client.request(report)).await.unwrap();
    }
}

/// Sends the form with a token, as a page of this origin.
async fn sign_in(server: &Server, version: Version, token: &str, origin: &str) -> Answer {
    let body = format!("token={token}&to=%2F%3Flevel%3Dblocked");
    let headers = [FORM, ("origin", origin)];
    send(server, version, request(server, Method::POST, "/session", &headers, body)).await
}

fn origin(server: &Server) -> String {
    format!("http://{}", server.grpc)
}

/// Returns the cookie that an answer sets, as a browser sends it.
fn cookie(answer: &Answer) -> String {
    answer.header("set-cookie").split(';').next().unwrap().to_string()
}

/// Signs in, and returns the cookie of the session.
pub async fn signed_in(server: &Server, token: &Path) -> String {
    let answer = sign_in(server, Version::Http1, &text(token), &origin(server)).await;
    assert_eq!(answer.status, 303, "{answer:?}");
    cookie(&answer)
}

pub async fn get(server: &Server, path: &str, headers: &[(&str, &str)]) -> Answer {
    send(server, Version::Http1, request(server, Method::GET, path, headers, "")).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_form_takes_a_token_and_the_cookie_reads_what_the_token_may_read() {
    let tokens = TokenFile::new();
    let [web, all, other, one] = ["web", "all", "other", "one"].map(|id| tokens.create(id, "1h"));
    let server = tokens.serve(ROLES);
    fill(&server, &web).await;
    let stranger = get(&server, "/?level=blocked", &[]).await;
    let page = stranger.text();
    assert_eq!(stranger.status, 401);
    assert!(page.contains("action=\"/session\"") && page.contains("/?level=blocked"), "{page}");
    assert!(!page.contains("default") && !page.contains("http-equiv"), "{page}");
    for version in VERSIONS {
        for wrong in ["", "bw_all_00", "a b", "%0d%0a", &"a".repeat(20_000)] {
            let answer = sign_in(&server, version, wrong, &origin(&server)).await;
            assert_eq!((answer.status, answer.header("set-cookie")), (401, ""), "{wrong:.20}");
            assert!(answer.text().contains("action=\"/session\""), "{answer:?}");
        }
        let answer = sign_in(&server, version, &text(&all), &origin(&server)).await;
        assert_eq!((answer.status, answer.header("location")), (303, "/?level=blocked"));
        let set = answer.header("set-cookie");
        assert!(set.contains("; HttpOnly; SameSite=Strict") && !set.contains("Secure"), "{set}");
        assert!(set.contains("; Path=/; Max-Age=43200"), "{set}");
        assert!(!set.contains("bw_") && !set.contains(&text(&all)[7..]), "{set}");
    }
    let everything = signed_in(&server, &all).await;
    let page = get(&server, "/", &[("cookie", &everything)]).await.text();
    for part in ["default/web", "other/db", "action=\"/session/end\""] {
        assert!(page.contains(part), "{part}: {page}");
    }
    // A role for one namespace, or for one application, sees nothing of others.
    let cases = [
        (&other, "/", 403, "name=\"ns\"", "secret"),
        (&other, "/?ns=other", 200, "other/db", "default/"),
        (&other, "/?ns=default", 403, "name=\"ns\"", "secret"),
        (&other, "/?ns=other&why=default/web", 403, "other/db", "default/web\""),
        (&one, "/?why=default/web", 403, "a secret of mine", "other/db"),
        (&one, "/?ns=other&why=other/db", 403, "name=\"ns\"", "secret"),
    ];
    for (token, path, status, shown, hidden) in cases {
        let own = signed_in(&server, token).await;
        let answer = get(&server, path, &[("cookie", &own)]).await;
        let page = answer.text();
        assert_eq!(answer.status, status, "{path}: {page}");
        assert!(page.contains(shown) && !page.contains(hidden), "{path}: {page}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_page_can_neither_start_a_session_nor_use_one() {
    let tokens = TokenFile::new();
    let all = tokens.create("all", "1h");
    let server = tokens.serve(EVERYTHING);
    let own = signed_in(&server, &all).await;
    let form = format!("token={}", text(&all));
    let foreign: [&[(&str, &str)]; 5] = [
        &[],
        &[("origin", "http://evil.example")],
        &[("origin", "null")],
        &[("origin", &origin(&server)), ("sec-fetch-site", "same-site")],
        &[("origin", &origin(&server)), ("origin", "http://evil.example")],
    ];
    for headers in foreign {
        for path in ["/session", "/session/end"] {
            let headers = [headers, &[FORM, ("cookie", &own)]].concat();
            let asked = request(&server, Method::POST, path, &headers, form.clone());
            let answer = send(&server, Version::Http1, asked).await;
            assert_eq!((answer.status, answer.header("set-cookie")), (403, ""), "{headers:?}");
        }
    }
    assert_eq!(get(&server, "/", &[("cookie", &own)]).await.status, 200, "it has not ended");
    for header in [("sec-fetch-site", "cross-site"), ("origin", "http://evil.example")] {
        assert_eq!(get(&server, "/", &[("cookie", &own), header]).await.status, 401, "{header:?}");
    }
    for path in ["/session", "/session/end"] {
        assert_eq!(
            get(&server, path, &[("cookie", &own)]).await.status,
            405,
            "GET changes nothing"
        );
    }
    // The cookie does not authenticate calls that may change something.
    let call = "/bellwether.v1.ApplicationService/DeleteApplication";
    for kind in ["application/json", "application/grpc-web", "application/proto", "text/plain"] {
        let headers = [("content-type", kind), ("cookie", &own), ("origin", &origin(&server))];
        let body = if kind.contains("json") { r#"{"application":"web"}"# } else { "" };
        let asked = request(&server, Method::POST, call, &headers, body);
        let answer = send(&server, Version::Http1, asked).await;
        let is_refused = match kind {
            "application/grpc-web" => answer.header("grpc-status") == "16",
            "text/plain" => answer.status == 415,
            _ => answer.status == 401,
        };
        assert!(is_refused, "{kind}: {answer:?}");
    }
    let read = "/bellwether.v1.ServerService/GetServerInfo";
    assert_eq!(get(&server, read, &[("cookie", &own)]).await.status, 200);
    let path = format!("{call}?message=%7B%22application%22%3A%22web%22%7D");
    assert_eq!(get(&server, &path, &[("cookie", &own)]).await.status, 405);
    let long = format!("token={}", "a".repeat(30_000));
    let headers = [FORM, ("origin", &origin(&server))];
    let asked = request(&server, Method::POST, "/session", &headers, long);
    assert_eq!(send(&server, Version::Http1, asked).await.status, 413);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_and_its_streams_end_with_the_token_and_by_signing_out() {
    let tokens = TokenFile::new();
    let [first, second] = ["first", "second"].map(|id| tokens.create(id, "1h"));
    let server = tokens.serve(EVERYTHING);
    for (token, is_revoked) in [(&first, true), (&second, false)] {
        let own = signed_in(&server, token).await;
        let headers = [("accept", "text/event-stream"), ("cookie", own.as_str())];
        let asked = request(&server, Method::GET, WATCH, &headers, "");
        let response = open(server.grpc, Version::Http1, asked).await;
        assert_eq!(response.status(), 200);
        let mut events = response.into_body();
        assert!(next_frame(&mut events).await.is_some());
        match is_revoked {
            true => tokens.revoke("first"),
            false => {
                let headers = [("cookie", own.as_str()), ("origin", &origin(&server))];
                let asked = request(&server, Method::POST, "/session/end", &headers, "");
                let answer = send(&server, Version::Http1, asked).await;
                assert_eq!((answer.status, answer.header("location")), (303, "/"));
                assert!(answer.header("set-cookie").contains("=; Path=/; Max-Age=0"), "{answer:?}");
            }
        }
        let end = async { while next_frame(&mut events).await.is_some() {} };
        tokio::time::timeout(DEADLINE, end).await.expect("the stream ends");
        let page = eventually("the page asks for a token", async || {
            let answer = get(&server, "/", &[("cookie", &own)]).await;
            (answer.status == 401).then(|| answer.text())
        });
        assert!(page.await.contains("action=\"/session\""));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn over_tls_the_cookie_is_bound_to_the_host_and_the_log_has_no_token() {
    let (authority, tokens) = (Authority::new(), TokenFile::new());
    let token = text(&tokens.create("all", "1h"));
    let roles = tokens.write("roles.toml", EVERYTHING).display().to_string();
    let path = tokens.path();
    let flags = authority.flags(&["--tokens", &path, "--roles", &roles]);
    let mut server = command(&flags.iter().map(String::as_str).collect::<Vec<_>>());
    let log = tokens.write("log", "");
    server.env("BELLWETHER_LOG", "trace").stderr(File::create(&log).unwrap());
    let server = Server::spawn(server);
    let host = format!("https://localhost:{}", server.grpc.port());
    let curl = |more: &[&str], path: &str| {
        let ca = authority.text("ca.pem");
        let mut curl = Command::new("curl");
        // Another test may listen on this port of the IPv6 address of localhost.
        curl.args(["-4", "-sSi", "--max-time", "20", "--cacert", &ca]).args(more);
        let output = curl.arg(format!("{host}{path}")).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "curl: {said}");
        String::from_utf8(output.stdout).unwrap()
    };
    let form = format!("token={token}");
    let http = format!("origin: {}", host.replace("https", "http"));
    let refused = curl(&["-d", &form, "-H", &http], "/session");
    assert!(refused.contains(" 403"), "{refused}");
    let answer = curl(&["-d", &form, "-H", &format!("origin: {host}")], "/session");
    let set = answer.lines().find_map(|line| line.strip_prefix("set-cookie: "));
    let set = set.unwrap_or_else(|| panic!("{answer}"));
    assert!(set.starts_with("__Host-bellwether=") && set.contains("; Secure"), "{set}");
    let own = set.split(';').next().unwrap();
    assert!(curl(&["-H", &format!("cookie: {own}")], "/").contains(" 200"));
    let plain = own.replace("__Host-", "");
    assert!(curl(&["-H", &format!("cookie: {plain}")], "/").contains(" 401"), "set without TLS");
    drop(server);
    let log = std::fs::read_to_string(log).unwrap();
    let key = own.split_once('=').unwrap().1;
    assert!(log.contains("GetServerInfo"), "the calls are logged: {log}");
    assert!(!log.contains(&token[7..]) && !log.contains(key), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_callers_has_no_sessions() {
    let server = Server::ephemeral();
    let answer = sign_in(&server, Version::Http1, "bw_a_b", &origin(&server)).await;
    assert_eq!((answer.status, answer.header("set-cookie")), (404, ""));
    assert!(!get(&server, "/", &[]).await.text().contains("/session"));
}
