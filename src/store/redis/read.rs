//! Reads from Redis: one application, its history, the heads of a bucket, the log.

use std::sync::Arc;

use redis::{Pipeline, Value};

use crate::domain::app::Head;
use crate::domain::history::StatusEvent;
use crate::domain::name::AppName;
use crate::domain::replay::Records;
use crate::domain::revision::Revision;
use crate::domain::time::Timestamp;
use crate::domain::unit::presence::ReplicaId;
use crate::store::heads::{Heads, Watermarks};
use crate::store::key::Key as Record;
use crate::store::{
    Broadcast, Bucket, Budget, Change, NumberedEvent, Position, ReadError, Retention, Takeover,
    codec, merged,
};

use super::batch::{decode_body, event_id};
use super::block::{self, Blocks, Damaged, Field, Fold};
use super::entry::EntryId;
use super::key::{Key, KeySpace};
use super::reply;
use super::unread::Unread;
use super::view::{BucketView, LogEntry, MasterNote, Own};

/// Returns the commands that read all records of an application, as of one commit.
pub(super) fn ask_app(keys: &KeySpace, bucket: Bucket, app: &AppName) -> Pipeline {
    let mut pipeline = redis::pipe();
    pipeline.cmd("MULTI");
    pipeline.cmd("HGET").arg(keys.name(Key::Heads(bucket))).arg(app.to_string());
    let state = pipeline.cmd("HMGET").arg(keys.name(Key::State(bucket)));
    state.arg(&["floor", "losses", "master", "counts_above", "history"]);
    pipeline.cmd("HGETALL").arg(keys.name(Key::App(bucket, app)));
    pipeline.cmd("INFO").arg("replication");
    pipeline.cmd("EXEC");
    pipeline
}

/// An application as it was read.
pub(super) struct FoundApp {
    pub(super) records: Records,
    /// The loss count when its bucket last lost writes.
    pub(super) losses: u32,
    /// The note of its bucket; `None` if it is not of the serving master.
    pub(super) noted: Option<MasterNote>,
    /// Whether it has blocks of statuses.
    pub(super) has_blocks: bool,
}

/// Parses the answer to [`ask_app`].
pub(super) fn read_app(app: &AppName, values: &[Value]) -> Result<FoundApp, ReadError> {
    let [head, state, fields, replication] = reply::transaction(values)?;
    let number = |value: Option<&Value>| value.and_then(reply::number).unwrap_or_default();
    let state = reply::items(state);
    let losses = u32::try_from(number(state.get(1))).unwrap_or(u32::MAX);
    let noted = state.get(2..).and_then(|state| read_noted(state, replication));
    let mut records = Records::of_head(match reply::bytes(head) {
        Some(bytes) => read_head(app, bytes)?.1,
        None => Head::empty(Revision(number(state.first()))),
    });
    let (found, index) = block::newest(fields_of(fields)).map_err(|d| damaged(app, d))?;
    for (field, bytes) in found {
        let key = Record::record_from_field(app, field);
        let key = key.ok_or_else(|| Damaged::new(field, "its key is not known"));
        let key = key.map_err(|d| damaged(app, d))?;
        let bad = |reason| ReadError::Corrupt { record: key.to_string(), reason };
        codec::decode_into(&mut records, &key, bytes).map_err(bad)?;
    }
    // The same order as in every other store.
    records.units.sort_by(|a, b| a.0.cmp(&b.0));
    records.statuses.sort_by(|a, b| a.0.cmp(&b.0));
    records.faults.sort_by(|a, b| a.0.cmp(&b.0));
    records.operations.sort_by(|a, b| a.0.cmp(&b.0));
    records.payloads.sort_by(|a, b| a.0.cmp(&b.0));
    records.requests.sort_by(|a, b| a.0.cmp(&b.0));
    records.data.sort_by(|a, b| a.0.cmp(&b.0));
    records.epoch_floor = noted.as_ref().map(|note| note.epoch_floor).unwrap_or_default();
    Ok(FoundApp { records, losses, noted, has_blocks: index.is_some() })
}

