//! The state of one application.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize};

use crate::domain::model::data::{Data, DataHead};
use crate::domain::model::deadline::Deadlines;
use crate::domain::model::fault::open::OpenFaults;
use crate::domain::model::fault::relapse::Relapses;
use crate::domain::model::fault::set::Faults;
use crate::domain::model::fault::{Fault, FaultKey};
use crate::domain::model::index::Index;
use crate::domain::model::leadership::Lease;
use crate::domain::model::leadership::status::ApplicationStatus;
use crate::domain::model::mark::MarkId;
use crate::domain::model::mark::head::MarkSummary;
use crate::domain::model::mark::set::Marks;
use crate::domain::model::name::{AppName, OperationId, PartName, UnitName};
use crate::domain::model::operation::set::{Operations, Pending};
use crate::domain::model::operation::words::OperationStatus;
use crate::domain::model::outage::Outages;
use crate::domain::model::policy::Config;
use crate::domain::model::rank::Rank;
use crate::domain::model::request::log::{AnswerExpiry, RequestLog};
use crate::domain::model::revision::Revision;
use crate::domain::model::stated::StatedNeeds;
use crate::domain::model::stated::index::NeedIndex;
use crate::domain::model::status::set::Statuses;
use crate::domain::model::status::{Status, StatusKey};
use crate::domain::model::summary::Summary;
use crate::domain::model::time::Timestamp;
use crate::domain::model::unit::Unit;
use crate::domain::model::unit::presence::ReplicaId;
use crate::domain::model::usage::{StoredCounts, Usage};

/// The state of the application as a whole. One record, written with each commit.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Head {
    /// Number of the last commit that changed something visible.
    pub revision: Revision,
    /// Time of the first report or configuration.
    pub create_time: Timestamp,
    /// Time of the last visible change.
    pub update_time: Timestamp,
    /// The configuration. Shared, like the summary: a draft starts with a copy of the head, and a
    /// commit changes the one rarely and replaces the other as a whole.
    #[serde(deserialize_with = "shared_config")]
    pub config: Arc<Config>,
    /// The status that the leader set for the application as a whole.
    pub application_status: Option<ApplicationStatus>,
    /// Epoch of the lease; grows with each grant.
    pub lease_epoch: u64,
    /// The derived status, kept here so that lists need no other record.
    pub summary: Arc<Summary>,
    /// The earliest moment at which time alone may change something.
    pub next_due: Option<Timestamp>,
    /// Number of the next event in the history.
    pub next_event: u64,
    /// True for an unknown or a deleted application. After a deletion remain: the counts that must
    /// not go back, the usage, and the records that fence late requests.
    pub deleted: bool,
    /// The loss count of the store when this application's units were last marked uncertain.
    #[serde(default)]
    pub losses: u32,
    /// Number of open sessions by the replica that holds the server side.
    #[serde(default)]
    pub sessions: BTreeMap<ReplicaId, u32>,
    /// Number of the quiet commits that write damped statuses or operations. Written repeats and
    /// contacts are not counted. A commit compares this count as it compares the revision, so a
    /// replica that has not received a counted quiet commit cannot overwrite it.
    #[serde(default)]
    pub quiet_commits: u64,
    /// The status that the latest operation contributes.
    #[serde(default)]
    pub operation: Option<Box<OperationStatus>>,
    /// The open faults in short.
    #[serde(default)]
    pub open_faults: OpenFaults,
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
    pub counts: Option<StoredCounts>,
    /// Number of the events that are the application's own, among all that `next_event` counts.
    /// Those of earlier versions are not counted here.
    #[serde(default)]
    pub own_events: u64,
    /// When the application is deleted unless something is reported before: it has no unit and
    /// nothing else to keep.
    #[serde(default)]
    pub abandoned_until: Option<Timestamp>,
    /// What fresh contributions need; `None` if nothing, unless there are marks. Not written then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needs: Option<Arc<StatedNeeds>>,
    /// What the marks say; `None` if there is none. Not written then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub marks: Option<Arc<MarkSummary>>,
}

fn shared_config<'de, D: Deserializer<'de>>(from: D) -> Result<Arc<Config>, D::Error> {
    Config::deserialize(from).map(Config::shared)
}

impl Head {
    /// Returns the head of an unknown application; its next revision follows `revision`.
    pub fn empty(revision: Revision) -> Head {
        Head { revision, config: Config::default().shared(), deleted: true, ..Head::default() }
    }

    /// Returns the head of an unknown application in a store whose pruned tombstones had at most
    /// this revision. No count of theirs had risen further.
    pub fn unknown(floor: Revision) -> Head {
        let data = DataHead { counts_above: floor.0, ..DataHead::default() };
        Head { data, ..Head::empty(floor) }
    }

