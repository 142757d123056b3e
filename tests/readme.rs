//! Every shell block of the READMEs and of `docs/` works as written.
//!
//! The blocks of a document run in order against one fresh server on free ports. A document that
//! starts servers gets free ports for them, and a document that uses Redis gets a fresh one. A
//! block of `make` and `git clone` lines is marked `sh no-test` and skipped; such a block has only
//! lines of `LEFT_OUT`.
#![cfg(unix)]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// The address in a block of a server on its usual ports.
const GRPC_AS_WRITTEN: &str = "127.0.0.1:50051";
const OPS_AS_WRITTEN: &str = "127.0.0.1:9090";

/// The addresses in a block of a second replica and of Redis.
const SECOND_GRPC_AS_WRITTEN: &str = "127.0.0.1:50052";
const SECOND_OPS_AS_WRITTEN: &str = "127.0.0.1:9091";
const REDIS_AS_WRITTEN: &str = "127.0.0.1:6379";

/// The time limit for the start of Redis.
const REDIS_DEADLINE: Duration = Duration::from_secs(10);

/// The time limits of a command that never ends and of a block.
const FOLLOW_SECONDS: u32 = 3;
const BLOCK_SECONDS: u32 = 60;

/// The lines that a block without a test may contain.
const LEFT_OUT: &[&str] = &[
    "make ",
    "git clone ",
    "cd ",
    "#",
    // Minutes each.
    "valgrind --tool=callgrind ",
    // `tests/packages` installs the artefacts of a release.
    "sha256sum --check --ignore-missing SHA256SUMS",
    "tar -xzf bellwether-",
    "sudo install bellwether-",
    "sudo apt install ./bellwether_",
    "systemctl status bellwether",
    "docker load --input bellwether-",
    "docker run -p 127.0.0.1:50051:50051 bellwether:",
    "docker compose --file bellwether-",
    // `tests/it/backup.rs` takes backups and starts from them.
    "sudo bellwether backup ",
    "bellwether doctor --data-dir ",
    "sudo bellwether doctor --data-dir ",
    "sudo systemctl ",
    "sudo mv /var/lib/bellwether ",
    "sudo cp -a /var/backups/",
    "kubectl exec bellwether-0 ",
    "kubectl cp bellwether-0:",
    // `tests/it/attend.rs` runs it with a script, a real Pebble and a `juju-exec`.
    "bellwether attend ",
    // `make check-long` runs them.
    "BELLWETHER_NOTIFY_APPLICATIONS=10000 ",
    "BELLWETHER_NOTIFY_INCIDENTS=1000000 ",
    // `tools/run-real` runs both, and interrupts them.
    "bellwether run --operation web/0 --to 1.4 --recipe helm ",
    "bellwether run --operation net/0 --to 7 --recipe terraform ",
    // `tests/it/damaged_log.rs` runs it with the epoch of a store whose log is missing.
    "bellwether serve --accept-data-loss ",
    // `tests/it/recipes.rs` runs what these install, and the programs.
    "export SLACK_WEBHOOK=",
    "bellwether watch --exec -- examples/recipes/slack.py",
    "sudo install examples/recipes/",
    "sudo install -m 644 examples/recipes/",
    "sudo systemctl enable --now check-disk.timer",
    "go run ./examples/report ",
    "pip install ./clients/python",
    // `tests/chart/test_cluster.py` installs a trial.
    "helm upgrade --install bellwether bellwether-CHART.tgz ",
    // `tests/it/traces.rs` starts it with a collector.
    "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4317 bellwether serve",
    // `tests/it/imports.rs` imports what it prints.
    "kubectl get deploy,sts,ds,rs,pods,jobs,cronjobs,pvc,svc,ing,hpa,nodes -A -o json ",
    "kubectl get certificates -A -o json ",
    // `tests/chart/test_releases.py` imports what it prints.
    "helm list -A -m 0 -o json ",
    "bellwether import helm --every 1m -- helm list ",
    // `tests/chart/test_workloads.py` makes these objects, and runs what they run.
    "kubectl create namespace ",
    "helm upgrade --install bellwether ./helm-chart --namespace status ",
    "kubectl -n status get secret bellwether-tls ",
    "kubectl -n shop create configmap bellwether-ca ",
    "kubectl apply -f examples/kubernetes/",
    "systemctl show --all ",
    // `tools/first-hour` runs it from the archive.
    "./bellwether ",
    // Measurements of a release build, for a quiet machine.
    "cargo build --release --workspace --bins",
    "target/release/bellwether-bench ",
    "node tests/interop/page_large.mjs ",
];

