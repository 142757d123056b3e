//! Tests each check with facts for each of its findings.

use std::time::Duration;

use crate::doctor::Level;
use crate::doctor::redis::facts::{Clock, Facts, Rights, Sentinel, Server};
use crate::store::redis::link::info::InfoFields;
use crate::store::redis::link::{Kind, LinkError, Reading, Target, TlsFiles};
use crate::store::redis::{Durability, Layout, Prefix};

use super::*;

const GOOD_INFO: &str = "redis_version:7.2.4\nmaxmemory_policy:noeviction\nmaxmemory:1000\n\
    used_memory:100\naof_enabled:1\naof_last_write_status:ok\nrdb_last_bgsave_status:ok\n\
    connected_clients:3\nmaxclients:100";
const GOOD_CONFIG: &str = "appendfsync:everysec\nsave:3600 1\nmin-replicas-to-write:0\n\
    min-replicas-max-lag:10\ntimeout:0\nrepl-backlog-size:67108864\n\
    client-output-buffer-limit:normal 0 0 0 slave 1 1 60 pubsub 1 1 60\n\
    cluster-require-full-coverage:yes";
const GOOD_SENTINEL: &str = "name:flock\nip:a\nport:1\nnum-other-sentinels:2\n\
    down-after-milliseconds:5000";

fn answering<T>(address: &str, found: T) -> Reading<T> {
    Reading { address: address.to_string(), is_local: true, found: Ok(found) }
}

fn mk_clock(ahead_ms: i64) -> Clock {
    Clock {
        ahead_ms,
        error: Duration::from_millis(2),
        behind: Duration::ZERO,
        ahead: Duration::ZERO,
    }
}

fn mk_target(url: &str) -> Target {
    Target::parse(url, TlsFiles::default()).unwrap()
}

/// Facts of one master, without a problem.
fn mk_facts() -> Facts {
    let server = Server {
        info: InfoFields::of_lines(GOOD_INFO),
        config: InfoFields::of_lines(GOOD_CONFIG),
        pings: vec![Duration::from_millis(1); 20],
        clock: Some(mk_clock(0)),
        store: Some(Ok("format 1, 64 buckets".into())),
        cluster: InfoFields::of_lines("cluster_state:ok\ncluster_slots_ok:16384"),
        ..Server::default()
    };
    Facts {
        durability: Durability::Acknowledged,
        kind: Kind::Standalone,
        target: mk_target("redis://:secret@a"),
        layout: Layout::default(),
        sentinels: Vec::new(),
        lost_seeds: Vec::new(),
        masters: vec![answering("a:1", server)],
    }
}

/// Facts with other lines of `INFO`.
fn with_info(lines: &str) -> Facts {
    with(|server| server.info.0.extend(InfoFields::of_lines(lines).0))
}

/// Facts with other settings.
fn with_config(lines: &str) -> Facts {
    with(|server| server.config.0.extend(InfoFields::of_lines(lines).0))
}

fn with(change: impl FnOnce(&mut Server)) -> Facts {
    let mut facts = mk_facts();
    change(facts.masters[0].found.as_mut().unwrap());
    facts
}

fn synced(facts: Facts) -> Facts {
    let durability = Durability::Synced { replicas: 0, patience: Duration::ZERO };
    Facts { durability, ..facts }
}

fn replicated(replicas: u32, facts: Facts) -> Facts {
    Facts { durability: Durability::Replicated { replicas, patience: Duration::ZERO }, ..facts }
}

fn sentinel(lines: &str) -> Facts {
    let mk = || {
        let mut master = InfoFields::of_lines(GOOD_SENTINEL);
        master.0.extend(InfoFields::of_lines(lines).0);
        let replicas = vec![InfoFields::of_lines("slave-priority:100")];
        let quorum = Some(Ok("OK 3 usable Sentinels".to_string()));
        answering("s:1", Sentinel { master, replicas, quorum })
    };
    Facts { kind: Kind::Sentinel, sentinels: vec![mk(), mk(), mk()], ..mk_facts() }
}

