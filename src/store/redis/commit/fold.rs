//! Which applications have blocks, and the folds of blocks. A fold replaces blocks by fewer blocks.
//! It is due when the blocks have more entries than twice the statuses of the application plus 256.
//!
//! A fold changes nothing that a reader of records sees, and no commit waits for it.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use redis::Value;
use tokio::sync::Semaphore;

use crate::domain::name::AppName;
use crate::domain::transition::Transition;
use crate::store::redis::link::LinkError;
use crate::store::redis::record::block::{Blocks, Fold};
use crate::store::redis::record::key::Key;
use crate::store::redis::record::state::{MasterNote, check_master};
use crate::store::redis::record::{Buckets, read, reply};
use crate::store::redis::script;
use crate::store::{Bucket, ReadError};
use crate::sync::lock;

/// The maximum number of folds at once: each has the blocks of an application in memory.
const FOLDS_MAX: usize = 4;
/// The maximum number of applications that are remembered to have blocks. Another process may have
/// deleted some of them.
const PACKED_MAX: usize = 100_000;

/// The folds of a process.
pub(crate) struct Folds {
    buckets: Arc<Buckets>,
    /// The applications that have blocks, as far as this process knows. It is not needed for a
    /// correct commit: `commit.lua` makes a block of the statuses if the process does not.
    packed: Mutex<HashSet<AppName>>,
    /// The applications whose blocks are folded now.
    running: Mutex<HashSet<AppName>>,
    permits: Semaphore,
}

impl Folds {
    pub(crate) fn new(buckets: Arc<Buckets>) -> Folds {
        let permits = Semaphore::new(FOLDS_MAX);
        Folds { buckets, packed: Mutex::default(), running: Mutex::default(), permits }
    }

    /// Returns whether an application has blocks, as far as this process knows.
    pub(crate) fn has_blocks(&self, app: &AppName) -> bool {
        lock(&self.packed).contains(app)
    }

    /// Updates whether an application has blocks.
    pub(crate) fn note(&self, app: &AppName, has_blocks: bool) {
        let mut packed = lock(&self.packed);
        if !has_blocks {
            packed.remove(app);
        } else if !packed.contains(app) {
            if PACKED_MAX <= packed.len() {
                packed.clear();
            }
            packed.insert(app.clone());
        }
    }
}

/// A fold that runs. While it exists, no other fold of the application begins.
struct Folding {
    folds: Arc<Folds>,
    app: AppName,
}

impl Drop for Folding {
    fn drop(&mut self) {
        lock(&self.folds.running).remove(&self.app);
    }
}

impl Folds {
    /// Takes over what a commit has found, and starts a fold if it is due and none runs.
    pub(crate) fn heed(self: &Arc<Folds>, transition: &Transition, found: Option<Blocks>) {
        let app = &transition.app;
        if transition.is_deletion() {
            self.note(app, false);
        }
        let Some(index) = found else { return };
        self.note(app, true);
        let is_due = index.is_due(transition.head.usage().statuses);
        if !is_due || !lock(&self.running).insert(app.clone()) {
            return;
        }
        let folding = Folding { folds: self.clone(), app: app.clone() };
        tokio::spawn(async move {
            let Folding { folds, app } = &folding;
            let Ok(_permit) = folds.permits.acquire().await else { return };
            // A later commit starts the next attempt.
            if let Err(error) = folds.fold(app, &index).await {
                tracing::warn!(%app, %error, "cannot fold the blocks of an application");
            }
        });
    }

    /// Folds the blocks of an application, unless another master serves or they have changed.
    pub(crate) async fn fold(&self, app: &AppName, index: &Blocks) -> Result<(), ReadError> {
        // A fold of removals alone leaves an index without blocks. Redis refuses to read no fields.
        if index.names().next().is_none() {
            return Ok(());
        }
        let buckets = &self.buckets;
        let bucket = buckets.keys.bucket_of(app);
        let ask = read::ask_blocks(&buckets.keys, bucket, app, index);
        let values = buckets.run(bucket, &ask).await?;
        let Some((note, fold)) = read::read_fold(app, index, &values)? else { return Ok(()) };
        Ok(reply::check(&self.write_fold((bucket, app), (index, &note), &fold).await?)?)
    }

    /// Calls the script on the master that was read; it does nothing on another one.
    pub(crate) async fn write_fold(
        &self,
        (bucket, app): (Bucket, &AppName),
        (index, note): (&Blocks, &MasterNote),
        Fold { first, entries, kept, set, removed }: &Fold,
    ) -> Result<Vec<Value>, LinkError> {
        let keys = &self.buckets.keys;
        let names = [Key::App(bucket, app), Key::State(bucket)].map(|key| keys.name(key));
        let mut call = script::call(&script::FOLD, &names);
        call.arg(note.epoch_floor).arg(&*note.history);
        call.arg(index.born).arg(index.first).arg(*first).arg(*entries).arg(*kept);
        call.arg(set.len());
        for (field, block) in set {
            call.arg(field).arg(block);
        }
        call.arg(removed);
        let mut pipeline = redis::pipe();
        pipeline.add_command(check_master(keys, std::iter::once(bucket)));
        pipeline.add_command(call);
        self.buckets.run(bucket, &pipeline).await
    }
}
