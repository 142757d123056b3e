//! The state of a bucket: which master serves it, and what it has lost.

use std::sync::Arc;

use redis::{Cmd, Value};

use crate::domain::revision::Revision;
use crate::domain::time::Timestamp;
use crate::store::redis::script;
use crate::store::{Bucket, Position, Takeover};

use super::key::{Key, KeySpace};
use super::{LOG_ENTRIES, reply};

/// The note that a bucket has of its master; see `master.lua`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct MasterNote {
    pub(crate) epoch_floor: u64,
    /// The id of the history that the bucket's revisions and positions belong to. A bucket that was
    /// emptied and filled again has another one.
    pub(crate) history: Arc<str>,
}

/// Removes the notes of former masters from buckets, so that the commits after it in the pipeline
/// compare with a note of the serving master.
pub(crate) fn check_master(keys: &KeySpace, buckets: impl Iterator<Item = Bucket>) -> Cmd {
    let names: Vec<String> = buckets.map(|bucket| keys.name(Key::State(bucket))).collect();
    script::call(&script::COMMIT, &names)
}

/// Notes which master serves a bucket whose known note is `known`; see `master.lua`.
pub(crate) fn note_master(
    keys: &KeySpace,
    bucket: Bucket,
    known: Option<&MasterNote>,
    now: Timestamp,
) -> Cmd {
    let mut call = script::call(&script::MASTER, &[keys.name(Key::State(bucket))]);
    call.arg(known.map(|note| note.epoch_floor.to_string()).unwrap_or_default());
    call.arg(known.map(|note| &*note.history).unwrap_or_default()).arg(now.millis());
    call
}

/// Adds a data loss to the state and the log of a bucket; see `data_loss.lua`.
pub(crate) fn record_loss(
    keys: &KeySpace,
    bucket: Bucket,
    seen: u64,
    floor: Revision,
    losses: u32,
) -> Cmd {
    let names = [Key::State(bucket), Key::Log(bucket)].map(|key| keys.name(key));
    let mut call = script::call(&script::DATA_LOSS, &names);
    call.arg(seen).arg(floor.0).arg(losses).arg(LOG_ENTRIES);
    call
}

/// Returns the note of a bucket (master, epoch floor, history); `None` if it is not of the serving
/// master.
pub(crate) fn read_noted(state: &[Value], replication: &Value) -> Option<MasterNote> {
    let (master, note) = state.split_first()?;
    let master = reply::text(master)?;
    let mut lines = reply::info(replication).lines();
    let is_noted = lines.any(|line| line.strip_prefix("master_replid:") == Some(master));
    read_note(note).filter(|_| is_noted)
}

/// Parses the answer of `master.lua`: the note, and the masters of the bucket.
pub(crate) fn read_master(values: &[Value]) -> Option<(MasterNote, Vec<Takeover>)> {
    let (takeovers, note) = values.split_last()?;
    let takeovers = reply::text(takeovers)?.split_terminator(' ').map(|takeover| {
        let (epoch_floor, last) = takeover.split_once(':')?;
        Some(Takeover {
            epoch_floor: epoch_floor.parse().ok()?,
            last: Position(last.parse().ok()?),
        })
    });
    Some((read_note(note)?, takeovers.collect::<Option<Vec<_>>>()?))
}

/// Parses an epoch floor and a history.
fn read_note(values: &[Value]) -> Option<MasterNote> {
    let [epoch_floor, history] = values else { return None };
    Some(MasterNote {
        epoch_floor: reply::number(epoch_floor)?,
        history: reply::text(history)?.into(),
    })
}
