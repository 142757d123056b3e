//! What this process knows of each bucket, and whom it tells.

use std::collections::HashMap;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use crate::domain::name::AppName;
use crate::domain::revision::Revision;
use crate::domain::transition::Transition;
use crate::store::heads::{Followers, Heads};
use crate::store::{Bucket, Change, Epoch, Follower, Notice, Position};

/// The id of an entry of a log: Redis's clock in milliseconds, and a counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(super) struct EntryId(pub(super) u64, pub(super) u64);

impl FromStr for EntryId {
    type Err = ();

    fn from_str(text: &str) -> Result<EntryId, ()> {
        let (millis, count) = text.split_once('-').ok_or(())?;
        Ok(EntryId(millis.parse().map_err(|_| ())?, count.parse().map_err(|_| ())?))
    }
}

impl std::fmt::Display for EntryId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}", self.0, self.1)
    }
}

/// See the module.
pub(super) struct View {
    known: Mutex<Known>,
    /// How far each bucket's log was told to followers.
    told: Vec<watch::Sender<EntryId>>,
    epoch: Mutex<Epoch>,
    /// What each bucket's counts go on above: the number of the last master that was compared with
    /// what is known here; `None` before the first.
    counts_above: Vec<watch::Sender<Option<u64>>>,
}

struct Known {
    buckets: Vec<BucketView>,
    followers: Followers,
}

/// What is known of one bucket.
#[derive(Clone, Default)]
pub(super) struct BucketView {
    /// Its applications and tombstones.
    pub(super) heads: Heads,
    /// The last entry of its log that is in them.
    pub(super) cursor: EntryId,
    /// The epoch in which it was last doubted.
    pub(super) losses: u32,
}

/// An entry of a log that was taken in.
pub(super) struct Entry {
    pub(super) id: EntryId,
    pub(super) change: Change,
    /// How far tombstones were forgotten by it, and the revision to go on from.
    pub(super) forgotten: Option<(Position, Revision)>,
}

/// Why an entry of a log does not continue what is known.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Break {
    /// Entries before it are not there any more.
    Gap,
    /// Its position was given to another change before: the store lost that one.
    OtherHistory,
}

impl View {
    pub(super) fn new(buckets: u16, epoch: Epoch) -> View {
        let counts_above = (0..buckets).map(|_| watch::Sender::default()).collect();
        let told = (0..buckets).map(|_| watch::Sender::default()).collect();
        let buckets = (0..buckets)
            .map(|n| BucketView {
                heads: Heads::restore_bucket(Bucket(n), [], Default::default()),
                ..BucketView::default()
            })
            .collect();
        let known = Known { buckets, followers: Followers::default() };
        View { known: Mutex::new(known), told, epoch: Mutex::new(epoch), counts_above }
    }

