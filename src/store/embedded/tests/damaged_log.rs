//! Every way in which the files of a log are cut, flipped or gone: the start is refused with a
//! name, serves everything, or serves less and says so. A table of the outcomes is printed.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

use crate::domain::name::UnitName;
use crate::domain::status::StatusKey;
use crate::store::embedded::file::Files;
use crate::store::embedded::limits::Limits;
use crate::store::embedded::log::{LogDir, LogFiles};

use super::*;
use crate::store::embedded::stepwise::{Disk, ENOSPC, Image};

/// Limits with which everything stays in the log, in several segments.
const LOG_ALONE: Limits = Limits {
    segment_bytes: 8 << 10,
    durable_bytes: usize::MAX,
    durable_after: Duration::from_secs(3600),
    apply_bytes: usize::MAX,
    bytes_max: usize::MAX,
};
/// The bits of the header of a segment and of its first group.
const HEADER_BITS: usize = 64 * 8;
const CUT_BYTES: usize = 512;

/// What a start with damaged files does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    /// Everything acknowledged is served.
    Whole,
    /// The start is refused with an error that names what is wrong. No file is changed.
    Refused,
    /// Less is served, with a warning that names the last group.
    Warned,
    /// Less is served in silence, or an error names nothing.
    Silent,
}

/// The messages of the warnings on this thread.
#[derive(Clone, Default)]
struct Warnings(Arc<Mutex<String>>);

struct Fields<'a>(&'a mut String);

impl tracing::field::Visit for Fields<'_> {
    fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
        let _ = write!(self.0, "{field}={value:?} ");
    }
}

impl<S: tracing::Subscriber> Layer<S> for Warnings {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        if *event.metadata().level() <= tracing::Level::WARN {
            event.record(&mut Fields(&mut self.0.lock().unwrap()));
        }
    }
}

/// Opens the files, and returns what the observers receive, with the warnings.
fn open(image: &Image, dir: &Path) -> (Result<Vec<Seen>, OpenError>, String) {
    image.write(dir);
    let warnings = Warnings::default();
    let subscriber = tracing_subscriber::registry().with(warnings.clone());
    let opened =
        tracing::subscriber::with_default(subscriber, || EmbeddedStore::open(dir, mk_options()));
    let seen = opened.map(|store| {
        let store: Arc<dyn Store> = Arc::new(store);
        Recorder::on(&store).notified()
    });
    let said = warnings.0.lock().unwrap().clone();
    (seen, said)
}

fn outcome(image: &Image, expected: &[Seen]) -> (Outcome, String) {
    let dir = TempDir::new().unwrap();
    let (seen, warned) = open(image, dir.path());
    match seen {
        Ok(seen) if seen == expected => (Outcome::Whole, warned),
        Ok(_) if warned.contains("last_group=") => (Outcome::Warned, warned),
        Ok(seen) => (Outcome::Silent, format!("{} of {} {warned}", seen.len(), expected.len())),
        Err(error) => {
            let said = error.to_string();
            let is_named = said.contains("bellwether.log.");
            let after = Image::of(dir.path());
            assert_eq!(after.segments, image.segments, "{said}");
            (if is_named { Outcome::Refused } else { Outcome::Silent }, said)
        }
    }
}

/// Returns the files of a killed server whose log has several segments, and what they hold.
async fn mk_killed() -> (Image, Vec<Seen>) {
    let dir = TempDir::new().unwrap();
    drop(EmbeddedStore::open(dir.path(), mk_options()).unwrap());
    let database = dir.path().join("bellwether.redb");
    redb::Database::open(&database).unwrap().compact().unwrap();
    let files = Files { limits: LOG_ALONE, ..Files::of(dir.path()) };
    let store = EmbeddedStore::open_with(dir.path(), mk_options(), files).unwrap();
    let store: Arc<dyn Store> = Arc::new(store);
    let log = LogDir::new(dir.path());
    let mut drivers = Vec::new();
    for app in ["api", "db", "web"] {
        drivers.push(Driver::new(&store, app).await);
    }
    let deadline = std::time::Instant::now() + Duration::from_secs(60);
    let mut n = 0;
    while log.list().unwrap().len() < 5 || n % 3 != 2 {
        n += 1;
        let driver = &mut drivers[n % 3];
        driver.report("u/0", &format!("message {n} {}", "x".repeat(n * 37 % 600))).await;
        assert!(std::time::Instant::now() < deadline, "the log goes on in further segments");
    }
    let newest = *log.list().unwrap().last().unwrap();
    until("the prepared segment is filled", || {
        LOG_ALONE.segment_bytes <= log.read(newest).unwrap().len() as u64
    })
    .await;
    let image = Image::of(dir.path());
    let intact = TempDir::new().unwrap();
    let (seen, warned) = open(&image, intact.path());
    assert!(!warned.contains("the log"), "a kill alone is no reason to warn: {warned}");
    (image, seen.unwrap())
}

