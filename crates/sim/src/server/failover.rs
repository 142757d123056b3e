//! A failover of the simulated store: another master serves, and the last commits may be gone.
//!
//! The repair is that of the Redis store (`store/redis/log/repair.rs`): every application that lost
//! a commit gets a revision and a position above all that were given, and shows no certain status
//! until its units are marked.

use std::collections::BTreeMap;
use std::sync::Arc;

use bellwether::domain::app::Head;
use bellwether::domain::data_loss::uncertain_head;
use bellwether::domain::name::AppName;
use bellwether::domain::transition::Write;
use bellwether::store::Position;

use super::Server;
use super::app::App;

/// The floor of a master rises by this much, and at least to a multiple of the time.
const COUNTS_PER_MASTER: u64 = 1 << 20;
const COUNTS_PER_MILLISECOND: u64 = 4096;

/// What undoes one commit.
pub(super) struct Undo {
    pub(super) name: AppName,
    pub(super) before: Option<(Position, Arc<Head>)>,
    pub(super) inverse: Vec<Write>,
    pub(super) cleared: Option<Box<App>>,
    pub(super) entry: Option<u64>,
    pub(super) first_event: u64,
    pub(super) marks: BTreeMap<u64, (u64, Option<u64>)>,
}

impl Server {
    /// Replaces the master by one that lacks the last `count` commits. Returns how many it lacks.
    pub fn failover(&mut self, count: usize) -> usize {
        self.master += 1;
        let by_time = self.time.millis() * COUNTS_PER_MILLISECOND;
        self.floor = (self.floor + COUNTS_PER_MASTER).max(by_time);
        let mut seen: BTreeMap<AppName, Arc<Head>> = BTreeMap::new();
        let mut dropped = 0;
        while dropped < count
            && let Some(undo) = self.undo.pop_back()
        {
            dropped += 1;
            if undo.entry.is_some() {
                let head = self.head(&undo.name);
                seen.entry(undo.name.clone()).or_insert(head);
            }
            self.take_back(undo);
        }
        self.undo.clear();
        if !seen.is_empty() {
            self.losses += 1;
            let buckets: Vec<_> = seen.keys().map(|name| self.bucket_of(name)).collect();
            for bucket in buckets {
                self.bucket_mut(bucket).losses = self.losses;
            }
            crate::lock(&self.judge).on_loss(seen.keys(), &self.apps, self.losses);
            for (name, head) in seen {
                self.repair(&name, &head);
            }
        }
        crate::lock(&self.judge).on_master();
        dropped
    }

    fn take_back(&mut self, undo: Undo) {
        let bucket = self.bucket_of(&undo.name);
        if let Some(entry) = undo.entry {
            self.bucket_mut(bucket).drop_entry(entry);
        }
        let Some(app) = self.apps.get_mut(&undo.name) else { return };
        let at = app.position;
        for write in undo.inverse.iter().rev() {
            app.write(write);
        }
        if let Some(cleared) = undo.cleared {
            *app = *cleared;
        }
        app.marks = undo.marks;
        app.events.retain(|event| event.number < undo.first_event);
        let state = &mut self.buckets[usize::from(bucket.0)];
        match undo.before {
            Some((position, head)) => {
                state.order.remove(&at);
                (app.position, app.head) = (position, head);
                state.order.insert(position, undo.name);
            }
            None => {
                state.order.remove(&at);
                self.apps.remove(&undo.name);
            }
        }
    }

    fn repair(&mut self, name: &AppName, seen: &Head) {
        let bucket = self.bucket_of(name);
        let (losses, floor, now) = (self.losses, self.floor, self.time);
        let head = match self.apps.get(name) {
            Some(found) => {
                let revision = found.head.revision.max(seen.revision).next();
                let head = Head { revision, ..(*found.head).clone() };
                uncertain_head(head, losses, floor, now)
            }
            // Even after a lost deletion: a replica may have read the commits before it alone, and
            // then it puts this tombstone.
            None => Head::empty(self.bucket(bucket).floor.max(seen.revision).next()),
        };
        self.apps.entry(name.clone()).or_default().head = Arc::new(head);
        self.tell(name, bucket, None);
    }
}
