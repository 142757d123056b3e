//! Another master takes over behind the same address: by a Redis failover command, which loses
//! nothing, and by manual promotion of a replica that lags, which loses writes.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use bellwether::proto::v1;
use bellwether::proto::v1::watch_applications_response::Event;
use bellwether::proto::v1::{Freshness, Level};

use crate::load::{Load, agree, check_digests, check_history, insist};
use crate::server::{DEADLINE, LOOK_EVERY, Server, eventually, get, mk_report, reason};
use crate::testing::{Proxy, RedisServer};

/// The events that a watcher received, from the snapshot on.
pub struct Witness(Arc<Mutex<Vec<Told>>>);

/// One event: its epoch, and the name and level of an existing application, or only the name of a
/// deleted one. A bookmark has neither.
#[derive(Debug, Clone, PartialEq)]
pub struct Told {
    epoch: String,
    name: String,
    level: Option<Level>,
    token: String,
}

impl Witness {
    pub async fn of(server: &Server) -> Witness {
        let request = v1::WatchApplicationsRequest::default();
        let watch = server.applications().await.watch_applications(request).await;
        let mut stream = watch.unwrap().into_inner();
        let told: Arc<Mutex<Vec<Told>>> = Arc::default();
        let seen = told.clone();
        tokio::spawn(async move {
            while let Ok(Some(response)) = stream.message().await {
                let (name, level) = match response.event {
                    Some(Event::Upserted(app)) => (app.name, app.status.map(|s| s.level())),
                    Some(Event::Removed(removed)) => (removed.name, None),
                    _ => (String::new(), None),
                };
                let (epoch, token) = (response.store_epoch, response.resume_token);
                seen.lock().unwrap().push(Told { epoch, name, level, token });
            }
        });
        Witness(told)
    }

    /// Returns the events so far.
    pub fn told(&self) -> Vec<Told> {
        self.0.lock().unwrap().clone()
    }

