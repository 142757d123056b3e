//! The store: one trait with its contract, its backends, and the conformance suite that every
//! backend passes.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::domain::app::{AppState, Head};
use crate::domain::history::StatusEvent;
use crate::domain::name::AppName;
use crate::domain::replay::Records;
use crate::domain::revision::Revision;
use crate::domain::time::Timestamp;
use crate::domain::transition::Transition;
use crate::domain::unit::presence::ReplicaId;

pub mod clock;
pub mod embedded;
pub mod error;
pub mod memory;
pub mod moment;
pub mod redis;

#[cfg(any(test, feature = "testing"))]
pub mod conformance;
#[cfg(any(test, feature = "testing"))]
pub mod faulty;
#[cfg(any(test, feature = "testing"))]
pub mod probe;

mod broadcast;
mod codec;
mod heads;
mod kept;
mod key;
mod open;
mod space;
mod span;
mod watermarks;

pub use broadcast::{Broadcast, BroadcastKind};
pub use error::{Applied, CommitError, ConflictCause, ReadError};
pub use kept::{KeptHead, PackedHead};
pub use memory::MemoryStore;
pub use moment::Moment;
pub use open::OpenError;
pub use space::{Space, watch_space};

/// Stores applications, their histories, and the order in which applications change.
///
/// This is the contract of every backend. The module `conformance` (feature `testing`) tests it.
///
/// # Versions
///
/// A commit is based on a state that the caller read before. The [`Version`] of that state has
/// three parts:
///
/// - The revision. It counts the commits that change what readers see.
/// - The count of quiet commits. A quiet commit writes records but does not move the revision.
///   [`Head::quiet_commits`] counts those that change damped statuses or operations. It does not
///   count those that only store the answer to a request.
/// - The epoch floor of the store; see [`epoch_floor`](Store::epoch_floor).
///
/// A store is *shared* if other processes may commit to it ([`is_shared`](Store::is_shared)). Only
/// a shared store compares all three parts; any other store compares the revision alone in a
/// commit.
///
/// # What a successful commit means
///
/// [`commit`](Store::commit) applies all of a transition or nothing. `Ok` means:
///
/// - The application was at the version that the transition is based on.
/// - The transition survives what the backend promises to survive: a crash of the process and of
///   the machine for the embedded store, the configured [`Durability`](redis::Durability) for
///   Redis, nothing for memory.
/// - The observers of this process have received the change, if the revision moved.
///
/// A transition without anything to write ([`is_durable`](Transition::is_durable) is false) is only
/// compared. If the application is unknown, a quiet commit is also only compared: none of it is
/// stored.
///
/// # How a commit fails
///
/// **[`CommitError::Conflict`]**: nothing was written. `current` is the revision of the application
/// in the store, and `cause` names the comparison that failed, the first of this list:
///
/// 1. [`Master`](ConflictCause::Master), shared stores: the epoch floor in the store is not
///    [`Transition::epoch_floor`], because another master serves now. After data loss, one
///    revision can name two states.
/// 2. [`Revision`](ConflictCause::Revision): the revision in the store is not
///    [`Transition::base`]. `current` is less than `base` if the store has lost writes.
/// 3. [`QuietCommits`](ConflictCause::QuietCommits), shared stores: the count of quiet commits in
///    the store is not [`Transition::base_quiet`].
/// 4. [`Overtaken`](ConflictCause::Overtaken), Redis: a later commit of this process was applied
///    already.
/// 5. [`Request`](ConflictCause::Request), shared stores: the transition writes the answer to a
///    request that has an answer already, and does not remove that answer first. A deletion never
///    fails for this reason.
///
/// After a conflict the caller needs a newer state and decides again. After `Revision`, the changes
/// that it received as an observer are enough if they reach `current`. Otherwise the caller calls
/// [`load`](Store::load): no observer receives a quiet commit.
///
/// **[`CommitError::Unavailable`]**: the store did not acknowledge the transition. `applied` says
/// what is known of it:
///
/// - [`Applied::No`]: the store was closed or unreachable before the transition was sent. It will
///   not be applied.
/// - [`Applied::Maybe`]: the answer is lost, late, or an error of the store; or the transition is
///   applied, but not as durable as configured. It may still be applied later.
/// - [`Applied::Yes`], Redis: the transition is applied, but this process has not read it back from
///   the log in time.
///
/// A caller that drops the future of `commit` does not know the outcome either.
///
/// `retry_after` is the time to wait before the next attempt. Unless the transition was not
/// applied, the caller calls `load` before it decides again. It acknowledges nothing that it loaded
/// until a later commit of the application succeeds. An empty commit is enough. The later commit
/// proves that the loaded state is durable.
///
/// # Answers without a commit
///
/// A shared store may hold a newer version than this process has seen. The caller sends an answer
/// that needs no commit ("unchanged", a refusal) only after [`confirm`](Store::confirm) has
/// succeeded for the version that the answer is based on. `confirm` fails as follows:
///
/// - `Conflict`: the version is not the newest one, or was read from another master. The caller
///   does the same as after a conflict of a commit.
/// - `Unavailable`: the store did not answer, or the version is not as durable as configured. The
///   caller sends no answer, and loads the application before it decides again.
///
/// # Other guarantees
///
/// - **Order.** Each commit that moves the revision gets the next [`Position`] of its bucket.
///   Observers receive changes in that order. A quiet commit gets no position, and no observer
///   receives it.
/// - **Deletion.** A deleted application leaves a tombstone with its revision and position, and the
///   answers to its requests, known to the caller or not. When there are too many tombstones, the
///   store prunes the oldest ones together with their histories.
///   The revision of an unknown application starts at the highest pruned revision, so no revision
///   is used twice.
/// - **History.** The events of an application are numbered without gaps; `head.next_event` is the
///   number of the next one. Events outlive their unit and their application. The application's own
///   events and the others have a budget each. The next commit that adds an event to one of them
///   removes the events that exceed it, see [`Retention`]. [`events`](Store::events) does not
///   return an event that is too old.
/// - **Time.** [`now`](Store::now) never goes back, not even after a restart. It advances at the
///   pace of the processes, even if the clock of the store is set.
/// - **Outages.** The time in which no process that shares the store could act is an outage, known
///   to every process ([`moment`](Store::moment)), whether the processes were stopped or the store
///   was not available. A process that starts while another one can act adds none. An outage of
///   less than [`OUTAGE_MIN`](moment::OUTAGE_MIN) may be left out.
#[async_trait::async_trait]
pub trait Store: Send + Sync + 'static {
    /// Returns the time of the store's clock.
    fn now(&self) -> Timestamp;

    /// Returns the time with the outages in which no process that shares the store could act. A
    /// decision uses all three: deadlines move by the outages after their begin, and are judged up
    /// to [`Moment::judged`] only.
    fn moment(&self) -> Moment;

    /// Returns the epoch that positions belong to. It changes when the store may have lost writes.
    fn epoch(&self) -> Epoch;

    /// Returns the epoch floor of the application: every new lease epoch, operation fence and data
    /// version is greater than it. After data loss the store may lack older values that were given
    /// out.
    ///
    /// Each master of the store has another floor, so the floor also names the history that a state
    /// was read from. A commit or confirmation of a state with another floor fails with
    /// [`CommitError::Conflict`], even at the same revision. A store without masters returns 0.
    fn epoch_floor(&self, app: &AppName) -> u64;

    /// Returns the number of buckets: 1 if one writer orders all changes.
    fn buckets(&self) -> u16;

    /// Returns whether other processes may commit to the same store.
    fn is_shared(&self) -> bool;

    /// Reads all records of an application. An unknown application is an empty head (`deleted`)
    /// with the revision that its first commit is based on.
    ///
    /// # Errors
    ///
    /// `Unavailable` if the store cannot be read now; for Redis also until a data loss is repaired.
    /// `Corrupt` if a record is not valid; another attempt does not help.
    async fn load(&self, app: &AppName) -> Result<Records, ReadError>;

    /// Records that this process no longer follows an application that it has loaded: it needs no
    /// transitions of it until the next `load`. Saves work, and changes nothing that a reader sees.
    async fn release(&self, app: &AppName);

    /// Applies a transition, or fails as the contract says.
    async fn commit(&self, transition: Arc<Transition>) -> Result<(), CommitError>;

    /// Succeeds if the store holds this version of the application at some moment between call and
    /// answer, and if that version is as durable as a commit. Otherwise it fails with
    /// [`CommitError::Conflict`], or with [`CommitError::Unavailable`] if the store does not answer
    /// or the version is not that durable. Writes nothing that a reader sees.
    async fn confirm(&self, app: &AppName, version: Version) -> Result<(), CommitError>;

    /// Adds an observer. Sends it the epoch floors and the pruned positions that are not 0, then
    /// each application and tombstone in order of position, then the last data loss of each bucket,
    /// and from then on each change. Leaves nothing out in between.
    fn follow(&self, observer: Arc<dyn Observer>);

    /// Reads the events of an application that precede the event numbered `before`, newest first.
    /// Without `before` it starts at the newest event.
    async fn events(
        &self,
        app: &AppName,
        before: Option<u64>,
        count_max: usize,
    ) -> Result<Vec<NumberedEvent>, ReadError>;

    /// Returns the id of this process among those that share the store.
    fn replica(&self) -> ReplicaId;

    /// Records that this process is alive. Returns when each process that shares the store last
    /// recorded the same, by the store's clock. Leaves out those that are silent for
    /// [`REPLICA_FORGOTTEN_AFTER`].
    async fn beat(&self) -> Result<BTreeMap<ReplicaId, Timestamp>, ReadError>;

    /// Broadcasts a message to the observers of every process that shares the store. The message is
    /// not stored: an observer that is added later does not receive it.
    async fn broadcast(&self, notice: Broadcast) -> Result<(), ReadError>;

    /// Returns the space that is left for what is stored; `None` if the store does not know.
    async fn space(&self) -> Option<Space>;

    /// Returns whether commits are expected to succeed now, and a sentence if not.
    fn health(&self) -> Result<(), String>;

    /// Completes the commits that are queued, and releases all resources. Later commits fail with
    /// `Unavailable`.
    async fn close(&self);
}

