//! The heads of all applications in the order in which they last changed, and who is told of it.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::domain::app::Head;
use crate::domain::name::AppName;
use crate::domain::revision::Revision;

use super::{Bucket, Change, Epoch, Follower, Notice, Position};

/// What every store keeps in memory: enough to compare and swap, and to tell followers.
#[derive(Clone, Default)]
pub(super) struct Heads {
    bucket: Bucket,
    by_app: HashMap<AppName, (Position, Arc<Head>)>,
    order: BTreeMap<Position, AppName>,
    tombstones: BTreeMap<Position, AppName>,
    marks: Marks,
}

/// How far things have gone. Only ever goes up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Marks {
    /// The last position given.
    pub(super) last: Position,
    /// The highest revision of a forgotten tombstone: unknown applications go on from here.
    pub(super) revision_floor: Revision,
    /// The last position whose tombstone was forgotten.
    pub(super) forgotten: Position,
}

/// What one commit did to the heads.
pub(super) struct Step {
    /// The application with its new head.
    pub(super) change: Change,
    /// Whether the position is new, so that followers are told.
    pub(super) is_told: bool,
    /// Tombstones that became too many, the oldest first.
    pub(super) forgotten: Vec<Change>,
}

/// A change of a store with one order of changes.
pub(super) fn mk_change(app: AppName, position: Position, head: Arc<Head>) -> Change {
    Change { app, bucket: Bucket::default(), position, head, transition: None }
}

impl Heads {
    /// Heads as they were stored, with the marks stored beside them.
    pub(super) fn restore(changes: impl IntoIterator<Item = Change>, marks: Marks) -> Heads {
        let mut heads = Heads::default();
        for change in changes {
            heads.put(&change);
        }
        heads.marks = Marks { last: marks.last.max(heads.marks.last), ..marks };
        heads
    }

    /// Heads of one of several buckets.
    pub(super) fn restore_bucket(
        bucket: Bucket,
        changes: impl IntoIterator<Item = Change>,
        marks: Marks,
    ) -> Heads {
        Heads { bucket, ..Heads::restore(changes, marks) }
    }

    pub(super) fn marks(&self) -> Marks {
        self.marks
    }

    /// The head of an application; of one that is not known, an empty one to go on from.
    pub(super) fn head(&self, app: &AppName) -> Arc<Head> {
        match self.by_app.get(app) {
            Some((_, head)) => head.clone(),
            None => Arc::new(Head::empty(self.marks.revision_floor)),
        }
    }

    /// Where an application stands, if it is known.
    pub(super) fn get(&self, app: &AppName) -> Option<&(Position, Arc<Head>)> {
        self.by_app.get(app)
    }

    /// Whether the application is at revision `base`; else where it is.
    pub(super) fn compare(&self, app: &AppName, base: Revision) -> Result<(), Revision> {
        let known = self.by_app.get(app);
        let current = known.map_or(self.marks.revision_floor, |(_, head)| head.revision);
        match current == base {
            true => Ok(()),
            false => Err(current),
        }
    }

    /// Puts the head in place if the application is at revision `base`; else says where it is.
    /// `None` if there is nothing to keep: the application is not known, and does not become so.
    pub(super) fn swap(
        &mut self,
        app: &AppName,
        base: Revision,
        head: Arc<Head>,
        tombstones_max: usize,
    ) -> Result<Option<Step>, Revision> {
        self.compare(app, base)?;
        let is_told = head.revision != base;
        let position = match self.by_app.get(app) {
            _ if is_told => Position(self.marks.last.0 + 1),
            Some((position, _)) => *position,
            None => return Ok(None),
        };
        let change = self.mk_change(app.clone(), position, head);
        self.put(&change);
        let mut forgotten = Vec::new();
        while tombstones_max < self.tombstones.len() {
            forgotten.extend(self.forget_oldest());
        }
        Ok(Some(Step { change, is_told, forgotten }))
    }

    /// Repeats here what [`swap`](Heads::swap) did elsewhere.
    pub(super) fn apply(&mut self, step: &Step) {
        self.put(&step.change);
        for _ in &step.forgotten {
            self.forget_oldest();
        }
    }

