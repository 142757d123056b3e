//! One server: logins, replies, and how its absence is detected.

use std::time::Duration;

use redis::{Value, pipe};
use tokio::net::TcpListener;

use crate::store::redis::link::{Dedicated, is_unserved};
use crate::store::redis::testing::{DEADLINE, Proxy, RedisServer, until};

use super::*;

#[tokio::test]
async fn replies_come_in_order_with_errors_in_their_places() {
    let Some(server) = RedisServer::start().await else { return };
    let links = connect(&server.url()).await;
    let mut pipeline = pipe();
    pipeline.cmd("SET").arg("{b00}a").arg("1").cmd("LPUSH").arg("{b00}a").arg("x");
    pipeline.cmd("GET").arg("{b00}a");
    let replies = links.run("{b00}", &pipeline).await.unwrap();
    assert_eq!(replies[0], Value::Okay);
    assert!(matches!(&replies[1], Value::ServerError(error) if error.code() == "WRONGTYPE"));
    assert_eq!(replies[2], text("1"));
    assert_eq!(links.run("{b00}", &pipe()).await.unwrap(), []);

    links.health().unwrap();
    let known = master(&links).unwrap();
    assert_eq!(known.run_id, server.info("run_id").await);
    assert_eq!(known.replid, server.info("master_replid").await);
    assert_eq!(known.address, server.address());
    links.close();
    until_answer(&links, "it is closed", |answer| {
        matches!(answer, Err(LinkError::Away { reason }) if reason.contains("no longer used"))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_pipelines_at_once_get_their_own_answers() {
    let Some(server) = RedisServer::start().await else { return };
    let links = connect(&server.url()).await;
    let tasks = (0..1000).map(|number: i64| {
        let links = links.clone();
        tokio::spawn(async move {
            let mut pipeline = pipe();
            pipeline.cmd("INCRBY").arg(format!("{{b00}}{number}")).arg(number);
            pipeline.cmd("ECHO").arg(number.to_string());
            let replies = links.run("{b00}", &pipeline).await.unwrap();
            assert_eq!(replies, [Value::Int(number), text(&number.to_string())]);
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
}

#[tokio::test]
async fn a_refused_connection_names_its_cause() {
    let Some(server) = RedisServer::start_with(&["--requirepass", "secret"]).await else { return };
    let user = ["ACL", "SETUSER", "flock", "on", ">wool", "~*", "&*", "+@all"];
    server.call::<()>(&user).await.unwrap();
    let address = server.address();
    connect(&format!("redis://:secret@{address}")).await;
    let lamb = ["ACL", "SETUSER", "lamb", "on", ">wool", "~*", "+get"];
    server.call::<()>(&lamb).await.unwrap();
    let links = connect(&format!("redis://flock:wool@{address}/1")).await;
    let asked = links.run("{b00}", pipe().cmd("ACL").arg("WHOAMI")).await.unwrap();
    assert_eq!(asked, [text("flock")]);

    let table = [
        (format!("redis://{address}"), "user and password"),
        (format!("redis://:wrong@{address}"), "user and password"),
        (format!("redis://flock:wrong@{address}"), "user and password"),
        (format!("redis://nobody:wool@{address}"), "user and password"),
        (format!("redis://lamb:wool@{address}"), "denies access"),
        (format!("redis://:secret@{address}/99"), "no such database"),
        (format!("redis+cluster://:secret@{address}"), "not part of a cluster"),
        (format!("redis+sentinel://:secret@{address}/main"), "as a Sentinel does"),
    ];
    for (url, expected) in table {
        let error = refusal(&url).await;
        assert!(matches!(error, LinkError::Refused { .. }), "{url}: {error}");
        assert!(error.reason().contains(expected), "{url}: {error}");
        assert!(!error.reason().contains("secret"), "{error}");
    }
}

#[tokio::test]
async fn another_service_and_a_missing_redis_have_different_errors() {
    let free = crate::store::redis::testing::server::free_port();
    let error = refusal(&format!("redis://127.0.0.1:{free}")).await;
    assert!(matches!(&error, LinkError::Away { .. }), "{error}");
    assert!(error.reason().contains("cannot connect") && error.reason().contains("check"));

    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("redis://{}", listener.local_addr().unwrap());
    let silent = refusal(&url).await;
    assert!(silent.reason().contains("no answer"), "{silent}");

    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let answer = b"HTTP/1.1 400 Bad Request\r\n\r\n";
            let _ = tokio::io::AsyncWriteExt::write_all(&mut stream, answer).await;
        }
    });
    let other = refusal(&url).await;
    assert!(matches!(&other, LinkError::Refused { .. }), "{other}");
    assert!(other.reason().contains("is not Redis"), "{other}");
}

#[tokio::test]
async fn a_replica_is_refused_until_it_is_a_master() {
    let Some(first) = RedisServer::start().await else { return };
    let replica_of = format!("127.0.0.1 {}", first.port);
    let second = RedisServer::start_with(&["--replicaof", &replica_of]).await.unwrap();
    let error = refusal(&second.url()).await;
    assert!(matches!(&error, LinkError::Refused { .. }), "{error}");
    assert!(error.reason().contains(&format!("replica of 127.0.0.1:{}", first.port)), "{error}");

    let links = connect(&first.url()).await;
    // The history got its id when the first replica connected.
    until("it has", async || second.info("master_link_status").await == "up").await;
    until("it is known", async || {
        let replid = first.info("master_replid").await;
        master(&links).is_some_and(|master| master.replid == replid)
    })
    .await;
    let before = master(&links).unwrap();
    second.call::<()>(&["REPLICAOF", "NO", "ONE"]).await.unwrap();
    first.call::<()>(&["REPLICAOF", "127.0.0.1", &second.port.to_string()]).await.unwrap();
    until_answer(&links, "the demotion is noticed", |answer| {
        matches!(answer, Err(LinkError::Refused { reason }) if reason.contains("is a replica"))
    })
    .await;
    assert_eq!(master(&links), None);
    first.call::<()>(&["REPLICAOF", "NO", "ONE"]).await.unwrap();
    until_served(&links, "{b00}").await;
    let after = master(&links).unwrap();
    assert_ne!(after.replid, before.replid);
    assert!(before.connection < after.connection);
}

#[tokio::test]
async fn the_first_replica_renames_the_history_and_nothing_else() {
    let Some(server) = RedisServer::start().await else { return };
    let links = connect(&server.url()).await;
    let before = master(&links).unwrap();
    let replica_of = format!("127.0.0.1 {}", server.port);
    let _replica = RedisServer::start_with(&["--replicaof", &replica_of]).await;
    until("the new name is known", async || {
        master(&links).is_some_and(|master| master.replid != before.replid)
    })
    .await;
    let after = master(&links).unwrap();
    assert_eq!(after, Master { replid: after.replid.clone(), ..before });
}

#[tokio::test]
async fn a_killed_server_is_missed_at_once_and_found_again() {
    let Some(mut server) = RedisServer::start().await else { return };
    let links = connect(&server.url()).await;
    let before = master(&links).unwrap();
    let mut masters = links.master("{b00}");
    masters.mark_unchanged();
    server.kill();
    tokio::time::timeout(DEADLINE, masters.changed()).await.unwrap().unwrap();
    assert_eq!(*masters.borrow_and_update(), None);
    let error = links.run("{b00}", &ping()).await.unwrap_err();
    assert!(matches!(error, LinkError::Away { .. }), "{error}");
    let health = links.health().unwrap_err();
    assert!(health.contains(&server.address()) && health.contains("unreachable since"), "{health}");
    server.restart().await;
    until_served(&links, "{b00}").await;
    let after = master(&links).unwrap();
    assert_ne!(after.run_id, before.run_id);
    assert!(before.connection < after.connection);
}

#[tokio::test]
async fn a_frozen_server_is_detected_and_used_again() {
    let Some(server) = RedisServer::start().await else { return };
    let links = connect(&server.url()).await;
    server.stop();
    let started = tokio::time::Instant::now();
    let error = links.run("{b00}", &set("{b00}late", "1")).await.unwrap_err();
    assert!(matches!(error, LinkError::Ambiguous { .. }), "{error}");
    assert!(started.elapsed() < DEADLINE, "{:?}", started.elapsed());
    let took =
        until_answer(&links, "it is away", |answer| matches!(answer, Err(LinkError::Away { .. })));
    assert!(took.await < DEADLINE);
    let health = links.health().unwrap_err();
    assert!(health.contains("no answer") && health.contains("unreachable since"), "{health}");
    until("the connection is given up", async || master(&links).is_none()).await;
    server.cont();
    until_served(&links, "{b00}").await;
}

#[tokio::test]
async fn a_stall_is_waited_out_on_the_same_connection() {
    let Some(server) = RedisServer::start().await else { return };
    let links = connect(&server.url()).await;
    let before = master(&links);
    server.stop();
    until("health says so", async || links.health().is_err()).await;
    assert_eq!(master(&links), before);
    server.cont();
    until_served(&links, "{b00}").await;
    assert_eq!(master(&links), before);
}

#[tokio::test]
async fn an_ambiguous_command_may_be_applied_later() {
    let Some(server) = RedisServer::start().await else { return };
    let links = connect(&server.url()).await;
    server.stop();
    let answer = links.run("{b00}", &set("{b00}late", "1")).await;
    assert!(matches!(answer, Err(LinkError::Ambiguous { .. })), "{answer:?}");
    until("the connection is given up", async || master(&links).is_none()).await;
    server.cont();
    let late = pipe().cmd("GET").arg("{b00}late").clone();
    until("it is done all the same", async || {
        links.run("{b00}", &late).await.is_ok_and(|replies| replies == [text("1")])
    })
    .await;
}

#[tokio::test]
async fn a_black_hole_is_found_while_nothing_is_sent() {
    let Some(server) = RedisServer::start().await else { return };
    let proxy = Proxy::to(&server.address()).await;
    let links = connect(&proxy.url()).await;
    let before = master(&links).unwrap();
    let started = tokio::time::Instant::now();
    proxy.black_hole();
    until("health says so", async || links.health().is_err()).await;
    until("the connection is given up", async || master(&links).is_none()).await;
    assert!(started.elapsed() < DEADLINE, "{:?}", started.elapsed());
    proxy.heal();
    until_served(&links, "{b00}").await;
    assert!(before.connection < master(&links).unwrap().connection);
    assert_eq!(before.run_id, master(&links).unwrap().run_id);
}

#[tokio::test]
async fn an_answer_cut_in_half_is_ambiguous() {
    let Some(server) = RedisServer::start().await else { return };
    let proxy = Proxy::to(&server.address()).await;
    let links = connect(&proxy.url()).await;
    server.call::<()>(&["SET", "{b00}long", &"x".repeat(100_000)]).await.unwrap();
    proxy.cut_after(50_000);
    let error = links.run("{b00}", pipe().cmd("GET").arg("{b00}long")).await.unwrap_err();
    assert!(matches!(error, LinkError::Ambiguous { .. }), "{error}");
    proxy.heal();
    until_served(&links, "{b00}").await;
}

/// Waits on a connection of its own until the queue has an item.
async fn pop(dedicated: &Dedicated) -> Result<Value, LinkError> {
    let mut pipeline = redis::pipe();
    pipeline.cmd("BLPOP").arg("{b00}queue").arg(0);
    Ok(dedicated.connection.run(&pipeline).await?.remove(0))
}

#[tokio::test]
async fn a_blocking_read_delays_no_other_command_and_ends_when_dropped() {
    let Some(server) = RedisServer::start().await else { return };
    let links = connect(&server.url()).await;
    let dedicated = links.dedicated("{b00}", DEADLINE).await.unwrap();
    assert_eq!(Some(&dedicated.master), master(&links).as_ref());
    let waits = tokio::spawn(async move {
        let popped = pop(&dedicated).await;
        (dedicated, popped)
    });
    let blocked = async || server.info("blocked_clients").await;
    until("it blocks", async || blocked().await == "1").await;
    // Longer than the response timeout of the shared connection.
    tokio::time::sleep(options().response_timeout + Duration::from_millis(100)).await;
    links.run("{b00}", pipe().cmd("RPUSH").arg("{b00}queue").arg("x")).await.unwrap();
    let (dedicated, popped) = waits.await.unwrap();
    assert_eq!(popped.unwrap(), Value::Array(vec![text("{b00}queue"), text("x")]));

    let waits = tokio::spawn(async move { pop(&dedicated).await });
    until("it blocks", async || blocked().await == "1").await;
    waits.abort();
    until("it is gone", async || blocked().await == "0").await;
}

#[tokio::test]
async fn a_killed_connection_is_opened_again() {
    let Some(server) = RedisServer::start().await else { return };
    let links = connect(&server.url()).await;
    let before = master(&links).unwrap().connection;
    server.call::<()>(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]).await.unwrap();
    until("there is a new connection", async || {
        master(&links).is_some_and(|master| before < master.connection)
    })
    .await;
    until_served(&links, "{b00}").await;
}

#[tokio::test]
async fn a_connection_leaves_a_server_that_cannot_serve() {
    let Some(server) = RedisServer::start_with(&["--min-replicas-to-write", "1"]).await else {
        return;
    };
    let links = connect(&server.url()).await;
    let replies = links.run("{b00}", &set("{b00}a", "1")).await.unwrap();
    assert!(matches!(&replies[0], Value::ServerError(error) if error.code() == "NOREPLICAS"));
    assert!(!is_unserved(&replies[0]));
    links.health().unwrap();

    let before = master(&links).unwrap().connection;
    let says = pipe().cmd("EVAL").arg("return redis.error_reply('READONLY no')").arg(0).clone();
    let replies = links.run("{b00}", &says).await.unwrap();
    assert!(is_unserved(&replies[0]), "{replies:?}");
    until("there is a new connection", async || {
        master(&links).is_some_and(|master| before < master.connection)
    })
    .await;
}
