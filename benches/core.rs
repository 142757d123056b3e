//! The core by itself: what deciding, explaining and expiring cost as an application grows.
//!
//! `make bench-core`; a name narrows it: `make bench-core ARGS=derive`.

use bellwether::bench::grown::Grown;
use bellwether::domain::command::Request;
use bellwether::domain::derive::{Derived, derive};
use bellwether::domain::transition::Transition;
use divan::Bencher;
use divan::counter::ItemsCount;

// As in the server.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Statuses of the application: from a small one to ten times what one should have.
const STATUSES: [u64; 5] = [100, 1000, 10_000, 100_000, 1_000_000];
/// Reports that a busy application's task finds in its mailbox.
const BATCH: u64 = 64;

fn main() {
    divan::main();
}

fn grown(statuses: u64) -> Grown {
    Grown::of(statuses).expect("statuses within the limits")
}

/// Requests that change one status after another, so that no sample finds its own in the cache.
fn batches(grown: &Grown, batch: u64) -> impl FnMut() -> Vec<Request> {
    let statuses = grown.state().status_count() as u64;
    let mut made = 0;
    let requests = grown.requests(0, 10 * BATCH.max(batch)).expect("requests within the limits");
    assert!(batch <= statuses);
    move || {
        let at = made % 10 * batch;
        made += 1;
        requests[at as usize..(at + batch) as usize].to_vec()
    }
}

/// One report that changes a level, decided alone.
#[divan::bench(args = STATUSES)]
fn apply_one(bencher: Bencher<'_, '_>, statuses: u64) {
    decide(bencher, statuses, 1);
}

/// The same, 64 in a commit; the time is that of all of them.
#[divan::bench(args = STATUSES)]
fn apply_64(bencher: Bencher<'_, '_>, statuses: u64) {
    decide(bencher, statuses, BATCH);
}

fn decide(bencher: Bencher<'_, '_>, statuses: u64, batch: u64) {
    let grown = grown(statuses);
    bencher.counter(ItemsCount::new(batch)).with_inputs(batches(&grown, batch)).bench_local_refs(
        |batch| -> Transition { grown.decide(batch).expect("nothing is refused") },
    );
}

/// The winner and the hundred that it beat first: a page of an explanation.
#[divan::bench(args = STATUSES)]
fn derive_page(bencher: Bencher<'_, '_>, statuses: u64) {
    let grown = grown(statuses);
    bencher.bench_local(|| -> Derived { derive(grown.state(), 100) });
}

/// Every ttl has passed; one commit takes at most 10,000 of them.
#[divan::bench(args = STATUSES, sample_count = 10, sample_size = 1)]
fn expire(bencher: Bencher<'_, '_>, statuses: u64) {
    let grown = grown(statuses);
    bencher.bench_local(|| -> Transition { grown.decide_expired() });
}
