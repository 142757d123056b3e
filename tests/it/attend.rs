//! `attend`: the session of a unit whose hooks come and go, with a real server, the real binary, a
//! script as the hook, and a real Pebble.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use bellwether::proto::v1;
use bellwether::proto::v1::worker_service_client::WorkerServiceClient;
use serde_json::Value;
use tempfile::TempDir;

use crate::cli::{self, json, ok, run};
use crate::interop::{have, path};
use crate::server::{DEADLINE, LOOK_EVERY, Server, eventually, reason};

/// Waits until a condition holds.
async fn holds(what: &str, look: impl AsyncFn() -> bool) {
    eventually(what, async || look().await.then_some(())).await;
}

/// A process that is ended with the test.
pub struct Running(Child);

impl Running {
    fn start(mut command: Command) -> Running {
        Running(command.stdin(Stdio::null()).spawn().unwrap())
    }

    fn signal(&self, name: &str) {
        let pid = self.0.id().to_string();
        assert!(Command::new("kill").args([&format!("-{name}"), &pid]).status().unwrap().success());
    }

    fn end(mut self) -> Option<i32> {
        let start = std::time::Instant::now();
        loop {
            if let Some(status) = self.0.try_wait().unwrap() {
                return status.code();
            }
            assert!(start.elapsed() < DEADLINE, "it does not end");
            std::thread::sleep(LOOK_EVERY);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A folder with a hook that writes a line for each notification, and then does `body`.
pub struct Hook {
    dir: TempDir,
}

impl Hook {
    pub fn new(body: &str) -> Hook {
        let dir = TempDir::new().unwrap();
        let script = format!(
            "#!/bin/sh\ncd {}\n\
             echo \"$BELLWETHER_EVENT|$BELLWETHER_COMPONENT|$BELLWETHER_TARGET|\
             $BELLWETHER_REASON|$BELLWETHER_LEADER|$BELLWETHER_IS_LEADER\" >> log\n{body}\n",
            dir.path().display()
        );
        let path = dir.path().join("hook");
        std::fs::write(&path, script.replace("\\\n", "")).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        Hook { dir }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("hook")
    }

    /// Returns the lines so far.
    pub fn notifications(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default();
        text.lines().map(str::to_string).collect()
    }

    pub async fn rang(&self, line: &str) {
        let what = async || self.notifications().iter().any(|found| found == line);
        holds(&format!("the notification {line:?}"), what).await;
    }
}

/// Attends `web/0` with a hook.
pub fn attend(server: &Server, hook: &Hook) -> Running {
    let mut command = cli::command(server, &["attend", "web/0", "--exec", "--"]);
    command.arg(hook.path()).env("BELLWETHER_BINARY", crate::server::BINARY);
    Running::start(command)
}

async fn connected(server: &Server) -> bool {
    unit(server).await.is_some_and(|unit| unit.connected)
}

async fn unit(server: &Server) -> Option<v1::Unit> {
    let request = v1::ListUnitsRequest { application: "web".into(), ..Default::default() };
    let units = server.applications().await.list_units(request).await.ok()?.into_inner().units;
    units.into_iter().find(|unit| unit.name == "web/0")
}

async fn collect(server: &Server, recompute: bool) -> v1::CollectApplicationResponse {
    let request = v1::CollectApplicationRequest {
        application: "web".into(),
        recompute,
        deadline: Some(prost_types::Duration { seconds: 20, nanos: 0 }),
        ..Default::default()
    };
    server.applications().await.collect_application(request).await.unwrap().into_inner()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hook_is_notified_of_whatever_it_waits_for() {
    let server = Server::ephemeral();
    let hook = Hook::new("");
    ok(&server, &["report", "web/0", "--level", "active"]);
    ok(&server, &["data", "set", "web/0", "a=1", "--decided-outside"]);
    let running = attend(&server, &hook);
    hook.rang("data-changed|||||").await;
    report_outage(&server);
    hook.rang("retry-due|db|pg|||").await;
    ok(
        &server,
        &["error", "web/0", "--component", "disk", "--system", "grpc", "--code", "DATA_LOSS"],
    );
    ok(&server, &["resolve", "web/0", "--component", "disk", "--skip", "--reason", "drill"]);
    hook.rang("hold-released|disk||Skip||").await;
    ok(&server, &["configure", "web", "--external-leader", "web/1"]);
    hook.rang("leadership||||web/1|false").await;
    ok(&server, &["configure", "web", "--external-leader", "web/0"]);
    hook.rang("leadership||||web/0|true").await;
    running.signal("TERM");
    assert_eq!(running.end(), Some(0));
    holds("the goodbye", async || !connected(&server).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_overwrites_nothing_and_a_new_set_has_its_notification() {
    let server = Server::ephemeral();
    let set = r#"echo '[{"level": "waiting", "message": "checked"}]' > set
        $BELLWETHER_BINARY replace web/0 --file set"#;
    let hook = Hook::new(set);
    let old = r#"[{"component": "db", "level": "active", "message": "old"}]"#;
    let file = hook.dir.path().join("old");
    std::fs::write(&file, old).unwrap();
    ok(&server, &["register", "web/0"]);
    ok(&server, &["replace", "web/0", "--file", file.to_str().unwrap()]);
    let running = attend(&server, &hook);
    holds("a session", async || connected(&server).await).await;
    let answer = collect(&server, false).await;
    assert_eq!((answer.asked_count, answer.answered_count), (1, 1));
    let said = |answer: &v1::CollectApplicationResponse| {
        let statuses = answer.answers.iter().flat_map(|a| a.statuses.clone());
        statuses.map(|s| s.report.unwrap().message).collect::<Vec<_>>()
    };
    assert_eq!(said(&answer), ["old"]);
    assert_eq!(hook.notifications(), Vec::<String>::new());
    // The session continues the incarnation of the hooks.
    assert_eq!(unit(&server).await.unwrap().incarnation, 1);
    let answer = collect(&server, true).await;
    assert_eq!((answer.asked_count, answer.answered_count), (1, 1));
    assert_eq!(said(&answer), ["checked"]);
    assert_eq!(hook.notifications(), ["collect|||||"]);
    // A hook begins a new incarnation, as after its stop: the session follows, and what is left of
    // the old one is current again.
    ok(&server, &["register", "web/0"]);
    let follows = async || {
        let found = unit(&server).await.unwrap();
        found.incarnation == 2 && found.connected && found.freshness() == v1::Freshness::Fresh
    };
    holds("a session of the new incarnation", follows).await;
    // A unit that is gone is not attended, nor brought back.
    ok(&server, &["remove", "web/0"]);
    assert_eq!(running.end(), Some(0));
    assert!(unit(&server).await.is_none());
}

/// A hook that fails is notified again; what arrives meanwhile waits, the newest of each.
#[tokio::test(flavor = "multi_thread")]
async fn one_at_a_time_the_newest_and_again_after_a_failure() {
    let server = Server::ephemeral();
    // Two at once would see each other's file. The first notification fails.
    let hook = Hook::new(
        "mkdir busy || echo two-at-once >> log; while [ -e wait ]; do sleep 0.01; done\n\
         rmdir busy; [ -e failed ] || { touch failed; exit 1; }",
    );
    std::fs::write(hook.dir.path().join("wait"), "").unwrap();
    ok(&server, &["report", "web/0", "--level", "active"]);
    ok(&server, &["data", "set", "web/0", "a=1", "--decided-outside"]);
    let _running = attend(&server, &hook);
    hook.rang("data-changed|||||").await;
    for leader in ["web/1", "web/2", "web/3"] {
        ok(&server, &["configure", "web", "--external-leader", leader]);
    }
    // The last change has arrived once the session has answered a later question.
    collect(&server, false).await;
    std::fs::remove_file(hook.dir.path().join("wait")).unwrap();
    hook.rang("leadership||||web/3|false").await;
    let again = async || hook.notifications().iter().filter(|r| r.starts_with("data")).count() == 2;
    holds("another attempt", again).await;
    let notifications = hook.notifications();
    let expected = ["data-changed|||||", "leadership||||web/3|false", "data-changed|||||"];
    assert_eq!(notifications, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn juju_dispatches_an_event_of_the_charm() {
    let server = Server::ephemeral();
    let hook = Hook::new("");
    // What it must be called with is the interface of Juju; the program itself needs a controller.
    let exec = hook.dir.path().join("juju-exec");
    let script = format!(
        "#!/bin/sh\n[ \"$1 $2\" = \"-u web/0\" ] && cd {} && exec sh -c \"$3\"\n",
        hook.dir.path().display()
    );
    std::fs::write(&exec, script).unwrap();
    let dispatch = "#!/bin/sh\nexec >> log; echo \"$JUJU_DISPATCH_PATH $BELLWETHER_EVENT\"\n";
    std::fs::write(hook.dir.path().join("dispatch"), dispatch).unwrap();
    for name in ["juju-exec", "dispatch"] {
        let path = hook.dir.path().join(name);
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
    }
    ok(&server, &["report", "web/0", "--level", "active"]);
    ok(&server, &["data", "set", "web/0", "a=1", "--decided-outside"]);
    let mut command = cli::command(&server, &["attend", "web/0", "--juju-exec"]);
    let dirs = std::env::var("PATH").unwrap();
    command.env("PATH", format!("{}:{dirs}", hook.dir.path().display()));
    let _running = Running::start(command);
    hook.rang("hooks/update-status data-changed").await;
}

/// Starts a server on a data directory, at the address of an earlier one.
fn restart(dir: &Path, address: std::net::SocketAddr) -> Server {
    let mut command = crate::server::command(&["--data-dir", dir.to_str().unwrap()]);
    command.env("BELLWETHER_GRPC_LISTEN", address.to_string());
    Server::spawn(command)
}

/// A callback outlives the server, and each session is notified of it until it is cancelled.
#[tokio::test(flavor = "multi_thread")]
async fn a_requested_callback_is_notified_until_it_is_cancelled() {
    let dir = TempDir::new().unwrap();
    let server = Server::on(dir.path());
    let address = server.grpc;
    let hook = Hook::new(r#"[ -z "$BELLWETHER_KEY" ] || echo "key $BELLWETHER_KEY" >> log"#);
    let request = ["callback", "web/0", "--after", "1s"];
    let volume = ["--key", "volume", "--reason", "the volume\nattaches"];
    let said = run(&server, &[&request[..], &volume].concat());
    assert!(said.err.starts_with("callback of web/0 volume in 1s: the volume"), "{}", said.err);
    let _running = attend(&server, &hook);
    hook.rang("callback-due|||the volume attaches||").await;
    hook.rang("key volume").await;
    server.kill();
    let server = restart(dir.path(), address);
    let count = || hook.notifications().iter().filter(|line| *line == "key volume").count();
    holds("the notification of the next session", async || count() == 2).await;
    let said = run(&server, &["callback", "web/0", "--cancel", "--key", "volume"]);
    assert!(said.err.starts_with("cancelled the callback of web/0 volume"), "{}", said.err);
    let said = run(&server, &["callback", "web/0", "--cancel", "--key", "volume"]);
    assert_eq!(said.err, "no change: web/0 volume had no such callback\n");
    // One that comes after it in the order of keys: both would come in the next session.
    ok(&server, &[&request[..], &["--key", "zone"]].concat());
    hook.rang("key zone").await;
    server.kill();
    let _server = restart(dir.path(), address);
    let zones = || hook.notifications().iter().filter(|line| *line == "key zone").count();
    holds("the notification of the last session", async || zones() == 2).await;
    assert_eq!(count(), 2);
}

#[tokio::test]
async fn a_request_of_a_callback_is_checked_as_every_other() {
    let server = Server::ephemeral();
    let mut workers = WorkerServiceClient::new(server.channel().await);
    let request = |unit: &str, millis: i64| v1::RequestCallbackRequest {
        application: "web".into(),
        unit: unit.into(),
        after: prost_types::Duration { seconds: millis / 1000, nanos: (millis % 1000) as i32 }
            .into(),
        ..Default::default()
    };
    let long = |reason| v1::RequestCallbackRequest { reason, ..request("web/0", 1000) };
    for (request, expected) in [
        (request("", 1000), "MISSING_FIELD"),
        (request("web/0", 999), "INVALID_VALUE"),
        (request("web/0", 7 * 86_400_000 + 1000), "INVALID_VALUE"),
        (long("x".repeat(254)), "MESSAGE_TOO_LONG"),
    ] {
        let refused = workers.request_callback(request).await.unwrap_err();
        assert_eq!(reason(&refused), expected);
    }
    let done = workers.request_callback(long("x".repeat(253))).await.unwrap().into_inner();
    assert_eq!((done.changed, done.revision), (true, 1));
    let said = run(&server, &["callback", "web/0", "--after", "8d"]);
    assert_eq!(said.code, Some(2), "{}", said.err);
    assert!(said.err.contains("--after"), "{}", said.err);
    let said = run(&server, &["callback", "web/0", "--after", "8d", "--best-effort"]);
    assert_eq!(said.code, Some(0), "{}", said.err);
}

/// Reports that the database of `web/0` cannot be reached: its retry is due in seconds.
fn report_outage(server: &Server) {
    let place = ["--component", "db", "--target", "pg"];
    let error = ["--system", "grpc", "--code", "UNAVAILABLE"];
    ok(server, &[&["error", "web/0"][..], &place, &error].concat());
}

/// Runs `pebble` on the Pebble of a folder, and returns what it prints.
fn pebble(dir: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new("pebble");
    command.args(arguments).env("PEBBLE", dir).env("PATH", path());
    let output = command.output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Pebble runs `attend` as a service, and gets the notices that a charm waits for.
#[tokio::test(flavor = "multi_thread")]
async fn a_real_pebble_gets_a_notice() {
    if !have("pebble") {
        return;
    }
    let server = Server::ephemeral();
    let dir = TempDir::new().unwrap();
    let layers = dir.path().join("layers");
    std::fs::create_dir(&layers).unwrap();
    let socket = dir.path().join(".pebble.socket");
    let layer = format!(
        "services:\n  attend:\n    override: replace\n    startup: enabled\n    \
         command: {} attend web/0 --pebble {}\n    environment:\n      \
         BELLWETHER_SERVER: {}\n",
        crate::server::BINARY,
        socket.display(),
        server.url()
    );
    std::fs::write(layers.join("001-attend.yaml"), layer).unwrap();
    ok(&server, &["report", "web/0", "--level", "active"]);
    let mut command = Command::new("pebble");
    command.arg("run").env("PEBBLE", dir.path()).env("PATH", path());
    let running = Running::start(command);
    holds("the session", async || connected(&server).await).await;
    report_outage(&server);
    let noticed = async || {
        let listed = pebble(dir.path(), &["notices", "--key", "bellwether.dev/retry-due"]);
        listed.contains("custom")
    };
    holds("the notice", noticed).await;
    let notice = pebble(dir.path(), &["notice", "custom", "bellwether.dev/retry-due"]);
    for fact in ["event: retry-due", "component: db", "target: pg"] {
        assert!(notice.contains(fact), "{fact} is not in:\n{notice}");
    }
    running.signal("TERM");
    assert_eq!(running.end(), Some(0));
    let units: Value = json(&server, &["status", "web", "-o", "json"]);
    assert!(units.to_string().contains("web/0"), "{units}");
}