    /// Returns whether contributions have another order under `other`.
    pub(in crate::domain) fn ranks_otherwise(&self, other: &Head) -> bool {
        let (own, others) = (&self.config, &other.config);
        let is_configured_otherwise = !Arc::ptr_eq(own, others)
            && (own.policy != others.policy || own.lost_units != others.lost_units);
        is_configured_otherwise || self.leader() != other.leader()
    }

    /// Returns the leading unit, if there is one.
    pub fn leader(&self) -> Option<&UnitName> {
        match &self.config.external_leader {
            Some(outside) => Some(outside).filter(|unit| !unit.is_application()),
            None => self.lease.as_ref().map(|lease| &lease.holder),
        }
    }

    /// Returns the epoch of the current lease: 0 if leadership is decided outside.
    pub fn valid_epoch(&self) -> u64 {
        match self.config.external_leader {
            Some(_) => 0,
            None => self.lease_epoch,
        }
    }

    /// Returns the usage of the application. A head of an earlier version gives only the counts
    /// that it has; the next commit adds the others.
    pub fn usage(&self) -> Usage {
        let totals = &self.summary.totals;
        let contributions = totals.contributions.iter().copied().map(u64::from).sum();
        let uncounted = StoredCounts { statuses: contributions, ..StoredCounts::default() };
        let counts = self.counts.unwrap_or(uncounted);
        Usage {
            units: totals.units.into(),
            statuses: counts.statuses,
            faults: self.open_faults.count.into(),
            operations: counts.operations,
            marks: self.marks.as_ref().map_or(0, |marks| marks.count).into(),
            data_bytes: self.data.bytes,
            record_bytes: counts.record_bytes,
            history_bytes: counts.history_bytes,
        }
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
    /// A mark may begin or end.
    Mark(MarkId),
    /// A fault may move to the next stage, or its worker be asked to retry.
    Fault(Arc<FaultKey>),
    /// The application may be deleted, because it has had no unit for long.
    Abandoned,
}

/// The state of one application, with the indexes that make changes cheap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppState {
    /// Name of the application.
    pub name: AppName,
    /// Epoch floor: every new epoch, fence and data version is greater than it. A store whose
    /// masters can replace each other has a different floor for each master; other stores have 0.
    pub epoch_floor: u64,
    pub(in crate::domain) outages: Arc<Outages>,
    pub(in crate::domain) head: Arc<Head>,
    /// Boxed, because a node of the tree has room for eleven: most applications have few units.
    pub(in crate::domain) units: BTreeMap<UnitName, Box<Unit>>,
    pub(in crate::domain) statuses: Statuses,
    pub(in crate::domain) faults: Faults,
    pub(in crate::domain) relapses: Relapses,
    pub(in crate::domain) data: Data,
    pub(in crate::domain) requests: RequestLog,
    pub(in crate::domain) operations: Operations,
    pub(in crate::domain) index: Index,
    pub(in crate::domain) needs: NeedIndex,
    pub(in crate::domain) marks: Marks,
    /// Deadlines in order. An entry may be outdated: a repeat moves the status, not its entry here.
    pub(in crate::domain) due: BTreeSet<(Timestamp, Due)>,
}

impl AppState {
    /// Returns an unknown application; its next revision follows `revision`.
    pub fn empty(name: AppName, revision: Revision) -> AppState {
        AppState {
            name,
            epoch_floor: 0,
            outages: Arc::default(),
            head: Arc::new(Head::unknown(revision)),
            units: BTreeMap::new(),
            statuses: Statuses::default(),
            faults: Faults::default(),
            relapses: Relapses::default(),
            data: Data::new(),
            requests: RequestLog::default(),
            operations: Operations::default(),
            index: Index::default(),
            needs: NeedIndex::default(),
            marks: Marks::default(),
            due: BTreeSet::new(),
        }
    }

    /// Returns the state of the application as a whole.
    pub fn head(&self) -> &Head {
        &self.head
    }

    /// Returns the configuration in the answer to a request; `None` if the request is not known, or
    /// changed no configuration.
    pub fn answered_config(&self, request_id: &str) -> Option<&Config> {
        self.requests.get(request_id)?.config.as_deref()
    }

    /// Returns whether the application was reported or configured, and not deleted since.
    pub fn exists(&self) -> bool {
        !self.head.deleted
    }

    /// Returns whether the application has had no unit, and nothing else to keep, for so long that
    /// it is deleted.
    pub fn is_abandoned(&self, now: Timestamp) -> bool {
        self.exists() && self.head.abandoned_until.is_some_and(|until| until <= now)
    }

    /// Returns one unit.
    pub fn unit(&self, name: &UnitName) -> Option<&Unit> {
        self.units.get(name).map(|unit| &**unit)
    }

