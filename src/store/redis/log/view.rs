//! The heads of each bucket that this process knows, and the observers that it notifies.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::watch;

use crate::domain::name::AppName;
use crate::domain::revision::Revision;
use crate::domain::transition::Transition;
use crate::store::heads::{Heads, Observers};
use crate::store::redis::record::entry::EntryId;
use crate::store::redis::record::state::MasterNote;
use crate::store::{
    Broadcast, Bucket, Change, Epoch, KeptHead, MasterChange, Observer, Position, Takeover,
};
use crate::sync::lock;

use super::unread::{Confirmed, Unread};

/// The heads of all buckets, the observers, and the progress of the readers.
pub(crate) struct View {
    known: Mutex<KnownBuckets>,
    epoch: Mutex<Epoch>,
    progress: Vec<ReaderProgress>,
}

/// The progress of the reader of one bucket.
#[derive(Default)]
struct ReaderProgress {
    /// The last entry of the log that the observers have received.
    delivered: watch::Sender<EntryId>,
    /// The note by the last master that was compared with this view; `None` before the first
    /// comparison.
    note: watch::Sender<Option<MasterNote>>,
    /// The epoch floor of the master that the reader met last. It is set before the comparison, so
    /// that nothing of that master is received under the floor of the one before.
    floor: AtomicU64,
}

impl ReaderProgress {
    fn floor(&self) -> u64 {
        self.floor.load(Ordering::SeqCst)
    }
}

struct KnownBuckets {
    buckets: Vec<BucketView>,
    /// The masters of each bucket, as the newest one has noted them.
    takeovers: Vec<Arc<[Takeover]>>,
    observers: Observers,
}

/// The view of one bucket.
#[derive(Clone, Default)]
pub(crate) struct BucketView {
    /// The applications and tombstones.
    pub(crate) heads: Heads,
    /// The last entry of the log that the heads contain.
    pub(crate) cursor: EntryId,
    /// The epoch floor of the master that the last change was read from.
    pub(crate) read_from: u64,
    /// The loss count when the bucket last lost writes.
    pub(crate) losses: u32,
    /// What this process has answered, and not read.
    pub(crate) unread: Unread,
}

/// A change read from a log.
pub(crate) struct LogEntry {
    pub(crate) id: EntryId,
    pub(crate) change: Change,
    /// The position up to which the commit pruned tombstones, and the new revision floor.
    pub(crate) forgotten: Option<(Position, Revision)>,
}

/// Why an entry of a log does not continue the view.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Break {
    /// Entries before it are gone from the log.
    Gap,
    /// Its position was given to another change before: the store lost that change.
    OtherHistory,
}

impl View {
    pub(crate) fn new(buckets: u16, epoch: Epoch) -> View {
        let progress = (0..buckets).map(|_| ReaderProgress::default()).collect();
        let heads = |n| Heads::restore(Bucket(n), [], Default::default());
        let takeovers = (0..buckets).map(|_| Arc::default()).collect();
        let buckets =
            (0..buckets).map(|n| BucketView { heads: heads(n), ..BucketView::default() }).collect();
        let known = KnownBuckets { buckets, takeovers, observers: Observers::default() };
        View { known: Mutex::new(known), epoch: Mutex::new(epoch), progress }
    }

    pub(crate) fn epoch(&self) -> Epoch {
        *lock(&self.epoch)
    }

    /// Moves the epoch forward; it never goes back.
    pub(crate) fn move_epoch(&self, epoch: Epoch) {
        let mut current = lock(&self.epoch);
        if current.losses < epoch.losses {
            tracing::warn!(epoch = %epoch, "store has lost writes");
            *current = epoch;
        }
    }

    /// Returns the epoch floor of a bucket; 0 before the first master was compared.
    pub(crate) fn epoch_floor(&self, bucket: Bucket) -> u64 {
        self.note(bucket).unwrap_or_default().epoch_floor
    }

    /// Returns the note of a bucket; `None` before the first master was compared.
    pub(crate) fn note(&self, bucket: Bucket) -> Option<MasterNote> {
        self.progress(bucket).note.borrow().clone()
    }

    /// Returns the history of a bucket; empty before the first master was compared.
    pub(crate) fn history(&self, bucket: Bucket) -> Arc<str> {
        self.note(bucket).unwrap_or_default().history
    }

