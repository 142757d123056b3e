//! The reports of a worker that the server has not acknowledged.
//!
//! ```text
//!  put --> pending: one entry per key -next-> sent, by seq --acknowledge--> kept (push statuses)
//!              ^                                |                             |
//!              '----------- take_back ----------'<---- heal: the server lost it
//! ```
//!
//! An entry overwrites the statuses that it names. So of two entries for the same key only the
//! later counts, and all can be sent again as long as their order is kept.

use std::collections::{BTreeMap, BTreeSet};

use tokio::sync::watch;

use crate::error::Refusal;
use crate::proto::v1::connect_request::Message;
use crate::proto::v1::need::Object;
use crate::proto::v1::{
    ConnectClear, ConnectError, ConnectReplace, ConnectReport, ConnectResolve, ConnectStopping,
    ConnectUnchanged, ErrorReport, Level, Need, StatusKind, StatusReport,
};
use crate::worker::acknowledged::SendOutcome;
use crate::worker::error::Error;

/// A unit may have 4,096 statuses; the same number may be on their way out.
pub(super) const KEYS_MAX: usize = 8_192;

/// The part of the state that an entry overwrites.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key {
    /// One status.
    Status { component: String, key: String, kind: i32 },
    /// The pull set of a component, or of the whole unit.
    Set(Option<String>),
    /// The same, as the answer to a question.
    Answer(String, Option<String>),
    /// The stop that the worker announces.
    Stopping,
    /// The health of a target that a component uses.
    Target { component: String, target: String },
}

/// The content of an entry.
#[derive(Debug, Clone)]
pub(super) enum Content {
    Status(Box<StatusReport>),
    Nothing,
    Set(Vec<StatusReport>),
    /// The set that the server has is the current one.
    Unchanged,
    Error(Box<ErrorReport>),
    /// The target works; the generation of the worker's configuration.
    Works(String),
}

#[derive(Debug)]
struct OutboxEntry {
    key: Key,
    content: Content,
    /// Waits for this entry, and for those that it replaced.
    received: Vec<watch::Sender<SendOutcome>>,
}

/// The entries by state, and the sequence counters.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    /// Entries to send, in the order of their reports.
    pending: BTreeMap<u64, OutboxEntry>,
    places: BTreeMap<Key, u64>,
    /// Sent entries by `seq`, each with its place in that order.
    sent: BTreeMap<u64, (u64, OutboxEntry)>,
    /// Push statuses that the server acknowledged, by component and key. Those with a ttl or an end
    /// are left out: the worker repeats them anyway, and a repeat from here would extend them
    /// wrongly.
    kept: BTreeMap<(String, String), StatusReport>,
    place: u64,
    seq: u64,
}

impl Outbox {
    /// Adds an entry. It replaces a pending one of the same key.
    pub(super) fn put(
        &mut self,
        key: Key,
        content: Content,
    ) -> Result<watch::Receiver<SendOutcome>, Error> {
        let before = self.places.remove(&key).and_then(|place| self.pending.remove(&place));
        if before.is_none() && KEYS_MAX <= self.len() {
            return Err(Error::OutboxFull { max: KEYS_MAX });
        }
        let mut received = before.map(|entry| entry.received).unwrap_or_default();
        if received.is_empty() {
            received.push(watch::Sender::new(None));
        }
        let outcome = received[0].subscribe();
        self.place += 1;
        self.insert(self.place, OutboxEntry { key, content, received });
        Ok(outcome)
    }

    /// Puts an entry back at its place, unless a later one overwrites it.
    fn merge(&mut self, place: u64, mut entry: OutboxEntry) {
        let other = self.places.get(&entry.key).copied();
        let found = other.and_then(|other| self.pending.remove(&other).map(|it| (other, it)));
        match found {
            Some((other, mut later)) if place < other => {
                later.take_waiting(entry);
                self.insert(other, later);
            }
            Some((_, earlier)) => {
                entry.take_waiting(earlier);
                self.insert(place, entry);
            }
            None => self.insert(place, entry),
        }
    }

    fn insert(&mut self, place: u64, entry: OutboxEntry) {
        self.places.insert(entry.key.clone(), place);
        self.pending.insert(place, entry);
    }

    /// Returns the next message and marks its entry as sent.
    pub(super) fn next(&mut self) -> Option<Message> {
        let (place, entry) = self.pending.pop_first()?;
        self.places.remove(&entry.key);
        self.seq += 1;
        let message = entry.message(self.seq);
        self.sent.insert(self.seq, (place, entry));
        Some(message)
    }

