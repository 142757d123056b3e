//! The record of the store as a whole, created at the first start and checked at each connection.

use std::fmt;

use redis::{Cmd, Pipeline, Value};

use crate::store::redis::error::OpenError;
use crate::store::redis::link::Servers;
use crate::store::redis::script;
use crate::store::{Epoch, codec, random_store_id};

use super::key::{Key, KeySpace};
use super::layout::Layout;
use super::reply;

/// The record of the store as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Meta {
    format: u32,
    pub(crate) buckets: u16,
    pub(crate) epoch: Epoch,
}

/// Shows the record in one line.
impl fmt::Display for Meta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Meta { format, buckets, epoch } = self;
        write!(f, "format {format}, {buckets} buckets")?;
        match epoch.losses {
            0 => Ok(()),
            losses => write!(f, "; it has lost writes {losses} times"),
        }
    }
}

const FIELDS: [&str; 4] = ["format", "buckets", "store_id", "losses"];

/// Reads the record of the store as a whole, and creates it if it does not exist. Returns the keys
/// of the store.
pub(crate) async fn open(
    servers: &dyn Servers,
    layout: &Layout,
) -> Result<(KeySpace, Epoch), OpenError> {
    let keys = KeySpace::new(&layout.prefix, layout.buckets_of_new(servers.kind()));
    let key = keys.name(Key::Meta);
    let mut values = servers.run(&key, &ask(&keys)).await?;
    if read(&values, &key, layout.buckets)?.is_none() {
        values = servers.run(&key, &make(&keys, random_store_id())).await?;
    }
    match read(&values, &key, layout.buckets)? {
        Some(Meta { buckets, epoch, .. }) => Ok((KeySpace::new(&layout.prefix, buckets), epoch)),
        None => Err(OpenError::Unavailable { reason: format!("{key} is missing after a write") }),
    }
}

/// Returns the commands that read the record.
pub(crate) fn ask(keys: &KeySpace) -> Pipeline {
    let mut pipeline = redis::pipe();
    pipeline.cmd("HLEN").arg(keys.name(Key::Meta));
    pipeline.cmd("HMGET").arg(keys.name(Key::Meta)).arg(&FIELDS);
    pipeline
}

/// Returns the commands that create the missing fields and read the record.
fn make(keys: &KeySpace, store_id: u64) -> Pipeline {
    let mut pipeline = redis::pipe();
    let values = [
        u32::from(codec::FORMAT).to_string(),
        keys.buckets.to_string(),
        format!("{store_id:016x}"),
        0.to_string(),
    ];
    // The first of several replicas that start together sets all fields.
    pipeline.cmd("MULTI");
    for (field, value) in FIELDS.iter().zip(values) {
        pipeline.cmd("HSETNX").arg(keys.name(Key::Meta)).arg(field).arg(value);
    }
    pipeline.cmd("EXEC");
    pipeline.cmd("HMGET").arg(keys.name(Key::Meta)).arg(&FIELDS);
    pipeline
}

/// Returns the call that counts a data loss, unless another replica has counted one since the epoch
/// `seen`. [`read`] parses its answer.
pub(crate) fn count_loss(keys: &KeySpace, seen: Epoch) -> Cmd {
    let mut call = script::call(&script::EPOCH, &[keys.name(Key::Meta)]);
    call.arg(codec::FORMAT).arg(keys.buckets);
    call.arg(format!("{:016x}", seen.store_id)).arg(seen.losses);
    call
}

/// Parses the last of some answers about the record in `key`; `None` if it does not exist. `asked`
/// is the number of buckets that it must have, if any.
pub(crate) fn read(
    values: &[Value],
    key: &str,
    asked: Option<u16>,
) -> Result<Option<Meta>, OpenError> {
    let key = key.to_string();
    if let Some(error) = reply::error(values) {
        let reason = error.to_string();
        return Err(match error.code() {
            "WRONGTYPE" => OpenError::Foreign { key, reason },
            _ => OpenError::Unavailable { reason },
        });
    }
    let fields = values.last().map(reply::items).unwrap_or_default();
    let is_empty = !matches!(values, [Value::Int(1..), _]);
    // A hash with none of these fields belongs to another program.
    if is_empty && fields.iter().all(|field| matches!(field, Value::Nil)) {
        return Ok(None);
    }
    let read = || {
        let [format, buckets, store_id, losses] = fields else { return None };
        Some(Meta {
            format: reply::number(format)?.try_into().ok()?,
            buckets: reply::number(buckets)?.try_into().ok()?,
            epoch: Epoch {
                store_id: u64::from_str_radix(reply::text(store_id)?, 16).ok()?,
                losses: reply::number(losses)?.try_into().ok()?,
            },
        })
    };
    let meta = read().ok_or_else(|| OpenError::Foreign {
        key: key.clone(),
        reason: "its fields are not those of bellwether".to_string(),
    })?;
    let known = u32::from(codec::FORMAT);
    match meta {
        Meta { format: found, .. } if known < found => Err(OpenError::TooNew { key, found, known }),
        Meta { buckets: 0, .. } => {
            Err(OpenError::Foreign { key, reason: "a store has no 0 buckets".to_string() })
        }
        Meta { buckets: found, .. } => match asked.filter(|asked| *asked != found) {
            Some(asked) => Err(OpenError::OtherBuckets { key, found, asked }),
            None => Ok(Some(meta)),
        },
    }
}
