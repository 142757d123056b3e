//! The stored state: records in 64 values of the data of an application. A record has its shard by
//! the hash of its name, so a change writes a small part.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context as _;
use bellwether_client::Client;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::cli::command::notify::engine::fact::Face;
use crate::cli::command::notify::engine::pair::{ChangeKind, Ending, Kind, Told};
use crate::cli::command::notify::engine::room::{RecordName, SHARDS};
use crate::domain::time::Timestamp;
use crate::proto::v1::{GetAppDataRequest, Level, UpdateAppDataRequest};

/// The first byte of a value: what follows is as [`Record`] says.
const FORMAT: u8 = 1;
/// Characters of a stored message.
const MESSAGE_MAX: usize = 200;

/// A record, in MessagePack.
#[derive(Serialize, Deserialize)]
struct Record {
    route: String,
    to: String,
    namespace: String,
    application: String,
    opened: u64,
    revision: u64,
    level: i32,
    winner: u32,
    action: u32,
    since: u64,
    /// The number of the kind that was attempted, from 1; 0: none.
    attempted: u8,
    message: String,
    acknowledged: u64,
}

/// The kinds in the order of their numbers.
const KINDS: [Kind; 7] = [
    Kind::Problem,
    Kind::Changed(ChangeKind::State),
    Kind::Changed(ChangeKind::AcknowledgementExpired),
    Kind::Resolved(Ending::Recovered),
    Kind::Resolved(Ending::Planned),
    Kind::Resolved(Ending::Deleted),
    Kind::Resolved(Ending::RouteGone),
];

/// The records, as they are stored, and who writes them.
#[derive(Debug)]
pub struct Shards {
    client: Client,
    namespace: String,
    application: String,
    unit: String,
    shards: Vec<BTreeMap<RecordName, Told>>,
}

impl Shards {
    /// Reads the records.
    ///
    /// # Errors
    /// The error of the server, and if a value was written by a newer version.
    pub async fn load(
        client: &Client,
        namespace: &str,
        application: &str,
        unit: &str,
    ) -> anyhow::Result<Shards> {
        let [namespace, application, unit] = [namespace, application, unit].map(str::to_string);
        let request = GetAppDataRequest {
            namespace: namespace.clone(),
            application: application.clone(),
            ..GetAppDataRequest::default()
        };
        let data = client.call(request).await?.app_data.unwrap_or_default().data;
        let mut shards = vec![BTreeMap::new(); SHARDS];
        for (number, shard) in shards.iter_mut().enumerate() {
            if let Some(value) = data.get(&key(number)) {
                *shard = decode(value).with_context(|| format!("the data {}", key(number)))?;
            }
        }
        Ok(Shards { client: client.clone(), namespace, application, unit, shards })
    }

    /// Returns all records.
    pub fn records(&self) -> Vec<(RecordName, Told)> {
        let all = self.shards.iter().flatten();
        all.map(|(name, told)| (name.clone(), told.clone())).collect()
    }

    /// Commits changes, all or none. It may be repeated if it fails.
    ///
    /// # Errors
    /// The error of the server.
    pub async fn save(
        &mut self,
        changes: &[(RecordName, Option<Told>)],
        lease_epoch: u64,
    ) -> Result<(), bellwether_client::Error> {
        let mut touched = BTreeSet::new();
        for (name, told) in changes {
            let shard = name.shard();
            touched.insert(shard);
            match told {
                Some(told) => drop(self.shards[shard].insert(name.clone(), told.clone())),
                None => drop(self.shards[shard].remove(name)),
            }
        }
        // An empty value deletes its key.
        let values = touched.into_iter().map(|shard| (key(shard), encode(&self.shards[shard])));
        let set: BTreeMap<String, Bytes> = values.collect();
        let request = UpdateAppDataRequest {
            namespace: self.namespace.clone(),
            application: self.application.clone(),
            unit: self.unit.clone(),
            lease_epoch,
            set,
            ..UpdateAppDataRequest::default()
        };
        self.client.call(request).await.map(drop)
    }
}

