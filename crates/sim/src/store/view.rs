//! What one process knows of each bucket, and the observers that it notifies.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use bellwether::domain::app::Head;
use bellwether::domain::name::AppName;
use bellwether::domain::revision::Revision;
use bellwether::domain::transition::Transition;
use bellwether::store::{Bucket, Change, Epoch, MasterChange, Observer, Position};

use crate::server::Greeting;
use crate::server::bucket::{BucketCopy, Content, Entry};

/// What observers may ask the store for while the view notifies them.
#[derive(Default)]
pub(super) struct Facts {
    store_id: AtomicU64,
    losses: AtomicU32,
    floor: AtomicU64,
}

impl Facts {
    pub(super) fn epoch(&self) -> Epoch {
        let store_id = self.store_id.load(Ordering::SeqCst);
        Epoch { store_id, losses: self.losses.load(Ordering::SeqCst) }
    }

    pub(super) fn floor(&self) -> u64 {
        self.floor.load(Ordering::SeqCst)
    }
}

/// The view of a process.
pub(super) struct View {
    facts: Arc<Facts>,
    /// The master that was compared.
    pub(super) master: u64,
    buckets: Vec<Known>,
    observers: Vec<Arc<dyn Observer>>,
}

#[derive(Default)]
struct Known {
    heads: BTreeMap<AppName, (Position, Arc<Head>)>,
    order: BTreeMap<Position, AppName>,
    last: Position,
    forgotten: Position,
    revision_floor: Revision,
    losses: u32,
    cursor: u64,
}

impl View {
    pub(super) fn new(buckets: u16, facts: Arc<Facts>) -> View {
        View {
            facts,
            master: 0,
            buckets: (0..buckets).map(|_| Known::default()).collect(),
            observers: Vec::new(),
        }
    }

    fn known(&self, bucket: Bucket) -> &Known {
        &self.buckets[usize::from(bucket.0)]
    }

    /// Returns the cursor and the loss count of each bucket; nothing before the first greeting.
    pub(super) fn seen(&self) -> Vec<(u64, u32)> {
        if self.master == 0 {
            return Vec::new();
        }
        self.buckets.iter().map(|known| (known.cursor, known.losses)).collect()
    }

    /// Returns the cursor of each bucket.
    pub(super) fn cursors(&self) -> Vec<u64> {
        self.buckets.iter().map(|known| known.cursor).collect()
    }

    /// Returns the cursor of a bucket.
    pub(super) fn cursor(&self, bucket: Bucket) -> u64 {
        self.known(bucket).cursor
    }

    /// Returns the loss count of a bucket.
    pub(super) fn losses(&self, bucket: Bucket) -> u32 {
        self.known(bucket).losses
    }

    /// Returns the revision of an application.
    pub(super) fn revision(&self, bucket: Bucket, app: &AppName) -> Revision {
        let known = self.known(bucket);
        known.heads.get(app).map_or(known.revision_floor, |(_, head)| head.revision)
    }

    /// Adds an observer.
    pub(super) fn follow(&mut self, observer: Arc<dyn Observer>) {
        for (bucket, known) in (0..).map(Bucket).zip(&self.buckets) {
            let floor = self.facts.floor();
            if floor != 0 {
                observer.on_master(bucket, &MasterChange::Compared(floor));
            }
            if Position(0) < known.forgotten {
                observer.on_prune(bucket, known.forgotten);
            }
            known.changes_after(bucket, Position(0)).for_each(|change| observer.on_change(&change));
            if known.losses != 0 {
                let epoch = Epoch { losses: known.losses, ..self.facts.epoch() };
                observer.on_master(bucket, &MasterChange::LostWrites(epoch));
            }
        }
        self.observers.push(observer);
    }