/// The version of an application's state; a decision is based on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Version {
    /// The count of commits that change what readers see.
    pub revision: Revision,
    /// The count of quiet commits; see [`Head::quiet_commits`].
    pub quiet_commits: u64,
    /// The epoch floor; see [`Store::epoch_floor`].
    pub epoch_floor: u64,
}

impl Version {
    /// Returns the version of a state.
    pub fn of(state: &AppState) -> Version {
        let Head { revision, quiet_commits, .. } = *state.head();
        Version { revision, quiet_commits, epoch_floor: state.epoch_floor }
    }

    /// Returns the version that a transition is based on.
    fn before(transition: &Transition) -> Version {
        let Transition { base, base_quiet, epoch_floor, .. } = *transition;
        Version { revision: base, quiet_commits: base_quiet, epoch_floor }
    }

    /// Compares this version with the newest head, in a store without masters.
    fn compare(&self, head: &Head) -> Result<(), CommitError> {
        let current = head.revision;
        let cause = match self {
            Version { epoch_floor: 1.., .. } => ConflictCause::Master,
            _ if self.revision != current => ConflictCause::Revision,
            _ if self.quiet_commits != head.quiet_commits => ConflictCause::QuietCommits,
            _ => return Ok(()),
        };
        Err(CommitError::Conflict { current, cause })
    }
}

