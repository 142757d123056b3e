//! What can be asked of an application, and why it can be refused.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::app::Mode;
use super::callback::Topic;
use super::data::DataPatch;
use super::fault::{NewError, Resolution};
use super::name::{PartName, UnitName};
use super::operation::order::Order;
use super::operation::refused::Refused;
use super::policy::ConfigPatch;
use super::request::{Fingerprint, Outcome, Remembered, RequestId};
use super::session::{ReplicaId, SessionId};
use super::status::{Kind, Level, Report};
use super::time::Timestamp;

/// A command with the id under which its answer is remembered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Same id: same answer, applied once.
    pub id: Option<RequestId>,
    /// What to do.
    pub command: Command,
}

impl Request {
    /// The answer as it is remembered.
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
    /// Part of the unit.
    pub component: PartName,
    /// Which of several.
    pub key: PartName,
    /// What is said. Shared by all who pass it on.
    pub report: Arc<Report>,
    /// When it was seen, by the reporter's clock.
    pub observe_time: Option<Timestamp>,
}

/// Who speaks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Speaker {
    /// The unit.
    pub unit: UnitName,
    /// Its incarnation, if it says.
    pub incarnation: Option<u64>,
    /// The session it speaks in, if in one. Only the newest may.
    pub session: Option<SessionId>,
}

impl Speaker {
    /// Somebody who speaks outside of any session.
    pub fn new(unit: UnitName, incarnation: Option<u64>) -> Speaker {
        Speaker { unit, incarnation, session: None }
    }
}

/// A unit that begins, or goes on with, an incarnation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Newcomer {
    /// The unit.
    pub unit: UnitName,
    /// The incarnation it goes on with; `None` begins a new one.
    pub incarnation: Option<u64>,
    /// It has a new name each time it is replaced.
    pub stateless: bool,
    /// Words of its own.
    pub labels: BTreeMap<Box<str>, Box<str>>,
}

/// The leader, as it names itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The unit; `""` where leadership is decided outside and nobody leads.
    pub unit: UnitName,
    /// Epoch of its lease.
    pub lease_epoch: u64,
}

/// What can be asked of an application.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Set one status.
    Report(Speaker, Kind, NewStatus),
    /// Set several statuses, or with a refusal none.
    ReportAll(Speaker, Vec<(Kind, NewStatus)>),
    /// Replace the pull set of a unit, or of one of its components. Each (component, key) stands
    /// once.
    Replace(Speaker, Option<PartName>, Vec<NewStatus>),
    /// Remove the statuses that match; `None` matches all.
    Clear {
        /// Who speaks.
        speaker: Speaker,
        /// Of which component.
        component: Option<PartName>,
        /// With which key.
        key: Option<PartName>,
        /// Of which kind.
        kind: Option<Kind>,
    },
    /// Change the configuration. Boxed, so that a report is not moved as something large.
    Configure(Box<ConfigPatch>),
    /// Set the status of the application as a whole.
    SetApplicationStatus(Claim, NewApplicationStatus),
    /// Withdraw it.
    ClearApplicationStatus(Claim),
    /// Remove a unit with its statuses.
    RemoveUnit(UnitName),
    /// Who speaks wants to lead, with a lease of this length or the configured one.
    ClaimLeadership(Speaker, Option<Duration>),
    /// The leader is still there.
    RenewLeadership(Claim),
    /// The leader steps back.
    ReleaseLeadership(Claim),
    /// An operator makes a unit the leader.
    TransferLeadership(UnitName),
    /// A connected leader was silent, in this session, for as long as its lease lasts.
    LapseLeadership(Claim, SessionId),
    /// Who speaks does not want to lead: it leads no longer, nor waits to.
    StepBack(Speaker),
    /// The leader changes the data.
    UpdateData(Claim, DataPatch),
    /// A unit opens a session.
    Connect(Newcomer, SessionId),
    /// A session says again that it is there, after somebody believed it gone.
    Reconnect(Newcomer, SessionId),
    /// A unit begins or goes on without a session; with a time, it promises to be heard that often.
    Register(Newcomer, Option<Duration>),
    /// A session has ended. Nothing happens if the unit holds another by now.
    Disconnect {
        /// The unit.
        unit: UnitName,
        /// Its session.
        session: SessionId,
        /// How long it may take to open another.
        ttl: Duration,
        /// It was silent for as long already.
        silent: bool,
    },
    /// The unit that speaks will not come back.
    Depart {
        /// Who speaks.
        speaker: Speaker,
        /// How long a successor may take before what it leaves behind is without anybody.
        ttl: Duration,
    },
    /// A unit met an error.
    ReportError {
        /// Who speaks.
        speaker: Speaker,
        /// Its component.
        component: PartName,
        /// What was asked or acted on.
        target: Arc<str>,
        /// The error.
        error: Box<NewError>,
    },
    /// What failed works.
    ResolveError {
        /// Who speaks.
        speaker: Speaker,
        /// Its component.
        component: PartName,
        /// What was asked or acted on; `None`: every target.
        target: Option<Arc<str>>,
        /// Which generation of its configuration the work was about; empty if it does not say.
        generation: Box<str>,
    },
    /// An operator lets a component go on.
    ResolveHold {
        /// The unit.
        unit: UnitName,
        /// Its component.
        component: PartName,
        /// How.
        resolution: Resolution,
        /// Why, for the history.
        why: Box<str>,
    },
    /// Promise a unit to be told about something at a time.
    CallBack {
        /// The unit.
        unit: UnitName,
        /// About what.
        topic: Topic,
        /// When.
        at: Timestamp,
        /// The operation it belongs to; `""` if to none.
        operation_id: Box<str>,
    },
    /// Take such a promise back.
    CallOff {
        /// The unit.
        unit: UnitName,
        /// About what.
        topic: Topic,
    },
    /// A replica is gone, and the sessions it held with it.
    Orphan {
        /// The replica.
        replica: ReplicaId,
        /// How long its units may take to connect elsewhere.
        ttl: Duration,
    },
    /// Something asked of an operation.
    Operate(Order),
}