fn cluster(masters: usize) -> Facts {
    let mut facts = Facts { kind: Kind::Cluster, ..mk_facts() };
    facts.masters = vec![facts.masters[0].clone(); masters];
    facts
}

const REPLICA: &str = "slave0:ip=r,port=2,state=online,offset=9,lag=1";

/// Returns the level of a check, with its finding and commands.
fn said(check: &str, facts: &Facts) -> Option<(Level, String)> {
    let finding = judge(facts).into_iter().find(|finding| finding.check == check)?;
    if finding.level != Level::Ok {
        assert!(!finding.why.is_empty(), "{finding:?}");
    }
    Some((finding.level, [vec![finding.found], finding.commands].concat().join("; ")))
}

#[track_caller]
fn assert_said(check: &str, facts: &Facts, level: Level, text: &str) {
    let (found, words) = said(check, facts).unwrap_or_else(|| panic!("{check} says nothing"));
    assert_eq!(found, level, "{check}: {words}");
    assert!(words.contains(text), "{check}: {words}");
}

#[test]
fn a_healthy_setup_has_no_finding() {
    for facts in [mk_facts(), synced(mk_facts()), sentinel(""), cluster(3)] {
        let is_bad = |f: &&Finding| f.level != Level::Ok;
        let findings = judge(&facts);
        let mut bad: Vec<&str> = findings.iter().filter(is_bad).map(|f| f.check).collect();
        bad.dedup();
        let expected: &[&str] = match facts.kind {
            Kind::Standalone => &[],
            Kind::Sentinel => &["replicas"],
            Kind::Cluster => {
                bad.sort_unstable();
                bad.dedup();
                &["cluster-coverage", "replicas"]
            }
        };
        assert_eq!(bad, expected);
    }
}

#[test]
fn access_is_judged() {
    use Level::{Error, Ok, Unknown, Warning};
    let version = |version: &str| with_info(&format!("redis_version:{version}"));
    assert_said("version", &version("6.2.0"), Ok, "Redis 6.2.0");
    assert_said("version", &version("6.0.16"), Error, "6.0.16");
    assert_said("version", &version("5.0"), Error, "5.0");
    assert_said("version", &synced(version("7.0.15")), Error, "7.0.15");
    let valkey = with_info("valkey_version:8.1.0");
    assert_said("version", &valkey, Ok, "Valkey 8.1.0, as Redis 7.2.4");

    let rights = |rights: Rights| with(|server| server.rights = rights);
    let denied = Rights { denied: vec!["hset".into(), "script|load".into()], ..Rights::default() };
    let grant = "ACL SETUSER default ~bw:* +hset +script|load";
    assert_said("permissions", &rights(denied.clone()), Error, grant);
    let layout = Layout { prefix: Prefix::parse("eu-1").unwrap(), ..Layout::default() };
    let elsewhere = Facts { layout, ..rights(denied) };
    let grant = "ACL SETUSER default ~eu-1:* +hset +script|load";
    assert_said("permissions", &elsewhere, Error, grant);
    let missing = Rights { missing: vec!["waitaof".into()], ..Rights::default() };
    assert_said("permissions", &rights(missing.clone()), Error, "no command waitaof");
    let mut old = rights(missing);
    old.masters[0].found.as_mut().unwrap().info = InfoFields::of_lines("redis_version:7.0.1");
    assert_said("permissions", &synced(old), Ok, "all needed commands");
    let unknown = Rights { unknown: Some("old".into()), ..Rights::default() };
    assert_said("permissions", &rights(unknown), Unknown, "old");

    let refused = with(|server| {
        server.config = InfoFields::default();
        server.config_refusal = Some("no".into());
    });
    assert_said("settings", &refused, Unknown, "ACL SETUSER default +config|get");
    let renamed = with(|server| server.config_refusal = Some("unknown command 'CONFIG'".into()));
    assert!(!said("settings", &renamed).unwrap().1.contains("ACL"), "there is nothing to grant");
    assert_eq!(said("settings", &mk_facts()), None);
    assert_said("persistence", &refused, Ok, "appendonly yes");

    let foreign = with(|server| server.store = Some(Err("not ours".into())));
    assert_said("store", &foreign, Error, "not ours");

    let mut remote = mk_facts();
    remote.masters[0].is_local = false;
    assert_said("encryption", &remote, Warning, "the password crosses");
    let open = Facts { target: mk_target("redis://a"), ..remote.clone() };
    assert_said("encryption", &open, Warning, "neither TLS nor a password");
    assert_said("encryption", &Facts { target: mk_target("rediss://a"), ..remote }, Ok, "TLS");
}

