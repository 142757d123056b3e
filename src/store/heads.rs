//! The heads of all applications in the order of their last change, and the observers of the store.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::domain::app::Head;
use crate::domain::name::AppName;
use crate::domain::revision::Revision;

use super::kept::KeptHead;
pub(crate) use super::watermarks::Watermarks;
use super::{Bucket, Change, CommitError, ConflictCause, Observer, Position};

/// The heads that every store keeps in memory: enough to compare and swap, and to notify observers.
#[derive(Clone, Default)]
pub(crate) struct Heads {
    bucket: Bucket,
    by_app: HashMap<AppName, (Position, KeptHead)>,
    tombstones: BTreeMap<Position, AppName>,
    marks: Watermarks,
}

/// The effect of one commit on the heads.
pub(crate) struct HeadStep {
    /// The application with its new head.
    pub(crate) change: Change,
    /// Whether the position is new, so that observers receive the change.
    pub(crate) has_new_position: bool,
    /// The tombstones to prune, oldest first.
    pub(crate) forgotten: Vec<Change>,
}

impl Heads {
    /// Returns the heads of a bucket as they were stored, with the marks stored beside them.
    pub(crate) fn restore(
        bucket: Bucket,
        stored: impl IntoIterator<Item = (AppName, Position, KeptHead)>,
        marks: Watermarks,
    ) -> Heads {
        let mut heads = Heads { bucket, ..Heads::default() };
        for (app, position, head) in stored {
            heads.put(app, position, head);
        }
        heads.marks = Watermarks { last: marks.last.max(heads.marks.last), ..marks };
        heads
    }

    /// Returns how many applications exist.
    pub(crate) fn existing(&self) -> usize {
        self.by_app.values().filter(|(_, head)| !head.is_deleted()).count()
    }

    pub(crate) fn marks(&self) -> Watermarks {
        self.marks
    }

    /// Returns the head of an application; an empty head at the revision floor if it is unknown.
    pub(crate) fn head(&self, app: &AppName) -> Arc<Head> {
        match self.by_app.get(app) {
            Some((_, head)) => head.head(),
            None => Arc::new(Head::unknown(self.marks.revision_floor)),
        }
    }

    /// Returns the revision of an application; the revision floor if it is unknown.
    pub(crate) fn revision(&self, app: &AppName) -> Revision {
        let known = self.by_app.get(app);
        known.map_or(self.marks.revision_floor, |(_, head)| head.revision())
    }

    /// Returns the position and head of an application, if it is known.
    pub(crate) fn get(&self, app: &AppName) -> Option<&(Position, KeptHead)> {
        self.by_app.get(app)
    }

    /// Returns the name of an application that is kept here, or the one given. All that is kept of
    /// an application then shares one text.
    pub(crate) fn kept_name(&self, app: AppName) -> AppName {
        self.by_app.get_key_value(&app).map(|(known, _)| known.clone()).unwrap_or(app)
    }

    /// Succeeds if the application is at revision `base`; otherwise it is a conflict.
    pub(crate) fn compare(&self, app: &AppName, base: Revision) -> Result<(), CommitError> {
        let current = self.revision(app);
        match current == base {
            true => Ok(()),
            false => Err(CommitError::Conflict { current, cause: ConflictCause::Revision }),
        }
    }

    /// Replaces the head if the application is at revision `base`; otherwise it is a conflict.
    /// Returns `None` if there is nothing to store: the application is unknown and stays so.
    pub(crate) fn swap(
        &mut self,
        app: &AppName,
        base: Revision,
        head: Arc<Head>,
        tombstones_max: usize,
    ) -> Result<Option<HeadStep>, CommitError> {
        self.compare(app, base)?;
        let has_new_position = head.revision != base;
        let position = match self.by_app.get(app) {
            _ if has_new_position => Position(self.marks.last.0 + 1),
            Some((position, _)) => *position,
            None => return Ok(None),
        };
        let head = KeptHead::Whole(head);
        self.put(app.clone(), position, head.clone());
        let change = Change::of(app.clone(), self.bucket, position, head);
        let mut forgotten = Vec::new();
        while tombstones_max < self.tombstones.len() {
            let oldest = self.forget_oldest();
            forgotten.extend(oldest.map(|(app, at, head)| Change::of(app, self.bucket, at, head)));
        }
        Ok(Some(HeadStep { change, has_new_position, forgotten }))
    }

