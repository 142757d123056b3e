//! `bellwether notify` with a real server: receivers, marks, a pair of processes.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::{Value, json};

use crate::cli::{Running, command, ok, run};
use crate::http_receiver::{HttpReceiver, Posted};
use crate::interop::{have, path, root};
use crate::server::{DEADLINE, LOOK_EVERY, Server};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// The keys of a route that tells at once.
const QUICK: &str = "stable_for = \"0\"\nrecover_after = \"0\"\n";

/// A folder with a file of `notify`, and the processes that read it.
pub struct Site {
    pub folder: tempfile::TempDir,
}

impl Site {
    pub fn new(text: &str) -> Site {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("notify.toml"), text).unwrap();
        std::fs::write(folder.path().join("secret"), SECRET).unwrap();
        Site { folder }
    }

    pub fn file(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    /// Starts a process as a unit.
    pub fn start(&self, server: &Server, unit: &str) -> Running {
        self.start_as(server, unit, &[])
    }

    /// The same, with more flags.
    pub fn start_as(&self, server: &Server, unit: &str, more: &[&str]) -> Running {
        let mut command = command(server, &["notify", "--config", &self.file("notify.toml")]);
        command.args(["--unit", unit]).args(more).current_dir(self.folder.path());
        Running(command.stderr(Stdio::null()).spawn().unwrap())
    }

    /// Writes the file of a webhook at a URL, with a route for everything.
    pub fn webhook(url: &str) -> Site {
        let to =
            format!("[[to]]\nname = \"hook\"\nwebhook = \"{url}\"\nsecret_file = \"secret\"\n");
        Site::new(&format!("{to}[[route]]\nto = \"hook\"\nat_least = \"waiting\"\n{QUICK}"))
    }
}

/// Returns what the receiver of a webhook got: `web problem blocked`, each id once.
pub fn told(posted: &[Posted]) -> Vec<String> {
    let mut ids: Vec<String> = Vec::new();
    let mut told = Vec::new();
    for posted in posted {
        let id = posted.header("webhook-id").to_string();
        if !ids.contains(&id) {
            ids.push(id);
            let data = posted.json()["data"].clone();
            let word = |key: &str| data[key].as_str().unwrap_or_default().to_string();
            told.push([word("application"), word("type"), word("level")].join(" "));
        }
    }
    told
}

fn report(server: &Server, unit: &str, level: &str) {
    ok(server, &["report", unit, "--level", level, "-m", "said so", "--action", "do it"]);
}

#[test]
fn a_file_is_checked_and_a_receiver_is_tested() {
    let server = Server::ephemeral();
    let receiver = HttpReceiver::start();
    let site = Site::webhook(&receiver.url());
    let file = site.file("notify.toml");
    let line = |more: &[&'static str]| {
        let mut command = command(&server, &["notify", "--config", &file]);
        command.args(more).current_dir(site.folder.path()).output().unwrap()
    };
    let checked = line(&["--check"]);
    let said = String::from_utf8(checked.stderr).unwrap();
    assert!(checked.status.success() && said.contains("1 receiver, 1 route"), "{said}");
    assert!(line(&["--test", "hook"]).status.success());
    let posted = receiver.posted();
    assert_eq!(posted[0].json()["type"], "application.test");
    assert_eq!(line(&["--test", "nobody"]).status.code(), Some(3));
    receiver.answer_with(500);
    let failed = line(&["--test", "hook"]);
    let said = String::from_utf8(failed.stderr).unwrap();
    assert_eq!(failed.status.code(), Some(1));
    assert!(said.contains("receiver hook: the answer has the status 500"), "{said}");
    std::fs::write(site.file("secret"), "hunter2").unwrap();
    let wrong = line(&["--check"]);
    let said = String::from_utf8(wrong.stderr).unwrap();
    assert_eq!(wrong.status.code(), Some(2), "{said}");
    assert!(!said.contains("hunter2"), "{said}");
    std::fs::write(&file, "[[to]]\nname = \"x\"\nsecret = \"y\"\n").unwrap();
    let said = run(&server, &["notify", "--config", &file]);
    assert!(said.code == Some(2) && said.err.contains("line 3"), "{}", said.err);
}

