//! Records as bytes: `[format: u8][crc32 of the body: u32 LE][body: MessagePack, structs as
//! arrays]`.
//!
//! The newest format is written, and every shipped format is read. A field with a default may be
//! added at the end of a struct without a new format: a record without the field reads as the
//! default. Any other change of a record of the domain needs a new format. The old shape then stays
//! here as a struct that converts into the new one, and `tests/formats` keeps a database of each
//! format.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::domain::app::Head;
use crate::domain::fault::FaultKey;
use crate::domain::replay::Records;
use crate::domain::revision::Revision;
use crate::domain::status::StatusKey;
use crate::domain::time::Timestamp;
use crate::domain::transition::Write;

use super::key::Key;
use super::watermarks::Watermarks;
use super::{Epoch, Position};

/// The format that is written, of records and of the database as a whole.
pub(super) const FORMAT: u8 = 1;

const CRC: std::ops::Range<usize> = 1..5;
const BODY: usize = CRC.end;
/// Capacity of a record. Most statuses fit, so they do not grow while they are encoded.
pub(super) const RECORD_BYTES: usize = 160;
/// The MessagePack markers of an array of two and of an unsigned integer of eight bytes.
const ARRAY_OF_TWO: u8 = 0x92;
const UINT_64: u8 = 0xcf;
/// The place of the position in a head record.
const POSITION: std::ops::Range<usize> = BODY + 2..BODY + 10;

/// The record of the store as a whole, written with each commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "StoredMeta", into = "StoredMeta")]
pub(super) struct Meta {
    pub(super) epoch: Epoch,
    /// The latest time that the clock returned.
    pub(super) clock: Timestamp,
    pub(super) marks: Watermarks,
}

/// The record as it is stored: epoch, clock, last position, revision floor, last pruned position.
type StoredMeta = (Epoch, Timestamp, Position, Revision, Position);

impl From<StoredMeta> for Meta {
    fn from((epoch, clock, last, revision_floor, forgotten): StoredMeta) -> Meta {
        Meta { epoch, clock, marks: Watermarks { last, revision_floor, forgotten } }
    }
}

impl From<Meta> for StoredMeta {
    fn from(Meta { epoch, clock, marks }: Meta) -> StoredMeta {
        (epoch, clock, marks.last, marks.revision_floor, marks.forgotten)
    }
}

/// Returns a record as bytes.
pub(super) fn encode<T: Serialize + ?Sized>(record: &T) -> Vec<u8> {
    encode_sized(record, RECORD_BYTES)
}

/// Returns a write as bytes, or `None` if it removes the record.
pub(super) fn encode_write(write: &Write) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(RECORD_BYTES);
    append_write(&mut bytes, write).then_some(bytes)
}

/// Appends a write as bytes, and returns `true`. Appends nothing if it removes the record.
pub(super) fn append_write(bytes: &mut Vec<u8>, write: &Write) -> bool {
    match write {
        Write::Unit(_, unit) => append_some(bytes, unit.as_ref()),
        Write::Status(_, status) => append_some(bytes, status.as_deref()),
        Write::Fault(_, fault) => append_some(bytes, fault.as_deref()),
        Write::Request(_, answer) => append_some(bytes, answer.as_ref()),
        Write::Operation(_, operation) => append_some(bytes, operation.as_deref()),
        Write::Payload(_, payload) => append_some(bytes, payload.as_ref()),
        Write::Data(_, value) => append_some(bytes, value.as_ref()),
        Write::Mark(_, mark) => append_some(bytes, mark.as_deref()),
    }
}