    /// Returns the note of a bucket, with a notification of each later one.
    pub(crate) fn follow_note(&self, bucket: Bucket) -> watch::Receiver<Option<MasterNote>> {
        self.progress(bucket).note.subscribe()
    }

    /// Takes over the note of a master that was compared. The epoch floor never falls.
    pub(crate) fn take_note(&self, bucket: Bucket, note: MasterNote) {
        let number = note.epoch_floor;
        let KnownBuckets { observers, .. } = &*self.known();
        let known = self.note(bucket).map(|known| known.epoch_floor);
        if known.is_none_or(|known| known < number) {
            self.progress(bucket).note.send_replace(Some(note));
            if known.is_some() {
                let compared = MasterChange::Compared(number);
                observers.notify(|observer| observer.on_master(bucket, &compared));
            }
        }
    }

    /// Records the master that a reader meets, by its epoch floor and the masters that it has
    /// noted. Must precede everything that the reader takes from that master.
    pub(crate) fn meet_master(&self, bucket: Bucket, epoch_floor: u64, noted: Vec<Takeover>) {
        let before = self.progress(bucket).floor.fetch_max(epoch_floor, Ordering::SeqCst);
        let KnownBuckets { takeovers, observers, .. } = &mut *self.known();
        let known = &mut takeovers[usize::from(bucket.0)];
        if before <= epoch_floor && **known != *noted {
            *known = noted.into();
            let met = MasterChange::Met(known.clone());
            observers.notify(|observer| observer.on_master(bucket, &met));
        }
    }

    /// Returns the epoch floor of the newest master that the reader of a bucket has met.
    pub(crate) fn reader_floor(&self, bucket: Bucket) -> u64 {
        self.progress(bucket).floor()
    }

    /// Records that an answer relies on a revision that a master has confirmed. Returns false if
    /// the reader has met another master since, which may lack the revision.
    pub(crate) fn rely_on(&self, bucket: Bucket, app: &AppName, confirmed: Confirmed) -> bool {
        let view = &mut self.known().buckets[usize::from(bucket.0)];
        // Under the lock: if the reader meets another master after this, it finds the record.
        let is_of_master = self.reader_floor(bucket) <= confirmed.epoch_floor;
        if is_of_master {
            view.unread.rely_on(app, confirmed, &view.heads);
        }
        is_of_master
    }

    /// Returns the last entry that the log of the master with this floor must have, because answers
    /// rely on what former masters have confirmed and the reader has not read.
    pub(crate) fn last_unread_entry(&self, bucket: Bucket, epoch_floor: u64) -> Option<EntryId> {
        self.known().buckets[usize::from(bucket.0)].unread.last_before(epoch_floor)
    }

    /// Records that the master with this floor has that entry.
    pub(crate) fn confirm_unread(&self, bucket: Bucket, epoch_floor: u64) {
        self.known().buckets[usize::from(bucket.0)].unread.confirm(epoch_floor);
    }

    /// Returns a copy of the view of a bucket.
    pub(crate) fn bucket(&self, bucket: Bucket) -> BucketView {
        self.known().buckets[usize::from(bucket.0)].clone()
    }

    /// Returns the last entry, the last position and the loss count of a bucket.
    pub(crate) fn cursor(&self, bucket: Bucket) -> (EntryId, Position, u32) {
        let known = self.known();
        let view = &known.buckets[usize::from(bucket.0)];
        (view.cursor, view.heads.marks().last, view.losses)
    }

    /// Returns whether a master that took over since had an earlier position at first than this
    /// view: it lacks what was read. Ids of entries do not show it. While the clock of Redis is
    /// behind the last id, they only count up, and two histories give the same ones.
    pub(crate) fn is_ahead(&self, bucket: Bucket) -> bool {
        let KnownBuckets { buckets, takeovers, .. } = &*self.known();
        let view = &buckets[usize::from(bucket.0)];
        let last = view.heads.marks().last;
        let later = Takeover::after(&takeovers[usize::from(bucket.0)], view.read_from);
        // The position of a master that an earlier version has noted is not known, and counts as 0.
        let lacks = |master: &Takeover| Position(0) < master.last && master.last < last;
        later.is_some_and(|later| later.iter().any(lacks))
    }

