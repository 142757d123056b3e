//! The identity of a status, with its hash: a report looks its key up several times, and each time
//! in another map.

use std::hash::{BuildHasher, BuildHasherDefault, Hash, Hasher};
use std::sync::{Arc, LazyLock};

use indexmap::Equivalent;
use serde::{Deserialize, Serialize};

use crate::domain::model::name::{PartName, UnitName};
use crate::domain::model::status::Kind;

/// Identity of a status: at most one is stored for each key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "Parts")]
pub struct StatusKey {
    /// The unit.
    pub unit: UnitName,
    /// The component of the unit.
    pub component: PartName,
    /// The key within the component.
    pub key: PartName,
    /// How the status is updated.
    pub kind: Kind,
    /// The hash of the others. In four bytes, which lie where the alignment leaves a gap: a status
    /// takes no more memory for it.
    #[serde(skip)]
    hash: u32,
}

/// Seeded anew in each process, so that no client can choose keys that collide.
static SEED: LazyLock<foldhash::fast::RandomState> =
    LazyLock::new(foldhash::fast::RandomState::default);

fn hash_of(unit: &UnitName, component: &PartName, key: &PartName, kind: Kind) -> u32 {
    SEED.hash_one((unit, component, key, kind)) as u32
}

impl StatusKey {
    /// Returns the key of these parts.
    pub fn new(unit: UnitName, component: PartName, key: PartName, kind: Kind) -> StatusKey {
        let hash = hash_of(&unit, &component, &key, kind);
        StatusKey { unit, component, key, kind, hash }
    }

    /// Returns the least key of a unit: the start of its statuses.
    pub fn first_of(unit: &UnitName) -> StatusKey {
        StatusKey::first_in(unit, PartName::default())
    }

    /// Returns the least key of a component of a unit.
    pub(in crate::domain) fn first_in(unit: &UnitName, component: PartName) -> StatusKey {
        StatusKey::new(unit.clone(), component, PartName::default(), Kind::Pull)
    }
}

/// The key of a status that is looked up: a report of a known status copies none of its names.
#[derive(Clone, Copy)]
pub(in crate::domain) struct KeyParts<'k> {
    unit: &'k UnitName,
    component: &'k PartName,
    key: &'k PartName,
    kind: Kind,
    hash: u32,
}

impl<'k> KeyParts<'k> {
    pub(in crate::domain) fn new(
        unit: &'k UnitName,
        component: &'k PartName,
        key: &'k PartName,
        kind: Kind,
    ) -> KeyParts<'k> {
        KeyParts { unit, component, key, kind, hash: hash_of(unit, component, key, kind) }
    }

    /// Returns the key with this copy of the unit's name.
    pub(in crate::domain) fn with_name(self, unit: &UnitName) -> StatusKey {
        let KeyParts { component, key, kind, hash, .. } = self;
        let (component, key) = (component.clone(), key.clone());
        StatusKey { unit: unit.clone(), component, key, kind, hash }
    }

    pub(in crate::domain) fn unit(&self) -> &'k UnitName {
        self.unit
    }
}

impl Hash for KeyParts<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u32(self.hash);
    }
}

impl Equivalent<Arc<StatusKey>> for KeyParts<'_> {
    fn equivalent(&self, other: &Arc<StatusKey>) -> bool {
        self.hash == other.hash
            && self.key == &other.key
            && self.component == &other.component
            && self.unit == &other.unit
            && self.kind == other.kind
    }
}

/// The stored form: it has no hash.
#[derive(Deserialize)]
struct Parts {
    unit: UnitName,
    component: PartName,
    key: PartName,
    kind: Kind,
}

impl From<Parts> for StatusKey {
    fn from(Parts { unit, component, key, kind }: Parts) -> StatusKey {
        StatusKey::new(unit, component, key, kind)
    }
}

impl Hash for StatusKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u32(self.hash);
    }
}

/// The state of a map by [`StatusKey`]: it takes the hash that the key has.
pub(in crate::domain) type ByKey = BuildHasherDefault<KeptHash>;

/// Spreads the hash of a key over 64 bits.
#[derive(Default)]
pub(in crate::domain) struct KeptHash(u64);

/// 2^64 divided by the golden ratio.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

impl Hasher for KeptHash {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u32(u32::from(*byte)));
    }

    fn write_u32(&mut self, hash: u32) {
        self.0 = (self.0 ^ u64::from(hash)).wrapping_mul(SPREAD);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use std::hash::BuildHasher;

    use super::*;

    fn key(unit: &str, component: &str, key: &str, kind: Kind) -> StatusKey {
        let part = |text| PartName::new(text).unwrap();
        StatusKey::new(UnitName::new(unit).unwrap(), part(component), part(key), kind)
    }

    #[test]
    fn equal_keys_have_equal_hashes_and_others_have_others() {
        let keys = [
            key("web/0", "db", "primary", Kind::Pull),
            key("web/1", "db", "primary", Kind::Pull),
            key("web/0", "dbp", "rimary", Kind::Pull),
            key("web/0", "db", "replica", Kind::Pull),
            key("web/0", "db", "primary", Kind::Push),
        ];
        for (n, one) in keys.iter().enumerate() {
            assert_eq!(
                one.hash,
                key(one.unit.as_str(), one.component.as_str(), one.key.as_str(), one.kind).hash
            );
            let of_map = |key: &StatusKey| ByKey::default().hash_one(key);
            let is_same =
                |other: &&StatusKey| other.hash == one.hash || of_map(other) == of_map(one);
            assert_eq!(keys.iter().filter(is_same).count(), 1, "number {n}");
        }
    }

    #[test]
    fn parts_are_equivalent_to_their_key_alone() {
        let same = key("web/0", "db", "primary", Kind::Pull);
        let parts = KeyParts::new(&same.unit, &same.component, &same.key, same.kind);
        assert_eq!(parts.with_name(&same.unit), same);
        assert!(parts.equivalent(&Arc::new(same.clone())));
        let others = [
            key("web/1", "db", "primary", Kind::Pull),
            key("web/0", "dc", "primary", Kind::Pull),
            key("web/0", "db", "replica", Kind::Pull),
            key("web/0", "db", "primary", Kind::Push),
        ];
        for other in others {
            // Two keys may have the same hash.
            let other = Arc::new(StatusKey { hash: same.hash, ..other });
            assert!(!parts.equivalent(&other), "{other:?}");
        }
    }

    #[test]
    fn the_stored_form_has_no_hash() {
        let stored = serde_json::to_value(key("web/0", "db", "primary", Kind::Push)).unwrap();
        assert_eq!(stored.as_object().map(serde_json::Map::len), Some(4));
        let read: StatusKey = serde_json::from_value(stored).unwrap();
        assert_eq!(read, key("web/0", "db", "primary", Kind::Push));
    }

    #[test]
    fn a_hash_takes_no_memory() {
        struct WithoutHash(#[allow(dead_code)] (UnitName, PartName, PartName, Kind));
        assert_eq!(size_of::<StatusKey>(), size_of::<WithoutHash>());
    }
}
