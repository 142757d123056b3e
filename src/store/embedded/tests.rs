//! What the embedded store holds beyond the suite: it outlives crashes, and says when it cannot be used.

use std::sync::{Arc, Mutex};

use tempfile::TempDir;

use crate::store::conformance::test_all;
use crate::store::{Retention, Store};

use super::*;

fn mk_options() -> Options {
    Options {
        retry_interval: Duration::from_millis(5),
        ..Options::default()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn conforms() {
    let dirs = Mutex::new(Vec::new());
    test_all(|retention| {
        let dir = TempDir::new().unwrap();
        let options = Options {
            retention,
            ..mk_options()
        };
        let store = EmbeddedStore::open(dir.path(), options).unwrap();
        dirs.lock().unwrap().push(dir);
        Arc::new(store)
    })
    .await;
}
