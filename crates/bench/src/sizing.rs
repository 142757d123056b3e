//! `sizing`: what a fleet costs its server. Units report at a fixed rate, as workers on timers do,
//! and one watcher follows everything; measured are processor time, memory, disk and delay.

use std::fmt::{self, Display, Formatter};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, ensure};
use bellwether::proto::v1;
use bellwether::proto::v1::application_service_client::ApplicationServiceClient;
use bellwether::proto::v1::report_service_client::ReportServiceClient;
use futures_util::{StreamExt, TryStreamExt, stream};
use serde::Serialize;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tonic::transport::Channel;

use crate::figure::{duration, number, thousands};
use crate::machine::Machine;
use crate::memory::channels;
use crate::server::{Place, Server};
use crate::{Load, page, process, runtime};

/// Flags of `sizing`.
#[derive(Debug, clap::Args)]
pub struct Sizing {
    /// Numbers of applications, each measured with a fresh server
    #[arg(long, value_delimiter = ',', default_value = "100,1000,5000,20000")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub applications: Vec<u64>,
    /// Units of each application
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub units: u64,
    /// Seconds between two reports of a unit
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub every: u64,
    /// Write the table into a page that has a block for it
    #[arg(long, value_name = "FILE")]
    pub page: Option<PathBuf>,
    /// The load of each measurement.
    #[command(flatten)]
    pub load: Load,
}

/// The block of the page that has the table.
const PAGE_BLOCK: &str = "bench sizing";
/// One report of so many changes its message; the others are repeats.
const CHANGES_EVERY: u64 = 10;
/// Calls open at once while the fleet is made.
const IN_FLIGHT: usize = 256;

/// The report of all fleets.
#[derive(Debug, Serialize)]
struct Table {
    machine: Machine,
    sent: String,
    rows: Vec<Fleet>,
}

/// What one fleet cost.
#[derive(Debug, Clone, Serialize)]
struct Fleet {
    applications: u64,
    units: u64,
    /// Reports in a second.
    reports: f64,
    /// Seconds of processor time of the server in a second.
    cores: f64,
    /// The most resident bytes of the server until the end.
    memory_bytes: u64,
    /// Bytes of the files of the store at the end.
    disk_bytes: u64,
    /// Seconds from when a report was due to its answer: 99 of 100 are faster.
    answer_seconds: f64,
}

/// Runs the command.
pub async fn run(args: Sizing) -> anyhow::Result<()> {
    if let Some(path) = &args.page {
        page::check(path, PAGE_BLOCK)?;
    }
    let site = args.load.site()?;
    let machine = Machine::look(&site.directory);
    let mut rows = Vec::new();
    for applications in &args.applications {
        eprintln!("{} applications ...", thousands(*applications as f64));
        let server = Server::start(&Place::Embedded, &site).await?;
        let plan = Plan::of(&args, *applications, &server);
        let (reports, cpu_seconds, answer_seconds) = runtime::apart(plan.measure()).await?;
        let seconds = args.load.seconds as f64;
        rows.push(Fleet {
            applications: *applications,
            units: applications * args.units,
            reports: reports as f64 / seconds,
            cores: cpu_seconds / seconds,
            memory_bytes: peak_bytes(server.id())?,
            disk_bytes: bytes_below(server.directory())?,
            answer_seconds,
        });
    }
    let table = Table { machine, sent: args.sent(), rows };
    match args.load.json {
        true => println!("{}", serde_json::to_string_pretty(&table)?),
        false => print!("{table}"),
    }
    args.page.as_ref().map_or(Ok(()), |path| page::write(path, PAGE_BLOCK, &table.to_string()))
}

impl Sizing {
    fn sent(&self) -> String {
        format!(
            "{} units of each application, a report of each every {} s by a call, 1 of \
             {CHANGES_EVERY}\n         with a new message; one watcher of everything; embedded \
             store with fsync;\n         {} s each after {} s of warm-up, {} connections",
            self.units, self.every, self.load.seconds, self.load.warm_up, self.load.connections,
        )
    }
}

/// The work on one server.
struct Plan {
    applications: u64,
    units: u64,
    interval: Duration,
    address: SocketAddr,
    id: u32,
    load: Load,
}

impl Plan {
    fn of(args: &Sizing, applications: u64, server: &Server) -> Plan {
        let units = applications * args.units;
        Plan {
            applications,
            units,
            interval: Duration::from_secs(args.every).div_f64(units as f64),
            address: server.grpc,
            id: server.id(),
            load: args.load.clone(),
        }
    }

    /// Returns the number of reports, the processor time and the delay of the window.
    async fn measure(self) -> anyhow::Result<(usize, f64, f64)> {
        let channels = channels(self.address, self.load.connections as usize)?;
        let all = stream::iter(0..self.units).map(|number| {
            send(channels[number as usize % channels.len()].clone(), self.report(number))
        });
        all.buffer_unordered(IN_FLIGHT).try_for_each(|()| async { Ok(()) }).await?;
        let mut applications = ApplicationServiceClient::new(channels[0].clone());
        let all = v1::WatchApplicationsRequest::default();
        let watch = applications.watch_applications(all).await;
        let mut watch = watch.context("watch everything")?.into_inner();
        let reader = tokio::spawn(async move {
            while watch.message().await?.is_some() {}
            anyhow::Ok(())
        });
        self.send_for(&channels, self.load.warm_up(), self.units).await?;
        let before = process::cpu_seconds(self.id)?;
        let first = 2 * self.units;
        let mut delays = self.send_for(&channels, self.load.window(), first).await?;
        let used = process::cpu_seconds(self.id)? - before;
        ensure!(!reader.is_finished(), "the watch has ended");
        reader.abort();
        delays.sort_by(f64::total_cmp);
        let slow = delays.get(delays.len() * 99 / 100).context("nothing was sent")?;
        Ok((delays.len(), used, *slow))
    }

