//! Leases, leader data and statuses are linearizable: clients of two servers over a Redis that
//! fails over record each call, and Porcupine (`tools/linearizability`) judges the history. The
//! control is the same run against a lease by `SET NX PX`, which it must refuse. Watchers check
//! each event meanwhile.
//!
//! `make linearizability` sets a longer run.

mod client;
mod history;
mod ours;
mod plain;
mod watching;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::task::JoinSet;

use self::client::{Client, LEASE, Register};
use self::history::{CHECKER, Recorder, Verdict, judge};
use self::ours::{Ours, lazy};
use self::plain::Plain;
use self::watching::Watchers;
use crate::dice::Dice;
use crate::interop;
use crate::pair::Pair;
use crate::server::{Server, command, eventually};
use crate::testing::{Proxy, RedisServer};

/// Units of each application.
const UNITS: usize = 3;
/// Longer than a lease.
const STANDSTILL: Duration = Duration::from_millis(2500);
/// The time between two faults.
const CALM: Duration = Duration::from_millis(1200);

/// The size of a run.
struct Size {
    applications: usize,
    /// The operations after which a run ends.
    operations: usize,
    /// Watchers of each server.
    watchers: usize,
    events: u64,
    faults: usize,
}

impl Size {
    /// Returns a run of some seconds, or a long one.
    fn get() -> Size {
        let given = std::env::var("BELLWETHER_LINEARIZABILITY_OPERATIONS").ok();
        match given.map(|given| given.parse().unwrap()) {
            None => {
                Size { applications: 6, operations: 1000, watchers: 2, events: 1000, faults: 3 }
            }
            Some(operations) => {
                let events = 10 * operations as u64;
                Size { applications: 24, operations, watchers: 20, events, faults: 20 }
            }
        }
    }
}

/// Starts the units of all applications.
fn campaign<R: Register>(
    register: R,
    recorder: &Arc<Recorder>,
    applications: usize,
    freezes: usize,
    dice: &mut Dice,
) -> JoinSet<()> {
    let register = Arc::new(register);
    let mut clients = JoinSet::new();
    for application in 0..applications {
        for unit in 0..UNITS {
            let dice = Dice(dice.below(usize::MAX) as u64);
            let name = format!("app-{application}");
            let client = Client::new(&register, recorder, dice, &name, unit, freezes);
            clients.spawn(client.run());
        }
    }
    clients
}

/// Ends the clients and writes the history into a folder of the test.
async fn end(recorder: &Recorder, clients: JoinSet<()>, name: &str) -> PathBuf {
    recorder.end();
    clients.join_all().await;
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("history.jsonl");
    recorder.write(&path);
    println!("{}: {}", path.display(), recorder.summary());
    path
}

fn seed() -> u64 {
    let given = std::env::var("BELLWETHER_LINEARIZABILITY_SEED").ok();
    let seed = given.map_or_else(|| u64::from(std::process::id()), |seed| seed.parse().unwrap());
    println!("BELLWETHER_LINEARIZABILITY_SEED={seed}");
    seed
}

/// The servers, their Redis, and what goes wrong with them.
struct Arena {
    dice: Dice,
    servers: Vec<Server>,
    ways: [Proxy; 2],
    redis: Pair,
}

impl Arena {
    async fn start() -> Option<Arena> {
        let redis = Pair::start().await?;
        let address = redis.master.address();
        let ways = [Proxy::to(&address).await, Proxy::to(&address).await];
        let anywhere = SocketAddr::from(([127, 0, 0, 1], 0));
        let servers = ways.iter().map(|way| serve(way, anywhere)).collect();
        Some(Arena { dice: Dice(seed()), servers, ways, redis })
    }

