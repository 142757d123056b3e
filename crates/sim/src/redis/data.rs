//! The keys of a server with their values.

use std::collections::BTreeMap;

use super::{Command, Text};

/// All keys of a server, in order, so that one seed gives one trace.
pub type Keyspace = BTreeMap<Text, Object>;

/// The value of a key.
#[derive(Debug, Clone, PartialEq)]
pub enum Object {
    /// Fields with values.
    Hash(BTreeMap<Text, Text>),
    /// Members by score.
    SortedSet(SortedSet),
    /// Entries by id.
    Stream(Stream),
}

impl Object {
    /// Returns the commands that write the value again.
    pub fn commands(&self, key: &[u8]) -> Vec<Command> {
        let begin = |name: &str| vec![name.as_bytes().to_vec(), key.to_vec()];
        let score =
            |(member, score): (&Text, &u64)| [score.to_string().into_bytes(), member.clone()];
        match self {
            Object::Hash(hash) => {
                let pairs = hash.iter().flat_map(|(field, value)| [field.clone(), value.clone()]);
                vec![begin("HSET").into_iter().chain(pairs).collect()]
            }
            Object::SortedSet(set) => {
                let pairs = set.members.iter().flat_map(score);
                vec![begin("ZADD").into_iter().chain(pairs).collect()]
            }
            Object::Stream(Stream { entries, last }) if entries.is_empty() => {
                let arguments = [b"MAXLEN".to_vec(), b"0".to_vec(), last.text()];
                let entry = [b"x".to_vec(), b"y".to_vec()];
                vec![begin("XADD").into_iter().chain(arguments).chain(entry).collect()]
            }
            Object::Stream(Stream { entries, .. }) => {
                let add = |(id, fields): (&EntryId, &Vec<Text>)| {
                    begin("XADD").into_iter().chain([id.text()]).chain(fields.clone()).collect()
                };
                entries.iter().map(add).collect()
            }
        }
    }
}

/// A sorted set.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SortedSet {
    /// The score of each member: those of the store are whole numbers.
    pub members: BTreeMap<Text, u64>,
}

impl SortedSet {
    /// Removes and returns the member with the lowest score; of equal ones, the first by name.
    pub fn pop_min(&mut self) -> Option<(Text, u64)> {
        let (member, score) =
            self.members.iter().min_by_key(|(member, score)| (**score, *member))?;
        let found = (member.clone(), *score);
        self.members.remove(&found.0);
        Some(found)
    }
}

/// The id of an entry of a stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct EntryId(pub u64, pub u64);

impl EntryId {
    /// The last one.
    pub const MAX: EntryId = EntryId(u64::MAX, u64::MAX);

    /// Parses an id; `sequence` is the second number of one that has only the first.
    pub fn parse(text: &[u8], sequence: u64) -> Option<EntryId> {
        match std::str::from_utf8(text).ok()? {
            "-" => Some(EntryId::default()),
            "+" => Some(EntryId::MAX),
            text => match text.split_once('-') {
                Some((time, sequence)) => Some(EntryId(time.parse().ok()?, sequence.parse().ok()?)),
                None => Some(EntryId(text.parse().ok()?, sequence)),
            },
        }
    }

    /// Returns the id as text.
    pub fn text(self) -> Text {
        format!("{}-{}", self.0, self.1).into_bytes()
    }
}

/// A stream.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Stream {
    /// The entries: fields and values, one after the other.
    pub entries: BTreeMap<EntryId, Vec<Text>>,
    /// The highest id ever.
    pub last: EntryId,
}

/// Another kind of value is stored.
#[derive(Debug)]
pub struct WrongKind;

/// A kind of value that a command works on.
pub trait Kind: Default {
    /// Returns the value, if it is of this kind.
    fn of(object: &mut Object) -> Option<&mut Self>;
    /// Returns it as the value of a key.
    fn into_object(self) -> Object;
    /// Returns whether the key of such a value is gone.
    fn is_empty(&self) -> bool;
}

macro_rules! kind {
    ($type:ty, $variant:ident, |$value:ident| $is_empty:expr) => {
        impl Kind for $type {
            fn of(object: &mut Object) -> Option<&mut Self> {
                match object {
                    Object::$variant(value) => Some(value),
                    _ => None,
                }
            }
            fn into_object(self) -> Object {
                Object::$variant(self)
            }
            fn is_empty(&self) -> bool {
                let $value = self;
                $is_empty
            }
        }
    };
}
kind!(BTreeMap<Text, Text>, Hash, |hash| hash.is_empty());
kind!(SortedSet, SortedSet, |set| set.members.is_empty());
// A stream without entries keeps its last id.
kind!(Stream, Stream, |_stream| false);

/// Reads the value of a key; without the key, an empty one.
pub fn read<K: Kind, T>(
    keys: &mut Keyspace,
    key: &[u8],
    look: impl FnOnce(&K) -> T,
) -> Result<T, WrongKind> {
    match keys.get_mut(key) {
        Some(object) => K::of(object).map(|value| look(value)).ok_or(WrongKind),
        None => Ok(look(&K::default())),
    }
}

/// Changes the value of a key, which is made if there is none, and removed if it is empty after.
pub fn change<K: Kind, T>(
    keys: &mut Keyspace,
    key: &[u8],
    change: impl FnOnce(&mut K) -> T,
) -> Result<T, WrongKind> {
    let object = keys.entry(key.to_vec()).or_insert_with(|| K::default().into_object());
    let value = K::of(object).ok_or(WrongKind)?;
    let done = change(value);
    if value.is_empty() {
        keys.remove(key);
    }
    Ok(done)
}