#[test]
fn an_unreachable_server_is_a_finding_with_its_cause() {
    let mut facts = mk_facts();
    facts.masters[0].found = Err(LinkError::Refused { reason: "wrong password".into() });
    let findings = judge(&facts);
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert_said("connection", &facts, Level::Error, "wrong password");
    let nobody = Facts { masters: Vec::new(), ..mk_facts() };
    assert_said("connection", &nobody, Level::Error, "no node of the Cluster");
    assert_eq!(
        too_slow(Duration::from_millis(1500)).found,
        "not all servers answered within 1.5 s"
    );
}

#[test]
fn memory_is_judged() {
    use Level::{Error, Ok, Unknown, Warning};
    let policy = |policy: &str| with_info(&format!("maxmemory_policy:{policy}"));
    let command = "CONFIG SET maxmemory-policy noeviction";
    assert_said("eviction", &policy("allkeys-lru"), Error, command);
    assert_said("eviction", &policy("allkeys-random"), Error, command);
    assert_said("eviction", &policy("volatile-ttl"), Warning, command);
    assert_said("eviction", &policy(""), Unknown, "has no maxmemory-policy");
    let used = |used: u64| with_info(&format!("used_memory:{used}"));
    assert_said("memory", &used(749), Ok, "749 bytes in use of maxmemory 1000 bytes");
    assert_said("memory", &used(750), Warning, "CONFIG SET maxmemory");
    assert_said("memory", &used(950), Error, "CONFIG SET maxmemory");
    let buffers = with_info("used_memory:950\nmem_not_counted_for_evict:300");
    assert_said("memory", &buffers, Ok, "650 bytes");
    assert_said("memory", &with_info("maxmemory:0"), Warning, "without a maxmemory");
}

#[test]
fn persistence_is_judged() {
    use Level::{Error, Ok, Warning};
    let off = |save: &str, more: &str| {
        let mut facts = with_info(&format!("aof_enabled:0\n{more}"));
        let server = facts.masters[0].found.as_mut().unwrap();
        server.config.0.insert("save".into(), save.into());
        facts
    };
    let command = "CONFIG SET appendonly yes";
    assert_said("persistence", &off("3600 1", ""), Warning, command);
    assert_said("persistence", &off("", ""), Error, command);
    assert_said("persistence", &off("", REPLICA), Error, "and replicas");
    assert_said("persistence", &synced(off("3600 1", "")), Error, command);
    assert_said("persistence", &mk_facts(), Ok, "appendonly yes, appendfsync everysec");
    let slack = with_config("appendfsync:no");
    assert_said("persistence", &slack, Warning, "CONFIG SET appendfsync everysec");

    assert_said("disk", &with_info("aof_last_write_status:err"), Error, "append-only");
    assert_said("disk", &with_info("aof_last_bgrewrite_status:err"), Warning, "rewrite");
    let failed = "rdb_last_bgsave_status:err";
    assert_said("disk", &with_info(failed), Error, "snapshot");
    let mut goes_on = with_config("stop-writes-on-bgsave-error:no");
    goes_on.masters[0].found.as_mut().unwrap().info = InfoFields::of_lines(failed);
    assert_said("disk", &goes_on, Warning, "snapshot");

    assert_eq!(said("fork", &with_info("latest_fork_usec:499999")), None);
    assert_said("fork", &with_info("latest_fork_usec:700000"), Warning, "700 ms");
}

