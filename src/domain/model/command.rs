//! Commands on an application.

use std::sync::Arc;
use std::time::Duration;

use crate::domain::model::data::DataPatch;
use crate::domain::model::fault::{NewError, Resolution};
use crate::domain::model::leadership::Claim;
use crate::domain::model::leadership::status::NewApplicationStatus;
use crate::domain::model::mark::{MarkId, NewMark};
use crate::domain::model::name::{PartName, UnitName};
use crate::domain::model::operation::command::OperationCommand;
use crate::domain::model::policy::ConfigPatch;
use crate::domain::model::request::RequestId;
use crate::domain::model::revision::Revision;
use crate::domain::model::status::report::Report;
use crate::domain::model::status::{KeyParts, Kind};
use crate::domain::model::time::Timestamp;
use crate::domain::model::unit::presence::{ReplicaId, SessionId};
use crate::domain::model::unit::{Newcomer, Reporter, Topic};

/// A command with the id under which its answer is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The id: a repeat with the same id gets the same answer and is applied once.
    pub id: Option<RequestId>,
    /// The command.
    pub command: Command,
}

/// A command on an application.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Sets one status.
    Report(Reporter, Kind, NewStatus),
    /// Sets several statuses, or none if the command is rejected.
    ReportAll(Reporter, Vec<(Kind, NewStatus)>),
    /// The stored pull set of a unit, or of one of its components, is still the current one.
    Confirm(Reporter, Option<PartName>),
    /// The worker of the sending unit is about to stop.
    AnnounceStop(Reporter),
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
    /// Replaces the set of statuses that the leader keeps for the application, or of one component
    /// of the set. Each (component, key) occurs once.
    ReplaceApplicationStatuses(Claim, Option<PartName>, Vec<NewStatus>),
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
    /// A session, opened at this revision, confirms that it is still open, after another replica
    /// treated it as closed or the store may have lost it.
    Reconnect(Newcomer, SessionId, Revision),
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
        /// Its component; `None`: every component.
        component: Option<PartName>,
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
    AddCallback {
        /// The unit.
        unit: UnitName,
        /// The topic.
        topic: Topic,
        /// When the worker is notified.
        at: Timestamp,
        /// The operation of the callback; `""` if there is none.
        operation_id: Box<str>,
    },
    /// Requests a callback for the sending unit, or cancels it.
    RequestCallback {
        /// The sender.
        reporter: Reporter,
        /// The topic, with a key.
        topic: Topic,
        /// The time until the callback is due; `None` cancels it.
        after: Option<Duration>,
        /// The reason, for people; at most 253 bytes.
        reason: Box<str>,
    },
    /// Cancels a callback.
    CancelCallback {
        /// The unit.
        unit: UnitName,
        /// The topic.
        topic: Topic,
    },
    /// Ends the sessions of a replica that is gone.
    EndSessions {
        /// The replica.
        replica: ReplicaId,
        /// Time that its units have to connect elsewhere.
        ttl: Duration,
    },
    /// A command on an operation.
    Operate(OperationCommand),
    /// An operator sets a mark. Boxed to keep `Command` small for reports.
    SetMark(Box<NewMark>),
    /// An operator removes a mark.
    RemoveMark(MarkId),
}

impl Command {
    /// Returns the unit that sends the command, or that an operator's command is about; `""` or
    /// `None` for the application as a whole.
    pub(in crate::domain) fn unit(&self) -> Option<&UnitName> {
        match self {
            Command::Report(reporter, ..)
            | Command::ReportAll(reporter, _)
            | Command::Replace(reporter, ..)
            | Command::Confirm(reporter, _)
            | Command::AnnounceStop(reporter)
            | Command::Clear { reporter, .. }
            | Command::ClaimLeadership(reporter, _)
            | Command::StepBack(reporter)
            | Command::Depart { reporter, .. }
            | Command::RequestCallback { reporter, .. }
            | Command::ReportError { reporter, .. }
            | Command::ResolveError { reporter, .. } => Some(&reporter.unit),
            Command::SetApplicationStatus(claim, _)
            | Command::ReplaceApplicationStatuses(claim, ..)
            | Command::ClearApplicationStatus(claim)
            | Command::RenewLeadership(claim)
            | Command::ReleaseLeadership(claim)
            | Command::LapseLeadership(claim, _)
            | Command::UpdateData(claim, _) => Some(&claim.unit),
            Command::Connect(who, _) | Command::Reconnect(who, ..) | Command::Register(who, _) => {
                Some(&who.unit)
            }
            Command::Disconnect { unit, .. }
            | Command::ResolveHold { unit, .. }
            | Command::AddCallback { unit, .. }
            | Command::CancelCallback { unit, .. }
            | Command::RemoveUnit(unit)
            | Command::TransferLeadership(unit) => Some(unit),
            Command::Operate(command) => Some(&command.by),
            Command::SetMark(new) => Some(&new.cover.unit),
            Command::Configure(_) | Command::EndSessions { .. } | Command::RemoveMark(_) => None,
        }
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

impl NewStatus {
    pub(in crate::domain) fn key_of<'k>(&'k self, unit: &'k UnitName, kind: Kind) -> KeyParts<'k> {
        KeyParts::new(unit, &self.component, &self.key, kind)
    }
}
