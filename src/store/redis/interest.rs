//! Which applications this process follows, so that the other processes write the transitions of
//! these into the log. They leave out those that no other process needs (`commit.lua`).
//!
//! A mark only saves work: a process that finds no transition in an entry loads the application.

use redis::Cmd;

use crate::domain::name::AppName;
use crate::store::Bucket;
use crate::sync::lock;

use super::key::{Key, KeySpace};
use super::{Shared, script};

/// Returns the call that adds or removes the mark of a process at an application.
fn follow(keys: &KeySpace, (bucket, app): (Bucket, &AppName), process: &str, follows: bool) -> Cmd {
    let names = [Key::Heads(bucket), Key::App(bucket, app)].map(|key| keys.name(key));
    let mut call = script::call(&script::FOLLOW, &names);
    call.arg(app.to_string()).arg(process).arg(u8::from(follows));
    call
}

impl Shared {
    /// Marks that this process follows an application, unless no other process could read the mark.
    /// A later commit has its transition in the log.
    pub(super) async fn follow(&self, bucket: Bucket, app: &AppName) {
        if !lock(&self.membership).is_alone() {
            self.set_mark(bucket, app, true).await;
        }
    }

    /// Removes the marks of this process at an application, also while it is alone: a process that
    /// joins later would write transitions for one that follows nothing.
    pub(super) async fn unfollow(&self, bucket: Bucket, app: &AppName) {
        self.set_mark(bucket, app, false).await;
    }

    async fn set_mark(&self, bucket: Bucket, app: &AppName, follows: bool) {
        let call = follow(&self.keys, (bucket, app), &self.writer, follows);
        // Without the mark this process loads the application more often, which is correct too.
        if let Err(error) = self.call(&self.keys.name(Key::App(bucket, app)), &call).await {
            tracing::debug!(%app, reason = error.reason(), "cannot mark what this process follows");
        }
    }
}