#[test]
fn replication_is_judged() {
    use Level::{Error, Ok, Warning};
    let behind = "slave0:ip=r,port=2,state=wait_bgsave,offset=0,lag=0";
    assert_said("replicas", &mk_facts(), Ok, "none");
    assert_said("replicas", &with_info(REPLICA), Ok, "1 online");
    assert_said("replicas", &replicated(1, mk_facts()), Error, "0 online");
    assert_said("replicas", &replicated(1, with_info(behind)), Error, "1 still being synced");
    assert_said("replicas", &replicated(1, with_info(REPLICA)), Warning, "waits for all of them");
    let two = format!("{REPLICA}\nslave1:ip=r,port=3,state=online,offset=9,lag=11");
    assert_said("replicas", &replicated(1, with_info(&two)), Ok, "2 online");
    assert_said("replicas", &sentinel(""), Warning, "0 online");

    assert_eq!(said("replica-lag", &with_info(REPLICA)), None);
    assert_said("replica-lag", &with_info(&two), Warning, "r:3: last contact 11 s ago");

    assert_said("min-replicas", &mk_facts(), Ok, "min-replicas-to-write 0");
    let command = "CONFIG SET min-replicas-to-write 1";
    assert_said("min-replicas", &with_info(REPLICA), Warning, command);
    let fails_over = Facts { kind: Kind::Sentinel, ..with_info(REPLICA) };
    assert_said("min-replicas", &fails_over, Error, command);
    assert_said("min-replicas", &replicated(1, with_info(REPLICA)), Ok, "0");
    let asked = with_config("min-replicas-to-write:1");
    assert_said("min-replicas", &asked, Error, "CONFIG SET min-replicas-to-write 0");
    let never = with_config("min-replicas-to-write:1\nmin-replicas-max-lag:0");
    assert_said("min-replicas", &never, Ok, "1");

    assert_eq!(said("replication-backlog", &mk_facts()), None);
    assert_said("replication-backlog", &with_info(REPLICA), Ok, "64.0 MiB");
    let mut small = with_config("repl-backlog-size:1048576");
    small.masters[0].found.as_mut().unwrap().info = InfoFields::of_lines(REPLICA);
    assert_said("replication-backlog", &small, Warning, "CONFIG SET repl-backlog-size 64mb");
}

#[test]
fn traffic_is_judged() {
    use Level::{Ok, Warning};
    let pings = |usual: u64, longest: u64| {
        with(|server| {
            server.pings = vec![Duration::from_millis(usual); 19];
            server.pings.push(Duration::from_millis(longest));
        })
    };
    assert_said("latency", &pings(10, 500), Ok, "median 10.00 ms, longest 500.00 ms");
    assert_said("latency", &pings(11, 11), Warning, "median 11.00 ms");
    assert_said("latency", &pings(1, 501), Warning, "longest 501.00 ms");
    let clock = |ahead_ms: i64| with(|server| server.clock = Some(mk_clock(ahead_ms)));
    assert_said("clock", &clock(90_000), Ok, "90000 ms ahead of this machine, give or take 2.0 ms");
    assert_said("clock", &clock(-5), Ok, "5 ms behind this machine");
    let was_behind = with(|server| {
        server.clock = Some(Clock { behind: Duration::from_secs(12), ..mk_clock(0) });
    });
    assert_said("clock", &was_behind, Warning, "12s behind the time of the store");
    let was_ahead = with(|server| {
        server.clock = Some(Clock { ahead: Duration::from_secs(3600), ..mk_clock(0) });
    });
    assert_said("clock", &was_ahead, Warning, "3600s ahead of the time of the store");
    let clients = |used: u32| with_info(&format!("connected_clients:{used}"));
    assert_said("clients", &clients(89), Ok, "89 of maxclients 100");
    assert_said("clients", &clients(90), Warning, "CONFIG SET maxclients 200");
    assert_said("idle-timeout", &with_config("timeout:29"), Warning, "CONFIG SET timeout 0");
    assert_said("idle-timeout", &with_config("timeout:300"), Ok, "300");
    let limit = |bytes: &str| {
        with_config(&format!("client-output-buffer-limit:slave 1 1 60 normal {bytes} 0 0"))
    };
    assert_said("output-buffer", &limit("1048576"), Warning, "\"normal 0 0 0\"");
    assert_said("output-buffer", &limit("268435456"), Ok, "256.0 MiB");
}

