//! The operations of a draft: copied at the first change.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::domain::model::bytes::Bytes;
use crate::domain::model::name::OperationId;
use crate::domain::model::operation::Operation;
use crate::domain::model::operation::set::Operations;
use crate::domain::model::transition::Write;

/// The operations after a draft. Reads go to [`Operations`].
pub struct OperationDraft<'a> {
    after: Cow<'a, Operations>,
    records: BTreeMap<OperationId, Option<Arc<Operation>>>,
    payloads: BTreeMap<OperationId, Option<Bytes>>,
}

impl std::ops::Deref for OperationDraft<'_> {
    type Target = Operations;

    fn deref(&self) -> &Operations {
        &self.after
    }
}

impl<'a> OperationDraft<'a> {
    pub fn new(base: &'a Operations) -> OperationDraft<'a> {
        let after = Cow::Borrowed(base);
        OperationDraft { after, records: BTreeMap::new(), payloads: BTreeMap::new() }
    }

    /// Writes or removes a record.
    pub fn put(&mut self, id: &OperationId, record: Option<Arc<Operation>>) {
        self.after.to_mut().put(id, record.as_ref());
        self.records.insert(id.clone(), record);
    }

    /// Writes or removes a payload.
    pub fn put_payload(&mut self, id: &OperationId, payload: Option<Bytes>) {
        self.after.to_mut().put_payload(id, payload.as_ref());
        self.payloads.insert(id.clone(), payload);
    }

    /// Returns the records to write and to remove.
    pub fn into_writes(self) -> impl Iterator<Item = Write> {
        let records = self.records.into_iter().map(|(id, record)| Write::Operation(id, record));
        let payloads = self.payloads.into_iter().map(|(id, payload)| Write::Payload(id, payload));
        records.chain(payloads)
    }
}