/// Returns the fields of a hash as bytes.
fn fields_of(hash: &Value) -> impl Iterator<Item = Field<'_>> {
    let pairs = reply::pairs(hash).into_iter();
    let bytes = |value| reply::bytes(value).unwrap_or_default();
    pairs.map(move |(field, value)| (bytes(field), bytes(value)))
}

fn damaged(app: &AppName, Damaged { field, reason }: Damaged) -> ReadError {
    ReadError::Corrupt { record: format!("{field} of {app}"), reason }
}

/// Returns the commands that read the blocks of an index, and the single fields if statuses may be
/// among them, as of one commit.
pub(super) fn ask_blocks(
    keys: &KeySpace,
    bucket: Bucket,
    app: &AppName,
    index: &Blocks,
) -> Pipeline {
    let mut pipeline = redis::pipe();
    pipeline.cmd("MULTI");
    let state = pipeline.cmd("HMGET").arg(keys.name(Key::State(bucket)));
    state.arg("master").arg("counts_above").arg("history");
    let hash = keys.name(Key::App(bucket, app));
    match index.has_singles() {
        true => pipeline.cmd("HGETALL").arg(hash),
        false => pipeline.cmd("HMGET").arg(hash).arg(index.names().collect::<Vec<_>>()),
    };
    pipeline.cmd("INFO").arg("replication");
    pipeline.cmd("EXEC");
    pipeline
}

/// Parses the answer to [`ask_blocks`], and folds them. Returns `None` if the blocks of the index
/// are not there any more, or the bucket has no note of the serving master.
pub(super) fn read_fold(
    app: &AppName,
    index: &Blocks,
    values: &[Value],
) -> Result<Option<(MasterNote, Fold)>, ReadError> {
    let [state, fields, replication] = reply::transaction(values)?;
    let Some(note) = read_noted(reply::items(state), replication) else { return Ok(None) };
    let fold = match index.has_singles() {
        true => block::fold(index, fields_of(fields)),
        false => {
            let names: Vec<String> = index.names().collect();
            let values = reply::items(fields).iter().map(reply::bytes);
            let found = names.iter().zip(values);
            let found = found.filter_map(|(name, value)| Some((name.as_bytes(), value?)));
            block::fold(index, found)
        }
    };
    Ok(fold.map_err(|d| damaged(app, d))?.map(|fold| (note, fold)))
}

/// Returns the note of a bucket (master, epoch floor, history); `None` if it is not of the serving
/// master.
fn read_noted(state: &[Value], replication: &Value) -> Option<MasterNote> {
    let (master, note) = state.split_first()?;
    let master = reply::text(master)?;
    let mut lines = reply::info(replication).lines();
    let is_noted = lines.any(|line| line.strip_prefix("master_replid:") == Some(master));
    read_note(note).filter(|_| is_noted)
}