    /// Sends reports when they are due, for a time, and returns the delay of each answer.
    async fn send_for(
        &self,
        channels: &[Channel],
        time: Duration,
        first: u64,
    ) -> anyhow::Result<Vec<f64>> {
        let start = Instant::now();
        let mut calls = JoinSet::new();
        for number in 0.. {
            let due = start + self.interval.mul_f64(number as f64);
            if start + time < due {
                break;
            }
            sleep_until(due).await;
            let channel = channels[number as usize % channels.len()].clone();
            let report = self.report(first + number);
            calls.spawn(async move {
                send(channel, report).await.map(|()| due.elapsed().as_secs_f64())
            });
        }
        let mut delays = Vec::new();
        while let Some(delay) = calls.join_next().await {
            delays.push(delay.context("a report")??);
        }
        Ok(delays)
    }

    /// Returns a report: one unit of each application after the other.
    fn report(&self, number: u64) -> v1::ReportStatusRequest {
        let (unit, turn) = (number % self.units, number / self.units);
        let application = format!("shop-{:06}", unit % self.applications);
        // In each turn another tenth of the units has a new message.
        let changes = (turn + CHANGES_EVERY - 1 - unit % CHANGES_EVERY) / CHANGES_EVERY;
        v1::ReportStatusRequest {
            unit: format!("{application}/{}", unit / self.applications),
            application,
            status: Some(v1::StatusReport {
                kind: v1::StatusKind::Push.into(),
                level: v1::Level::Active.into(),
                message: format!("{changes} orders today, 40461680 KiB are free"),
                ttl: Some(prost_types::Duration { seconds: 3600, nanos: 0 }),
                ..v1::StatusReport::default()
            }),
            ..v1::ReportStatusRequest::default()
        }
    }
}

async fn send(channel: Channel, report: v1::ReportStatusRequest) -> anyhow::Result<()> {
    ReportServiceClient::new(channel).report_status(report).await.context("report")?;
    Ok(())
}

impl Display for Table {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "Machine  {}\nSent     {}\n", self.machine, self.sent)?;
        writeln!(
            f,
            "Applications    Units  Reports/s  Cores  Memory MB  Disk MB  Answer, 99 of 100"
        )?;
        for row in &self.rows {
            let megabytes = |bytes: u64| thousands(bytes as f64 / 1e6);
            writeln!(
                f,
                "{:>12} {:>8} {:>10} {:>6} {:>10} {:>8} {:>18}",
                thousands(row.applications as f64),
                thousands(row.units as f64),
                number(row.reports),
                format!("{:.3}", row.cores),
                megabytes(row.memory_bytes),
                megabytes(row.disk_bytes),
                duration(row.answer_seconds),
            )?;
        }
        Ok(())
    }
}

/// Returns the most resident bytes that a process has had.
fn peak_bytes(id: u32) -> anyhow::Result<u64> {
    let path = format!("/proc/{id}/status");
    let status = std::fs::read_to_string(&path).with_context(|| format!("read {path}"))?;
    parse_peak(&status).with_context(|| format!("no VmHWM in {path}"))
}

fn parse_peak(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    Some(kibibytes << 10)
}

/// Returns the bytes that the files below a folder take.
fn bytes_below(folder: &Path) -> anyhow::Result<u64> {
    use std::os::unix::fs::MetadataExt;
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder).with_context(|| format!("{}", folder.display()))? {
        let entry = entry?;
        let about = entry.metadata()?;
        bytes += match about.is_dir() {
            true => bytes_below(&entry.path())?,
            false => 512 * about.blocks(),
        };
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_memory_is_read() {
        assert_eq!(parse_peak("Name:\tx\nVmHWM:\t    2048 kB\nVmRSS:\t 1 kB\n"), Some(2 << 20));
        assert_eq!(parse_peak("VmRSS:\t 1 kB\n"), None);
    }

    #[test]
    fn one_report_of_ten_has_a_new_message() {
        let load = Load {
            seconds: 1,
            warm_up: 0,
            rounds: 1,
            connections: 1,
            dir: None,
            bellwether: None,
            json: false,
        };
        let plan = Plan {
            applications: 50,
            units: 100,
            interval: Duration::ZERO,
            address: ([127, 0, 0, 1], 1).into(),
            id: 0,
            load,
        };
        let message = |number| plan.report(number).status.unwrap().message;
        for turn in 1..30 {
            let is_new =
                |unit: &u64| message(turn * 100 + unit) != message((turn - 1) * 100 + unit);
            assert_eq!((0..100).filter(is_new).count(), 10, "turn {turn}");
        }
        assert_eq!(plan.report(51).unit, "shop-000001/1");
    }

    #[test]
    fn files_below_a_folder_are_added() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("data")).unwrap();
        std::fs::write(folder.path().join("data/store"), [1; 10_000]).unwrap();
        assert!(bytes_below(folder.path()).unwrap() >= 10_000);
    }
}
