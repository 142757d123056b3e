//! `silence`: many units whose ttl ends at the same moment fall silent. Measures how long
//! until each is judged and a watcher receives it; beside leases in etcd that end with their keys.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use bellwether::proto::v1::application_service_client::ApplicationServiceClient;
use bellwether::proto::v1::watch_applications_response::Event;
use bellwether::proto::v1::worker_service_client::WorkerServiceClient;
use bellwether::proto::v1::{DeleteApplicationRequest, RegisterUnitRequest};
use bellwether::proto::v1::{WatchApplicationsRequest, WatchApplicationsResponse};
use futures_util::stream::{self, StreamExt, TryStreamExt};
use hdrhistogram::Histogram;
use tokio::time::Instant;
use tonic::transport::Channel;
use tonic::{Status, Streaming};

use crate::Load;
use crate::delay::{self, DelayRow, DelaySide};
use crate::ingest::Store;
use crate::machine::Machine;
use crate::replicas::Peer;
use crate::report::Report;
use crate::rounds::{self, Contender};
use crate::scalar::{AnyRow, Done, ScalarRow, ScalarSide, Target};
use crate::testbed::Testbed;
use crate::{lease, open_loop, runtime};

/// Flags of `silence`.
#[derive(Debug, clap::Args)]
pub struct Silence {
    /// Units that fall silent together
    #[arg(long, default_value_t = 100_000)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub units: u64,
    /// Numbers of applications that they are spread over, each measured
    #[arg(long, value_delimiter = ',', default_values_t = [100, 10], value_name = "COUNT")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub applications: Vec<u64>,
    /// Leases in etcd that end together; it ends some hundred a second, however many there are
    #[arg(long, default_value_t = 10_000)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub leases: u64,
    /// Store of our server
    #[arg(long, value_enum, default_value_t = Store::Embedded)]
    pub store: Store,
    /// The peer to measure
    #[arg(long, value_enum, default_value_t = Peer::Etcd)]
    pub peer: Peer,
    /// The load of each measurement.
    #[command(flatten)]
    pub load: Load,
}

/// The limit for the judgement and publication of all units.
const ALL_TARGET_SECONDS: f64 = 1.0;
/// Calls open at once while units register. Each takes room for 1 MiB of answer, of the 256 MiB
/// that the server allows the address of the load.
const REGISTERING_MAX: usize = 256;
/// One unit in so many registers first, to estimate the time for all.
const PILOTS_ONE_IN: u64 = 50;
/// The least time between the last registration and the moment of silence.
const LEAD_MIN: Duration = Duration::from_secs(3);
/// The shortest ttl that a server accepts.
const PROMISE_MIN: Duration = Duration::from_secs(1);
/// Attempts to choose that moment, each twice as far away as the last.
const LEADS_MAX: u32 = 4;
/// How early a unit may fall silent: its ttl and the time of its report have whole milliseconds.
const EARLY_MAX: Duration = Duration::from_millis(3);
/// A watch without events for this long counts as stuck.
const QUIET_MAX: Duration = Duration::from_secs(30);

/// Runs the command.
pub async fn run(args: Silence) -> anyhow::Result<()> {
    let site = args.load.site()?;
    let machine = Machine::look(&site.directory);
    let testbed = Testbed::start(args.store, args.peer, "", &site).await?;
    let (address, connections) = (testbed.server.grpc, args.load.connections as usize);
    let name = Testbed::name();
    let mut contenders = Vec::new();
    for &applications in &args.applications {
        let work = format!("{name}, {applications} applications");
        let units = args.units;
        contenders.push(Contender::new(work, move |first| {
            let flock = Flock::of(units, applications, first);
            Box::pin(runtime::apart(flock.fall_silent(address, connections)))
        }));
    }
    if let Some(etcd) = &testbed.etcd {
        let (address, leases) = (etcd.address, args.leases);
        contenders.push(Contender::new(format!("etcd {}", etcd.version), move |first| {
            Box::pin(runtime::apart(leases_end(address, connections, leases, first)))
        }));
    }
    let measured = rounds::alternate(&contenders, args.load.rounds).await?;
    let mut sides = contenders.iter().map(|contender| contender.name.as_str()).zip(&measured);
    let ours: Vec<_> = sides.by_ref().take(args.applications.len()).collect();
    let peer = sides.next();
    let mut rows = Vec::new();
    for (applications, (_, rounds)) in args.applications.iter().zip(ours) {
        let what = format!("silent units of {applications} applications");
        rows.extend(compare(&what, (&name, rounds), peer.map(|(name, r)| (name, &r[..])))?);
    }
    let leases = testbed.etcd.as_ref().map_or(0, |_| args.leases);
    let beside = match leases {
        0 => String::new(),
        _ => format!("; {leases} leases in etcd, a key each"),
    };
    let sent = Done {
        workers: args.units,
        peer_workers: leases,
        connections: args.load.connections,
        rounds: args.load.rounds,
        how: format!(
            "registered, {}; each promise ends in the same moment, from which times count{beside}",
            testbed.place(args.store),
        ),
    };
    Report { machine, sent, rows }.print(args.load.json)
}