    /// Returns the revision of an application that the observers have received.
    pub(crate) fn revision(&self, bucket: Bucket, app: &AppName) -> Revision {
        self.known().buckets[usize::from(bucket.0)].heads.revision(app)
    }

    pub(crate) fn follow(&self, observer: Arc<dyn Observer>) {
        let KnownBuckets { buckets, takeovers, observers } = &mut *self.known();
        for (bucket, takeovers) in (0..).map(Bucket).zip(takeovers) {
            observer.on_master(bucket, &MasterChange::Met(takeovers.clone()));
            let epoch_floor = self.epoch_floor(bucket);
            if epoch_floor != 0 {
                observer.on_master(bucket, &MasterChange::Compared(epoch_floor));
            }
        }
        observers.add(observer.clone(), buckets.iter().map(|view| &view.heads));
        // The process that found the loss may have ended before it marked the units.
        let epoch = self.epoch();
        for (bucket, view) in (0..).map(Bucket).zip(buckets.iter()) {
            if view.losses != 0 {
                let lost = MasterChange::LostWrites(Epoch { losses: view.losses, ..epoch });
                observer.on_master(bucket, &lost);
            }
        }
    }

    /// Applies the next entry of a bucket's log, and notifies the observers.
    pub(crate) fn take(&self, entry: &mut LogEntry) -> Result<(), Break> {
        let LogEntry { id, change, forgotten } = entry;
        let progress = self.progress(change.bucket);
        let KnownBuckets { buckets, observers, .. } = &mut *self.known();
        let view = &mut buckets[usize::from(change.bucket.0)];
        let last = view.heads.marks().last;
        if last.0 + 1 < change.position.0 {
            return Err(Break::Gap);
        }
        if change.position <= last {
            return Err(Break::OtherHistory);
        }
        change.app = view.heads.kept_name(change.app.clone());
        view.heads.put(change.app.clone(), change.position, change.kept());
        view.unread.remove_read(&change.app, change.head.revision);
        if let Some((up_to, floor)) = *forgotten {
            view.heads.forget_up_to(up_to, floor);
            view.unread.settle(progress.floor(), &view.heads);
        }
        // Before the observers, which may panic: the view stays consistent.
        view.cursor = *id;
        view.read_from = progress.floor();
        observers.notify(|observer| observer.on_change(change));
        if let Some((up_to, _)) = *forgotten {
            observers.notify(|observer| observer.on_prune(change.bucket, up_to));
        }
        progress.delivered.send_replace(*id);
        Ok(())
    }

    /// Sends a message from a bucket's log to the observers.
    pub(crate) fn take_broadcast(&self, bucket: Bucket, id: EntryId, notice: Option<&Broadcast>) {
        let KnownBuckets { buckets, observers, .. } = &mut *self.known();
        buckets[usize::from(bucket.0)].cursor = id;
        if let Some(notice) = notice {
            observers.notify(|observer| observer.on_broadcast(notice));
        }
        self.progress(bucket).delivered.send_replace(id);
    }

    /// Replaces the head after a quiet commit of this process. No observer is notified.
    pub(crate) fn refresh(&self, transition: &Transition, bucket: Bucket) {
        let heads = &mut self.known().buckets[usize::from(bucket.0)].heads;
        let found = heads.get(&transition.app);
        if let Some(&(position, _)) = found.filter(|(_, head)| head.revision() == transition.base) {
            let head = KeptHead::Whole(transition.head.clone());
            heads.put(transition.app.clone(), position, head);
        }
    }

    /// Replaces the view of a bucket, and notifies the observers of each difference. Newer heads
    /// have later positions: see [`repair`](super::repair).
    pub(crate) fn replace(&self, bucket: Bucket, new: BucketView) {
        let (epoch, progress) = (self.epoch(), self.progress(bucket));
        let KnownBuckets { buckets, observers, .. } = &mut *self.known();
        let view = &mut buckets[usize::from(bucket.0)];
        let old = std::mem::replace(view, new);
        view.read_from = progress.floor();
        view.unread = old.unread;
        view.unread.settle(progress.floor(), &view.heads);
        let (was, is) = (old.heads.marks(), view.heads.marks());
        for change in view.heads.changes_after(was.last) {
            observers.notify(|observer| observer.on_change(&change));
        }
        if was.forgotten < is.forgotten {
            observers.notify(|observer| observer.on_prune(bucket, is.forgotten));
        }
        if old.losses < view.losses {
            let lost = MasterChange::LostWrites(Epoch { losses: view.losses, ..epoch });
            observers.notify(|observer| observer.on_master(bucket, &lost));
        }
        progress.delivered.send_replace(view.cursor);
    }

