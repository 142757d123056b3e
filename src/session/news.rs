//! The updates that a session sends to its worker: the leader, and changes of the data.

use std::sync::Mutex;
use std::time::Duration;

use tokio::sync::Notify;

use crate::domain::app::Head;
use crate::domain::data::etag;
use crate::domain::name::UnitName;
use crate::domain::revision::Revision;
use crate::sync::lock;

use super::found;
use super::message::Outbound;

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
pub(super) struct News {
    unit: UnitName,
    incarnation: u64,
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
    pub(super) fn new(unit: UnitName, incarnation: u64) -> News {
        News { unit, incarnation, sent: Mutex::default(), come: Notify::new() }
    }

    /// Records what the welcome contains: the leader, if it is another unit.
    pub(super) fn welcome(&self, at: (Revision, u32), leads: &Leads) {
        if !self.is_leader(leads) {
            lock(&self.sent).leadership = Some(leads.leadership());
        }
        self.learn(at, leads);
    }

    /// Returns whether the unit leads, in the incarnation of the session.
    pub(super) fn is_leader(&self, leads: &Leads) -> bool {
        leads.leader.as_ref() == Some(&self.unit)
            && leads.incarnation.is_none_or(|incarnation| incarnation == self.incarnation)
    }

    /// Records the state of the application as of a revision and a data loss count.
    pub(super) fn learn(&self, (revision, losses): (Revision, u32), leads: &Leads) {
        let mut sent = lock(&self.sent);
        if sent.revision <= revision {
            sent.revision = revision;
            sent.now = leads.clone();
            sent.losses = losses;
            self.come.notify_one();
            if self.is_leader(leads) {
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
    pub(super) async fn next<R>(&self) -> Outbound<R> {
        found(&self.come, || self.take()).await
    }

    fn take<R>(&self) -> Option<Outbound<R>> {
        let mut sent = lock(&self.sent);
        if sent.revision == Revision::default() {
            return None; // the state has not arrived yet
        }
        let leads = sent.now.leadership();
        if sent.leadership.as_ref() != Some(&leads) {
            let is_self = self.is_leader(&leads);
            let lease = leads.lease_duration.filter(|_| is_self);
            let heartbeat_interval = lease.map(|lease| lease / HEARTBEATS_PER_LEASE);
            let (leader, lease_epoch) = (leads.leader.clone(), leads.lease_epoch);
            sent.leadership = Some(leads);
            return Some(Outbound::Leadership { leader, lease_epoch, is_self, heartbeat_interval });
        }
        let version = sent.now.data_version;
        if sent.data_version != version {
            sent.data_version = version;
            return Some(Outbound::DataChanged { etag: etag(version) });
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
