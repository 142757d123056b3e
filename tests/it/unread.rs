//! Answers that rely on what no living server has read from the log, and a failover that loses it:
//! either the call is refused, or the data loss is counted.

use bellwether::proto::v1;
use bellwether::proto::v1::{Freshness, Level};

use crate::failover::has_caught_up;
use crate::load::{check_refusal, insist};
use crate::pair::Pair;
use crate::server::{Server, eventually, get, mk_report, reason};
use crate::testing::{Proxy, RedisServer};
use crate::watch::snapshot_token;

/// A Redis with a replica, and a server that reaches the master through a proxy, as a user of its
/// own.
struct Arena {
    redis: Pair,
    ways: [Proxy; 1],
    late: Server,
}

fn as_late(way: &Proxy) -> Server {
    Server::start(&["--store", &format!("redis://late:secret@{}", way.address())])
}

impl Arena {
    async fn start() -> Option<Arena> {
        let redis = Pair::start().await?;
        for server in [&redis.master, &redis.replica] {
            let user = ["ACL", "SETUSER", "late", "on", ">secret", "~*", "&*", "+@all"];
            server.call::<()>(&user).await.unwrap();
        }
        let ways = [Proxy::to(&redis.master.address()).await];
        let late = as_late(&ways[0]);
        Some(Arena { redis, ways, late })
    }

    /// Starts another server, and waits until the late one has its first report.
    async fn start_writer(&self) -> Server {
        let writer = Server::start(&["--store", &self.redis.master.url()]);
        let well = insist(&writer, mk_report("web", "web/0", Level::Active, "well")).await;
        let seen = v1::GetApplicationRequest { min_revision: well.revision, ..get("web") };
        self.late.applications().await.get_application(seen).await.unwrap();
        writer
    }

    /// From now on the replica receives no writes, and the servers of the user read no log.
    async fn part(&self) {
        let Pair { master, replica } = &self.redis;
        has_caught_up(replica, master).await;
        self.redis.part().await;
        let rights = ["ACL", "SETUSER", "late", "-xread", "-script|load"];
        master.call::<()>(&rights).await.unwrap();
        let list: String = master.call(&["CLIENT", "LIST"]).await.unwrap();
        for client in list.lines() {
            let fields: Vec<&str> = client.split(' ').collect();
            if fields.contains(&"cmd=xread") && fields.contains(&"user=late") {
                let id = fields[0].strip_prefix("id=").unwrap();
                master.call::<i64>(&["CLIENT", "KILL", "ID", id]).await.unwrap();
            }
        }
    }

    /// Kills the master. The replica takes over, and the servers read its log.
    async fn fail_over(&mut self) {
        self.redis.master.kill();
        self.redis.replica.call::<()>(&["REPLICAOF", "NO", "ONE"]).await.unwrap();
        self.ways[0].lead_to(&self.redis.replica.address());
    }
}

/// Returns the number of entries in all logs.
async fn entries(redis: &RedisServer) -> u64 {
    let mut count = 0;
    for log in redis.call::<Vec<String>>(&["KEYS", "*:log"]).await.unwrap() {
        count += redis.call::<u64>(&["XLEN", &log]).await.unwrap();
    }
    count
}

/// Returns the only unit of the application, if the server can read it.
async fn unit(server: &Server) -> Option<v1::Unit> {
    let list = v1::ListUnitsRequest { application: "web".into(), ..Default::default() };
    let listed = server.applications().await.list_units(list).await.ok()?.into_inner();
    listed.units.into_iter().find(|unit| unit.name == "web/0")
}

/// The server that committed is killed, so that no server has read the report.
#[tokio::test(flavor = "multi_thread")]
async fn a_repeat_of_what_a_failover_has_lost_counts_the_loss() {
    let Some(mut arena) = Arena::start().await else { return };
    let writer = arena.start_writer().await;
    arena.part().await;
    let broken = mk_report("web", "web/0", Level::Error, "it broke");
    let written = insist(&writer, broken.clone()).await;
    writer.kill();
    let repeated = insist(&arena.late, broken).await;
    assert_eq!((repeated.changed, repeated.revision), (false, written.revision));
    arena.fail_over().await;
    eventually("the unit is uncertain", async || {
        let unit = unit(&arena.late).await?;
        (unit.freshness() == Freshness::Uncertain).then_some(())
    })
    .await;
    let again = insist(&arena.late, mk_report("web", "web/0", Level::Active, "mended")).await;
    assert!(repeated.revision < again.revision, "{again:?} after {repeated:?}");
}

/// Another server writes on the next master, so its log goes on.
#[tokio::test(flavor = "multi_thread")]
async fn a_report_that_a_failover_has_lost_before_it_was_read_back_is_not_acknowledged() {
    let Some(mut arena) = Arena::start().await else { return };
    let other = as_late(&arena.ways[0]);
    insist(&other, mk_report("web", "web/0", Level::Active, "well")).await;
    arena.part().await;
    let before = entries(&arena.redis.master).await;
    let mut reports = arena.late.reports().await;
    let broken = mk_report("web", "web/0", Level::Error, "it broke");
    let call = tokio::spawn(async move { reports.report_status(broken).await });
    eventually("the report is committed", async || {
        (before < entries(&arena.redis.master).await).then_some(())
    })
    .await;
    arena.fail_over().await;
    insist(&other, mk_report("web", "web/1", Level::Active, "on the next master")).await;
    match call.await.unwrap() {
        Err(refused) => check_refusal(&refused),
        // The failover was faster than the answer of the master, and the commit was sent again.
        Ok(_) => {
            let unit = unit(&other).await.unwrap();
            assert_eq!(unit.level(), Level::Error, "{unit:?}");
        }
    }
}

/// Only a killed server has read the change, so no server counts the loss. The watch of another
/// server starts anew: its copy would be wrong where the next master gave the position to another
/// change.
#[tokio::test(flavor = "multi_thread")]
async fn a_token_past_a_change_that_a_failover_has_lost_is_refused() {
    let Some(mut arena) = Arena::start().await else { return };
    let writer = arena.start_writer().await;
    arena.part().await;
    insist(&writer, mk_report("web", "web/0", Level::Error, "it broke")).await;
    let watch = v1::WatchApplicationsRequest::default();
    let token = snapshot_token(&mut writer.applications().await, watch).await;
    writer.kill();
    arena.fail_over().await;
    insist(&arena.late, mk_report("web", "web/1", Level::Active, "on the next master")).await;
    let resume = v1::WatchApplicationsRequest { resume_token: token, ..Default::default() };
    let mut applications = arena.late.applications().await;
    let refused = match applications.watch_applications(resume).await {
        Ok(watch) => watch.into_inner().message().await.unwrap_err(),
        Err(refused) => refused,
    };
    assert_eq!(reason(&refused), "RESUME_TOKEN_EXPIRED");
    assert_eq!(crate::server::cause(&refused), "master_lost");
}
