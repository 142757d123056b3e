//! What a worker has said and the server has not acknowledged.
//!
//! ```text
//!  put --> pending: one entry a key --next--> sent, by seq --acknowledge--> kept (push statuses)
//!              ^                                |                             |
//!              '----------- take_back ----------'<---- heal: the server lost it
//! ```
//!
//! An entry overwrites the statuses it names, so of two for the same key only the later counts, and
//! all can be sent again as long as their order holds.

use std::collections::BTreeMap;

use tokio::sync::watch;

use crate::client::error::Refusal;
use crate::client::worker::acknowledged::Outcome;
use crate::client::worker::error::Error;
use crate::proto::v1::ConnectClear;
use crate::proto::v1::ConnectError;
use crate::proto::v1::ConnectReplace;
use crate::proto::v1::ConnectReport;
use crate::proto::v1::ConnectResolve;
use crate::proto::v1::ErrorReport;
use crate::proto::v1::StatusKind;
use crate::proto::v1::StatusReport;
use crate::proto::v1::connect_request::Message;

/// A unit may have 4,096 statuses; as many again may be on their way out.
pub(super) const KEYS_MAX: usize = 8_192;

/// What an entry overwrites.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key {
    /// One status.
    Status { component: String, key: String, kind: i32 },
    /// The pull set of a component, or of the whole unit.
    Set(Option<String>),
    /// The same, in answer to a question.
    Answer(String, Option<String>),
    /// Whether something that a component asks or acts on works.
    Target { component: String, target: String },
}

/// What it puts there.
#[derive(Debug, Clone)]
pub(super) enum Content {
    Status(Box<StatusReport>),
    Nothing,
    Set(Vec<StatusReport>),
    Error(Box<ErrorReport>),
    /// Of which generation of the worker's configuration.
    Works(String),
}

#[derive(Debug)]
struct Entry {
    key: Key,
    content: Content,
    /// Who waits for it, and for what it replaced.
    told: Vec<watch::Sender<Outcome>>,
}

/// See the head of this file.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    /// By the order in which they were put.
    pending: BTreeMap<u64, Entry>,
    places: BTreeMap<Key, u64>,
    /// By `seq`, with their place in that order.
    sent: BTreeMap<u64, (u64, Entry)>,
    /// Push statuses that the server acknowledged, by component and key. Not those with a ttl:
    /// they are repeated anyway, and a repeat of ours would say that they still hold.
    kept: BTreeMap<(String, String), StatusReport>,
    place: u64,
    seq: u64,
}

impl Outbox {
    /// Takes what is to be said, in place of what was to be said of the same key.
    pub(super) fn put(
        &mut self,
        key: Key,
        content: Content,
    ) -> Result<watch::Receiver<Outcome>, Error> {
        let before = self.places.remove(&key).and_then(|place| self.pending.remove(&place));
        if before.is_none() && KEYS_MAX <= self.len() {
            return Err(Error::OutboxFull { max: KEYS_MAX });
        }
        let mut told = before.map(|entry| entry.told).unwrap_or_default();
        if told.is_empty() {
            told.push(watch::Sender::new(None));
        }
        let outcome = told[0].subscribe();
        self.place += 1;
        self.insert(self.place, Entry { key, content, told });
        Ok(outcome)
    }

