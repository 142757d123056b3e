//! Commands on an application, and the reasons for their rejection.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::app::Mode;
use super::callback::Topic;
use super::data::DataPatch;
use super::fault::{NewError, Resolution};
use super::name::{PartName, UnitName};
use super::operation::command::Order;
use super::operation::refused::Refused;
use super::policy::ConfigPatch;
use super::request::{Fingerprint, Outcome, Remembered, RequestId};
use super::session::{ReplicaId, SessionId};
use super::status::{Kind, Level, Report};
use super::time::Timestamp;

/// A command with the id under which its answer is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The id: a repeat with the same id gets the same answer and is applied once.
    pub id: Option<RequestId>,
    /// The command.
    pub command: Command,
}

impl Request {
    /// Returns the record of the answer.
    pub(super) fn answer(
        &self,
        outcome: Outcome,
        fingerprint: Option<Fingerprint>,
        time: Timestamp,
    ) -> Remembered {
        let unit = self.command.unit().cloned().unwrap_or_default();
        Remembered { time, outcome, fingerprint, unit }
    }
}

/// One status as it is reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewStatus {
    /// The component of the unit.
    pub component: PartName,
    /// The key within the component.
    pub key: PartName,
    /// The report; its copies share it.
    pub report: Arc<Report>,
    /// Observation time, by the reporter's clock.
    pub observe_time: Option<Timestamp>,
}

/// The sender of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reporter {
    /// The unit.
    pub unit: UnitName,
    /// Its incarnation, if given.
    pub incarnation: Option<u64>,
    /// The session in which the command arrives, if any. Only the newest session is valid.
    pub session: Option<SessionId>,
}

impl Reporter {
    /// Returns a sender outside of any session.
    pub fn new(unit: UnitName, incarnation: Option<u64>) -> Reporter {
        Reporter { unit, incarnation, session: None }
    }
}

/// A unit that begins or continues an incarnation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Newcomer {
    /// The unit.
    pub unit: UnitName,
    /// The incarnation to continue; `None` begins a new one.
    pub incarnation: Option<u64>,
    /// Whether the unit gets a new name each time it is replaced.
    pub stateless: bool,
    /// Labels that the unit gives.
    pub labels: BTreeMap<Box<str>, Box<str>>,
}

/// The leader, as it identifies itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The unit; `""` if leadership is decided outside and no unit leads.
    pub unit: UnitName,
    /// Epoch of its lease.
    pub lease_epoch: u64,
}

/// A command on an application.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Sets one status.
    Report(Reporter, Kind, NewStatus),
    /// Sets several statuses, or none if the command is rejected.
    ReportAll(Reporter, Vec<(Kind, NewStatus)>),
    /// Replaces the pull set of a unit, or of one of its components. Each (component, key) occurs
    /// once.
    Replace(Reporter, Option<PartName>, Vec<NewStatus>),
    /// Removes the statuses that match; `None` matches all.
    Clear {
        /// The sender.
        reporter: Reporter,
        /// The component.
        component: Option<PartName>,
        /// The key.
        key: Option<PartName>,
        /// The kind.
        kind: Option<Kind>,
    },
    /// Changes the configuration. Boxed to keep `Command` small for reports.
    Configure(Box<ConfigPatch>),
    /// Sets the status of the application as a whole.
    SetApplicationStatus(Claim, NewApplicationStatus),
    /// Withdraws the status of the application as a whole.
    ClearApplicationStatus(Claim),
    /// Removes a unit with its statuses.
    RemoveUnit(UnitName),
    /// The sender requests leadership, with a lease of this length or the configured one.
    ClaimLeadership(Reporter, Option<Duration>),
    /// The leader renews its lease.
    RenewLeadership(Claim),
    /// The leader steps back.
    ReleaseLeadership(Claim),
    /// An operator makes a unit the leader.
    TransferLeadership(UnitName),
    /// A connected leader was silent, in this session, for as long as its lease lasts.
    LapseLeadership(Claim, SessionId),
    /// The sender withdraws: it stops leading, and stops waiting to lead.
    StepBack(Reporter),
    /// The leader changes the data.
    UpdateData(Claim, DataPatch),
    /// A unit opens a session.
    Connect(Newcomer, SessionId),
    /// A session confirms that it is still open, after another replica treated it as closed.
    Reconnect(Newcomer, SessionId),
    /// A unit begins or continues an incarnation without a session; with a time, it promises
    /// contact that often.
    Register(Newcomer, Option<Duration>),
    /// A session has closed. No effect if the unit has another session by now.
    Disconnect {
        /// The unit.
        unit: UnitName,
        /// Its session.
        session: SessionId,
        /// Time that the unit has to open another session.
        ttl: Duration,
        /// Whether the unit was already silent for as long.
        silent: bool,
    },
    /// The sending unit leaves for good.
    Depart {
        /// The sender.
        reporter: Reporter,
        /// Time that a successor has before the statuses that the unit leaves behind count as lost.
        ttl: Duration,
    },
    /// A unit met an error.
    ReportError {
        /// The sender.
        reporter: Reporter,
        /// Its component.
        component: PartName,
        /// The target that the component asked or acted on.
        target: Arc<str>,
        /// The error.
        error: Box<NewError>,
    },
    /// A target that failed works again.
    ResolveError {
        /// The sender.
        reporter: Reporter,
        /// Its component.
        component: PartName,
        /// The target that the component asked or acted on; `None`: every target.
        target: Option<Arc<str>>,
        /// Generation of the configuration that the work used; empty if not given.
        generation: Box<str>,
    },
    /// An operator releases a held component.
    ResolveHold {
        /// The unit.
        unit: UnitName,
        /// Its component.
        component: PartName,
        /// How the component continues.
        resolution: Resolution,
        /// The reason, for the history.
        why: Box<str>,
    },
    /// Adds a callback for a unit: a notification about a topic at a certain time.
    CallBack {
        /// The unit.
        unit: UnitName,
        /// The topic.
        topic: Topic,
        /// When the worker is notified.
        at: Timestamp,
        /// The operation of the callback; `""` if there is none.
        operation_id: Box<str>,
    },
    /// Cancels a callback.
    CallOff {
        /// The unit.
        unit: UnitName,
        /// The topic.
        topic: Topic,
    },
    /// A replica is gone, and with it the sessions that it held.
    Orphan {
        /// The replica.
        replica: ReplicaId,
        /// Time that its units have to connect elsewhere.
        ttl: Duration,
    },
    /// A command on an operation.
    Operate(Order),
}