    /// Takes over a change that was decided elsewhere.
    pub(super) fn adopt(&mut self, change: &Change) {
        self.put(change);
    }

    /// Forgets tombstones as it was done elsewhere.
    pub(super) fn forget_up_to(&mut self, up_to: Position, floor: Revision) {
        while self.tombstones.first_key_value().is_some_and(|(at, _)| *at <= up_to) {
            self.forget_oldest();
        }
        self.marks.forgotten = self.marks.forgotten.max(up_to);
        self.marks.revision_floor = self.marks.revision_floor.max(floor);
    }

    /// Everything after a position, in order.
    pub(super) fn changes_after(&self, after: Position) -> impl Iterator<Item = Change> {
        let rest = self.order.range(Position(after.0.saturating_add(1))..);
        rest.filter_map(|(position, app)| {
            let (_, head) = self.by_app.get(app)?;
            Some(self.mk_change(app.clone(), *position, head.clone()))
        })
    }

    fn put(&mut self, change: &Change) {
        let Change { app, position, head, .. } = change;
        let entry = (*position, head.clone());
        if let Some((old, _)) = self.by_app.insert(app.clone(), entry) {
            self.order.remove(&old);
            self.tombstones.remove(&old);
        }
        self.order.insert(*position, app.clone());
        if head.deleted {
            self.tombstones.insert(*position, app.clone());
        }
        self.marks.last = self.marks.last.max(*position);
    }

    fn forget_oldest(&mut self) -> Option<Change> {
        let (position, app) = self.tombstones.pop_first()?;
        self.order.remove(&position);
        let (_, head) = self.by_app.remove(&app)?;
        self.marks.revision_floor = self.marks.revision_floor.max(head.revision);
        self.marks.forgotten = self.marks.forgotten.max(position);
        Some(self.mk_change(app, position, head))
    }

    fn mk_change(&self, app: AppName, position: Position, head: Arc<Head>) -> Change {
        Change { bucket: self.bucket, ..mk_change(app, position, head) }
    }
}

/// Who is told of changes.
#[derive(Default)]
pub(super) struct Followers(Vec<Arc<dyn Follower>>);

impl Followers {
    /// Tells a new follower all there is.
    pub(super) fn add(&mut self, follower: Arc<dyn Follower>, heads: &Heads) {
        self.add_to_buckets(follower, [heads]);
    }

    /// Tells a new follower all there is in several buckets.
    pub(super) fn add_to_buckets<'a>(
        &mut self,
        follower: Arc<dyn Follower>,
        buckets: impl IntoIterator<Item = &'a Heads>,
    ) {
        for heads in buckets {
            let forgotten = heads.marks.forgotten;
            if Position(0) < forgotten {
                follower.forgotten(heads.bucket, forgotten);
            }
            for change in heads.changes_after(Position(0)) {
                follower.changed(&change);
            }
        }
        self.0.push(follower);
    }

    /// Tells all of one step.
    pub(super) fn tell(&self, step: &Step) {
        if step.is_told {
            self.tell_change(&step.change);
        }
        if let Some(last) = step.forgotten.last() {
            self.tell_forgotten(last.bucket, last.position);
        }
    }

    /// Tells all of a change.
    pub(super) fn tell_change(&self, change: &Change) {
        self.0.iter().for_each(|follower| follower.changed(change));
    }

    /// Tells all how far tombstones of a bucket are forgotten.
    pub(super) fn tell_forgotten(&self, bucket: Bucket, up_to: Position) {
        self.0.iter().for_each(|follower| follower.forgotten(bucket, up_to));
    }

    /// Tells all what somebody told.
    pub(super) fn tell_notice(&self, notice: &Notice) {
        self.0.iter().for_each(|follower| follower.noticed(notice));
    }

    /// Tells all what the counts of a bucket go on above.
    pub(super) fn tell_counts_above(&self, bucket: Bucket, counts_above: u64) {
        self.0.iter().for_each(|follower| follower.counts_above(bucket, counts_above));
    }

    /// Tells all that a bucket may have lost writes.
    pub(super) fn tell_doubted(&self, bucket: Bucket, epoch: Epoch) {
        self.0.iter().for_each(|follower| follower.doubted(bucket, epoch));
    }
}
