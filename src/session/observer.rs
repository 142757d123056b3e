//! The store observer of the sessions: takeovers by other replicas, questions from them, data
//! losses. The store's callback must not block, so longer work is queued for a task.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use tokio::sync::Notify;

use crate::domain::app::Head;
use crate::domain::fault::FaultKey;
use crate::domain::history::Cause;
use crate::domain::name::{AppName, UnitName};
use crate::domain::revision::Revision;
use crate::domain::transition::{Transition, Write};
use crate::domain::unit::Unit;
use crate::domain::unit::presence::ReplicaId;
use crate::store::{Broadcast, BroadcastKind, Bucket, Change, MasterChange, Observer, Position};
use crate::sync::lock;

use super::Inner;
use super::entry::{Asker, Entry};
use super::holds::FaultChange;
use super::message::Question;
use super::news::Leads;
use super::orphan::Orphans;

/// Limit of queued chores. Beyond it all sessions are asserted instead.
const CHORES_MAX: usize = 4096;

/// Observes the store while sessions exist.
pub(super) struct StoreObserver(pub(super) Weak<Inner>);

/// Applications that have sessions on any replica, and the queued chores.
#[derive(Default)]
pub(super) struct Known {
    apps: Mutex<BTreeMap<AppName, Supervised>>,
    chores: Mutex<Vec<Chore>>,
    pub(super) orphans: Orphans,
    pub(super) news: Notify,
}

/// The state of one application.
#[derive(Clone)]
pub(super) struct Supervised {
    pub(super) replicas: BTreeMap<ReplicaId, u32>,
    pub(super) collect_interval: Duration,
    leads: Leads,
}

/// A unit of work for the task.
pub(super) enum Chore {
    /// Write this session to the store again.
    Assert(Arc<Entry>),
    /// Check whether the sessions of this application are still the newest as of a revision.
    Look(AppName, Revision),
    /// Write all sessions to the store again.
    AssertAll,
    /// Ask the workers here, for another replica.
    Ask(AppName, Asker, Question),
}

impl Known {
    /// Stores the state of an application. Returns whether its sessions must be notified.
    fn put(&self, app: &AppName, head: &Head) -> bool {
        let mut apps = lock(&self.apps);
        if head.deleted || head.sessions.is_empty() {
            return apps.remove(app).is_some();
        }
        let collect_interval = head.config.collect_interval;
        let leads = Leads::of(head);
        let known = apps.get(app);
        let is_news = known.is_none_or(|held| held.leads != leads);
        let is_known = known.is_some_and(|held| {
            held.replicas == head.sessions && held.collect_interval == collect_interval
        });
        if is_news || !is_known {
            let replicas = head.sessions.clone();
            apps.insert(app.clone(), Supervised { replicas, collect_interval, leads });
        }
        is_news
    }

    /// Returns the interval at which the workers of an application are asked, if it has a session
    /// on any replica.
    pub(super) fn collect_interval(&self, app: &AppName) -> Option<Duration> {
        lock(&self.apps).get(app).map(|held| held.collect_interval)
    }

    /// Returns the applications that have sessions on any replica.
    pub(super) fn apps(&self) -> BTreeMap<AppName, Supervised> {
        lock(&self.apps).clone()
    }

    fn add(&self, chore: Chore) {
        self.again(chore);
        self.news.notify_one();
    }

    /// Queues a chore for the next round: an immediate retry of a failure would fail again.
    pub(super) fn again(&self, chore: Chore) {
        let mut chores = lock(&self.chores);
        if chores.len() < CHORES_MAX {
            chores.push(chore);
            return;
        }
        chores.clear();
        chores.push(Chore::AssertAll);
    }

    pub(super) fn take(&self) -> Vec<Chore> {
        std::mem::take(&mut *lock(&self.chores))
    }
}

