//! Leadership within sessions: notifies the sessions of the leader, and ends the lease of a leader
//! whose worker is silent for the length of the lease although its session is open.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::{StreamExt, stream};

use crate::domain::app::Head;
use crate::domain::command::Command;
use crate::domain::leadership::Claim;
use crate::domain::name::AppName;
use crate::sync::lock;

use super::Inner;
use super::entry::Entry;
use super::news::Leads;

/// How often leaders are checked: the liveness clock advances no more often.
const ROUND: Duration = Duration::from_millis(250);
/// Leases that are ended concurrently.
const LAPSES_MAX: usize = 64;

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
            let is_leader = entry.is_leader(&leads);
            entry.update(|updates| updates.news.learn(at, &leads, is_leader));
        }
        let holder = leads.leader.as_ref().and_then(|leader| self.table.get(app, leader));
        match holder.filter(|entry| entry.is_leader(&leads)) {
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
        if let Some(duration) = leads.lease_duration.filter(|_| entry.is_leader(leads)) {
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
        let claim = Claim { unit: entry.unit().clone(), lease_epoch, decided_outside: false };
        let command = Command::LapseLeadership(claim, entry.session);
        if self.apply(&entry.app, command).await.is_err() {
            return; // the store is unavailable: the next round tries again
        }
        // The unit no longer leads, or leads elsewhere. After its next message it may claim again.
        entry.update(|updates| updates.news.wishes_nothing());
        let mut leading = lock(&self.leading.0);
        let is_same = |l: &Leader| l.lease_epoch == lease_epoch && Arc::ptr_eq(&l.entry, &entry);
        if leading.get(&entry.app).is_some_and(is_same) {
            leading.remove(&entry.app);
        }
    }
}

/// Checks the leaders until the sessions have closed.
pub(super) async fn run(inner: Arc<Inner>) {
    while inner.pause(ROUND).await {
        inner.lapse_leaders().await;
    }
}