/// Code before and after the commands of a block: background jobs end with the block, and a block
/// that leaves one running fails.
const BEFORE: &str = "trap 'kill $(jobs -p) 2>/dev/null || true; wait' EXIT";
const AFTER: &str = r#"[ -z "$(jobs -rp)" ] || { echo "is left running: $(jobs -r)"; exit 1; }"#;

/// A replacement for Juju in the documents that call it.
const JUJU: &str = "#!/bin/sh\nexec cat tests/data/juju-status/snappass.json\n";

#[test]
fn every_shell_block_works_as_written() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut errors = Vec::new();
    for path in documents(root) {
        let text = fs::read_to_string(&path).expect("document is readable");
        let name = path.strip_prefix(root).expect("is under the root");
        let blocks = blocks(&text);
        errors.extend(hidden(&blocks).map(|why| format!("{}:{why}", name.display())));
        let tested: Vec<&Block> = blocks.iter().filter(|block| block.tested).collect();
        if let Some(first) = tested.first() {
            let run = match Stage::set(&tested) {
                Some(stage) => {
                    tested.iter().filter_map(|block| stage.run(root, block).err()).collect()
                }
                None => Vec::from_iter(skipped(first.line, "redis-server").err()),
            };
            errors.extend(run.iter().map(|why| format!("{}:{why}", name.display())));
        }
    }
    assert!(errors.is_empty(), "{}", errors.join("\n"));
}

fn documents(root: &Path) -> Vec<PathBuf> {
    let mut found = vec![root.join("README.md"), root.join("crates/client/README.md")];
    let entries = fs::read_dir(root.join("docs")).expect("docs/ is readable");
    found.extend(entries.map(|entry| entry.expect("entry is readable").path()));
    found.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    found.sort();
    found
}

/// One fenced block of shell.
#[derive(Debug, PartialEq)]
struct Block {
    /// Line of its first command.
    line: usize,
    tested: bool,
    /// Commands; a line that ends with `\` is joined with the next one.
    commands: Vec<String>,
}

fn blocks(text: &str) -> Vec<Block> {
    let mut found = Vec::new();
    let mut lines = (1..).zip(text.lines());
    while let Some((number, line)) = lines.next() {
        let Some(tag) = line.strip_prefix("```") else {
            continue;
        };
        let body: Vec<&str> =
            lines.by_ref().map(|(_, line)| line).take_while(|line| *line != "```").collect();
        if tag.split(' ').next() == Some("sh") {
            let joined = body.join("\n").replace("\\\n", " ");
            found.push(Block {
                line: number + 1,
                tested: tag != "sh no-test",
                commands: joined.lines().map(str::to_string).collect(),
            });
        }
    }
    found
}

/// Returns the commands that a block without a test may not contain.
fn hidden(blocks: &[Block]) -> impl Iterator<Item = String> {
    blocks.iter().filter(|block| !block.tested).flat_map(|block| {
        let commands = block.commands.iter().filter(|command| {
            !command.is_empty() && !LEFT_OUT.iter().any(|start| command.starts_with(start))
        });
        commands.map(|command| format!("{}: is not tested: {command}", block.line))
    })
}

/// Returns the command, with a time limit if it never ends: the start of its output is enough.
fn ending(command: &str) -> String {
    let begins = ["bellwether watch", "bellwether data watch"];
    let follows = begins.iter().any(|start| command.starts_with(start))
        || command.starts_with("bellwether ")
            && [" --watch", " --every", " --follow"].iter().any(|flag| command.contains(flag));
    let command = command.split(" # ").next().unwrap_or(command).trim_end();
    match follows {
        true => format!("timeout {FOLLOW_SECONDS} {command} || [ $? = 124 ]"),
        false => command.to_string(),
    }
}

