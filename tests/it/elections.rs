//! A register that only the leader writes, in the manner of Jepsen: candidates that are processes
//! of their own, two replicas over one Redis, and everything that goes wrong. What a former leader
//! writes is never accepted after the first write of its successor, an epoch has one holder, and
//! what was read and incremented is never lost.
//!
//! `BELLWETHER_ELECTIONS_SECONDS` makes it longer.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use bellwether::client::worker::Options;
use bellwether::client::{Client, Worker};
use bellwether::proto::v1;

use crate::clock::shifting_library;
use crate::leader::configure;
use crate::redis::Redis;
use crate::server::{Server, command};
use crate::sessions_replicas::TIMES;
use crate::testing::Proxy;

const CANDIDATES: usize = 4;
const SECONDS_DEFAULT: u64 = 15;
/// Longer than the lease of 2 s.
const STANDSTILL: Duration = Duration::from_millis(2500);
/// A write that takes longer is not waited for.
const WRITE_MAX: Duration = Duration::from_secs(1);
/// Writes of a leader before it steps back.
const TERM: u32 = 8;

/// A write that was accepted.
#[derive(Debug, Clone)]
struct Accepted {
    unit: String,
    epoch: u64,
    /// Which change of the data it was: their etags only rise.
    version: u64,
    /// Of the register; 0 of what was written without having read it.
    value: u64,
}

// === a candidate ===

/// Not a test: what [`spawn`] starts, as a process that can be stopped and killed.
#[tokio::test]
#[ignore = "the process of one candidate"]
async fn candidate() {
    let Ok(unit) = std::env::var("CANDIDATE_UNIT") else { return };
    let servers = std::env::var("CANDIDATE_SERVERS").unwrap();
    let servers: Vec<&str> = servers.split(',').collect();
    let options =
        servers[1..].iter().fold(Options::new(servers[0], "web", &unit), |o, s| o.server(s));
    let worker = Worker::connect(options, |_| async { Vec::new() }).unwrap();
    worker.connected().await.unwrap();
    worker.claim_leadership();
    let (mut term, mut last) = (0, None);
    for server in servers.iter().cycle() {
        // One that does not notice, or does not want to, that it leads no longer.
        if let Some(epoch) = last {
            let wrote = tokio::time::timeout(WRITE_MAX, insist(server, &unit, epoch)).await;
            if let Ok(Ok(etag)) = wrote {
                println!("\naccepted {unit} {epoch} {etag} 0");
            }
        }
        let Some(epoch) = worker.lease_epoch() else {
            tokio::time::sleep(Duration::from_millis(5)).await;
            continue;
        };
        last = Some(epoch);
        let wrote = tokio::time::timeout(WRITE_MAX, increment(server, &unit, epoch)).await;
        if let Ok(Ok((etag, value))) = wrote {
            println!("\naccepted {unit} {epoch} {etag} {value}");
            term += 1;
        }
        if term == TERM {
            term = 0;
            worker.release_leadership();
            while worker.lease_epoch() == Some(epoch) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            worker.claim_leadership();
        }
    }
}

/// Writes whatever was written meanwhile: the epoch alone can refuse it.
async fn insist(
    server: &str,
    unit: &str,
    lease_epoch: u64,
) -> Result<String, Box<dyn std::error::Error>> {
    let client = Client::connect(server).await?;
    let value = format!("{lease_epoch} {:?}", std::time::SystemTime::now());
    let request = v1::UpdateAppDataRequest {
        application: "web".into(),
        unit: unit.into(),
        lease_epoch,
        set: [("insisted".to_string(), value.into())].into(),
        ..Default::default()
    };
    let wrote = client.answer(client.app_data().update_app_data(client.request(request)).await)?;
    Ok(wrote.etag)
}

/// Adds one to the register, if nobody did since it was read.
async fn increment(
    server: &str,
    unit: &str,
    lease_epoch: u64,
) -> Result<(String, u64), Box<dyn std::error::Error>> {
    let client = Client::connect(server).await?;
    let request = v1::GetAppDataRequest { application: "web".into(), ..Default::default() };
    let read = client.answer(client.app_data().get_app_data(client.request(request)).await)?;
    let read = read.app_data.unwrap_or_default();
    let value = match read.data.get("register") {
        Some(value) => std::str::from_utf8(value)?.parse::<u64>()? + 1,
        None => 1,
    };
    let request = v1::UpdateAppDataRequest {
        application: "web".into(),
        unit: unit.into(),
        lease_epoch,
        set: [("register".to_string(), value.to_string().into())].into(),
        etag: Some(read.etag),
        ..Default::default()
    };
    let wrote = client.answer(client.app_data().update_app_data(client.request(request)).await)?;
    Ok((wrote.etag, value))
}

struct Candidate {
    child: Child,
    unit: String,
}

