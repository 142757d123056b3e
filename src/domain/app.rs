//! All that is known of one application.

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

/// What is known of the application as a whole. One record, written with each commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// Commits so far.
    pub revision: Revision,
    /// When it was first reported.
    pub create_time: Timestamp,
    /// When it last changed.
    pub update_time: Timestamp,
    /// Its configuration.
    pub config: Config,
    /// What its leader says of it as a whole.
    pub application_status: Option<ApplicationStatus>,
    /// Grows at each change of leader.
    pub lease_epoch: u64,
    /// The status derived, so that lists need nothing else.
    pub summary: Summary,
    /// The earliest moment at which time alone may change something.
    pub next_due: Option<Timestamp>,
    /// Number of the next event in its history.
    pub next_event: u64,
    /// Nothing but the revision is left of it.
    pub deleted: bool,
    /// How often the store had lost writes when its units were last made uncertain for it.
    #[serde(default)]
    pub losses: u32,
    /// Units that hold a session, by the replica that holds the other end.
    #[serde(default)]
    pub sessions: BTreeMap<ReplicaId, u32>,
    /// Commits that moved no revision and wrote what is held back. A commit is decided on them as
    /// on the revision, so that another replica that was told of none of them does not undo them.
    #[serde(default)]
    pub quiet_commits: u64,
    /// What the operation says of it that was last to be done.
    #[serde(default)]
    pub operation: Option<Box<OperationStatus>>,
    /// Faults that are open.
    #[serde(default)]
    pub fault_count: u32,
    /// Who leads, unless that is decided outside.
    #[serde(default)]
    pub lease: Option<Lease>,
    /// Number of the next unit that waits to lead.
    #[serde(default)]
    pub next_candidate: u64,
    /// What there is of the leader's data.
    #[serde(default)]
    pub data: DataHead,
    /// Counts for the bounds on all applications together; `None` in a head that an earlier version
    /// wrote.
    #[serde(default)]
    pub kept: Option<Kept>,
}

/// What is known of the data of an application without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct DataHead {
    /// Moves with each change, and only up; 0 if there was none.
    pub version: u64,
    /// How many keys it has.
    pub keys: u64,
    /// Bytes of all keys and values.
    pub bytes: u64,
}

impl Head {
    /// An application of which nothing is known yet, that goes on counting from `revision`.
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

    /// The leading unit, if somebody leads.
    pub fn leader(&self) -> Option<&UnitName> {
        match &self.config.external_leader {
            Some(outside) => Some(outside).filter(|unit| !unit.is_application()),
            None => self.lease.as_ref().map(|lease| &lease.holder),
        }
    }
}

/// How a status of the whole application takes part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mode {
    /// One more contribution, of unit `""`.
    Contribute,
    /// Wins outright.
    Override,
}

/// What the leader says of the application as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApplicationStatus {
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
    /// When the level began.
    pub since: Timestamp,
    /// When it ends by itself.
    pub expire_time: Option<Timestamp>,
}

/// What is known of a unit beside its statuses.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Unit {
    /// Its newest incarnation; 0 if it never gave one.
    pub incarnation: u64,
    /// When it was last heard; in the store only as of the last other change.
    pub last_seen: Timestamp,
    /// Statuses kept.
    pub status_count: u32,
    /// Of these, with a ttl.
    pub ttl_count: u32,
    /// Of these, past it.
    pub stale_count: u32,
    /// Since when there is one past its ttl.
    pub stale_since: Option<Timestamp>,
    /// When it is lost if it says nothing until then.
    pub silence_ends: Option<Timestamp>,
    /// Since when it is lost.
    pub lost_since: Option<Timestamp>,
    /// Since when the store may have lost what it said last.
    #[serde(default)]
    pub uncertain_since: Option<Timestamp>,
    /// How it is expected to be heard.
    #[serde(default)]
    pub presence: Presence,
    /// Since when it has not been heard although it should.
    #[serde(default)]
    pub quiet_since: Option<Timestamp>,
    /// It has a new name each time it is replaced.
    #[serde(default)]
    pub stateless: bool,
    /// Words of its own.
    #[serde(default)]
    pub labels: BTreeMap<Box<str>, Box<str>>,
    /// When its incarnation began.
    #[serde(default)]
    pub began: Timestamp,
    /// Of its statuses, pulled by an incarnation before this one: the last known, until it answers.
    #[serde(default)]
    pub outlived_count: u32,
    /// It has left for good, and what it pushed waits for a successor.
    #[serde(default)]
    pub departed: bool,
    /// When it last said all there is to pull; in the store only as of the last other change.
    #[serde(default)]
    pub last_answer: Timestamp,
    /// What it was promised to be told, and when.
    #[serde(default)]
    pub callbacks: Callbacks,
    /// Its session has ended, and it has said nothing since.
    #[serde(default)]
    pub session_ended: bool,
    /// Its place among those that wait to lead.
    #[serde(default)]
    pub candidate: Option<u64>,
    /// `last_seen` as the store has it.
    #[serde(skip)]
    pub last_seen_written: Timestamp,
    /// A promise is not judged before this: the server could not listen, or others may know more.
    #[serde(skip)]
    pub not_before: Timestamp,
}

