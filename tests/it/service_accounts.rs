//! Projected tokens of service accounts, as a pod presents them: the server knows the pod, and the
//! client reads the file again when the kubelet replaces it.

use std::io::Write;
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use bellwether::proto::v1::{Level, StatusReport};
use bellwether_client::worker::Options;
use bellwether_client::{Client, Error, Security, Worker};
use serde_json::json;

use crate::authority::Authority;
use crate::identities::bearer;
use crate::ops::fetch;
use crate::page_session;
use crate::server::{Server, command, eventually, mk_report};

const ROLES: &str = r#"
[[grant]]
role = "worker"
to = ["jwt:k8s:system:serviceaccount:prod:*"]
namespace = "${namespace}"
application = "web"
unit = "${pod}"
"#;

/// An issuer with a key of `openssl`, and a server that trusts it.
struct Cluster {
    authority: Authority,
    server: Server,
}

impl Cluster {
    fn start() -> Cluster {
        Cluster::start_with(|authority| format!("keys = {:?}\n", authority.path("pub")))
    }

    /// Starts a server with these lines for the keys of the issuer.
    fn start_with(keys: impl FnOnce(&Authority) -> String) -> Cluster {
        let authority = Authority::new();
        let path = |name: &str| authority.path(name);
        run(Command::new("openssl").args(["genrsa", "-out"]).arg(path("key.pem")), b"");
        let public = ["rsa", "-pubout", "-in"];
        run(
            Command::new("openssl").args(public).arg(path("key.pem")).arg("-out").arg(path("pub")),
            b"",
        );
        std::fs::write(path("roles.toml"), ROLES).unwrap();
        let config = format!(
            "roles = {:?}\n[[jwt]]\nname = 'k8s'\nissuer = 'https://cluster'\n\
             audience = 'bellwether'\nalgorithms = ['RS256']\n{}",
            path("roles.toml"),
            keys(&authority)
        );
        std::fs::write(path("config.toml"), config).unwrap();
        let config = path("config.toml").display().to_string();
        let server = Server::spawn(command(&["--ephemeral", "--config", &config]));
        Cluster { authority, server }
    }

    /// Replaces the key that signs tokens.
    fn renew_key(&self) {
        let key = self.authority.path("key.pem");
        run(Command::new("openssl").args(["genrsa", "-out"]).arg(key), b"");
    }

    /// Writes the token of a pod, valid for this many seconds, and returns its file.
    fn project(&self, pod: &str, audience: &str, seconds: i64) -> Security {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64;
        let header = json!({"alg": "RS256", "kid": "k"}).to_string();
        let claims = json!({
            "iss": "https://cluster", "aud": [audience], "exp": now + seconds, "nbf": now - 60,
            "iat": now - 60, "sub": "system:serviceaccount:prod:web",
            "kubernetes.io": {"namespace": "prod", "pod": {"name": pod}}
        });
        let text = [header, claims.to_string()].map(|part| BASE64.encode(part)).join(".");
        let key = self.authority.path("key.pem");
        let mut openssl = Command::new("openssl");
        openssl.args(["dgst", "-sha256", "-sign"]).arg(key);
        let signature = run(&mut openssl, text.as_bytes());
        let file = self.authority.path(&format!("token-{pod}"));
        let beside = self.authority.path("token-new");
        std::fs::write(&beside, format!("{text}.{}", BASE64.encode(signature))).unwrap();
        std::fs::rename(beside, &file).unwrap();
        bearer(&file)
    }
}

