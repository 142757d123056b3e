//! The server of the model: what `commit.lua`, `confirm.lua`, `master.lua`, `epoch.lua` and
//! `data_loss.lua` do with one bucket that has one application.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use bellwether::domain::app::Head;
use bellwether::domain::transition::{Transition, Write};

use super::Fault;
use crate::known::{Known, hash_of};

/// The floor of a master rises by this much.
const COUNTS_PER_MASTER: u64 = 1 << 20;

/// What a replica sends to be committed.
#[derive(Clone, Debug)]
pub struct Commit {
    /// The revision that it is based on.
    pub base: u64,
    /// The count of quiet commits that it is based on; a repair compares none.
    pub base_quiet: Option<u64>,
    /// The floor of the master that the state was read from.
    pub floor: u64,
    /// What is written.
    pub content: Content,
    hash: u64,
}

/// What a commit writes.
#[derive(Clone, Debug)]
pub enum Content {
    /// A decision of the rules.
    Transition(Arc<Transition>),
    /// The head that a repair puts.
    Head(Arc<Head>),
}

impl Commit {
    /// Returns the commit of a decision.
    pub fn of(transition: Transition) -> Commit {
        let hash = hash_of(&transition);
        let Transition { base, base_quiet, epoch_floor: floor, .. } = transition;
        let content = Content::Transition(Arc::new(transition));
        Commit { base: base.0, base_quiet: Some(base_quiet), floor, content, hash }
    }

    /// Returns the commit of a repair.
    pub fn put(base: u64, floor: u64, head: Head) -> Commit {
        let hash = hash_of(&(base, floor, &head));
        Commit { base, base_quiet: None, floor, content: Content::Head(Arc::new(head)), hash }
    }

    /// Returns the transition, unless it is a repair.
    pub fn transition(&self) -> Option<&Arc<Transition>> {
        match &self.content {
            Content::Transition(transition) => Some(transition),
            Content::Head(_) => None,
        }
    }

    /// Returns the revision after it.
    pub fn revision(&self) -> u64 {
        match &self.content {
            Content::Transition(transition) => transition.head.revision.0,
            Content::Head(head) => head.revision.0,
        }
    }
}

impl PartialEq for Commit {
    fn eq(&self, other: &Commit) -> bool {
        self.hash == other.hash
    }
}

impl Eq for Commit {}

impl Hash for Commit {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.hash.hash(hasher);
    }
}

/// What the server answers to a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    /// It is applied, with this entry of the log.
    Done(Option<u64>),
    /// Another revision is current.
    Revision(u64),
    /// Another comparison failed.
    Other,
}

/// An entry of the log.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Entry {
    /// Its id; no other history has the same.
    pub id: u64,
    /// The position and the state after it, or nothing for a data loss.
    pub change: Option<(u64, Commit, Known)>,
}

/// A master.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Server {
    /// How many masters there were before.
    pub number: u8,
    /// Whether a replica has noted this master.
    pub is_noted: bool,
    /// The epoch floor.
    pub floor: u64,
    /// The application.
    pub app: Known,
    /// The position of its last change.
    pub position: u64,
    /// The last position that was given out.
    pub last: u64,
    /// The counted data losses of the store, and of the bucket.
    pub losses: (u32, u32),
    /// The log.
    pub log: Vec<Entry>,
    /// The last commit of each replica, with its entry.
    pub marks: BTreeMap<u8, (u64, Option<u64>)>,
}

impl Server {
    /// Returns a master with one state, which no failover takes back.
    pub fn new(app: Known) -> Server {
        Server {
            number: 0,
            is_noted: true,
            floor: 0,
            app,
            position: 1,
            last: 1,
            losses: (0, 0),
            log: Vec::new(),
            marks: BTreeMap::new(),
        }
    }

    /// Returns the id of the newest entry.
    pub fn newest(&self) -> u64 {
        self.log.last().map_or(0, |entry| entry.id)
    }

    fn log(&mut self, next: &mut u64, change: Option<(u64, Commit, Known)>) -> u64 {
        *next += 1;
        self.log.push(Entry { id: *next, change });
        *next
    }

    /// Notes this master: its floor is above that of each master before.
    pub fn note(&mut self, fault: Option<Fault>) {
        if !self.is_noted {
            let rises = fault != Some(Fault::FloorStays);
            self.floor += if rises { COUNTS_PER_MASTER } else { 0 };
            self.is_noted = true;
        }
    }

    /// Counts a data loss once for all replicas that have seen the same count.
    pub fn count_loss(&mut self, seen: u32) -> u32 {
        if self.losses.0 <= seen {
            self.losses.0 = seen + 1;
        }
        self.losses.0
    }

    /// Raises the last position, and records the data loss in the bucket.
    pub fn doubt(&mut self, next: &mut u64, last: u64, losses: u32) {
        self.last = self.last.max(last);
        if self.losses.1 < losses {
            self.losses.1 = losses;
            self.log(next, None);
        }
    }

    /// Compares a version as a confirmation does.
    pub fn confirm(&self, state: &Known) -> Answer {
        let head = self.app.head();
        if !self.is_noted || self.floor != state.state().epoch_floor {
            Answer::Other
        } else if head.revision != state.head().revision {
            Answer::Revision(head.revision.0)
        } else if head.quiet_commits != state.head().quiet_commits {
            Answer::Other
        } else {
            Answer::Done(None)
        }
    }

    /// Applies a commit, all or nothing.
    pub fn commit(
        &mut self,
        (writer, seq): (u8, u64),
        commit: &Commit,
        next: &mut u64,
        fault: Option<Fault>,
    ) -> Answer {
        let mark = self.marks.get(&writer).copied();
        if let Some((done, id)) = mark
            && done == seq
        {
            return Answer::Done(id);
        }
        let head = self.app.head().clone();
        if !self.is_noted || self.floor != commit.floor {
            return Answer::Other;
        }
        if head.revision.0 != commit.base && fault != Some(Fault::RevisionNotCompared) {
            return Answer::Revision(head.revision.0);
        }
        if commit.base_quiet.is_some_and(|quiet| quiet != head.quiet_commits) {
            return Answer::Other;
        }
        if mark.is_some_and(|(done, _)| seq < done) {
            return Answer::Other;
        }
        let transition = commit.transition();
        let answers = transition.into_iter().flat_map(|transition| &transition.writes);
        let mut answers = answers.filter_map(|write| match write {
            Write::Request(id, Some(_)) => Some(id),
            _ => None,
        });
        if answers.any(|id| self.app.has_answered(id)) {
            return Answer::Other;
        }
        if transition.is_some_and(|transition| !transition.is_durable()) {
            return Answer::Done(None);
        }
        self.app = match &commit.content {
            Content::Transition(transition) => self.app.after(transition),
            Content::Head(head) => self.app.with_head((**head).clone()),
        };
        let mut id = None;
        if commit.revision() != commit.base {
            self.last += 1;
            self.position = self.last;
            let change = (self.position, commit.clone(), self.app.clone());
            id = Some(self.log(next, Some(change)));
        }
        self.marks.insert(writer, (seq, id));
        Answer::Done(id)
    }
}
