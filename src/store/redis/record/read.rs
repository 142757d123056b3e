//! Reads an application, its blocks and its history.

use redis::{Pipeline, Value};

use crate::domain::app::Head;
use crate::domain::history::StatusEvent;
use crate::domain::name::AppName;
use crate::domain::replay::Records;
use crate::domain::revision::Revision;
use crate::domain::time::Timestamp;
use crate::store::key::Key as Record;
use crate::store::{Bucket, Budget, NumberedEvent, Position, ReadError, Retention, codec, merged};

use super::batch::event_id;
use super::block::{self, Blocks, Damaged, Field, Fold};
use super::entry::{field, read_entry};
use super::key::{Key, KeySpace};
use super::reply;
use super::state::{MasterNote, read_noted};

/// Returns the commands that read all records of an application, as of one commit.
pub(crate) fn ask_app(keys: &KeySpace, bucket: Bucket, app: &AppName) -> Pipeline {
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
pub(crate) struct FoundApp {
    pub(crate) records: Records,
    /// The loss count when its bucket last lost writes.
    pub(crate) losses: u32,
    /// The note of its bucket; `None` if it is not of the serving master.
    pub(crate) noted: Option<MasterNote>,
    /// Whether it has blocks of statuses.
    pub(crate) has_blocks: bool,
}

/// Parses the answer to [`ask_app`].
pub(crate) fn read_app(app: &AppName, values: &[Value]) -> Result<FoundApp, ReadError> {
    let [head, state, fields, replication] = reply::transaction(values)?;
    let number = |value: Option<&Value>| value.and_then(reply::number).unwrap_or_default();
    let state = reply::items(state);
    let losses = u32::try_from(number(state.get(1))).unwrap_or(u32::MAX);
    let noted = state.get(2..).and_then(|state| read_noted(state, replication));
    let head = match reply::bytes(head) {
        Some(bytes) => read_head(app, bytes)?.1,
        None => Head::unknown(Revision(number(state.first()))),
    };
    let (mut records, index) = read_records(app, head, fields_of(fields))?;
    records.epoch_floor = noted.as_ref().map(|note| note.epoch_floor).unwrap_or_default();
    Ok(FoundApp { records, losses, noted, has_blocks: index.is_some() })
}

/// Decodes the fields of an application. Also returns the index of its blocks, if it has any.
pub(crate) fn read_records<'a>(
    app: &AppName,
    head: Head,
    fields: impl Iterator<Item = Field<'a>>,
) -> Result<(Records, Option<Blocks>), ReadError> {
    let mut records = Records::of_head(head);
    let (found, index) = block::newest(fields).map_err(|d| damaged(app, d))?;
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
    Ok((records, index))
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
pub(crate) fn ask_blocks(
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
pub(crate) fn read_fold(
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

/// Returns the commands that read the own events of an application before a number, and the others,
/// newest first.
pub(crate) fn ask_events(
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
pub(crate) fn read_events(
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

/// Parses a head with the revision and position that precede it for the script.
pub(crate) fn read_head(app: &AppName, bytes: &[u8]) -> Result<(Position, Head), ReadError> {
    let (position, head) = split_head(app, bytes)?;
    Ok((position, codec::decode(head).map_err(|reason| bad_head(app, reason))?))
}

/// Returns the position of a head, and its record.
pub(crate) fn split_head<'a>(
    app: &AppName,
    bytes: &'a [u8],
) -> Result<(Position, &'a [u8]), ReadError> {
    let mut parts = bytes.splitn(3, |byte| *byte == b' ').skip(1);
    let (Some(position), Some(head)) = (parts.next(), parts.next()) else {
        return Err(bad_head(app, "it is cut off".to_string()));
    };
    let position = reply::parse(position);
    let position = position.ok_or_else(|| bad_head(app, "it has no position".to_string()))?;
    Ok((Position(position), head))
}

/// Returns the error of a head that cannot be read.
pub(crate) fn bad_head(app: &AppName, reason: String) -> ReadError {
    ReadError::Corrupt { record: format!("head of {app}"), reason }
}

/// Parses the name of an application.
pub(crate) fn app_from_text(text: &str) -> Option<AppName> {
    let (namespace, application) = text.split_once('/')?;
    AppName::new(namespace, application).ok()
}