#[test]
fn a_webhook_gets_the_reason_and_the_end() {
    let server = Server::ephemeral();
    let receiver = HttpReceiver::start();
    let site = Site::webhook(&receiver.url());
    report(&server, "web/0", "blocked");
    let _notifier = site.start(&server, "one");
    let posted = receiver.until("a problem", |posted| told(posted) == ["web problem blocked"]);
    let body = posted[0].json();
    assert_eq!(body["type"], "application.problem");
    let data = &body["data"];
    assert_eq!((&data["winner"]["unit"], &data["action"]), (&json!("web/0"), &json!("do it")));
    assert_eq!(data["rule"], "the only contribution");
    let text = data["text"].as_str().unwrap();
    assert!(text.starts_with("default/web is blocked (") && text.contains("-> do it"), "{text}");
    ok(&server, &["ack", "web", "--during", "1h", "-m", "known"]);
    report(&server, "web/0", "error");
    let expected = ["web problem blocked", "web changed error"];
    receiver.until("something worse", |posted| told(posted) == expected);
    ok(&server, &["plan", "web", "--during", "1h", "--id", "p", "-m", "disks"]);
    let all = receiver.until("the end", |posted| told(posted).len() == 3);
    assert_eq!(all.last().unwrap().json()["data"]["cause"], "planned work");
    ok(&server, &["unmark", "web", "p"]);
    let posted = receiver.until("another problem", |posted| told(posted).len() == 4);
    assert_ne!(posted[0].header("webhook-id"), posted.last().unwrap().header("webhook-id"));
    ok(&server, &["delete", "web"]);
    let all = receiver.until("its end", |posted| told(posted).len() == 5);
    assert_eq!(all.last().unwrap().json()["data"]["cause"], "deleted");
}

#[test]
fn a_command_gets_the_message_in_its_environment() {
    let server = Server::ephemeral();
    let exec = "exec = [\"sh\", \"-c\", 'cat > $BELLWETHER_EVENT.json; env > env.new; \
                mv env.new $BELLWETHER_EVENT.env']";
    let site =
        Site::new(&format!("[[to]]\nname = \"sh\"\n{exec}\n[[route]]\nto = \"sh\"\n{QUICK}"));
    report(&server, "web/0", "blocked");
    let _notifier = site.start(&server, "one");
    let environment = appears(&site.folder.path().join("problem.env"));
    for line in [
        "BELLWETHER_APPLICATION=web",
        "BELLWETHER_LEVEL=blocked",
        "BELLWETHER_UNIT=web/0",
        "BELLWETHER_ACTION=do it",
        "BELLWETHER_PLANNED=false",
        &format!("BELLWETHER_SERVER={}", server.url()),
    ] {
        assert!(environment.lines().any(|it| it == line), "{line} is not in:\n{environment}");
    }
    report(&server, "web/0", "active");
    assert!(appears(&site.folder.path().join("resolved.env")).contains("BELLWETHER_LEVEL=active"));
    let json = std::fs::read_to_string(site.folder.path().join("resolved.json")).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&json).unwrap()["type"], "resolved");
}

fn appears(path: &Path) -> String {
    let start = Instant::now();
    loop {
        if let Ok(text) = std::fs::read_to_string(path) {
            return text;
        }
        assert!(start.elapsed() < DEADLINE, "{} does not appear", path.display());
        std::thread::sleep(LOOK_EVERY);
    }
}

#[test]
fn applications_behind_one_cause_are_in_its_message() {
    let server = Server::ephemeral();
    let receiver = HttpReceiver::start();
    let site = Site::webhook(&receiver.url());
    report(&server, "db/0", "error");
    for unit in ["web/0", "shop/0"] {
        ok(&server, &["report", unit, "--level", "waiting", "-m", "for db", "--needs", "db"]);
    }
    let _notifier = site.start(&server, "one");
    let posted = receiver.until("a problem", |posted| !posted.is_empty());
    let data = &posted[0].json()["data"];
    assert_eq!(data["frees"], json!(["default/shop", "default/web"]));
    assert!(data["text"].as_str().unwrap().ends_with("frees 2: shop, web"), "{data}");
    // An application that is still not well after its cause would be a problem of its own.
    for unit in ["web/0", "shop/0", "db/0"] {
        report(&server, unit, "active");
    }
    let posted = receiver.until("its end", |posted| told(posted).len() == 2);
    assert_eq!(told(&posted), ["db problem error", "db resolved active"]);
}

