//! Acknowledged writes survive kill -9 and a full disk, and two processes never open one data
//! directory at the same time.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bellwether::proto::v1;
use bellwether::proto::v1::Level;
use tonic::transport::Endpoint;

use crate::server::{Server, command, eventually, get, mk_report, reason, refused};

/// Rounds of load and kill; each round starts on the data of the previous one.
const ROUNDS: usize = 12;

const WRITERS: usize = 8;

#[tokio::test(flavor = "multi_thread")]
async fn every_acknowledged_status_survives_kill_9() {
    let directory = tempfile::tempdir().unwrap();
    let acknowledged: Arc<Mutex<BTreeMap<String, u64>>> = Arc::default();
    for round in 0..ROUNDS {
        let server = Server::on(directory.path());
        check(&server, &acknowledged).await;
        let writers: Vec<_> = (0..WRITERS)
            .map(|w| {
                let url = server.url();
                let acknowledged = acknowledged.clone();
                tokio::spawn(write_until_killed(url, w, acknowledged))
            })
            .collect();
        // The kill happens at a different moment of the load in each round.
        let enough = 50 + 40 * round as u64;
        let before: u64 = acknowledged.lock().unwrap().values().sum();
        eventually("enough acknowledged reports", async || {
            let now: u64 = acknowledged.lock().unwrap().values().sum();
            (before + enough <= now).then_some(())
        })
        .await;
        server.kill();
        for writer in writers {
            writer.await.unwrap();
        }
    }
    let server = Server::on(directory.path());
    check(&server, &acknowledged).await;
    assert_eq!(acknowledged.lock().unwrap().len(), WRITERS);
}

/// Counts up in the status of its own unit, and records each acknowledged number.
pub async fn write_until_killed(
    url: String,
    writer: usize,
    acknowledged: Arc<Mutex<BTreeMap<String, u64>>>,
) {
    use v1::report_service_client::ReportServiceClient;
    let channel = Endpoint::from_shared(url).unwrap().connect().await.unwrap();
    let mut reports = ReportServiceClient::new(channel);
    let unit = format!("web/{writer}");
    let last = acknowledged.lock().unwrap().get(&unit).copied().unwrap_or_default();
    for n in last + 1.. {
        // A third of the writers share one application: group commit across and within
        // applications.
        let application = format!("app{}", writer % 3);
        // Each change of the level is an event of the history.
        let level = if n % 2 == 0 { Level::Waiting } else { Level::Active };
        let report = mk_report(&application, &unit, level, &format!("{n}"));
        match reports.report_status(report).await {
            Ok(_) => acknowledged.lock().unwrap().insert(unit.clone(), n),
            Err(_) => return,
        };
    }
}

/// Each unit has at least the last acknowledged report, and at most one later report, which was in
/// flight.
pub async fn check(server: &Server, acknowledged: &Mutex<BTreeMap<String, u64>>) {
    let mut applications = server.applications().await;
    let expected = acknowledged.lock().unwrap().clone();
    for (unit, acknowledged) in expected {
        let writer: usize = unit.trim_start_matches("web/").parse().unwrap();
        let list = v1::ListStatusesRequest {
            application: format!("app{}", writer % 3),
            unit: unit.clone(),
            ..Default::default()
        };
        let statuses = applications.list_statuses(list).await.unwrap().into_inner().statuses;
        let kept: u64 = statuses[0].report.as_ref().unwrap().message.parse().unwrap();
        assert!(
            acknowledged <= kept && kept <= acknowledged + 1,
            "{unit}: acknowledged {acknowledged}, kept {kept}"
        );
    }
}

#[test]
fn a_second_process_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_str().unwrap();
    let _first = Server::on(directory.path());
    let (code, said) = refused(&["--data-dir", path]);
    assert_eq!(code, Some(1));
    assert!(said.contains("in use by another process"), "{said}");
    assert!(!said.contains("panicked"), "{said}");
}

#[test]
fn a_damaged_database_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_str().unwrap();
    drop(Server::on(directory.path()));
    let file = directory.path().join("bellwether.redb");
    let whole = std::fs::read(&file).unwrap();
    let truncated = whole[..whole.len() / 3].to_vec();
    let rubbish = b"this is no database at all".repeat(1000);
    for bytes in [truncated, rubbish] {
        std::fs::write(&file, bytes).unwrap();
        let (code, said) = refused(&["--data-dir", path]);
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains("is damaged"), "{said}");
        assert!(said.contains("restore the data directory from a backup"), "{said}");
        assert!(!said.contains("panicked"), "{said}");
    }
}