fn key(shard: usize) -> String {
    format!("open.{shard:02}")
}

fn encode(records: &BTreeMap<RecordName, Told>) -> Bytes {
    if records.is_empty() {
        return Bytes::new();
    }
    let records: Vec<Record> = records.iter().map(|(name, told)| record(name, told)).collect();
    let mut value = vec![FORMAT];
    // Numbers and texts can always be encoded.
    value.extend(rmp_serde::to_vec(&records).unwrap_or_default());
    Bytes::from(value)
}

fn decode(value: &[u8]) -> anyhow::Result<BTreeMap<RecordName, Told>> {
    let Some((&FORMAT, value)) = value.split_first() else {
        anyhow::bail!("a newer version has written it: start that version");
    };
    let records: Vec<Record> = rmp_serde::from_slice(value).context("it is damaged")?;
    Ok(records.into_iter().map(told).collect())
}

fn record(name: &RecordName, told: &Told) -> Record {
    let RecordName { route, to, namespace, application } = name.clone();
    let attempted = KINDS.iter().position(|kind| Some(*kind) == told.attempted);
    Record {
        route,
        to,
        namespace,
        application,
        opened: told.opened.millis(),
        revision: told.revision,
        level: told.face.level.into(),
        winner: told.face.winner,
        action: told.face.action,
        since: told.since.millis(),
        attempted: attempted.map_or(0, |place| 1 + place as u8),
        message: told.message.chars().take(MESSAGE_MAX).collect(),
        acknowledged: told.acknowledged,
    }
}

fn told(record: Record) -> (RecordName, Told) {
    let Record { route, to, namespace, application, level, winner, action, .. } = record;
    let level = Level::try_from(level).unwrap_or(Level::Unknown);
    let attempted = usize::from(record.attempted).checked_sub(1);
    let told = Told {
        opened: Timestamp::new(record.opened),
        revision: record.revision,
        face: Face { level, winner, action },
        since: Timestamp::new(record.since),
        attempted: attempted.and_then(|place| KINDS.get(place).copied()),
        message: record.message,
        acknowledged: record.acknowledged,
    };
    (RecordName { route, to, namespace, application }, told)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_name(application: &str) -> RecordName {
        let [route, to] = ["all", "ops"].map(str::to_string);
        RecordName { route, to, namespace: "prod".into(), application: application.into() }
    }

    fn mk_told(is_confirmed: bool) -> Told {
        Told {
            opened: Timestamp::new(1_000),
            revision: 7,
            face: Face { level: Level::Blocked, winner: 1, action: u32::MAX },
            since: Timestamp::new(900),
            attempted: Some(if is_confirmed { KINDS[6] } else { Kind::Problem }),
            message: if is_confirmed { String::new() } else { "no disk".into() },
            acknowledged: 5,
        }
    }

    #[test]
    fn a_shard_is_read_as_it_was_written() {
        let records: BTreeMap<_, _> =
            [(mk_name("db"), mk_told(true)), (mk_name("web"), mk_told(false))].into();
        let value = encode(&records);
        assert_eq!(decode(&value).unwrap(), records);
        assert!(encode(&BTreeMap::new()).is_empty());
    }

    #[test]
    fn a_shard_of_a_newer_version_and_a_damaged_one_are_refused() {
        let records = [(mk_name("db"), mk_told(true))].into();
        let value = encode(&records);
        let newer = [&[2], &value[1..]].concat();
        assert!(decode(&newer).unwrap_err().to_string().contains("newer version"));
        assert!(decode(&value[..value.len() - 3]).is_err());
    }

    #[test]
    fn a_record_takes_no_more_than_its_room() {
        let told = Told { message: "x".repeat(9_000), ..mk_told(false) };
        let full = encode(&[(mk_name("web"), told)].into()).len();
        assert!(full < MESSAGE_MAX + 120, "{full}");
        let confirmed = encode(&[(mk_name("web"), mk_told(true))].into()).len();
        assert!(confirmed < 73 + "allopsprodweb".len(), "{confirmed}");
    }
}
