//! The state of one application.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::callback::Callbacks;
use super::data::Data;
use super::derive::Summary;
use super::fault::{FaultKey, Faults};
use super::index::Index;
use super::lease::Lease;
use super::name::{AppName, OperationId, PartName, UnitName};
use super::operation::record::Operations;
use super::operation::words::{OperationStatus, SUCCESS_PRECEDENCE};
use super::policy::Config;
use super::rank::{Origin, Rank};
use super::request::RequestLog;
use super::revision::Revision;
use super::session::{Presence, ReplicaId};
use super::status::{Freshness, Kind, Level, Status, StatusKey};
use super::statuses::Statuses;
use super::time::Timestamp;
use super::usage::Kept;

/// The state of the application as a whole. One record, written with each commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// Number of the last commit that changed something visible.
    pub revision: Revision,
    /// Time of the first report or configuration.
    pub create_time: Timestamp,
    /// Time of the last visible change.
    pub update_time: Timestamp,
    /// The configuration.
    pub config: Config,
    /// The status that the leader set for the application as a whole.
    pub application_status: Option<ApplicationStatus>,
    /// Epoch of the lease; grows at each change of leader.
    pub lease_epoch: u64,
    /// The derived status, kept here so that lists need no other record.
    pub summary: Summary,
    /// The earliest moment at which time alone may change something.
    pub next_due: Option<Timestamp>,
    /// Number of the next event in the history.
    pub next_event: u64,
    /// True after a deletion: only the revision and the records that fence late requests remain.
    pub deleted: bool,
    /// The loss count of the store when this application's units were last marked uncertain.
    #[serde(default)]
    pub losses: u32,
    /// Number of open sessions by the replica that holds the server side.
    #[serde(default)]
    pub sessions: BTreeMap<ReplicaId, u32>,
    /// Number of quiet commits: commits that write records but do not move the revision. A commit
    /// compares this count as it compares the revision, so a replica that has not received a quiet
    /// commit cannot overwrite it.
    #[serde(default)]
    pub quiet_commits: u64,
    /// The status that the latest operation contributes.
    #[serde(default)]
    pub operation: Option<Box<OperationStatus>>,
    /// Number of open faults.
    #[serde(default)]
    pub fault_count: u32,
    /// The lease; `None` if no unit leads or leadership is decided outside.
    #[serde(default)]
    pub lease: Option<Lease>,
    /// Queue number for the next unit that waits to lead.
    #[serde(default)]
    pub next_candidate: u64,
    /// Version and size of the leader's data.
    #[serde(default)]
    pub data: DataHead,
    /// Usage of this application for the limits on all applications together; `None` in a head that
    /// an earlier version wrote.
    #[serde(default)]
    pub kept: Option<Kept>,
}

/// Version and size of an application's data, available without reading the values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct DataHead {
    /// Grows with each change; 0 before the first change.
    pub version: u64,
    /// Number of keys.
    pub keys: u64,
    /// Bytes of all keys and values.
    pub bytes: u64,
}

impl Head {
    /// Returns the head of an unknown application; its next revision follows `revision`.
    pub fn empty(revision: Revision) -> Head {
        Head {
            revision,
            create_time: Timestamp::default(),
            update_time: Timestamp::default(),
            config: Config::default(),
            application_status: None,
            lease_epoch: 0,
            summary: Summary::default(),
            next_due: None,
            next_event: 0,
            deleted: true,
            losses: 0,
            sessions: BTreeMap::new(),
            quiet_commits: 0,
            operation: None,
            fault_count: 0,
            lease: None,
            next_candidate: 0,
            data: DataHead::default(),
            kept: None,
        }
    }

    /// Returns the leading unit, if there is one.
    pub fn leader(&self) -> Option<&UnitName> {
        match &self.config.external_leader {
            Some(outside) => Some(outside).filter(|unit| !unit.is_application()),
            None => self.lease.as_ref().map(|lease| &lease.holder),
        }
    }
}