    /// Applies the next entry of a log. An error says that it does not continue the view.
    pub(super) fn take(&mut self, place: usize, entry: &Entry) -> Result<(), ()> {
        let known = self.buckets.get_mut(place).ok_or(())?;
        match &entry.content {
            Content::Change(change, pruned) => {
                if known.last.0 + 1 != change.position.0 {
                    return Err(());
                }
                known.put(&change.app, change.position, change.head.clone());
                self.observers.iter().for_each(|observer| observer.on_change(change));
                if let Some((up_to, floor)) = *pruned {
                    known.forget(up_to, floor);
                    self.observers.iter().for_each(|o| o.on_prune(change.bucket, up_to));
                }
            }
            Content::Broadcast(notice) => {
                self.observers.iter().for_each(|observer| observer.on_broadcast(notice));
            }
        }
        known.cursor = entry.id;
        Ok(())
    }

    /// Takes over what the store has, and notifies the observers of the differences.
    pub(super) fn greet(&mut self, greeting: Greeting) {
        let is_first = self.master == 0;
        self.facts.store_id.store(greeting.epoch.store_id, Ordering::SeqCst);
        self.facts.losses.store(greeting.epoch.losses, Ordering::SeqCst);
        for (place, copy) in greeting.buckets.into_iter().enumerate() {
            if let Some(copy) = copy {
                self.replace(place, copy);
            }
        }
        self.master = greeting.master;
        if self.facts.floor() < greeting.floor {
            self.facts.floor.store(greeting.floor, Ordering::SeqCst);
            for place in 0..self.buckets.len() {
                let bucket = Bucket(place as u16);
                if !is_first {
                    let compared = MasterChange::Compared(greeting.floor);
                    self.observers.iter().for_each(|o| o.on_master(bucket, &compared));
                }
            }
        }
    }

    fn replace(&mut self, place: usize, copy: BucketCopy) {
        let bucket = Bucket(place as u16);
        let mut new = Known::default();
        for (app, position, head) in copy.heads {
            new.put(&app, position, head);
        }
        new.last = copy.last;
        (new.forgotten, new.revision_floor) = (copy.forgotten, copy.floor);
        (new.losses, new.cursor) = (copy.losses, copy.cursor);
        let old = std::mem::replace(&mut self.buckets[place], new);
        let known = &self.buckets[place];
        for change in known.changes_after(bucket, old.last) {
            self.observers.iter().for_each(|observer| observer.on_change(&change));
        }
        if old.forgotten < known.forgotten {
            self.observers.iter().for_each(|o| o.on_prune(bucket, known.forgotten));
        }
        if old.losses < known.losses {
            let epoch = Epoch { losses: known.losses, ..self.facts.epoch() };
            let lost = MasterChange::LostWrites(epoch);
            self.observers.iter().for_each(|observer| observer.on_master(bucket, &lost));
        }
    }

    /// Replaces the head after a quiet commit of this process.
    pub(super) fn refresh(&mut self, transition: &Transition, bucket: Bucket) {
        let known = &mut self.buckets[usize::from(bucket.0)];
        let found = known.heads.get_mut(&transition.app);
        if let Some((_, head)) = found.filter(|(_, head)| head.revision == transition.base) {
            *head = transition.head.clone();
        }
    }
}

impl Known {
    fn put(&mut self, app: &AppName, position: Position, head: Arc<Head>) {
        if let Some((old, _)) = self.heads.insert(app.clone(), (position, head)) {
            self.order.remove(&old);
        }
        self.order.insert(position, app.clone());
        self.last = self.last.max(position);
    }

    fn forget(&mut self, up_to: Position, floor: Revision) {
        let heads = &mut self.heads;
        self.order.retain(|at, app| {
            let is_gone = *at <= up_to && heads.get(app).is_some_and(|(_, head)| head.deleted);
            if is_gone {
                heads.remove(app);
            }
            !is_gone
        });
        self.forgotten = self.forgotten.max(up_to);
        self.revision_floor = self.revision_floor.max(floor);
    }

    fn changes_after(&self, bucket: Bucket, after: Position) -> impl Iterator<Item = Change> {
        let rest = self.order.range(Position(after.0 + 1)..);
        rest.filter_map(move |(position, app)| {
            let (app, head) = (app.clone(), self.heads.get(app)?.1.clone());
            Some(Change { app, bucket, position: *position, head, transition: None })
        })
    }
}
