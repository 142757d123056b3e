//! What is said in a session, both ways, in our own words.

use std::sync::Arc;
use std::time::Duration;

use crate::aggregator;
use crate::domain::callback::Topic;
use crate::domain::classify::Finding;
use crate::domain::command::{Command, Newcomer};
use crate::domain::fault::{Fault, FaultKey};
use crate::domain::name::{AppName, PartName, UnitName};
use crate::domain::operation::record::Pending;
use crate::domain::revision::Revision;
use crate::domain::session::SessionId;
use crate::domain::status::{Status, StatusKey};
use crate::domain::time::Timestamp;

/// Who opens a session.
#[derive(Debug, Clone)]
pub struct Hello {
    /// Of which application.
    pub app: AppName,
    /// Which unit, and what it says of itself.
    pub who: Newcomer,
}

/// What a worker is to know at the begin of its session.
#[derive(Debug, Clone)]
pub struct Welcome {
    /// The session.
    pub session: SessionId,
    /// The incarnation it speaks as.
    pub incarnation: u64,
    /// How often it must be heard.
    pub heartbeat_interval: Duration,
    /// Its push statuses.
    pub retained: Vec<(Arc<StatusKey>, Arc<Status>)>,
    /// Work that was begun and not finished.
    pub pending: Option<Pending>,
    /// Its components that stand still, each with what has held it longest.
    pub holds: Vec<(Arc<FaultKey>, Arc<Fault>)>,
    /// Who leads.
    pub leader: Option<UnitName>,
    /// Epoch of that lease.
    pub lease_epoch: u64,
    /// The store's clock.
    pub server_time: Timestamp,
}

/// Why no session was opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// It was not decided, or not in favour.
    #[error(transparent)]
    Refused(#[from] aggregator::Error),
    /// There are as many as we take.
    #[error("{max} sessions are open already; connect to another replica, or come back later")]
    TooMany {
        /// The bound.
        max: usize,
    },
}

/// What a worker says. `R` is a refusal in the words of whoever reads the wire: it is passed
/// through to where the answer to its `seq` belongs.
///
/// Moved a few times on its way; boxing the large one would cost every report an allocation.
#[allow(clippy::large_enum_variant)]
#[derive(Debug)]
pub enum Heard<R> {
    /// A command of this unit.
    Said {
        /// Grows with each message; 0 of one that has none, and is not acknowledged.
        seq: u64,
        /// What to do, by [`Session::speaker`](super::Session::speaker).
        command: Command,
        /// The question that this answers.
        answers: Option<u64>,
    },
    /// Something that cannot be done.
    Refused {
        /// Grows with each message; 0 of one that has none.
        seq: u64,
        /// Why.
        refusal: R,
    },
    /// Still here.
    Heartbeat,
    /// It ends the session on purpose.
    Goodbye {
        /// The unit will not come back.
        removed: bool,
    },
    /// It says what no session has: the stream ends.
    Broken(R),
}

/// What a worker is told.
#[derive(Debug)]
pub enum Told<R> {
    /// The session has begun.
    Welcome(Box<Welcome>),
    /// Everything up to here is committed, or was refused.
    Ack {
        /// The last message.
        seq: u64,
        /// Revision at which it is in force.
        revision: Revision,
    },
    /// A message was refused before it was decided.
    Refused {
        /// Which.
        seq: u64,
        /// Why.
        refusal: R,
    },
    /// A message was refused.
    Rejected {
        /// Which.
        seq: u64,
        /// Why.
        error: aggregator::Error,
    },
    /// It is asked for its pull set.
    Collect {
        /// Names the question.
        id: u64,
        /// Of which component; of all without.
        component: Option<PartName>,
        /// It shall look anew.
        recompute: bool,
        /// After this nobody waits for the answer.
        deadline: Timestamp,
    },
    /// The time to try again has come.
    RetryDue {
        /// What.
        topic: Topic,
        /// The operation it belongs to; `""` if to none.
        operation_id: Box<str>,
    },
    /// What to do about an error that was reported.
    Verdict {
        /// The report.
        seq: u64,
        /// What it means.
        finding: Finding,
        /// What became of it, unless it is over already.
        fault: Option<Arc<Fault>>,
    },
    /// A component stands still from now on.
    Hold {
        /// What holds it.
        key: Arc<FaultKey>,
        /// The same.
        fault: Arc<Fault>,
    },
    /// A component may go on.
    HoldReleased {
        /// The component.
        component: PartName,
        /// Why, CamelCase.
        reason: &'static str,
    },
    /// Who leads.
    Leadership {
        /// The unit; `None` while nobody does.
        leader: Option<UnitName>,
        /// Epoch of its lease.
        lease_epoch: u64,
        /// Whether it is the unit of this session.
        is_self: bool,
        /// How often it must be heard to go on leading.
        heartbeat_interval: Option<Duration>,
    },
    /// The leader's data are not what they were.
    DataChanged {
        /// Of the data.
        etag: String,
    },
    /// A newer session took over.
    Superseded {
        /// Its incarnation.
        incarnation: u64,
    },
    /// This server stops.
    Drain {
        /// Wait this long before connecting again.
        reconnect_after: Duration,
    },
}
