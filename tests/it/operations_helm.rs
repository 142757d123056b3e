//! An upgrade with the real Helm by a worker that is killed half-way: the next worker continues
//! with the same target at the same step.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use bellwether::proto::v1;
use bellwether::proto::v1::OperationState;
use bellwether::proto::v1::operation_service_client::OperationServiceClient;
use serde_json::Value;
use tempfile::TempDir;

use crate::interop::{have, path, root};
use crate::server::{Server, reason};

/// A running worker; killed when dropped.
struct Worker {
    child: Child,
    says: BufReader<ChildStdout>,
}

impl Worker {
    /// Returns the next line of its output, which must be about this step.
    fn says(&mut self, step: &str) -> Value {
        let mut line = String::new();
        self.says.read_line(&mut line).unwrap();
        let said: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("said {line:?}"));
        assert_eq!(said["step"], step, "{said}");
        said
    }

    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([&format!("-{name}"), &pid]).status().unwrap().success());
    }

    fn ends(mut self) -> bool {
        self.child.wait().unwrap().success()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A server, and a chart to upgrade with.
struct Stage {
    server: Server,
    dir: TempDir,
}

impl Stage {
    /// Prepares the test. Prints a warning and returns `None` if a tool is missing.
    fn set() -> Option<Stage> {
        let python = root().join(".tools/venv/bin/python");
        if !have(python.to_str().unwrap()) || !have("helm4") {
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        let templates = dir.path().join("chart/templates");
        std::fs::create_dir_all(&templates).unwrap();
        let chart = "apiVersion: v2\nname: shop\nversion: 1.0.0\n";
        std::fs::write(dir.path().join("chart/Chart.yaml"), chart).unwrap();
        let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}}\n\
                   data: {version: {{ .Values.version }}}\n";
        std::fs::write(templates.join("map.yaml"), map).unwrap();
        Some(Stage { server: Server::on(&dir.path().join("data")), dir })
    }

    fn world(&self) -> std::path::PathBuf {
        self.dir.path().join("world")
    }

    /// Returns the completed actions, in order.
    fn done(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.world()).unwrap_or_default();
        text.lines().map(str::to_string).collect()
    }

    fn worker(&self, unit: &str, target: &str, lease: &str, stop_before: &str) -> Worker {
        let text = |path: &Path| path.to_str().unwrap().to_string();
        let (chart, world) = (text(&self.dir.path().join("chart")), text(&self.world()));
        let mut child = Command::new(root().join(".tools/venv/bin/python"))
            .arg(root().join("tests/interop/helm_worker.py"))
            .arg(self.server.grpc.to_string())
            .args([unit, target, &chart, &world, lease, stop_before])
            .env("PATH", path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let says = BufReader::new(child.stdout.take().unwrap());
        Worker { child, says }
    }

    async fn operation(&self) -> v1::Operation {
        let request = v1::GetOperationRequest {
            application: "shop".into(),
            operation_id: "up-v2".into(),
            ..Default::default()
        };
        let mut operations = OperationServiceClient::new(self.server.channel().await);
        operations.get_operation(request).await.unwrap().into_inner().operation.unwrap()
    }

    /// Returns the reason why v3 may not begin yet.
    async fn ask_for_v3(&self) -> String {
        let request = v1::BeginOperationRequest {
            application: "shop".into(),
            operation_id: "up-v3".into(),
            target_version: "v3".into(),
            ..Default::default()
        };
        let mut operations = OperationServiceClient::new(self.server.channel().await);
        reason(&operations.begin_operation(request).await.unwrap_err())
    }
}

fn lines(version: &str, releases: &[&str], unit: &str, fence: u64) -> Vec<String> {
    let line = |release: &&str| format!("{version} {release} by {unit} fence {fence}");
    releases.iter().map(line).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_that_is_killed_is_resumed_before_the_next() {
    let Some(stage) = Stage::set() else { return };
    let mut first = stage.worker("shop/0", "v2", "5s", "3");
    first.says("holds");
    first.says("waiting");
    first.signal("KILL");
    assert!(!first.ends());
    let refused = stage.ask_for_v3().await;
    assert!(["OPERATION_HELD", "RESUME_FIRST"].contains(&refused.as_str()), "{refused}");

    // The second worker is asked for v3, and finds v2 in progress.
    let mut second = stage.worker("shop/1", "v3", "60s", "4");
    assert_eq!(second.says("found")["operation"], "up-v2");
    assert_eq!(second.says("holds")["fence"], "2");
    second.says("waiting");
    assert_eq!(stage.ask_for_v3().await, "OPERATION_HELD");
    let running = stage.operation().await;
    assert_eq!((running.state(), running.interruptions), (OperationState::Running, 1));
    assert_eq!((running.holder.as_str(), &running.checkpoint[..]), ("shop/1", &b"3"[..]));
    // It is killed too; the lease has the duration that the first worker asked for.
    second.signal("KILL");
    assert!(!second.ends());

    let mut third = stage.worker("shop/2", "v3", "60s", "0");
    third.says("found");
    third.says("holds");
    let done = third.says("done");
    assert_eq!((&done["target"], &done["next"]), (&"v2".into(), &"v3".into()));
    assert!(third.ends());
    let mut last = stage.worker("shop/2", "v3", "60s", "0");
    last.says("holds");
    last.says("done");
    assert!(last.ends());

    let all = ["config", "database", "web", "ingress"];
    let expected = [
        lines("v2", &all[..2], "shop/0", 1),
        lines("v2", &all[2..3], "shop/1", 2),
        lines("v2", &all[3..], "shop/2", 3),
        lines("v3", &all, "shop/2", 1),
    ];
    assert_eq!(stage.done(), expected.concat());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_asked_to_stop_costs_nothing() {
    let Some(stage) = Stage::set() else { return };
    // A lease longer than any test: only the release by the worker can end it.
    let mut first = stage.worker("shop/0", "v2", "3600s", "3");
    first.says("holds");
    first.says("waiting");
    first.signal("TERM");
    first.says("released");
    assert!(first.ends());
    let left = stage.operation().await;
    assert_eq!(left.state(), OperationState::Interrupted);
    assert_eq!((left.interruptions, left.attempts_failed), (0, 0));
    assert_eq!(stage.ask_for_v3().await, "RESUME_FIRST");

    let mut second = stage.worker("shop/0", "v2", "3600s", "0");
    assert_eq!(second.says("found")["payload"], true);
    assert_eq!(second.says("holds")["fence"], "2");
    second.says("done");
    assert!(second.ends());
    let done = stage.operation().await;
    let interrupted = done.history.iter().any(|event| event.reason == "LEASE_LAPSED");
    assert_eq!((done.state(), interrupted), (OperationState::Succeeded, false));
    let all = ["config", "database", "web", "ingress"];
    let expected = [lines("v2", &all[..2], "shop/0", 1), lines("v2", &all[2..], "shop/0", 2)];
    assert_eq!(stage.done(), expected.concat());
}
