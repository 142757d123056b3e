//! What is counted goes on above all that a former master may have given.

use crate::domain::command::Command;
use crate::store::conformance::driver::mk_speaker;

use super::*;

/// What is counted on one master at most, where clocks go wrong.
const COUNTS_PER_MASTER: u64 = 1 << 20;

fn claim(unit: &str) -> Command {
    Command::ClaimLeadership(mk_speaker(unit), None)
}

fn step_back(unit: &str) -> Command {
    Command::StepBack(mk_speaker(unit))
}

/// A Redis that becomes another master when told to, without that anybody loses a connection.
async fn start() -> Option<RedisServer> {
    RedisServer::start_with(&["--enable-debug-command", "yes"]).await
}

async fn become_another(server: &RedisServer) {
    server.call::<()>(&["DEBUG", "CHANGE-REPL-ID"]).await.unwrap();
}

async fn has(store: &Arc<dyn Store>) -> Driver {
    let mut web = Driver::new(store, "web").await;
    web.report("web/0", "up").await;
    web
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_epoch_decided_under_a_former_master_is_refused() {
    let Some(server) = start().await else { return };
    let store = open(&server.url()).await;
    let mut web = has(&store).await;
    web.run(claim("web/0")).await;
    assert_eq!(web.state.head().lease_epoch, 1);
    become_another(&server).await;
    // What gives no number is as good as before.
    web.report("web/0", "still up").await;
    web.run(step_back("web/0")).await;
    let late = web.draft(claim("web/0"));
    assert_eq!(late.head.lease_epoch, 2);
    let current = web.revision();
    assert_eq!(web.commit(late).await, Err(CommitError::Conflict { current }));
    web.run(claim("web/0")).await;
    let epoch = web.state.head().lease_epoch;
    assert!(COUNTS_PER_MASTER < epoch, "{epoch}");
    // Once for each master.
    web.run(step_back("web/0")).await;
    web.run(claim("web/0")).await;
    assert_eq!(web.state.head().lease_epoch, epoch + 1);
    web.check().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_who_share_a_store_count_alike() {
    let Some(server) = start().await else { return };
    let mut stores = vec![open(&server.url()).await, open(&server.url()).await];
    let mut web = has(&stores[0]).await;
    web.run(claim("web/0")).await;
    become_another(&server).await;
    stores.push(open(&server.url()).await);
    let mut last = 1;
    for store in stores.iter().chain(&stores) {
        let mut web = Driver::new(store, "web").await;
        web.run(step_back("web/0")).await;
        if web.commit(web.draft(claim("web/0"))).await.is_err() {
            web.run(claim("web/0")).await;
        }
        let epoch = web.state.head().lease_epoch;
        match last {
            1 => assert!(COUNTS_PER_MASTER < epoch, "{epoch}"),
            last => assert_eq!(epoch, last + 1),
        }
        last = epoch;
    }
}

/// As where its clock was put back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_given_is_passed_whatever_the_clock_of_redis_says() {
    let Some(server) = start().await else { return };
    let store = open(&server.url()).await;
    let mut web = has(&store).await;
    let far = (1_u64 << 40) * COUNTS_PER_MASTER;
    let state = format!("bw:{}:state", Tag(mk_keys().bucket_of(&web.state.name)));
    server.call::<()>(&["HSET", &state, "counts_above", &far.to_string()]).await.unwrap();
    web.commit(web.draft(claim("web/0"))).await.unwrap_err();
    web.run(claim("web/0")).await;
    assert_eq!(web.state.head().lease_epoch, far + 1);
    become_another(&server).await;
    web.run(step_back("web/0")).await;
    web.commit(web.draft(claim("web/0"))).await.unwrap_err();
    web.run(claim("web/0")).await;
    assert_eq!(web.state.head().lease_epoch, far + COUNTS_PER_MASTER + 1);
}

fn mk_keys() -> KeySpace {
    KeySpace::new("bw", mk_options().buckets)
}
