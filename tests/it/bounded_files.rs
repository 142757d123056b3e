//! The files and the memory of the embedded store stay bounded under load.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::durability::{check, write_until_killed};
use crate::server::Server;

/// The variable that sets a longer load, in seconds.
const SECONDS: &str = "BELLWETHER_LOAD_SECONDS";
const SECONDS_DEFAULT: u64 = 5;
/// The beginning of the names of the segments.
const LOG: &str = "bellwether.log.";
const LOOK_EVERY: Duration = Duration::from_millis(100);
const WRITERS: usize = 8;

/// Four segments of 16 MiB, each with room for the group that fills it.
const LOG_BYTES_MAX: u64 = 4 * (18 << 20);
/// The statuses of eight units and the newest 1,000 events of three applications, with the pages
/// that their changes leave.
const DATABASE_BYTES_MAX: u64 = 64 << 20;
const MEMORY_BYTES_MAX: u64 = 192 << 20;

/// The greatest sizes so far, in bytes.
#[derive(Debug, Default)]
struct Sizes {
    log: u64,
    database: u64,
    memory: u64,
}

impl Sizes {
    fn note(&mut self, server: &Server, directory: &Path) {
        let (mut log, mut database) = (0, 0);
        // The reserve for deletions has its whole size from the start.
        let grows = |(name, _): &(String, u64)| name != "bellwether.reserve";
        for (name, bytes) in files(directory).into_iter().filter(grows) {
            let of = if name.starts_with(LOG) { &mut log } else { &mut database };
            *of += bytes;
        }
        self.log = self.log.max(log);
        self.database = self.database.max(database);
        self.memory = self.memory.max(server.memory());
    }

    fn check(&self) {
        assert!(self.log <= LOG_BYTES_MAX, "{self:?}");
        assert!(self.database <= DATABASE_BYTES_MAX, "{self:?}");
        assert!(self.memory <= MEMORY_BYTES_MAX, "{self:?}");
    }
}

/// Returns the sizes of the files in a directory by name. A file may be removed meanwhile.
fn files(directory: &Path) -> BTreeMap<String, u64> {
    let entries = std::fs::read_dir(directory).unwrap().flatten();
    let sizes = entries.filter_map(|entry| {
        let name = entry.file_name().into_string().unwrap();
        Some((name, entry.metadata().ok()?.len()))
    });
    sizes.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn files_and_memory_stay_bounded_under_load() {
    let seconds = std::env::var(SECONDS).map_or(SECONDS_DEFAULT, |s| s.parse().unwrap());
    let directory = tempfile::tempdir().unwrap();
    let acknowledged: Arc<Mutex<BTreeMap<String, u64>>> = Arc::default();
    let server = Server::on(directory.path());
    let writers: Vec<_> = (0..WRITERS)
        .map(|w| tokio::spawn(write_until_killed(server.url(), w, acknowledged.clone())))
        .collect();
    let mut sizes = Sizes::default();
    let mut looks = tokio::time::interval(LOOK_EVERY);
    let end = Instant::now() + Duration::from_secs(seconds);
    while Instant::now() < end {
        looks.tick().await;
        sizes.note(&server, directory.path());
        sizes.check();
    }
    assert!(writers.iter().all(|writer| !writer.is_finished()), "a report failed");
    server.kill();
    for writer in writers {
        writer.await.unwrap();
    }
    let mut server = Server::on(directory.path());
    check(&server, &acknowledged).await;
    sizes.note(&server, directory.path());
    sizes.check();
    let count: u64 = acknowledged.lock().unwrap().values().sum();
    println!("{count} reports in {seconds} s, at most {sizes:?}");
    server.terminate();
    server.wait();
    let left = files(directory.path());
    assert!(
        left.keys().all(|name| !name.starts_with(LOG)),
        "a clean close removes the log: {left:?}"
    );
}
