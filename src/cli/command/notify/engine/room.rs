//! The room for open problems: as many, and as many bytes, as the data of the leader hold.

use crate::cli::command::notify::hash::hash;

/// Shards of the stored state. Each is one value of the data.
pub const SHARDS: usize = 64;
/// Open pairs at most.
pub const PAIRS_MAX: usize = 20_000;
/// Bytes of a shard at most: a value of the data has 64 KiB.
const SHARD_BYTES_MAX: usize = 60 << 10;
/// Bytes of all shards at most: the data have 2 MiB.
const BYTES_MAX: usize = 1_900 << 10;
/// Bytes of a record besides its names: the numbers, and the lengths of the texts.
const RECORD_BYTES: usize = 73;

/// What names a stored record.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordName {
    /// The route.
    pub route: String,
    /// Its receiver.
    pub to: String,
    /// The namespace of the application.
    pub namespace: String,
    /// The application.
    pub application: String,
}

impl RecordName {
    /// Returns the shard of the record.
    pub fn shard(&self) -> usize {
        let texts = [&self.route, &self.to, &self.namespace, &self.application];
        (hash(&texts.map(String::as_str)) % SHARDS as u64) as usize
    }

    fn bytes(&self) -> usize {
        let texts = [&self.route, &self.to, &self.namespace, &self.application];
        RECORD_BYTES + texts.iter().map(|text| text.len()).sum::<usize>()
    }
}

/// The room that is left.
#[derive(Debug)]
pub struct Room {
    count_max: usize,
    count: usize,
    bytes: usize,
    shards: [usize; SHARDS],
}

impl Room {
    /// Creates an empty room for so many records.
    pub fn new(count_max: usize) -> Room {
        Room { count_max, count: 0, bytes: 0, shards: [0; SHARDS] }
    }

    /// Takes room for a record; returns whether there was enough. With `anyway` there is.
    pub fn take(&mut self, name: &RecordName, anyway: bool) -> bool {
        let (shard, bytes) = (name.shard(), name.bytes());
        let fits = self.count < self.count_max
            && self.bytes + bytes <= BYTES_MAX
            && self.shards[shard] + bytes <= SHARD_BYTES_MAX;
        if fits || anyway {
            self.count += 1;
            self.bytes += bytes;
            self.shards[shard] += bytes;
        }
        fits || anyway
    }

    /// Gives back the room of a record.
    pub fn free(&mut self, name: &RecordName) {
        let (shard, bytes) = (name.shard(), name.bytes());
        self.count -= 1;
        self.bytes -= bytes;
        self.shards[shard] -= bytes;
    }

    /// Returns the number of records.
    pub fn count(&self) -> usize {
        self.count
    }
}