    /// Records that everything up to `seq` is committed.
    pub(super) fn acknowledge(&mut self, seq: u64, revision: u64) {
        let later = self.sent.split_off(&seq.saturating_add(1));
        for (_, entry) in std::mem::replace(&mut self.sent, later).into_values() {
            entry.tell(&Ok(revision));
            self.keep(entry);
        }
    }

    fn keep(&mut self, entry: OutboxEntry) {
        let Key::Status { component, key, kind } = entry.key else {
            return;
        };
        if kind != i32::from(StatusKind::Push) {
            return;
        }
        match entry.content {
            Content::Status(status) if status.ttl.is_none() && status.end_after.is_none() => {
                self.kept.insert((component, key), *status)
            }
            _ => self.kept.remove(&(component, key)),
        };
    }

    /// Removes an entry that is refused for good. Returns its component and key.
    pub(super) fn reject(&mut self, seq: u64, refusal: &Refusal) -> Option<(String, String)> {
        let (_, entry) = self.sent.remove(&seq)?;
        entry.tell(&Err(Error::Rejected(Box::new(refusal.clone()))));
        Some(match entry.key {
            Key::Status { component, key, .. } => (component, key),
            Key::Target { component, target } => (component, target),
            Key::Set(component) | Key::Answer(_, component) => {
                (component.unwrap_or_default(), String::new())
            }
            Key::Stopping => (String::new(), String::new()),
        })
    }

    /// Takes back the report of an error whose reason an older server refuses: it is sent again
    /// without it, unless a later entry about the same target was sent. Returns whether it is one.
    pub(super) fn take_back_plain(&mut self, seq: u64, refusal: &Refusal) -> bool {
        let error = self.sent.get(&seq).and_then(|(_, entry)| match &entry.content {
            Content::Error(error) => refusal.without_reason(error),
            _ => None,
        });
        let Some((error, (place, mut entry))) =
            error.and_then(|e| Some((e, self.sent.remove(&seq)?)))
        else {
            return false;
        };
        entry.content = Content::Error(Box::new(error));
        match self.sent.values_mut().find(|(later, one)| place < *later && one.key == entry.key) {
            Some((_, later)) => later.take_waiting(entry),
            None => self.merge(place, entry),
        }
        true
    }

    /// Returns the component and target of the error report or resolution that was sent as `seq`.
    pub(super) fn target_of(&self, seq: u64) -> Option<(String, String)> {
        let (_, entry) = self.sent.get(&seq)?;
        match &entry.key {
            Key::Target { component, target } => Some((component.clone(), target.clone())),
            _ => None,
        }
    }

    /// Takes back entries that were sent as `seq` or later and may not be committed: they are sent
    /// again in order.
    pub(super) fn take_back(&mut self, seq: u64) {
        for (place, entry) in self.sent.split_off(&seq).into_values() {
            self.merge(place, entry);
        }
    }

    /// Ends a session: takes back the sent entries. No call waits for the answers to its questions,
    /// but they are still the newest sets.
    pub(super) fn end_session(&mut self) {
        self.take_back(0);
        let is_answer = |entry: &OutboxEntry| matches!(entry.key, Key::Answer(..));
        let (answers, rest) =
            std::mem::take(&mut self.pending).into_iter().partition(|(_, entry)| is_answer(entry));
        self.pending = rest;
        self.places.retain(|key, _| !matches!(key, Key::Answer(..)));
        let answers: BTreeMap<u64, OutboxEntry> = answers;
        for (place, entry) in answers {
            if matches!(entry.content, Content::Unchanged) {
                // It answered a question of that session, and says nothing else.
                entry.tell(&Ok(0));
            } else if let Key::Answer(_, component) = entry.key {
                self.merge(place, OutboxEntry { key: Key::Set(component), ..entry });
            }
        }
    }

    /// Adds entries for acknowledged statuses that the server does not have. Returns their number.
    pub(super) fn heal(&mut self, retained: &[StatusReport]) -> usize {
        let lost: Vec<StatusReport> = self
            .kept
            .values()
            .filter(|status| !retained.iter().any(|one| is_same(one, status)))
            .filter(|status| !self.places.contains_key(&key_of(status)))
            .cloned()
            .collect();
        let count = lost.len();
        for status in lost {
            // If the outbox is full, the status has to wait for the next session.
            let _ = self.put(key_of(&status), Content::Status(Box::new(status)));
        }
        count
    }

