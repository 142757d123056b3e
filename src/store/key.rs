//! The keys of all records, with their owner, lifetime and place on disk.
//!
//! The prefix of an application is `namespace 00 application 00`. Names have no zero byte, so no
//! prefix is the start of another, and all records of an application in a table are one range.
//! Records are sorted by bytes; memory restores the natural order of units.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use redb::TableDefinition;

use crate::domain::fault::FaultKey;
use crate::domain::mark::MarkId;
use crate::domain::name::{AppName, OperationId, PartName, UnitName};
use crate::domain::status::{Kind, StatusKey};
use crate::domain::transition::{EventPlace, Write};

/// A table. The names of the tables and the bytes of the keys are on disk, so they must not change.
type Table = TableDefinition<'static, &'static [u8], &'static [u8]>;

/// The records of the store as a whole.
pub(super) const META: Table = TableDefinition::new("meta");
/// The head of each application. It is a table of its own because a start reads all heads and
/// nothing else.
pub(super) const HEADS: Table = TableDefinition::new("heads");
/// All other records of an application.
pub(super) const RECORDS: Table = TableDefinition::new("records");
/// The history of each application.
pub(super) const EVENTS: Table = TableDefinition::new("events");

/// The format of the database as a whole, LE u32. It is read and checked before any other record.
pub(super) const META_FORMAT: &[u8] = b"format";
/// The sequence of the last group of the log that the database has, LE u64, and the CRC-32 of the
/// store record beside it, LE u32.
pub(super) const META_APPLIED: &[u8] = b"applied";
/// The record of the store itself: [`Meta`](super::codec::Meta).
pub(super) const META_STORE: &[u8] = b"store";

const UNIT: u8 = b'u';
const STATUS: u8 = b's';
const FAULT: u8 = b'f';
const REQUEST: u8 = b'r';
const OPERATION: u8 = b'o';
const PAYLOAD: u8 = b'p';
const DATA: u8 = b'd';
const MARK: u8 = b'm';
/// The first byte of the key of an own event: no number of an event begins with it.
const OWN_EVENT: u8 = 0xff;

/// Capacity of a key without its application. Most keys fit, so they do not grow while they are
/// built.
const FIELD_BYTES: usize = 64;

/// The name of one record of an application.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Key {
    /// One per application, rewritten by each commit. After a deletion it is the tombstone until
    /// that is pruned. `heads`: prefix.
    Head(AppName),
    /// One per unit, until the unit is removed. `records`: prefix `u` unit.
    Unit(AppName, UnitName),
    /// One per status, until it is cleared or its unit removed. `records`: prefix `s` unit `00`
    /// component `00` key `00` kind, where kind is `0` for pull and `1` for push.
    Status(AppName, Arc<StatusKey>),
    /// One per open fault, until it is resolved or its unit removed. `records`: prefix `f` unit
    /// `00` component `00` target.
    Fault(AppName, Arc<FaultKey>),
    /// One per request id, until there are too many. A deletion writes one too, which is removed
    /// with the tombstone. `records`: prefix `r` id.
    Request(AppName, Arc<str>),
    /// One per operation, until there are too many or it is too old. The record that a deletion
    /// leaves is removed with the tombstone. `records`: prefix `o` id.
    Operation(AppName, OperationId),
    /// One per operation whose payload is stored here, until the operation is done. `records`:
    /// prefix `p` id.
    Payload(AppName, OperationId),
    /// One per key of the leader's data, until the key is deleted. `records`: prefix `d` key.
    Data(AppName, Arc<str>),
    /// One per mark, until it ends. `records`: prefix `m` id.
    Mark(AppName, MarkId),
    /// One per event, never rewritten, until it is too old or there are too many. Outlives the
    /// application for as long as the tombstone exists. `events`: prefix, `ff` if the event is the
    /// application's own, its number among those of its kind, and the number of earlier events of
    /// the other kind unless that is 0, each BE u64.
    Event(AppName, EventPlace),
}