impl Candidate {
    fn spawn(n: usize, servers: &[String], accepted: &mpsc::Sender<Accepted>) -> Candidate {
        let unit = format!("web/{n}");
        let mut servers = servers.to_vec();
        servers.rotate_left(n % 2);
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "elections::candidate", "--ignored", "--nocapture"])
            .env("CANDIDATE_UNIT", &unit)
            .env("CANDIDATE_SERVERS", servers.join(","))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let accepted = accepted.clone();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                if let ["accepted", unit, epoch, version, value] =
                    line.split(' ').collect::<Vec<_>>()[..]
                {
                    let (epoch, value) = (epoch.parse().unwrap(), value.parse().unwrap());
                    let version = u64::from_str_radix(version, 16).unwrap();
                    let _ = accepted.send(Accepted { unit: unit.into(), epoch, version, value });
                }
            }
        });
        Candidate { child, unit }
    }

    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args([&format!("-{name}"), &pid]).status().unwrap();
        assert!(sent.success());
    }
}

impl Drop for Candidate {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

// === the test ===

/// Splitmix64: the same seed, the same faults.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) as usize % bound
    }
}

/// A replica whose clock is as a file says, if there is what shifts it.
fn shifted(redis: &str, file: &Path, library: Option<PathBuf>) -> Server {
    let mut command = command(&["--store", redis, "--config"]);
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

async fn leader(server: &Server) -> Option<v1::Lease> {
    let request = v1::GetLeaderRequest { application: "web".into(), ..Default::default() };
    let mut client = server.leaders().await;
    let asked = tokio::time::timeout(WRITE_MAX, client.get_leader(request)).await;
    asked.ok()?.ok()?.into_inner().lease
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_a_former_leader_is_accepted_after_its_successors_first_write() {
    let Some(redis) = Redis::start(&[]) else { return };
    let seconds = std::env::var("BELLWETHER_ELECTIONS_SECONDS").ok();
    let seconds = seconds.map_or(SECONDS_DEFAULT, |given| given.parse().unwrap());
    let seed = std::env::var("BELLWETHER_ELECTIONS_SEED").ok();
    let seed: u64 = seed.map_or_else(|| u64::from(std::process::id()), |s| s.parse().unwrap());
    println!("BELLWETHER_ELECTIONS_SEED={seed}");
    let mut dice = Dice(seed);

    let folder = tempfile::tempdir().unwrap();
    let clock = folder.path().join("clock");
    let network = Proxy::to(&format!("127.0.0.1:{}", redis.port())).await;
    let one = Server::configured(&["--store", &network.url()], TIMES);
    let other = shifted(&redis.url(), &clock, shifting_library());
    configure(&other, "web", 2).await;
    let servers = [one.url(), other.url()];
    let (accepted, history) = mpsc::channel();
    let spawn = |n: usize| Candidate::spawn(n, &servers, &accepted);
    let mut candidates: Vec<Candidate> = (0..CANDIDATES).map(spawn).collect();
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(seconds) {
        let leads = leader(&other).await.map(|lease| lease.unit);
        let is_leader = |c: &Candidate| leads.as_deref() == Some(&c.unit);
        let pick = dice.below(CANDIDATES);
        let pick = candidates.iter().position(is_leader).unwrap_or(pick);
        match dice.below(6) {
            0 => {
                candidates[pick].signal("STOP");
                tokio::time::sleep(STANDSTILL).await;
                candidates[pick].signal("CONT");
            }
            1 => candidates[pick] = spawn(pick),
            2 => {
                one.signal("STOP");
                tokio::time::sleep(STANDSTILL).await;
                one.signal("CONT");
            }
            3 => {
                network.black_hole();
                tokio::time::sleep(STANDSTILL).await;
                network.heal();
            }
            4 => {
                let step = ["+3600", "-3600", "+0"][dice.below(3)];
                std::fs::write(&clock, step).unwrap();
            }
            // A while in which nothing goes wrong but what did before.
            _ => tokio::time::sleep(Duration::from_secs(1)).await,
        }
    }
    drop((candidates, accepted));
    check(history.iter().collect());
}

fn check(mut history: Vec<Accepted>) {
    history.sort_by_key(|write| write.version);
    let mut holders: BTreeMap<u64, &str> = BTreeMap::new();
    for pair in history.windows(2) {
        let [before, after] = pair else { unreachable!() };
        assert!(before.version < after.version, "two changes are one: {pair:?}");
        assert!(before.epoch <= after.epoch, "a former leader wrote: {pair:?}");
    }
    let register: Vec<&Accepted> = history.iter().filter(|write| write.value != 0).collect();
    for pair in register.windows(2) {
        assert!(pair[0].value < pair[1].value, "a write was lost: {pair:?}");
    }
    for write in &history {
        let holder = holders.entry(write.epoch).or_insert(&write.unit);
        assert_eq!(*holder, write.unit, "epoch {} has two holders", write.epoch);
    }
    println!("{} elections, {} writes accepted", holders.len(), history.len());
    assert!(4 < holders.len() && 50 < history.len(), "too little happened: {history:?}");
}
