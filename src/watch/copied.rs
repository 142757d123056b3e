//! The hub of a relay: fed by a watch of another server instead of a store.
//!
//! Changes arrive in batches. A batch is taken over whole after the digest of the upstream has
//! proved it, so between two batches the hub equals a state of the upstream, and a bookmark is sent
//! only then. Everything else is the same as over a store: filters, groups, tokens, slow readers.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, RwLock};

use bytes::Bytes;
use tokio::time::Instant;

use super::cursors::Cursors;
use super::group::Group;
use super::hub::Hub;
use super::landmarks::{Landmarks, Proved};
use super::limits::Limits;
use super::token::Token;
use crate::domain::app::Head;
use crate::domain::name::AppName;
use crate::store::{Bucket, Change, Epoch, Observer, Position};

/// The only bucket of such a hub.
const BUCKET: Bucket = Bucket(0);

/// Changes between two releases of the hub's lock.
const CHUNK: usize = 256;

/// Tombstones that are kept for readers that resume.
const TOMBSTONES_MAX: usize = 10_000;

/// A change that an upstream sent.
#[derive(Debug, Clone)]
pub struct Copied {
    /// The application.
    pub app: AppName,
    /// What filters, counts and needs read of it; `None`: it was removed.
    pub head: Option<Arc<Head>>,
    /// The encoded event, as readers receive it; empty for a removal.
    pub image: Bytes,
}

impl Hub {
    /// Creates the hub of a relay, to be fed by [`Hub::take_over`].
    pub fn of_relay(limits: Limits) -> Hub {
        let unknown = Epoch { store_id: 0, losses: 0 };
        let mut hub = Hub::new(unknown, 1, true, limits);
        hub.landmarks = Some(RwLock::new(Landmarks::default()));
        hub
    }

    /// Takes over a batch that makes this hub equal to a state of the upstream.
    pub fn take_over(&self, batch: Vec<Copied>, proved: Proved) {
        let before = std::mem::replace(&mut self.reached_mut().epoch, proved.epoch);
        if batch.is_empty() {
            let at = self.locked().last.of(BUCKET);
            self.settle(at, proved);
            return;
        }
        if before != proved.epoch {
            tracing::info!(epoch = %proved.epoch, "the upstream has another history");
        }
        self.batches.fetch_add(1, Ordering::AcqRel);
        let mut woken: HashMap<usize, Arc<Group>> = HashMap::new();
        for chunk in batch.chunks(CHUNK) {
            self.take_chunk(chunk, &mut woken);
        }
        let at = self.locked().last.of(BUCKET);
        self.settle(at, proved);
        self.batches.fetch_add(1, Ordering::AcqRel);
        woken.into_values().for_each(|group| group.notifier.notify());
        self.prune_copied();
    }

    fn take_chunk(&self, chunk: &[Copied], woken: &mut HashMap<usize, Arc<Group>>) {
        let now = Instant::now();
        let mut state = self.locked();
        for Copied { app, head, image } in chunk {
            let known = state.entries.get(app).map(|entry| entry.head.revision);
            let head = match (head, known) {
                (Some(head), _) => head.clone(),
                (None, Some(revision)) => Arc::new(Head::empty(revision.next())),
                (None, None) => continue,
            };
            let position = Position(state.last.of(BUCKET).0 + 1);
            state.last.set(BUCKET, position);
            let revision = head.revision;
            let change =
                Change { app: app.clone(), bucket: BUCKET, position, head, transition: None };
            let image = (!image.is_empty()).then(|| image.clone());
            let entry = state.put(&change, image, self.clock, now);
            let mut visited = 0;
            for group in state.groups.concerned(app) {
                visited += 1;
                if group.add(&entry, now) {
                    woken.entry(Arc::as_ptr(group).addr()).or_insert_with(|| group.clone());
                }
            }
            state.groups_visited += visited;
            state.waits.wake(app, revision);
        }
    }

    /// Makes the changes up to `at` a landmark.
    fn settle(&self, at: Position, proved: Proved) {
        if let Some(landmarks) = &self.landmarks {
            let mut landmarks = landmarks.write().expect("nothing panics while it is held");
            landmarks.add(at, proved, Instant::now());
        }
        self.arrive(BUCKET, at);
    }

    fn prune_copied(&self) {
        let state = self.locked();
        let Some(over) = state.tombstones.len().checked_sub(TOMBSTONES_MAX) else { return };
        let last = state.tombstones.keys().nth(over.wrapping_sub(1)).copied();
        drop(state);
        if let Some((bucket, position)) = last.filter(|_| 0 < over) {
            self.on_prune(bucket, position);
        }
    }

    /// Returns a number that is even between two batches, and another one after each.
    pub(super) fn batch(&self) -> u64 {
        self.batches.load(Ordering::Acquire)
    }

    /// Returns whether no batch was under way since [`Hub::batch`] returned this number.
    pub(super) fn is_whole_since(&self, batch: u64) -> bool {
        batch.is_multiple_of(2) && self.batch() == batch
    }

    /// Returns the cursors of this hub from which a reader with this token continues.
    pub(super) fn start_of(&self, token: &Token) -> Option<Arc<Cursors>> {
        let Some(landmarks) = &self.landmarks else { return Some(token.cursors.clone()) };
        let landmarks = landmarks.read().expect("nothing panics while it is held");
        let at = landmarks.start_of(token)?;
        Some(Arc::new(Cursors::from_iter([at])))
    }

    /// Returns the token of a reader that has received everything up to these cursors of this hub.
    /// Uses the present epoch: changes caused by a data loss follow these cursors like any other.
    pub(super) fn token_of(&self, cursors: &Arc<Cursors>, filter: u64) -> Token {
        let issued = self.landmarks.as_ref().and_then(|landmarks| {
            let landmarks = landmarks.read().expect("nothing panics while it is held");
            landmarks.issue(cursors.of(BUCKET))
        });
        let (epoch, cursors) = issued.unwrap_or_else(|| (self.epoch(), cursors.clone()));
        Token { epoch, cursors, filter }
    }
}