    /// Returns the units after `after`, in natural order.
    pub fn units_after(
        &self,
        after: Option<&UnitName>,
    ) -> impl Iterator<Item = (&UnitName, &Unit)> {
        use std::ops::Bound::{Excluded, Unbounded};
        let start = after.map_or(Unbounded, Excluded);
        self.units.range((start, Unbounded)).map(|(name, unit)| (name, &**unit))
    }

    /// Returns one status.
    pub fn status(&self, key: &StatusKey) -> Option<&Arc<Status>> {
        self.statuses.get(key)
    }

    /// Returns the statuses.
    pub fn statuses(&self) -> &Statuses {
        &self.statuses
    }

    /// Returns every contribution, the strongest first.
    pub fn ranked(&self) -> impl Iterator<Item = &Rank> {
        self.index.ranked()
    }

    /// Returns the strongest contribution of one unit.
    pub fn strongest_of(&self, unit: &UnitName) -> Option<&Rank> {
        self.index.of_unit(unit).next()
    }

    /// Returns the records with needs, and who states them.
    pub fn needs(&self) -> &NeedIndex {
        &self.needs
    }

    /// Returns the marks.
    pub fn marks(&self) -> &Marks {
        &self.marks
    }

    /// Returns the data that the leader keeps for all units.
    pub fn data(&self) -> &Data {
        &self.data
    }

    /// Returns the number of statuses.
    pub fn status_count(&self) -> usize {
        self.statuses.len()
    }

    /// Returns the deadlines, with the outages known here.
    pub fn deadlines(&self) -> Deadlines<'_> {
        Deadlines { outages: &self.outages, config: &self.head.config }
    }

    /// Returns the expiry of answers, with the outages known here, which are all up to `judged`.
    pub(in crate::domain) fn answer_expiry(&self, judged: Timestamp) -> AnswerExpiry<'_> {
        AnswerExpiry { judged, outages: &self.outages }
    }

    /// Returns the deadlines with these outages, which may be newer than those known here.
    pub fn deadlines_after<'a>(&'a self, outages: &'a Outages) -> Deadlines<'a> {
        Deadlines { outages, config: &self.head.config }
    }

    /// Returns the earliest moment at which time alone may change something.
    pub fn next_due(&self) -> Option<Timestamp> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Returns whether a deadline may be later in memory than in the store, or be there alone.
    pub fn has_deadline_in_memory(&self) -> bool {
        self.due.iter().any(|(_, due)| *due != Due::Abandoned)
    }

    /// Returns the operations: the open one and the finished ones.
    pub fn operations(&self) -> &Operations {
        &self.operations
    }

    /// Returns the open operations for a unit that begins, its own one and that of the application,
    /// with the ends of their leases that are in force.
    pub fn pending_operations(&self, unit: &UnitName) -> Vec<Pending> {
        let mut pending = self.operations.pending(unit);
        for one in &mut pending {
            one.operation = Arc::new(self.deadlines().shown(&one.operation));
        }
        pending
    }

    /// Returns the open faults.
    pub fn faults(&self) -> &Faults {
        &self.faults
    }

    /// Returns the held components of a unit, each with the fault that has held it longest.
    pub fn holds_of<'a>(
        &'a self,
        unit: &'a UnitName,
    ) -> BTreeMap<&'a PartName, (&'a FaultKey, &'a Fault)> {
        let mut holds: BTreeMap<&PartName, (&FaultKey, &Fault)> = BTreeMap::new();
        for (key, fault) in self.faults.of(unit, None).filter(|(_, f)| f.held_since.is_some()) {
            let hold = holds.entry(&key.component).or_insert((key, fault));
            if fault.held_since < hold.1.held_since {
                *hold = (key, fault);
            }
        }
        holds
    }

    /// Computes the counts that a head of an earlier version does not have, from all records.
    pub fn recount(&self) -> StoredCounts {
        let statuses = self.statuses.iter().map(|(_, status)| status.report.size());
        let faults = self.faults.iter().map(|(_, fault)| fault.size());
        let operations = self.operations.iter().map(|(_, operation)| operation.size());
        let payloads = self.operations.payloads().map(|(_, payload)| payload.len() as u64);
        let marks = self.marks.iter().map(|(_, mark)| mark.size());
        StoredCounts {
            statuses: self.statuses.len() as u64,
            operations: self.operations.iter().count() as u64,
            record_bytes: statuses
                .chain(faults)
                .chain(operations)
                .chain(payloads)
                .chain(marks)
                .sum(),
            history_bytes: self.head.counts.map_or(0, |counts| counts.history_bytes),
        }
    }

    /// Adds the counts to the head of an existing application that has none: an earlier version,
    /// which may share the store, writes heads without them.
    pub(in crate::domain) fn add_missing_counts(&mut self) {
        if self.head.counts.is_none() && !self.head.deleted {
            let counts = self.recount();
            Arc::make_mut(&mut self.head).counts = Some(counts);
        }
    }
}