/// An event of an application with its number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NumberedEvent {
    /// The number, which counts the events of the application.
    pub number: u64,
    /// The event.
    pub event: StatusEvent,
}

/// An observer of the store. It receives changes one at a time. Its methods must return quickly and
/// must not call the store, which waits for them.
pub trait Observer: Send + Sync {
    /// Receives an application that changed or became a tombstone (`head.deleted`).
    fn on_change(&self, change: &Change);

    /// Receives the position up to which the tombstones of a bucket are pruned. A reader with an
    /// older cursor must take a new snapshot: it cannot learn which applications were deleted.
    fn on_prune(&self, bucket: Bucket, up_to: Position);

    /// Receives a step of the change to another master of a bucket. A store without masters sends
    /// only [`MasterChange::LostWrites`].
    fn on_master(&self, bucket: Bucket, change: &MasterChange);

    /// Receives a message that a process broadcast; that process may be this one.
    fn on_broadcast(&self, broadcast: &Broadcast);
}

/// A step of the change to another master, in the order in which observers receive them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MasterChange {
    /// The reader has met another master, the last of these; the oldest one comes first. Precedes
    /// everything that is read from that master.
    Met(Arc<[Takeover]>),
    /// The bucket may have lost acknowledged writes. Before this, `on_change` has delivered what
    /// the bucket holds now, and a tombstone for each application that is gone. Positions continue
    /// in this epoch, above those delivered before. The observer may receive the same data loss
    /// more than once.
    LostWrites(Epoch),
    /// The last master is compared with what the observer has received, and has this epoch floor:
    /// new lease epochs, fences and data versions are greater than it. Values up to the floor may
    /// have been given out by commits that the store has lost.
    Compared(u64),
}

/// A master that took over a bucket from another one, the first one, or the same one under a higher
/// epoch floor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Takeover {
    /// Its epoch floor. No two masters of a bucket have the same.
    pub epoch_floor: u64,
    /// The last position that it had when a process first met it. What former masters put at later
    /// positions is lost. The highest position if the same master goes on, which loses nothing.
    pub last: Position,
}

