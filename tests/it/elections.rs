//! A register that only the leader writes, tested in the manner of Jepsen: candidates as separate
//! processes, two replicas over a Redis that fails over, and faults of every kind. A former
//! leader's write is never accepted after the first write of its successor, an epoch has one
//! holder, epochs only rise, and acknowledged writes are never lost. Where the test makes Redis
//! lose writes, only the first three hold.
//!
//! `BELLWETHER_ELECTIONS_SECONDS` sets a longer run.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use bellwether::proto::v1;
use bellwether::proto::v1::leader_service_client::LeaderServiceClient;
use tonic::transport::Channel;

use crate::candidate::{Accepted, Candidate, Said, WRITE_MAX, insist, read, register};
use crate::clock::shifting_library;
use crate::dice::Dice;
use crate::failover::has_caught_up;
use crate::leader::configure;
use crate::pair::Pair;
use crate::server::{Server, command, eventually};
use crate::sessions_replicas::TIMES;
use crate::testing::Proxy;

const CANDIDATES: usize = 4;
const SECONDS_DEFAULT: u64 = 15;
/// Longer than the lease of 2 s.
const STANDSTILL: Duration = Duration::from_millis(2500);
/// The interval at which each server is asked for the leader.
const ASK_EVERY: Duration = Duration::from_millis(20);
/// The minimum distance between epochs, and between versions, of different masters.
const COUNTS_PER_MASTER: u64 = 1 << 19;

/// All running processes and the faults that can be injected.
struct Arena {
    dice: Dice,
    candidates: Vec<Candidate>,
    said: mpsc::Sender<Said>,
    servers: [Server; 2],
    ways: [Proxy; 2],
    redis: Pair,
    failovers: usize,
    clock: PathBuf,
    end: Instant,
    _folder: tempfile::TempDir,
}

impl Arena {
    async fn start(durability: &str) -> Option<(Arena, Receiver<Said>)> {
        let redis = Pair::start().await?;
        let seconds = std::env::var("BELLWETHER_ELECTIONS_SECONDS").ok();
        let seconds = seconds.map_or(SECONDS_DEFAULT, |given| given.parse().unwrap());
        let seed = std::env::var("BELLWETHER_ELECTIONS_SEED").ok();
        let seed = seed.map_or_else(|| u64::from(std::process::id()), |s| s.parse().unwrap());
        println!("BELLWETHER_ELECTIONS_SEED={seed}");
        let folder = tempfile::tempdir().unwrap();
        let clock = folder.path().join("clock");
        let address = redis.master.address();
        let ways = [Proxy::to(&address).await, Proxy::to(&address).await];
        let servers = [
            server(&ways[0].url(), durability, &folder.path().join("still"), None),
            server(&ways[1].url(), durability, &clock, shifting_library()),
        ];
        configure(&servers[1], "web", 2).await;
        // Otherwise the first failover could lose the configuration of the short lease.
        has_caught_up(&redis.replica, &redis.master).await;
        let (said, history) = mpsc::channel();
        let urls = servers.each_ref().map(Server::url);
        let candidates = (0..CANDIDATES).map(|n| Candidate::spawn(n, &urls, &said)).collect();
        let arena = Arena {
            dice: Dice(seed),
            candidates,
            said,
            servers,
            ways,
            redis,
            failovers: 0,
            clock,
            end: Instant::now() + Duration::from_secs(seconds),
            _folder: folder,
        };
        Some((arena, history))
    }

    fn goes_on(&self) -> bool {
        Instant::now() < self.end
    }

    /// Returns the leader according to the second server, or any candidate if there is no leader.
    async fn leader(&mut self) -> usize {
        let lease = ask(&mut self.servers[1].leaders().await).await;
        let is_leader = |c: &Candidate| lease.as_ref().is_some_and(|lease| lease.unit == c.unit);
        let found = self.candidates.iter().position(is_leader);
        found.unwrap_or_else(|| self.dice.below(CANDIDATES))
    }

