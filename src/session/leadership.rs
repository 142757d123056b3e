//! Leadership within sessions: notifies workers of the leader, and ends the lease of a leader whose
//! worker is silent for the length of the lease although its session is open.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::{StreamExt, stream};
use tokio::sync::Notify;

use crate::domain::app::Head;
use crate::domain::command::{Command, Request};
use crate::domain::leadership::Claim;
use crate::domain::name::{AppName, UnitName};
use crate::domain::revision::Revision;

use super::entry::Entry;
use super::{Inner, lock};

/// How often leaders are checked: the liveness clock advances no more often.
const ROUND: Duration = Duration::from_millis(250);
/// Leases that are ended concurrently.
const LAPSES_MAX: usize = 64;
/// Heartbeats within a lease: two may be lost.
const HEARTBEATS_PER_LEASE: u32 = 3;

/// The part of an application that sessions are notified of.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Leads {
    pub(super) leader: Option<UnitName>,
    /// Incarnation of the leader; `None` if leadership is decided outside, by unit names alone.
    pub(super) incarnation: Option<u64>,
    pub(super) lease_epoch: u64,
    /// How long the leader may be silent.
    pub(super) lease_duration: Option<Duration>,
    pub(super) data_version: u64,
}

impl Leads {
    pub(super) fn of(head: &Head) -> Leads {
        let lease = head.lease.as_ref();
        Leads {
            leader: head.leader().cloned(),
            incarnation: lease.map(|lease| lease.incarnation),
            lease_epoch: head.valid_epoch(),
            lease_duration: lease.map(|lease| lease.duration),
            data_version: head.data.version,
        }
    }

    /// Returns the part that a leadership message shows.
    fn leadership(&self) -> Leads {
        Leads { data_version: 0, ..self.clone() }
    }

    /// Returns whether the leader is the unit of this session in the same incarnation.
    fn is(&self, entry: &Entry) -> bool {
        self.leader.as_ref() == Some(entry.unit())
            && self.incarnation.is_none_or(|incarnation| incarnation == entry.incarnation)
    }
}

/// An update for the worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum LeadershipUpdate {
    Leadership {
        leader: Option<UnitName>,
        lease_epoch: u64,
        heartbeat: Option<Duration>,
        is_self: bool,
    },
    Data {
        version: u64,
    },
}

/// The unit's last leadership request. It is repeated after a data loss of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Wish {
    #[default]
    Nothing,
    Lead,
    /// Not to lead, requested under this epoch and after this number of data losses.
    StepBack {
        lease_epoch: u64,
        losses: u32,
    },
}

/// The updates that one session was sent, and those that are pending.
#[derive(Default)]
pub(super) struct News {
    sent: Mutex<Sent>,
    come: Notify,
}

#[derive(Default)]
struct Sent {
    revision: Revision,
    now: Leads,
    losses: u32,
    leadership: Option<Leads>,
    data_version: u64,
    wish: Wish,
}

impl News {
    /// Records what the welcome contains: the leader, if it is another unit.
    pub(super) fn welcome(
        &self,
        entry: &Entry,
        (revision, losses): (Revision, u32),
        leads: &Leads,
    ) {
        let mut sent = lock(&self.sent);
        if !leads.is(entry) {
            sent.leadership = Some(leads.leadership());
        }
        drop(sent);
        self.learn(entry, (revision, losses), leads);
    }

    /// Records the state of the application as of a revision and a data loss count.
    pub(super) fn learn(&self, entry: &Entry, (revision, losses): (Revision, u32), leads: &Leads) {
        let mut sent = lock(&self.sent);
        if sent.revision <= revision {
            sent.revision = revision;
            sent.now = leads.clone();
            sent.losses = losses;
            self.come.notify_one();
            if leads.is(entry) {
                sent.settle_wish();
            }
        }
    }

    /// Records that the unit asks to lead, or to step back.
    pub(super) fn wish(&self, to_lead: bool) {
        let mut sent = lock(&self.sent);
        sent.wish = match to_lead {
            true => Wish::Lead,
            false => sent.step_back(),
        };
    }

    /// Returns whether the unit asked to lead (`true`) or to step back (`false`); `None` if there
    /// is no request to repeat.
    pub(super) fn wants_to_lead(&self) -> Option<bool> {
        match lock(&self.sent).wish {
            Wish::Nothing => None,
            Wish::Lead => Some(true),
            Wish::StepBack { .. } => Some(false),
        }
    }

    /// Records that the request was repeated: the next data loss may remove it again.
    pub(super) fn sent_again(&self) {
        let mut sent = lock(&self.sent);
        if matches!(sent.wish, Wish::StepBack { .. }) {
            sent.wish = sent.step_back();
        }
    }

    /// Clears the unit's request.
    pub(super) fn wishes_nothing(&self) {
        lock(&self.sent).wish = Wish::Nothing;
    }

    /// Causes a leadership message even without a change, because the worker asked.
    pub(super) fn send_again(&self) {
        lock(&self.sent).leadership = None;
        self.come.notify_one();
    }