impl Command {
    /// Returns the unit that sends the command, or that an operator's command is about; `""` or
    /// `None` for the application as a whole.
    fn unit(&self) -> Option<&UnitName> {
        match self {
            Command::Report(reporter, ..)
            | Command::ReportAll(reporter, _)
            | Command::Replace(reporter, ..)
            | Command::Clear { reporter, .. }
            | Command::ClaimLeadership(reporter, _)
            | Command::StepBack(reporter)
            | Command::Depart { reporter, .. }
            | Command::ReportError { reporter, .. }
            | Command::ResolveError { reporter, .. } => Some(&reporter.unit),
            Command::SetApplicationStatus(claim, _)
            | Command::ClearApplicationStatus(claim)
            | Command::RenewLeadership(claim)
            | Command::ReleaseLeadership(claim)
            | Command::LapseLeadership(claim, _)
            | Command::UpdateData(claim, _) => Some(&claim.unit),
            Command::Connect(who, _) | Command::Reconnect(who, _) | Command::Register(who, _) => {
                Some(&who.unit)
            }
            Command::Disconnect { unit, .. }
            | Command::ResolveHold { unit, .. }
            | Command::CallBack { unit, .. }
            | Command::CallOff { unit, .. }
            | Command::RemoveUnit(unit)
            | Command::TransferLeadership(unit) => Some(unit),
            Command::Operate(order) => Some(&order.by),
            Command::Configure(_) | Command::Orphan { .. } => None,
        }
    }
}

/// The new status that the leader sets for the application as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewApplicationStatus {
    /// How the status takes part.
    pub mode: Mode,
    /// The level.
    pub level: Level,
    /// One line for a person.
    pub message: Box<str>,
    /// Machine-readable cause.
    pub reason: Box<str>,
    /// The action that a person must take.
    pub action: Box<str>,
    /// How long the status lasts.
    pub ttl: Option<Duration>,
    /// Observation time, by the leader's clock.
    pub observe_time: Option<Timestamp>,
}

