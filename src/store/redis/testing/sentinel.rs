//! A master, two replicas, and three Sentinels that watch them.

use super::server::RedisServer;
use super::{DEADLINE, LOOK_EVERY, until};

/// The name of the master at the Sentinels.
pub const MASTER_NAME: &str = "flock";

const SENTINELS: usize = 3;

/// One master and its replicas, which become masters at a failover, with their Sentinels.
pub struct Sentinels {
    /// The servers; the first one starts as the master.
    pub servers: Vec<RedisServer>,
    /// The Sentinels.
    pub sentinels: Vec<RedisServer>,
}

impl Sentinels {
    /// Starts all of them and waits until they know each other.
    pub async fn start() -> Option<Sentinels> {
        Sentinels::start_with(&[]).await
    }

    /// Starts them with more arguments for the three servers.
    pub async fn start_with(arguments: &[&str]) -> Option<Sentinels> {
        let quick = ["--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1"];
        let arguments = [quick.as_slice(), arguments].concat();
        let master = RedisServer::start_with(&arguments).await?;
        let replica_of = format!("127.0.0.1 {}", master.port);
        let mut servers = vec![master];
        for _ in 0..2 {
            let replica = [arguments.as_slice(), &["--replicaof", &replica_of]].concat();
            servers.push(RedisServer::start_with(&replica).await?);
        }
        let mut sentinels = Vec::new();
        for _ in 0..SENTINELS {
            let sentinel = sentinel(servers[0].port).await?;
            // A Sentinel that did not run for two seconds, as on a busy machine, does nothing more
            // for thirty seconds unless this is set.
            sentinel.call::<()>(&["SENTINEL", "DEBUG", "tilt-period", "1000"]).await.unwrap();
            sentinels.push(sentinel);
        }
        let all = Sentinels { servers, sentinels };
        all.wait_until_agreed().await;
        Some(all)
    }

    /// Returns `redis+sentinel://` with all three.
    pub fn url(&self) -> String {
        let addresses: Vec<String> = self.sentinels.iter().map(RedisServer::address).collect();
        format!("redis+sentinel://{}/{MASTER_NAME}", addresses.join(","))
    }

    /// Returns the index of the master in `servers`, as the first Sentinel reports it.
    pub async fn master(&self) -> usize {
        let port = self.known_by(&self.sentinels[0]).await;
        self.servers.iter().position(|server| server.port == port).unwrap()
    }

    /// Makes the Sentinels promote a replica while the master is well, and waits until all agree.
    /// Returns the index of the new master in `servers`.
    pub async fn failover(&self) -> usize {
        let old = self.servers[self.master().await].port;
        let started = tokio::time::Instant::now();
        while self.known_by(&self.sentinels[0]).await == old {
            assert!(started.elapsed() < DEADLINE, "no failover:\n{}", self.sentinels[0].log());
            // Refused while another failover is under way, or while no replica counts as good.
            let _ = self.sentinels[0].call::<()>(&["SENTINEL", "FAILOVER", MASTER_NAME]).await;
            tokio::time::sleep(LOOK_EVERY * 20).await;
        }
        self.settle_after(old).await
    }

    /// Waits until all Sentinels agree on another master than the one on this port. They promote
    /// one a few seconds after the old one has died. Returns its index in `servers`.
    pub async fn settle_after(&self, old: u16) -> usize {
        until("there is another master", async || self.known_by(&self.sentinels[0]).await != old)
            .await;
        self.wait_until_agreed().await
    }

    /// Waits until all Sentinels agree on a master, and returns its index in `servers`. A busy
    /// machine can make them fail over once more in the meantime, so any master counts.
    async fn wait_until_agreed(&self) -> usize {
        let started = tokio::time::Instant::now();
        loop {
            let master = self.master().await;
            if self.agree_on(&self.servers[master]).await {
                return master;
            }
            if started.elapsed() > DEADLINE {
                self.print_state().await;
                panic!("the Sentinels do not agree on a master, see the output of this test");
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    async fn agree_on(&self, master: &RedisServer) -> bool {
        for sentinel in &self.sentinels {
            let facts = facts(sentinel).await;
            let fact = |name: &str| facts.get(name).cloned().unwrap_or_default();
            let agrees = fact("port") == master.port.to_string()
                && fact("flags") == "master"
                && fact("num-slaves") == "2"
                && fact("num-other-sentinels") == (SENTINELS - 1).to_string();
            if !agrees {
                return false;
            }
        }
        master.info("role").await == "master"
    }

    /// Prints what the Sentinels hold and the logs of all processes.
    async fn print_state(&self) {
        for sentinel in &self.sentinels {
            println!("{:?}", facts(sentinel).await);
        }
        for process in self.sentinels.iter().chain(&self.servers) {
            println!("port {}:\n{}", process.port, process.log());
        }
    }

    async fn known_by(&self, sentinel: &RedisServer) -> u16 {
        facts(sentinel).await["port"].parse().unwrap()
    }
}

/// Makes the Sentinels wait much longer before a master counts as down: on a busy machine they
/// would make another failover after the intended one.
pub async fn be_patient(sentinels: &[RedisServer]) {
    for sentinel in sentinels {
        let words = ["SENTINEL", "SET", MASTER_NAME, "down-after-milliseconds", "60000"];
        sentinel.call::<()>(&words).await.unwrap();
    }
}

async fn facts(sentinel: &RedisServer) -> std::collections::HashMap<String, String> {
    sentinel.call(&["SENTINEL", "MASTER", MASTER_NAME]).await.unwrap()
}

async fn sentinel(master_port: u16) -> Option<RedisServer> {
    RedisServer::start_in(|directory| {
        // Sentinel rewrites its file.
        let file = directory.join("sentinel.conf");
        let text = format!(
            "sentinel monitor {MASTER_NAME} 127.0.0.1 {master_port} 2\n\
             sentinel down-after-milliseconds {MASTER_NAME} 1000\n\
             sentinel failover-timeout {MASTER_NAME} 3000\n\
             sentinel parallel-syncs {MASTER_NAME} 2\n"
        );
        std::fs::write(&file, text).unwrap();
        vec![file.display().to_string(), "--sentinel".into()]
    })
    .await
}
