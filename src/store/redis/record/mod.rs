//! What Redis has of a store: the keys of each bucket, their records, and the requests for them.
//!
//! ```text
//!  Buckets --run, call, load, events--> Servers
//!
//!  key, layout   names and places        state   the master that serves a bucket, and its losses
//!  meta          the store as a whole    batch   a transition as arguments of commit.lua
//!  read, entry   records and histories   block   the statuses of a commit in one field
//! ```
//!
//! # Invariants
//!
//! - Nothing here has a state of its own: each answer is of the moment of its request.
//! - `key` alone makes names. All keys of a bucket have its hash tag, so one request stays within
//!   the keys of one bucket, or within `meta`, `replicas` or `clock`.
//! - An application is read as of one moment, together with the note of its master.
//! - `block` alone knows what a block is: a reader gets the newest entry of each record, and no
//!   code outside of `record`, `commit.lua` and `fold` asks whether a record was in one.

use std::sync::Arc;

use redis::{Cmd, Pipeline, Value};

use crate::domain::name::AppName;
use crate::domain::time::Timestamp;
use crate::store::{Bucket, Epoch, NumberedEvent, ReadError, Retention};

use super::error::OpenError;
use super::link::info::InfoFields;
use super::link::{Kind, LinkError, Servers, run_one};
use super::script;

use key::{KeySpace, tag};
use layout::Layout;
use read::FoundApp;

pub(crate) mod batch;
pub(crate) mod block;
pub(crate) mod entry;
pub(crate) mod key;
pub(crate) mod layout;
pub(crate) mod meta;
pub(crate) mod read;
pub(crate) mod reply;
pub(crate) mod space;
pub(crate) mod state;

/// The minimum number of changes that the log of a bucket keeps. A replica that is away for longer
/// reads the heads.
pub(crate) const LOG_ENTRIES: u32 = 4096;

/// The buckets of a store, as its servers have them.
pub(crate) struct Buckets {
    pub(crate) servers: Arc<dyn Servers>,
    pub(crate) keys: KeySpace,
    pub(crate) retention: Retention,
}

impl Buckets {
    /// Finds the store, and creates it if there is none. Also returns its epoch.
    pub(crate) async fn open(
        servers: Arc<dyn Servers>,
        layout: &Layout,
        retention: Retention,
    ) -> Result<(Buckets, Epoch), OpenError> {
        let (keys, epoch) = meta::open(&*servers, layout).await?;
        tracing::info!(prefix = %layout.prefix, buckets = keys.buckets, "found the store in Redis");
        Ok((Buckets { servers, keys, retention }, epoch))
    }

    /// Returns all buckets.
    pub(crate) fn all(&self) -> impl Iterator<Item = Bucket> + use<> {
        (0..self.keys.buckets).map(Bucket)
    }

    /// Groups the buckets that share a connection: all of them, or each alone in a Cluster, where
    /// one request must stay within one slot.
    pub(crate) fn groups(&self) -> Vec<Vec<Bucket>> {
        match self.servers.kind() {
            Kind::Cluster => self.all().map(|bucket| vec![bucket]).collect(),
            Kind::Standalone | Kind::Sentinel => vec![self.all().collect()],
        }
    }

    /// Runs a pipeline on the master of a bucket.
    pub(crate) async fn run(
        &self,
        bucket: Bucket,
        pipeline: &Pipeline,
    ) -> Result<Vec<Value>, LinkError> {
        self.servers.run(&tag(bucket), pipeline).await
    }

    /// Runs one command on the master of a bucket.
    pub(crate) async fn run_one(&self, bucket: Bucket, command: &Cmd) -> Result<Value, LinkError> {
        run_one(&*self.servers, &tag(bucket), command).await
    }

    /// Calls a script on the master that holds a key.
    pub(crate) async fn call(&self, key: &str, call: &Cmd) -> Result<Value, LinkError> {
        script::run(&*self.servers, key, call).await
    }

    /// Returns a section of the answer to `INFO` of the master that holds a key.
    pub(crate) async fn info(&self, key: &str, section: &str) -> Result<InfoFields, LinkError> {
        let answer = run_one(&*self.servers, key, redis::cmd("INFO").arg(section)).await?;
        Ok(InfoFields::of_lines(reply::info(&answer)))
    }

    /// Reads all records of an application.
    pub(crate) async fn load(&self, bucket: Bucket, app: &AppName) -> Result<FoundApp, ReadError> {
        read::read_app(app, &self.run(bucket, &read::ask_app(&self.keys, bucket, app)).await?)
    }

    /// Reads the events of an application that precede the event numbered `before`, newest first.
    pub(crate) async fn events(
        &self,
        app: &AppName,
        before: Option<u64>,
        count_max: usize,
        now: Timestamp,
    ) -> Result<Vec<NumberedEvent>, ReadError> {
        let Buckets { keys, retention, .. } = self;
        let bucket = keys.bucket_of(app);
        let most = retention.events_max.max(retention.own_events_max);
        let count = u64::try_from(count_max).unwrap_or(u64::MAX).min(most);
        if count == 0 || before == Some(0) {
            return Ok(Vec::new());
        }
        let ask = read::ask_events(keys, bucket, app, before, count);
        read::read_events(app, &self.run(bucket, &ask).await?, retention, count_max, now)
    }
}