    pub(super) fn epoch(&self) -> Epoch {
        *self.epoch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Moves the epoch on; it never goes back.
    pub(super) fn move_epoch(&self, epoch: Epoch) {
        let mut current = self.epoch.lock().unwrap_or_else(PoisonError::into_inner);
        if current.losses < epoch.losses {
            tracing::warn!(epoch = %epoch, "store has lost writes");
            *current = epoch;
        }
    }

    /// What the counts of a bucket go on above.
    pub(super) fn counts_above(&self, bucket: Bucket) -> u64 {
        self.known_counts_above(bucket).unwrap_or_default()
    }

    /// The same; none before the first master was compared.
    pub(super) fn known_counts_above(&self, bucket: Bucket) -> Option<u64> {
        *self.counts_above[usize::from(bucket.0)].borrow()
    }

    /// The same, and each later number.
    pub(super) fn follow_counts_above(&self, bucket: Bucket) -> watch::Receiver<Option<u64>> {
        self.counts_above[usize::from(bucket.0)].subscribe()
    }

    /// Takes in the number of a master that was compared. It never falls.
    pub(super) fn count_above(&self, bucket: Bucket, number: u64) {
        let Known { followers, .. } = &*self.known();
        let mut is_first = false;
        let rose = self.counts_above[usize::from(bucket.0)].send_if_modified(|known| {
            is_first = known.is_none();
            let rises = known.is_none_or(|known| known < number);
            *known = (*known).max(Some(number));
            rises
        });
        if rose && !is_first {
            followers.tell_counts_above(bucket, number);
        }
    }

    /// A copy of what is known of a bucket.
    pub(super) fn bucket(&self, bucket: Bucket) -> BucketView {
        self.known().buckets[usize::from(bucket.0)].clone()
    }

    /// Where a bucket stands: the last entry taken in, the last position, and its epoch.
    pub(super) fn cursor(&self, bucket: Bucket) -> (EntryId, Position, u32) {
        let known = self.known();
        let view = &known.buckets[usize::from(bucket.0)];
        (view.cursor, view.heads.marks().last, view.losses)
    }

    /// The revision at which an application was told.
    pub(super) fn revision(&self, bucket: Bucket, app: &AppName) -> Revision {
        self.known().buckets[usize::from(bucket.0)].heads.head(app).revision
    }

    pub(super) fn follow(&self, follower: Arc<dyn Follower>) {
        let Known { buckets, followers } = &mut *self.known();
        for bucket in (0..).map(Bucket).take(buckets.len()) {
            match self.counts_above(bucket) {
                0 => {}
                counts_above => follower.counts_above(bucket, counts_above),
            }
        }
        followers.add_to_buckets(follower, buckets.iter().map(|view| &view.heads));
    }

    /// Takes in the next entry of a bucket's log, and tells it.
    pub(super) fn take(&self, entry: &Entry) -> Result<(), Break> {
        let Entry { id, change, forgotten } = entry;
        let place = usize::from(change.bucket.0);
        let Known { buckets, followers } = &mut *self.known();
        let view = &mut buckets[place];
        let last = view.heads.marks().last;
        if last.0 + 1 < change.position.0 {
            return Err(Break::Gap);
        }
        if change.position <= last {
            return Err(Break::OtherHistory);
        }
        view.heads.adopt(change);
        followers.tell_change(change);
        if let Some((up_to, floor)) = *forgotten {
            view.heads.forget_up_to(up_to, floor);
            followers.tell_forgotten(change.bucket, up_to);
        }
        view.cursor = *id;
        self.told[place].send_replace(*id);
        Ok(())
    }

    /// Tells what somebody told in a bucket's log.
    pub(super) fn take_notice(&self, bucket: Bucket, id: EntryId, notice: Option<&Notice>) {
        let place = usize::from(bucket.0);
        let Known { buckets, followers } = &mut *self.known();
        notice.into_iter().for_each(|notice| followers.tell_notice(notice));
        buckets[place].cursor = id;
        self.told[place].send_replace(id);
    }

    /// Takes in the head of a commit of our own that moved no revision: nobody is told of it.
    pub(super) fn refresh(&self, transition: &Transition, bucket: Bucket) {
        let view = &mut self.known().buckets[usize::from(bucket.0)];
        let found = view.heads.get(&transition.app);
        let Some((position, _)) = found.filter(|(_, head)| head.revision == transition.base) else {
            return;
        };
        let change = Change {
            app: transition.app.clone(),
            bucket,
            position: *position,
            head: transition.head.clone(),
            transition: None,
        };
        view.heads.adopt(&change);
    }

    /// Replaces what is known of a bucket, and tells every difference. What is newer stands at
    /// later positions: see [`repair`](super::repair).
    pub(super) fn replace(&self, bucket: Bucket, new: BucketView) {
        let epoch = self.epoch();
        let place = usize::from(bucket.0);
        let Known { buckets, followers } = &mut *self.known();
        let old = std::mem::replace(&mut buckets[place], new);
        let view = &buckets[place];
        let (was, is) = (old.heads.marks(), view.heads.marks());
        for change in view.heads.changes_after(was.last) {
            followers.tell_change(&change);
        }
        if was.forgotten < is.forgotten {
            followers.tell_forgotten(bucket, is.forgotten);
        }
        if old.losses < view.losses {
            let losses = view.losses;
            followers.tell_doubted(bucket, Epoch { losses, ..epoch });
        }
        self.told[place].send_replace(view.cursor);
    }

    /// Waits until an entry of a bucket's log was told to all followers.
    pub(super) async fn until_told(&self, bucket: Bucket, id: EntryId) {
        let mut told = self.told[usize::from(bucket.0)].subscribe();
        // The sender lives as long as we do.
        let _ = told.wait_for(|told| id <= *told).await;
    }

    /// Waits until followers were told of an application at this revision or a later one.
    pub(super) async fn until_at(&self, bucket: Bucket, app: &AppName, revision: Revision) {
        let place = usize::from(bucket.0);
        let mut told = self.told[place].subscribe();
        let found = || self.known().buckets[place].heads.head(app).revision;
        while found() < revision {
            // The sender lives as long as we do.
            let _ = told.changed().await;
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        // Only a follower can panic in here, and everything is in place before it is told.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Commits of our own on their way, so that the log need not be decoded for what is here already.
#[derive(Default)]
pub(super) struct Own {
    by_sequence: Mutex<HashMap<u64, Arc<Transition>>>,
    last: AtomicU64,
}

impl Own {
    /// The number of the next commit.
    pub(super) fn next_sequence(&self) -> u64 {
        self.last.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Gives a commit its number, and remembers it until the note is dropped.
    pub(super) fn keep(self: &Arc<Own>, transition: Arc<Transition>) -> Kept {
        let sequence = self.next_sequence();
        self.lock().insert(sequence, transition);
        Kept { own: self.clone(), sequence }
    }

    /// The commit of that number, if it is one of the application.
    pub(super) fn get(&self, sequence: u64, app: &AppName) -> Option<Arc<Transition>> {
        self.lock().get(&sequence).filter(|transition| transition.app == *app).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Arc<Transition>>> {
        self.by_sequence.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// See [`Own::keep`].
pub(super) struct Kept {
    own: Arc<Own>,
    pub(super) sequence: u64,
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.own.lock().remove(&self.sequence);
    }
}