    /// Injects one fault, or only keeps the earlier ones.
    async fn go_wrong(&mut self) {
        let leader = self.leader().await;
        match self.dice.below(8) {
            0 => {
                self.candidates[leader].signal("STOP");
                self.stand_still().await;
                self.candidates[leader].signal("CONT");
            }
            1 => {
                self.candidates[leader] = self.spawn(leader);
            }
            2 => {
                self.servers[0].signal("STOP");
                self.stand_still().await;
                self.servers[0].signal("CONT");
            }
            3 => {
                self.ways[0].black_hole();
                self.stand_still().await;
                self.ways[0].heal();
            }
            4 => {
                let step = ["+3600", "-3600", "+0"][self.dice.below(3)];
                std::fs::write(&self.clock, step).unwrap();
            }
            5 | 6 => self.fail_over().await,
            _ => tokio::time::sleep(Duration::from_secs(1)).await,
        }
    }

    /// Starts a candidate. Candidates with odd numbers prefer the second server.
    fn spawn(&self, n: usize) -> Candidate {
        Candidate::spawn(n, &self.servers.each_ref().map(Server::url), &self.said)
    }

    /// Stops a process for longer than the lease; Redis may fail over meanwhile.
    async fn stand_still(&mut self) {
        let start = Instant::now();
        if self.dice.below(2) == 0 {
            self.fail_over().await;
        }
        tokio::time::sleep(STANDSTILL.saturating_sub(start.elapsed())).await;
    }

    /// Fails over while the Redis replica has all acknowledged writes.
    async fn fail_over(&mut self) {
        match self.dice.below(2) {
            0 => self.redis.hand_over(&self.ways).await,
            _ => self.redis.kill(&self.ways).await,
        }
        self.failovers += 1;
    }

    /// Fails over while the Redis replica lacks the last acknowledged writes, which both servers or
    /// only one of them saw.
    async fn lose(&mut self) {
        self.redis.part().await;
        // The server that first connects to the next master knows nothing of the lost writes.
        let is_alone = self.dice.below(3) == 0;
        if is_alone {
            self.ways[1].cut();
        }
        let (lease, version) = eventually("a leader", async || self.known(0).await).await;
        // The leader whose election is lost runs, or is stopped and continues after the loss.
        let is_leader = |c: &Candidate| c.unit == lease.unit;
        let leader = self.candidates.iter().position(is_leader).unwrap();
        let stands = self.dice.below(2) == 0;
        if stands {
            self.candidates[leader].signal("STOP");
        }
        if is_alone {
            // All remaining candidates may be connected to the other server.
            eventually("another one leads, and writes", async || self.elect(&lease.unit).await)
                .await;
        }
        eventually("another one leads, and writes", async || {
            let (now, at) = self.known(0).await?;
            (now.unit != lease.unit && version < at).then_some(())
        })
        .await;
        tokio::time::sleep(Duration::from_millis(self.dice.below(500) as u64)).await;
        self.redis.hold_writes().await;
        match is_alone {
            true => self.ways[0].cut(),
            false => {
                eventually("both servers have seen all", async || {
                    (self.known(0).await == self.known(1).await).then_some(())
                })
                .await;
            }
        }
        self.redis.kill(&self.ways).await;
        self.failovers += 1;
        self.ways[1].heal();
        if stands {
            self.candidates[leader].signal("CONT");
        }
        if is_alone {
            // A worker stays with a server that is cut off, so all candidates may be on the other
            // one.
            self.candidates[1] = self.spawn(1);
        }
        self.goes_on_after(version, 1).await;
        self.ways[0].heal();
        self.goes_on_after(version, 0).await;
    }

    /// Waits until a server reports a write of a leader on the next master.
    async fn goes_on_after(&self, version: u64, server: usize) {
        eventually("a leader writes on the next master", async || {
            let (_, at) = self.known(server).await?;
            (version + COUNTS_PER_MASTER < at).then_some(())
        })
        .await;
    }

