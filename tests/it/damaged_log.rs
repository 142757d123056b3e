//! A damaged or missing log of the embedded store is refused with a name, by `serve` and by
//! `doctor`. An operator may accept the loss once, and then it is marked.

use std::path::{Path, PathBuf};
use std::process::Command;

use bellwether::proto::v1;
use bellwether::proto::v1::Level;

use crate::failover::Witness;
use crate::server::{BINARY, Server, command, eventually, get, mk_report, reason, refused};

/// A data directory of a killed server, and what its last readers know.
struct Killed {
    dir: tempfile::TempDir,
    epoch: String,
    token: String,
    revision: u64,
}

impl Killed {
    /// The first report is in the database alone, the second one in the log alone.
    async fn new() -> Killed {
        let dir = tempfile::tempdir().unwrap();
        let mut server = Server::on(dir.path());
        report(&server, "one").await;
        server.terminate();
        server.wait();
        let server = Server::on(dir.path());
        let witness = Witness::of(&server).await;
        let revision = report(&server, "two").await;
        let (epoch, token) = witness.bookmark().await;
        server.kill();
        Killed { dir, epoch, token, revision }
    }

    fn segments(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.dir.path()).unwrap();
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
        paths.retain(|path| path.to_str().unwrap().contains("bellwether.log."));
        paths.sort();
        paths
    }

    fn flags<'a>(&'a self, epoch: &'a str) -> [&'a str; 4] {
        ["--data-dir", self.dir.path().to_str().unwrap(), "--accept-data-loss", epoch]
    }

    /// Checks that neither `serve` nor `doctor` accept the files, and that both give this reason.
    fn check_refused(&self, reason: &str) {
        let (code, said) = refused(&self.flags("0000000000000000-0"));
        assert_eq!(code, Some(1), "{said}");
        for part in [reason, &format!("start once with --accept-data-loss {}", self.epoch)] {
            assert!(said.contains(part), "{part:?} is not in {said}");
        }
        let (code, said) = doctor(self.dir.path());
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains("× database") && said.contains(reason), "{said}");
    }

    /// Accepts the loss, and checks that it is marked, and that it is accepted once.
    async fn check_accepted(&self) {
        let log = tempfile::NamedTempFile::new().unwrap();
        let mut accepting = command(&self.flags(&self.epoch));
        accepting.stderr(log.reopen().unwrap());
        let mut server = Server::spawn(accepting);
        let said = std::fs::read_to_string(log.path()).unwrap();
        let warned =
            |line: &str| line.contains("\"WARN\"") && line.contains("acknowledged commits");
        assert!(said.lines().any(warned), "{said}");
        let lost = self.epoch.replace("-0", "-1");
        let mut applications = server.applications().await;
        eventually("web is uncertain", async || {
            let web = applications.get_application(get("web")).await.unwrap().into_inner();
            let web = web.application.unwrap();
            let is_uncertain = web.status.unwrap().reason == "Uncertain";
            (is_uncertain && self.revision < web.revision).then_some(())
        })
        .await;
        let resume_token = self.token.clone();
        let resumed = v1::WatchApplicationsRequest { resume_token, ..Default::default() };
        let resumed = applications.watch_applications(resumed).await;
        let expired = match resumed {
            Ok(stream) => stream.into_inner().message().await.unwrap_err(),
            Err(status) => status,
        };
        assert_eq!(reason(&expired), "RESUME_TOKEN_EXPIRED");
        assert_eq!(Witness::of(&server).await.bookmark().await.0, lost);
        report(&server, "three").await;
        server.terminate();
        server.wait();
        let server = Server::start(&self.flags(&self.epoch));
        assert_eq!(Witness::of(&server).await.bookmark().await.0, lost);
        let web = server.applications().await.get_application(get("web")).await;
        let status = web.unwrap().into_inner().application.unwrap().status.unwrap();
        assert_eq!((status.message.as_str(), status.level()), ("three", Level::Active));
    }
}

/// Reports a message of web/0. Returns the revision.
async fn report(server: &Server, message: &str) -> u64 {
    let report = mk_report("web", "web/0", Level::Active, message);
    server.reports().await.report_status(report).await.unwrap().into_inner().revision
}

fn doctor(dir: &Path) -> (Option<i32>, String) {
    let mut command = Command::new(BINARY);
    command.args(["doctor", "--data-dir"]).arg(dir).env("LC_ALL", "C.UTF-8");
    let output = command.output().unwrap();
    (output.status.code(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_log_is_refused_until_its_loss_is_accepted() {
    let killed = Killed::new().await;
    for segment in killed.segments() {
        std::fs::remove_file(segment).unwrap();
    }
    killed.check_refused("is missing (bellwether.log.*)");
    killed.check_accepted().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_segment_is_refused_and_kept() {
    let killed = Killed::new().await;
    let segment = killed.segments().remove(0);
    let mut bytes = std::fs::read(&segment).unwrap();
    bytes[17] ^= 4;
    std::fs::write(&segment, &bytes).unwrap();
    killed.check_refused("its header is damaged");
    assert_eq!(std::fs::read(&segment).unwrap(), bytes);
    killed.check_accepted().await;
    let kept = format!("{}.lost-{}", segment.display(), killed.epoch.replace("-0", "-1"));
    assert_eq!(std::fs::read(kept).unwrap(), bytes);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_without_its_database_is_refused() {
    let killed = Killed::new().await;
    let database = killed.dir.path().join("bellwether.redb");
    std::fs::remove_file(&database).unwrap();
    let (code, said) = refused(&["--data-dir", killed.dir.path().to_str().unwrap()]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("bellwether.redb is missing, and its log"), "{said}");
    let (code, said) = doctor(killed.dir.path());
    assert!(code == Some(1) && said.contains("is missing, and its log"), "{said}");
    assert!(!database.exists(), "nothing is created beside the log");
}

/// `doctor` reads a database that the next start repairs, and its log, and changes neither.
#[tokio::test(flavor = "multi_thread")]
async fn the_doctor_reads_what_a_killed_server_left() {
    let killed = Killed::new().await;
    let read = |path: &Path| std::fs::read(path).unwrap();
    let database = killed.dir.path().join("bellwether.redb");
    let (before, segment) = (read(&database), killed.segments().remove(0));
    let log = read(&segment);
    let (code, said) = doctor(killed.dir.path());
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("the next start adds 1 groups from the log"), "{said}");
    let mut torn = log.clone();
    let end = torn.iter().rposition(|byte| *byte != 0).unwrap();
    torn[end] ^= 1;
    std::fs::write(&segment, &torn).unwrap();
    let (_, said) = doctor(killed.dir.path());
    assert!(said.contains("incomplete group") || said.contains("is damaged"), "{said}");
    assert!(read(&database) == before && read(&segment) == torn);
}
