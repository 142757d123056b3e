//! The memory of a server.

use std::time::Duration;

use anyhow::Context;
use tokio::time::{Instant, sleep};

/// The pause between two looks.
const PAUSE: Duration = Duration::from_millis(250);

/// Returns the resident memory of a process, in bytes.
pub fn now(id: u32) -> anyhow::Result<u64> {
    read(id, "VmRSS:")
}

/// Returns the most that it was since [`forget_peak`], in bytes.
pub fn peak(id: u32) -> anyhow::Result<u64> {
    read(id, "VmHWM:")
}

/// Makes the present memory the peak. A kernel without this file keeps that of the whole life.
pub fn forget_peak(id: u32) {
    let _kept = std::fs::write(format!("/proc/{id}/clear_refs"), "5");
}

/// Waits until the memory is no more than `allowed`, at most this long; returns what it is then.
pub async fn given_back(id: u32, allowed: u64, wait: Duration) -> anyhow::Result<u64> {
    let until = Instant::now() + wait;
    loop {
        let bytes = now(id)?;
        if bytes <= allowed || until <= Instant::now() {
            return Ok(bytes);
        }
        sleep(PAUSE).await;
    }
}

fn read(id: u32, name: &str) -> anyhow::Result<u64> {
    let path = format!("/proc/{id}/status");
    let status = std::fs::read_to_string(&path).with_context(|| format!("read {path}"))?;
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kibibytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    Ok(1024 * kibibytes.with_context(|| format!("no {name} in {path}"))?)
}
