//! A replica of the model: the reader of the log with its repair, and the task of the application.

use std::collections::BTreeMap;

use bellwether::domain::app::Head;

use super::server::{Commit, Server};
use crate::known::{Known, hash_of};

/// What observers of a replica were last sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shown {
    /// The revision.
    pub revision: u64,
    /// The position.
    pub position: u64,
    /// The hash of the head.
    pub content: u64,
}

impl Shown {
    /// Returns what observers receive of a state.
    pub fn of(app: &Known, position: u64) -> Shown {
        // A quiet commit changes these, and no observer receives it.
        let head =
            Head { next_due: None, quiet_commits: 0, counts: None, ..(**app.head()).clone() };
        Shown { revision: head.revision.0, position, content: hash_of(&head) }
    }
}

/// A commit without a result.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pending {
    /// Its number.
    pub seq: u64,
    /// What was sent.
    pub commit: Commit,
    /// The report that it answers.
    pub report: Option<u8>,
    /// The entry that the reader has to read back.
    pub waits_for: Option<u64>,
}

/// The next step of a comparison with another master, see `store/redis/log/reader.rs`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Read the bucket and compare it.
    Read,
    /// Count a data loss of the store.
    Count,
    /// Record the data loss in the bucket.
    Doubt,
    /// Commit a head.
    Put(Commit),
}

/// A comparison that is under way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Repair {
    /// The next step.
    pub step: Step,
    /// Whether the log is that of another history.
    pub is_lost: bool,
    /// Whether this connection has counted a data loss.
    pub counted: bool,
}

/// A revision that a master has confirmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Confirmed {
    /// The revision.
    pub revision: u64,
    /// The floor of the master.
    pub floor: u64,
    /// The last entry of its log at that time.
    pub entry: u64,
}

/// A replica.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Replica {
    /// Its number, which names it as a writer.
    pub number: u8,
    /// The master that its reader has compared.
    pub compared: Option<u8>,
    /// The master that its reader compares, and how.
    pub repair: Option<(u8, Repair)>,
    /// The floor of the compared master.
    pub floor: u64,
    /// The floor of the master that its reader met last.
    pub read_floor: u64,
    /// The data losses of the store and of the bucket that it knows.
    pub losses: (u32, u32),
    /// The id of the last entry that its reader has.
    pub cursor: u64,
    /// The last position.
    pub last: u64,
    /// What its observers have.
    pub shown: Shown,
    /// The copy of the task.
    pub state: Known,
    /// Commits that the task has not replayed: revision, and the commit if the log has it.
    pub arrived: Vec<(u64, Option<Commit>)>,
    /// Whether the task must read again.
    pub is_behind: bool,
    /// Whether the task must not acknowledge what it reads before another commit.
    pub is_unsettled: bool,
    /// The number of the last commit.
    pub seq: u64,
    /// The commit in flight.
    pub pending: Option<Pending>,
    /// A confirmation whose answer travels, and the report that it answers.
    pub confirmed: Option<(Option<u8>, Confirmed)>,
    /// What an answer relies on before it was read.
    pub unread: Option<Confirmed>,
}

impl Replica {
    /// Returns a replica that has what the server has.
    pub fn new(number: u8, server: &Server) -> Replica {
        Replica {
            number,
            compared: Some(server.number),
            repair: None,
            floor: server.floor,
            read_floor: server.floor,
            losses: server.losses,
            cursor: server.newest(),
            last: server.last,
            shown: Shown::of(&server.app, server.position),
            state: server.app.clone(),
            arrived: Vec::new(),
            is_behind: false,
            is_unsettled: false,
            seq: 0,
            pending: None,
            confirmed: None,
            unread: None,
        }
    }

    /// Returns whether it has everything that the server has, and compares nothing.
    pub fn is_settled(&self, server: &Server) -> bool {
        self.compared == Some(server.number) && self.cursor == server.newest()
    }

    /// Lets an answer rely on a revision that a master has confirmed, as
    /// `store/redis/log/unread.rs` does. Returns false if the reader has met another master since.
    pub fn rely_on(&mut self, confirmed: Confirmed) -> bool {
        let is_of_master = self.read_floor <= confirmed.floor;
        if is_of_master && self.shown.revision < confirmed.revision {
            self.unread = Some(confirmed);
        }
        is_of_master
    }

    /// Forgets what was read up to a revision, and what the master does not have.
    pub fn settle(&mut self, revision: u64) {
        let floor = self.read_floor;
        self.unread = self.unread.filter(|at| revision < at.revision && floor <= at.floor);
    }

    /// Takes over that a master has the entry that an answer relies on.
    pub fn find_unread(&mut self, server: &Server) {
        if let Some(unread) = &mut self.unread
            && server.log.iter().any(|entry| entry.id == unread.entry)
        {
            unread.floor = unread.floor.max(server.floor);
        }
    }

    /// Returns the revision that the master with this floor may lack.
    pub fn unread_before(&self, floor: u64) -> Option<u64> {
        self.unread.filter(|unread| unread.floor < floor).map(|unread| unread.revision)
    }

    /// Replays what has arrived.
    pub fn catch_up(&mut self) {
        for (revision, commit) in std::mem::take(&mut self.arrived) {
            let head = self.state.head();
            if revision <= head.revision.0 {
                continue;
            }
            let follows = |commit: &Commit| {
                commit.base == head.revision.0 && commit.base_quiet == Some(head.quiet_commits)
            };
            match commit.filter(follows).as_ref().and_then(Commit::transition) {
                Some(transition) => self.state = self.state.after(transition),
                None => self.is_behind = true,
            }
        }
    }

    /// Reads the application. Returns whether the store returns a state now.
    pub fn load(&mut self, server: &Server) -> bool {
        let is_there = self.compared == Some(server.number)
            && self.floor == server.floor
            && server.losses.1 <= self.losses.1
            && self.shown.revision <= server.app.head().revision.0;
        if is_there {
            self.state = server.app.read_under(server.floor);
            self.is_behind = false;
        }
        is_there
    }
}

/// What all observers were shown, for each revision: the content, and the data losses counted then.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Seen {
    contents: BTreeMap<u64, (u64, u32)>,
    /// The highest revision with two contents, and the highest data loss count of the first one.
    pub twice: Option<(u64, u32)>,
}

impl Seen {
    /// Records what observers receive.
    pub fn add(&mut self, shown: Shown, losses: u32) {
        let (content, at) = *self.contents.entry(shown.revision).or_insert((shown.content, losses));
        if content != shown.content {
            let (revision, before) = self.twice.unwrap_or_default();
            self.twice = Some((revision.max(shown.revision), before.max(at)));
        }
    }
}