/// Decodes a record of an application, and adds it to the others. A head and an event are none of
/// them.
pub(super) fn decode_into(records: &mut Records, key: &Key, bytes: &[u8]) -> Result<(), String> {
    match key {
        Key::Unit(_, name) => add(&mut records.units, name.clone(), bytes),
        Key::Status(_, key) => add(&mut records.statuses, StatusKey::clone(key), bytes),
        Key::Fault(_, key) => add(&mut records.faults, FaultKey::clone(key), bytes),
        Key::Request(_, id) => add(&mut records.requests, id.clone(), bytes),
        Key::Operation(_, id) => add(&mut records.operations, id.clone(), bytes),
        Key::Payload(_, id) => add(&mut records.payloads, id.clone(), bytes),
        Key::Data(_, name) => add(&mut records.data, name.clone(), bytes),
        Key::Mark(_, id) => add(&mut records.marks, id.clone(), bytes),
        Key::Head(_) | Key::Event(..) => Ok(()),
    }
}

fn add<K, V: DeserializeOwned>(
    records: &mut Vec<(K, V)>,
    key: K,
    bytes: &[u8],
) -> Result<(), String> {
    records.push((key, decode(bytes)?));
    Ok(())
}

fn append_some<T: Serialize>(bytes: &mut Vec<u8>, record: Option<&T>) -> bool {
    record.map(|record| append(bytes, record)).is_some()
}

/// Returns a record as bytes, with capacity for `size` bytes.
pub(super) fn encode_sized<T: Serialize + ?Sized>(record: &T, size: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(size);
    append(&mut bytes, record);
    bytes
}

/// Appends a record as bytes.
pub(super) fn append<T: Serialize + ?Sized>(bytes: &mut Vec<u8>, record: &T) {
    let start = bytes.len();
    bytes.resize(start + BODY, 0);
    write_body(bytes, record);
    seal(&mut bytes[start..]);
}

/// Returns the record in the bytes, or what is wrong with them.
pub(super) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    let (Some(&format), Some(crc), Some(body)) = (bytes.first(), bytes.get(CRC), bytes.get(BODY..))
    else {
        return Err(format!("it is cut off after {} bytes", bytes.len()));
    };
    if format != FORMAT {
        return Err(format!("it has format {format}, which is not known"));
    }
    if crc != checksum(body) {
        return Err("its checksum is wrong".to_string());
    }
    decode_body(body)
}

/// Returns the body of a record that was decoded.
pub(super) fn body_of(bytes: &[u8]) -> &[u8] {
    bytes.get(BODY..).unwrap_or_default()
}

/// Returns the record in a body, or what is wrong with it.
pub(super) fn decode_body<T: DeserializeOwned>(body: &[u8]) -> Result<T, String> {
    rmp_serde::from_slice(body).map_err(|e| e.to_string())
}

/// Returns a record as a body alone.
pub(super) fn encode_body<T: Serialize + ?Sized>(record: &T) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_body(&mut bytes, record);
    bytes
}

/// A head as bytes without its position, which is known only when the head is written. The writer
/// thread then adds the position and the checksum.
pub(super) struct HeadRecord(Vec<u8>);

impl HeadRecord {
    pub(super) fn encode(head: &Head) -> HeadRecord {
        let mut bytes = vec![0; POSITION.end];
        bytes[BODY] = ARRAY_OF_TWO;
        bytes[BODY + 1] = UINT_64;
        write_body(&mut bytes, head);
        HeadRecord(bytes)
    }

    /// Returns the record with its position.
    pub(super) fn at(mut self, position: Position) -> Vec<u8> {
        self.0[POSITION].copy_from_slice(&position.0.to_be_bytes());
        seal(&mut self.0);
        self.0
    }

    /// Returns the position and head in the bytes.
    pub(super) fn decode(bytes: &[u8]) -> Result<(Position, Head), String> {
        decode(bytes)
    }
}

/// Returns a record with this body.
#[cfg(any(test, feature = "testing"))]
pub(super) fn encode_sealed(body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; BODY];
    bytes.extend_from_slice(body);
    seal(&mut bytes);
    bytes
}

fn write_body<T: Serialize + ?Sized>(bytes: &mut Vec<u8>, record: &T) {
    rmp_serde::encode::write(bytes, record).expect("memory takes every record of the domain");
}

