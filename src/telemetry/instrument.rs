//! Instruments that are plain atomics, or functions, which the readers read at collection.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry::metrics::Meter;

use super::label::Label;

/// What is read at each collection, once the server has set it.
pub(super) type Readout<T> = Arc<OnceLock<Box<dyn Fn() -> T + Send + Sync>>>;

/// An instrument of the table of [`Metrics`](super::Metrics).
pub(super) trait Instrument: Sized {
    /// Registers the instrument with `meter`.
    fn register(meter: &Meter, name: &'static str, description: &'static str) -> Self;
}

/// A counter.
pub(super) struct Counter(Arc<AtomicU64>);

impl Counter {
    pub(super) fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }
}

impl Instrument for Counter {
    fn register(meter: &Meter, name: &'static str, description: &'static str) -> Counter {
        let counter = Arc::new(AtomicU64::new(0));
        let read = Arc::clone(&counter);
        meter
            .u64_observable_counter(name)
            .with_description(description)
            .with_callback(move |observer| observer.observe(read.load(Ordering::Relaxed), &[]))
            .build();
        Counter(counter)
    }
}

/// A counter for each value of a label.
pub(super) struct CounterBy<L>(Arc<[AtomicU64]>, PhantomData<L>);

impl<L: Label> CounterBy<L> {
    pub(super) fn count(&self, label: L) {
        self.0[label.place()].fetch_add(1, Ordering::Relaxed);
    }
}

impl<L: Label> Instrument for CounterBy<L> {
    fn register(meter: &Meter, name: &'static str, description: &'static str) -> CounterBy<L> {
        let labels = L::words().into_iter().map(|word| [KeyValue::new(L::NAME, word)]);
        let labels: Vec<_> = labels.collect();
        let counters: Arc<[AtomicU64]> = labels.iter().map(|_| AtomicU64::new(0)).collect();
        let read = Arc::clone(&counters);
        meter
            .u64_observable_counter(name)
            .with_description(description)
            .with_callback(move |observer| {
                for (counter, labels) in read.iter().zip(&labels) {
                    observer.observe(counter.load(Ordering::Relaxed), labels);
                }
            })
            .build();
        CounterBy(counters, PhantomData)
    }
}

/// A number that rises and falls.
pub(super) struct UpDown(Arc<AtomicI64>);

impl UpDown {
    pub(super) fn add(&self, more: i64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    pub(super) fn set(&self, count: usize) {
        self.0.store(i64::try_from(count).unwrap_or(i64::MAX), Ordering::Relaxed);
    }

    /// Counts one until the returned value is dropped.
    pub(super) fn hold(&self) -> HeldCount {
        self.add(1);
        HeldCount(Arc::clone(&self.0))
    }
}

impl Instrument for UpDown {
    fn register(meter: &Meter, name: &'static str, description: &'static str) -> UpDown {
        let number = Arc::new(AtomicI64::new(0));
        let read = Arc::clone(&number);
        meter
            .i64_observable_up_down_counter(name)
            .with_description(description)
            .with_callback(move |observer| observer.observe(read.load(Ordering::Relaxed), &[]))
            .build();
        UpDown(number)
    }
}

/// Something that counts in a metric until it is dropped.
#[derive(Debug)]
#[must_use = "it counts until this is dropped"]
pub struct HeldCount(Arc<AtomicI64>);

impl Drop for HeldCount {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Numbers that a function of the server supplies.
pub(super) struct Supplied<T>(Readout<T>);

impl<T> Supplied<T> {
    /// Sets the function; only the first call has an effect.
    pub(super) fn set(&self, read: impl Fn() -> T + Send + Sync + 'static) {
        let _first_stays = self.0.set(Box::new(read));
    }
}

/// A gauge.
impl Instrument for Supplied<u64> {
    fn register(meter: &Meter, name: &'static str, description: &'static str) -> Supplied<u64> {
        let number = Readout::<u64>::default();
        let read = Arc::clone(&number);
        meter
            .u64_observable_gauge(name)
            .with_description(description)
            .with_callback(move |observer| {
                if let Some(number) = read.get() {
                    observer.observe(number(), &[]);
                }
            })
            .build();
        Supplied(number)
    }
}

/// A counter for each limit, by its name.
pub(super) type Refusals = BTreeMap<String, u64>;

impl Instrument for Supplied<Refusals> {
    fn register(
        meter: &Meter,
        name: &'static str,
        description: &'static str,
    ) -> Supplied<Refusals> {
        let refusals = Readout::<Refusals>::default();
        let read = Arc::clone(&refusals);
        meter
            .u64_observable_counter(name)
            .with_description(description)
            .with_callback(move |observer| {
                for (limit, count) in read.get().into_iter().flat_map(|counts| counts()) {
                    observer.observe(count, &[KeyValue::new("limit", limit)]);
                }
            })
            .build();
        Supplied(refusals)
    }
}

/// A gauge of seconds for each set of files, by its name.
pub(super) type Ages = BTreeMap<&'static str, Duration>;

impl Instrument for Supplied<Ages> {
    fn register(meter: &Meter, name: &'static str, description: &'static str) -> Supplied<Ages> {
        let ages = Readout::<Ages>::default();
        let read = Arc::clone(&ages);
        meter
            .u64_observable_gauge(name)
            .with_unit("s")
            .with_description(description)
            .with_callback(move |observer| {
                for (files, age) in read.get().into_iter().flat_map(|ages| ages()) {
                    observer.observe(age.as_secs(), &[KeyValue::new("files", files)]);
                }
            })
            .build();
        Supplied(ages)
    }
}