/// A file system of a few megabytes, unmounted when dropped.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    /// Mounts the file system. Prints a warning and returns `None` where mounting is not allowed;
    /// in CI that is a failure.
    fn mount() -> Option<SmallDisk> {
        let directory = tempfile::tempdir().unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=6m", "tmpfs"])
            .arg(directory.path())
            .status();
        if mounted.is_ok_and(|status| status.success()) {
            return Some(SmallDisk(directory));
        }
        assert!(
            std::env::var_os("CI").is_none(),
            "cannot mount a small disk, and in CI nothing is skipped"
        );
        eprintln!("SKIPPED: mounting a small disk needs root");
        None
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

#[tokio::test]
async fn on_a_full_disk_deletions_are_written_and_make_room() {
    let Some(disk) = SmallDisk::mount() else {
        return;
    };
    let text = "x".repeat(4000);
    let report = |application: &str, n: usize| {
        mk_report(application, &format!("{application}/{n}"), Level::Active, &text)
    };
    let mut before = Server::on(disk.path());
    let mut reports = before.reports().await;
    reports.report_status(report("small", 0)).await.unwrap();
    for n in 0..200 {
        reports.report_status(report("large", n)).await.unwrap();
    }
    // A stop applies the log, so that the reserve of this small disk is not needed for it.
    drop(reports);
    before.terminate();
    assert_eq!(before.wait().code(), Some(0));
    let log = tempfile::NamedTempFile::new().unwrap();
    let mut command = command(&["--data-dir", disk.path().to_str().unwrap()]);
    command.stderr(log.reopen().unwrap());
    let server = Server::spawn(command);
    let mut reports = server.reports().await;
    let mut applications = server.applications().await;
    // Another program fills the disk, and goes on to.
    let ballast = disk.path().join("ballast");
    let _full = std::fs::write(&ballast, vec![0_u8; 8 << 20]);
    let mut n = 0;
    let refused = eventually("deletions alone are written", async || {
        n += 1;
        let refused = reports.report_status(report("small", n)).await.err()?;
        refused.message().contains("deletions alone").then_some(refused)
    });
    assert_eq!(reason(&refused.await), "STORE_UNAVAILABLE");
    for n in 0..300 {
        reports.report_status(report("small", n + 1000)).await.unwrap_err();
    }
    let remove = v1::RemoveUnitRequest {
        application: "small".into(),
        unit: "small/0".into(),
        ..v1::RemoveUnitRequest::default()
    };
    eventually("a unit is removed", async || applications.remove_unit(remove.clone()).await.ok())
        .await;
    let delete = v1::DeleteApplicationRequest {
        application: "large".into(),
        ..v1::DeleteApplicationRequest::default()
    };
    eventually("an application is deleted", async || {
        applications.delete_application(delete.clone()).await.ok()
    })
    .await;
    eventually("what was deleted is room for reports", async || {
        reports.report_status(report("next", 0)).await.ok()
    })
    .await;
    let log = std::fs::read_to_string(log.path()).unwrap();
    let lines = log.lines().filter(|line| line.contains("call failed")).count();
    assert!((1..100).contains(&lines), "{lines} lines:\n{log}");
}

#[tokio::test]
async fn on_a_full_disk_reports_are_refused_reads_go_on_and_it_recovers() {
    let Some(disk) = SmallDisk::mount() else {
        return;
    };
    let server = Server::on(disk.path());
    let mut reports = server.reports().await;
    let mut applications = server.applications().await;
    reports.report_status(mk_report("web", "web/0", Level::Active, "before")).await.unwrap();
    // Another program fills the disk.
    let ballast = disk.path().join("ballast");
    let _full = std::fs::write(&ballast, vec![0_u8; 8 << 20]);
    let text = "x".repeat(4000);
    let mut unit = 0;
    let refused = eventually("a refusal", async || {
        unit += 1;
        let report = mk_report("web", &format!("web/{unit}"), Level::Active, &text);
        reports.report_status(report).await.err()
    })
    .await;
    assert_eq!(reason(&refused), "STORE_UNAVAILABLE");
    assert_eq!(refused.code(), tonic::Code::Unavailable);
    use tonic_types::StatusExt;
    assert!(refused.get_error_details().retry_info().is_some());
    let got = applications.get_application(get("web")).await.unwrap().into_inner();
    assert_eq!(got.application.unwrap().unit_count, unit, "reads go on; {unit} was refused");
    std::fs::remove_file(&ballast).unwrap();
    eventually("reports are taken again", async || {
        let report = mk_report("web", "web/after", Level::Error, "space again");
        let mut request = tonic::Request::new(report);
        request.set_timeout(Duration::from_secs(5));
        reports.report_status(request).await.ok()
    })
    .await;
    let before = applications.get_application(get("web")).await.unwrap().into_inner();
    server.kill();
    let server = Server::on(disk.path());
    let mut applications = server.applications().await;
    let after = applications.get_application(get("web")).await.unwrap().into_inner();
    assert_eq!(after, before);
}
