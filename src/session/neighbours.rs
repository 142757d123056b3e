//! Which replicas live. One that is gone holds no sessions any more: whoever notices says so, and
//! its units are given the time to connect elsewhere. Two that notice at once do no harm.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::domain::command::{Command, Request};
use crate::domain::name::AppName;
use crate::domain::session::ReplicaId;

use super::{Inner, lock};

/// How often we say that we live: several times within what others wait for us.
const BEAT: Duration = Duration::from_secs(2);

/// See the module.
#[derive(Default)]
pub(super) struct Neighbours {
    /// Since when each was missed, by the clock of attention.
    missed: Mutex<BTreeMap<ReplicaId, Duration>>,
}

/// Says that we live, and looks after those that do not, until the sessions have ended.
pub(super) async fn run(inner: Arc<Inner>) {
    loop {
        inner.look_after().await;
        tokio::select! {
            () = tokio::time::sleep(BEAT) => {}
            () = inner.stopped.cancelled() => return,
        }
    }
}

impl Inner {
    async fn look_after(&self) {
        // While the store is away nobody is judged.
        let Ok(living) = self.store.beat().await else {
            return;
        };
        let now = living.get(&self.replica).copied().unwrap_or_default();
        let ttl = self.options.replica_ttl;
        let lives =
            |replica: &ReplicaId| living.get(replica).is_some_and(|at| now.since(*at) < ttl);
        let mut gone: BTreeMap<ReplicaId, Vec<AppName>> = BTreeMap::new();
        for (app, held) in self.known.apps() {
            for replica in held.replicas.keys() {
                if *replica != self.replica && !lives(replica) {
                    gone.entry(*replica).or_default().push(app.clone());
                }
            }
        }
        for (replica, apps) in self.neighbours.given_up(gone, self.patience(), self.attention.now())
        {
            tracing::warn!(replica = replica.0, applications = apps.len(), "replica is gone");
            for app in apps {
                let command = Command::Orphan { replica, ttl: self.session_ttl() };
                // What fails is found again by the next look.
                let _ = self.aggregator.apply(&app, Request { id: None, command }).await;
            }
        }
    }

    /// How long one must be missed before it is given up. A store that several share may have
    /// forgotten who lives; nobody else can be in one that is ours alone.
    fn patience(&self) -> Duration {
        match self.store.is_shared() {
            true => self.options.replica_ttl,
            false => Duration::ZERO,
        }
    }
}

impl Neighbours {
    /// Of those that are missed, the ones that have been for long enough.
    fn given_up(
        &self,
        gone: BTreeMap<ReplicaId, Vec<AppName>>,
        patience: Duration,
        now: Duration,
    ) -> BTreeMap<ReplicaId, Vec<AppName>> {
        let mut missed = lock(&self.missed);
        let known: BTreeSet<ReplicaId> = gone.keys().copied().collect();
        missed.retain(|replica, _| known.contains(replica));
        let is_over = |replica: &ReplicaId, missed: &mut BTreeMap<ReplicaId, Duration>| {
            let since = *missed.entry(*replica).or_insert(now);
            patience <= now.saturating_sub(since)
        };
        gone.into_iter().filter(|(replica, _)| is_over(replica, &mut missed)).collect()
    }
}