impl Command {
    /// The unit that gives the command, or that an operator gives it about; `""` or nothing for
    /// the application as a whole.
    fn unit(&self) -> Option<&UnitName> {
        match self {
            Command::Report(speaker, ..)
            | Command::ReportAll(speaker, _)
            | Command::Replace(speaker, ..)
            | Command::Clear { speaker, .. }
            | Command::ClaimLeadership(speaker, _)
            | Command::StepBack(speaker)
            | Command::Depart { speaker, .. }
            | Command::ReportError { speaker, .. }
            | Command::ResolveError { speaker, .. } => Some(&speaker.unit),
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

/// What the leader says of the application as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewApplicationStatus {
    /// How it takes part.
    pub mode: Mode,
    /// How well it is.
    pub level: Level,
    /// One line for a person.
    pub message: Box<str>,
    /// Machine-readable cause.
    pub reason: Box<str>,
    /// What a person must do.
    pub action: Box<str>,
    /// How long it stands.
    pub ttl: Option<Duration>,
    /// When it was seen, by the leader's clock.
    pub observe_time: Option<Timestamp>,
}

/// Why a command was refused. Nothing of it was applied, but for what an operation then says of
/// itself, and for [`Rejected::LeaseHeld`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Rejected {
    /// Nothing of that name was reported.
    #[error("application is not known")]
    ApplicationNotFound,
    /// The application has no such unit.
    #[error("unit {unit} is not known")]
    UnitNotFound {
        /// The unit asked for.
        unit: UnitName,
    },
    /// A newer incarnation of the unit has spoken.
    #[error(
        "unit {unit} has been replaced: incarnation {given} is older than {current}; \
         stop reporting, or start again as a new incarnation"
    )]
    StaleIncarnation {
        /// The unit.
        unit: UnitName,
        /// Who spoke.
        given: u64,
        /// Who may speak.
        current: u64,
    },
    /// The incarnation was never given out.
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
    /// The record of the unit has the highest incarnation there is, which an earlier version took
    /// from a report.
    #[error(
        "unit {unit} has the highest incarnation there is, and cannot begin another one; remove \
         the unit, and begin again after 10 minutes"
    )]
    IncarnationsUsedUp {
        /// The unit.
        unit: UnitName,
    },
    /// The unit was removed, and this is from before.
    #[error(
        "unit {unit} has been removed, and incarnation {given} with it; \
         stop reporting, or start again as a new incarnation"
    )]
    UnitRemoved {
        /// The unit.
        unit: UnitName,
        /// Who spoke.
        given: u64,
    },
    /// The id of a request was given to another one before.
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
    #[error("this session of unit {unit} is over; speak in the newest, or connect again")]
    SessionOver {
        /// The unit.
        unit: UnitName,
    },
    /// A bound would be passed.
    #[error("{what} would be more than {max}; remove some first, or raise the limit {limit}")]
    LimitExceeded {
        /// Name of the limit.
        limit: &'static str,
        /// What there would be too many of.
        what: String,
        /// The bound.
        max: usize,
    },
    /// An operation refuses it.
    #[error(transparent)]
    Operation(#[from] Refused),
    /// Somebody else leads; who asked waits in line now.
    #[error(
        "unit {leader} leads, with lease epoch {lease_epoch}; your unit waits in line, stay and \
         ask again"
    )]
    LeaseHeld {
        /// Who leads.
        leader: UnitName,
        /// Epoch of the lease.
        lease_epoch: u64,
        /// When it ends without a renewal; `None`: not before the leader's session does.
        ends: Option<Timestamp>,
    },
    /// Leadership is decided outside.
    #[error(
        "who leads is decided outside, by `external_leader` of the configuration; \
         clear that to elect a leader here"
    )]
    LeaderIsExternal {
        /// Who leads; `""` if nobody does.
        leader: UnitName,
    },
    /// A unit that is lost or has left cannot lead.
    #[error("unit {unit} is lost or has left; transfer to one that is there")]
    UnitNotThere {
        /// The unit.
        unit: UnitName,
    },
    /// The data are not what the change was made for.
    #[error("the data have changed since they were read, their etag is {current}; read them again")]
    EtagMismatch {
        /// The etag as of now.
        current: String,
    },
    /// Something of the data is too large.
    #[error("{what} would be {bytes} bytes; at most {max}")]
    ValueTooLarge {
        /// What.
        what: String,
        /// How large.
        bytes: u64,
        /// The bound.
        max: u64,
    },
    /// The speaker does not lead.
    #[error("{}", not_leader(unit, leader.as_ref(), *lease_epoch))]
    NotLeader {
        /// Who spoke.
        unit: UnitName,
        /// Who leads.
        leader: Option<UnitName>,
        /// Epoch of that lease.
        lease_epoch: u64,
    },
}

fn not_leader(unit: &UnitName, leader: Option<&UnitName>, lease_epoch: u64) -> String {
    let speaker = match unit.as_str() {
        "" => "a speaker without a unit".to_string(),
        unit => format!("unit {unit}"),
    };
    match leader {
        Some(leader) if leader == unit => {
            format!(
                "{speaker} does not lead by that epoch: its lease has {lease_epoch}, or is over"
            )
        }
        Some(leader) => {
            format!("{speaker} does not lead: {leader} does, with lease epoch {lease_epoch}")
        }
        None => format!("{speaker} does not lead, and nobody does"),
    }
}
