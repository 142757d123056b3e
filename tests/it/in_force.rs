//! Every answer is in force. Over a shared store, an answer without a commit ("unchanged", a
//! refusal) is true in the store after the call arrived, even at a replica that follows the log
//! late or not at all.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bellwether::proto::v1;
use bellwether::proto::v1::Level;
use bellwether::proto::v1::app_data_service_client::AppDataServiceClient;
use bellwether::proto::v1::application_service_client::ApplicationServiceClient;
use bellwether::proto::v1::leader_service_client::LeaderServiceClient;
use bellwether::proto::v1::report_service_client::ReportServiceClient;
use tonic::transport::{Channel, Endpoint};

use crate::dice::Dice;
use crate::leader::{claim, configure, transfer, write};
use crate::load::check_refusal;
use crate::redis::Redis;
use crate::server::{Server, eventually, get, mk_report, reason};
use crate::testing::Proxy;

/// A replica with a Redis user of its own, so that the test can change its rights while it runs.
pub struct Replica<'a> {
    pub server: Server,
    redis: &'a Redis,
    user: &'static str,
}

impl<'a> Replica<'a> {
    pub fn start(redis: &'a Redis, user: &'static str) -> Replica<'a> {
        redis.cli(&["acl", "setuser", user, "on", ">secret", "~*", "&*", "+@all"]);
        let url = format!("redis://{user}:secret@127.0.0.1:{}", redis.port());
        Replica { server: Server::start(&["--store", &url]), redis, user }
    }

    /// Ends its log reader and prevents it from reconnecting. Commits and reads still work.
    pub fn cut_reader(&self) {
        self.redis.cli(&["acl", "setuser", self.user, "-xread", "-script|load"]);
        let user = format!("user={}", self.user);
        for client in self.redis.cli(&["client", "list"]).lines() {
            let fields: Vec<&str> = client.split(' ').collect();
            if fields.contains(&"cmd=xread") && fields.contains(&&*user) {
                let id = fields[0].strip_prefix("id=").unwrap();
                self.redis.cli(&["client", "kill", "id", id]);
            }
        }
    }

    pub fn heal_reader(&self) {
        self.redis.cli(&["acl", "setuser", self.user, "+xread", "+script|load"]);
    }
}

/// Calls that can be without effect, each with an opposite call that has one.
#[derive(Debug, Clone, Copy)]
enum Case {
    Report,
    Replace,
    Clear,
    Resolve,
    Delete,
}

fn mk_replace(level: Level) -> v1::ReplaceStatusesRequest {
    v1::ReplaceStatusesRequest {
        application: "web".into(),
        unit: "web/0".into(),
        statuses: vec![v1::StatusReport { level: level.into(), ..Default::default() }],
        ..Default::default()
    }
}

impl Case {
    /// Makes the call, which has no effect if the store is as the replica has it. Returns the
    /// revision.
    async fn repeat(self, server: &Server) -> Result<u64, tonic::Status> {
        let (application, unit) = ("web".to_string(), "web/0".to_string());
        let mut reports = server.reports().await;
        Ok(match self {
            Case::Report => {
                let report = mk_report("web", "web/0", Level::Active, "");
                reports.report_status(report).await?.into_inner().revision
            }
            Case::Replace => {
                let replaced = reports.replace_statuses(mk_replace(Level::Active)).await?;
                replaced.into_inner().revision
            }
            Case::Clear => {
                let clear = v1::ClearStatusRequest { application, unit, ..Default::default() };
                reports.clear_status(clear).await?.into_inner().revision
            }
            Case::Resolve => {
                let resolve = v1::ResolveErrorRequest { application, unit, ..Default::default() };
                reports.resolve_error(resolve).await?.into_inner().revision
            }
            Case::Delete => {
                let name = application;
                let delete =
                    v1::DeleteApplicationRequest { application: name, ..Default::default() };
                let deleted = server.applications().await.delete_application(delete).await;
                match deleted {
                    Ok(deleted) => deleted.into_inner().revision,
                    Err(refused) if reason(&refused) == "APPLICATION_NOT_FOUND" => 0,
                    Err(refused) => return Err(refused),
                }
            }
        })
    }

