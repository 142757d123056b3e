//! Changes of the tables as bytes. The log has them in this form, and the applier reads them from
//! the same bytes.
//!
//! Each operation is `[kind and table: u8][key length: u32 LE][key][length: u32 LE][value]`.

use crate::domain::time::Timestamp;

/// A table of the database. The numbers are on disk, so they must not change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum TableId {
    Meta = 0,
    Heads = 1,
    Records = 2,
    Events = 3,
}

impl TableId {
    const ALL: [TableId; 4] = [TableId::Meta, TableId::Heads, TableId::Records, TableId::Events];
}

/// One change of the tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Op<'a> {
    /// Sets the value of a key.
    Put(TableId, &'a [u8], &'a [u8]),
    /// Removes a key.
    Remove(TableId, &'a [u8]),
    /// Removes all keys of the application with this prefix.
    Clear(TableId, &'a [u8]),
    /// Removes old events.
    Trim(Trim<'a>),
}

/// The events to remove of one application.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Trim<'a> {
    /// The prefix of the application, or that of its own events.
    pub(super) prefix: &'a [u8],
    /// The lowest number to keep, among the events of this kind.
    pub(super) oldest: u64,
    /// The earliest time to keep.
    pub(super) cutoff: Timestamp,
}

const PUT: u8 = 0x10;
const REMOVE: u8 = 0x20;
const CLEAR: u8 = 0x30;
const TRIM: u8 = 0x40;

impl Op<'_> {
    /// Appends the operation.
    pub(super) fn write(&self, bytes: &mut Vec<u8>) {
        match *self {
            Op::Put(table, key, value) => write(bytes, PUT | table as u8, key, value),
            Op::Remove(table, key) => write(bytes, REMOVE | table as u8, key, &[]),
            Op::Clear(table, prefix) => write(bytes, CLEAR | table as u8, prefix, &[]),
            Op::Trim(Trim { prefix, oldest, cutoff }) => {
                let limits = [oldest, cutoff.millis()].map(u64::to_le_bytes);
                write(bytes, TRIM, prefix, limits.as_flattened());
            }
        }
    }
}

/// Appends an operation that sets a key to a value. The key is a prefix with what `key` appends. If
/// `value` returns `false`, the operation removes the key.
pub(super) fn append(
    bytes: &mut Vec<u8>,
    table: TableId,
    prefix: &[u8],
    key: impl FnOnce(&mut Vec<u8>),
    value: impl FnOnce(&mut Vec<u8>) -> bool,
) {
    let start = bytes.len();
    bytes.push(PUT | table as u8);
    append_part(bytes, |bytes| {
        bytes.extend_from_slice(prefix);
        key(bytes);
    });
    if !append_part(bytes, value) {
        bytes[start] = REMOVE | table as u8;
    }
}

/// # Panics
///
/// With a key or value of 4 GiB, which no limit allows.
fn append_part<T>(bytes: &mut Vec<u8>, part: impl FnOnce(&mut Vec<u8>) -> T) -> T {
    let start = bytes.len();
    bytes.extend_from_slice(&[0; size_of::<u32>()]);
    let appended = part(bytes);
    let length = bytes.len() - start - size_of::<u32>();
    let length = u32::try_from(length).expect("records are smaller than 4 GiB");
    bytes[start..][..size_of::<u32>()].copy_from_slice(&length.to_le_bytes());
    appended
}

fn write(bytes: &mut Vec<u8>, tag: u8, key: &[u8], value: &[u8]) {
    bytes.push(tag);
    for part in [key, value] {
        append_part(bytes, |bytes| bytes.extend_from_slice(part));
    }
}

/// The operations in some bytes, in order. After bytes that are not an operation comes `None`, and
/// [`rest`](Ops::rest) is not empty.
pub(super) struct Ops<'a>(&'a [u8]);

impl<'a> Ops<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Ops<'a> {
        Ops(bytes)
    }

    /// Returns the bytes that were not read.
    pub(super) fn rest(&self) -> &'a [u8] {
        self.0
    }
}

impl<'a> Iterator for Ops<'a> {
    type Item = Op<'a>;

    fn next(&mut self) -> Option<Op<'a>> {
        let (&tag, rest) = self.0.split_first()?;
        let (key, rest) = split_part(rest)?;
        let (value, rest) = split_part(rest)?;
        let table = *TableId::ALL.get(usize::from(tag & 0x0f))?;
        let op = match tag & 0xf0 {
            PUT => Op::Put(table, key, value),
            REMOVE => Op::Remove(table, key),
            CLEAR => Op::Clear(table, key),
            TRIM => {
                let (limits, _) = value.as_chunks::<8>();
                let &[oldest, cutoff] = limits else { return None };
                let (oldest, cutoff) = (u64::from_le_bytes(oldest), u64::from_le_bytes(cutoff));
                Op::Trim(Trim { prefix: key, oldest, cutoff: Timestamp::new(cutoff) })
            }
            _ => return None,
        };
        self.0 = rest;
        Some(op)
    }
}

fn split_part(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    rest.split_at_checked(usize::try_from(u32::from_le_bytes(*length)).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_appended_operation_is_one_with_key_and_value() {
        let key = |bytes: &mut Vec<u8>| bytes.extend_from_slice(b"ey");
        let mut bytes = b"before".to_vec();
        append(&mut bytes, TableId::Records, b"k", key, |bytes| {
            bytes.extend_from_slice(b"value");
            true
        });
        append(&mut bytes, TableId::Events, b"k", key, |_| false);
        let read: Vec<Op<'_>> = Ops::new(&bytes[b"before".len()..]).collect();
        let put = Op::Put(TableId::Records, b"key", b"value");
        assert_eq!(read, [put, Op::Remove(TableId::Events, b"key")]);
    }

    #[test]
    fn operations_are_read_as_written() {
        let trim = Trim { prefix: b"ns\0web\0", oldest: 7, cutoff: Timestamp::new(u64::MAX) };
        let ops = [
            Op::Put(TableId::Meta, b"store", b"value"),
            Op::Put(TableId::Heads, b"", b""),
            Op::Remove(TableId::Records, b"key"),
            Op::Clear(TableId::Events, b"ns\0web\0"),
            Op::Trim(trim),
        ];
        let mut bytes = Vec::new();
        ops.iter().for_each(|op| op.write(&mut bytes));
        let mut read = Ops::new(&bytes);
        assert_eq!(read.by_ref().collect::<Vec<_>>(), ops);
        assert!(read.rest().is_empty());
        for end in 0..bytes.len() {
            let mut cut = Ops::new(&bytes[..end]);
            let count = cut.by_ref().count();
            assert!(count < ops.len());
            assert!(
                cut.rest().is_empty()
                    == ops[..count]
                        .iter()
                        .fold(0, |n, op| {
                            let mut one = Vec::new();
                            op.write(&mut one);
                            n + one.len()
                        })
                        .eq(&end)
            );
        }
        for tag in [0x04, 0x14, 0x50, 0xff] {
            bytes[0] = tag;
            let mut wrong = Ops::new(&bytes);
            assert_eq!(wrong.next(), None);
            assert_eq!(wrong.rest().len(), bytes.len());
        }
    }
}
