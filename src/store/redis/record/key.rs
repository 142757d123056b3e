//! The keys in Redis, with their owner and lifetime. `docs/FORMAT.md` describes the same keys. The
//! names here have the default prefix, `bw`.
//!
//! All keys of a bucket have its hash tag (`{b07}`), so one script may touch them together, in a
//! Cluster too. No key has a ttl: Redis never decides that something is over.

use super::layout::Prefix;
use crate::domain::name::AppName;
use crate::store::Bucket;

/// The name of one key.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Key<'a> {
    /// One per store, created at the first start and never removed: `bw:meta`, a hash of `format`,
    /// `buckets`, `store_id` (hexadecimal) and `losses`.
    Meta,
    /// One per store: `bw:replicas`, a hash from each process that shares the store (hexadecimal)
    /// to the time of its last heartbeat, in milliseconds. A process that is silent for an hour is
    /// removed.
    Replicas,
    /// One per store: `bw:clock`, a hash of `behind` (microseconds by which the clock of Redis was
    /// behind the time of the store) and `since` (when, by that clock). Absent while the clock is
    /// right.
    Clock,
    /// One per bucket: `bw:{b07}:heads`, a hash from `<namespace>/<application>` to `<revision>
    /// <position> <head>`. Rewritten by each commit; tombstones stay until they are pruned.
    Heads(Bucket),
    /// One per bucket: `bw:{b07}:state`, a hash of `last` (the last position), `floor` (the highest
    /// revision of a pruned tombstone), `forgotten` (the last position of one), `keeps_until` (the
    /// second until which none is pruned), `losses` (the loss
    /// count when the bucket last lost writes), `master` and `counts_above` (the serving master
    /// and its epoch floor), `history` (the id of its history), `takeovers` (where each master
    /// began), and `confirmed` (no meaning).
    State(Bucket),
    /// One per bucket: `bw:{b07}:log`, a stream of its changes and of the messages that processes
    /// broadcast. It is trimmed; a process that falls too far behind reads the heads.
    Log(Bucket),
    /// One per bucket: `bw:{b07}:tombs`, a sorted set of the tombstones by position.
    Tombs(Bucket),
    /// One per application: `bw:{b07}:app:<namespace>/<application>`, a hash of its records, of `w`
    /// (its last writers and the processes that follow it), of `q` (its count of quiet commits),
    /// and of `g<number>` and `b` (blocks of statuses and their index). A deletion removes all but
    /// the answers to requests, `w` and `q`; the key is removed with the tombstone.
    App(Bucket, &'a AppName),
    /// One per application: `bw:{b07}:events:<namespace>/<application>`, a stream of its history,
    /// where event `n` has the id `<n+1>-0`. Removed with the tombstone.
    Events(Bucket, &'a AppName),
    /// One per application: `bw:{b07}:own:<namespace>/<application>`, the same for its own events.
    OwnEvents(Bucket, &'a AppName),
}

/// The names of the keys of one store, in a Redis that other programs may use too.
#[derive(Debug, Clone)]
pub(crate) struct KeySpace {
    /// The prefix of every key.
    prefix: String,
    /// The number of buckets, fixed for the whole life of the store.
    pub(crate) buckets: u16,
}

impl KeySpace {
    pub(crate) fn new(prefix: &Prefix, buckets: u16) -> KeySpace {
        KeySpace { prefix: prefix.to_string(), buckets }
    }

    /// Returns the key as Redis has it.
    pub(crate) fn name(&self, key: Key<'_>) -> String {
        let prefix = &self.prefix;
        match key {
            Key::Meta => format!("{prefix}:meta"),
            Key::Replicas => format!("{prefix}:replicas"),
            Key::Clock => format!("{prefix}:clock"),
            Key::Heads(b) => format!("{prefix}:{}:heads", tag(b)),
            Key::State(b) => format!("{prefix}:{}:state", tag(b)),
            Key::Log(b) => format!("{prefix}:{}:log", tag(b)),
            Key::Tombs(b) => format!("{prefix}:{}:tombs", tag(b)),
            Key::App(b, app) => format!("{}{app}", self.app_prefix(b)),
            Key::Events(b, app) => format!("{}{app}", self.events_prefix(b)),
            Key::OwnEvents(b, app) => format!("{}{app}", self.own_events_prefix(b)),
        }
    }

    /// Returns the prefix of the keys of applications.
    pub(crate) fn app_prefix(&self, bucket: Bucket) -> String {
        format!("{}:{}:app:", self.prefix, tag(bucket))
    }

    /// Returns the prefix of the keys of histories.
    pub(crate) fn events_prefix(&self, bucket: Bucket) -> String {
        format!("{}:{}:events:", self.prefix, tag(bucket))
    }

    /// Returns the prefix of the keys of own events.
    pub(crate) fn own_events_prefix(&self, bucket: Bucket) -> String {
        format!("{}:{}:own:", self.prefix, tag(bucket))
    }

    /// Returns the bucket of an application: CRC-32 of `<namespace>/<application>`, modulo the
    /// number of buckets. The stored data depends on it, so it must not change.
    pub(crate) fn bucket_of(&self, app: &AppName) -> Bucket {
        let hash = crc32fast::hash(app.to_string().as_bytes());
        let bucket = hash % u32::from(self.buckets);
        Bucket(u16::try_from(bucket).expect("a remainder is less than its modulus"))
    }
}

/// Returns the hash tag of a bucket with its braces.
pub(crate) fn tag(bucket: Bucket) -> String {
    format!("{{b{:02}}}", bucket.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_buckets_stay_as_they_are_in_redis() {
        let keys = KeySpace::new(&Prefix::default(), 64);
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
            (Key::OwnEvents(b, &app), "bw:{b07}:own:default/web"),
        ] {
            assert_eq!(keys.name(key), name);
            let other = KeySpace::new(&Prefix::parse("eu-1").unwrap(), 64);
            assert_eq!(other.name(key), name.replacen("bw", "eu-1", 1));
        }
        assert_eq!(keys.bucket_of(&app), Bucket(32));
        assert_eq!(KeySpace::new(&Prefix::default(), 1).bucket_of(&app), Bucket(0));
    }
}
