//! Messages of a session in both directions, in domain types.

use std::sync::Arc;
use std::time::Duration;

use crate::aggregator;
use crate::domain::classify::finding::Finding;
use crate::domain::command::Command;
use crate::domain::fault::{Fault, FaultKey};
use crate::domain::name::{AppName, PartName, UnitName};
use crate::domain::operation::set::Pending;
use crate::domain::revision::Revision;
use crate::domain::stated::index::RecordKey;
use crate::domain::status::{Status, StatusKey};
use crate::domain::time::Timestamp;
use crate::domain::unit::presence::SessionId;
use crate::domain::unit::{CallbackRequest, Newcomer, Topic};

/// Whether the worker of a session may read an application.
pub type MayRead = Arc<dyn Fn(&AppName) -> bool + Send + Sync>;

/// The first message of a session.
#[derive(Clone)]
pub struct Hello {
    /// The application.
    pub app: AppName,
    /// The unit and its description of itself.
    pub who: Newcomer,
    /// What the worker may read. A session ends when it loses a right.
    pub may_read: MayRead,
}

/// The state that a worker receives when its session opens.
#[derive(Debug, Clone)]
pub struct Welcome {
    /// The session.
    pub session: SessionId,
    /// The incarnation of the unit in this session.
    pub incarnation: u64,
    /// The longest interval between two messages of the worker.
    pub heartbeat_interval: Duration,
    /// The unit's push statuses.
    pub retained: Vec<(Arc<StatusKey>, Arc<Status>)>,
    /// The open operations: that of the unit, and that of its application.
    pub pending: Vec<Pending>,
    /// Of each component that faults hold, the fault that has held it longest.
    pub holds: Vec<(Arc<FaultKey>, Arc<Fault>)>,
    /// The leader; `None` if the application has no leader.
    pub leader: Option<UnitName>,
    /// Epoch of the leader's lease.
    pub lease_epoch: u64,
    /// Time of the store's clock.
    pub server_time: Timestamp,
}

/// The reason why no session was opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The aggregator refused the session or could not commit it.
    #[error(transparent)]
    Refused(#[from] aggregator::Error),
    /// The limit of open sessions is reached.
    #[error("{0} sessions are open already; connect to another replica, or try again later")]
    TooMany(usize),
}

/// A message of a worker. `R` is the type in which the layer `service` refuses a message that it
/// cannot convert. The session does not read it: it is the answer to that message
/// ([`Outbound::Refused`]), or the end of the stream ([`End::Broken`](super::End::Broken)).
///
/// The variants differ in size. A box for the largest would cost an allocation for each report, and
/// a message is moved only a few times.
#[allow(clippy::large_enum_variant)]
#[derive(Debug)]
pub enum Inbound<R> {
    /// A command of the unit.
    Command {
        /// Grows with each message. 0: the message has no number and is not acknowledged.
        seq: u64,
        /// The command, by [`Session::reporter`](super::Session::reporter).
        command: Command,
        /// The question that the command answers.
        answers: Option<u64>,
    },
    /// A message that cannot be executed.
    Refused {
        /// Grows with each message. 0: the message has no number.
        seq: u64,
        /// The reason.
        refusal: R,
    },
    /// A sign of life.
    Heartbeat,
    /// The worker closes the session on purpose.
    Goodbye {
        /// The unit is removed for good.
        removed: bool,
    },
    /// A message that ends the stream, because a session does not allow it.
    Broken(R),
}

/// A question to a worker for its pull set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// Number of the question.
    pub id: u64,
    /// The component; `None`: all components.
    pub component: Option<PartName>,
    /// Whether the worker must compute its statuses again.
    pub recompute: bool,
    /// No call waits for the answer after this time.
    pub deadline: Timestamp,
}

/// A message to a worker.
#[derive(Debug)]
pub enum Outbound<R> {
    /// The session is open.
    Welcome(Box<Welcome>),
    /// Every message up to `seq` is committed or was refused.
    Ack {
        /// The last message.
        seq: u64,
        /// Revision at which the commits are in force.
        revision: Revision,
    },
    /// A message was refused before it reached the aggregator.
    Refused {
        /// The message.
        seq: u64,
        /// The reason.
        refusal: R,
    },
    /// The aggregator rejected a message.
    Rejected {
        /// The message.
        seq: u64,
        /// The reason.
        error: aggregator::Error,
    },
    /// The server asks for the worker's pull set.
    Collect(Question),
    /// All needs of a record are met.
    NeedsMet(RecordKey),
    /// The time of a retry has come.
    RetryDue {
        /// The topic of the retry.
        topic: Topic,
        /// The operation it belongs to; `""` if it belongs to none.
        operation_id: Box<str>,
    },
    /// The time of a callback has come that the worker requested.
    CallbackDue {
        /// The topic, with its key.
        topic: Topic,
        /// The request.
        request: CallbackRequest,
    },
    /// The server's verdict on a reported error.
    Verdict {
        /// `seq` of the report.
        seq: u64,
        /// The classification of the error.
        finding: Finding,
        /// The resulting fault; `None` if it is over already, or if it could not be read.
        fault: Option<Arc<Fault>>,
    },
    /// A fault holds a component from now on.
    Hold {
        /// Key of the fault.
        key: Arc<FaultKey>,
        /// The fault.
        fault: Arc<Fault>,
    },
    /// No fault holds a component any more.
    HoldReleased {
        /// The component.
        component: PartName,
        /// The reason, CamelCase.
        reason: &'static str,
    },
    /// The leader: sent after each change, and as the answer to a claim.
    Leadership {
        /// The leader; `None` if there is none.
        leader: Option<UnitName>,
        /// Epoch of its lease.
        lease_epoch: u64,
        /// Whether it is the unit of this session.
        is_self: bool,
        /// The longest interval between two messages of the leader that keeps its lease.
        heartbeat_interval: Option<Duration>,
    },
    /// The leader's data have changed.
    DataChanged {
        /// Etag of the new data.
        etag: String,
    },
    /// A newer session of the unit took over.
    Superseded {
        /// The newer incarnation.
        incarnation: u64,
    },
    /// This server stops.
    Drain {
        /// The time to wait before the next connection.
        reconnect_after: Duration,
    },
}
