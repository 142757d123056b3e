//! Tests against real servers.

use std::time::Duration;

use redis::Value;

use crate::domain::revision::Revision;
use crate::store::conformance::driver::{Driver, Recorder, insist, mk_report};
use crate::store::{Applied, Bucket, Change, MasterChange, Position};

use super::record::batch::{Batch, Mark};
use super::record::key::{Key, KeySpace, tag};
use super::record::{read, reply};
use super::testing::{Cluster, DEADLINE, Proxy, RedisServer, Sentinels, until};
use super::*;

mod blocks;
mod conforms;
mod durability;
mod formats;
mod masters;
mod open;
mod replicas;
mod resend;
mod servers;
mod time;

/// An observer that panics at each change and message.
pub(super) struct PanickingObserver;

impl Observer for PanickingObserver {
    fn on_change(&self, _: &Change) {
        panic!("as the test wants");
    }

    fn on_broadcast(&self, _: &Broadcast) {
        panic!("as the test wants");
    }

    fn on_prune(&self, _: Bucket, _: Position) {}

    fn on_master(&self, _: Bucket, _: &MasterChange) {}
}

/// The number of buckets of a store with [`mk_options`].
const BUCKETS: u16 = 4;

fn mk_options() -> Options {
    with_buckets(BUCKETS)
}

fn with_buckets(buckets: u16) -> Options {
    let layout = Layout { buckets: Some(buckets), ..Layout::default() };
    Options { layout, ..Options::default() }
}

/// Returns the keys of a store with [`mk_options`].
fn mk_keys() -> KeySpace {
    KeySpace::new(&Prefix::default(), BUCKETS)
}

async fn try_open(url: &str, options: Options) -> Result<RedisStore, OpenError> {
    let target = Target::parse(url, link::TlsFiles::default()).unwrap();
    RedisStore::open(target, options).await
}

async fn open(url: &str) -> Arc<dyn Store> {
    Arc::new(try_open(url, patient(mk_options())).await.unwrap())
}

/// Waits for servers that are there, for as long as any test waits: on a busy machine they answer
/// late.
fn patient(options: Options) -> Options {
    let link = link::Options { start_deadline: DEADLINE, ..options.link };
    Options { link, ..options }
}
