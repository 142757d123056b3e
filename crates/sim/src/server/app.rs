//! The records of one application in the simulated store.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use bellwether::domain::app::Head;
use bellwether::domain::bytes::Bytes;
use bellwether::domain::fault::{Fault, FaultKey};
use bellwether::domain::mark::{Mark, MarkId};
use bellwether::domain::name::{OperationId, UnitName};
use bellwether::domain::operation::Operation;
use bellwether::domain::replay::Records;
use bellwether::domain::request::Remembered;
use bellwether::domain::revision::Revision;
use bellwether::domain::status::{Status, StatusKey};
use bellwether::domain::transition::{Transition, Write};
use bellwether::domain::unit::Unit;
use bellwether::store::{NumberedEvent, Position};

/// Events that an application keeps.
const EVENTS_MAX: usize = 32;
/// Writers whose last mark is kept.
const MARKS_MAX: usize = 16;

/// The records of an application.
#[derive(Clone)]
pub struct App {
    /// The position of its last change.
    pub position: Position,
    /// The head.
    pub head: Arc<Head>,
    /// The units.
    pub units: BTreeMap<UnitName, Box<Unit>>,
    /// The statuses.
    pub statuses: BTreeMap<Arc<StatusKey>, Arc<Status>>,
    /// The operations.
    pub operations: BTreeMap<OperationId, Arc<Operation>>,
    /// The leader's data.
    pub data: BTreeMap<Arc<str>, Bytes>,
    /// What operators marked.
    pub marked: BTreeMap<MarkId, Arc<Mark>>,
    faults: BTreeMap<Arc<FaultKey>, Arc<Fault>>,
    requests: BTreeMap<Arc<str>, Box<Remembered>>,
    payloads: BTreeMap<OperationId, Bytes>,
    /// The history.
    pub events: VecDeque<NumberedEvent>,
    /// The last commit of each writer, with its entry of the log.
    pub marks: BTreeMap<u64, (u64, Option<u64>)>,
}

impl Default for App {
    fn default() -> App {
        App {
            position: Position::default(),
            head: Arc::new(Head::empty(Revision(0))),
            units: BTreeMap::new(),
            statuses: BTreeMap::new(),
            operations: BTreeMap::new(),
            data: BTreeMap::new(),
            marked: BTreeMap::new(),
            faults: BTreeMap::new(),
            requests: BTreeMap::new(),
            payloads: BTreeMap::new(),
            events: VecDeque::new(),
            marks: BTreeMap::new(),
        }
    }
}

impl App {
    /// Returns all records as a replica loads them.
    pub fn records(&self) -> Records {
        let statuses = self.statuses.iter();
        let faults = self.faults.iter();
        let requests = self.requests.iter();
        Records {
            epoch_floor: 0,
            head: (*self.head).clone(),
            units: self.units.iter().map(|(name, unit)| (name.clone(), (**unit).clone())).collect(),
            statuses: statuses.map(|(key, status)| ((**key).clone(), (**status).clone())).collect(),
            faults: faults.map(|(key, fault)| ((**key).clone(), (**fault).clone())).collect(),
            requests: requests.map(|(id, answer)| (id.clone(), (**answer).clone())).collect(),
            operations: self.operations.clone().into_iter().collect(),
            payloads: self.payloads.clone().into_iter().collect(),
            data: self.data.clone().into_iter().collect(),
            marks: self.marked.clone().into_iter().collect(),
        }
    }

    /// Returns whether the transition answers a request that has an answer already.
    pub fn has_answered(&self, transition: &Transition) -> bool {
        let mut removed = BTreeSet::new();
        let mut again = transition.writes.iter().filter(|write| match write {
            Write::Request(id, Some(_)) => self.requests.contains_key(id) && !removed.contains(id),
            Write::Request(id, None) => {
                removed.insert(id);
                false
            }
            _ => false,
        });
        !transition.is_deletion() && again.next().is_some()
    }

    /// Removes all records except the answers. Returns the state before.
    pub fn clear(&mut self) -> Box<App> {
        let before = Box::new(self.clone());
        self.units.clear();
        self.statuses.clear();
        self.faults.clear();
        self.operations.clear();
        self.payloads.clear();
        self.data.clear();
        self.marked.clear();
        before
    }

    /// Writes a record. Returns the write that undoes it.
    pub fn write(&mut self, write: &Write) -> Write {
        match write {
            Write::Unit(k, v) => Write::Unit(k.clone(), put(&mut self.units, k, v.as_ref())),
            Write::Status(k, v) => Write::Status(k.clone(), put(&mut self.statuses, k, v.as_ref())),
            Write::Fault(k, v) => Write::Fault(k.clone(), put(&mut self.faults, k, v.as_ref())),
            Write::Request(k, v) => {
                Write::Request(k.clone(), put(&mut self.requests, k, v.as_ref()))
            }
            Write::Operation(k, v) => {
                Write::Operation(k.clone(), put(&mut self.operations, k, v.as_ref()))
            }
            Write::Payload(k, v) => {
                Write::Payload(k.clone(), put(&mut self.payloads, k, v.as_ref()))
            }
            Write::Data(k, v) => Write::Data(k.clone(), put(&mut self.data, k, v.as_ref())),
            Write::Mark(k, v) => Write::Mark(k.clone(), put(&mut self.marked, k, v.as_ref())),
        }
    }

    /// Removes the oldest events and marks.
    pub fn trim(&mut self) {
        while EVENTS_MAX < self.events.len() {
            self.events.pop_front();
        }
        while MARKS_MAX < self.marks.len() {
            self.marks.pop_first();
        }
    }
}

fn put<K: Clone + Ord, V: Clone>(
    map: &mut BTreeMap<K, V>,
    key: &K,
    value: Option<&V>,
) -> Option<V> {
    match value {
        Some(value) => map.insert(key.clone(), value.clone()),
        None => map.remove(key),
    }
}