#[test]
fn sentinels_are_judged() {
    use Level::{Error, Ok, Warning};
    assert_said("sentinels", &sentinel(""), Ok, "3 answer, 3 watch the master");
    assert_said("sentinels", &sentinel("num-other-sentinels:1"), Warning, "2 watch");
    let mut lost = sentinel("");
    lost.sentinels[1].found = Err(LinkError::Away { reason: "no answer from s:2".into() });
    assert_said("sentinels", &lost, Warning, "no answer from s:2");
    let mut apart = sentinel("");
    apart.sentinels[2].found.as_mut().unwrap().master.0.insert("port".into(), "2".into());
    assert_said("sentinels", &apart, Warning, "a:1, a:2");
    let mut alone = sentinel("");
    let one = alone.sentinels[2].found.as_mut().unwrap();
    one.quorum = Some(Err("NOQUORUM 1 usable".into()));
    one.replicas.clear();
    assert_said("quorum", &alone, Error, "NOQUORUM");
    assert_said("failover-candidates", &alone, Ok, "1 of 1");
    let command = "SENTINEL SET flock down-after-milliseconds 5000";
    let delay = |millis: u64| sentinel(&format!("down-after-milliseconds:{millis}"));
    assert_said("failover-delay", &delay(999), Warning, command);
    assert_said("failover-delay", &delay(30_000), Ok, "30000 ms");
    assert_said("failover-delay", &delay(60_000), Warning, command);
    let mut never = sentinel("");
    for sentinel in &mut never.sentinels {
        let replicas = vec![InfoFields::of_lines("slave-priority:0")];
        sentinel.found.as_mut().unwrap().replicas = replicas;
    }
    assert_said("failover-candidates", &never, Error, "CONFIG SET replica-priority 100");
}

#[test]
fn clusters_are_judged() {
    use Level::{Error, Ok, Warning};
    assert_said("cluster-size", &cluster(3), Ok, "3 masters");
    assert_said("cluster-size", &cluster(2), Warning, "2 masters");
    assert_said("cluster-state", &cluster(3), Ok, "16384 of 16384");
    let broken = |line: &str| {
        let mut facts = cluster(3);
        let server = facts.masters[0].found.as_mut().unwrap();
        server.cluster.0.extend(InfoFields::of_lines(line).0);
        facts
    };
    assert_said("cluster-state", &broken("cluster_state:fail"), Error, "cluster_state fail");
    assert_said("cluster-state", &broken("cluster_slots_ok:16000"), Error, "16000 of 16384");
    let command = "CONFIG SET cluster-require-full-coverage no";
    assert_said("cluster-coverage", &cluster(3), Warning, command);
    let mut whole = cluster(3);
    for master in &mut whole.masters {
        master.found.as_mut().unwrap().info.0.extend(InfoFields::of_lines(REPLICA).0);
    }
    assert_said("cluster-coverage", &whole, Ok, "yes");
    let mut lost = cluster(3);
    lost.lost_seeds.push(("d:1".into(), LinkError::Away { reason: "no d:1".into() }));
    assert_said("seeds", &lost, Warning, "no d:1");
    assert_eq!(said("cluster-state", &mk_facts()), None);
}
