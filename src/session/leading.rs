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

    /// What is told of who leads.
    fn leadership(&self) -> Leads {
        Leads { data_version: 0, ..self.clone() }
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

/// What a unit asked for last. Should the store forget that, it is said again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Wish {
    #[default]
    Nothing,
    Lead,
    /// Not to lead, said under this epoch and after so many losses of the store.
    StepBack {
        lease_epoch: u64,
        losses: u32,
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
    losses: u32,
    leadership: Option<Leads>,
    data_version: u64,
    wish: Wish,
}

impl News {
    /// What the welcome says: who leads, if another does.
    pub(super) fn welcome(
        &self,
        entry: &Entry,
        (revision, losses): (Revision, u32),
        leads: &Leads,
    ) {
        let mut told = lock(&self.told);
        if !leads.is(entry) {
            told.leadership = Some(leads.leadership());
        }
        drop(told);
        self.learn(entry, (revision, losses), leads);
    }

    /// How things are as of a revision, and of so many losses of the store.
    pub(super) fn learn(&self, entry: &Entry, (revision, losses): (Revision, u32), leads: &Leads) {
        let mut told = lock(&self.told);
        if told.revision <= revision {
            told.revision = revision;
            told.now = leads.clone();
            told.losses = losses;
            self.come.notify_one();
            if leads.is(entry) {
                told.settle_wish();
            }
        }
    }

    /// Its unit asks to lead, or not to any more.
    pub(super) fn wish(&self, to_lead: bool) {
        let mut told = lock(&self.told);
        told.wish = match to_lead {
            true => Wish::Lead,
            false => told.step_back(),
        };
    }

    /// Whether its unit asked to lead, or not to any more: `None` if neither has to be said again.
    pub(super) fn wants_to_lead(&self) -> Option<bool> {
        match lock(&self.told).wish {
            Wish::Nothing => None,
            Wish::Lead => Some(true),
            Wish::StepBack { .. } => Some(false),
        }
    }

    /// What its unit asked for has been said again, and may be forgotten by the next loss.
    pub(super) fn said_again(&self) {
        let mut told = lock(&self.told);
        if matches!(told.wish, Wish::StepBack { .. }) {
            told.wish = told.step_back();
        }
    }

    /// What its unit asked for is over.
    pub(super) fn wishes_nothing(&self) {
        lock(&self.told).wish = Wish::Nothing;
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
        let leads = told.now.leadership();
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

impl Told {
    /// As things stand now.
    fn step_back(&self) -> Wish {
        Wish::StepBack { lease_epoch: self.now.lease_epoch, losses: self.losses }
    }

    /// Its unit leads. If it had stepped back, and nothing was lost, somebody wanted it to.
    fn settle_wish(&mut self) {
        if let Wish::StepBack { lease_epoch, losses } = self.wish
            && lease_epoch < self.now.lease_epoch
            && losses == self.losses
        {
            self.wish = Wish::Nothing;
        }
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
        let at = (head.revision, self.store.epoch().losses);
        for entry in self.table.of(app) {
            entry.news.learn(&entry, at, &leads);
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
        entry.news.wishes_nothing();
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
