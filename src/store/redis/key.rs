//! Every key there is in Redis, with its owner and life. `docs/FORMAT.md` says the same for people.
//!
//! All keys of a bucket have its hash tag (`{b07}`), so a script may touch them together, also in a
//! Cluster. No key has a time to live: Redis never decides that something is over.

use std::fmt;

use crate::domain::name::AppName;
use crate::store::Bucket;

/// Names one key.
#[derive(Debug, Clone, Copy)]
pub(super) enum Key<'a> {
    /// One per store, made at the first start and never removed: `bw:meta`, a hash of `format`,
    /// `buckets`, `store_id` (hexadecimal) and `losses`.
    Meta,
    /// One per store: `bw:replicas`, a hash from each process that shares it (hexadecimal) to when
    /// it last said that it lives, in milliseconds. Who is silent for an hour is removed.
    Replicas,
    /// One per store: `bw:clock`, a hash of `behind` (microseconds by which the clock of Redis was
    /// behind the time of the store) and `since` (when, by that clock). Absent while it is right.
    Clock,
    /// One per bucket: `bw:{b07}:heads`, a hash from `<namespace>/<application>` to
    /// `<revision> <position> <head>`. Rewritten by each commit; tombstones stay until forgotten.
    Heads(Bucket),
    /// One per bucket: `bw:{b07}:state`, a hash of `last` (position given), `floor` (the highest
    /// revision of a forgotten tombstone), `forgotten` (the last position of one) and `losses`
    /// (the epoch in which the bucket was last doubted).
    State(Bucket),
    /// One per bucket: `bw:{b07}:log`, a stream of the changes, and of what processes tell each
    /// other beside them; trimmed: whoever falls behind reads the heads.
    Log(Bucket),
    /// One per bucket: `bw:{b07}:tombs`, a sorted set of the tombstones by position.
    Tombs(Bucket),
    /// One per application: `bw:{b07}:app:<namespace>/<application>`, a hash of its records, and
    /// in `w` who wrote last. Emptied by a deletion but for the answers that outlive it, removed
    /// with the tombstone.
    App(Bucket, &'a AppName),
    /// One per application: `bw:{b07}:events:<namespace>/<application>`, a stream of its history,
    /// where event `n` has the id `<n+1>-0`. Removed with the tombstone.
    Events(Bucket, &'a AppName),
}

/// The names of one store in a Redis that others may use too.
#[derive(Debug, Clone)]
pub(super) struct KeySpace {
    /// What every key begins with.
    prefix: String,
    /// For the whole life of the store.
    pub(super) buckets: u16,
}

impl KeySpace {
    pub(super) fn new(prefix: &str, buckets: u16) -> KeySpace {
        KeySpace { prefix: prefix.to_string(), buckets }
    }

    /// The key as Redis has it.
    pub(super) fn name(&self, key: Key<'_>) -> String {
        let prefix = &self.prefix;
        match key {
            Key::Meta => format!("{prefix}:meta"),
            Key::Replicas => format!("{prefix}:replicas"),
            Key::Clock => format!("{prefix}:clock"),
            Key::Heads(b) => format!("{prefix}:{}:heads", Tag(b)),
            Key::State(b) => format!("{prefix}:{}:state", Tag(b)),
            Key::Log(b) => format!("{prefix}:{}:log", Tag(b)),
            Key::Tombs(b) => format!("{prefix}:{}:tombs", Tag(b)),
            Key::App(b, app) => format!("{}{app}", self.app_prefix(b)),
            Key::Events(b, app) => format!("{}{app}", self.events_prefix(b)),
        }
    }

    /// What the key of each application begins with.
    pub(super) fn app_prefix(&self, bucket: Bucket) -> String {
        format!("{}:{}:app:", self.prefix, Tag(bucket))
    }

    /// What the key of each history begins with.
    pub(super) fn events_prefix(&self, bucket: Bucket) -> String {
        format!("{}:{}:events:", self.prefix, Tag(bucket))
    }

    /// The bucket of an application: CRC-32 of `<namespace>/<application>`, modulo their number.
    /// On disk, so it stays as it is.
    pub(super) fn bucket_of(&self, app: &AppName) -> Bucket {
        let hash = crc32fast::hash(app.to_string().as_bytes());
        let bucket = hash % u32::from(self.buckets);
        Bucket(u16::try_from(bucket).expect("a remainder is less than its modulus"))
    }
}

/// The hash tag of a bucket with its braces.
pub(super) struct Tag(pub(super) Bucket);

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{b{:02}}}", self.0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_buckets_stay_as_they_are_in_redis() {
        let keys = KeySpace::new("bw", 64);
        let app = AppName::new("", "web").unwrap();
        let b = Bucket(7);
        for (key, name) in [
            (Key::Meta, "bw:meta"),
            (Key::Replicas, "bw:replicas"),
            (Key::Clock, "bw:clock"),
            (Key::Heads(b), "bw:{b07}:heads"),
            (Key::State(b), "bw:{b07}:state"),
            (Key::Log(b), "bw:{b07}:log"),
            (Key::Tombs(b), "bw:{b07}:tombs"),
            (Key::App(b, &app), "bw:{b07}:app:default/web"),
            (Key::Events(b, &app), "bw:{b07}:events:default/web"),
        ] {
            assert_eq!(keys.name(key), name);
        }
        assert_eq!(keys.bucket_of(&app), Bucket(32));
        assert_eq!(KeySpace::new("bw", 1).bucket_of(&app), Bucket(0));
    }
}
