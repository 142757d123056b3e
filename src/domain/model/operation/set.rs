//! The operations of an application.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::domain::model::bytes::Bytes;
use crate::domain::model::name::{OperationId, UnitName};
use crate::domain::model::operation::Operation;

/// The operations of an application, with the payloads that are stored here.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Operations {
    records: BTreeMap<OperationId, Arc<Operation>>,
    payloads: BTreeMap<OperationId, Bytes>,
}

impl Operations {
    /// Returns one operation.
    pub fn get(&self, id: &OperationId) -> Option<&Arc<Operation>> {
        self.records.get(id)
    }

    /// Returns the payload of an operation, if it is stored here.
    pub fn payload(&self, id: &OperationId) -> Option<&Bytes> {
        self.payloads.get(id)
    }

    /// Returns all operations, by id.
    pub fn iter(&self) -> impl Iterator<Item = (&OperationId, &Arc<Operation>)> {
        self.records.iter()
    }

    /// Returns the payloads stored here, by id.
    pub fn payloads(&self) -> impl Iterator<Item = (&OperationId, &Bytes)> {
        self.payloads.iter()
    }

    /// Returns the operation of the application that was begun or retried last: it gives the
    /// application's operation status, and is the only one of the application that may be open.
    pub fn last(&self) -> Option<(&OperationId, &Arc<Operation>)> {
        self.last_of(&UnitName::application())
    }

    /// Returns the same for a unit, or with `""` for the application.
    pub fn last_of(&self, unit: &UnitName) -> Option<(&OperationId, &Arc<Operation>)> {
        let of_unit = self.records.iter().filter(|(_, operation)| operation.unit == *unit);
        of_unit.max_by_key(|(_, operation)| operation.turn)
    }

    /// Returns the open operation of the application, if there is one.
    pub fn open(&self) -> Option<(&OperationId, &Arc<Operation>)> {
        self.last().filter(|(_, operation)| operation.is_open())
    }

    /// Returns the open operations of the application and of its units.
    pub fn all_open(&self) -> impl Iterator<Item = (&OperationId, &Arc<Operation>)> {
        self.records.iter().filter(|(_, operation)| operation.is_open())
    }

    /// Returns the newest turn; 0 if there is no operation.
    pub(in crate::domain) fn newest_turn(&self) -> u64 {
        self.records.values().map(|operation| operation.turn).max().unwrap_or(0)
    }

    /// Returns the operations, the last begun or retried first.
    pub fn latest_first(&self) -> Vec<(&OperationId, &Arc<Operation>)> {
        let mut all: Vec<_> = self.records.iter().collect();
        all.sort_by_key(|(_, operation)| std::cmp::Reverse(operation.turn));
        all
    }

    /// Returns the open operations for a unit that begins, its own one and that of the application:
    /// with its payload, unless another unit holds it.
    pub fn pending(&self, unit: &UnitName) -> Vec<Pending> {
        let own = self.last_of(unit).filter(|(_, operation)| operation.is_open());
        let pending = |(id, operation): (&OperationId, &Arc<Operation>)| {
            let is_theirs = operation.holder().is_none_or(|holder| holder == unit);
            let payload = self.payload(id).filter(|_| is_theirs).cloned();
            Pending { id: id.clone(), operation: operation.clone(), payload }
        };
        own.into_iter().chain(self.open()).map(pending).collect()
    }

    /// Returns advice for the client that superseded an operation.
    pub fn advice(&self, begun: &Operation) -> Vec<String> {
        let is_before = |o: &Operation| o.unit == begun.unit && o.turn < begun.turn;
        let before = self.records.iter().filter(|(_, o)| is_before(o));
        let touched = before.max_by_key(|(_, o)| o.turn).filter(|(_, o)| o.touched);
        let say = |(id, operation): (&OperationId, &Arc<Operation>)| {
            format!(
                "operation {id}, {}, had changed something when it failed: make sure that this \
                 one starts from there",
                operation.title()
            )
        };
        touched.map(say).into_iter().collect()
    }

    /// Writes or removes a record.
    pub(in crate::domain) fn put(&mut self, id: &OperationId, record: Option<&Arc<Operation>>) {
        match record {
            Some(record) => drop(self.records.insert(id.clone(), record.clone())),
            None => drop(self.records.remove(id)),
        }
    }

    /// Writes or removes a payload.
    pub(in crate::domain) fn put_payload(&mut self, id: &OperationId, payload: Option<&Bytes>) {
        match payload {
            Some(payload) => drop(self.payloads.insert(id.clone(), payload.clone())),
            None => drop(self.payloads.remove(id)),
        }
    }
}

/// Unfinished work, as the server sends it to a unit that begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pending {
    /// The id.
    pub id: OperationId,
    /// The operation.
    pub operation: Arc<Operation>,
    /// The payload, if it is stored here and the unit may acquire the operation.
    pub payload: Option<Bytes>,
}
