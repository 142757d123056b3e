//! Which replicas live. One that is gone holds no sessions any more: whoever notices says so, and
//! its units are given the time to connect elsewhere. Two that notice at once do no harm.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::domain::command::{Command, Request};
use crate::domain::name::AppName;
use crate::domain::session::ReplicaId;
use crate::domain::time::Timestamp;

use super::{Inner, lock};

/// How often we say that we live, at least.
const BEAT_MAX: Duration = Duration::from_secs(2);
/// How often within what others wait for us.
const BEATS: u32 = 5;

/// See the module.
#[derive(Default)]
pub(super) struct Neighbours {
    heard: Mutex<BTreeMap<ReplicaId, Beat>>,
}

/// What is known of one replica. When it said that it lives is compared with itself alone: while
/// we, or the store, stood still, nobody could say anything, and a store may forget who lives.
struct Beat {
    /// By the store's clock.
    at: Option<Timestamp>,
    /// When we heard of it, by the clock of attention.
    heard: Duration,
}

/// Says that we live, and looks after those that do not, until the sessions have ended.
pub(super) async fn run(inner: Arc<Inner>) {
    let beat = BEAT_MAX.min(inner.options.replica_ttl / BEATS);
    loop {
        inner.look_after().await;
        tokio::select! {
            () = tokio::time::sleep(beat) => {}
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
        let mut held: BTreeMap<ReplicaId, Vec<AppName>> = BTreeMap::new();
        for (app, known) in self.known.apps() {
            for replica in known.replicas.keys().filter(|replica| **replica != self.replica) {
                held.entry(*replica).or_default().push(app.clone());
            }
        }
        self.neighbours.hear(&held, &living, self.attention.now());
        held.retain(|replica, _| self.neighbours.is_gone(*replica, self));
        for (replica, apps) in held {
            tracing::warn!(replica = replica.0, applications = apps.len(), "replica is gone");
            for app in apps {
                let command = Command::Orphan { replica, ttl: self.session_ttl() };
                // What fails is found again by the next look.
                let _ = self.aggregator.apply(&app, Request { id: None, command }).await;
            }
        }
    }

    /// How long one may be missed. Nobody else can be in a store that is ours alone.
    fn patience(&self) -> Duration {
        match self.store.is_shared() {
            true => self.options.replica_ttl,
            false => Duration::ZERO,
        }
    }
}

impl Neighbours {
    /// Notes who was heard of since the last time, of those that hold sessions.
    fn hear(
        &self,
        held: &BTreeMap<ReplicaId, Vec<AppName>>,
        living: &BTreeMap<ReplicaId, Timestamp>,
        now: Duration,
    ) {
        let mut heard = lock(&self.heard);
        heard.retain(|replica, _| held.contains_key(replica));
        for replica in held.keys() {
            let at = living.get(replica).copied();
            let beat = heard.entry(*replica).or_insert(Beat { at, heard: now });
            if at != beat.at {
                *beat = Beat { at, heard: now };
            }
        }
    }

    fn is_gone(&self, replica: ReplicaId, inner: &Inner) -> bool {
        let now = inner.attention.now();
        let heard = lock(&self.heard);
        heard.get(&replica).is_some_and(|beat| inner.patience() <= now.saturating_sub(beat.heard))
    }
}