impl Key {
    /// Parses a key of `records` without the prefix of the application.
    pub(super) fn record_from_field(app: &AppName, rest: &[u8]) -> Option<Key> {
        let app = app.clone();
        let (tag, rest) = rest.split_first()?;
        match *tag {
            UNIT => Some(Key::Unit(app, unit(text(rest)?)?)),
            STATUS => {
                let (unit_bytes, rest) = split_part(rest)?;
                let (component, rest) = split_part(rest)?;
                let (key, rest) = split_part(rest)?;
                let kind = match rest {
                    b"0" => Kind::Pull,
                    b"1" => Kind::Push,
                    _ => return None,
                };
                let component = PartName::new(component).ok()?;
                let key = PartName::new(key).ok()?;
                let key = StatusKey::new(unit(unit_bytes)?, component, key, kind);
                Some(Key::Status(app, Arc::new(key)))
            }
            FAULT => {
                let (unit_bytes, rest) = split_part(rest)?;
                let (component, target) = split_part(rest)?;
                let key = FaultKey {
                    unit: unit(unit_bytes)?,
                    component: PartName::new(component).ok()?,
                    target: Arc::from(text(target)?),
                };
                Some(Key::Fault(app, Arc::new(key)))
            }
            REQUEST => Some(Key::Request(app, Arc::from(text(rest)?))),
            OPERATION => Some(Key::Operation(app, OperationId::new(text(rest)?).ok()?)),
            PAYLOAD => Some(Key::Payload(app, OperationId::new(text(rest)?).ok()?)),
            DATA => Some(Key::Data(app, Arc::from(text(rest)?))),
            MARK => Some(Key::Mark(app, Arc::from(text(rest)?))),
            _ => None,
        }
    }
}

/// Returns the application of a key of `heads`.
pub(super) fn app_of_head(bytes: &[u8]) -> Option<AppName> {
    let (app, rest) = split_app(bytes)?;
    rest.is_empty().then_some(app)
}

/// Returns the place of the event with a key of `events`.
pub(super) fn event_place(bytes: &[u8]) -> Option<EventPlace> {
    let (_, rest) = split_app(bytes)?;
    let (is_own, rest) = match rest {
        [OWN_EVENT, rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    let (rank, others) = match rest.as_chunks::<8>() {
        ([rank], []) => (*rank, [0; 8]),
        ([rank, others], []) if *others != [0; 8] => (*rank, *others),
        _ => return None,
    };
    let (rank, others) = (u64::from_be_bytes(rank), u64::from_be_bytes(others));
    Some(EventPlace { number: rank.checked_add(others)?, is_own, rank })
}

/// Returns the prefix of all keys of an application, which is its key in `heads`.
pub(super) fn prefix_of(app: &AppName) -> Vec<u8> {
    let (namespace, application) = (app.namespace(), app.application());
    let mut bytes = Vec::with_capacity(namespace.len() + application.len() + 2);
    for part in [namespace, application] {
        bytes.extend_from_slice(part.as_bytes());
        bytes.push(0);
    }
    bytes
}

/// Returns the range of all records of an application in `records` or `events`.
pub(super) fn range_of(app: &AppName) -> Range<Vec<u8>> {
    range_of_prefix(&prefix_of(app))
}

/// Returns the range of all keys with the prefix of an application.
pub(super) fn range_of_prefix(prefix: &[u8]) -> Range<Vec<u8>> {
    let start = prefix.to_vec();
    let mut end = start.clone();
    // The prefix ends with a zero byte, so the smallest key after the range ends with a one
    // instead.
    if let Some(last) = end.last_mut() {
        *last = 1;
    }
    start..end
}

/// Returns the range of the own events of the application with a prefix, or of the others.
pub(super) fn range_of_events(prefix: &[u8], is_own: bool) -> Range<Vec<u8>> {
    let Range { start, end } = range_of_prefix(prefix);
    let own = own_events(prefix);
    if is_own { own..end } else { start..own }
}

/// Returns the prefix of the own events of the application with a prefix.
pub(super) fn own_events(prefix: &[u8]) -> Vec<u8> {
    [prefix, &[OWN_EVENT]].concat()
}

/// Splits the prefix of events into that of the application, and whether it is that of own events.
pub(super) fn split_own(prefix: &[u8]) -> (&[u8], bool) {
    prefix.strip_suffix(&[OWN_EVENT]).map_or((prefix, false), |prefix| (prefix, true))
}

/// Appends the place of an event, which completes its key after the prefix of its application.
pub(super) fn append_event(bytes: &mut Vec<u8>, place: EventPlace) {
    if place.is_own {
        bytes.push(OWN_EVENT);
    }
    bytes.extend_from_slice(&place.rank.to_be_bytes());
    let others = place.number.saturating_sub(place.rank);
    if others != 0 {
        bytes.extend_from_slice(&others.to_be_bytes());
    }
}

/// Returns the key without its application, for a store where each application has a place of its
/// own.
pub(super) fn field_of(write: &Write) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(FIELD_BYTES);
    append_field(&mut bytes, write);
    bytes
}

/// Returns whether a key without its application is that of a status.
pub(super) fn is_status(field: &[u8]) -> bool {
    field.first() == Some(&STATUS)
}

/// Appends the key of a write without its application.
pub(super) fn append_field(bytes: &mut Vec<u8>, write: &Write) {
    match write {
        Write::Unit(unit, _) => push(bytes, UNIT, [], unit.as_str()),
        Write::Status(key, _) => {
            let kind = match key.kind {
                Kind::Pull => "0",
                Kind::Push => "1",
            };
            let parts = [key.unit.as_str(), key.component.as_str(), key.key.as_str()];
            push(bytes, STATUS, parts, kind);
        }
        Write::Fault(key, _) => {
            push(bytes, FAULT, [key.unit.as_str(), key.component.as_str()], &key.target);
        }
        Write::Request(id, _) => push(bytes, REQUEST, [], id),
        Write::Operation(id, _) => push(bytes, OPERATION, [], id.as_str()),
        Write::Payload(id, _) => push(bytes, PAYLOAD, [], id.as_str()),
        Write::Data(key, _) => push(bytes, DATA, [], key),
        Write::Mark(id, _) => push(bytes, MARK, [], id),
    }
}

/// Appends the tag, then names that each end with a zero byte, then a last part that may contain
/// one.
fn push<const N: usize>(bytes: &mut Vec<u8>, tag: u8, names: [&str; N], last: &str) {
    bytes.push(tag);
    for name in names {
        bytes.extend_from_slice(name.as_bytes());
        bytes.push(0);
    }
    bytes.extend_from_slice(last.as_bytes());
}

fn split_app(bytes: &[u8]) -> Option<(AppName, &[u8])> {
    let (namespace, rest) = split_part(bytes)?;
    let (application, rest) = split_part(rest)?;
    Some((AppName::new(namespace, application).ok()?, rest))
}

fn split_part(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let end = bytes.iter().position(|b| *b == 0)?;
    Some((text(&bytes[..end])?, &bytes[end + 1..]))
}

fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}

