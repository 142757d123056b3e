//! What is remembered: one trait, one contract, one conformance suite that every backend passes.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::domain::app::{AppState, Head};
use crate::domain::name::AppName;
use crate::domain::replay::Records;
use crate::domain::revision::Revision;
use crate::domain::session::ReplicaId;
use crate::domain::time::Timestamp;
use crate::domain::transition::{StatusEvent, Transition};

pub mod clock;
pub mod doctor;
pub mod embedded;
pub mod error;
pub mod memory;
pub mod redis;

#[cfg(test)]
pub mod conformance;

mod codec;
mod heads;
mod key;
mod notice;

pub use error::{CommitError, OpenError, ReadError};
pub use memory::MemoryStore;
pub use notice::{Notice, Word};

/// Keeps applications, their history, and the order in which they last changed.
///
/// The contract:
///
/// - **Compare and swap.** [`commit`](Store::commit) applies a transition only if the application
///   is at the revision it was decided on; otherwise nothing is written and the answer is
///   [`CommitError::Conflict`]. Where several processes share the store, the same goes for the
///   number of quiet commits it was decided on; the answer then has the revision it was decided on.
///   All of a transition is applied or nothing. When `commit` returns `Ok`, the transition survives
///   whatever the store promises to survive (a crash of the process and of the machine for the
///   embedded store; nothing for memory).
/// - **Answers without a write.** A shared store may hold a newer version than this process has
///   seen. An answer that needs no commit ("unchanged", a refusal) is sent only after
///   [`confirm`](Store::confirm) has succeeded for the version it was decided on.
/// - **Ambiguity.** After [`CommitError::Unavailable`] the transition may or may not have been
///   applied. The caller reads again before it decides anew, and does not acknowledge what it finds
///   before another commit has succeeded, if only one of nothing: that one vouches for it.
/// - **Requests.** In a store that others may commit to, an answer to a request has to be the first
///   one, unless the transition removes the old one before it: otherwise the commit is refused as a
///   conflict, at its own revision if the answer that is there was told to nobody.
/// - **Order.** Each commit that moves a revision gets the next [`Position`] of its bucket.
///   Followers are told of it in that order, before `commit` returns. A transition that moves no
///   revision gets none and is told to nobody; of an application that is not known, nothing of it
///   is kept.
/// - **Deletion.** A deleted application leaves a tombstone with its revision and position.
///   Tombstones are forgotten, the oldest first, when there are too many, and their history with
///   them; revisions go on from above the highest one forgotten, so none is ever used twice.
/// - **History.** Events are numbered from `head.next_event` downwards without gaps, and outlive
///   the unit and the application. What [`Retention`] finds too much or too old is removed by the
///   next commit of the application; what is too old is not told before that either.
/// - **Time.** [`now`](Store::now) never goes back, also across restarts.
#[async_trait::async_trait]
pub trait Store: Send + Sync + 'static {
    /// The time by the store's clock.
    fn now(&self) -> Timestamp;

    /// The history that positions belong to. Moves when the store may have lost writes.
    fn epoch(&self) -> Epoch;

    /// What epochs, fences and versions of an application go on above: nothing up to here is given
    /// again, although the store may not have it. Each master of the store has another number, so
    /// it also names the history that a state was read from. A commit or confirmation of a state
    /// with another number is a [`CommitError::Conflict`], also at its own revision: after a loss of
    /// writes one revision can stand for two states.
    fn counts_above(&self, _: &AppName) -> u64 {
        0
    }

    /// How many orders of changes there are: one where one writer orders everything.
    fn buckets(&self) -> u16 {
        1
    }

    /// Whether other processes may commit to the same store.
    fn is_shared(&self) -> bool {
        1 < self.buckets()
    }

    /// Everything known of an application. One that is not known is an empty head (`deleted`) with
    /// the revision to go on from.
    async fn load(&self, app: &AppName) -> Result<Records, ReadError>;

    /// Makes a transition part of what is remembered.
    async fn commit(&self, transition: Arc<Transition>) -> Result<(), CommitError>;

    /// Succeeds if the application is at this version in the store at some moment between call and
    /// answer, and that is as durable as a commit; otherwise the answer is
    /// [`CommitError::Conflict`]. Writes nothing that any reader sees.
    async fn confirm(&self, app: &AppName, version: Version) -> Result<(), CommitError>;

    /// Tells the follower what counts go on above and how far tombstones were forgotten (if any
    /// were), then of each application and tombstone there is, in order of position, and from then
    /// on of each change. Nothing is left out in between.
    fn follow(&self, follower: Arc<dyn Follower>);

    /// The history of an application before the event numbered `before` (from the end without it),
    /// newest first.
    async fn events(
        &self,
        app: &AppName,
        before: Option<u64>,
        count_max: usize,
    ) -> Result<Vec<NumberedEvent>, ReadError>;

    /// This process, among those that share the store.
    fn replica(&self) -> ReplicaId;

    /// Says that this process lives, and answers when each that shares the store last said so, by
    /// the store's clock. Who is silent for [`REPLICA_FORGOTTEN_AFTER`] is left out.
    async fn beat(&self) -> Result<BTreeMap<ReplicaId, Timestamp>, ReadError>;

    /// Tells the followers in every process that shares the store. Nothing is written that lasts:
    /// who does not follow at the moment may never hear it.
    async fn announce(&self, notice: Notice) -> Result<(), ReadError>;

    /// Whether commits are expected to succeed now; a sentence if not.
    fn health(&self) -> Result<(), String>;

    /// Finishes what was begun and lets go of what is held. Later commits are `Unavailable`.
    async fn close(&self);
}