/// Parses the answer of `master.lua`: the note, and the masters of the bucket.
pub(super) fn read_master(values: &[Value]) -> Option<(MasterNote, Vec<Takeover>)> {
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

/// Returns the commands that read the own events of an application before a number, and the others,
/// newest first.
pub(super) fn ask_events(
    keys: &KeySpace,
    bucket: Bucket,
    app: &AppName,
    before: Option<u64>,
    count: u64,
) -> Pipeline {
    let mut pipeline = redis::pipe();
    for key in [Key::OwnEvents(bucket, app), Key::Events(bucket, app)] {
        let read = pipeline.cmd("XREVRANGE").arg(keys.name(key));
        match before {
            // Event `n` has the id `n + 1`, so the event before `before` has the id `before`.
            Some(before) => read.arg(before),
            None => read.arg("+"),
        };
        read.arg("-").arg("COUNT").arg(count);
    }
    pipeline
}

/// Parses the answer to [`ask_events`].
pub(super) fn read_events(
    app: &AppName,
    values: &[Value],
    retention: &Retention,
    count_max: usize,
    now: Timestamp,
) -> Result<Vec<NumberedEvent>, ReadError> {
    reply::check(values)?;
    let own = read_stream(app, values.first(), retention.budget(true), now)?;
    let others = read_stream(app, values.get(1), retention.budget(false), now)?;
    Ok(merged(own, others, count_max))
}

fn read_stream(
    app: &AppName,
    value: Option<&Value>,
    budget: Budget,
    now: Timestamp,
) -> Result<Vec<NumberedEvent>, ReadError> {
    let mut events = Vec::new();
    for entry in value.map(reply::items).unwrap_or_default() {
        let bad = |reason: &str| ReadError::Corrupt {
            record: format!("event of {app}"),
            reason: reason.to_string(),
        };
        let (id, fields) = read_entry(entry).ok_or_else(|| bad("it has no id"))?;
        let bytes = field(&fields, b"e").ok_or_else(|| bad("it is missing"))?;
        let event: StatusEvent = codec::decode(bytes).map_err(|reason| bad(&reason))?;
        if !budget.is_kept(event.time, now) {
            break;
        }
        events.push(NumberedEvent { number: id.0.saturating_sub(event_id(0)), event });
    }
    Ok(events)
}

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
        let (position, head) = read_head(&app, reply::bytes(record).unwrap_or_default())?;
        found.push((app, position, head));
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
pub(super) fn read_logged(
    bucket: Bucket,
    entry: &Value,
    writer: &str,
    own: &Own,
) -> Result<Logged, ReadError> {
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
        codec::decode::<Head>(bytes).map(Arc::new).map_err(bad)
    };
    let ours = text(b"w").and_then(|mark| mark.split_once(':')).filter(|(w, _)| *w == writer);
    let ours = ours.and_then(|(_, sequence)| own.get(sequence.parse().ok()?, &app));
    let (head, transition) = match (ours, field(&fields, b"t")) {
        (Some(transition), _) => (transition.head.clone(), Some(transition)),
        (None, None) => (head()?, None),
        (None, Some(body)) => {
            let head = head()?;
            let transition = decode_body(&app, &head, body).map_err(bad)?;
            (head, Some(Arc::new(transition)))
        }
    };
    let forgotten = number(b"f").zip(number(b"g"));
    Ok(Logged::Change(Box::new(LogEntry {
        id,
        change: Change { app, bucket, position, head, transition },
        forgotten: forgotten.map(|(up_to, floor)| (Position(up_to), Revision(floor))),
    })))
}

/// Returns the id of a log entry, and the position of the change, if it is one.
pub(super) fn read_place(entry: &Value) -> Option<(EntryId, Option<Position>)> {
    let (id, fields) = read_entry(entry)?;
    Some((id, field(&fields, b"p").and_then(reply::parse).map(Position)))
}

type RawFields<'a> = Vec<(&'a Value, &'a Value)>;

/// Returns the id of a stream entry, and its fields.
fn read_entry(entry: &Value) -> Option<(EntryId, RawFields<'_>)> {
    match reply::items(entry) {
        [id, fields] => Some((reply::text(id)?.parse().ok()?, reply::pairs(fields))),
        _ => None,
    }
}

fn field<'a>(fields: &RawFields<'a>, name: &[u8]) -> Option<&'a [u8]> {
    let (_, value) = fields.iter().find(|(key, _)| reply::bytes(key) == Some(name))?;
    reply::bytes(value)
}

/// Parses a head with the revision and position that precede it for the script.
fn read_head(app: &AppName, bytes: &[u8]) -> Result<(Position, Head), ReadError> {
    let bad = |reason: String| ReadError::Corrupt { record: format!("head of {app}"), reason };
    let mut parts = bytes.splitn(3, |byte| *byte == b' ').skip(1);
    let (Some(position), Some(head)) = (parts.next(), parts.next()) else {
        return Err(bad("it is cut off".to_string()));
    };
    let position = reply::parse(position).ok_or_else(|| bad("it has no position".to_string()))?;
    Ok((Position(position), codec::decode(head).map_err(bad)?))
}

fn app_from_text(text: &str) -> Option<AppName> {
    let (namespace, application) = text.split_once('/')?;
    AppName::new(namespace, application).ok()
}
