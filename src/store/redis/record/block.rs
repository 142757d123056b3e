//! Blocks: the statuses that one commit writes or removes, in one field of the application's hash.
//!
//! A field costs Redis an argument, two objects and an entry of a table; a block is one field for
//! many statuses. `docs/FORMAT.md` describes a block. From its first block until its deletion, an
//! application has all writes of statuses in blocks, so a block is newer than every single field,
//! and than every block with a lower number. [`fold`] replaces blocks by fewer ones.

use std::collections::HashMap;

use crate::store::key::is_status;

use super::reply;

/// The minimum number of statuses that a commit writes as a block. A smaller one writes a block
/// only if its application has blocks.
pub(crate) const ENTRIES_MIN: usize = 16;
/// The number of entries in blocks, beside twice the statuses of the application, that are not
/// folded: an application with few statuses is not folded all the time.
const SLACK: u64 = 256;
/// The number of statuses in a block that a fold writes.
const FOLDED_ENTRIES: u64 = 1024;

/// The field that names the last writers.
const MARKS: &[u8] = b"w";
/// The field that counts the quiet commits.
const QUIET: &[u8] = b"q";
/// The field of the [`Blocks`].
const INDEX: &[u8] = b"b";
/// The first byte of the field of a block; its number follows.
const BLOCK: u8 = b'g';
/// The bytes that the two lengths of an entry usually take at most.
const LENGTHS_BYTES: usize = 8;
/// The length of the record of an entry that removes it.
const REMOVED: &[u8] = b"-";

/// A field of a hash, or a record in it, with its value.
pub(crate) type Field<'a> = (&'a [u8], &'a [u8]);
/// A field in a block, with its record; `None` if the entry removes it.
type Written<'a> = (&'a [u8], Option<&'a [u8]>);
type Newest<'a> = HashMap<&'a [u8], Option<&'a [u8]>, foldhash::fast::RandomState>;

/// The blocks that an application has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Blocks {
    /// The revision at which the application got its first block. It tells blocks from those of an
    /// application of the same name that was deleted.
    pub(crate) born: u64,
    /// The number of the first block. Each fold raises it.
    pub(crate) first: u64,
    /// The number after that of the last block.
    pub(crate) after: u64,
    /// The number of entries in all blocks.
    entries: u64,
}

/// What is wrong with a field.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Damaged {
    pub(crate) field: String,
    pub(crate) reason: String,
}

impl Damaged {
    pub(crate) fn new(field: &[u8], reason: impl Into<String>) -> Damaged {
        Damaged { field: field.escape_ascii().to_string(), reason: reason.into() }
    }
}

impl Blocks {
    /// Parses the value of its field.
    pub(crate) fn parse(text: &[u8]) -> Option<Blocks> {
        let numbers = text.split(|byte| *byte == b' ').map(reply::parse);
        let numbers: Vec<u64> = numbers.collect::<Option<_>>()?;
        let [born, first, after, entries] = *numbers else { return None };
        Some(Blocks { born, first, after, entries })
    }

    /// Returns whether the blocks of an application with so many statuses should be folded.
    pub(crate) fn is_due(&self, statuses: u64) -> bool {
        let kept = statuses.saturating_mul(2).saturating_add(SLACK);
        // A fold leaves fewer blocks than before.
        kept < self.entries && self.first + 1 < self.after
    }

    /// Returns whether no fold has begun with the first block, so that single fields of statuses
    /// from before it may exist.
    pub(crate) fn has_singles(&self) -> bool {
        self.first == 0
    }

    /// Returns the names of all blocks.
    pub(crate) fn names(&self) -> impl Iterator<Item = String> {
        (self.first..self.after).map(name)
    }
}

/// Appends an entry to a block: a record, or its removal.
pub(crate) fn push(block: &mut Vec<u8>, field: &[u8], record: Option<&[u8]>) {
    block.extend_from_slice(field.len().to_string().as_bytes());
    block.push(b' ');
    match record {
        Some(record) => block.extend_from_slice(record.len().to_string().as_bytes()),
        None => block.extend_from_slice(REMOVED),
    }
    block.push(b' ');
    block.extend_from_slice(field);
    block.extend_from_slice(record.unwrap_or_default());
}

