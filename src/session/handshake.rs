//! The opening of a session: a commit that fences older sessions, then an entry in the table.

use std::sync::Arc;

use crate::aggregator::Error;
use crate::domain::app::AppState;
use crate::domain::command::Command;
use crate::domain::fault::{Fault, FaultKey};
use crate::domain::name::UnitName;
use crate::domain::request::Outcome;
use crate::domain::status::Kind;

use super::entry::Entry;
use super::message::{Hello, OpenError, Welcome};
use super::news::Leads;
use super::observer::Chore;
use super::registry::{Opening, Registry};
use super::worker::Session;
use super::{Inner, MISSED_HEARTBEATS, Sessions, is_decided, spread};

impl Sessions {
    /// Opens a session. After that everything of an older incarnation or an older session is
    /// refused.
    pub async fn open(&self, hello: Hello) -> Result<(Session, Welcome), OpenError> {
        let inner = &self.inner;
        if inner.draining.is_cancelled() {
            return Err(Error::Draining.into());
        }
        // Taken before the commit, so that a drain waits for the end of the session.
        let token = inner.sessions.token();
        let place = Registry::place(inner)?;
        let Hello { app, who, may_read } = hello;
        let session_id = inner.next_id();
        let heartbeat_interval = inner.heartbeat_interval();
        // A tenth earlier or later, so that workers do not send their heartbeats at the same
        // moment.
        let tenth = heartbeat_interval / 10;
        let heartbeat_interval = heartbeat_interval - tenth + spread(tenth * 2);
        let opening = Opening::begin(inner, &app, session_id);
        let connect = Command::Connect(who.clone(), session_id);
        let Outcome { incarnation, revision, .. } = inner.apply(&app, connect).await?;
        let ttl = heartbeat_interval * MISSED_HEARTBEATS;
        let (entry, asks) =
            Entry::new(app.clone(), who, session_id, (incarnation, revision), (ttl, may_read));
        let entry = Arc::new(entry);
        entry.note_contact(inner.liveness_clock.now());
        let session = Session::new(inner.clone(), entry.clone(), asks, place, token);
        if let Some(older) = opening.complete(entry.clone()) {
            older.end(incarnation);
        }
        inner.forget_orphan(&app, entry.unit(), session_id);
        let read = |state: &AppState| {
            let of_unit = state.statuses().of(entry.unit(), None);
            let pushed = of_unit.filter(|(key, _)| key.kind == Kind::Push);
            let unit = state.unit(entry.unit());
            let (head, leads) = (state.head(), Leads::of(state.head()));
            let at = (head.revision, inner.store.epoch().losses);
            let holds = entry.update(|updates| {
                if let Some(unit) = unit {
                    updates.calls.set(head.revision, unit.due_callbacks());
                }
                updates.holds.set(head.revision, holding(state, entry.unit()));
                updates.news.welcome(at, &leads, entry.is_leader(&leads));
                updates.holds.all_sent()
            });
            inner.leads_here(&entry, &leads);
            if state.needs().stating_of(entry.unit()).next().is_some() {
                inner.ringer.mark(&entry, head.revision);
            }
            let is_over = unit.and_then(|unit| unit.session());
            let welcome = Welcome {
                session: session_id,
                incarnation,
                heartbeat_interval,
                retained: pushed.map(|(key, status)| (key.clone(), status.clone())).collect(),
                pending: state.pending_operations(entry.unit()),
                holds,
                leader: head.leader().cloned(),
                lease_epoch: head.valid_epoch(),
                server_time: inner.store.now(),
            };
            (welcome, is_over != Some(session_id))
        };
        let (welcome, is_over) = inner.aggregator.read(&app, revision, read).await?;
        if is_over {
            // Another replica opened a session of this unit between the commit and this read.
            entry.end(incarnation);
        }
        Ok((session, welcome))
    }
}

/// Returns the faults of a unit that hold a component.
pub(super) fn holding<'a>(
    state: &'a AppState,
    unit: &'a UnitName,
) -> impl Iterator<Item = (Arc<FaultKey>, Arc<Fault>)> + 'a {
    let faults = state.faults().of(unit, None);
    let holding = faults.filter(|(_, fault)| fault.held_since.is_some());
    holding.map(|(key, fault)| (key.clone(), fault.clone()))
}

impl Inner {
    /// Writes an open session to the store again, after a data loss of the store or after another
    /// replica ended it. Returns whether the store accepted the session: it does not if the unit
    /// has opened a newer one.
    pub(super) async fn assert_session(&self, entry: &Arc<Entry>) -> bool {
        if entry.superseded().is_some()
            || !self.table.holds(&entry.app, entry.unit(), entry.session)
        {
            return false;
        }
        let command = Command::Reconnect(entry.who.clone(), entry.session, entry.revision);
        let asserted = self.apply(&entry.app, command).await;
        let is_here = asserted.is_ok();
        match asserted {
            Ok(_) => self.claim_again(entry).await,
            Err(Error::Rejected(rejected)) => entry.end_because(&rejected),
            Err(_) => self.known.again(Chore::Assert(entry.clone())),
        }
        is_here
    }

    /// Repeats the unit's last request to lead or to step back, because the store may have lost it.
    /// If the store still has it, the command changes nothing.
    async fn claim_again(&self, entry: &Arc<Entry>) {
        let wants_to_lead = || entry.update(|updates| updates.news.wants_to_lead());
        while let Some(wants) = wants_to_lead() {
            let command = match wants {
                true => Command::ClaimLeadership(entry.reporter(), None),
                false => Command::StepBack(entry.reporter()),
            };
            let applied = self.apply(&entry.app, command).await;
            if !is_decided(&applied) {
                return self.known.again(Chore::Assert(entry.clone()));
            }
            // If the request changed meanwhile, the two commands may have been applied in the wrong
            // order: the loop sends the newer one.
            if wants_to_lead() == Some(wants) {
                return entry.update(|updates| updates.news.sent_again());
            }
        }
    }
}