    /// Fails all waits.
    pub(super) fn fail(&mut self, error: &Error) {
        self.take_back(0);
        self.places.clear();
        for entry in std::mem::take(&mut self.pending).into_values() {
            entry.tell(&Err(error.clone()));
        }
    }

    /// Returns the outcomes of all entries, for a caller that waits for them.
    pub(super) fn outcomes(&self) -> Vec<watch::Receiver<SendOutcome>> {
        let sent = self.sent.values().map(|(_, entry)| entry);
        let all = sent.chain(self.pending.values());
        all.flat_map(|entry| entry.received.first()).map(watch::Sender::subscribe).collect()
    }

    pub(super) fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    pub(super) fn sent_count(&self) -> usize {
        self.sent.len()
    }

    pub(super) fn len(&self) -> usize {
        self.pending.len() + self.sent.len()
    }
}

impl OutboxEntry {
    fn tell(&self, outcome: &Result<u64, Error>) {
        for received in &self.received {
            received.send_replace(Some(outcome.clone()));
        }
    }

    /// Takes over the waits of an entry that this one replaces.
    fn take_waiting(&mut self, older: OutboxEntry) {
        self.received.extend(older.received.into_iter().filter(|one| !one.is_closed()));
    }

    fn message(&self, seq: u64) -> Message {
        match (&self.key, &self.content) {
            (_, Content::Error(error)) => {
                Message::Error(Box::new(ConnectError { seq, error: Some((**error).clone()) }))
            }
            (Key::Target { component, target }, content) => Message::Resolve(ConnectResolve {
                seq,
                component: component.clone(),
                target: target.clone(),
                generation: match content {
                    Content::Works(generation) => generation.clone(),
                    _ => String::new(),
                },
                all_components: false,
            }),
            (_, Content::Status(status)) => {
                Message::Report(ConnectReport { seq, statuses: vec![(**status).clone()] })
            }
            (Key::Status { component, key, kind }, _) => Message::Clear(ConnectClear {
                seq,
                component: component.clone(),
                key: key.clone(),
                kind: *kind,
            }),
            (Key::Answer(id, component), Content::Unchanged) => {
                let (component, collect_id) = (component.clone(), id.clone());
                Message::Unchanged(ConnectUnchanged { seq, component, collect_id })
            }
            (Key::Stopping, _) => Message::Stopping(ConnectStopping { seq }),
            (Key::Set(component), content) => {
                Message::Replace(content.replace(seq, component.clone(), String::new()))
            }
            (Key::Answer(id, component), content) => {
                Message::Replace(content.replace(seq, component.clone(), id.clone()))
            }
        }
    }
}

impl Content {
    fn replace(&self, seq: u64, component: Option<String>, collect_id: String) -> ConnectReplace {
        let statuses = match self {
            Content::Set(statuses) => statuses.clone(),
            _ => Vec::new(),
        };
        ConnectReplace { seq, component, statuses, collect_id }
    }
}

/// Returns the key of a status. The default kind is push.
pub(super) fn key_of(status: &StatusReport) -> Key {
    let kind = match status.kind() {
        StatusKind::Pull => StatusKind::Pull,
        StatusKind::Push | StatusKind::Unspecified => StatusKind::Push,
    };
    Key::Status { component: status.component.clone(), key: status.key.clone(), kind: kind.into() }
}

/// Returns whether the server has this status; it may have truncated or completed the other fields.
fn is_same(one: &StatusReport, other: &StatusReport) -> bool {
    let facts = |status: &StatusReport| {
        let StatusReport { component, key, level, message, reason, needs, .. } = status.clone();
        let needs: BTreeSet<_> = needs.into_iter().map(object).collect();
        (component, key, level, message, reason, needs)
    };
    facts(one) == facts(other)
}

/// Returns what is needed, without what the server completes: a namespace, the levels and their
/// order.
fn object(need: Need) -> (String, BTreeSet<i32>) {
    match need.object {
        Some(Object::Application(needed)) if needed.levels.is_empty() => {
            (needed.application, BTreeSet::from([Level::Active.into()]))
        }
        Some(Object::Application(needed)) => {
            (needed.application, needed.levels.into_iter().collect())
        }
        Some(Object::Outside(words)) => (words, BTreeSet::new()),
        None => Default::default(),
    }
}
