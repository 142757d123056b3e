//! Two Redis servers: one master and one replica, which takes over repeatedly.

use crate::failover::has_caught_up;
use crate::server::eventually;
use crate::testing::{Proxy, RedisServer};

/// A master and its replica, which swap roles.
pub struct Pair {
    pub master: RedisServer,
    pub replica: RedisServer,
}

impl Pair {
    pub async fn start() -> Option<Pair> {
        let arguments = ["--repl-diskless-sync-delay", "0"];
        let (master, replica) = (
            RedisServer::start_with(&arguments).await?,
            RedisServer::start_with(&arguments).await?,
        );
        let pair = Pair { master, replica };
        pair.follow().await;
        Some(pair)
    }

    /// Fails over by a command of Redis, which loses nothing. Connections to the former master stay
    /// open.
    pub async fn hand_over(&mut self, ways: &[Proxy]) {
        let port = self.replica.port.to_string();
        self.master.call::<()>(&["FAILOVER", "TO", "127.0.0.1", &port]).await.unwrap();
        self.has_taken_over().await;
        self.swap(ways);
        self.follows().await;
    }

    /// Kills the master, which restarts empty, as a replica. The data of its replica are kept.
    pub async fn kill(&mut self, ways: &[Proxy]) {
        self.master.kill();
        self.replica.call::<()>(&["REPLICAOF", "NO", "ONE"]).await.unwrap();
        self.has_taken_over().await;
        self.swap(ways);
        self.replica.restart().await;
        self.follow().await;
    }

    /// Cuts the replica off for good: it receives no writes from now on, so writes can be lost.
    pub async fn part(&self) {
        self.master.call::<()>(&["ACL", "SETUSER", "default", "-psync", "-sync"]).await.unwrap();
        let _killed: i64 = self.master.call(&["CLIENT", "KILL", "TYPE", "replica"]).await.unwrap();
        eventually("the master is alone", async || {
            (self.master.info("connected_slaves").await == "0").then_some(())
        })
        .await;
    }

    /// Makes the master answer reads and block writes.
    pub async fn hold_writes(&self) {
        self.master.call::<()>(&["CLIENT", "PAUSE", "60000", "WRITE"]).await.unwrap();
    }

    async fn has_taken_over(&self) {
        eventually("the replica has taken over", async || {
            (self.replica.info("role").await == "master").then_some(())
        })
        .await;
    }

    fn swap(&mut self, ways: &[Proxy]) {
        std::mem::swap(&mut self.master, &mut self.replica);
        for way in ways {
            way.lead_to(&self.master.address());
        }
    }

    async fn follow(&self) {
        let port = self.master.port.to_string();
        self.replica.call::<()>(&["REPLICAOF", "127.0.0.1", &port]).await.unwrap();
        self.follows().await;
    }

    /// Waits until the replica has all writes, and the master knows it.
    async fn follows(&self) {
        has_caught_up(&self.replica, &self.master).await;
        eventually("the master counts on its replica", async || {
            self.master.info("slave0").await.contains("state=online").then_some(())
        })
        .await;
    }
}