    /// Puts an entry back at its place, unless a later one overwrites it.
    fn merge(&mut self, place: u64, mut entry: Entry) {
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

    fn insert(&mut self, place: u64, entry: Entry) {
        self.places.insert(entry.key.clone(), place);
        self.pending.insert(place, entry);
    }

    /// The next message, which is then under way.
    pub(super) fn next(&mut self) -> Option<Message> {
        let (place, entry) = self.pending.pop_first()?;
        self.places.remove(&entry.key);
        self.seq += 1;
        let message = entry.message(self.seq);
        self.sent.insert(self.seq, (place, entry));
        Some(message)
    }

    /// Everything up to `seq` is committed.
    pub(super) fn acknowledge(&mut self, seq: u64, revision: u64) {
        let later = self.sent.split_off(&seq.saturating_add(1));
        for (_, entry) in std::mem::replace(&mut self.sent, later).into_values() {
            entry.tell(&Ok(revision));
            self.keep(entry);
        }
    }

    fn keep(&mut self, entry: Entry) {
        let Key::Status { component, key, kind } = entry.key else {
            return;
        };
        if kind != i32::from(StatusKind::Push) {
            return;
        }
        match entry.content {
            Content::Status(status) if status.ttl.is_none() => {
                self.kept.insert((component, key), *status)
            }
            _ => self.kept.remove(&(component, key)),
        };
    }

    /// `seq` is refused for good. Returns its component and key.
    pub(super) fn reject(&mut self, seq: u64, refusal: &Refusal) -> Option<(String, String)> {
        let (_, entry) = self.sent.remove(&seq)?;
        entry.tell(&Err(Error::Rejected(Box::new(refusal.clone()))));
        Some(match entry.key {
            Key::Status { component, key, .. } => (component, key),
            Key::Target { component, target } => (component, target),
            Key::Set(component) | Key::Answer(_, component) => {
                (component.unwrap_or_default(), String::new())
            }
        })
    }

    /// What component asked or acted on that was told of as `seq`.
    pub(super) fn target_of(&self, seq: u64) -> Option<(String, String)> {
        let (_, entry) = self.sent.get(&seq)?;
        match &entry.key {
            Key::Target { component, target } => Some((component.clone(), target.clone())),
            _ => None,
        }
    }

    /// What was sent as `seq` or later may not be committed: it is to be sent again, in its order.
    pub(super) fn take_back(&mut self, seq: u64) {
        for (place, entry) in self.sent.split_off(&seq).into_values() {
            self.merge(place, entry);
        }
    }

    /// The session is over: takes back what was under way. Its questions are nobody's any more, but
    /// their answers are still the newest sets.
    pub(super) fn end_session(&mut self) {
        self.take_back(0);
        let is_answer = |entry: &Entry| matches!(entry.key, Key::Answer(..));
        let (answers, rest) =
            std::mem::take(&mut self.pending).into_iter().partition(|(_, entry)| is_answer(entry));
        self.pending = rest;
        self.places.retain(|key, _| !matches!(key, Key::Answer(..)));
        let answers: BTreeMap<u64, Entry> = answers;
        for (place, entry) in answers {
            if let Key::Answer(_, component) = entry.key {
                self.merge(place, Entry { key: Key::Set(component), ..entry });
            }
        }
    }

    /// Puts again what the server acknowledged and does not have (any more). Returns how many.
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
            // Without room it has to wait for the next session.
            let _ = self.put(key_of(&status), Content::Status(Box::new(status)));
        }
        count
    }

    /// Whoever waits is told that it is in vain.
    pub(super) fn fail(&mut self, error: &Error) {
        self.take_back(0);
        self.places.clear();
        for entry in std::mem::take(&mut self.pending).into_values() {
            entry.tell(&Err(error.clone()));
        }
    }

    /// What is to be waited for until all of today is settled.
    pub(super) fn outcomes(&self) -> Vec<watch::Receiver<Outcome>> {
        let sent = self.sent.values().map(|(_, entry)| entry);
        let all = sent.chain(self.pending.values());
        all.flat_map(|entry| entry.told.first()).map(watch::Sender::subscribe).collect()
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

impl Entry {
    fn tell(&self, outcome: &Result<u64, Error>) {
        for told in &self.told {
            told.send_replace(Some(outcome.clone()));
        }
    }

    /// Who waited for what this replaces waits for this.
    fn take_waiting(&mut self, older: Entry) {
        self.told.extend(older.told.into_iter().filter(|one| !one.is_closed()));
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

/// What a status is kept under: push if not said otherwise.
pub(super) fn key_of(status: &StatusReport) -> Key {
    let kind = match status.kind() {
        StatusKind::Pull => StatusKind::Pull,
        StatusKind::Push | StatusKind::Unspecified => StatusKind::Push,
    };
    Key::Status { component: status.component.clone(), key: status.key.clone(), kind: kind.into() }
}

/// Whether the server has what we said; it may have cut or completed the rest.
fn is_same(one: &StatusReport, other: &StatusReport) -> bool {
    let facts = |status: &StatusReport| {
        let StatusReport { component, key, level, message, reason, .. } = status.clone();
        (component, key, level, message, reason)
    };
    facts(one) == facts(other)
}