    /// Elects another leader as an operator, and writes something in its name.
    async fn elect(&self, leader: &str) -> Option<()> {
        let server = &self.servers[0];
        let others = self.candidates.iter().filter(|candidate| candidate.unit != leader);
        for Candidate { unit, .. } in others {
            let transfer = v1::TransferLeadershipRequest {
                application: "web".into(),
                to_unit: unit.clone(),
                ..Default::default()
            };
            let moved = server.leaders().await.transfer_leadership(transfer).await;
            let Ok(Some(lease)) = moved.map(|moved| moved.into_inner().lease) else {
                continue; // it is lost
            };
            let (unit, epoch) = (lease.unit, lease.lease_epoch);
            let (etag, value) = insist(&server.url(), &unit, epoch).await.ok()?;
            let version = u64::from_str_radix(&etag, 16).unwrap();
            let _ = self.said.send(Said::Accepted(Accepted { unit, epoch, version, value }));
            return Some(());
        }
        None
    }

    /// Returns the leader and the data version according to a server.
    async fn known(&self, server: usize) -> Option<(v1::Lease, u64)> {
        let lease = ask(&mut self.servers[server].leaders().await).await?;
        let url = self.servers[server].url();
        let data = tokio::time::timeout(WRITE_MAX, read(&url)).await.ok()?.ok()?;
        Some((lease, version(&data)))
    }
}

/// Starts a replica whose clock follows a file, if the library that shifts the clock is installed.
fn server(redis: &str, durability: &str, file: &Path, library: Option<PathBuf>) -> Server {
    let mut command = command(&["--store", redis, "--durability", durability, "--config"]);
    let times = file.with_extension("toml");
    std::fs::write(&times, TIMES).unwrap();
    command.arg(times);
    if let Some(library) = library {
        std::fs::write(file, "+0").unwrap();
        command.env("LD_PRELOAD", library).env("FAKETIME_TIMESTAMP_FILE", file);
        command.env("FAKETIME_NO_CACHE", "1").env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
    }
    Server::spawn(command)
}

async fn ask(client: &mut LeaderServiceClient<Channel>) -> Option<v1::Lease> {
    let request = v1::GetLeaderRequest { application: "web".into(), ..Default::default() };
    let asked = tokio::time::timeout(WRITE_MAX, client.get_leader(request)).await;
    asked.ok()?.ok()?.into_inner().lease
}

/// Returns the version of the data, which is their etag.
fn version(data: &v1::AppData) -> u64 {
    match &*data.etag {
        "" => 0,
        etag => u64::from_str_radix(etag, 16).unwrap(),
    }
}

/// Polls a server continuously, and records each lease in the answers.
struct Witness {
    task: tokio::task::JoinHandle<()>,
    told: Receiver<(u64, String)>,
}

impl Witness {
    async fn of(server: &Server) -> Witness {
        let mut client = server.leaders().await;
        let (tell, told) = mpsc::channel();
        let task = tokio::spawn(async move {
            let mut last = None;
            loop {
                let lease = ask(&mut client).await.map(|lease| (lease.lease_epoch, lease.unit));
                if let Some(lease) = lease.filter(|lease| last.as_ref() != Some(lease)) {
                    let _ = tell.send(lease.clone());
                    last = Some(lease);
                }
                tokio::time::sleep(ASK_EVERY).await;
            }
        });
        Witness { task, told }
    }