    /// Injects the `n`th fault; the first ones differ in any run.
    async fn go_wrong(&mut self, n: usize) {
        let one = self.dice.below(2);
        let fault = if n < 3 { [0, 1, 2][n] } else { self.dice.below(8) };
        match fault {
            0 => self.restart(one),
            1 => {
                self.servers[one].signal("STOP");
                tokio::time::sleep(STANDSTILL).await;
                self.servers[one].signal("CONT");
            }
            2 => self.redis.hand_over(&self.ways).await,
            3 => self.redis.kill(&self.ways).await,
            4 => {
                self.ways[one].black_hole();
                tokio::time::sleep(STANDSTILL).await;
                self.ways[one].heal();
            }
            5 => {
                self.ways[one].cut();
                tokio::time::sleep(CALM / 4).await;
                self.ways[one].heal();
            }
            6 => self.redis.master.call::<()>(&["SCRIPT", "FLUSH"]).await.unwrap(),
            // The watchers have tokens of this moment when one server falls behind, and resume at
            // that one.
            _ => {
                self.restart(one);
                tokio::time::sleep(CALM / 12).await;
                self.ways[one].black_hole();
                tokio::time::sleep(CALM / 60).await;
                self.restart(1 - one);
                tokio::time::sleep(CALM).await;
                self.ways[one].heal();
            }
        }
    }

    /// Kills a server, and starts it again at its address.
    fn restart(&mut self, one: usize) {
        let server = self.servers.remove(one);
        let address = server.grpc;
        server.kill();
        self.servers.insert(one, serve(&self.ways[one], address));
    }
}

/// Starts a server whose commits count once a replica of Redis has them.
fn serve(way: &Proxy, address: SocketAddr) -> Server {
    let mut command = command(&["--store", &way.url(), "--durability", "replicated:1"]);
    command.env("BELLWETHER_GRPC_LISTEN", address.to_string());
    Server::spawn(command)
}

#[tokio::test(flavor = "multi_thread")]
async fn leases_data_and_statuses_are_linearizable_under_faults() {
    if !interop::have(CHECKER) {
        return;
    }
    let Some(mut arena) = Arena::start().await else { return };
    let size = Size::get();
    let recorder = Arc::new(Recorder::new());
    let connect = || [0, 1].map(|n| lazy(&arena.servers[n].url()));
    let (ours, watched) = (Ours(connect()), connect());
    let watchers = Watchers::start(&watched, size.watchers);
    let mut dice = Dice(arena.dice.0);
    let clients = campaign(ours, &recorder, size.applications, 400, &mut dice);
    let events = || watchers.checked.events.load(Ordering::Relaxed);
    let mut faults = 0;
    while faults < size.faults || recorder.recorded() < size.operations || events() < size.events {
        tokio::time::sleep(CALM).await;
        arena.go_wrong(faults).await;
        faults += 1;
    }
    tokio::time::sleep(CALM).await;
    let path = end(&recorder, clients, "linearizability").await;
    let checked = watchers.checked.clone();
    watchers.finish(&arena.servers).await;
    let count = |of: &std::sync::atomic::AtomicU64| of.load(Ordering::Relaxed);
    println!(
        "{faults} faults; {} watch events checked, {} of them bookmarks with their digests; {} \
         changes coalesced; {} snapshots, {} resumed",
        count(&checked.events),
        count(&checked.bookmarks),
        count(&checked.coalesced),
        count(&checked.snapshots),
        count(&checked.resumed),
    );
    assert_eq!(judge(&path), Verdict::Linearizable);
}

/// Runs the clients against leases by `SET NX PX`.
async fn control(redis: &RedisServer, name: &str, lease: Duration, freezes: usize) -> Verdict {
    let recorder = Arc::new(Recorder::new());
    let plain = Plain { redis: redis.connection().await, lease };
    let clients = campaign(plain, &recorder, 4, freezes, &mut Dice(seed()));
    let start = recorder.now();
    eventually("enough operations, for longer than two freezes", async || {
        let passed = Duration::from_nanos(recorder.now() - start);
        (STANDSTILL * 2 < passed && 1000 < recorder.recorded()).then_some(())
    })
    .await;
    let path = end(&recorder, clients, name).await;
    judge(&path)
}

#[tokio::test(flavor = "multi_thread")]
async fn leases_by_set_nx_px_are_refused_if_a_client_freezes_and_only_then() {
    if !interop::have(CHECKER) {
        return;
    }
    let Some(redis) = RedisServer::start().await else { return };
    let Some(other) = RedisServer::start().await else { return };
    let (calm, frozen) = tokio::join!(
        control(&redis, "set-nx-px-calm", Duration::from_secs(60), 0),
        control(&other, "set-nx-px", LEASE, 100),
    );
    assert_eq!(calm, Verdict::Linearizable, "else the checker refuses anything");
    assert_eq!(frozen, Verdict::Refused, "a client wrote after its lease had run out");
}