/// How the status of the whole application takes part in the derivation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mode {
    /// One more contribution, of the unit `""`.
    Contribute,
    /// Overrides every contribution.
    Override,
}

/// The status that the leader sets for the application as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApplicationStatus {
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
    /// When the level began.
    pub since: Timestamp,
    /// When the status expires.
    pub expire_time: Option<Timestamp>,
}

/// The state of a unit beside its statuses.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Unit {
    /// The newest incarnation; 0 if the unit never gave one.
    pub incarnation: u64,
    /// Last contact; the stored value is as of the last other change of the record.
    pub last_seen: Timestamp,
    /// Number of statuses.
    pub status_count: u32,
    /// Number of statuses with a ttl.
    pub ttl_count: u32,
    /// Number of statuses past their ttl.
    pub stale_count: u32,
    /// Since when at least one status is past its ttl.
    pub stale_since: Option<Timestamp>,
    /// When the unit is lost if it does not report before.
    pub silence_ends: Option<Timestamp>,
    /// Since when the unit is lost.
    pub lost_since: Option<Timestamp>,
    /// Since when the unit is uncertain: the store may have lost its last reports.
    #[serde(default)]
    pub uncertain_since: Option<Timestamp>,
    /// How the unit is expected to keep contact.
    #[serde(default)]
    pub presence: Presence,
    /// Since when an expected contact is missing.
    #[serde(default)]
    pub quiet_since: Option<Timestamp>,
    /// Whether the unit gets a new name each time it is replaced.
    #[serde(default)]
    pub stateless: bool,
    /// Labels that the unit gave.
    #[serde(default)]
    pub labels: BTreeMap<Box<str>, Box<str>>,
    /// When the incarnation began.
    #[serde(default)]
    pub began: Timestamp,
    /// Number of statuses pulled from an earlier incarnation: the last known ones until the unit
    /// answers a pull.
    #[serde(default)]
    pub outlived_count: u32,
    /// Whether the unit departed for good while its pushed statuses wait for a successor.
    #[serde(default)]
    pub departed: bool,
    /// When the unit last answered a pull of all its statuses; the stored value is as of the last
    /// other change of the record.
    #[serde(default)]
    pub last_answer: Timestamp,
    /// The callbacks that the unit has requested, with their times.
    #[serde(default)]
    pub callbacks: Callbacks,
    /// Whether the session has ended without a report since.
    #[serde(default)]
    pub session_ended: bool,
    /// Position among the units that wait to lead.
    #[serde(default)]
    pub candidate: Option<u64>,
    /// The stored value of `last_seen`.
    #[serde(skip)]
    pub last_seen_written: Timestamp,
    /// Deadlines of this unit do not fire before this time: the server was unable to receive, or
    /// other replicas may have newer contacts.
    #[serde(skip)]
    pub not_before: Timestamp,
}

impl Unit {
    /// Returns whether the unit broke every promise of contact or repetition, so that `lost_after`
    /// counts from now. A unit with an open session is never overdue: its session detects silence.
    pub(super) fn is_overdue(&self) -> bool {
        match self.presence {
            Presence::Connected(_) => false,
            Presence::Promised(_) => self.quiet_since.is_some(),
            Presence::Unbound => 0 < self.ttl_count && self.stale_count == self.ttl_count,
        }
    }

    /// Returns the freshness of the unit's last reports. Uncertain goes before lost, because the
    /// store may be wrong about the loss of the unit too.
    pub fn freshness(&self) -> Freshness {
        let is_stale =
            self.stale_count != 0 || self.quiet_since.is_some() || self.outlived_count != 0;
        match (self.uncertain_since, self.lost_since) {
            (Some(_), _) => Freshness::Uncertain,
            (None, Some(_)) => Freshness::Lost,
            (None, None) if is_stale => Freshness::Stale,
            (None, None) => Freshness::Fresh,
        }
    }

