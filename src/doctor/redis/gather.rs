//! Gathers the facts of a setup. It writes nothing, and the one script that it loads cannot write.

use std::time::{Duration, Instant, SystemTime};

use futures_util::future::join_all;
use redis::aio::MultiplexedConnection;
use redis::{Pipeline, RedisResult, Value, from_redis_value};

use crate::store::redis::link::info::InfoFields;
use crate::store::redis::link::{self, Kind, LinkError, Reading, Survey, Target};
use crate::store::redis::record::key::{Key, KeySpace};
use crate::store::redis::record::{meta, reply};
use crate::store::redis::{Durability, Layout};

use super::facts::{Clock, Facts, Sentinel, Server};
use super::rights;

/// The number of round trips to measure.
const PINGS: usize = 20;

/// The settings to judge. Each needs its own request: before 7.0 Redis takes only one name.
const SETTINGS: &[&str] = &[
    "appendfsync",
    "client-output-buffer-limit",
    "cluster-require-full-coverage",
    "min-replicas-max-lag",
    "min-replicas-to-write",
    "repl-backlog-size",
    "save",
    "stop-writes-on-bgsave-error",
    "timeout",
];

/// Gathers all facts; each step takes at most `patience`.
pub(super) async fn gather(
    target: &Target,
    durability: Durability,
    layout: &Layout,
    patience: Duration,
) -> Facts {
    let options = link::Options {
        connect_timeout: patience,
        response_timeout: patience,
        ..link::Options::default()
    };
    let survey = Survey::take(target, options).await;
    let kind = target.kind();
    let name = target.master_name().unwrap_or_default();
    let sentinels = survey.sentinels.into_iter();
    let sentinels = sentinels.map(|reading| query(reading, |server| ask_sentinel(server, name)));
    let masters = survey.masters.into_iter();
    let masters = masters
        .map(|reading| query(reading, |server| ask_server(server, durability, kind, layout)));
    let (sentinels, masters) = tokio::join!(join_all(sentinels), join_all(masters));
    Facts {
        durability,
        kind,
        target: target.clone(),
        layout: layout.clone(),
        sentinels,
        lost_seeds: survey.lost_seeds,
        masters,
    }
}

/// Asks a server, if there is a connection to it.
async fn query<T>(
    Reading { address, is_local, found }: Reading<MultiplexedConnection>,
    ask: impl AsyncFnOnce(MultiplexedConnection) -> RedisResult<T>,
) -> Reading<T> {
    let found = match found {
        Ok(connection) => ask(connection).await.map_err(|error| {
            let reason = match error.is_timeout() {
                true => format!("no answer from {address} in time"),
                false => format!("{address}: {error}"),
            };
            LinkError::Away { reason }
        }),
        Err(error) => Err(error),
    };
    Reading { address, is_local, found }
}

async fn ask_server(
    mut connection: MultiplexedConnection,
    durability: Durability,
    kind: Kind,
    layout: &Layout,
) -> RedisResult<Server> {
    let mut pipeline = redis::pipe();
    pipeline.cmd("INFO").cmd("CLUSTER").arg("INFO");
    let answers = send(&mut connection, &pipeline).await?;
    let [info, cluster] = answers.as_slice() else { return Ok(Server::default()) };
    let (config, config_refusal) = ask_config(&mut connection).await?;
    let keys = KeySpace::new(&layout.prefix, layout.buckets_of_new(kind));
    let needed = rights::needed(&keys, durability, kind == Kind::Cluster);
    Ok(Server {
        info: InfoFields::of_lines(reply::info(info)),
        cluster: InfoFields::of_lines(reply::info(cluster)),
        config,
        config_refusal,
        rights: rights::read(&needed, &send(&mut connection, &rights::ask(&needed)).await?),
        pings: ping(&mut connection).await?,
        clock: ask_clock(&mut connection, &keys).await?,
        store: ask_store(&mut connection, &keys, layout.buckets).await?,
    })
}

