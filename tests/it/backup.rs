//! `bellwether backup`: a copy of the embedded store while it is written has every report that was
//! acknowledged before, and a server starts from it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::{Arc, Mutex};

use bellwether::proto::v1::{self, Level};

use crate::durability::write_until_killed;
use crate::server::{BINARY, Server, eventually, get, mk_report};

const WRITERS: usize = 6;

type Acknowledged = Arc<Mutex<BTreeMap<String, u64>>>;

fn bellwether(arguments: &[&str], dir: &Path) -> Output {
    let mut command = Command::new(BINARY);
    command.args(arguments).arg("--data-dir").arg(dir).output().unwrap()
}

/// Takes a backup, and returns what the command prints.
fn back_up(dir: &Path, target: &Path) -> serde_json::Value {
    let output = bellwether(&["backup", "-o", "json", target.to_str().unwrap()], dir);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn doctor(dir: &Path) -> String {
    let output = bellwether(&["doctor"], dir);
    let found = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{found}");
    found
}

/// Copies a backup as an operator does.
fn restored(backup: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(backup).unwrap().flatten() {
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

async fn epoch(server: &Server) -> String {
    let request = v1::GetServerInfoRequest::default();
    server.about().await.get_server_info(request).await.unwrap().into_inner().store_epoch
}

/// Each unit has at least the report that was acknowledged before the backup.
async fn has_all(server: &Server, acknowledged: &BTreeMap<String, u64>) {
    let mut applications = server.applications().await;
    for (unit, acknowledged) in acknowledged {
        let writer: usize = unit.trim_start_matches("web/").parse().unwrap();
        let list = v1::ListStatusesRequest {
            application: format!("app{}", writer % 3),
            unit: unit.clone(),
            ..Default::default()
        };
        let statuses = applications.list_statuses(list).await.unwrap().into_inner().statuses;
        let kept: u64 = statuses[0].report.as_ref().unwrap().message.parse().unwrap();
        assert!(*acknowledged <= kept, "{unit}: acknowledged {acknowledged}, kept {kept}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_under_load_has_every_report_acknowledged_before_it() {
    let directory = tempfile::tempdir().unwrap();
    let [dir, first, second, third, copy, again, last] =
        ["data", "first", "second", "third", "copy", "again", "last"]
            .map(|n| directory.path().join(n));
    let server = Server::on(&dir);
    let original = epoch(&server).await;
    let acknowledged = Acknowledged::default();
    let writers: Vec<_> = (0..WRITERS)
        .map(|n| tokio::spawn(write_until_killed(server.url(), n, acknowledged.clone())))
        .collect();
    let mut before = Vec::new();
    for target in [&first, &second] {
        let known: u64 = acknowledged.lock().unwrap().values().sum();
        eventually("more reports", async || {
            let now: u64 = acknowledged.lock().unwrap().values().sum();
            (known + 300 <= now).then_some(())
        })
        .await;
        before.push(acknowledged.lock().unwrap().clone());
        let (dir, target) = (dir.clone(), target.clone());
        let taken = tokio::task::spawn_blocking(move || back_up(&dir, &target)).await.unwrap();
        assert_eq!((&taken["online"], &taken["applications"]), (&true.into(), &3.into()));
        assert_eq!(taken["store_epoch"], original.as_str());
    }
    server.kill();
    for writer in writers {
        writer.await.unwrap();
    }
    // Without a server, what the log has in addition is copied too.
    let taken = back_up(&dir, &third);
    assert_eq!(taken["online"], false);
    before.push(acknowledged.lock().unwrap().clone());
    for (backup, before) in [&first, &second, &third].into_iter().zip(&before) {
        let found = doctor(backup);
        assert!(found.contains("is a backup that can be read"), "{found}");
        assert_eq!(before.len(), WRITERS);
        let to = backup.with_extension("restored");
        restored(backup, &to);
        let server = Server::on(&to);
        has_all(&server, before).await;
        assert_ne!(epoch(&server).await, original, "a history of its own");
    }
    // The store that was killed is as it was; two starts from one backup have different histories.
    has_all(&Server::on(&dir), &before[2]).await;
    restored(&first, &copy);
    restored(&first, &again);
    let (one, other) = (Server::on(&copy), Server::on(&again));
    assert_ne!(epoch(&one).await, epoch(&other).await);
    // A restored store is an ordinary one: it is written, killed, and backed up.
    let report = mk_report("new", "new/0", Level::Active, "after");
    one.reports().await.report_status(report).await.unwrap();
    let taken = back_up(&copy, &last);
    assert_eq!(taken["applications"], 4);
    one.kill();
    let server = Server::on(&copy);
    let answer = server.applications().await.get_application(get("new")).await.unwrap();
    assert!(answer.into_inner().application.is_some());
}

#[tokio::test]
async fn a_restored_unit_is_uncertain_until_it_reports_again() {
    let directory = tempfile::tempdir().unwrap();
    let [dir, backup] = ["data", "backup"].map(|name| directory.path().join(name));
    let server = Server::on(&dir);
    let report = || mk_report("web", "web/0", Level::Active, "ready");
    server.reports().await.report_status(report()).await.unwrap();
    back_up(&dir, &backup);
    drop(server);
    let server = Server::on(&backup);
    let uncertain = async || {
        let application = server.applications().await.get_application(get("web")).await.unwrap();
        application.into_inner().application.unwrap().status.unwrap().uncertain_units
    };
    eventually("an uncertain unit", async || (uncertain().await == 1).then_some(())).await;
    server.reports().await.report_status(report()).await.unwrap();
    eventually("a certain unit", async || (uncertain().await == 0).then_some(())).await;
}

#[tokio::test]
async fn a_backup_that_cannot_be_taken_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let [dir, target] = ["data", "backup"].map(|name| directory.path().join(name));
    let refused = |dir: &Path, said: &str| {
        let output = bellwether(&["backup", target.to_str().unwrap()], dir);
        let found = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && found.contains(said), "{found}");
    };
    refused(&dir, "there is no database in");
    let server = Server::on(&dir);
    fs::create_dir(&target).unwrap();
    refused(&dir, "exists already");
    fs::remove_dir(&target).unwrap();
    // A folder of a command that was killed is answered, and is in no one's way.
    fs::create_dir(dir.join("bellwether.backup.0")).unwrap();
    back_up(&dir, &target);
    drop(server);
    let left = || {
        let names = fs::read_dir(&dir).unwrap().flatten().map(|entry| entry.file_name());
        let is_left = |name: &std::ffi::OsString| name.to_string_lossy().contains(".backup.");
        names.filter(is_left).collect::<Vec<_>>()
    };
    assert_eq!(left(), ["bellwether.backup.0"]);
    // The next process removes it; the copy in it has the size of the store.
    drop(Server::on(&dir));
    assert!(left().is_empty(), "{:?}", left());
    // A backup over a store that was not closed is refused: the log is not its own.
    let mixed = directory.path().join("mixed");
    let server = Server::on(&mixed);
    server.reports().await.report_status(mk_report("a", "a/0", Level::Active, "")).await.unwrap();
    server.kill();
    fs::copy(target.join("bellwether.redb"), mixed.join("bellwether.redb")).unwrap();
    let (code, said) = crate::server::refused(&["--data-dir", mixed.to_str().unwrap()]);
    assert!(code == Some(1) && said.contains("the log of another database"), "{said}");
}