    /// Waits for an update that the worker was not sent.
    pub(super) async fn next(&self, entry: &Entry) -> LeadershipUpdate {
        loop {
            if let Some(word) = self.take(entry) {
                return word;
            }
            self.come.notified().await;
        }
    }

    fn take(&self, entry: &Entry) -> Option<LeadershipUpdate> {
        let mut sent = lock(&self.sent);
        if sent.revision == Revision::default() {
            return None; // the state has not arrived yet
        }
        let leads = sent.now.leadership();
        if sent.leadership.as_ref() != Some(&leads) {
            let is_self = leads.is(entry);
            let lease = leads.lease_duration.filter(|_| is_self);
            let heartbeat = lease.map(|lease| lease / HEARTBEATS_PER_LEASE);
            let (leader, lease_epoch) = (leads.leader.clone(), leads.lease_epoch);
            sent.leadership = Some(leads);
            return Some(LeadershipUpdate::Leadership { leader, lease_epoch, heartbeat, is_self });
        }
        let version = sent.now.data_version;
        if sent.data_version != version {
            sent.data_version = version;
            return Some(LeadershipUpdate::Data { version });
        }
        None
    }
}

impl Sent {
    /// Returns a step back as of the present epoch and loss count.
    fn step_back(&self) -> Wish {
        Wish::StepBack { lease_epoch: self.now.lease_epoch, losses: self.losses }
    }

    /// Called when the unit leads. Clears a step back that is older than the lease if no data loss
    /// happened since: then leadership was given to the unit on purpose.
    fn settle_wish(&mut self) {
        if let Wish::StepBack { lease_epoch, losses } = self.wish
            && lease_epoch < self.now.lease_epoch
            && losses == self.losses
        {
            self.wish = Wish::Nothing;
        }
    }
}

/// The leaders whose session is here or was last here.
#[derive(Default)]
pub(super) struct Leading(Mutex<BTreeMap<AppName, Leader>>);

#[derive(Clone)]
struct Leader {
    entry: Arc<Entry>,
    lease_epoch: u64,
    duration: Duration,
}

impl Leader {
    /// Returns whether it was silent for its whole lease, by the liveness clock.
    fn is_over(&self, now: Duration) -> bool {
        self.duration <= now.saturating_sub(self.entry.last_contact())
    }
}

impl Inner {
    /// Notifies the sessions of an application of a change.
    pub(super) fn note_leader(&self, app: &AppName, head: &Head) {
        let leads = Leads::of(head);
        let at = (head.revision, self.store.epoch().losses);
        for entry in self.table.of(app) {
            entry.news.learn(&entry, at, &leads);
        }
        let holder = leads.leader.as_ref().and_then(|leader| self.table.get(app, leader));
        match holder.filter(|entry| leads.is(entry)) {
            Some(entry) => self.leads_here(&entry, &leads),
            None => {
                let mut leading = lock(&self.leading.0);
                // The lease of a disconnected leader is still checked until its epoch changes.
                if leading.get(app).is_some_and(|l| l.lease_epoch != leads.lease_epoch) {
                    leading.remove(app);
                }
            }
        }
    }

    /// Starts the silence check of a new leader if it is the unit of this session.
    pub(super) fn leads_here(&self, entry: &Arc<Entry>, leads: &Leads) {
        if let Some(duration) = leads.lease_duration.filter(|_| leads.is(entry)) {
            let lease_epoch = leads.lease_epoch;
            let leader = Leader { entry: entry.clone(), lease_epoch, duration };
            lock(&self.leading.0).insert(entry.app.clone(), leader);
        }
    }

    /// Ends the leases of leaders that were silent for too long.
    async fn lapse_leaders(&self) {
        let now = self.liveness_clock.now();
        let over: Vec<Leader> =
            lock(&self.leading.0).values().filter(|leader| leader.is_over(now)).cloned().collect();
        stream::iter(over).for_each_concurrent(LAPSES_MAX, |leader| self.lapse(leader)).await;
    }

    async fn lapse(&self, leader: Leader) {
        let Leader { entry, lease_epoch, .. } = leader;
        let claim = Claim { unit: entry.unit().clone(), lease_epoch };
        let command = Command::LapseLeadership(claim, entry.session);
        let request = Request { id: None, command };
        if self.aggregator.apply(&entry.app, request).await.is_err() {
            return; // the store is unavailable: the next round tries again
        }
        // The unit no longer leads, or leads elsewhere. After its next message it may claim again.
        entry.news.wishes_nothing();
        let mut leading = lock(&self.leading.0);
        let is_same = |l: &Leader| l.lease_epoch == lease_epoch && Arc::ptr_eq(&l.entry, &entry);
        if leading.get(&entry.app).is_some_and(is_same) {
            leading.remove(&entry.app);
        }
    }
}

/// Checks the leaders until the sessions have closed.
pub(super) async fn run(inner: Arc<Inner>) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(ROUND) => inner.lapse_leaders().await,
            () = inner.stopped.cancelled() => return,
        }
    }
}