async fn ask_sentinel(mut connection: MultiplexedConnection, name: &str) -> RedisResult<Sentinel> {
    let mut pipeline = redis::pipe();
    for question in ["MASTER", "REPLICAS", "CKQUORUM"] {
        pipeline.cmd("SENTINEL").arg(question).arg(name);
    }
    let answers = send(&mut connection, &pipeline).await?;
    let [master, replicas, quorum] = answers.as_slice() else { return Ok(Sentinel::default()) };
    let quorum = match quorum {
        Value::ServerError(error) if error.code() == "NOPERM" => None,
        Value::ServerError(error) => Some(Err(error.to_string())),
        answer => reply::text(answer).map(|text| Ok(text.to_string())),
    };
    Ok(Sentinel {
        master: fields(master),
        replicas: reply::items(replicas).iter().map(fields).collect(),
        quorum,
    })
}

/// Returns the settings that can be read, and the error in place of any other.
async fn ask_config(
    connection: &mut MultiplexedConnection,
) -> RedisResult<(InfoFields, Option<String>)> {
    let mut pipeline = redis::pipe();
    for name in SETTINGS {
        pipeline.cmd("CONFIG").arg("GET").arg(name);
    }
    let answers = send(connection, &pipeline).await?;
    let refusal = reply::error(&answers)
        .map(|error| error.details().map_or_else(|| error.to_string(), str::to_string));
    Ok((InfoFields(answers.iter().flat_map(|answer| fields(answer).0).collect()), refusal))
}

async fn ping(connection: &mut MultiplexedConnection) -> RedisResult<Vec<Duration>> {
    let mut pings = Vec::with_capacity(PINGS);
    let mut pipeline = redis::pipe();
    pipeline.cmd("PING");
    for _ in 0..PINGS {
        let asked = Instant::now();
        send(connection, &pipeline).await?;
        pings.push(asked.elapsed());
    }
    pings.sort();
    Ok(pings)
}

/// Returns the time of the server against the local time in the middle of the request.
async fn ask_clock(
    connection: &mut MultiplexedConnection,
    keys: &KeySpace,
) -> RedisResult<Option<Clock>> {
    let mut pipeline = redis::pipe();
    pipeline.cmd("TIME").cmd("HMGET").arg(keys.name(Key::Clock)).arg(&["behind", "ahead"]);
    let (ours, asked) = (SystemTime::now(), Instant::now());
    let answers = send(connection, &pipeline).await?;
    let error = asked.elapsed() / 2;
    let read = || {
        let [seconds, micros] = reply::items(answers.first()?) else { return None };
        let theirs = reply::number(seconds)? * 1000 + reply::number(micros)? / 1000;
        let ours = (ours + error).duration_since(SystemTime::UNIX_EPOCH).ok()?.as_millis();
        let ahead_ms = i64::try_from(theirs).ok()? - i64::try_from(ours).ok()?;
        // On a Cluster another master may hold the key.
        let apart = answers.get(1).map(reply::items).unwrap_or_default().iter();
        let mut apart =
            apart.map(|by| Duration::from_micros(reply::number(by).unwrap_or_default()));
        let [behind, ahead] = [(); 2].map(|()| apart.next().unwrap_or_default());
        Some(Clock { ahead_ms, error, behind, ahead })
    };
    Ok(read())
}

/// Returns what the keys of Bellwether say about the store, if this server holds them.
async fn ask_store(
    connection: &mut MultiplexedConnection,
    keys: &KeySpace,
    buckets: Option<u16>,
) -> RedisResult<Option<Result<String, String>>> {
    let answers = send(connection, &meta::ask(keys)).await?;
    let is_elsewhere = |code: &str| matches!(code, "MOVED" | "ASK" | "CLUSTERDOWN");
    // The finding on rights reports what may not be read.
    match reply::error(&answers).map(redis::ServerError::code) {
        Some(code) if is_elsewhere(code) || code == "NOPERM" => return Ok(None),
        _ => {}
    }
    Ok(Some(match meta::read(&answers, &keys.name(Key::Meta), buckets) {
        Ok(Some(meta)) => Ok(meta.to_string()),
        Ok(None) => Ok("there is no store yet; the first server creates it".to_string()),
        Err(error) => Err(error.to_string()),
    }))
}

async fn send(
    connection: &mut MultiplexedConnection,
    pipeline: &Pipeline,
) -> RedisResult<Vec<Value>> {
    connection.send_packed_commands(pipeline, 0, pipeline.len()).await
}

/// Returns the fields in pairs; empty if the answer is an error.
fn fields(answer: &Value) -> InfoFields {
    InfoFields(from_redis_value(answer.clone()).unwrap_or_default())
}