/// The reason for the rejection of a command. A rejected command changes nothing, except an
/// operation's record (it may lapse, store a next target, or lose its payload) and the waiting
/// position of [`Rejected::LeaseHeld`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Rejected {
    /// No application of this name was reported.
    #[error("application is not known")]
    ApplicationNotFound,
    /// The application has no such unit.
    #[error("unit {unit} is not known")]
    UnitNotFound {
        /// The requested unit.
        unit: UnitName,
    },
    /// A newer incarnation of the unit has reported.
    #[error(
        "unit {unit} has been replaced: incarnation {given} is older than {current}; \
         stop reporting, or start again as a new incarnation"
    )]
    StaleIncarnation {
        /// The unit.
        unit: UnitName,
        /// The incarnation of the sender.
        given: u64,
        /// The valid incarnation.
        current: u64,
    },
    /// The incarnation was never assigned.
    #[error(
        "incarnation {given} of unit {unit} was never given out; the newest is {current}: give the \
         one that welcome or RegisterUnit answered, or none"
    )]
    UnknownIncarnation {
        /// The unit.
        unit: UnitName,
        /// The incarnation of the request.
        given: u64,
        /// The newest one known; 0 if none is.
        current: u64,
    },
    /// The record of the unit has the highest possible incarnation, which an earlier version took
    /// from a report.
    #[error(
        "unit {unit} has the highest incarnation there is, and cannot begin another one; remove \
         the unit, and begin again after 10 minutes"
    )]
    IncarnationsUsedUp {
        /// The unit.
        unit: UnitName,
    },
    /// The unit was removed, and the command is from before the removal.
    #[error(
        "unit {unit} has been removed, and incarnation {given} with it; \
         stop reporting, or start again as a new incarnation"
    )]
    UnitRemoved {
        /// The unit.
        unit: UnitName,
        /// The incarnation of the sender.
        given: u64,
    },
    /// The id of the request was used for a different request before.
    #[error(
        "request_id {id:?} was given to another request before, a {method}; give each request an \
         id of its own, and repeat a request unchanged"
    )]
    RequestIdReused {
        /// The id.
        id: Arc<str>,
        /// Method of the first request.
        method: Arc<str>,
    },
    /// The unit has opened a newer session, or lost this one.
    #[error("this session of unit {unit} is over; use the newest session, or connect again")]
    SessionOver {
        /// The unit.
        unit: UnitName,
    },
    /// The command would exceed a limit.
    #[error("{what} would be more than {max}; remove some first, or raise the limit {limit}")]
    LimitExceeded {
        /// Name of the limit.
        limit: &'static str,
        /// The items that would be too many.
        what: String,
        /// The limit.
        max: usize,
    },
    /// The operation refuses the command.
    #[error(transparent)]
    Operation(#[from] Refused),
    /// Another unit leads; the sender waits in line now.
    #[error(
        "unit {leader} leads, with lease epoch {lease_epoch}; your unit waits in line, stay and \
         ask again"
    )]
    LeaseHeld {
        /// The leader.
        leader: UnitName,
        /// Epoch of the lease.
        lease_epoch: u64,
        /// When it ends without a renewal; `None`: not before the leader's session does.
        ends: Option<Timestamp>,
    },
    /// Leadership is decided outside.
    #[error(
        "leadership is decided outside, by `external_leader` of the configuration; \
         clear that to elect a leader here"
    )]
    LeaderIsExternal {
        /// The leader; `""` if no unit leads.
        leader: UnitName,
    },
    /// A unit that is lost or has left cannot lead.
    #[error("unit {unit} is lost or has left; transfer to one that is there")]
    UnitNotThere {
        /// The unit.
        unit: UnitName,
    },
    /// The data have changed since the version that the change was made for.
    #[error("the data have changed since they were read, their etag is {current}; read them again")]
    EtagMismatch {
        /// The current etag.
        current: String,
    },
    /// A part of the data is too large.
    #[error("{what} would be {bytes} bytes; at most {max}")]
    ValueTooLarge {
        /// The part.
        what: String,
        /// Its size in bytes.
        bytes: u64,
        /// The limit in bytes.
        max: u64,
    },
    /// The sender does not lead.
    #[error("{}", not_leader(unit, leader.as_ref(), *lease_epoch))]
    NotLeader {
        /// The sender.
        unit: UnitName,
        /// The leader.
        leader: Option<UnitName>,
        /// Epoch of that lease.
        lease_epoch: u64,
    },
}

fn not_leader(unit: &UnitName, leader: Option<&UnitName>, lease_epoch: u64) -> String {
    let reporter = match unit.as_str() {
        "" => "a sender without a unit".to_string(),
        unit => format!("unit {unit}"),
    };
    match leader {
        Some(leader) if leader == unit => {
            format!(
                "{reporter} does not lead by that epoch: its lease has {lease_epoch}, or is over"
            )
        }
        Some(leader) => {
            format!("{reporter} does not lead: {leader} does, with lease epoch {lease_epoch}")
        }
        None => format!("{reporter} does not lead, and no unit does"),
    }
}
