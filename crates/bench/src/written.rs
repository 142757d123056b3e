//! `written`: the bytes that reach the disk for each change, at a fixed rate of changes; beside
//! etcd with puts of the same size.
//!
//! The kernel counts them for the whole disk, so other programs must not write meanwhile. Writes
//! that a side defers belong to it: each round ends when both have been idle for a while and the
//! kernel has written everything.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use prost::Message;

use crate::Load;
use crate::changes::Reports;
use crate::delay::DelaySent;
use crate::etcd::Puts;
use crate::figure::thousands;
use crate::ingest::Store;
use crate::machine::Machine;
use crate::open_loop::{self, Plan, WatchedWork};
use crate::replicas::Peer;
use crate::report::Report;
use crate::rounds::{self, Contender};
use crate::scalar::{AnyRow, ScalarRow, ScalarSide, Target};
use crate::testbed::Testbed;

/// Flags of `written`.
#[derive(Debug, clap::Args)]
pub struct Written {
    /// Changes per second, each of another application
    #[arg(long, default_value_t = 5000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub rate: u32,
    /// Seconds after the load in which a side may write what it has deferred
    #[arg(long, default_value_t = 12)]
    pub settle: u64,
    /// The peer to measure
    #[arg(long, value_enum, default_value_t = Peer::Etcd)]
    pub peer: Peer,
    /// The load of each measurement.
    #[command(flatten)]
    pub load: Load,
}

/// The applications that change in turn, as in `watchers`.
const APPLICATIONS: u64 = 6400;
/// The most bytes of a change.
const BYTES_TARGET: f64 = 4300.0;
/// The unit of the kernel's count.
const SECTOR_BYTES: f64 = 512.0;

/// Runs the command.
pub async fn run(args: Written) -> anyhow::Result<()> {
    let site = args.load.site()?;
    let machine = Machine::look(&site.directory);
    let testbed = Testbed::start(Store::Embedded, args.peer, "", &site).await?;
    let reports = Reports { applications: APPLICATIONS, watchers: 1, sees_all: false };
    let request_bytes = reports.report(0).encoded_len();
    let plan = Plan {
        writes: testbed.server.grpc,
        watcher: testbed.server.grpc,
        watchers: 1,
        connections: args.load.connections as usize,
        rate: args.rate,
        keys: APPLICATIONS,
        warm_up: Duration::ZERO,
        window: args.load.warm_up() + args.load.window(),
    };
    let disk = Disk::of(&site.directory)?;
    let settle = Duration::from_secs(args.settle);
    let mut contenders =
        vec![contender(Testbed::name(), reports, plan.clone(), disk.clone(), settle)];
    if let Some(etcd) = &testbed.etcd {
        let plan = Plan { writes: etcd.address, watcher: etcd.address, ..plan.clone() };
        let puts = Puts::of(request_bytes, APPLICATIONS).watched_by(1, false);
        contenders.push(contender(format!("etcd {}", etcd.version), puts, plan, disk, settle));
    }
    let measured = rounds::alternate(&contenders, args.load.rounds).await?;
    let named = contenders.iter().zip(&measured);
    let mut sides = named.map(|(side, rounds)| ScalarSide::mean(&side.name, rounds.clone()));
    let ours = sides.next().context("our side was not measured")?;
    let peer = sides.next();
    let beside = peer.as_ref().map_or("", |_| ", beside etcd");
    let rate = thousands(f64::from(args.rate));
    let work = format!(
        "Bytes at the disk for each change, {rate} changes a second, {}{beside}",
        testbed.place(Store::Embedded)
    );
    let target = Some(Target::AtMost(BYTES_TARGET));
    let rows = vec![AnyRow::Scalar(ScalarRow::compare(work, "bytes", ours, peer, target))];
    let sent = DelaySent {
        request_bytes,
        per_second: args.rate,
        applications: APPLICATIONS,
        connections: args.load.connections,
        rounds: args.load.rounds,
        seconds: args.load.seconds,
        warm_up_seconds: args.load.warm_up,
    };
    Report { machine, sent, rows }.print(args.load.json)
}

/// Returns the side whose measurement is the bytes of each write.
fn contender<W: WatchedWork>(
    name: String,
    work: W,
    plan: Plan,
    disk: Disk,
    settle: Duration,
) -> Contender<f64> {
    let work = Arc::new(work);
    Contender::new(name, move |first| {
        let round = open_loop::run(work.clone(), plan.clone(), first);
        // Each key is written once before the load.
        let writes = plan.keys as f64 + f64::from(plan.rate) * plan.window.as_secs_f64();
        let disk = disk.clone();
        Box::pin(async move {
            let before = disk.bytes_written()?;
            round.await?.check()?;
            tokio::time::sleep(settle).await;
            Ok((disk.bytes_written()? - before) / writes)
        })
    })
}

/// The block device of a directory.
#[derive(Clone)]
struct Disk {
    directory: PathBuf,
    major: u32,
    minor: u32,
}

impl Disk {
    fn of(directory: &Path) -> anyhow::Result<Disk> {
        let device = rustix::fs::stat(directory)?.st_dev;
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        let disk = Disk { directory: directory.to_path_buf(), major, minor };
        disk.bytes_written()?;
        Ok(disk)
    }

    /// Returns the bytes written since the start of the machine, after the kernel has written
    /// everything that it has.
    fn bytes_written(&self) -> anyhow::Result<f64> {
        rustix::fs::sync();
        let counts = std::fs::read_to_string("/proc/diskstats").context("read /proc/diskstats")?;
        let sectors = sectors_written(&counts, self.major, self.minor).with_context(|| {
            let directory = self.directory.display();
            format!("{directory} is on no disk that the kernel counts; give another --dir")
        })?;
        Ok(sectors as f64 * SECTOR_BYTES)
    }
}

/// Returns the seventh count of a device, after its numbers and its name.
fn sectors_written(counts: &str, major: u32, minor: u32) -> Option<u64> {
    let (major, minor) = (major.to_string(), minor.to_string());
    let mut devices = counts.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let device = devices.find(|fields| fields.starts_with(&[&major, &minor]))?;
    device.get(9)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_found_by_its_numbers() {
        let counts =
            " 254       0 vda 11 2 3 4 50 6 7777 8 0 9\n 254      16 vdb 1 1 1 1 1 1 5 1\n";
        assert_eq!(sectors_written(counts, 254, 0), Some(7777));
        assert_eq!(sectors_written(counts, 254, 16), Some(5));
        assert_eq!(sectors_written(counts, 8, 0), None);
        assert_eq!(sectors_written("254 0 vda", 254, 0), None);
    }
}
