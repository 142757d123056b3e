//! Measures the core alone: the time of deciding, explaining and expiring as an application grows.
//!
//! `make bench-core`; a name selects benchmarks: `make bench-core ARGS=derive`.

use bellwether::domain::classify::finding::{ErrorOrigin, Evidence, Finding, Hints};
use bellwether::domain::classify::{Rules, classify};
use bellwether::domain::command::Request;
use bellwether::domain::derive::{Derived, derive};
use bellwether::domain::transition::Transition;
use bellwether::watch::blockers::Blocker;
use bellwether_bench::fixture::Fixture;
use bellwether_bench::needs;
use divan::Bencher;
use divan::counter::ItemsCount;

// The allocator of the server.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Statuses of the application: from a small one to ten times the recommended maximum.
const STATUSES: [u64; 5] = [100, 1000, 10_000, 100_000, 1_000_000];
/// Reports in the mailbox of a busy application.
const BATCH: u64 = 64;

fn main() {
    divan::main();
}

fn fixture(statuses: u64) -> Fixture {
    Fixture::of(statuses).expect("statuses within the limits")
}

/// Returns requests that change one status after another, so that no sample finds its status in the
/// cache.
fn batches(fixture: &Fixture, batch: u64) -> impl FnMut() -> Vec<Request> {
    let statuses = fixture.state().status_count() as u64;
    let mut made = 0;
    let requests = fixture.requests(0, 10 * BATCH.max(batch)).expect("requests within the limits");
    assert!(batch <= statuses);
    move || {
        let at = made % 10 * batch;
        made += 1;
        requests[at as usize..(at + batch) as usize].to_vec()
    }
}

/// Measures one report that changes a level, decided alone.
#[divan::bench(args = STATUSES)]
fn apply_one(bencher: Bencher<'_, '_>, statuses: u64) {
    decide(bencher, statuses, 1);
}

/// Measures 64 such reports in one commit; the time is that of the whole batch.
#[divan::bench(args = STATUSES)]
fn apply_64(bencher: Bencher<'_, '_>, statuses: u64) {
    decide(bencher, statuses, BATCH);
}

fn decide(bencher: Bencher<'_, '_>, statuses: u64, batch: u64) {
    let fixture = fixture(statuses);
    bencher.counter(ItemsCount::new(batch)).with_inputs(batches(&fixture, batch)).bench_local_refs(
        |batch| -> Transition { fixture.decide(batch).expect("nothing is refused") },
    );
}

/// Measures an explanation: the winner and the first hundred statuses that it beat.
#[divan::bench(args = STATUSES)]
fn derive_page(bencher: Bencher<'_, '_>, statuses: u64) {
    let fixture = fixture(statuses);
    bencher.bench_local(|| -> Derived { derive(fixture.state(), 100) });
}

/// Applications of a fleet, each with five needs: a large one, and ten times that.
const FLEETS: [usize; 2] = [10_000, 100_000];

/// Measures one evaluation of the needs of a fleet, with its list of what blocks: 50,000 and
/// 500,000 needs.
#[divan::bench(args = FLEETS, sample_count = 20, sample_size = 1)]
fn blockers(bencher: Bencher<'_, '_>, applications: usize) {
    let hub = needs::fleet(applications, 5);
    bencher.bench_local(|| -> Vec<Blocker> {
        let evaluation = hub.evaluate(needs::NOW, &|_| true).expect("within the limit");
        let listing = evaluation.list(None);
        evaluation.page(&listing, 0, 100)
    });
}

/// Measures a commit that expires statuses: every ttl has passed, and one commit takes at most
/// 10,000.
#[divan::bench(args = STATUSES, sample_count = 10, sample_size = 1)]
fn expire(bencher: Bencher<'_, '_>, statuses: u64) {
    let fixture = fixture(statuses);
    bencher.bench_local(|| -> Transition { fixture.decide_expired() });
}

/// Errors: a bare code, a code of AWS, a text of etcd, an exception, an SQLSTATE, and texts of helm
/// that the last row has and that no row has.
const ERRORS: [(&str, &str, &str, &str); 7] = [
    ("grpc", "UNAVAILABLE", "", "connection refused"),
    ("http", "400", "ThrottlingException", "Rate exceeded"),
    ("grpc", "FAILED_PRECONDITION", "", "etcdserver: not leader"),
    ("python", "psycopg.errors.UniqueViolation", "", "duplicate key value violates a constraint"),
    ("postgresql", "40001", "", "could not serialize access due to concurrent update"),
    ("helm", "", "", "UPGRADE FAILED: failed to untar: a file or directory with the name x exists"),
    (
        "helm",
        "",
        "",
        "UPGRADE FAILED: something of 160 bytes that no row of the tables of helm and of \
     Kubernetes has, so that every part of a message that they have is looked for in it",
    ),
];

/// Measures the class of one error, without custom rules.
#[divan::bench(args = 0..ERRORS.len())]
fn classify_one(bencher: Bencher<'_, '_>, error: usize) {
    let (system, code, reason, message) = ERRORS[error];
    let evidence = Evidence {
        system: system.into(),
        code: code.into(),
        origin: ErrorOrigin::Peer,
        outcome: None,
        domain: "".into(),
        reason: reason.into(),
        message: message.into(),
        retry_after: None,
        hints: Hints::default(),
    };
    let rules = Rules::default();
    bencher.bench_local(|| -> Finding { classify(&rules, &evidence) });
}
