//! The conformance suite on real servers.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Mutex;

use crate::store::conformance::{
    Deployment, Failover, FaultyLink, SetClock, test_all, test_applications, test_clock,
    test_failover, test_link, test_shared,
};
use crate::store::redis::testing::available;

use super::*;

/// A store with its own key prefix.
struct Part {
    url: String,
    options: Options,
}

impl Deployment for Part {
    async fn open(&self) -> Arc<dyn Store> {
        Arc::new(try_open(&self.url, patient(self.options.clone())).await.unwrap())
    }
}

/// Runs the suite on one Redis: with one bucket, and with the default number of buckets.
async fn conforms_on(url: &str) {
    let count = AtomicUsize::new(0);
    let make = |buckets, retention| {
        let prefix = format!("part{}", count.fetch_add(1, Ordering::Relaxed));
        let layout = Layout { prefix: Prefix::parse(&prefix).unwrap(), buckets };
        Part { url: url.to_string(), options: Options { layout, retention, ..Options::default() } }
    };
    test_all(async |retention| make(Some(1), retention)).await;
    test_applications(async |retention| make(None, retention)).await;
    test_shared(async |retention| make(Some(BUCKETS), retention)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn conforms_on_one_server() {
    let Some(server) = RedisServer::start().await else { return };
    conforms_on(&server.url()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn conforms_on_valkey() {
    let Some(server) = RedisServer::start_valkey(&[]).await else { return };
    conforms_on(&server.url()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn conforms_on_a_cluster() {
    let Some(cluster) = Cluster::start().await else { return };
    conforms_on(&cluster.url()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn conforms_behind_sentinels() {
    let Some(sentinels) = Sentinels::start().await else { return };
    conforms_on(&sentinels.url()).await;
}

/// A server that keeps what it saved, with a proxy before it. Its restart is a failover: Redis
/// counts it as another master.
struct Restarted {
    server: Mutex<RedisServer>,
    url: String,
    proxy: Proxy,
}

impl Restarted {
    async fn start() -> Restarted {
        let arguments = ["--save", "3600 1000000", "--dbfilename", "dump.rdb"];
        let server = RedisServer::start_with(&arguments).await.unwrap();
        let (url, proxy) = (server.url(), Proxy::to(&server.address()).await);
        Restarted { server: Mutex::new(server), url, proxy }
    }
}

impl Deployment for Restarted {
    async fn open(&self) -> Arc<dyn Store> {
        open(&self.url).await
    }
}

impl FaultyLink for Restarted {
    async fn open_linked(&self) -> Arc<dyn Store> {
        open(&self.proxy.url()).await
    }

    fn cut(&self) {
        self.proxy.cut();
    }

    fn lose_answers(&self, round: u32) {
        // Somewhere in the next answers, of the commit or of the log.
        self.proxy.cut_after(round * 7);
    }

    fn heal(&self) {
        self.proxy.heal();
    }
}

impl Failover for Restarted {
    async fn secure(&self) {
        self.server.lock().await.call::<()>(&["SAVE"]).await.unwrap();
    }

    async fn fail_over(&self) {
        self.server.lock().await.restart().await;
    }
}

impl SetClock for RedisServer {
    /// A difference that the store has to the clock of Redis is what a jump of the clock is.
    async fn set_ahead(&self, by: Duration) {
        let time: Vec<u64> = self.call(&["TIME"]).await.unwrap();
        let now = (time[0] * 1_000_000 + time[1]).to_string();
        let by = by.as_micros().to_string();
        self.call::<()>(&["HDEL", "bw:clock", "ahead"]).await.unwrap();
        self.call::<()>(&["HSET", "bw:clock", "behind", &by, "since", &now]).await.unwrap();
        // The process corrects it.
        until("the clock was read", async || {
            self.call::<Option<String>>(&["HGET", "bw:clock", "behind"]).await.unwrap().as_ref()
                != Some(&by)
        })
        .await;
    }
}

impl Deployment for RedisServer {
    async fn open(&self) -> Arc<dyn Store> {
        open(&self.url()).await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn conforms_while_its_clock_is_set() {
    if available("redis-server", "--version") {
        test_clock(async |_| RedisServer::start().await.unwrap()).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn conforms_behind_a_link_that_breaks() {
    if available("redis-server", "--version") {
        test_link(async |_| Restarted::start().await).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn conforms_after_restarts() {
    if available("redis-server", "--version") {
        test_failover(async |_| Restarted::start().await).await;
    }
}