/// Returns the records among the fields of an application: of each the newest, from a block or a
/// single field. Also returns the index, if there are blocks.
pub(crate) fn newest<'a>(
    fields: impl Iterator<Item = Field<'a>>,
) -> Result<(Vec<Field<'a>>, Option<Blocks>), Damaged> {
    let (mut records, mut blocks, mut index) = (Vec::new(), Vec::new(), None);
    for (field, value) in fields {
        match field {
            MARKS | QUIET => {}
            INDEX => {
                let read = Blocks::parse(value);
                index = Some(read.ok_or_else(|| Damaged::new(field, "it is no index of blocks"))?);
            }
            field => match number(field) {
                Some(number) => blocks.push((number, value)),
                None => records.push((field, value)),
            },
        }
    }
    blocks.sort_unstable_by_key(|(number, _)| *number);
    let expected = index.map_or(0..0, |index| index.first..index.after);
    if !blocks.iter().map(|(number, _)| *number).eq(expected) {
        return Err(Damaged::new(INDEX, "it does not match the blocks"));
    }
    if !blocks.is_empty() {
        let (newest, _) = merge(&blocks)?;
        records.retain(|(field, _)| !newest.contains_key(field));
        records.extend(newest.into_iter().filter_map(|(field, record)| Some((field, record?))));
    }
    Ok((records, index))
}

/// What a fold of the blocks of an [`Blocks`] writes and removes.
#[derive(Debug)]
pub(crate) struct Fold {
    /// The number of the first block after it.
    pub(crate) first: u64,
    /// The number of entries that it replaces.
    pub(crate) entries: u64,
    /// The number of entries that it writes.
    pub(crate) kept: u64,
    /// The blocks that it writes.
    pub(crate) set: Vec<(String, Vec<u8>)>,
    /// The fields that it removes.
    pub(crate) removed: Vec<Vec<u8>>,
}

/// Folds the blocks of an index, and the single fields of statuses, if these are among the fields.
/// Returns `None` if a block is missing: another process has folded it.
///
/// The result takes the last numbers of the blocks that it replaces, so that blocks which are
/// written meanwhile are newer.
pub(crate) fn fold<'a>(
    index: &Blocks,
    fields: impl Iterator<Item = Field<'a>>,
) -> Result<Option<Fold>, Damaged> {
    let (mut blocks, mut singles) = (Vec::new(), Vec::new());
    for (field, value) in fields {
        match number(field) {
            Some(number) if number < index.after => blocks.push((number, value)),
            Some(_) => {}
            None if is_status(field) => singles.push((field, value)),
            None => {}
        }
    }
    blocks.sort_unstable_by_key(|(number, _)| *number);
    if !blocks.iter().map(|(number, _)| *number).eq(index.first..index.after) {
        return Ok(None);
    }
    let (mut newest, entries) = merge(&blocks)?;
    for (field, record) in &singles {
        newest.entry(field).or_insert(Some(record));
    }
    let live: Vec<Field<'_>> =
        newest.into_iter().filter_map(|(field, record)| Some((field, record?))).collect();
    let kept = live.len() as u64;
    // A block for each `FOLDED_ENTRIES`, but fewer than before.
    let most = (index.after - index.first).saturating_sub(1).max(1);
    let in_each = kept.div_ceil(most).max(FOLDED_ENTRIES);
    let chunks = live.chunks(usize::try_from(in_each).unwrap_or(usize::MAX));
    let first = index.after - chunks.len() as u64;
    let set = (first..).zip(chunks).map(|(number, records)| (name(number), mk_block(records)));
    let set = set.collect();
    let gone = (index.first..first).map(|number| name(number).into_bytes());
    let removed = gone.chain(singles.iter().map(|(field, _)| field.to_vec())).collect();
    Ok(Some(Fold { first, entries, kept, set, removed }))
}

