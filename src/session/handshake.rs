//! The opening of a session: a commit that fences older sessions, then an entry in the table.

use std::sync::Arc;

use crate::aggregator::Error;
use crate::domain::app::AppState;
use crate::domain::command::{Command, Request};
use crate::domain::fault::{Fault, FaultKey};
use crate::domain::name::{AppName, UnitName};
use crate::domain::request::{Outcome, RequestId};
use crate::domain::revision::Revision;
use crate::domain::status::Kind;
use crate::domain::unit::Newcomer;

use super::entry::Entry;
use super::message::{Hello, OpenError, Welcome};
use super::news::Leads;
use super::observer::Chore;
use super::registry::{Opening, Registry};
use super::worker::Session;
use super::{Inner, MISSED_HEARTBEATS, Sessions, spread};

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
        let max = inner.options.sessions_max;
        let place = Registry::place(inner).ok_or(OpenError::TooMany { max })?;
        let Hello { app, who } = hello;
        let session = inner.next_id();
        let heartbeat_interval = inner.heartbeat_interval();
        // A tenth earlier or later, so that workers do not send their heartbeats at the same
        // moment.
        let tenth = heartbeat_interval / 10;
        let heartbeat_interval = heartbeat_interval - tenth + spread(tenth * 2);
        let opening = Opening::begin(inner, &app, session);
        let connected = inner.apply(&app, Command::Connect(who.clone(), session)).await?;
        let Outcome { incarnation, revision, .. } = connected;
        let ttl = heartbeat_interval * MISSED_HEARTBEATS;
        let (entry, ends) = Entry::new(app.clone(), who, session, (incarnation, revision), ttl);
        let entry = Arc::new(entry);
        entry.note_contact(inner.liveness_clock.now());
        let session = Session::new(inner.clone(), entry.clone(), ends, place, token);
        if let Some(older) = opening.complete(entry.clone()) {
            older.end(incarnation);
        }
        inner.forget_orphan(&app, entry.unit(), entry.session);
        let session_id = entry.session;
        let read = |state: &AppState| {
            let of_unit = state.statuses().of(entry.unit(), None);
            let pushed = of_unit.filter(|(key, _)| key.kind == Kind::Push);
            let unit = state.unit(entry.unit());
            if let Some(unit) = unit {
                entry.call(state.head().revision, unit.due_callbacks());
            }
            entry.set_holds(state.head().revision, holding(state, entry.unit()));
            let leads = Leads::of(state.head());
            let at = (state.head().revision, inner.store.epoch().losses);
            entry.news.welcome(at, &leads);
            inner.leads_here(&entry, &leads);
            let is_over = unit.and_then(|unit| unit.session());
            let welcome = Welcome {
                session: session_id,
                incarnation,
                heartbeat_interval,
                retained: pushed.map(|(key, status)| (key.clone(), status.clone())).collect(),
                pending: state.operations().pending(entry.unit()),
                holds: entry.holds_at_welcome(),
                leader: state.head().leader().cloned(),
                lease_epoch: state.head().valid_epoch(),
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

    /// Starts or continues an incarnation of a unit without a session. Returns the incarnation and
    /// the revision from which it is in force.
    pub async fn register(
        &self,
        app: &AppName,
        who: Newcomer,
        ttl: Option<std::time::Duration>,
        id: Option<RequestId>,
    ) -> Result<(u64, Revision), Error> {
        let request = Request { id, command: Command::Register(who, ttl) };
        let outcome = self.inner.aggregator.apply(app, request).await?;
        Ok((outcome.incarnation, outcome.revision))
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
        if entry.superseded().is_some() || !self.table.holds(entry) {
            return false;
        }
        let (who, session) = (entry.who.clone(), entry.session);
        let command = Command::Reconnect(who, session, entry.revision);
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
        while let Some(wants) = entry.news.wants_to_lead() {
            let command = match wants {
                true => Command::ClaimLeadership(entry.reporter(), None),
                false => Command::StepBack(entry.reporter()),
            };
            let applied = self.apply(&entry.app, command).await;
            if !matches!(applied, Ok(_) | Err(Error::Rejected(_))) {
                return self.known.again(Chore::Assert(entry.clone()));
            }
            // If the request changed meanwhile, the two commands may have been applied in the wrong
            // order: the loop sends the newer one.
            if entry.news.wants_to_lead() == Some(wants) {
                return entry.news.sent_again();
            }
        }
    }
}
