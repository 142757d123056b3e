//! The updates that a session sends to its worker: the leader, and changes of the data.

use std::time::Duration;

use crate::domain::app::Head;
use crate::domain::data::etag;
use crate::domain::name::UnitName;
use crate::domain::revision::Revision;

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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wish {
    /// To lead.
    Lead,
    /// Not to lead, requested under this epoch and after this number of data losses.
    StepBack { lease_epoch: u64, losses: u32 },
}

/// The updates that one session was sent, and those that are pending.
#[derive(Default)]
pub(super) struct News {
    revision: Revision,
    now: Leads,
    losses: u32,
    leadership: Option<Leads>,
    data_version: u64,
    wish: Option<Wish>,
}

impl News {
    /// Records what the welcome contains: the leader, if it is another unit.
    pub(super) fn welcome(&mut self, at: (Revision, u32), leads: &Leads, is_leader: bool) {
        if !is_leader {
            self.leadership = Some(leads.leadership());
        }
        self.learn(at, leads, is_leader);
    }

    /// Records the state of the application as of a revision and a data loss count, and whether the
    /// unit leads.
    pub(super) fn learn(
        &mut self,
        (revision, losses): (Revision, u32),
        leads: &Leads,
        is_leader: bool,
    ) {
        if self.revision <= revision {
            self.revision = revision;
            self.now = leads.clone();
            self.losses = losses;
            if is_leader {
                self.settle_wish();
            }
        }
    }

    /// Records that the unit asks to lead, or to step back.
    pub(super) fn wish(&mut self, to_lead: bool) {
        self.wish = Some(if to_lead { Wish::Lead } else { self.step_back() });
    }

    /// Returns whether the unit asked to lead (`true`) or to step back (`false`); `None` if there
    /// is no request to repeat.
    pub(super) fn wants_to_lead(&self) -> Option<bool> {
        self.wish.map(|wish| wish == Wish::Lead)
    }

    /// Records that the request was repeated: the next data loss may remove it again.
    pub(super) fn sent_again(&mut self) {
        if self.wants_to_lead() == Some(false) {
            self.wish = Some(self.step_back());
        }
    }

    /// Clears the unit's request.
    pub(super) fn wishes_nothing(&mut self) {
        self.wish = None;
    }

    /// Causes a leadership message even without a change, because the worker asked.
    pub(super) fn send_again(&mut self) {
        self.leadership = None;
    }

    /// Returns the next update that the worker was not sent.
    pub(super) fn next<R>(&mut self, is_leader: impl Fn(&Leads) -> bool) -> Option<Outbound<R>> {
        if self.revision == Revision::default() {
            return None; // the state has not arrived yet
        }
        let leads = self.now.leadership();
        if self.leadership.as_ref() != Some(&leads) {
            let is_self = is_leader(&leads);
            let lease = leads.lease_duration.filter(|_| is_self);
            let heartbeat_interval = lease.map(|lease| lease / HEARTBEATS_PER_LEASE);
            let (leader, lease_epoch) = (leads.leader.clone(), leads.lease_epoch);
            self.leadership = Some(leads);
            return Some(Outbound::Leadership { leader, lease_epoch, is_self, heartbeat_interval });
        }
        let version = self.now.data_version;
        if self.data_version != version {
            self.data_version = version;
            return Some(Outbound::DataChanged { etag: etag(version) });
        }
        None
    }

    /// Returns a step back as of the present epoch and loss count.
    fn step_back(&self) -> Wish {
        Wish::StepBack { lease_epoch: self.now.lease_epoch, losses: self.losses }
    }

    /// Called when the unit leads. Clears a step back that is older than the lease if no data loss
    /// happened since: then leadership was given to the unit on purpose.
    fn settle_wish(&mut self) {
        if let Some(Wish::StepBack { lease_epoch, losses }) = self.wish
            && lease_epoch < self.now.lease_epoch
            && losses == self.losses
        {
            self.wish = None;
        }
    }
}
