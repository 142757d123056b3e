//! The slots of a cluster, and the keys of a command.

use std::ops::RangeInclusive;

use bellwether::store::redis::link::{SLOTS, slot_of};

use super::{Command, Text, command};

/// The number of a shard: a master with its replicas.
pub type ShardId = usize;

/// Which shard has each slot.
pub struct Slots(Vec<ShardId>);

impl Slots {
    /// Returns slots that are divided evenly.
    pub fn even(shards: usize) -> Slots {
        let count = usize::from(SLOTS);
        Slots((0..count).map(|slot| slot * shards / count).collect())
    }

    /// Returns the shard that has a slot.
    pub fn owner(&self, slot: u16) -> ShardId {
        self.0[usize::from(slot)]
    }

    /// Gives a slot to a shard.
    pub fn give(&mut self, slot: u16, to: ShardId) {
        self.0[usize::from(slot)] = to;
    }

    /// Returns the ranges of slots with their shards, as `CLUSTER SLOTS`.
    pub fn ranges(&self) -> Vec<(RangeInclusive<u16>, ShardId)> {
        let mut ranges: Vec<(RangeInclusive<u16>, ShardId)> = Vec::new();
        for (slot, &shard) in (0..SLOTS).zip(&self.0) {
            match ranges.last_mut() {
                Some((range, last)) if *last == shard => *range = *range.start()..=slot,
                _ => ranges.push((slot..=slot, shard)),
            }
        }
        ranges
    }
}

/// Returns the slot of a key.
pub fn slot(key: &[u8]) -> u16 {
    slot_of(&String::from_utf8_lossy(key))
}

/// Returns the keys of a command.
pub fn keys_of(command: &[Text]) -> Vec<&Text> {
    let Some((name, arguments)) = command.split_first() else { return Vec::new() };
    match name.to_ascii_uppercase().as_slice() {
        b"EVALSHA" => {
            let count = arguments.get(1).and_then(|count| std::str::from_utf8(count).ok());
            let count = count.and_then(|count| count.parse().ok()).unwrap_or_default();
            arguments.iter().skip(2).take(count).collect()
        }
        b"XREAD" => {
            let begin = arguments.iter().position(|word| word.eq_ignore_ascii_case(b"STREAMS"));
            let streams = &arguments[begin.map_or(arguments.len(), |at| at + 1)..];
            streams.iter().take(streams.len() / 2).collect()
        }
        b"DEL" | b"EXISTS" => arguments.iter().collect(),
        name if command::find(name).is_some() => arguments.iter().take(1).collect(),
        _ => Vec::new(),
    }
}

/// Returns the commands that write the keys of a slot again, as a migration does.
pub fn copy_of(keys: &super::data::Keyspace, of: u16) -> Vec<Command> {
    let moved = keys.iter().filter(|(key, _)| slot(key) == of);
    moved.flat_map(|(key, object)| object.commands(key)).collect()
}