impl Takeover {
    /// Returns the masters that followed the one with this epoch floor, oldest first; `None` if
    /// that one is not among them.
    pub fn after(masters: &[Takeover], epoch_floor: u64) -> Option<&[Takeover]> {
        let at = masters.iter().position(|master| master.epoch_floor == epoch_floor)?;
        masters.get(at + 1..)
    }
}

/// The newest state of an application that changed.
#[derive(Debug, Clone)]
pub struct Change {
    /// The application.
    pub app: AppName,
    /// The bucket of the application, which never changes.
    pub bucket: Bucket,
    /// The position of this change in the order of the bucket.
    pub position: Position,
    /// The head after the change.
    pub head: Arc<Head>,
    /// The same in few bytes, if the store has it like this.
    pub packed: Option<PackedHead>,
    /// The transition that led to this head; absent if only the head is known.
    pub transition: Option<Arc<Transition>>,
}

impl Change {
    /// Returns the change to a head, without its transition.
    pub fn of(app: AppName, bucket: Bucket, position: Position, head: KeptHead) -> Change {
        let whole = head.head();
        let packed = match head {
            KeptHead::Whole(_) => None,
            KeptHead::Packed(packed) => Some(packed),
        };
        Change { app, bucket, position, head: whole, packed, transition: None }
    }

    /// Returns the head for who keeps it.
    pub fn kept(&self) -> KeptHead {
        match &self.packed {
            Some(packed) => KeptHead::Packed(packed.clone()),
            None => KeptHead::Whole(self.head.clone()),
        }
    }
}

/// The number of a bucket: one of the store's orders of changes. A store has [`Store::buckets`] of
/// them, numbered from 0, for its whole life.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct Bucket(pub u16);

/// A place in the order of changes of a bucket. The first change has position 1; position 0
/// precedes all changes.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct Position(pub u64);

/// Names a history of positions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Epoch {
    /// A random number, chosen when the store was created.
    pub store_id: u64,
    /// The count of data losses: how often the store may have lost acknowledged writes.
    pub losses: u32,
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}-{}", self.store_id, self.losses)
    }
}

/// The limits on the history that the store keeps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retention {
    /// The number of events about the units of one application and their statuses.
    pub events_max: u64,
    /// The age of such an event.
    pub event_age_max: Duration,
    /// The number of an application's own events, see [`StatusEvent::is_own`].
    pub own_events_max: u64,
    /// The age of such an event.
    pub own_event_age_max: Duration,
    /// The number of tombstones of deleted applications.
    pub tombstones_max: usize,
}

impl Retention {
    /// Returns the budget of an application's own events, or of the others.
    pub fn budget(&self, is_own: bool) -> Budget {
        match is_own {
            true => Budget { count_max: self.own_events_max, age_max: self.own_event_age_max },
            false => Budget { count_max: self.events_max, age_max: self.event_age_max },
        }
    }
}

/// The limits on one kind of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// The number of events of one application.
    pub count_max: u64,
    /// The age of an event.
    pub age_max: Duration,
}

impl Budget {
    /// Returns whether an event of `time` is young enough at `now`.
    pub fn is_kept(&self, time: Timestamp, now: Timestamp) -> bool {
        now.since(time) <= self.age_max
    }
}

/// Merges the own events of an application with the others, newest first, up to a number.
fn merged(
    own: Vec<NumberedEvent>,
    others: Vec<NumberedEvent>,
    count_max: usize,
) -> Vec<NumberedEvent> {
    let mut all = own;
    all.extend(others);
    all.sort_by_key(|event| std::cmp::Reverse(event.number));
    all.truncate(count_max);
    all
}

impl Default for Retention {
    /// One thousand events or one week for each application: enough to see what happened over a
    /// weekend. One thousand of its own, or 400 days: a year, and the same week of the last one.
    /// Ten thousand tombstones: a watcher may be away while that many applications are deleted.
    fn default() -> Retention {
        Retention {
            events_max: 1000,
            event_age_max: Duration::from_secs(7 * 24 * 3600),
            own_events_max: 1000,
            own_event_age_max: Duration::from_secs(400 * 24 * 3600),
            tombstones_max: 10_000,
        }
    }
}

/// The silence after which a process is removed from the list of replicas. Its sessions have ended
/// long before.
pub const REPLICA_FORGOTTEN_AFTER: Duration = Duration::from_secs(3600);

/// Returns a random id for a store or a process.
fn random_store_id() -> u64 {
    getrandom::u64().expect("the operating system has randomness")
}
