//! The records of one application in the simulated store.

use std::collections::{BTreeMap, VecDeque};
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

    /// Returns an application as it was read. Its history is not.
    pub fn of_records(position: Position, records: Records) -> App {
        App {
            position,
            head: Arc::new(records.head),
            units: records.units.into_iter().map(|(name, unit)| (name, Box::new(unit))).collect(),
            statuses: shared(records.statuses),
            faults: shared(records.faults),
            operations: records.operations.into_iter().collect(),
            data: records.data.into_iter().collect(),
            marked: records.marks.into_iter().collect(),
            requests: records.requests.into_iter().map(|(id, of)| (id, Box::new(of))).collect(),
            payloads: records.payloads.into_iter().collect(),
            events: VecDeque::new(),
        }
    }

    /// Applies a transition.
    pub fn apply(&mut self, transition: &Transition) {
        if transition.is_deletion() {
            self.clear();
        }
        transition.writes.iter().for_each(|write| self.write(write));
        let numbered = (transition.first_event()..).zip(transition.events.iter().cloned());
        self.events.extend(numbered.map(|(number, event)| NumberedEvent { number, event }));
        while EVENTS_MAX < self.events.len() {
            self.events.pop_front();
        }
        self.head = transition.head.clone();
    }

    /// Removes all records except the answers.
    fn clear(&mut self) {
        self.units.clear();
        self.statuses.clear();
        self.faults.clear();
        self.operations.clear();
        self.payloads.clear();
        self.data.clear();
        self.marked.clear();
    }

    /// Removes the answers: the embedded store keeps those alone that a deletion writes again.
    pub fn forget_answers(&mut self) {
        self.requests.clear();
    }

    /// Writes a record.
    pub fn write(&mut self, write: &Write) {
        match write {
            Write::Unit(k, v) => put(&mut self.units, k, v.as_ref()),
            Write::Status(k, v) => put(&mut self.statuses, k, v.as_ref()),
            Write::Fault(k, v) => put(&mut self.faults, k, v.as_ref()),
            Write::Request(k, v) => put(&mut self.requests, k, v.as_ref()),
            Write::Operation(k, v) => put(&mut self.operations, k, v.as_ref()),
            Write::Payload(k, v) => put(&mut self.payloads, k, v.as_ref()),
            Write::Data(k, v) => put(&mut self.data, k, v.as_ref()),
            Write::Mark(k, v) => put(&mut self.marked, k, v.as_ref()),
        }
    }
}

fn shared<K: Ord, V>(records: Vec<(K, V)>) -> BTreeMap<Arc<K>, Arc<V>> {
    records.into_iter().map(|(key, value)| (Arc::new(key), Arc::new(value))).collect()
}

fn put<K: Clone + Ord, V: Clone>(map: &mut BTreeMap<K, V>, key: &K, value: Option<&V>) {
    match value {
        Some(value) => drop(map.insert(key.clone(), value.clone())),
        None => drop(map.remove(key)),
    }
}
