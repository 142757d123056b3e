//! Against real servers.

use std::sync::{Arc, Mutex};

use crate::store::conformance::test_all;

use super::testing::RedisServer;
use super::*;

fn mk_options() -> Options {
    Options { buckets: 1, ..Options::default() }
}

async fn open(url: &str, options: Options) -> RedisStore {
    let target = Target::parse(url, link::TlsFiles::default()).unwrap();
    RedisStore::open(target, options).await.unwrap()
}

/// The suite on one server, each part with a key prefix of its own.
async fn conforms_on(url: &str) {
    let count = Mutex::new(0);
    test_all(|retention| {
        let n = {
            let mut count = count.lock().unwrap();
            *count += 1;
            *count
        };
        let options = Options { retention, prefix: format!("part{n}"), ..mk_options() };
        let handle = tokio::runtime::Handle::current();
        let store = tokio::task::block_in_place(|| handle.block_on(open(url, options)));
        Arc::new(store) as Arc<dyn Store>
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn conforms() {
    let Some(server) = RedisServer::start().await else { return };
    conforms_on(&server.url()).await;
}