fn run(command: &mut Command, input: &[u8]) -> Vec<u8> {
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    output.stdout
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_acts_as_itself_with_its_projected_token() {
    let cluster = Cluster::start();
    let report = async |security: Security, namespace: &str, unit: &str| {
        let client = Client::connect_with(&cluster.server.url(), security).await.unwrap();
        let mut wire = mk_report("web", unit, Level::Active, "x");
        wire.namespace = namespace.to_string();
        let answer = client.reports().report_status(client.request(wire)).await;
        client.answer(answer).err().and_then(|e: Error| e.reason().map(str::to_string))
    };
    let good = cluster.project("web-1", "bellwether", 600);
    assert_eq!(report(good.clone(), "prod", "web-1").await, None);
    for (namespace, unit) in [("prod", "web-2"), ("default", "web-1"), ("prod", "web-10")] {
        let refusal = report(good.clone(), namespace, unit).await;
        assert_eq!(refusal.as_deref(), Some("SCOPE_DENIED"), "{namespace} {unit}");
    }
    for (pod, audience, seconds) in
        [("other-audience", "https://kubernetes.default.svc", 600), ("old", "bellwether", -31)]
    {
        let refusal = report(cluster.project(pod, audience, seconds), "prod", pod).await;
        assert_eq!(refusal.as_deref(), Some("CREDENTIALS_INVALID"), "{pod}");
    }
}

/// Each token of an issuer is a new one, so a limit for each token would bound nothing.
#[tokio::test(flavor = "multi_thread")]
async fn one_subject_ends_its_own_sessions_of_the_page_alone() {
    let cluster = Cluster::start();
    let sign_in = async |pod: &str| {
        let token = cluster.project(pod, "bellwether", 600).token_file.unwrap();
        page_session::signed_in(&cluster.server, &token).await
    };
    let mut cookies = Vec::new();
    for n in 0..17 {
        cookies.push(sign_in(&format!("web-{n}")).await);
    }
    let mut are_known = Vec::new();
    for cookie in &cookies {
        let headers = [("cookie", cookie.as_str())];
        let answer = page_session::get(&cluster.server, "/", &headers).await;
        are_known.push(answer.status != 401);
    }
    assert_eq!(are_known.iter().position(|is| *is), Some(1), "{are_known:?}");
    assert!(are_known[1..].iter().all(|is| *is), "{are_known:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_goes_on_with_the_next_token_when_the_first_one_ends() {
    let cluster = Cluster::start();
    // It ends in 4 s: the skew of 30 s is over by then.
    let security = cluster.project("web-1", "bellwether", -26);
    let options = Options::new(&cluster.server.url(), "web", "web-1");
    let options = options.namespace("prod").security(security.clone());
    let worker = Worker::connect(options, |_| async { Vec::new() }).unwrap();
    worker.connected().await.unwrap();
    cluster.project("web-1", "bellwether", 600);
    eventually("the first session ends with its token", async || {
        let metrics = fetch(cluster.server.ops, "/metrics").1;
        let has_ended = |line: &str| {
            line.starts_with("bellwether_rpc_streams_finished_total")
                && line.contains("WorkerService/Connect")
                && line.contains("UNAUTHENTICATED")
        };
        metrics.lines().any(has_ended).then_some(())
    })
    .await;
    let status = StatusReport { level: Level::Blocked.into(), ..StatusReport::default() };
    // Acknowledged in the next session, which has the next token.
    worker.set_status(status).await.unwrap();
    worker.shutdown(false).await.unwrap();
}

/// A server of the files of an authority over HTTPS: `openssl`.
struct KeyServer(Child);

impl KeyServer {
    async fn start(at: SocketAddr, authority: &Authority) -> KeyServer {
        let mut openssl = Command::new("openssl");
        openssl.args(["s_server", "-quiet", "-WWW", "-accept", &at.to_string()]);
        openssl.arg("-cert").arg(authority.path("server.pem"));
        openssl.arg("-key").arg(authority.path("server.key"));
        openssl.current_dir(authority.path("ca.pem").parent().unwrap());
        openssl.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let server = KeyServer(openssl.spawn().unwrap());
        let connect = async || std::net::TcpStream::connect(at).ok();
        eventually("the server of the keys listens", connect).await;
        server
    }
}

impl Drop for KeyServer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Writes `jwks.json` with the public half of `key.pem`.
fn publish(authority: &Authority, id: &str) {
    let mut openssl = Command::new("openssl");
    openssl.args(["rsa", "-modulus", "-noout", "-in"]).arg(authority.path("key.pem"));
    let text = String::from_utf8(run(&mut openssl, b"")).unwrap();
    let hex = text.trim().strip_prefix("Modulus=").unwrap();
    let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
    let modulus: Vec<u8> = (0..hex.len()).step_by(2).map(byte).collect();
    let jwk = json!({"kty": "RSA", "kid": id, "alg": "RS256", "e": "AQAB",
        "n": BASE64.encode(modulus)});
    let file = authority.path("jwks.json");
    std::fs::write(file.with_extension("new"), json!({"keys": [jwk]}).to_string()).unwrap();
    std::fs::rename(file.with_extension("new"), file).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_behind_a_url_are_fetched_again_and_stay_while_it_is_away() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    drop(listener);
    let cluster = Cluster::start_with(|authority| {
        format!(
            "keys = 'https://localhost:{}/jwks.json'\nkeys_ca = {:?}\n",
            at.port(),
            authority.path("ca.pem")
        )
    });
    let report = async |security: Security| {
        let client = Client::connect_with(&cluster.server.url(), security).await.unwrap();
        let mut wire = mk_report("web", "web-1", Level::Active, "x");
        wire.namespace = "prod".to_string();
        let answer = client.reports().report_status(client.request(wire)).await;
        client.answer(answer).err().and_then(|e: Error| e.reason().map(str::to_string))
    };
    let stale = || {
        let metrics = fetch(cluster.server.ops, "/metrics").1;
        let line = metrics.lines().find(|l| l.starts_with("bellwether_security_stale_files"))?;
        line.rsplit(' ').next()?.parse::<f64>().ok()
    };
    let token = || cluster.project("web-1", "bellwether", 600);
    let is_accepted = async || report(token()).await.is_none().then_some(());
    let counts = async |count: f64| (stale()? == count).then_some(());
    assert_eq!(report(token()).await.as_deref(), Some("CREDENTIALS_INVALID"), "no keys yet");
    eventually("the missing keys are counted", async || counts(1.0).await).await;
    publish(&cluster.authority, "k");
    let files = KeyServer::start(at, &cluster.authority).await;
    eventually("the keys are fetched", is_accepted).await;
    eventually("nothing is stale", async || counts(0.0).await).await;
    cluster.renew_key();
    publish(&cluster.authority, "k");
    eventually("a token of a new key causes a fetch", is_accepted).await;
    drop(files);
    assert_eq!(report(token()).await, None, "the last keys stay");
    cluster.renew_key();
    assert_eq!(report(token()).await.as_deref(), Some("CREDENTIALS_INVALID"));
    eventually("the absence is counted", async || counts(1.0).await).await;
}
