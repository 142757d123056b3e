//! A cluster of three masters that share the slots.

use super::server::{RedisServer, free_port};
use super::until;

/// The number of hash slots of a cluster.
const SLOTS: usize = 16_384;

/// A cluster whose masters have a third of the slots each.
pub struct Cluster {
    /// The masters, then the added nodes.
    pub nodes: Vec<RedisServer>,
}

impl Cluster {
    /// Starts three masters and waits until each of them reports that the cluster is well.
    pub async fn start() -> Option<Cluster> {
        Cluster::start_with(&[]).await
    }

    /// Starts them with more arguments.
    pub async fn start_with(arguments: &[&str]) -> Option<Cluster> {
        let mut nodes = Vec::new();
        for _ in 0..3 {
            nodes.push(node(arguments).await?);
        }
        for (i, node) in nodes.iter().enumerate() {
            let (from, to) = (i * SLOTS / 3, (i + 1) * SLOTS / 3 - 1);
            let (from, to, epoch) = (from.to_string(), to.to_string(), (i + 1).to_string());
            node.call::<()>(&["CLUSTER", "SET-CONFIG-EPOCH", &epoch]).await.unwrap();
            node.call::<()>(&["CLUSTER", "ADDSLOTSRANGE", &from, &to]).await.unwrap();
            meet(node, &nodes[0]).await;
        }
        let cluster = Cluster { nodes };
        cluster.wait_until_ok(3).await;
        Some(cluster)
    }

    /// Returns `redis+cluster://` with the first two nodes.
    pub fn url(&self) -> String {
        format!("redis+cluster://{},{}", self.nodes[0].address(), self.nodes[1].address())
    }

    /// Adds a replica of a node and waits until it replicates. Returns its index in `nodes`.
    pub async fn add_replica(&mut self, of: usize) -> usize {
        let replica = node(&[]).await.unwrap();
        meet(&replica, &self.nodes[0]).await;
        self.nodes.push(replica);
        let added = self.nodes.len() - 1;
        self.wait_until_ok(self.nodes.len()).await;
        let master = id(&self.nodes[of]).await;
        let replica = &self.nodes[added];
        replica.call::<()>(&["CLUSTER", "REPLICATE", &master]).await.unwrap();
        until("the replica follows", async || replica.info("master_link_status").await == "up")
            .await;
        added
    }

    /// Promotes a replica while its master is well, and waits until it is a master.
    pub async fn failover(&self, replica: usize) {
        let replica = &self.nodes[replica];
        until("the replica takes over", async || {
            let _ = replica.call::<()>(&["CLUSTER", "FAILOVER"]).await;
            replica.info("role").await == "master"
        })
        .await;
    }

    /// Gives a slot without keys to another node.
    pub async fn move_slot(&self, slot: u16, to: usize) {
        let (slot, new) = (slot.to_string(), id(&self.nodes[to]).await);
        // The new owner first: the old one refuses the slot only when another node has it.
        let (first, rest) = (&self.nodes[to], self.nodes.iter());
        for node in [first].into_iter().chain(rest) {
            let _ = node.call::<()>(&["CLUSTER", "SETSLOT", &slot, "NODE", &new]).await;
        }
        until("the slot has moved", async || {
            self.nodes[to].call::<()>(&["CLUSTER", "BUMPEPOCH"]).await.unwrap();
            let map: String = self.nodes[0].call(&["CLUSTER", "NODES"]).await.unwrap();
            let line = map.lines().find(|line| line.starts_with(&new)).unwrap_or("");
            line.split(' ').any(|part| part == slot)
        })
        .await;
    }

    async fn wait_until_ok(&self, count: usize) {
        for node in &self.nodes {
            until("the cluster is ok", async || {
                let info: String = node.call(&["CLUSTER", "INFO"]).await.unwrap();
                info.contains("cluster_state:ok")
                    && info.contains(&format!("cluster_known_nodes:{count}\r"))
            })
            .await;
        }
    }
}

async fn node(arguments: &[&str]) -> Option<RedisServer> {
    RedisServer::start_in(|_| {
        // By default the port of the bus is 10,000 above the port, which may be too high.
        let usual = format!(
            "--cluster-enabled yes --cluster-node-timeout 2000 --cluster-port {} \
             --repl-diskless-sync-delay 0 --cluster-allow-replica-migration no",
            free_port()
        );
        let words = usual.split(' ').chain(arguments.iter().copied());
        words.map(str::to_string).collect()
    })
    .await
}

async fn meet(node: &RedisServer, other: &RedisServer) {
    if node.port == other.port {
        return;
    }
    let bus: Vec<String> = other.call(&["CONFIG", "GET", "cluster-port"]).await.unwrap();
    let words = ["CLUSTER", "MEET", "127.0.0.1", &other.port.to_string(), &bus[1]];
    node.call::<()>(&words).await.unwrap();
}

async fn id(node: &RedisServer) -> String {
    node.call(&["CLUSTER", "MYID"]).await.unwrap()
}
