//! The leader's data of a draft.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::domain::model::bytes::Bytes;
use crate::domain::model::data::Data;
use crate::domain::model::transition::Write;

/// The data after a draft.
pub struct DataDraft<'a> {
    base: &'a Data,
    written: BTreeMap<Arc<str>, Option<Bytes>>,
}

impl<'a> DataDraft<'a> {
    pub fn new(base: &'a Data) -> DataDraft<'a> {
        DataDraft { base, written: BTreeMap::new() }
    }

    pub fn get(&self, key: &str) -> Option<&Bytes> {
        match self.written.get(key) {
            Some(value) => value.as_ref(),
            None => self.base.get(key),
        }
    }

    /// Writes and removes values.
    pub fn put(&mut self, changes: BTreeMap<Arc<str>, Option<Bytes>>) {
        self.written.extend(changes);
    }

    /// Returns the values to write and to remove.
    pub fn into_writes(self) -> impl Iterator<Item = Write> {
        self.written.into_iter().map(|(key, value)| Write::Data(key, value))
    }
}
