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
    let gauge = |name, unit, text, read: fn() -> Option<u64>| {
        gauge::register(meter, name, unit, text, read);
    };
    gauge("process.resident_memory", "By", "Resident memory of the process.", || statm_bytes(1));
    gauge("process.virtual_memory", "By", "Virtual memory of the process.", || statm_bytes(0));
    gauge("process.open_fds", "", "File descriptors that are open.", || entries("fd"));
    let fds_max = || getrlimit(Resource::Nofile).current;
    gauge("process.max_fds", "", "File descriptors that may be open.", fds_max);
    gauge("process.threads", "", "Threads of the process.", || entries("task"));
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

/// Returns a number of `/proc/self/statm`, which counts pages, in bytes.
fn statm_bytes(place: usize) -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split_whitespace().nth(place)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

/// Counts the entries of a folder of `/proc/self`.
fn entries(folder: &str) -> Option<u64> {
    Some(std::fs::read_dir(format!("/proc/self/{folder}")).ok()?.count() as u64)
}