/// Returns the rows: the time until all were judged, the rate, and the delay of each.
fn compare(
    what: &str,
    (name, ours): (&str, &[Histogram<u64>]),
    peer: Option<(&str, &[Histogram<u64>])>,
) -> anyhow::Result<[AnyRow; 3]> {
    let beside = peer.map_or("", |_| ", beside etcd's leases");
    let all = |round: &Histogram<u64>| round.max() as f64 / 1e6;
    let rate = |round: &Histogram<u64>| round.len() as f64 / all(round).max(1e-6);
    let delays = |name: &str, rounds: &[Histogram<u64>]| {
        DelaySide::spanning(name, &rounds.iter().collect::<Vec<_>>())
    };
    let until_all = ScalarRow::compare(
        format!("All {what} judged and published"),
        "seconds",
        ScalarSide::greatest(name, ours.iter().map(all).collect()),
        None,
        Some(Target::AtMost(ALL_TARGET_SECONDS)),
    );
    let rates = ScalarRow::compare(
        format!("How fast {what} are judged{beside}"),
        "per second",
        ScalarSide::mean(name, ours.iter().map(rate).collect()),
        peer.map(|(name, rounds)| ScalarSide::mean(name, rounds.iter().map(rate).collect())),
        None,
    );
    let each = DelayRow::compare(
        &format!("From the deadline until a watcher knows, each of the {what}{beside}"),
        delays(name, ours)?,
        peer.map(|(name, rounds)| delays(name, rounds)).transpose()?,
        None,
    );
    Ok([AnyRow::Scalar(until_all), AnyRow::Scalar(rates), AnyRow::Delay(each)])
}

/// The units of one round, in a namespace of their own.
#[derive(Debug, Clone)]
struct Flock {
    namespace: String,
    units: u64,
    applications: u64,
}

impl Flock {
    fn of(units: u64, applications: u64, round: u64) -> Flock {
        Flock { namespace: format!("silence-{round:x}-{applications}"), units, applications }
    }

    async fn fall_silent(
        self,
        address: SocketAddr,
        connections: usize,
    ) -> anyhow::Result<Histogram<u64>> {
        let channels = open_loop::connect(address, connections).await?;
        let start = Instant::now();
        let pilots = self.units.div_ceil(PILOTS_ONE_IN);
        self.register(&channels, pilots, None).await?;
        let all = start.elapsed() * u32::try_from(self.units.div_ceil(pilots)).unwrap_or(u32::MAX);
        // Half as long again: registration slows down as units are added, on a busy machine by
        // much.
        let mut lead = LEAD_MIN + all.mul_f64(1.5);
        let mut end = Instant::now() + lead;
        for _ in 0..LEADS_MAX {
            self.register(&channels, self.units, Some(end)).await?;
            if Instant::now() + PROMISE_MIN <= end {
                break;
            }
            lead *= 2;
            end = Instant::now() + lead;
        }
        ensure!(Instant::now() < end, "units take too long to register; give fewer --units");
        let watcher = open_loop::connect(address, 1).await?.remove(0);
        let watch = self.watch(watcher.clone()).await?;
        let delays = self.judged(watch, end).await?;
        self.delete(&channels).await?;
        Ok(delays)
    }

    fn application(&self, number: u64) -> String {
        format!("app-{:04}", number % self.applications)
    }

    /// Registers the first units, with a ttl that ends at `end`.
    async fn register(
        &self,
        channels: &[Channel],
        count: u64,
        end: Option<Instant>,
    ) -> anyhow::Result<()> {
        let calls = stream::iter(0..count).map(|number| {
            let channel = channels[number as usize % channels.len()].clone();
            async move {
                let left = end.map(|end| end.saturating_duration_since(Instant::now()));
                if left.is_some_and(|left| left < PROMISE_MIN) {
                    // Too late for this moment: all register again for a later one.
                    return Ok(());
                }
                let ttl = left.map(prost_types::Duration::try_from).transpose();
                let application = self.application(number);
                let request = RegisterUnitRequest {
                    namespace: self.namespace.clone(),
                    unit: format!("{application}/{}", number / self.applications),
                    application,
                    ttl: ttl.map_err(|error| Status::internal(error.to_string()))?,
                    ..RegisterUnitRequest::default()
                };
                WorkerServiceClient::new(channel).register_unit(request).await.map(drop)
            }
        });
        let registered: Result<(), Status> =
            calls.buffer_unordered(REGISTERING_MAX).try_collect().await;
        registered.context("register units")
    }