/// A change of the files.
#[derive(Debug, Clone, Copy)]
enum Damage {
    /// A bit of a segment.
    Bit(u64, usize),
    /// A segment ends after this number of bytes.
    Cut(u64, usize),
    /// A segment has zeros in place of its header.
    NoHeader(u64),
    NoSegment(u64),
    NoLog,
}

impl Damage {
    fn kind(self) -> &'static str {
        match self {
            Damage::Bit(_, bit) if bit < HEADER_BITS => "bit of the first 64 bytes",
            Damage::Bit(..) => "bit of a group",
            Damage::Cut(..) => "cut after 512 bytes",
            Damage::NoHeader(_) => "header is zero",
            Damage::NoSegment(_) => "segment is missing",
            Damage::NoLog => "database alone",
        }
    }

    fn of(self, image: &Image) -> Image {
        let (database, mut segments) = (image.database.clone(), image.segments.clone());
        match self {
            Damage::NoSegment(n) => drop(segments.remove(&n)),
            Damage::NoLog => segments.clear(),
            Damage::Bit(n, _) | Damage::Cut(n, _) | Damage::NoHeader(n) => {
                self.change(segments.get_mut(&n).unwrap());
            }
        }
        Image { database, segments }
    }

    fn change(self, segment: &mut Vec<u8>) {
        match self {
            Damage::Bit(_, bit) => segment[bit / 8] ^= 1 << (bit % 8),
            Damage::Cut(_, place) => segment.truncate(place),
            Damage::NoHeader(_) => segment[..32].fill(0),
            Damage::NoSegment(_) | Damage::NoLog => {}
        }
    }
}

/// Returns every damage, or a sample.
fn damages(image: &Image, is_sample: bool) -> Vec<Damage> {
    let step = |sampled: usize| if is_sample { sampled } else { 1 };
    let mut all = vec![Damage::NoLog];
    for (&n, bytes) in &image.segments {
        let end = bytes.iter().rposition(|byte| *byte != 0).unwrap_or_default();
        all.extend((0..HEADER_BITS).step_by(step(29)).map(|bit| Damage::Bit(n, bit)));
        // A bit in each of many bytes.
        let bits = (HEADER_BITS + n as usize..8 * end).step_by(step(6) * 297);
        all.extend(bits.map(|bit| Damage::Bit(n, bit)));
        let cuts = (0..bytes.len()).step_by(CUT_BYTES * step(3));
        all.extend(cuts.map(|place| Damage::Cut(n, place)));
        all.extend([Damage::NoHeader(n), Damage::NoSegment(n)]);
    }
    all
}

/// With `BELLWETHER_EACH_DAMAGE` every bit and every cut, otherwise a sample.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_damaged_log_serves_less_in_silence() {
    let (image, expected) = mk_killed().await;
    let is_sample = std::env::var_os("BELLWETHER_EACH_DAMAGE").is_none();
    let mut table: BTreeMap<(&str, Outcome), usize> = BTreeMap::new();
    let mut silent = Vec::new();
    for damage in damages(&image, is_sample) {
        let (outcome, said) = outcome(&damage.of(&image), &expected);
        *table.entry((damage.kind(), outcome)).or_default() += 1;
        if outcome == Outcome::Silent {
            silent.push(format!("{damage:?}: {said}"));
        }
    }
    for ((kind, outcome), count) in &table {
        println!("{kind:<26} {outcome:<8?} {count:>6}");
    }
    assert!(
        silent.is_empty(),
        "{} in silence: {:#?}",
        silent.len(),
        &silent[..silent.len().min(9)]
    );
}

/// The damage is like what a loss of power leaves of a group that was not acknowledged, so a start
/// would go on without the group.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_running_store_changes_nothing_where_an_acknowledged_group_is_missing() {
    let (dir, disk) = (TempDir::new().unwrap(), Disk::default());
    let files = disk.files_with(LOG_ALONE);
    let store = EmbeddedStore::open_with(dir.path(), mk_options(), files).unwrap();
    let store: Arc<dyn Store> = Arc::new(store);
    let mut web = Driver::new(&store, "web").await;
    let text = "x".repeat(2000);
    web.report("web/0", "first").await;
    web.report("web/0", &text).await;
    let image = disk.after_kill();
    let mut segments = image.segments().iter();
    let at = |bytes: &[u8]| bytes.windows(text.len()).rposition(|part| part == text.as_bytes());
    let (segment, place) =
        segments.find_map(|(segment, bytes)| Some((*segment, at(bytes)?))).unwrap();

    disk.fail(Some(ENOSPC));
    assert!(web.commit(web.draft(mk_report("web/0", "full"))).await.is_err());
    assert!(disk.damage(segment, place));
    disk.fail(None);
    let is_refused =
        || store.health().is_err_and(|reason| reason.contains("and group 2 was acknowledged"));
    until("it refuses the log", is_refused).await;
    disk.damage(segment, place);
    until("it serves again", || store.health().is_ok()).await;
    web = Driver::new(&store, "web").await;
    let first = StatusKey::first_of(&UnitName::new("web/0").unwrap());
    let (_, status) = web.state.statuses().from(&first).next().unwrap();
    assert_eq!(*status.report.message, text);
    store.close().await;
}