/// Returns whether `tools/install` has installed the framework of charms.
fn has_ops(root: &Path) -> bool {
    let python = root.join(".tools/venv/bin/python");
    let import = Command::new(python).args(["-c", "import ops, scenario"]).output();
    import.is_ok_and(|output| output.status.success())
}

/// The environment in which the blocks of one document run.
struct Stage {
    _server: Option<Server>,
    _redis: Option<Redis>,
    grpc: String,
    ops: String,
    /// Addresses as written, and the addresses in this test.
    addresses: Vec<(&'static str, String)>,
    /// Holds the program that replaces Juju.
    programs: tempfile::TempDir,
}

impl Stage {
    /// Prepares the environment; `None` if Redis is needed and missing.
    fn set(blocks: &[&Block]) -> Option<Stage> {
        let says = |text: &str| {
            blocks.iter().flat_map(|block| &block.commands).any(|command| command.contains(text))
        };
        let redis = match says(REDIS_AS_WRITTEN) {
            true => Some(Redis::start()?),
            false => None,
        };
        let server = (!says("bellwether serve")).then(Server::start);
        let (grpc, ops) = match &server {
            Some(server) => (server.grpc.clone(), server.ops.clone()),
            None => (free_address(), free_address()),
        };
        let mut addresses = vec![
            (GRPC_AS_WRITTEN, grpc.clone()),
            (OPS_AS_WRITTEN, ops.clone()),
            (SECOND_GRPC_AS_WRITTEN, free_address()),
            (SECOND_OPS_AS_WRITTEN, free_address()),
        ];
        addresses.extend(redis.iter().map(|redis| (REDIS_AS_WRITTEN, redis.address.clone())));
        let programs = tempfile::tempdir().expect("a folder for programs");
        let juju = programs.path().join("juju");
        fs::write(&juju, JUJU).expect("the stand-in is writable");
        fs::set_permissions(&juju, fs::Permissions::from_mode(0o755)).expect("is made executable");
        Some(Stage { _server: server, _redis: redis, grpc, ops, addresses, programs })
    }