impl Observer for StoreObserver {
    fn on_change(&self, change: &Change) {
        let Some(inner) = self.0.upgrade() else {
            return;
        };
        let Change { app, head, transition, .. } = change;
        inner.ringer.changed(app, head);
        if inner.known.put(app, head) {
            inner.note_leader(app, head);
        }
        let Some(transition) = transition else {
            if 0 < inner.table.count(app) || head.sessions.contains_key(&inner.replica) {
                inner.known.add(Chore::Look(app.clone(), head.revision));
            }
            return;
        };
        if transition.is_deletion() {
            for entry in inner.table.of(app) {
                inner.judge(&entry, None, head.revision);
            }
        }
        inner.note_holds(app, head.revision, transition);
        inner.note_needs(app, head.revision, transition);
        for write in &transition.writes {
            if let Write::Unit(name, unit) = write {
                let session = unit.as_deref().and_then(Unit::session);
                inner.note_orphan(app, name, session);
                if let Some(entry) = inner.table.get(app, name) {
                    inner.judge(&entry, unit.as_deref(), head.revision);
                }
            }
        }
    }

    fn on_prune(&self, _: Bucket, _: Position) {}

    fn on_master(&self, _: Bucket, change: &MasterChange) {
        if let (MasterChange::LostWrites(_), Some(inner)) = (change, self.0.upgrade()) {
            inner.known.add(Chore::AssertAll);
        }
    }

    fn on_broadcast(&self, notice: &Broadcast) {
        let Some(inner) = self.0.upgrade() else {
            return;
        };
        match &notice.word {
            BroadcastKind::Collect { .. } if notice.from == inner.replica => {}
            BroadcastKind::Collect { id, component, recompute, deadline } => {
                let asker = Asker { replica: notice.from, id: *id };
                let question = Question {
                    id: 0,
                    component: component.clone(),
                    recompute: *recompute,
                    deadline: *deadline,
                };
                inner.known.add(Chore::Ask(notice.app.clone(), asker, question));
            }
            BroadcastKind::Collected { id, to, units } => {
                if *to == inner.replica {
                    inner.collects.answered(*id, units);
                }
            }
        }
    }
}

impl Inner {
    /// Forwards changes of faults to the sessions of their units here.
    fn note_holds(&self, app: &AppName, revision: Revision, transition: &Transition) {
        let mut by_unit: BTreeMap<&UnitName, Vec<FaultChange>> = BTreeMap::new();
        for write in &transition.writes {
            if let Write::Fault(key, fault) = write {
                let reason = release_reason(transition, key);
                let change = FaultChange { key: key.clone(), fault: fault.clone(), reason };
                by_unit.entry(&key.unit).or_default().push(change);
            }
        }
        for (unit, changes) in by_unit {
            if let Some(entry) = self.table.get(app, unit) {
                entry.update(|updates| updates.holds.note(revision, changes));
            }
        }
    }

    /// Compares a session with its unit's record as of a revision: asserts it if the record has
    /// none, ends it if another took over.
    pub(super) fn judge(&self, entry: &Arc<Entry>, unit: Option<&Unit>, revision: Revision) {
        if revision <= entry.revision {
            return;
        }
        let incarnation = unit.map_or(entry.incarnation, |unit| unit.incarnation);
        match unit.map(Unit::session) {
            Some(Some(session)) if session == entry.session => {
                if let Some(unit) = unit {
                    entry.update(|updates| updates.calls.set(revision, unit.due_callbacks()));
                }
            }
            // An older session of this replica, whose commit arrived late.
            Some(Some(older))
                if older.replica == self.replica && older.number < entry.session.number => {}
            // Another replica ended this session, although it is open.
            Some(None) if incarnation == entry.incarnation => {
                self.known.add(Chore::Assert(entry.clone()));
            }
            // Taken over by another session, or removed.
            _ => entry.end(incarnation),
        }
    }
}

/// Returns why an operator released the component of a fault, if an operator did.
fn release_reason(transition: &Transition, key: &FaultKey) -> Option<&'static str> {
    let of_component = transition.events.iter().filter(|event| {
        let subject = event.subject.as_ref();
        subject.is_some_and(|s| s.unit == key.unit && s.component == key.component)
    });
    of_component.rev().find_map(|event| match event.cause {
        Cause::HoldRetried => Some("Retry"),
        Cause::HoldSkipped => Some("Skip"),
        _ => None,
    })
}