    /// Waits for this event in any epoch but one. Returns its epoch.
    async fn heard(&self, name: &str, level: Option<Level>, but: &str) -> String {
        let start = Instant::now();
        loop {
            let told = self.told();
            let is_it = |told: &&Told| (&*told.name, told.level) == (name, level);
            if let Some(found) = told.iter().filter(is_it).find(|told| told.epoch != but) {
                return found.epoch.clone();
            }
            let late = DEADLINE < start.elapsed();
            let changes = told.iter().filter(|told| told.token.is_empty());
            assert!(!late, "{name} at {level:?} not among {:#?}", changes.collect::<Vec<_>>());
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Waits until the last event of an application has this level.
    pub async fn heard_last(&self, name: &str, level: Option<Level>) {
        eventually(&format!("{name} is told as it is"), async || {
            let last = self.told().into_iter().rfind(|told| told.name == name)?;
            (last.level == level).then_some(())
        })
        .await;
    }

    /// Waits for the first bookmark. Returns its epoch and its token.
    pub async fn bookmark(&self) -> (String, String) {
        eventually("a bookmark", async || {
            let found = self.told().into_iter().find(|told| !told.token.is_empty());
            found.map(|told| (told.epoch, told.token))
        })
        .await
    }
}

/// Starts a replica with the settings of a replica under Sentinel.
async fn replica_of(master: &RedisServer) -> RedisServer {
    let replica_of = format!("127.0.0.1 {}", master.port);
    let arguments = ["--repl-diskless-sync-delay", "0", "--replicaof", &replica_of];
    RedisServer::start_with(&arguments).await.unwrap()
}

/// Waits until a replica has all writes that its master has now.
pub async fn has_caught_up(replica: &RedisServer, master: &RedisServer) {
    let there: u64 = master.info("master_repl_offset").await.parse().unwrap();
    eventually("the replica has caught up", async || {
        let link = replica.info("master_link_status").await;
        let has: u64 = replica.info("slave_repl_offset").await.parse().unwrap_or(0);
        (link == "up" && there <= has).then_some(())
    })
    .await;
}

/// Makes writes that only the master has, and lets a replica take over by `promote`.
///
/// One application was active and fails, and another one is new: both writes are acknowledged and
/// visible to all. The new master has the first application as active and lacks the second one.
pub async fn lose_writes(
    servers: &[Server; 2],
    redis: &mut [RedisServer],
    promote: impl AsyncFnOnce(&mut [RedisServer]),
) {
    insist(&servers[0], mk_report("failing", "failing/0", Level::Active, "well")).await;
    let (master, replicas) = redis.split_first().unwrap();
    for replica in replicas {
        has_caught_up(replica, master).await;
    }
    agree(servers).await;
    let witnesses = [Witness::of(&servers[0]).await, Witness::of(&servers[1]).await];
    let (epoch, token) = witnesses[0].bookmark().await;
    // From now on no replica receives writes, and none can reconnect.
    master.call::<()>(&["ACL", "SETUSER", "default", "-psync", "-sync"]).await.unwrap();
    let _killed: i64 = master.call(&["CLIENT", "KILL", "TYPE", "replica"]).await.unwrap();
    eventually("the master is alone", async || {
        (master.info("connected_slaves").await == "0").then_some(())
    })
    .await;
    let failed = mk_report("failing", "failing/0", Level::Error, "it broke");
    let failed = insist(&servers[0], failed).await.revision;
    let new = mk_report("new", "new/0", Level::Active, "it came");
    let new = insist(&servers[1], new).await.revision;
    for witness in &witnesses {
        witness.heard("failing", Some(Level::Error), "").await;
        witness.heard("new", Some(Level::Active), "").await;
    }
    promote(redis).await;
    // Watchers receive the current state of the lost applications, and later events have a new
    // epoch.
    let mut epochs = Vec::new();
    for witness in &witnesses {
        witness.heard_last("new", None).await;
        witness.heard_last("failing", Some(Level::Waiting)).await;
        epochs.push(witness.heard("", None, &epoch).await);
    }
    assert_eq!(epochs[0], epochs[1]);
    // A watcher that was disconnected meanwhile must start again from a snapshot, and receives the
    // same state.
    let resume = v1::WatchApplicationsRequest { resume_token: token, ..Default::default() };
    let refused = servers[1].applications().await.watch_applications(resume).await;
    let refused = refused.unwrap_err();
    assert_eq!(reason(&refused), "RESUME_TOKEN_EXPIRED");
    assert_eq!(crate::server::cause(&refused), "data_loss");
    let late = Witness::of(&servers[1]).await;
    assert_eq!(late.heard("failing", Some(Level::Waiting), "").await, epochs[0]);
    for server in servers {
        check_doubt(server).await;
    }
    // A report makes the unit certain again, with a revision above all that were sent.
    let well =
        insist(&servers[1], mk_report("failing", "failing/0", Level::Active, "mended")).await;
    assert!(failed < well.revision, "{failed}, then {}", well.revision);
    let again = insist(&servers[0], mk_report("new", "new/0", Level::Active, "it came")).await;
    assert!(new < again.revision, "{new}, then {}", again.revision);
    for witness in witnesses.iter().chain([&late]) {
        assert_eq!(witness.heard("new", Some(Level::Active), &epoch).await, epochs[0]);
        assert_eq!(witness.heard("failing", Some(Level::Active), &epoch).await, epochs[0]);
        let told = witness.told();
        let levels: Vec<_> = told.iter().filter(|t| t.name == "failing").map(|t| t.level).collect();
        let broke = levels.iter().position(|level| *level == Some(Level::Error)).unwrap_or(0);
        let mended = levels.iter().rposition(|level| *level == Some(Level::Waiting)).unwrap();
        let between = &levels[broke..mended];
        assert!(!between.contains(&Some(Level::Active)), "active on what was lost: {levels:?}");
    }
    check_digests(servers, &agree(servers).await).await;
}

/// The application and its unit are marked uncertain.
async fn check_doubt(server: &Server) {
    let mut client = server.applications().await;
    eventually("the application is doubted", async || {
        let got = client.get_application(get("failing")).await.ok()?.into_inner();
        let level = got.application.unwrap().status.unwrap().level();
        let list = v1::ListUnitsRequest { application: "failing".into(), ..Default::default() };
        let units = client.list_units(list).await.ok()?.into_inner().units;
        let is_doubted = level == Level::Waiting && units[0].freshness() == Freshness::Uncertain;
        is_doubted.then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failover_on_command_loses_nothing_and_nothing_is_doubted() {
    let Some(master) = RedisServer::start_with(&["--repl-diskless-sync-delay", "0"]).await else {
        return;
    };
    let replicas = [replica_of(&master).await, replica_of(&master).await];
    for replica in &replicas {
        has_caught_up(replica, &master).await;
    }
    let proxy = Proxy::to(&master.address()).await;
    let start = || Server::start(&["--store", &proxy.url()]);
    let servers = [start(), start()];
    let witness = Witness::of(&servers[1]).await;
    let (epoch, _) = witness.bookmark().await;
    let about: Vec<String> = master.call(&["HGETALL", "bw:meta"]).await.unwrap();
    let load = Load::start(&servers, 5, 10, 60).await;
    load.go_on(100).await;
    let port = replicas[0].port.to_string();
    master.call::<()>(&["FAILOVER", "TO", "127.0.0.1", &port]).await.unwrap();
    eventually("the replica has taken over", async || {
        (replicas[0].info("role").await == "master").then_some(())
    })
    .await;
    proxy.lead_to(&replicas[0].address());
    load.go_on(100).await;
    // The first master takes over again, and our connections are cut meanwhile.
    eventually("the old master has become a replica", async || {
        (master.info("master_link_status").await == "up").then_some(())
    })
    .await;
    let port = master.port.to_string();
    replicas[0].call::<()>(&["FAILOVER", "TO", "127.0.0.1", &port]).await.unwrap();
    proxy.cut();
    proxy.lead_to(&master.address());
    proxy.heal();
    let expected = load.finish(&servers).await;
    check_history(&servers, &expected).await;
    let listed = agree(&servers).await;
    assert!(listed.values().all(|(_, level)| *level == Level::Active as i32), "{listed:?}");
    let told = witness.told();
    assert!(told.iter().all(|told| told.epoch == epoch), "the epoch stays");
    assert_eq!(master.call::<Vec<String>>(&["HGETALL", "bw:meta"]).await.unwrap(), about);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_was_behind_is_promoted_by_hand() {
    let Some(master) = RedisServer::start_with(&["--repl-diskless-sync-delay", "0"]).await else {
        return;
    };
    let replicas = [replica_of(&master).await, replica_of(&master).await];
    let proxy = Proxy::to(&master.address()).await;
    let start = || Server::start(&["--store", &proxy.url()]);
    let servers = [start(), start()];
    let [first, second] = replicas;
    lose_writes(&servers, &mut [master, first, second], async |redis| {
        redis[0].kill();
        redis[1].call::<()>(&["REPLICAOF", "NO", "ONE"]).await.unwrap();
        proxy.lead_to(&redis[1].address());
    })
    .await;
}
