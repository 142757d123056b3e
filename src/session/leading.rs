//! Who leads, as sessions are told of it; and the leader whose session is here: silent for as long
//! as its lease lasts, it leads no longer, though its session goes on.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::{StreamExt, stream};
use tokio::sync::Notify;

use crate::domain::app::Head;
use crate::domain::command::{Claim, Command, Request};
use crate::domain::name::{AppName, UnitName};
use crate::domain::revision::Revision;

use super::entry::Entry;
use super::{Inner, lock};

/// How often leaders are looked at: their clock moves no more often.
const ROUND: Duration = Duration::from_millis(250);
/// Leases that are ended together.
const LAPSES_MAX: usize = 64;
/// Words within a lease: two may be lost.
const HEARTBEATS_PER_LEASE: u32 = 3;

/// What sessions are told of an application.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Leads {
    pub(super) leader: Option<UnitName>,
    /// Of the leader; `None` if that is decided outside, by names alone.
    pub(super) incarnation: Option<u64>,
    pub(super) lease_epoch: u64,
    /// How long it leads without a word.
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

    /// Whether it is the unit of this session that leads, and not an incarnation before it.
    fn is(&self, entry: &Entry) -> bool {
        self.leader.as_ref() == Some(entry.unit())
            && self.incarnation.is_none_or(|incarnation| incarnation == entry.incarnation)
    }
}

/// Something that the worker is to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Word {
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

/// What one session was told, and what there is to tell.
#[derive(Default)]
pub(super) struct News {
    told: Mutex<Told>,
    come: Notify,
}

#[derive(Default)]
struct Told {
    revision: Revision,
    now: Leads,
    leadership: Option<Leads>,
    data_version: u64,
}

impl News {
    /// What the welcome says: who leads, if another does.
    pub(super) fn welcome(&self, entry: &Entry, revision: Revision, leads: &Leads) {
        let mut told = lock(&self.told);
        if !leads.is(entry) {
            told.leadership = Some(Leads { data_version: 0, ..leads.clone() });
        }
        drop(told);
        self.learn(revision, leads);
    }

    /// How things are as of a revision.
    pub(super) fn learn(&self, revision: Revision, leads: &Leads) {
        let mut told = lock(&self.told);
        if told.revision <= revision {
            told.revision = revision;
            told.now = leads.clone();
            self.come.notify_one();
        }
    }

    /// The worker asked: it is told who leads in any case.
    pub(super) fn tell_again(&self) {
        lock(&self.told).leadership = None;
        self.come.notify_one();
    }

    /// Waits until there is something that the worker was not told.
    pub(super) async fn next(&self, entry: &Entry) -> Word {
        loop {
            if let Some(word) = self.take(entry) {
                return word;
            }
            self.come.notified().await;
        }
    }

    fn take(&self, entry: &Entry) -> Option<Word> {
        let mut told = lock(&self.told);
        if told.revision == Revision::default() {
            return None; // not known yet
        }
        let leads = Leads { data_version: 0, ..told.now.clone() };
        if told.leadership.as_ref() != Some(&leads) {
            let is_self = leads.is(entry);
            let lease = leads.lease_duration.filter(|_| is_self);
            let heartbeat = lease.map(|lease| lease / HEARTBEATS_PER_LEASE);
            let (leader, lease_epoch) = (leads.leader.clone(), leads.lease_epoch);
            told.leadership = Some(leads);
            return Some(Word::Leadership { leader, lease_epoch, heartbeat, is_self });
        }
        let version = told.now.data_version;
        if told.data_version != version {
            told.data_version = version;
            return Some(Word::Data { version });
        }
        None
    }
}

/// The leaders whose session is, or was last, here.
#[derive(Default)]
pub(super) struct Leading(Mutex<BTreeMap<AppName, Leader>>);

#[derive(Clone)]
struct Leader {
    entry: Arc<Entry>,
    lease_epoch: u64,
    duration: Duration,
}

impl Leader {
    /// Whether it was silent for too long, by the clock of attention.
    fn is_over(&self, now: Duration) -> bool {
        self.duration <= now.saturating_sub(self.entry.last_heard())
    }
}

impl Inner {
    /// Something that sessions are told has changed.
    pub(super) fn tell_of(&self, app: &AppName, head: &Head) {
        let leads = Leads::of(head);
        for entry in self.table.of(app) {
            entry.news.learn(head.revision, &leads);
        }
        let holder = leads.leader.as_ref().and_then(|leader| self.table.get(app, leader));
        match holder.filter(|entry| leads.is(entry)) {
            Some(entry) => self.leads_here(&entry, &leads),
            None => {
                let mut leading = lock(&self.leading.0);
                // One that is disconnected is still judged, if it is the same lease.
                if leading.get(app).is_some_and(|l| l.lease_epoch != leads.lease_epoch) {
                    leading.remove(app);
                }
            }
        }
    }

    /// A session knows who leads; if it is its own unit, it is listened for.
    pub(super) fn leads_here(&self, entry: &Arc<Entry>, leads: &Leads) {
        if let Some(duration) = leads.lease_duration.filter(|_| leads.is(entry)) {
            let lease_epoch = leads.lease_epoch;
            let leader = Leader { entry: entry.clone(), lease_epoch, duration };
            lock(&self.leading.0).insert(entry.app.clone(), leader);
        }
    }

    /// Ends the leases of those that were silent for too long.
    async fn lapse_leaders(&self) {
        let now = self.attention.now();
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
            return; // the store is away: again in the next round
        }
        // It leads no longer, or elsewhere. Once it is heard it may ask again.
        entry.set_claims(false);
        let mut leading = lock(&self.leading.0);
        let is_same = |l: &Leader| l.lease_epoch == lease_epoch && Arc::ptr_eq(&l.entry, &entry);
        if leading.get(&entry.app).is_some_and(is_same) {
            leading.remove(&entry.app);
        }
    }
}

/// Looks at the leaders until the sessions have ended.
pub(super) async fn run(inner: Arc<Inner>) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(ROUND) => inner.lapse_leaders().await,
            () = inner.stopped.cancelled() => return,
        }
    }
}
