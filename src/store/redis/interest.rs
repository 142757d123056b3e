//! Which applications this process follows, so that the other processes write the transitions of
//! these into the log. They leave out those that no other process needs (`commit.lua`).
//!
//! A mark only saves work: a process that finds no transition in an entry loads the application.

use crate::domain::name::AppName;
use crate::store::Bucket;
use crate::sync::lock;

use super::key::Key;
use super::{Shared, script};

impl Shared {
    /// Marks that this process follows an application, unless no other process could read the mark.
    /// A later commit has its transition in the log.
    pub(super) async fn follow(&self, bucket: Bucket, app: &AppName) {
        if !lock(&self.membership).is_alone() {
            self.set_mark(bucket, app, true).await;
        }
    }

    /// Adds or removes the mark of this process at an application.
    pub(super) async fn set_mark(&self, bucket: Bucket, app: &AppName, follows: bool) {
        let names = [Key::Heads(bucket), Key::App(bucket, app)].map(|key| self.keys.name(key));
        let mut call = script::call(&script::FOLLOW, &names);
        call.arg(app.to_string()).arg(&*self.writer).arg(u8::from(follows));
        // Without the mark this process loads the application more often, which is correct too.
        if let Err(error) = self.call(&names[1], &call).await {
            tracing::debug!(%app, reason = error.reason(), "cannot mark what this process follows");
        }
    }
}