impl Unit {
    /// Whether it promised to be heard, or to repeat something, and kept none of these promises:
    /// what is left is to wait for a word. One that holds a session is heard there.
    pub(super) fn is_overdue(&self) -> bool {
        match self.presence {
            Presence::Connected(_) => false,
            Presence::Promised(_) => self.quiet_since.is_some(),
            Presence::Unbound => 0 < self.ttl_count && self.stale_count == self.ttl_count,
        }
    }

    /// How much of what it last said can still be believed. That a unit is lost may be what the
    /// store no longer has right, so doubt comes first.
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

    /// Whether what it last said contributes: it is neither lost nor uncertain.
    pub fn is_believed(&self) -> bool {
        self.lost_since.is_none() && self.uncertain_since.is_none()
    }
}

/// What time alone may change, and when to look.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Due {
    /// A status may go stale.
    Status(Arc<StatusKey>),
    /// A unit may be lost.
    Unit(UnitName),
    /// The leader's status may end.
    ApplicationStatus,
    /// The lease may end.
    Lease,
    /// A flapping status may be calm.
    Calm(Arc<StatusKey>),
    /// A lease may lapse, or a deadline pass.
    Operation(OperationId),
    /// A fault may go further, or its worker be asked.
    Fault(Arc<FaultKey>),
}

/// All that is known of one application, with the index that makes it cheap to change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppState {
    /// Which application.
    pub name: AppName,
    /// Epochs, fences and versions of the data go on above this number. A store with masters that
    /// replace each other has another number for each of them; others have 0.
    pub counts_above: u64,
    pub(super) head: Arc<Head>,
    pub(super) units: BTreeMap<UnitName, Unit>,
    pub(super) statuses: Statuses,
    pub(super) faults: Faults,
    pub(super) data: Data,
    pub(super) requests: RequestLog,
    pub(super) operations: Operations,
    pub(super) index: Index,
    /// May name what is no longer due: a repeat moves the status, not its entry here.
    pub(super) due: BTreeSet<(Timestamp, Due)>,
}

impl AppState {
    /// An application of which nothing is known yet, that goes on counting from `revision`.
    pub fn empty(name: AppName, revision: Revision) -> AppState {
        AppState {
            name,
            counts_above: 0,
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

    /// What is known of it as a whole.
    pub fn head(&self) -> &Head {
        &self.head
    }

    /// Whether it is there: reported or configured, and not deleted since.
    pub fn exists(&self) -> bool {
        !self.head.deleted
    }

    /// One unit.
    pub fn unit(&self, name: &UnitName) -> Option<&Unit> {
        self.units.get(name)
    }

    /// The units after `after`, in natural order.
    pub fn units_after(
        &self,
        after: Option<&UnitName>,
    ) -> impl Iterator<Item = (&UnitName, &Unit)> {
        use std::ops::Bound::{Excluded, Unbounded};
        let start = after.map_or(Unbounded, Excluded);
        self.units.range((start, Unbounded))
    }

    /// One status.
    pub fn status(&self, key: &StatusKey) -> Option<&Arc<Status>> {
        self.statuses.get(key)
    }

    /// The statuses from `first` on, by unit, component, key and kind.
    pub fn statuses_from(
        &self,
        first: &StatusKey,
    ) -> impl Iterator<Item = (&Arc<StatusKey>, &Arc<Status>)> {
        self.statuses.from(first)
    }

    /// The statuses of one unit, or of one of its components.
    pub fn statuses_of(
        &self,
        unit: &UnitName,
        component: Option<&PartName>,
    ) -> impl Iterator<Item = (&Arc<StatusKey>, &Arc<Status>)> {
        self.statuses.of(unit, component)
    }

    /// Every contribution, the strongest first.
    pub fn ranked(&self) -> impl Iterator<Item = &Rank> {
        self.index.ranked()
    }

    /// The strongest contribution of one unit.
    pub fn strongest_of(&self, unit: &UnitName) -> Option<&Rank> {
        self.index.of_unit(unit).next()
    }

    /// What its leader keeps for all units.
    pub fn data(&self) -> &Data {
        &self.data
    }

    /// How many statuses are kept.
    pub fn status_count(&self) -> usize {
        self.statuses.len()
    }

    /// The earliest moment at which time alone may change something.
    pub fn next_due(&self) -> Option<Timestamp> {
        self.due.first().map(|(at, _)| *at)
    }
}

/// Where the ranks of an application come from: its head, with what is kept of each unit.
pub(super) fn status_rank(
    head: &Head,
    unit: Option<&Unit>,
    key: &Arc<StatusKey>,
    status: &Status,
) -> Option<Rank> {
    let believed = unit.is_none_or(Unit::is_believed);
    let level = status.report.level;
    // What such a unit last said is no longer believed, except what ends the matter.
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

/// What a unit that is not believed contributes beside its statuses. An uncertain one waits,
/// however little a lost one counts: what was active before the loss may not be now.
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

/// What the leader's status contributes with mode contribute.
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

/// What the operation contributes that was last to be done.
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

/// What the application as a whole contributes beside its units.
pub(super) fn own_ranks(head: &Head) -> impl Iterator<Item = Rank> {
    application_rank(head).into_iter().chain(operation_rank(head))
}