    async fn watch(
        &self,
        channel: Channel,
    ) -> anyhow::Result<Streaming<WatchApplicationsResponse>> {
        let namespace = self.namespace.clone();
        let request = WatchApplicationsRequest { namespace, ..Default::default() };
        let mut client = ApplicationServiceClient::new(channel);
        Ok(client.watch_applications(request).await.context("watch")?.into_inner())
    }

    /// Measures how long after `end` a watcher received each unit.
    async fn judged(
        &self,
        mut watch: Streaming<WatchApplicationsResponse>,
        end: Instant,
    ) -> anyhow::Result<Histogram<u64>> {
        let mut delays = delay::histogram()?;
        let mut judged: HashMap<String, u64> = HashMap::new();
        while delays.len() < self.units {
            let quiet_until = end.max(Instant::now()) + QUIET_MAX;
            let answer = loop {
                let answer = tokio::time::timeout_at(quiet_until, watch.message()).await;
                let answer = answer.with_context(|| {
                    let (known, units) = (delays.len(), self.units);
                    format!("only {known} of {units} units are judged, and nothing more happens")
                })?;
                match answer?.context("the watch has ended")?.event {
                    Some(Event::Upserted(application)) => break application,
                    Some(Event::Drain(_)) | None => bail!("the server drains the watch"),
                    Some(_) => {}
                }
            };
            let now = Instant::now();
            let status = answer.status.unwrap_or_default();
            let silent = (status.stale_units + status.lost_units) as u64;
            let before = judged.insert(answer.name, silent).unwrap_or(0);
            if before < silent {
                ensure!(end <= now + EARLY_MAX, "units fell silent before their time");
                let late = now.saturating_duration_since(end);
                delay::record(&mut delays, late, silent - before);
            }
        }
        Ok(delays)
    }

    /// Deletes the applications, so that the next round starts with the same server.
    async fn delete(&self, channels: &[Channel]) -> anyhow::Result<()> {
        for number in 0..self.applications.min(self.units) {
            let request = DeleteApplicationRequest {
                namespace: self.namespace.clone(),
                application: self.application(number),
                ..DeleteApplicationRequest::default()
            };
            let mut client = ApplicationServiceClient::new(channels[0].clone());
            client.delete_application(request).await.context("delete an application")?;
        }
        Ok(())
    }
}

async fn leases_end(
    address: SocketAddr,
    connections: usize,
    count: u64,
    round: u64,
) -> anyhow::Result<Histogram<u64>> {
    let channels = open_loop::connect(address, connections).await?;
    let watch = lease::watch(open_loop::connect(address, 1).await?.remove(0), round).await?;
    let start = Instant::now();
    let pilots = count.div_ceil(PILOTS_ONE_IN);
    // Far in the future, and not among the watched leases.
    let later = Instant::now() + Duration::from_secs(3600);
    lease::make(&channels, round + 1, pilots, later).await?;
    let all = start.elapsed() * u32::try_from(count.div_ceil(pilots)).unwrap_or(u32::MAX);
    let end = Instant::now() + LEAD_MIN + all.mul_f64(1.5);
    lease::make(&channels, round, count, end).await?;
    lease::deletions(watch, count, end).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_side_counts_from_the_deadline() {
        let round = |micros: u64, count| {
            let mut delays = delay::histogram().unwrap();
            delay::record(&mut delays, Duration::from_micros(micros), count);
            delays
        };
        let ours = [round(500_000, 1000), round(1_000_000, 1000)];
        let peer = [round(10_000_000, 1000), round(10_000_000, 1000)];
        let rows = compare("units", ("ours", &ours), Some(("etcd", &peer))).unwrap();
        let [AnyRow::Scalar(all), AnyRow::Scalar(rates), AnyRow::Delay(each)] = rows else {
            panic!("other rows");
        };
        assert!((1.0..1.001).contains(&all.ours.value), "{all:?}");
        assert!((14.9..15.1).contains(&rates.ratio.unwrap().value), "{rates:?}");
        assert_eq!((each.ours.count, each.peer.unwrap().count), (2000, 2000));
    }
}