    /// Applies a step that [`swap`](Heads::swap) made on another copy.
    pub(crate) fn apply(&mut self, step: &HeadStep) {
        let Change { app, position, .. } = &step.change;
        self.put(app.clone(), *position, step.change.kept());
        for _ in &step.forgotten {
            self.forget_oldest();
        }
    }

    /// Prunes tombstones up to a position that another process pruned.
    pub(crate) fn forget_up_to(&mut self, up_to: Position, floor: Revision) {
        while self.tombstones.first_key_value().is_some_and(|(at, _)| *at <= up_to) {
            self.forget_oldest();
        }
        self.marks.forgotten = self.marks.forgotten.max(up_to);
        self.marks.revision_floor = self.marks.revision_floor.max(floor);
    }

    /// Returns all changes after a position, in order. Sorts them: this is rare, and an order that
    /// each change keeps costs time and memory.
    pub(crate) fn changes_after(&self, after: Position) -> impl Iterator<Item = Change> {
        let all = self.by_app.iter().map(|(app, (position, head))| (*position, app, head));
        let mut later: Vec<_> = all.filter(|(position, ..)| after < *position).collect();
        later.sort_unstable_by_key(|(position, ..)| *position);
        let bucket = self.bucket;
        later.into_iter().map(move |(position, app, head)| {
            Change::of(app.clone(), bucket, position, head.clone())
        })
    }

    /// Takes over the position and head of an application, which another process may have
    /// committed.
    pub(crate) fn put(&mut self, app: AppName, position: Position, head: KeptHead) {
        let tombstone = head.is_deleted().then(|| app.clone());
        if let Some((old, _)) = self.by_app.insert(app, (position, head)) {
            self.tombstones.remove(&old);
        }
        self.tombstones.extend(tombstone.map(|app| (position, app)));
        self.marks.last = self.marks.last.max(position);
    }

    fn forget_oldest(&mut self) -> Option<(AppName, Position, KeptHead)> {
        let (position, app) = self.tombstones.pop_first()?;
        let (_, head) = self.by_app.remove(&app)?;
        self.marks.revision_floor = self.marks.revision_floor.max(head.revision());
        self.marks.forgotten = self.marks.forgotten.max(position);
        Some((app, position, head))
    }
}

/// The observers of the store.
#[derive(Default)]
pub(crate) struct Observers(Vec<Arc<dyn Observer>>);

impl Observers {
    /// Adds an observer and sends it all heads of all buckets.
    pub(crate) fn add<'a>(
        &mut self,
        observer: Arc<dyn Observer>,
        buckets: impl IntoIterator<Item = &'a Heads>,
    ) {
        for heads in buckets {
            let forgotten = heads.marks.forgotten;
            if Position(0) < forgotten {
                observer.on_prune(heads.bucket, forgotten);
            }
            for change in heads.changes_after(Position(0)) {
                observer.on_change(&change);
            }
        }
        self.0.push(observer);
    }

    /// Notifies all observers of one step.
    pub(crate) fn notify_of(&self, step: &HeadStep) {
        if step.has_new_position {
            self.notify(|observer| observer.on_change(&step.change));
        }
        if let Some(last) = step.forgotten.last() {
            self.notify(|observer| observer.on_prune(last.bucket, last.position));
        }
    }

    /// Calls a method of all observers.
    pub(crate) fn notify(&self, call: impl Fn(&dyn Observer)) {
        self.0.iter().for_each(|observer| call(&**observer));
    }
}