    /// Returns the recorded leases, in order.
    fn told(self) -> Vec<(u64, String)> {
        self.task.abort();
        self.told.try_iter().collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_a_former_leader_is_accepted_after_its_successors_first_write() {
    let Some((mut arena, said)) = Arena::start("replicated:1").await else { return };
    let witnesses = [Witness::of(&arena.servers[0]).await, Witness::of(&arena.servers[1]).await];
    arena.fail_over().await;
    let mut history = History::default();
    while arena.goes_on() || !history.is_enough() {
        arena.go_wrong().await;
        history.add(said.try_iter());
    }
    let Arena { candidates, said: sender, servers, failovers, .. } = arena;
    drop((candidates, sender));
    history.end(said, witnesses);
    history.check(failovers);
    let register_of = |write: &Accepted| write.value;
    let values: Vec<u64> = history.accepted.iter().map(register_of).filter(|v| *v != 0).collect();
    assert!(values.is_sorted_by(|a, b| a < b), "a write was lost: {values:?}");
    for server in &servers {
        eventually("all that was acknowledged is there", async || {
            let data = read(&server.url()).await.ok()?;
            let is_there = history.accepted.last()?.version <= version(&data);
            (is_there && values.last()? <= &register(&data)).then_some(())
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn epochs_rise_and_have_one_holder_where_redis_loses_elections_and_writes() {
    let Some((mut arena, said)) = Arena::start("acknowledged").await else { return };
    let witnesses = [Witness::of(&arena.servers[0]).await, Witness::of(&arena.servers[1]).await];
    let mut history = History::default();
    while arena.goes_on() || arena.failovers < 2 || !history.is_enough() {
        arena.lose().await;
        history.add(said.try_iter());
    }
    let Arena { candidates, said: sender, failovers, .. } = arena;
    drop((candidates, sender));
    history.end(said, witnesses);
    history.check(failovers);
    let last = history.accepted.last().unwrap();
    assert!(COUNTS_PER_MASTER < last.epoch, "nothing was lost: {last:?}");
}

/// All observations of the candidates and the witnesses.
#[derive(Default)]
struct History {
    accepted: Vec<Accepted>,
    /// Epochs and their holders by observer, in the order of observation.
    leases: BTreeMap<String, Vec<(u64, String)>>,
    refused: BTreeMap<String, usize>,
}

impl History {
    fn add(&mut self, said: impl Iterator<Item = Said>) {
        for said in said {
            match said {
                Said::Accepted(write) => self.accepted.push(write),
                Said::Leads { process, unit, epoch } => {
                    let observer = format!("process {process}");
                    self.leases.entry(observer).or_default().push((epoch, unit));
                }
                Said::Refused { reason } => *self.refused.entry(reason).or_default() += 1,
            }
        }
    }

    /// Adds the writes of the candidates before they were killed, and the leases that the servers
    /// answered.
    fn end(&mut self, said: Receiver<Said>, witnesses: [Witness; 2]) {
        self.add(said.iter());
        self.accepted.sort_by_key(|write: &Accepted| write.version);
        for (n, witness) in witnesses.into_iter().enumerate() {
            self.leases.insert(format!("server {n}"), witness.told());
        }
    }

    /// Returns true if each kind of event happened; the number of events depends on the machine.
    fn is_enough(&self) -> bool {
        let former = self.refused.get("NOT_LEADER").copied().unwrap_or_default();
        let epochs: BTreeSet<u64> = self.accepted.iter().map(|write| write.epoch).collect();
        1 < epochs.len() && 0 < former
    }

    fn check(&self, failovers: usize) {
        let mut holders: BTreeMap<u64, &str> = BTreeMap::new();
        for pair in self.accepted.windows(2) {
            let [before, after] = pair else { unreachable!() };
            assert!(before.version < after.version, "two changes are one: {pair:?}");
            assert!(before.epoch <= after.epoch, "a former leader wrote: {pair:?}");
        }
        for (observer, leases) in &self.leases {
            let rises = leases.is_sorted_by(|before, after| before.0 < after.0);
            assert!(rises, "{observer} saw an epoch fall: {leases:x?}, all: {:x?}", self.leases);
        }
        let wrote = self.accepted.iter().map(|write| (write.epoch, &*write.unit));
        let told = self.leases.values().flatten().map(|(epoch, unit)| (*epoch, &**unit));
        for (epoch, unit) in wrote.chain(told) {
            let holder = holders.entry(epoch).or_insert(unit);
            assert_eq!(*holder, unit, "epoch {epoch} has two holders");
        }
        let (elections, writes) = (holders.len(), self.accepted.len());
        println!("{elections} elections, {failovers} failovers, {writes} writes accepted");
        println!("refused: {:?}", self.refused);
        assert!(0 < failovers && self.is_enough(), "too little happened");
    }
}
