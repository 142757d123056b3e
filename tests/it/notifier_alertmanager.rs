//! `bellwether notify` with Debian's Alertmanager and a receiver behind that: what fires is
//! resolved.

use std::collections::{BTreeMap, BTreeSet};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::cli::{Running, ok};
use crate::http_receiver::{HttpReceiver, Posted};
use crate::interop::have;
use crate::notifier::Site;
use crate::server::{DEADLINE, LOOK_EVERY, Server};

/// An Alertmanager that posts each alert to a receiver.
pub struct Alertmanager {
    _process: Running,
    url: String,
}

impl Alertmanager {
    pub fn start(folder: &Path, receiver: &HttpReceiver) -> Alertmanager {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let file = folder.join("alertmanager.yml");
        let text = format!(
            "route:\n  receiver: all\n  group_by: ['...']\n  group_wait: 0s\n  \
             group_interval: 1s\n  repeat_interval: 4h\nreceivers:\n- name: all\n  \
             webhook_configs:\n  - url: {}\n    send_resolved: true\n",
            receiver.url()
        );
        std::fs::write(&file, text).unwrap();
        let process = Command::new("prometheus-alertmanager")
            .arg(format!("--config.file={}", file.display()))
            .arg(format!("--storage.path={}", folder.join("alerts").display()))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .arg("--cluster.listen-address=")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let process = Running(process);
        let start = Instant::now();
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(start.elapsed() < DEADLINE, "Alertmanager does not listen");
            std::thread::sleep(LOOK_EVERY);
        }
        Alertmanager { _process: process, url: format!("http://127.0.0.1:{port}") }
    }

    /// Writes the file of a notifier that sends to it.
    pub fn site(&self) -> Site {
        Site::new(&format!(
            "[[to]]\nname = \"am\"\nalertmanager = \"{}\"\n[[route]]\nto = \"am\"\n\
             at_least = \"waiting\"\nstable_for = \"0\"\nrecover_after = \"0\"\n",
            self.url
        ))
    }
}

/// Counts how often each alert fires, and how often it is resolved, by what Alertmanager said.
/// Alertmanager repeats a notification that its receiver has taken, but answered later than
/// `group_interval`, so each start of an alert counts once.
pub fn counts(posted: &[Posted]) -> BTreeMap<String, [usize; 2]> {
    let mut starts: BTreeMap<String, [BTreeSet<String>; 2]> = BTreeMap::new();
    for posted in posted {
        for alert in posted.json()["alerts"].as_array().unwrap() {
            let labels = &alert["labels"];
            let name = format!("{} {}", labels["application"], labels["level"]).replace('"', "");
            let place = usize::from(alert["status"] == "resolved");
            let start = alert["startsAt"].as_str().unwrap().to_string();
            starts.entry(name).or_default()[place].insert(start);
        }
    }
    starts.into_iter().map(|(name, starts)| (name, starts.map(|of| of.len()))).collect()
}

fn report(server: &Server, unit: &str, level: &str) {
    ok(server, &["report", unit, "--level", level, "-m", "said so"]);
}

#[test]
fn each_alert_is_resolved_with_marks_set_and_removed() {
    if !have("prometheus-alertmanager") {
        return;
    }
    let server = Server::ephemeral();
    let receiver = HttpReceiver::start();
    let folder = tempfile::tempdir().unwrap();
    let alertmanager = Alertmanager::start(folder.path(), &receiver);
    let site = alertmanager.site();
    let _notifier = site.start(&server, "one");
    for round in 1..=3 {
        for unit in ["web/0", "db/0"] {
            report(&server, unit, "error");
        }
        let fires = |posted: &[Posted], name: &str| {
            counts(posted).get(name).is_some_and(|[firing, _]| *firing == round)
        };
        receiver
            .until("both fire", |posted| fires(posted, "web error") && fires(posted, "db error"));
        ok(&server, &["ack", "web", "--during", "1h", "--id", "a", "-m", "known"]);
        ok(&server, &["plan", "db", "--during", "1h", "--id", "p", "-m", "disks"]);
        report(&server, "web/0", "active");
        report(&server, "db/0", "active");
        ok(&server, &["unmark", "web", "a"]);
        ok(&server, &["unmark", "db", "p"]);
        receiver.until("both are resolved", |posted| {
            let counts = counts(posted);
            counts.len() == 2 && counts.values().all(|count| *count == [round, round])
        });
    }
}

/// The four steps of alertmanager#2754: the first alert is sent, a second one comes and the first
/// is suppressed, the first ends, the second ends.
#[test]
fn a_suppressed_alert_leaves_no_orphan() {
    if !have("prometheus-alertmanager") {
        return;
    }
    let server = Server::ephemeral();
    let receiver = HttpReceiver::start();
    let folder = tempfile::tempdir().unwrap();
    let alertmanager = Alertmanager::start(folder.path(), &receiver);
    let site = alertmanager.site();
    let _notifier = site.start(&server, "one");
    report(&server, "web/0", "error");
    receiver.until("the first", |posted| counts(posted).contains_key("web error"));
    report(&server, "db/0", "error");
    ok(&server, &["ack", "web", "--during", "1h", "-m", "because of db"]);
    receiver.until("the second", |posted| counts(posted).contains_key("db error"));
    report(&server, "web/0", "active");
    report(&server, "db/0", "active");
    receiver.until("both ends", |posted| {
        let counts = counts(posted);
        counts.len() == 2 && counts.values().all(|count| *count == [1, 1])
    });
}

#[test]
fn another_level_is_another_alert_and_the_former_one_ends() {
    if !have("prometheus-alertmanager") {
        return;
    }
    let server = Server::ephemeral();
    let receiver = HttpReceiver::start();
    let folder = tempfile::tempdir().unwrap();
    let alertmanager = Alertmanager::start(folder.path(), &receiver);
    let site = alertmanager.site();
    let _notifier = site.start(&server, "one");
    report(&server, "web/0", "blocked");
    receiver.until("blocked", |posted| counts(posted).contains_key("web blocked"));
    report(&server, "web/0", "error");
    receiver.until("error", |posted| {
        let counts = counts(posted);
        counts.get("web blocked") == Some(&[1, 1]) && counts.get("web error") == Some(&[1, 0])
    });
    ok(&server, &["delete", "web"]);
    receiver.until("the end", |posted| counts(posted).get("web error") == Some(&[1, 1]));
}