    /// Makes the opposite call, after which the first call has an effect again. Returns the
    /// revision.
    async fn oppose(self, server: &Server) -> u64 {
        let mut reports = server.reports().await;
        match self {
            Case::Replace => {
                let replaced = reports.replace_statuses(mk_replace(Level::Blocked)).await;
                replaced.unwrap().into_inner().revision
            }
            Case::Resolve => {
                let error = v1::ErrorReport {
                    system: "http".into(),
                    code: "503".into(),
                    origin: v1::ErrorOrigin::Peer.into(),
                    ..Default::default()
                };
                let report = v1::ReportErrorRequest {
                    application: "web".into(),
                    unit: "web/0".into(),
                    error: Some(error),
                    ..Default::default()
                };
                reports.report_error(report).await.unwrap().into_inner().revision
            }
            Case::Report | Case::Clear | Case::Delete => {
                let report = mk_report("web", "web/0", Level::Blocked, "opposed");
                reports.report_status(report).await.unwrap().into_inner().revision
            }
        }
    }
}

async fn insist(case: Case, server: &Server) -> u64 {
    eventually("an answer", async || case.repeat(server).await.inspect_err(check_refusal).ok())
        .await
}

async fn a_stale_replica_takes_no_call_for_a_repeat(case: Case) {
    let Some(redis) = Redis::start(&[]) else { return };
    let (one, other) = (Replica::start(&redis, "one"), Replica::start(&redis, "other"));
    case.oppose(&one.server).await;
    for round in 0..5 {
        // Both replicas have seen the call.
        let seen = insist(case, &one.server).await;
        insist(case, &other.server).await;
        other.cut_reader();
        let opposed = case.oppose(&one.server).await;
        assert!(seen < opposed);
        let (repeated, ()) = tokio::join!(insist(case, &other.server), async {
            other.heal_reader();
        });
        assert!(opposed < repeated, "{case:?}, round {round}: {opposed}, then {repeated}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stale_replica_takes_no_report_for_a_repeat() {
    a_stale_replica_takes_no_call_for_a_repeat(Case::Report).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stale_replica_takes_no_pull_set_for_a_repeat() {
    a_stale_replica_takes_no_call_for_a_repeat(Case::Replace).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stale_replica_takes_no_clear_for_a_repeat() {
    a_stale_replica_takes_no_call_for_a_repeat(Case::Clear).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stale_replica_takes_no_resolve_for_a_repeat() {
    a_stale_replica_takes_no_call_for_a_repeat(Case::Resolve).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stale_replica_does_not_miss_what_it_is_to_delete() {
    a_stale_replica_takes_no_call_for_a_repeat(Case::Delete).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stale_replica_neither_believes_a_former_leader_nor_refuses_the_new_one() {
    let Some(redis) = Redis::start(&[]) else { return };
    let (one, other) = (Replica::start(&redis, "one"), Replica::start(&redis, "other"));
    for unit in ["web/0", "web/1"] {
        let report = mk_report("web", unit, Level::Active, "");
        one.server.reports().await.report_status(report).await.unwrap();
    }
    let mut former = claim(&one.server, "web", "web/0").await.unwrap();
    for round in 0..5 {
        let units = ["web/0", "web/1"];
        let (old, new) = (units[round % 2], units[(round + 1) % 2]);
        for replica in [&one, &other] {
            write(&replica.server, old, former.lease_epoch, "key", "old").await.unwrap();
        }
        other.cut_reader();
        let lease = transfer(&one.server, "web", new).await.unwrap();
        write(&one.server, new, lease.lease_epoch, "key", "new").await.unwrap();
        let refused = write(&other.server, old, former.lease_epoch, "key", "old").await;
        assert_eq!(reason(&refused.unwrap_err()), "NOT_LEADER", "round {round}");
        let written = write(&other.server, new, lease.lease_epoch, "key", "new").await;
        assert!(written.is_ok(), "round {round}: {written:?}");
        // The renewal is a commit, which the log must deliver.
        let mut leaders = other.server.leaders().await;
        let renew = v1::RenewLeadershipRequest {
            application: "web".into(),
            unit: new.into(),
            lease_epoch: lease.lease_epoch,
            ..Default::default()
        };
        other.heal_reader();
        eventually("a renewal", async || {
            let renewed = leaders.renew_leadership(renew.clone()).await;
            renewed.inspect_err(check_refusal).ok()
        })
        .await;
        former = lease;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stale_replica_finds_the_application_that_another_one_created() {
    let Some(redis) = Redis::start(&[]) else { return };
    let (one, other) = (Replica::start(&redis, "one"), Replica::start(&redis, "other"));
    other.cut_reader();
    let report = mk_report("web", "web/0", Level::Active, "");
    one.server.reports().await.report_status(report).await.unwrap();
    let lease = claim(&one.server, "web", "web/0").await.unwrap();
    let same = transfer(&other.server, "web", "web/0").await.unwrap();
    // A replica that did not run for a moment extends the deadlines that it knows.
    assert!(lease.expire_time.unwrap().seconds <= same.expire_time.unwrap().seconds);
    assert_eq!(v1::Lease { expire_time: lease.expire_time, ..same }, lease);
    let renew = v1::RenewLeadershipRequest {
        application: "web".into(),
        unit: "web/0".into(),
        lease_epoch: lease.lease_epoch + 1,
        ..Default::default()
    };
    let refused = other.server.leaders().await.renew_leadership(renew).await;
    assert_eq!(reason(&refused.unwrap_err()), "NOT_LEADER");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_cut_off_from_redis_acknowledges_no_repeat() {
    let Some(redis) = Redis::start(&[]) else { return };
    let way = Proxy::to(&format!("127.0.0.1:{}", redis.port())).await;
    let cut_off = Server::start(&["--store", &way.url()]);
    let other = Server::start(&["--store", &redis.url()]);
    let mut reports = cut_off.reports().await;
    for silent in [false, true] {
        let report = mk_report("web", "web/0", Level::Active, "");
        eventually("a report", async || reports.report_status(report.clone()).await.ok()).await;
        let (repeat, cut) = (&report, &way);
        match silent {
            false => cut.cut(),
            true => cut.black_hole(),
        }
        let opposed = mk_report("web", "web/0", Level::Blocked, "");
        other.reports().await.report_status(opposed).await.unwrap();
        for _ in 0..5 {
            let refused = reports.report_status(repeat.clone()).await;
            check_refusal(&refused.expect_err("the store cannot be asked"));
        }
        way.heal();
        let there =
            eventually("a report", async || reports.report_status(repeat.clone()).await.ok()).await;
        let revision = there.into_inner().revision;
        let request = v1::GetApplicationRequest { min_revision: revision, ..get("web") };
        let got = other.applications().await.get_application(request).await.unwrap();
        let status = got.into_inner().application.unwrap().status.unwrap();
        assert_eq!(status.level(), Level::Active, "silent: {silent}");
    }
}

// === the soak ===

/// The variable that sets a longer soak, in seconds.
const SECONDS: &str = "BELLWETHER_IN_FORCE_SECONDS";
const SECONDS_DEFAULT: u64 = 10;
/// A call without an answer by then may take effect later, or never.
const CALL_MAX: Duration = Duration::from_secs(4);
/// Few values, so that a stale replica can mistake a change for a repeat.
const LEVELS: [Level; 2] = [Level::Active, Level::Blocked];
const UNITS: usize = 6;
const USERS: [&str; 3] = ["one", "two", "three"];

/// Connections to the running replicas, and the end of the soak.
struct Arena {
    channels: Mutex<Vec<Channel>>,
    end: Instant,
}

/// Returns a connection that reconnects when it is needed.
fn mk_channel(server: &Server) -> Channel {
    Endpoint::from_shared(server.url()).unwrap().timeout(CALL_MAX).connect_lazy()
}

impl Arena {
    /// Returns a connection to a random replica.
    fn any(&self, dice: &mut Dice) -> Channel {
        let channels = self.channels.lock().unwrap();
        channels[dice.below(channels.len())].clone()
    }

    fn goes_on(&self) -> bool {
        Instant::now() < self.end
    }
}

/// The counts of one client.
#[derive(Debug, Default)]
struct Looks {
    acknowledged: usize,
    /// Calls acknowledged without effect.
    repeated: usize,
    looks: usize,
}

/// Runs a client of one unit, which makes one call after the other, each at a random replica. After
/// each acknowledgement, and before the next call, the value is in force.
async fn report_and_look(arena: Arc<Arena>, n: usize, mut dice: Dice) -> Looks {
    let unit = format!("web/{n}");
    let mut found = Looks::default();
    // A call without an answer may take effect later: the value is unknown until a call that
    // changes the revision has been acknowledged.
    let mut is_certain = true;
    while arena.goes_on() {
        let level = LEVELS[dice.below(2)];
        let way = dice.below(3);
        let channel = arena.any(&mut dice);
        let mut reports = ReportServiceClient::new(channel);
        let answer = match way {
            0 => {
                let replace =
                    v1::ReplaceStatusesRequest { unit: unit.clone(), ..mk_replace(level) };
                let answer = reports.replace_statuses(replace).await;
                answer.map(|a| (a.get_ref().revision, a.get_ref().changed))
            }
            1 => {
                let clear = v1::ClearStatusRequest {
                    application: "web".into(),
                    unit: unit.clone(),
                    component: Some("push".into()),
                    ..Default::default()
                };
                let answer = reports.clear_status(clear).await;
                answer.map(|a| (a.get_ref().revision, 0 < a.get_ref().cleared_count))
            }
            _ => {
                let mut report = mk_report("web", &unit, level, "");
                report.status.as_mut().unwrap().component = "push".into();
                let answer = reports.report_status(report).await;
                answer.map(|a| (a.get_ref().revision, a.get_ref().changed))
            }
        };
        let (revision, changed) = match answer {
            Ok(answer) => answer,
            Err(refused) if is_not_found(&refused) => continue,
            Err(_) => {
                is_certain = false;
                continue;
            }
        };
        found.acknowledged += 1;
        found.repeated += usize::from(!changed);
        is_certain |= changed;
        if !is_certain {
            continue;
        }
        let Some(statuses) = look(&arena, &mut dice, &unit, revision).await else { continue };
        found.looks += 1;
        let component = if way == 0 { "" } else { "push" };
        let shown = statuses.get(component).copied();
        let expected = (way != 1).then_some(level);
        assert_eq!(shown, expected, "{unit} {component:?} at revision {revision}, way {way}");
    }
    found
}

fn is_not_found(refused: &tonic::Status) -> bool {
    refused.code() == tonic::Code::NotFound
}

/// Returns the levels of a unit's statuses by component, from a random replica at this revision or
/// later.
async fn look(
    arena: &Arena,
    dice: &mut Dice,
    unit: &str,
    min_revision: u64,
) -> Option<BTreeMap<String, Level>> {
    while arena.goes_on() {
        let channel = arena.any(dice);
        let request = v1::ListStatusesRequest {
            application: "web".into(),
            unit: unit.into(),
            min_revision,
            ..Default::default()
        };
        let listed = ApplicationServiceClient::new(channel).list_statuses(request).await;
        let Ok(listed) = listed else { continue };
        let statuses = listed.into_inner().statuses.into_iter().filter_map(|s| s.report);
        return Some(statuses.map(|s| (s.component.clone(), s.level())).collect());
    }
    None
}

/// Moves leadership from unit to unit; each leader writes few values, at random replicas. An
/// acknowledged write is in force until the next one, and no write under a former epoch is
/// acknowledged.
async fn lead_and_look(arena: Arc<Arena>, mut dice: Dice) -> Looks {
    let mut found = Looks::default();
    let mut lease: Option<v1::Lease> = None;
    let mut former: Option<v1::Lease> = None;
    while arena.goes_on() {
        let channel = arena.any(&mut dice);
        if lease.is_none() || dice.below(4) == 0 {
            let transfer = v1::TransferLeadershipRequest {
                application: "led".into(),
                to_unit: format!("led/{}", dice.below(2)),
                ..Default::default()
            };
            let transferred = LeaderServiceClient::new(channel).transfer_leadership(transfer).await;
            let now = transferred.ok().and_then(|answer| answer.into_inner().lease);
            let is_same =
                |l: &v1::Lease| now.as_ref().is_some_and(|n| n.lease_epoch == l.lease_epoch);
            former = lease.take().filter(|lease| !is_same(lease) && now.is_some()).or(former);
            lease = now;
            continue;
        }
        let value = ["a", "b"][dice.below(2)];
        // A former leader repeats its write under its old epoch.
        if let Some(former) = former.as_ref().filter(|_| dice.below(3) == 0) {
            let written = write_as(channel, former, value).await;
            assert!(written.is_err(), "{former:?} wrote after {lease:?}");
            continue;
        }
        let Some(current) = lease.clone() else { continue };
        let Ok(etag) = write_as(channel, &current, value).await else {
            // Without an answer the result is unknown: a new epoch ends that.
            lease = None;
            former = None;
            continue;
        };
        found.acknowledged += 1;
        let Some(data) = read_data(&arena, &mut dice, &etag.1).await else { continue };
        found.looks += 1;
        let shown = data.data.get("key").map(|value| value.to_vec());
        assert_eq!(shown.as_deref(), Some(value.as_bytes()), "{current:?}, etag {}", etag.0);
        assert_eq!(data.etag, etag.0);
    }
    found
}

/// Writes one key of `led`. Returns the etag and the revision.
async fn write_as(
    channel: Channel,
    lease: &v1::Lease,
    value: &str,
) -> Result<(String, u64), tonic::Status> {
    let request = v1::UpdateAppDataRequest {
        application: "led".into(),
        unit: lease.unit.clone(),
        lease_epoch: lease.lease_epoch,
        set: [("key".to_string(), value.to_string().into())].into(),
        ..Default::default()
    };
    let written = AppDataServiceClient::new(channel).update_app_data(request).await?.into_inner();
    Ok((written.etag, written.revision))
}

async fn read_data(arena: &Arena, dice: &mut Dice, min_revision: &u64) -> Option<v1::AppData> {
    while arena.goes_on() {
        let channel = arena.any(dice);
        let request = v1::GetAppDataRequest {
            application: "led".into(),
            min_revision: *min_revision,
            ..Default::default()
        };
        if let Ok(read) = AppDataServiceClient::new(channel).get_app_data(request).await {
            return read.into_inner().app_data;
        }
    }
    None
}

/// Stops, kills and restarts replicas, cuts their log readers, and freezes Redis.
async fn disturb<'a>(
    arena: &Arena,
    redis: &'a Redis,
    replicas: &mut [Replica<'a>],
    mut dice: Dice,
) {
    while arena.goes_on() {
        let n = dice.below(replicas.len());
        let pause = Duration::from_millis(200 + dice.below(1500) as u64);
        match dice.below(6) {
            0 => {
                replicas[n].server.signal("STOP");
                tokio::time::sleep(pause).await;
                replicas[n].server.signal("CONT");
            }
            1 => {
                let started = Replica::start(redis, replicas[n].user);
                arena.channels.lock().unwrap()[n] = mk_channel(&started.server);
                std::mem::replace(&mut replicas[n], started).server.kill();
            }
            2 => {
                redis.signal("STOP");
                tokio::time::sleep(pause / 2).await;
                redis.signal("CONT");
            }
            _ => {
                replicas[n].cut_reader();
                tokio::time::sleep(pause).await;
                replicas[n].heal_reader();
            }
        }
        tokio::time::sleep(pause).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn acknowledged_reports_are_in_force_during_any_fault_of_the_replicas() {
    let Some(redis) = Redis::start(&[]) else { return };
    let seconds = std::env::var(SECONDS).map_or(SECONDS_DEFAULT, |given| given.parse().unwrap());
    let seed = std::env::var("BELLWETHER_IN_FORCE_SEED");
    let seed = seed.map_or_else(|_| u64::from(std::process::id()), |given| given.parse().unwrap());
    println!("BELLWETHER_IN_FORCE_SEED={seed}");
    let mut replicas = USERS.map(|user| Replica::start(&redis, user));
    let mut reports = replicas[0].server.reports().await;
    let units = (0..UNITS).map(|n| ("web", format!("web/{n}")));
    for (application, unit) in units.chain((0..2).map(|n| ("led", format!("led/{n}")))) {
        let mut report = mk_report(application, &unit, Level::Active, "");
        report.status.as_mut().unwrap().component = "push".into();
        reports.report_status(report).await.unwrap();
    }
    configure(&replicas[0].server, "led", 300).await;
    let channels = replicas.iter().map(|replica| mk_channel(&replica.server)).collect();
    let channels = Mutex::new(channels);
    let arena = Arc::new(Arena { channels, end: Instant::now() + Duration::from_secs(seconds) });
    let mk_dice = |n: usize| Dice(seed.wrapping_add(n as u64 * 7919));
    let clients = (0..UNITS).map(|n| tokio::spawn(report_and_look(arena.clone(), n, mk_dice(n))));
    let clients: Vec<_> = clients.collect();
    let leaders = tokio::spawn(lead_and_look(arena.clone(), mk_dice(UNITS)));
    disturb(&arena, &redis, &mut replicas, mk_dice(UNITS + 1)).await;
    let mut all = Looks::default();
    for client in clients {
        let found = client.await.unwrap();
        all.acknowledged += found.acknowledged;
        all.repeated += found.repeated;
        all.looks += found.looks;
    }
    let led = leaders.await.unwrap();
    println!("statuses: {all:?}; leader's data: {led:?}");
    assert!(0 < all.repeated && 0 < all.looks && 0 < led.looks, "{all:?} {led:?}");
}