    fn run(&self, root: &Path, block: &Block) -> Result<(), String> {
        let script: Vec<String> = block.commands.iter().map(|line| ending(line)).collect();
        let mut script = format!("{BEFORE}\n{}\n{AFTER}", script.join("\n"));
        for (as_written, address) in &self.addresses {
            script = script.replace(as_written, address);
        }
        let binaries = Path::new(env!("CARGO_BIN_EXE_bellwether")).parent();
        let mut path = vec![
            binaries.expect("the binary is in a folder").to_path_buf(),
            self.programs.path().to_path_buf(),
            root.join(".tools/bin"),
        ];
        path.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
        for program in ["grpcurl", "buf"] {
            let is_called = script.contains(&format!("{program} "));
            if is_called && !path.iter().any(|dir| dir.join(program).exists()) {
                return skipped(block.line, program);
            }
        }
        if script.contains("examples/charm/hook ") && !has_ops(root) {
            return skipped(block.line, "Python's ops");
        }
        let output = Command::new("timeout")
            .args([&BLOCK_SECONDS.to_string(), "bash", "-e", "-c", &script])
            .current_dir(root)
            .env("PATH", std::env::join_paths(path).expect("paths can be joined"))
            .env("BELLWETHER_SERVER", format!("http://{}", self.grpc))
            .env("BELLWETHER_GRPC_LISTEN", &self.grpc)
            .env("BELLWETHER_OPS_LISTEN", &self.ops)
            .env("BELLWETHER_CONTEXTS", self.programs.path().join("contexts.toml"))
            .env_remove("BELLWETHER_NAMESPACE")
            .stdin(Stdio::null())
            .output()
            .expect("bash runs");
        match output.status.success() {
            true => Ok(()),
            false => Err(format!(
                "{}: {}\n{script}\n{}{}",
                block.line,
                output.status,
                String::from_utf8_lossy(&output.stdout),
                String::from_utf8_lossy(&output.stderr)
            )),
        }
    }
}

/// The server of one document; ends when dropped.
struct Server {
    process: Child,
    /// Kept open, so that the server can print.
    _stdout: BufReader<ChildStdout>,
    grpc: String,
    ops: String,
}

impl Server {
    fn start() -> Server {
        let mut process = Command::new(env!("CARGO_BIN_EXE_bellwether"))
            .args(["serve", "--ephemeral", "--print-addresses", "json"])
            .args(["--grpc-listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the server starts");
        let mut stdout = BufReader::new(process.stdout.take().expect("stdout is piped"));
        let mut line = String::new();
        let read = stdout.read_line(&mut line);
        read.expect("stdout is readable");
        let addresses: Value = serde_json::from_str(&line).expect("one line of JSON addresses");
        let address = |key: &str| addresses[key].as_str().expect("an address").to_string();
        Server { grpc: address("grpc"), ops: address("ops"), process, _stdout: stdout }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

/// A Redis without persistence; ends when dropped.
struct Redis {
    process: Child,
    address: String,
    _directory: tempfile::TempDir,
}

impl Redis {
    /// Starts Redis; `None` if the program is not installed.
    fn start() -> Option<Redis> {
        let directory = tempfile::tempdir().expect("a folder for Redis");
        let address = free_address();
        let (host, port) = address.split_once(':').expect("host and port");
        let process = Command::new("redis-server")
            .args(["--bind", host, "--port", port, "--save", "", "--dir"])
            .arg(directory.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .ok()?;
        let redis = Redis { process, address, _directory: directory };
        let deadline = Instant::now() + REDIS_DEADLINE;
        while !redis.answers() {
            assert!(Instant::now() < deadline, "Redis does not answer on {}", redis.address);
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(redis)
    }

    fn answers(&self) -> bool {
        let mut answer = [0; 5];
        let asked = TcpStream::connect(&self.address).and_then(|mut stream| {
            stream.write_all(b"PING\r\n")?;
            stream.read_exact(&mut answer)
        });
        asked.is_ok() && answer == *b"+PONG"
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

/// Returns an address that is free now, for a program that cannot choose one.
fn free_address() -> String {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
    listener.local_addr().expect("has an address").to_string()
}

/// Prints that a tool is missing; returns an error where no test may be skipped.
fn skipped(line: usize, tool: &str) -> Result<(), String> {
    match std::env::var_os("CI").is_some_and(|ci| !ci.is_empty()) {
        true => Err(format!("{line}: {tool} is missing; run tools/install")),
        false => {
            eprintln!("!!! SKIPPED: line {line}: {tool} is missing; run tools/install");
            Ok(())
        }
    }
}

#[test]
fn blocks_are_found_with_their_lines() {
    let text = "text\n```sh\na \\\n  b\nc\n```\n```text\nd\n```\n```sh no-test\nmake run\n```\n";
    let block = |line, tested, commands: &[&str]| Block {
        line,
        tested,
        commands: commands.iter().map(|command| command.to_string()).collect(),
    };
    assert_eq!(blocks(text), [block(3, true, &["a    b", "c"]), block(11, false, &["make run"])]);
}

#[test]
fn a_command_cannot_hide_from_the_test() {
    let found = blocks("```sh no-test\nmake run\nbellwether status\n```\n");
    let errors: Vec<String> = hidden(&found).collect();
    assert_eq!(errors, ["2: is not tested: bellwether status"]);
}

#[test]
fn an_endless_command_runs_for_a_limited_time() {
    assert_eq!(ending("bellwether status"), "bellwether status");
    assert_eq!(
        ending("bellwether watch web   # until Ctrl-C"),
        "timeout 3 bellwether watch web || [ $? = 124 ]"
    );
    assert!(ending("bellwether import juju --every 30s -- juju status").starts_with("timeout"));
    assert!(ending("bellwether status --watch").starts_with("timeout"));
}