    /// Returns whether the unit's last reports contribute: the unit is neither lost nor uncertain.
    pub fn is_believed(&self) -> bool {
        self.lost_since.is_none() && self.uncertain_since.is_none()
    }
}

/// A record that time alone may change.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Due {
    /// A status may become stale.
    Status(Arc<StatusKey>),
    /// A unit may be lost.
    Unit(UnitName),
    /// The leader's status may expire.
    ApplicationStatus,
    /// The lease may end.
    Lease,
    /// A flapping status may become calm.
    Calm(Arc<StatusKey>),
    /// An operation's lease may lapse, or its deadline pass.
    Operation(OperationId),
    /// A fault may move to the next stage, or its worker be asked to retry.
    Fault(Arc<FaultKey>),
}

/// The state of one application, with the indexes that make changes cheap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppState {
    /// Name of the application.
    pub name: AppName,
    /// Epoch floor: every new epoch, fence and data version is greater than it. A store whose
    /// masters can replace each other has a different floor for each master; other stores have 0.
    pub epoch_floor: u64,
    pub(super) head: Arc<Head>,
    pub(super) units: BTreeMap<UnitName, Unit>,
    pub(super) statuses: Statuses,
    pub(super) faults: Faults,
    pub(super) data: Data,
    pub(super) requests: RequestLog,
    pub(super) operations: Operations,
    pub(super) index: Index,
    /// Deadlines in order. An entry may be outdated: a repeat moves the status, not its entry here.
    pub(super) due: BTreeSet<(Timestamp, Due)>,
}

impl AppState {
    /// Returns an unknown application; its next revision follows `revision`.
    pub fn empty(name: AppName, revision: Revision) -> AppState {
        AppState {
            name,
            epoch_floor: 0,
            head: Arc::new(Head::empty(revision)),
            units: BTreeMap::new(),
            statuses: Statuses::default(),
            faults: Faults::default(),
            data: Data::new(),
            requests: RequestLog::default(),
            operations: Operations::default(),
            index: Index::default(),
            due: BTreeSet::new(),
        }
    }

    /// Returns the state of the application as a whole.
    pub fn head(&self) -> &Head {
        &self.head
    }

    /// Returns whether the application was reported or configured, and not deleted since.
    pub fn exists(&self) -> bool {
        !self.head.deleted
    }

    /// Returns one unit.
    pub fn unit(&self, name: &UnitName) -> Option<&Unit> {
        self.units.get(name)
    }

    /// Returns the units after `after`, in natural order.
    pub fn units_after(
        &self,
        after: Option<&UnitName>,
    ) -> impl Iterator<Item = (&UnitName, &Unit)> {
        use std::ops::Bound::{Excluded, Unbounded};
        let start = after.map_or(Unbounded, Excluded);
        self.units.range((start, Unbounded))
    }

    /// Returns one status.
    pub fn status(&self, key: &StatusKey) -> Option<&Arc<Status>> {
        self.statuses.get(key)
    }

    /// Returns the statuses from `first` on, by unit, component, key and kind.
    pub fn statuses_from(
        &self,
        first: &StatusKey,
    ) -> impl Iterator<Item = (&Arc<StatusKey>, &Arc<Status>)> {
        self.statuses.from(first)
    }

    /// Returns the statuses of one unit, or of one of its components.
    pub fn statuses_of(
        &self,
        unit: &UnitName,
        component: Option<&PartName>,
    ) -> impl Iterator<Item = (&Arc<StatusKey>, &Arc<Status>)> {
        self.statuses.of(unit, component)
    }

    /// Returns every contribution, the strongest first.
    pub fn ranked(&self) -> impl Iterator<Item = &Rank> {
        self.index.ranked()
    }

