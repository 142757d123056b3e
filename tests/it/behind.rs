//! A replica that is behind a resume token says so, and the watch continues at another one without
//! a snapshot.

use std::time::Duration;

use bellwether::proto::v1;
use bellwether::proto::v1::Level;
use bellwether_client::{Client, Error, Event, Watch};
use tonic_types::StatusExt;

use crate::load::insist;
use crate::server::{DEADLINE, Server, cause, mk_report, reason};
use crate::testing::{Proxy, RedisServer};
use crate::watch::snapshot_token;

/// Two servers of one store. The second one has lost its way to Redis, and lacks the last change.
struct Stage {
    ahead: Server,
    behind: Server,
    _redis: RedisServer,
    _way: Proxy,
}

impl Stage {
    async fn set(flags: &[&str]) -> Option<Stage> {
        let redis = RedisServer::start().await?;
        let way = Proxy::to(&redis.address()).await;
        let start = |url: &str| Server::start(&[&["--store", url], flags].concat());
        let (ahead, behind) = (start(&redis.url()), start(&way.url()));
        insist(&behind, mk_report("web", "web/0", Level::Active, "both have it")).await;
        way.black_hole();
        insist(&ahead, mk_report("web", "web/0", Level::Blocked, "one has it")).await;
        Some(Stage { ahead, behind, _redis: redis, _way: way })
    }
}

/// Returns the refusal of a watch that resumes.
async fn refusal(server: &Server, token: &str) -> tonic::Status {
    let resume = v1::WatchApplicationsRequest { resume_token: token.into(), ..Default::default() };
    match server.applications().await.watch_applications(resume).await {
        Ok(watch) => {
            let end = tokio::time::timeout(DEADLINE, async move {
                let mut watch = watch.into_inner();
                watch.message().await.unwrap_err()
            });
            end.await.expect("it ends")
        }
        Err(refused) => refused,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_behind_the_token_says_so_and_when_to_try_again() {
    // One bucket is no sign of a single replica.
    for flags in [[].as_slice(), &["--store-buckets", "1"]] {
        let Some(stage) = Stage::set(flags).await else { return };
        let watch = v1::WatchApplicationsRequest::default();
        let token = snapshot_token(&mut stage.ahead.applications().await, watch).await;
        let refused = refusal(&stage.behind, &token).await;
        assert_eq!(reason(&refused), "RESUME_TOKEN_EXPIRED");
        assert_eq!(cause(&refused), "behind");
        assert!(refused.message().contains("with the same token"), "{}", refused.message());
        let details = refused.get_error_details();
        let retry = details.retry_info().and_then(|retry| retry.retry_delay);
        assert!(retry.is_some_and(|delay| delay <= Duration::from_secs(1)), "{retry:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_client_goes_to_another_replica_with_its_token() {
    let Some(stage) = Stage::set(&[]).await else { return };
    let balancer = Proxy::to(&stage.ahead.grpc.to_string()).await;
    let client = Client::connect(&format!("http://{}", balancer.address())).await.unwrap();
    let mut watch = Watch::new(&client, v1::WatchApplicationsRequest::default());
    let mut next =
        async || tokio::time::timeout(DEADLINE, watch.next()).await.expect("an event").unwrap();
    assert!(matches!(next().await, Event::Upserted(..)));
    assert!(matches!(next().await, Event::Current));
    balancer.lead_to(&stage.behind.grpc.to_string());
    balancer.cut();
    assert!(matches!(next().await, Event::Disconnected { .. }));
    balancer.heal();
    let cause = loop {
        match next().await {
            Event::Disconnected { error: Error::Refused(refusal), .. } => {
                break refusal.metadata.get("cause").cloned();
            }
            Event::Disconnected { .. } => {}
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(cause.as_deref(), Some("behind"));
    // The next connection.
    balancer.lead_to(&stage.ahead.grpc.to_string());
    loop {
        match next().await {
            Event::Current => break,
            Event::Disconnected { .. } => {}
            other => panic!("what it has is sent again: {other:?}"),
        }
    }
}
