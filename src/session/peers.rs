//! Membership: detects peers that are gone. Such a peer holds no sessions. The replica that detects
//! the loss commits it, and the units of the peer have the session ttl to connect elsewhere. Two
//! replicas may commit the same loss without harm.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::domain::command::Command;
use crate::domain::name::AppName;
use crate::domain::time::Timestamp;
use crate::domain::unit::presence::ReplicaId;

use super::Inner;

/// The longest interval between two beats of this replica.
const BEAT_MAX: Duration = Duration::from_secs(2);
/// Beats within the time after which peers count this replica as gone.
const BEATS: u32 = 5;

/// The state of one peer. The time of its first beat here is compared with the store's clock,
/// without the outages: a process that is restarted again and again must see that peers of an
/// earlier one are gone. Later beats are compared only with each other: while this process or the
/// store stalls no replica can beat, and a store may lose beats.
struct Beat {
    /// Time of its last beat, by the store's clock.
    at: Option<Timestamp>,
    /// When this replica saw that beat, by the liveness clock.
    seen: Duration,
    /// How old the beat was then.
    age: Duration,
}

/// Sends beats and handles peers that are gone, until the sessions have closed.
pub(super) async fn run(inner: Arc<Inner>) {
    let beat = BEAT_MAX.min(inner.options.replica_ttl / BEATS);
    let mut beats = BTreeMap::new();
    loop {
        inner.look_after(&mut beats).await;
        if !inner.pause(beat).await {
            return;
        }
    }
}

impl Inner {
    /// Records new beats of the peers that hold sessions, and ends the sessions of those that are
    /// gone.
    async fn look_after(&self, beats: &mut BTreeMap<ReplicaId, Beat>) {
        // While the store is unavailable no peer counts as gone.
        let Ok(living) = self.store.beat().await else {
            return;
        };
        let mut held: BTreeMap<ReplicaId, Vec<AppName>> = BTreeMap::new();
        for (app, known) in self.known.apps() {
            for replica in known.replicas.keys().filter(|replica| **replica != self.replica) {
                held.entry(*replica).or_default().push(app.clone());
            }
        }
        let (now, moment) = (self.liveness_clock.now(), self.store.moment());
        let age = |at: Timestamp| moment.outages.uptime(at, moment.judged);
        // In a store that is not shared no peer can be alive.
        let patience =
            if self.store.is_shared() { self.options.replica_ttl } else { Duration::ZERO };
        beats.retain(|replica, _| held.contains_key(replica));
        held.retain(|replica, _| {
            let at = living.get(replica).copied();
            let first = || Beat { at, seen: now, age: at.map(&age).unwrap_or_default() };
            let beat = beats.entry(*replica).or_insert_with(first);
            if at != beat.at {
                *beat = Beat { at, seen: now, age: Duration::ZERO };
            }
            patience <= now.saturating_sub(beat.seen) + beat.age
        });
        for (replica, apps) in held {
            tracing::warn!(replica = replica.0, applications = apps.len(), "replica is gone");
            for app in apps {
                let command = Command::EndSessions { replica, ttl: self.session_ttl() };
                // A failed commit is repeated in the next round.
                let _ = self.apply(&app, command).await;
            }
        }
    }
}
