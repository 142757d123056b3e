//! The watches of one stream, grouped into cohorts. A cohort has the watches with the same filter
//! and the same position; they share one cursor and every message. A watch starts in its own
//! cohort, and joins the cohort with the same filter when both are current at the same position.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::coop;

use super::Watches;
use super::parts::{self, Encoded};
use super::ready::Ready;
use super::track::Track;
use crate::proto::v1;
use crate::service::call::Access;
use crate::service::code::ApiError;
use crate::watch::StandingGroup;

/// All cohorts of one stream.
pub struct Cohorts {
    /// What opens the watches.
    pub watches: Watches,
    access: Access,
    peer: Option<IpAddr>,
    by_key: BTreeMap<u64, Box<Cohort>>,
    /// The cohort of each watch, and its permit.
    by_watch: HashMap<u64, (u64, OwnedSemaphorePermit)>,
    /// The cohort that others join, by filter.
    by_group: HashMap<(StandingGroup, bool), u64>,
    /// Cohorts that have not sent a message yet, with their requests: a watch with an equal request
    /// joins directly.
    begun: Vec<(v1::WatchApplicationsRequest, u64)>,
    last_key: u64,
    ready: Arc<Ready>,
}

struct Cohort {
    track: Track,
    /// Never empty.
    watch_ids: Vec<u64>,
    encoded: Option<Bytes>,
    waker: Waker,
}

impl Cohorts {
    /// Creates an empty set for a stream from this address.
    pub fn new(watches: Watches, access: Access, peer: Option<IpAddr>) -> Cohorts {
        Cohorts {
            watches,
            access,
            peer,
            by_key: BTreeMap::new(),
            by_watch: HashMap::new(),
            by_group: HashMap::new(),
            begun: Vec::new(),
            last_key: 0,
            ready: Arc::default(),
        }
    }

    /// Returns the number of watches.
    pub fn len(&self) -> usize {
        self.by_watch.len()
    }

    /// Returns whether there are no watches.
    pub fn is_empty(&self) -> bool {
        self.by_watch.is_empty()
    }

    /// Returns whether a watch has this number.
    pub fn has(&self, watch_id: u64) -> bool {
        self.by_watch.contains_key(&watch_id)
    }

    /// Adds a watch with a number that is not in use. The watch holds its permit.
    pub fn begin(
        &mut self,
        watch_id: u64,
        wire: v1::WatchApplicationsRequest,
        permit: OwnedSemaphorePermit,
    ) -> Result<(), ApiError> {
        let same = self.begun.iter().find(|(begun, _)| *begun == wire).map(|(_, key)| *key);
        let key = match same {
            Some(key) => key,
            None => {
                let track = self.watches.track(&self.access, &wire, self.peer)?;
                self.last_key += 1;
                let waker = self.ready.join(self.last_key);
                let cohort = Cohort { track, watch_ids: Vec::new(), encoded: None, waker };
                self.by_key.insert(self.last_key, Box::new(cohort));
                self.begun.push((wire, self.last_key));
                self.last_key
            }
        };
        if let Some(cohort) = self.by_key.get_mut(&key) {
            cohort.join(&[watch_id]);
            self.by_watch.insert(watch_id, (key, permit));
        }
        Ok(())
    }

    /// Removes a watch; returns whether it existed.
    pub fn leave(&mut self, watch_id: u64) -> bool {
        let Some((key, _permit)) = self.by_watch.remove(&watch_id) else { return false };
        if let Some(cohort) = self.by_key.get_mut(&key) {
            cohort.watch_ids.retain(|id| *id != watch_id);
            cohort.encoded = None;
            if cohort.watch_ids.is_empty() {
                self.remove(key);
            }
        }
        true
    }

    /// Removes one cohort, and returns its drain event.
    pub fn drain_one(&mut self) -> Option<Encoded> {
        let key = *self.by_key.keys().next()?;
        let mut cohort = self.remove(key)?;
        Some(cohort.track.drain().event_of(&cohort.ids()))
    }

    /// Returns the next message. If there is none, the task is woken when there may be one.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Encoded> {
        self.begun.clear();
        loop {
            if !coop::has_budget_remaining() {
                // Yield to other tasks.
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            let Some(key) = self.ready.next(context) else { return Poll::Pending };
            // The cohort may have been removed in the meantime.
            let Some(cohort) = self.by_key.get_mut(&key) else { continue };
            let waker = cohort.waker.clone();
            match cohort.track.poll_next(&mut Context::from_waker(&waker)) {
                Poll::Pending => self.merge(key),
                Poll::Ready(Ok(update)) => {
                    // Queued again behind the others, because there may be more events.
                    waker.wake_by_ref();
                    let coalesced = update.coalesced * cohort.watch_ids.len() as u64;
                    self.watches.0.metrics.watch_coalesced(coalesced);
                    return Poll::Ready(update.parts.event_of(&cohort.ids()));
                }
                Poll::Ready(Err(problem)) => {
                    let ended = self.remove(key).map(|cohort| cohort.watch_ids);
                    return Poll::Ready(Encoded::ended(ended.unwrap_or_default(), &problem.into()));
                }
            }
        }
    }

    /// Merges a cohort that is current into the one with the same filter, if both have the same
    /// position.
    fn merge(&mut self, key: u64) {
        let standing = |key| self.by_key.get(&key).and_then(|cohort| cohort.track.standing());
        let Some(here) = standing(key) else { return };
        let group = (here.0.group(), here.1);
        let other = self.by_group.get(&group).copied().filter(|other| *other != key);
        let Some(other) = other.filter(|other| self.by_key.contains_key(other)) else {
            self.by_group.insert(group, key);
            return;
        };
        if standing(other) != Some(here) {
            return;
        }
        let Some(joining) = self.by_key.remove(&key) else { return };
        for watch_id in &joining.watch_ids {
            if let Some((key, _permit)) = self.by_watch.get_mut(watch_id) {
                *key = other;
            }
        }
        if let Some(cohort) = self.by_key.get_mut(&other) {
            cohort.join(&joining.watch_ids);
        }
    }

    /// Removes a cohort with its watches.
    fn remove(&mut self, key: u64) -> Option<Box<Cohort>> {
        let cohort = self.by_key.remove(&key)?;
        for watch_id in &cohort.watch_ids {
            self.by_watch.remove(watch_id);
        }
        self.by_group.retain(|_, other| *other != key);
        self.begun.retain(|(_, begun)| *begun != key);
        Some(cohort)
    }
}

impl Cohort {
    fn join(&mut self, watch_ids: &[u64]) {
        self.watch_ids.extend(watch_ids);
        self.encoded = None;
    }

    /// Returns the encoded numbers of its watches, which start its messages.
    fn ids(&mut self) -> Bytes {
        let watch_ids = &self.watch_ids;
        self.encoded.get_or_insert_with(|| parts::ids(watch_ids)).clone()
    }
}