fn mk_block(records: &[Field<'_>]) -> Vec<u8> {
    let bytes = records.iter().map(|(field, record)| field.len() + record.len() + LENGTHS_BYTES);
    let mut block = Vec::with_capacity(bytes.sum());
    records.iter().for_each(|(field, record)| push(&mut block, field, Some(record)));
    block
}

/// Returns the newest entry of each record in blocks, which are in order; and the number of all
/// entries.
fn merge<'a>(blocks: &[(u64, &'a [u8])]) -> Result<(Newest<'a>, u64), Damaged> {
    let (mut newest, mut count) = (Newest::default(), 0);
    for &(number, block) in blocks {
        let mut rest = block;
        while !rest.is_empty() {
            let Some(((field, record), after)) = split_entry(rest) else {
                return Err(Damaged::new(name(number).as_bytes(), "an entry is cut off"));
            };
            newest.insert(field, record);
            count += 1;
            rest = after;
        }
    }
    Ok((newest, count))
}

/// Splits the first entry from the rest of a block.
fn split_entry(block: &[u8]) -> Option<(Written<'_>, &[u8])> {
    let (field_length, rest) = split_word(block)?;
    let (record_length, rest) = split_word(rest)?;
    let (field, rest) = rest.split_at_checked(reply::parse(field_length)?)?;
    if record_length == REMOVED {
        return Some(((field, None), rest));
    }
    let (record, rest) = rest.split_at_checked(reply::parse(record_length)?)?;
    Some(((field, Some(record)), rest))
}

fn split_word(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    // A length has at most 20 digits.
    let end = bytes.iter().take(21).position(|byte| *byte == b' ')?;
    Some((&bytes[..end], &bytes[end + 1..]))
}

/// Returns the field of a block.
fn name(number: u64) -> String {
    format!("{}{number}", char::from(BLOCK))
}

