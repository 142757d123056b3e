//! Reads what a Redis has without a store, for a simulation that checks it.

use std::collections::{BTreeMap, BTreeSet};

use crate::domain::name::AppName;
use crate::domain::replay::Records;
use crate::domain::transition::Transition;
use crate::store::key::field_of;
use crate::store::{Bucket, Position, ReadError, codec};

use super::link::slot_of;
use super::record::key::{Key, KeySpace};
use super::record::layout::Prefix;
use super::record::{block, read};

/// The names of the keys of a store with the default prefix.
pub struct Keys(KeySpace);

impl Keys {
    /// Returns those of a store with so many buckets.
    pub fn new(buckets: u16) -> Keys {
        Keys(KeySpace::new(&Prefix::default(), buckets))
    }

    /// Returns the bucket of an application.
    pub fn bucket_of(&self, app: &AppName) -> Bucket {
        self.0.bucket_of(app)
    }

    /// Returns the hash of the heads of a bucket.
    pub fn heads(&self, bucket: Bucket) -> String {
        self.0.name(Key::Heads(bucket))
    }

    /// Returns the hash of the state of a bucket.
    pub fn state(&self, bucket: Bucket) -> String {
        self.0.name(Key::State(bucket))
    }

    /// Returns the hash of an application.
    pub fn app(&self, app: &AppName) -> String {
        self.0.name(Key::App(self.bucket_of(app), app))
    }

    /// Returns the slots of all keys in a cluster.
    pub fn slots(&self) -> BTreeSet<u16> {
        let of_store = [Key::Meta, Key::Replicas, Key::Clock].map(|key| self.0.name(key));
        let of_buckets = (0..self.0.buckets).map(|bucket| self.state(Bucket(bucket)));
        of_store.into_iter().chain(of_buckets).map(|key| slot_of(&key)).collect()
    }

    /// Returns the hash of the clock.
    pub fn clock(&self) -> String {
        self.0.name(Key::Clock)
    }
}

/// Returns the name of an application from a field of the heads.
pub fn app_of(field: &[u8]) -> Option<AppName> {
    read::app_from_text(std::str::from_utf8(field).ok()?)
}

/// Reads an application from its field of the heads and from the fields of its hash.
///
/// # Errors
///
/// If a record cannot be read.
pub fn read_app<'a>(
    app: &AppName,
    head: &[u8],
    fields: impl Iterator<Item = (&'a [u8], &'a [u8])>,
) -> Result<(Position, Records), ReadError> {
    let (position, head) = read::read_head(app, head)?;
    Ok((position, read::read_records(app, head, fields)?.0))
}

/// Returns the newest record of each field of an application, from a block or a single field;
/// nothing if the blocks are damaged.
pub fn newest<'a>(
    fields: impl Iterator<Item = (&'a [u8], &'a [u8])>,
) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let (found, _) = block::newest(fields).unwrap_or_default();
    found.into_iter().map(|(field, record)| (field.to_vec(), record.to_vec())).collect()
}

/// Returns the records that a transition writes, by their fields; `None` removes one.
pub fn writes(transition: &Transition) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
    let each = transition.writes.iter();
    each.map(|write| (field_of(write), codec::encode_write(write))).collect()
}