    /// Returns the strongest contribution of one unit.
    pub fn strongest_of(&self, unit: &UnitName) -> Option<&Rank> {
        self.index.of_unit(unit).next()
    }

    /// Returns the data that the leader keeps for all units.
    pub fn data(&self) -> &Data {
        &self.data
    }

    /// Returns the number of statuses.
    pub fn status_count(&self) -> usize {
        self.statuses.len()
    }

    /// Returns the earliest moment at which time alone may change something.
    pub fn next_due(&self) -> Option<Timestamp> {
        self.due.first().map(|(at, _)| *at)
    }
}

/// Returns the rank of a status, or `None` if it does not contribute.
pub(super) fn status_rank(
    head: &Head,
    unit: Option<&Unit>,
    key: &Arc<StatusKey>,
    status: &Status,
) -> Option<Rank> {
    let believed = unit.is_none_or(Unit::is_believed);
    let level = status.report.level;
    // Statuses of a lost or uncertain unit contribute only if they are final.
    if !believed && !matches!(level, Level::Error | Level::Terminated) {
        return None;
    }
    Some(Rank {
        precedence: status.report.precedence,
        severity: head.config.policy.severity(level),
        priority: status.report.priority,
        leads: head.leader() == Some(&key.unit),
        key: key.clone(),
        since: status.since,
        origin: Origin::Reported(key.kind),
        level,
        asks: !status.report.action.is_empty(),
        flaps: status.flapping().is_some(),
        fault: None,
    })
}

/// Returns the contribution of a lost or uncertain unit beside its statuses. An uncertain unit is
/// waiting, even if `lost_units` ignores lost ones: it may have changed since the data loss.
pub(super) fn silent_rank(head: &Head, name: &UnitName, unit: &Unit) -> Option<Rank> {
    let (since, level, origin) = match unit.uncertain_since {
        Some(since) => (since, Level::Waiting, Origin::Uncertain),
        None => (unit.lost_since?, head.config.lost_units.level()?, Origin::Lost),
    };
    Some(Rank {
        precedence: 0,
        severity: head.config.policy.severity(level),
        priority: 0,
        leads: head.leader() == Some(name),
        key: Arc::new(StatusKey::first_of(name)),
        since,
        origin,
        level,
        asks: false,
        flaps: false,
        fault: None,
    })
}

/// Returns the contribution of the leader's status, if its mode is contribute.
fn application_rank(head: &Head) -> Option<Rank> {
    let status = head.application_status.as_ref()?;
    if status.mode == Mode::Override {
        return None;
    }
    Some(Rank {
        precedence: 0,
        severity: head.config.policy.severity(status.level),
        priority: 0,
        leads: false,
        key: Arc::new(StatusKey {
            unit: UnitName::application(),
            component: PartName::default(),
            key: PartName::default(),
            kind: Kind::Push,
        }),
        since: status.since,
        origin: Origin::Leader,
        level: status.level,
        asks: !status.action.is_empty(),
        flaps: false,
        fault: None,
    })
}

/// Returns the contribution of the latest operation.
pub(super) fn operation_rank(head: &Head) -> Option<Rank> {
    let status = head.operation.as_ref()?;
    let succeeded = status.level == Level::Active;
    Some(Rank {
        precedence: if succeeded { SUCCESS_PRECEDENCE } else { 0 },
        severity: head.config.policy.severity(status.level),
        priority: 0,
        leads: false,
        key: Arc::new(StatusKey {
            unit: UnitName::application(),
            component: PartName::operation(),
            key: status.id.as_key(),
            kind: Kind::Push,
        }),
        since: status.since,
        origin: Origin::Operation,
        level: status.level,
        asks: !status.action.is_empty(),
        flaps: false,
        fault: None,
    })
}

/// Returns the contributions of the application itself, beside its units.
pub(super) fn own_ranks(head: &Head) -> impl Iterator<Item = Rank> {
    application_rank(head).into_iter().chain(operation_rank(head))
}