/// Returns the number of a block from its field.
fn number(field: &[u8]) -> Option<u64> {
    reply::parse(field.strip_prefix(&[BLOCK])?)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    type Hash = BTreeMap<Vec<u8>, Vec<u8>>;

    fn fields(hash: &Hash) -> impl Iterator<Item = Field<'_>> {
        hash.iter().map(|(field, value)| (&**field, &**value))
    }

    fn index_of(hash: &Hash) -> Option<Blocks> {
        hash.get(INDEX).and_then(|text| Blocks::parse(text))
    }

    /// Writes a block as `commit.lua` does.
    fn write(hash: &mut Hash, entries: &[(Vec<u8>, Option<Vec<u8>>)]) {
        let new = Blocks { born: 1, first: 0, after: 0, entries: 0 };
        let index = index_of(hash).unwrap_or(new);
        let mut block = Vec::new();
        entries.iter().for_each(|(field, record)| push(&mut block, field, record.as_deref()));
        hash.insert(name(index.after).into_bytes(), block);
        let entries = index.entries + entries.len() as u64;
        put_index(hash, &Blocks { after: index.after + 1, entries, ..index });
    }

    fn put_index(hash: &mut Hash, Blocks { born, first, after, entries }: &Blocks) {
        hash.insert(INDEX.to_vec(), format!("{born} {first} {after} {entries}").into_bytes());
    }

    /// Folds as `fold.lua` does.
    fn write_fold(hash: &mut Hash, fold: Fold) {
        let index = index_of(hash).unwrap();
        fold.removed.iter().for_each(|field| drop(hash.remove(field)));
        hash.extend(fold.set.into_iter().map(|(field, block)| (field.into_bytes(), block)));
        let entries = index.entries - fold.entries + fold.kept;
        put_index(hash, &Blocks { first: fold.first, entries, ..index });
    }

    fn mk_entry() -> impl Strategy<Value = (Vec<u8>, Option<Vec<u8>>)> {
        let field = (0..12_u8).prop_map(|n| vec![b's', n, b' ', b'-']);
        (field, proptest::option::of(proptest::collection::vec(any::<u8>(), 0..12)))
    }

    proptest! {
        /// Blocks are written on single fields, folds happen between them, and blocks are written
        /// between the read and the write of a fold.
        #[test]
        fn the_newest_entry_wins(
            singles in proptest::collection::btree_map(0..12_u8, any::<u8>(), 0..6),
            commits in proptest::collection::vec(
                (proptest::collection::vec(mk_entry(), 0..9), 0..4_u8), 1..12,
            ),
        ) {
            let mut model: Hash = singles.iter()
                .map(|(n, value)| (vec![b's', *n, b' ', b'-'], vec![*value])).collect();
            model.insert(b"uw/0".to_vec(), b"a unit".to_vec());
            let mut hash = model.clone();
            let mut read: Option<Fold> = None;
            for (entries, then) in &commits {
                write(&mut hash, entries);
                for (field, record) in entries {
                    match record {
                        Some(record) => drop(model.insert(field.clone(), record.clone())),
                        None => drop(model.remove(field)),
                    }
                }
                let index = index_of(&hash).unwrap();
                match then {
                    0 => read = fold(&index, fields(&hash)).unwrap(),
                    1 => if let Some(fold) = read.take() {
                        prop_assert!(fold.first <= index.after);
                        write_fold(&mut hash, fold);
                    },
                    _ => {}
                }
                let (mut found, _) = newest(fields(&hash)).unwrap();
                found.sort_unstable();
                prop_assert_eq!(found, fields(&model).collect::<Vec<_>>());
            }
            let index = index_of(&hash).unwrap();
            if 1 < index.after - index.first {
                let fold = fold(&index, fields(&hash)).unwrap().unwrap();
                prop_assert_eq!(fold.kept, model.len() as u64 - 1);
                prop_assert!(index.first < fold.first);
                write_fold(&mut hash, fold);
                prop_assert_eq!(index_of(&hash).unwrap().entries, model.len() as u64 - 1);
            }
        }

        #[test]
        fn any_bytes_are_read_or_refused(block: Vec<u8>, cut: proptest::sample::Index) {
            let _ = merge(&[(0, &block)]);
            let mut whole = Vec::new();
            push(&mut whole, b"sa", Some(&block));
            let part = &whole[..cut.index(whole.len())];
            prop_assert_eq!(merge(&[(0, part)]).is_ok(), part.is_empty());
        }
    }

    #[test]
    fn blocks_that_differ_from_their_index_are_refused() {
        let mut hash = Hash::new();
        let entries = [(b"sa".to_vec(), None)];
        write(&mut hash, &entries);
        write(&mut hash, &entries);
        assert_eq!(newest(fields(&hash)), Ok((vec![], index_of(&hash))));
        for changed in [Some((b"g2", b"")), None] {
            let mut hash = hash.clone();
            match changed {
                Some((field, block)) => drop(hash.insert(field.to_vec(), block.to_vec())),
                None => drop(hash.remove(&b"g1"[..])),
            }
            assert_eq!(newest(fields(&hash)).unwrap_err().field, "b");
        }
        hash.insert(INDEX.to_vec(), b"1 0 2".to_vec());
        assert!(newest(fields(&hash)).is_err());
    }

    #[test]
    fn a_fold_is_due_above_twice_the_statuses() {
        let index = |first, after, entries| Blocks { born: 1, first, after, entries };
        assert!(!index(0, 9, 2 * 100 + SLACK).is_due(100));
        assert!(index(0, 9, 2 * 100 + SLACK + 1).is_due(100));
        // One block cannot become fewer.
        assert!(!index(8, 9, 10_000).is_due(0));
        assert!(!index(0, 9, u64::MAX).is_due(u64::MAX));
    }

    #[test]
    fn a_fold_of_many_statuses_writes_several_blocks() {
        let field = |n: u64| format!("s{n}").into_bytes();
        let mut hash = Hash::new();
        for n in 0..6 {
            let entries: Vec<_> =
                (0..1000).map(|m| (field(500 * n + m), Some(b"x".to_vec()))).collect();
            write(&mut hash, &entries);
        }
        let index = index_of(&hash).unwrap();
        let fold = fold(&index, fields(&hash)).unwrap().unwrap();
        assert_eq!((fold.entries, fold.kept), (6000, 3500));
        let names: Vec<&str> = fold.set.iter().map(|(name, _)| &**name).collect();
        assert_eq!((fold.first, &*names), (2, &["g2", "g3", "g4", "g5"][..]));
        // Two blocks of so many become one.
        let two = Blocks { first: 4, ..index };
        let few: Hash = hash.range(b"g4".to_vec()..).map(|(f, v)| (f.clone(), v.clone())).collect();
        let fold = super::fold(&two, fields(&few)).unwrap().unwrap();
        assert_eq!((fold.first, fold.set.len(), fold.kept), (5, 1, 1500));
    }
}
