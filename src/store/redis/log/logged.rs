//! Reads the heads of a bucket, and the entries of its log.

use std::sync::Arc;

use redis::{Pipeline, Value};

use crate::domain::app::Head;
use crate::domain::revision::Revision;
use crate::domain::unit::presence::ReplicaId;
use crate::store::heads::{Heads, Watermarks};
use crate::store::redis::record::batch::decode_body;
use crate::store::redis::record::entry::{EntryId, field, read_entry};
use crate::store::redis::record::key::{Key, KeySpace};
use crate::store::redis::record::read::{app_from_text, bad_head, split_head};
use crate::store::redis::record::reply;
use crate::store::{Broadcast, Bucket, Change, KeptHead, PackedHead, Position, ReadError, codec};

use super::own::Own;
use super::unread::Unread;
use super::view::{BucketView, LogEntry};

/// Returns the commands that read all heads of a bucket and the end of its log, at one moment.
pub(super) fn ask_bucket(keys: &KeySpace, bucket: Bucket) -> Pipeline {
    let mut pipeline = redis::pipe();
    pipeline.cmd("MULTI");
    pipeline.cmd("HGETALL").arg(keys.name(Key::Heads(bucket)));
    let state = pipeline.cmd("HMGET").arg(keys.name(Key::State(bucket)));
    state.arg("last").arg("floor").arg("forgotten").arg("losses");
    let log = pipeline.cmd("XREVRANGE").arg(keys.name(Key::Log(bucket)));
    log.arg("+").arg("-").arg("COUNT").arg(1);
    pipeline.cmd("EXEC");
    pipeline
}

/// Parses the answer to [`ask_bucket`].
pub(super) fn read_bucket(bucket: Bucket, values: &[Value]) -> Result<BucketView, ReadError> {
    let [heads, state, log] = reply::transaction(values)?;
    let mut found = Vec::new();
    for (name, record) in reply::pairs(heads) {
        let app = reply::text(name).and_then(app_from_text);
        let app = app.ok_or_else(|| ReadError::Corrupt {
            record: format!("{name:?} among the heads of bucket {}", bucket.0),
            reason: "it is not a name".to_string(),
        })?;
        let (position, encoded) = split_head(&app, reply::bytes(record).unwrap_or_default())?;
        let (_, packed) = read_packed(encoded).map_err(|reason| bad_head(&app, reason))?;
        found.push((app, position, KeptHead::Packed(packed)));
    }
    let state: Vec<u64> =
        reply::items(state).iter().map(|v| reply::number(v).unwrap_or_default()).collect();
    let &[last, floor, forgotten, losses] = &*state else {
        return Err(ReadError::Unavailable { reason: "unexpected answer to HMGET".to_string() });
    };
    let marks = Watermarks {
        last: Position(last),
        revision_floor: Revision(floor),
        forgotten: Position(forgotten),
    };
    let cursor = reply::items(log).first().and_then(read_entry);
    Ok(BucketView {
        heads: Heads::restore(bucket, found, marks),
        cursor: cursor.map(|(id, _)| id).unwrap_or_default(),
        read_from: 0,
        losses: u32::try_from(losses).unwrap_or(u32::MAX),
        unread: Unread::default(),
    })
}

/// The content of a log entry.
pub(super) enum Logged {
    /// A change.
    Change(Box<LogEntry>),
    /// The bucket may have lost writes.
    DataLoss,
    /// A process has joined.
    Joined(EntryId, Option<ReplicaId>),
    /// A message that a process broadcast; `None` if this version does not understand it.
    Broadcast(EntryId, Option<Box<Broadcast>>),
}

/// Parses an entry of a log.
pub(super) fn read_logged(bucket: Bucket, entry: &Value, own: &Own) -> Result<Logged, ReadError> {
    let bad = |reason: String| ReadError::Corrupt {
        record: format!("entry of the log of bucket {}", bucket.0),
        reason,
    };
    let (id, fields) = read_entry(entry).ok_or_else(|| bad("it has no id".to_string()))?;
    if field(&fields, b"d").is_some() {
        return Ok(Logged::DataLoss);
    }
    if let Some(who) = field(&fields, b"j") {
        let who = std::str::from_utf8(who).ok().and_then(|id| u64::from_str_radix(id, 16).ok());
        return Ok(Logged::Joined(id, who.map(ReplicaId)));
    }
    if let Some(notice) = field(&fields, b"n") {
        // A message that cannot be decoded is of a newer version, and for servers of that version.
        return Ok(Logged::Broadcast(id, codec::decode(notice).ok().map(Box::new)));
    }
    let missing = |what: &str| bad(format!("it has no {what}"));
    let text = |name: &[u8]| std::str::from_utf8(field(&fields, name)?).ok();
    let number = |name: &[u8]| reply::parse(field(&fields, name)?);
    let app = text(b"a").and_then(app_from_text).ok_or_else(|| missing("application"))?;
    let position = Position(number(b"p").ok_or_else(|| missing("position"))?);
    let head = || {
        let bytes = field(&fields, b"h").ok_or_else(|| missing("head"))?;
        let (head, packed) = read_packed(bytes).map_err(bad)?;
        Ok::<_, ReadError>((Arc::new(head), Some(packed)))
    };
    let ours = text(b"w").and_then(|mark| own.get(mark, &app));
    let ((head, packed), transition) = match (ours, field(&fields, b"t")) {
        (Some(transition), _) => ((transition.head.clone(), None), Some(transition)),
        (None, None) => (head()?, None),
        (None, Some(body)) => {
            let head = head()?;
            let transition = decode_body(&app, &head.0, body).map_err(bad)?;
            (head, Some(Arc::new(transition)))
        }
    };
    let forgotten = number(b"f").zip(number(b"g"));
    Ok(Logged::Change(Box::new(LogEntry {
        id,
        change: Change { app, bucket, position, head, packed, transition },
        forgotten: forgotten.map(|(up_to, floor)| (Position(up_to), Revision(floor))),
    })))
}

/// Decodes a head, and packs it to be kept.
fn read_packed(encoded: &[u8]) -> Result<(Head, PackedHead), String> {
    let head = codec::decode::<Head>(encoded)?;
    let packed = PackedHead::of(&head, codec::body_of(encoded));
    Ok((head, packed))
}

/// Returns the id of a log entry, and the position of the change, if it is one.
pub(super) fn read_place(entry: &Value) -> Option<(EntryId, Option<Position>)> {
    let (id, fields) = read_entry(entry)?;
    Some((id, field(&fields, b"p").and_then(reply::parse).map(Position)))
}
