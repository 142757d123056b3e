//! The hub of a relay: fed by a watch of another server instead of a store.
//!
//! Changes arrive in batches. A batch is taken over whole after the digest of the upstream has
//! proved it, so between two batches the hub equals a state of the upstream, and a bookmark is sent
//! only then. Everything else is the same as over a store: filters, groups, tokens, slow readers.
//! Each upstream of a relay is a bucket.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::Ordering;
use std::sync::{Arc, RwLock};

use bytes::Bytes;
use tokio::time::Instant;

use super::cursors::Cursors;
use super::group::Group;
use super::hub::Hub;
use super::landmarks::Proved;
use super::limits::Limits;
use super::origins::UpstreamLandmarks;
use super::token::Token;
use crate::domain::app::Head;
use crate::domain::name::AppName;
use crate::store::{Bucket, Change, Epoch, Observer, Position};

/// Changes between two releases of the hub's lock.
const CHUNK: usize = 256;

/// Tombstones that are kept for readers that resume. Above that, the upstream with the most loses
/// its oldest ones, this many at a time.
const TOMBSTONES_MAX: usize = 10_000;
const PRUNED_AT_ONCE: usize = 500;

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
    /// Creates the hub of a relay with this number of upstreams, to be fed by [`Hub::take_over`].
    pub fn of_relay(limits: Limits, upstreams: u16) -> Hub {
        let unknown = Epoch { store_id: 0, losses: 0 };
        let mut hub = Hub::new(unknown, upstreams, true, limits);
        hub.origins = Some(RwLock::new(UpstreamLandmarks::new(upstreams)));
        hub
    }

    /// Takes over a batch that makes the part of an upstream equal to a state of it; `None`: a
    /// state that is no landmark, because some of the upstream is missing.
    pub fn take_over(&self, upstream: Bucket, batch: Vec<Copied>, proved: Option<Proved>) {
        let epoch_with = |proved| self.read_origins(|all| all.epoch_with(upstream, proved));
        let epoch = proved.as_ref().and_then(epoch_with);
        let before = self.epoch();
        if let Some(epoch) = epoch.filter(|epoch| *epoch != before) {
            self.reached_mut().epoch = epoch;
            if before.store_id != 0 {
                tracing::info!(%epoch, "an upstream has another history");
            }
        }
        if batch.is_empty() {
            let at = self.locked().last.of(upstream);
            self.settle(upstream, at, proved);
            return;
        }
        self.batches.fetch_add(1, Ordering::AcqRel);
        let mut woken: HashMap<usize, Arc<Group>> = HashMap::new();
        for chunk in batch.chunks(CHUNK) {
            self.take_chunk(upstream, chunk, &mut woken);
        }
        let at = self.locked().last.of(upstream);
        self.settle(upstream, at, proved);
        self.batches.fetch_add(1, Ordering::AcqRel);
        woken.into_values().for_each(|group| group.notifier.notify());
        self.prune_copied();
    }

    fn take_chunk(&self, bucket: Bucket, chunk: &[Copied], woken: &mut HashMap<usize, Arc<Group>>) {
        let now = Instant::now();
        let mut state = self.locked();
        for Copied { app, head, image } in chunk {
            let known = state.entries.get(app).map(|entry| entry.revision());
            let head = match (head, known) {
                (Some(head), _) => head.clone(),
                (None, Some(revision)) => Arc::new(Head::empty(revision.next())),
                (None, None) => continue,
            };
            let position = Position(state.last.of(bucket).0 + 1);
            state.last.set(bucket, position);
            let revision = head.revision;
            let change =
                Change { app: app.clone(), bucket, position, head, packed: None, transition: None };
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
    fn settle(&self, upstream: Bucket, at: Position, proved: Option<Proved>) {
        if let Some((origins, proved)) = self.origins.as_ref().zip(proved) {
            let mut origins = origins.write().expect("nothing panics while it is held");
            origins.add(upstream, at, proved, Instant::now());
        }
        self.arrive(upstream, at);
    }

    fn prune_copied(&self) {
        let state = self.locked();
        if state.tombstones.len() <= TOMBSTONES_MAX {
            return;
        }
        let mut counts: BTreeMap<Bucket, usize> = BTreeMap::new();
        for (bucket, _) in state.tombstones.keys() {
            *counts.entry(*bucket).or_default() += 1;
        }
        let most = counts.into_iter().max_by_key(|(_, count)| *count).map(|(bucket, _)| bucket);
        let last = most.and_then(|bucket| {
            let mut of_bucket = state.tombstones.range((bucket, Position::default())..);
            of_bucket.nth(PRUNED_AT_ONCE - 1).map(|(at, _)| *at)
        });
        drop(state);
        if let Some((bucket, position)) = last {
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

    /// Returns whether an upstream was in the histories that a token names.
    pub fn is_of(&self, upstream: Bucket, token: &Token) -> bool {
        self.read_origins(|origins| origins.is_of(upstream, token)) == Some(true)
    }

    /// Returns the cursors of this hub from which a reader with this token continues.
    pub(super) fn start_of(&self, token: &Token) -> Option<Arc<Cursors>> {
        match self.read_origins(|origins| origins.start_of(token)) {
            Some(start) => start,
            None => token.only().map(|store| store.cursors.clone()),
        }
    }

    /// Returns the token of a reader that has received everything up to these cursors of this hub;
    /// `None` if a relay does not know them any more. Uses the present epoch: changes caused by a
    /// data loss follow these cursors like any other.
    pub(super) fn token_of(&self, cursors: &Arc<Cursors>, filter: u64) -> Option<Token> {
        match self.read_origins(|origins| origins.issue(cursors, filter)) {
            Some(issued) => issued,
            None => Some(Token::of(self.epoch(), cursors.clone(), filter)),
        }
    }

    /// Reads the landmarks; `None` in a server.
    pub(super) fn read_origins<T>(&self, read: impl FnOnce(&UpstreamLandmarks) -> T) -> Option<T> {
        let origins = self.origins.as_ref()?;
        Some(read(&origins.read().expect("nothing panics while it is held")))
    }
}
