//! The process itself, under the names that exporters of Prometheus have in common.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use opentelemetry::metrics::Meter;
use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};

use super::gauge;

/// Registers the metrics of the process with `meter`.
pub(super) fn register(meter: &Meter) {
    meter
        .f64_observable_counter("process.cpu")
        .with_unit("s")
        .with_description("Processor time of the process, of user and system together.")
        .with_callback(|observer| observer.observe(cpu_seconds(), &[]))
        .build();
    gauge::register(
        meter,
        "process.resident_memory",
        "By",
        "Resident memory of the process.",
        || Some(statm(1)? * rustix::param::page_size() as u64),
    );
    gauge::register(
        meter,
        "process.virtual_memory",
        "By",
        "Virtual memory of the process.",
        || Some(statm(0)? * rustix::param::page_size() as u64),
    );
    gauge::register(meter, "process.open_fds", "", "File descriptors that are open.", || {
        Some(std::fs::read_dir("/proc/self/fd").ok()?.count() as u64)
    });
    gauge::register(meter, "process.max_fds", "", "File descriptors that may be open.", || {
        getrlimit(Resource::Nofile).current
    });
    gauge::register(meter, "process.threads", "", "Threads of the process.", || {
        Some(std::fs::read_dir("/proc/self/task").ok()?.count() as u64)
    });
    // The metrics are registered at the start of the process.
    let start = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    meter
        .f64_observable_gauge("process.start_time")
        .with_unit("s")
        .with_description("Start of the process, in Unix time.")
        .with_callback(move |observer| observer.observe(start, &[]))
        .build();
}

fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or_default()).as_secs_f64()
}

/// Returns a number of pages of `/proc/self/statm`.
fn statm(place: usize) -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    text.split_whitespace().nth(place)?.parse().ok()
}
