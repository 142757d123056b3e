//! The decoders of stored bytes, for the fuzz targets, which are in another crate.

use std::fmt::Debug;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::domain::app::Head;
use crate::domain::bytes::Bytes;
use crate::domain::fault::Fault;
use crate::domain::history::StatusEvent;
use crate::domain::mark::Mark;
use crate::domain::operation::Operation;
use crate::domain::request::Remembered;
use crate::domain::status::Status;
use crate::domain::transition::{MemoryOnly, Write};
use crate::domain::unit::Unit;

use super::codec::{Meta, decode, encode, encode_sealed};
use super::{Broadcast, Position};

/// The number of kinds of records.
pub const KINDS: u8 = 12;

/// Decodes bytes as a record of the kind `kind % KINDS`. Accepts bytes that contain no record.
///
/// # Panics
/// If the bytes contain a record, and the record changes when it is encoded and decoded again.
pub fn record(kind: u8, bytes: &[u8]) {
    match kind % KINDS {
        0 => decoded::<Unit>(bytes),
        1 => decoded::<Arc<Status>>(bytes),
        2 => decoded::<Arc<Fault>>(bytes),
        3 => decoded::<Remembered>(bytes),
        4 => decoded::<Arc<Operation>>(bytes),
        5 => decoded::<Bytes>(bytes),
        6 => decoded::<(Position, Head)>(bytes),
        7 => decoded::<StatusEvent>(bytes),
        8 => decoded::<Meta>(bytes),
        9 => decoded::<(Vec<Write>, MemoryOnly)>(bytes),
        10 => decoded::<Broadcast>(bytes),
        _ => decoded::<Arc<Mark>>(bytes),
    }
}

/// Returns a record with this body, the current format and the checksum of the body.
pub fn sealed(body: &[u8]) -> Vec<u8> {
    encode_sealed(body)
}

fn decoded<T: DeserializeOwned + Serialize + PartialEq + Debug>(bytes: &[u8]) {
    if let Ok(record) = decode::<T>(bytes) {
        assert_eq!(decode::<T>(&encode(&record)).as_ref(), Ok(&record));
    }
}