/// Which state of an application a decision was based on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Version {
    /// Counts the commits that change what is shown.
    pub revision: Revision,
    /// Counts the commits that change only what is not shown; see [`Head::quiet_commits`].
    pub quiet_commits: u64,
    /// See [`Store::counts_above`].
    pub counts_above: u64,
}

impl Version {
    /// The version of a state.
    pub fn of(state: &AppState) -> Version {
        let Head { revision, quiet_commits, .. } = *state.head();
        Version { revision, quiet_commits, counts_above: state.counts_above }
    }

    /// Whether a head is at this version, in a store with one history.
    fn is_of(&self, head: &Head) -> bool {
        (self.revision, self.quiet_commits) == (head.revision, head.quiet_commits)
    }
}

/// A line of history with its number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NumberedEvent {
    /// Counts the events of the application.
    pub number: u64,
    /// The event.
    pub event: StatusEvent,
}

/// Is told of changes, one at a time: must be quick, and must not call the store, which waits for
/// it.
pub trait Follower: Send + Sync {
    /// An application changed, or is a tombstone (`head.deleted`).
    fn changed(&self, change: &Change);

    /// Tombstones of a bucket up to here have been forgotten: who stands before this cannot be told
    /// what was deleted.
    fn forgotten(&self, bucket: Bucket, up_to: Position);

    /// The store may have lost acknowledged writes in this bucket. What it has now has been told by
    /// `changed`, and what it no longer has as a tombstone; positions go on in `epoch`, above those
    /// told before. May be told again for the same loss, as to whoever follows from later on.
    fn doubted(&self, bucket: Bucket, epoch: Epoch);

    /// Epochs and versions in this bucket go on above this from now on: those up to here may have
    /// been given to others by what the store has lost.
    fn counts_above(&self, _: Bucket, _: u64) {}

    /// A process that shares the store, maybe this one, told all of them something.
    fn noticed(&self, _: &Notice) {}
}

/// The newest state of an application that changed.
#[derive(Debug, Clone)]
pub struct Change {
    /// Which application.
    pub app: AppName,
    /// Which of the store's orders it stands in. An application never changes its bucket.
    pub bucket: Bucket,
    /// Where this stands in the order of changes of the bucket.
    pub position: Position,
    /// What is known of it now.
    pub head: Arc<Head>,
    /// What led there from the revision before; absent if only where it is now is known.
    pub transition: Option<Arc<Transition>>,
}

/// One of the store's orders of changes. A store has [`Store::buckets`] of them, numbered from 0,
/// for its whole life.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct Bucket(pub u16);

/// A place in the order in which the applications of a bucket changed. Starts at 1; 0 is before
/// everything.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct Position(pub u64);

/// Names a history of positions: random when the store was made, counted up when it may have lost
/// writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Epoch {
    /// Of the store.
    pub store_id: u64,
    /// How often it may have lost acknowledged writes.
    pub losses: u32,
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}-{}", self.store_id, self.losses)
    }
}

/// How much history is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retention {
    /// Events of one application.
    pub events_max: u64,
    /// Age of an event.
    pub event_age_max: Duration,
    /// Tombstones of deleted applications.
    pub tombstones_max: usize,
}

impl Retention {
    /// Whether an event of `time` is still history at `now`.
    pub fn is_kept(&self, time: Timestamp, now: Timestamp) -> bool {
        now.since(time) <= self.event_age_max
    }
}

impl Default for Retention {
    /// A thousand transitions or a week of each application: enough to see what happened over a
    /// weekend. Ten thousand tombstones: a watcher may be away while that many applications are
    /// deleted.
    fn default() -> Retention {
        Retention {
            events_max: 1000,
            event_age_max: Duration::from_secs(7 * 24 * 3600),
            tombstones_max: 10_000,
        }
    }
}

/// Silence after which nothing is known any more of a process: long after its sessions are over.
pub const REPLICA_FORGOTTEN_AFTER: Duration = Duration::from_secs(3600);

/// Tells two stores, or two processes, apart.
fn random_store_id() -> u64 {
    getrandom::u64().expect("the operating system has randomness")
}