#[test]
fn a_killed_leader_is_replaced_and_what_it_told_is_ended() {
    let server = Server::ephemeral();
    let receiver = HttpReceiver::start();
    let site = Site::webhook(&receiver.url());
    report(&server, "web/0", "error");
    let mut first = site.start(&server, "one");
    receiver.until("a problem", |posted| told(posted) == ["web problem error"]);
    let _second = site.start(&server, "two");
    let start = Instant::now();
    while !ok(&server, &["status", "bellwether-notify"]).contains("stands by") {
        assert!(start.elapsed() < DEADLINE, "nobody stands by");
        std::thread::sleep(LOOK_EVERY);
    }
    first.0.kill().unwrap();
    report(&server, "web/0", "active");
    report(&server, "db/0", "blocked");
    let posted = receiver.until("the end", |posted| told(posted).len() == 3);
    let mut told = told(&posted);
    told[1..].sort();
    assert_eq!(told, ["web problem error", "db problem blocked", "web resolved active"]);
    assert!(posted.len() <= 6, "a message is repeated once at most");
}

#[test]
fn a_receiver_that_was_away_gets_the_newest_state() {
    let server = Server::ephemeral();
    let receiver = HttpReceiver::start();
    let site = Site::webhook(&receiver.url());
    receiver.answer_with(503);
    report(&server, "web/0", "blocked");
    let _notifier = site.start(&server, "one");
    receiver.until("an attempt", |posted| !posted.is_empty());
    report(&server, "web/0", "active");
    receiver.answer_with(204);
    let posted = receiver.until("an end", |posted| told(posted).len() == 2);
    assert_eq!(told(&posted), ["web problem blocked", "web resolved active"]);
    receiver.answer_with(410);
    report(&server, "db/0", "error");
    receiver.until("the last attempt", |posted| told(posted).len() == 3);
}

/// Runs a program that verifies a message with the reference library of Standard Webhooks.
fn verifies(program: &str, script: &str, posted: &Posted) {
    let document = json!({
        "secret": SECRET,
        "body": String::from_utf8(posted.body.clone()).unwrap(),
        "headers": {
            "webhook-id": posted.header("webhook-id"),
            "webhook-timestamp": posted.header("webhook-timestamp"),
            "webhook-signature": posted.header("webhook-signature"),
        },
    });
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("message.json");
    std::fs::write(&file, document.to_string()).unwrap();
    let output = Command::new(program)
        .arg(script)
        .arg(&file)
        .env("PATH", path())
        .current_dir(root())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program}: {said}");
}

#[test]
fn the_reference_libraries_verify_a_webhook() {
    let server = Server::ephemeral();
    let receiver = HttpReceiver::start();
    let site = Site::webhook(&receiver.url());
    report(&server, "web/0", "error");
    let _notifier = site.start(&server, "one");
    let posted = receiver.until("a problem", |posted| !posted.is_empty());
    let library = ".tools/webhooks/node_modules/standardwebhooks/package.json";
    let installed = |path: String| have(&root().join(path).display().to_string());
    if installed(library.to_string()) {
        verifies("node", "tests/interop/webhook.mjs", &posted[0]);
    }
    let python = root().join(".tools/venv/bin/python").display().to_string();
    let imports = Command::new(&python).args(["-c", "import standardwebhooks"]).status();
    let is_there = imports.is_ok_and(|status| status.success());
    assert!(is_there || std::env::var_os("CI").is_none(), "run tools/install");
    if is_there {
        verifies(&python, "tests/interop/webhook.py", &posted[0]);
    }
}