    /// Waits until all observers have received an entry of a bucket's log.
    pub(crate) async fn until_notified(&self, bucket: Bucket, id: EntryId) {
        let mut delivered = self.progress(bucket).delivered.subscribe();
        // The sender lives as long as this view.
        let _ = delivered.wait_for(|delivered| id <= *delivered).await;
    }

    /// Waits until the observers have received an application at this revision or a later one.
    pub(crate) async fn until_at(&self, bucket: Bucket, app: &AppName, revision: Revision) {
        let mut delivered = self.progress(bucket).delivered.subscribe();
        while self.revision(bucket, app) < revision {
            // The sender lives as long as this view.
            let _ = delivered.changed().await;
        }
    }

    fn progress(&self, bucket: Bucket) -> &ReaderProgress {
        &self.progress[usize::from(bucket.0)]
    }

    fn known(&self) -> MutexGuard<'_, KnownBuckets> {
        // Only an observer can panic while the lock is held.
        lock(&self.known)
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use crate::domain::app::Head;
    use crate::store::BroadcastKind;
    use crate::store::redis::tests::PanickingObserver;

    use super::*;

    /// A reader that starts again after a panic must not take an entry for one of another history.
    #[test]
    fn a_panic_of_an_observer_leaves_a_consistent_view() {
        let (bucket, app) = (Bucket(0), AppName::new("test", "web").unwrap());
        let view = View::new(1, Epoch { store_id: 7, losses: 0 });
        view.follow(Arc::new(PanickingObserver));
        let head = Arc::new(Head::empty(Revision(1)));
        let position = Position(1);
        let change =
            Change { app: app.clone(), bucket, position, head, packed: None, transition: None };
        let mut entry = LogEntry { id: EntryId(3, 0), change, forgotten: None };
        assert!(catch_unwind(AssertUnwindSafe(|| view.take(&mut entry))).is_err());
        assert_eq!(view.cursor(bucket), (EntryId(3, 0), Position(1), 0));
        let word = BroadcastKind::Collected { id: 1, to: Default::default(), units: vec![] };
        let notice = Broadcast { app, from: Default::default(), word };
        let take = || view.take_broadcast(bucket, EntryId(4, 0), Some(&notice));
        assert!(catch_unwind(AssertUnwindSafe(take)).is_err());
        assert_eq!(view.cursor(bucket), (EntryId(4, 0), Position(1), 0));
    }

    /// The clock of the next master may be behind the last id. Its ids then count up as those of
    /// the former master did, and an entry of each has the same id and position.
    #[test]
    fn a_master_that_began_before_the_last_position_lacks_what_was_read() {
        let (bucket, view) = (Bucket(0), View::new(1, Epoch { store_id: 7, losses: 0 }));
        let meet = |masters: &[(u64, u64)]| {
            let mk = |&(epoch_floor, last)| Takeover { epoch_floor, last: Position(last) };
            let floor = masters.last().unwrap().0;
            view.meet_master(bucket, floor, masters.iter().map(mk).collect());
            view.is_ahead(bucket)
        };
        let read = |position| {
            let (app, head) = (AppName::new("", "web").unwrap(), Head::empty(Revision(position)));
            let (head, position) = (Arc::new(head), Position(position));
            let change = Change { app, bucket, position, head, packed: None, transition: None };
            let id = EntryId(9, position.0);
            view.take(&mut LogEntry { id, change, forgotten: None }).unwrap();
        };
        assert!(!meet(&[(50, 0)]));
        read(1);
        read(2);
        assert!(!meet(&[(50, 0), (60, 2)]));
        assert!(meet(&[(50, 0), (60, 1)]));
        assert!(meet(&[(50, 0), (60, 1), (70, 5)]), "also if another one followed it");
        view.replace(bucket, view.bucket(bucket));
        assert!(!meet(&[(50, 0), (60, 1), (70, 5)]), "it was compared");
        // An earlier version has noted the master.
        assert!(!meet(&[(70, 5), (80, 0)]));
    }
}
