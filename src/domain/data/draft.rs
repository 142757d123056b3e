//! The leader's data of a draft.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::domain::bytes::Bytes;
use crate::domain::data::Data;

/// The data after a draft.
pub(in crate::domain) struct DataDraft<'a> {
    base: &'a Data,
    written: BTreeMap<Arc<str>, Option<Bytes>>,
}

impl<'a> DataDraft<'a> {
    pub(in crate::domain) fn new(base: &'a Data) -> DataDraft<'a> {
        DataDraft { base, written: BTreeMap::new() }
    }

    pub(in crate::domain) fn get(&self, key: &str) -> Option<&Bytes> {
        match self.written.get(key) {
            Some(value) => value.as_ref(),
            None => self.base.get(key),
        }
    }

    /// Writes and removes values.
    pub(in crate::domain) fn put(&mut self, changes: BTreeMap<Arc<str>, Option<Bytes>>) {
        self.written.extend(changes);
    }

    /// Returns the values to write and to remove.
    pub(in crate::domain) fn into_writes(self) -> impl Iterator<Item = (Arc<str>, Option<Bytes>)> {
        self.written.into_iter()
    }
}