fn seal(bytes: &mut [u8]) {
    let crc = checksum(&bytes[BODY..]);
    bytes[0] = FORMAT;
    bytes[CRC].copy_from_slice(&crc);
}

fn checksum(body: &[u8]) -> [u8; 4] {
    crc32fast::hash(body).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use proptest::prelude::*;

    use crate::domain::history::{Cause, StatusEvent, Subject};
    use crate::domain::level::Level;
    use crate::domain::name::{PartName, UnitName};
    use crate::domain::policy::Policy;
    use crate::domain::status::damping::{Damped, Flapping, Reported};
    use crate::domain::status::flapping::Swings;
    use crate::domain::status::place::PlaceInSet;
    use crate::domain::status::report::{Details, Report};
    use crate::domain::status::{Freshness, Kind, Status};
    use crate::domain::summary::Totals;

    use super::*;

    fn mk_level() -> impl Strategy<Value = Level> {
        proptest::sample::select(Level::ALL.to_vec())
    }

    prop_compose! {
        fn mk_status()(
            level in mk_level(),
            words in [".{0,9}", ".{0,9}", ".{0,9}", ".{0,9}", ".{0,9}"],
            numbers: (i32, i32, u64, u64, Option<u64>),
            labels in proptest::collection::btree_map("[a-z]{1,5}", ".{0,5}", 0..4),
            ttl: Option<(u32, u16)>,
            stale: bool,
            held: Option<(bool, u32, Option<u64>)>,
        ) -> Status {
            let [message, short_message, reason, check, action] = words.map(String::into_boxed_str);
            let (priority, precedence, since, incarnation, seen) = numbers;
            let labels = labels.into_iter().map(|(k, v)| (k.into(), v.into())).collect();
            let ttl = ttl.map(|(seconds, nanos)| Duration::new(seconds.into(), nanos.into()));
            let details = Details {
                needs: Default::default(),
                since_unknown: stale,
                short_message, reason, check, action, priority, precedence, labels,
                end_after: ttl.filter(|_| stale),
            };
            let report = Report { level, message, ttl, ..Report::default() }.with(details);
            let said = Reported { report: report.clone().into(), observe_time: None, incarnation };
            let held = held.map(|(is_said, good_count, calm)| Damped {
                latest: is_said.then_some(said),
                good_count,
                flapping: calm.map(|calm| Flapping {
                    since: Timestamp::new(since),
                    calm_time: Timestamp::new(calm),
                }),
            });
            Status {
                report: Arc::new(report),
                observe_time: seen.map(Timestamp::new),
                since: Timestamp::new(since),
                update_time: Timestamp::new(since.wrapping_add(1)),
                expire_time: seen.map(Timestamp::new),
                incarnation,
                stale,
                expire_time_written: None,
                swings: Swings::default().then(stale),
                held: held.map(Box::new),
                place: PlaceInSet::NONE,
                while_stopping: stale,
                end_time: seen.map(Timestamp::new),
            }
        }
    }

    fn mk_head(revision: u64) -> Head {
        let mut head = Head::empty(Revision(revision));
        Arc::make_mut(&mut head.config).policy = Policy::Custom(Level::ALL);
        Arc::make_mut(&mut head.config).external_leader = Some(UnitName::new("web/0").unwrap());
        head.next_due = Some(Timestamp::new(revision));
        head
    }

    proptest! {
        #[test]
        fn statuses_come_back(status in mk_status()) {
            prop_assert_eq!(decode::<Status>(&encode(&status)), Ok(status));
        }

        #[test]
        fn events_come_back(number: u64, from in mk_level(), message: String) {
            let event = StatusEvent {
                time: Timestamp::new(number),
                revision: Revision(number),
                subject: Some(Subject {
                    unit: UnitName::new("web/0").unwrap(),
                    component: PartName::default(),
                    key: PartName::default(),
                    kind: Some(Kind::Push),
                    target: Box::default(),
                }),
                from: Some(from),
                to: None,
                message: message.into(),
                reason: "".into(),
                freshness: Freshness::Stale,
                cause: Cause::Expired,
                changes: Vec::new(),
            };
            prop_assert_eq!(decode::<StatusEvent>(&encode(&event)), Ok(event));
        }

        #[test]
        fn heads_come_back_at_their_position(revision: u64, position: u64) {
            let (head, position) = (mk_head(revision), Position(position));
            let bytes = HeadRecord::encode(&head).at(position);
            prop_assert_eq!(HeadRecord::decode(&bytes), Ok((position, head)));
        }

        #[test]
        fn a_flipped_bit_is_noticed(
            status in mk_status(),
            at: proptest::sample::Index,
            bit in 0..8u32,
        ) {
            let mut bytes = encode(&status);
            let at = at.index(bytes.len());
            bytes[at] ^= 1u8 << bit;
            prop_assert!(decode::<Status>(&bytes).is_err());
        }

        #[test]
        fn any_bytes_are_refused(bytes: Vec<u8>) {
            prop_assert!(decode::<Status>(&bytes).is_err());
            prop_assert!(HeadRecord::decode(&bytes).is_err());
        }
    }

    #[test]
    fn an_unreadable_record_is_an_error_with_its_cause() {
        let mut newer = encode("text");
        newer[0] = FORMAT + 1;
        let mut damaged = encode("text");
        damaged[BODY] ^= 1;
        for (bytes, said) in [
            (&newer[..], "format 2"),
            (&damaged, "checksum"),
            (&damaged[..3], "cut off after 3 bytes"),
        ] {
            let reason = decode::<String>(bytes).unwrap_err();
            assert!(reason.contains(said), "{reason}");
        }
    }

    #[test]
    fn a_record_from_before_a_level_is_read_and_one_of_a_later_level_is_refused() {
        type Counts<'a> = (u32, &'a [u32], u32, u32, &'a [u32], u32, u32, u32, u32, u32);
        let read = |levels: usize| {
            let units = [1, 2, 3, 4, 5, 6, 7, 8];
            let contributions = [8, 7, 6, 5, 4, 3, 2, 1];
            let counts: Counts<'_> =
                (9, &units[..levels], 1, 2, &contributions[..levels], 3, 4, 5, 6, 7);
            (encode(&counts), decode::<Totals>(&encode(&counts)))
        };
        let before = read(6).1.unwrap();
        assert_eq!(before.units_by_level, [1, 2, 3, 4, 5, 6, 0]);
        assert_eq!(before.contributions, [8, 7, 6, 5, 4, 3, 0]);
        assert_eq!((before.units, before.asking, before.faults), (9, 3, 6));
        let (bytes, now) = read(7);
        assert_eq!(encode(&now.unwrap()), bytes);
        assert!(read(8).1.unwrap_err().contains("a level of a later version"));
    }

    #[test]
    fn a_custom_policy_from_before_a_level_gets_its_place_from_juju() {
        #[derive(Serialize)]
        enum Stored {
            Custom(Vec<Level>),
        }
        let read = |order: &[Level]| decode::<Policy>(&encode(&Stored::Custom(order.to_vec())));
        let mut order: Vec<Level> = Level::ALL.to_vec();
        let whole = Policy::Custom(Level::ALL);
        assert_eq!(encode(&whole), encode(&Stored::Custom(order.clone())));
        assert_eq!(read(&order).unwrap(), whole);
        order.retain(|level| *level != Level::Maintenance);
        let Policy::Custom(completed) = read(&order).unwrap() else { panic!("not custom") };
        // After blocked, as in Juju's order.
        let place = |level| completed.iter().position(|l| *l == level).unwrap();
        assert_eq!(place(Level::Maintenance), place(Level::Blocked) + 1);
        order.extend([Level::Active; 3]);
        assert!(read(&order).is_err());
    }
}