fn unit(text: &str) -> Option<UnitName> {
    match text {
        "" => Some(UnitName::application()),
        text => UnitName::new(text).ok(),
    }
}

/// Shows the key in words.
impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Key::Head(app) => write!(f, "head of {app}"),
            Key::Unit(app, unit) => write!(f, "unit {unit} of {app}"),
            Key::Status(app, key) => {
                let StatusKey { unit, component, key, kind, .. } = &**key;
                let (component, key) = (component.as_str(), key.as_str());
                write!(f, "{kind:?} status ({unit}, {component}, {key}) of {app}")
            }
            Key::Fault(app, key) => {
                let FaultKey { unit, component, target } = &**key;
                write!(f, "fault ({unit}, {}, {target}) of {app}", component.as_str())
            }
            Key::Request(app, id) => write!(f, "request {id:?} of {app}"),
            Key::Operation(app, id) => write!(f, "operation {id} of {app}"),
            Key::Payload(app, id) => write!(f, "payload of operation {id} of {app}"),
            Key::Data(app, key) => write!(f, "data {key:?} of {app}"),
            Key::Mark(app, id) => write!(f, "mark {id:?} of {app}"),
            Key::Event(app, place) => write!(f, "event {} of {app}", place.number),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    impl Key {
        /// Returns the bytes of the key in its table.
        pub(in crate::store) fn to_bytes(&self) -> Vec<u8> {
            let (app, write) = match self {
                Key::Head(app) => return prefix_of(app),
                Key::Event(app, place) => {
                    let mut bytes = prefix_of(app);
                    append_event(&mut bytes, *place);
                    return bytes;
                }
                Key::Unit(app, unit) => (app, Write::Unit(unit.clone(), None)),
                Key::Status(app, key) => (app, Write::Status(key.clone(), None)),
                Key::Fault(app, key) => (app, Write::Fault(key.clone(), None)),
                Key::Request(app, id) => (app, Write::Request(id.clone(), None)),
                Key::Operation(app, id) => (app, Write::Operation(id.clone(), None)),
                Key::Payload(app, id) => (app, Write::Payload(id.clone(), None)),
                Key::Data(app, key) => (app, Write::Data(key.clone(), None)),
                Key::Mark(app, id) => (app, Write::Mark(id.clone(), None)),
            };
            [prefix_of(app), field_of(&write)].concat()
        }
    }

    const NAME: &str = "[a-zA-Z0-9][a-zA-Z0-9._-]{0,12}";
    const PART: &str = "([a-zA-Z0-9][a-zA-Z0-9._/-]{0,12})?";

    fn mk_app() -> impl Strategy<Value = AppName> {
        (NAME, NAME).prop_map(|(namespace, name)| AppName::new(&namespace, &name).unwrap())
    }

    fn mk_status_key() -> impl Strategy<Value = StatusKey> {
        let parts = (PART, PART, PART, any::<bool>());
        parts.prop_map(|(of, component, key, push)| {
            let part = |text: &str| PartName::new(text).unwrap();
            let kind = if push { Kind::Push } else { Kind::Pull };
            StatusKey::new(unit(&of).unwrap(), part(&component), part(&key), kind)
        })
    }

    proptest! {
        #[test]
        fn keys_come_back(app in mk_app(), key in mk_status_key(), id in ".{1,20}", n: u64) {
            let head = Key::Head(app.clone());
            prop_assert_eq!(app_of_head(&head.to_bytes()).map(Key::Head), Some(head));
            for (others, is_own) in [(0, false), (7, false), (0, true), (n / 2, true)] {
                let (rank, number) = (n / 512, n / 512 + others);
                let place = EventPlace { number, is_own, rank };
                let bytes = Key::Event(app.clone(), place).to_bytes();
                prop_assert_eq!(event_place(&bytes), Some(place));
                prop_assert!(range_of(&app).contains(&bytes));
                let prefix = prefix_of(&app);
                prop_assert!(range_of_events(&prefix, is_own).contains(&bytes));
                prop_assert!(!range_of_events(&prefix, !is_own).contains(&bytes));
            }
            let operation = OperationId::new("up-v2").unwrap();
            let id: Arc<str> = Arc::from(id);
            for record in [
                Key::Operation(app.clone(), operation.clone()),
                Key::Payload(app.clone(), operation),
                Key::Unit(app.clone(), key.unit.clone()),
                Key::Fault(app.clone(), Arc::new(FaultKey {
                    unit: key.unit.clone(),
                    component: key.component.clone(),
                    target: Arc::clone(&id),
                })),
                Key::Status(app.clone(), Arc::new(key)),
                Key::Request(app.clone(), Arc::clone(&id)),
                Key::Data(app.clone(), id),
            ] {
                let bytes = record.to_bytes();
                prop_assert!(range_of(&app).contains(&bytes));
                let field = &bytes[prefix_of(&app).len()..];
                prop_assert_eq!(Key::record_from_field(&app, field), Some(record));
            }
        }

        #[test]
        fn a_range_has_the_keys_of_one_application(
            app in mk_app(),
            other in mk_app(),
            key in mk_status_key(),
            n: u64,
        ) {
            prop_assume!(app != other);
            let status = Key::Status(other.clone(), Arc::new(key)).to_bytes();
            prop_assert!(!range_of(&app).contains(&status));
            let place = EventPlace { number: n, is_own: n % 2 == 0, rank: n };
            prop_assert!(!range_of(&app).contains(&Key::Event(other, place).to_bytes()));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
            app_of_head(&bytes);
            Key::record_from_field(&AppName::new("", "web").unwrap(), &bytes);
            event_place(&bytes);
        }
    }

    #[test]
    fn bytes_stay_as_they_are_on_disk() {
        let app = AppName::new("", "web").unwrap();
        let (unit, component) = (UnitName::new("web/0").unwrap(), PartName::new("db").unwrap());
        let key = StatusKey::new(unit, component, PartName::default(), Kind::Push);
        let fault = FaultKey {
            unit: key.unit.clone(),
            component: key.component.clone(),
            target: Arc::from("http://h:1/"),
        };
        for (key, bytes) in [
            (Key::Head(app.clone()), "default\0web\0"),
            (Key::Unit(app.clone(), key.unit.clone()), "default\0web\0uweb/0"),
            (Key::Status(app.clone(), Arc::new(key)), "default\0web\0sweb/0\0db\0\x001"),
            (Key::Fault(app.clone(), Arc::new(fault)), "default\0web\0fweb/0\0db\0http://h:1/"),
            (Key::Request(app.clone(), Arc::from("a b")), "default\0web\0ra b"),
            (Key::Operation(app.clone(), OperationId::new("v2").unwrap()), "default\0web\0ov2"),
            (Key::Payload(app.clone(), OperationId::new("v2").unwrap()), "default\0web\0pv2"),
            (Key::Data(app.clone(), Arc::from("a b")), "default\0web\0da b"),
        ] {
            assert_eq!(key.to_bytes(), bytes.as_bytes(), "{key}");
        }
        let place = |number, is_own, rank| EventPlace { number, is_own, rank };
        for (place, bytes) in [
            // As before the application's own events had keys of their own.
            (place(258, false, 258), &b"\0\0\0\0\0\0\x01\x02"[..]),
            (place(258, false, 256), b"\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\0\x02"),
            (place(258, true, 2), b"\xff\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\x01\0"),
        ] {
            let key = Key::Event(app.clone(), place).to_bytes();
            assert_eq!(key, [b"default\0web\0", bytes].concat(), "{place:?}");
        }
    }
}
