//! Resume tokens: the position of a reader, as a text that is opaque to it.
//!
//! Base64url without padding of: format (1 byte: 3), store id (8), losses (4), fingerprint of the
//! filter (8), number of buckets (2), the position in each (8), the masters, check (4: the low half
//! of FNV-1a of the bytes before it). Big-endian. The masters are runs of buckets: the number of
//! buckets (2), the epoch floor of the master that they were read from (8).
//!
//! Format 2 has no masters. A store without masters uses it, and so did earlier versions. Format 1
//! has no number of buckets either, and its only position precedes the fingerprint. It is still
//! read.
//!
//! Format 4 is that of a relay of several upstreams: format, fingerprint, number of stores (2), and
//! for each store, ascending: id, losses, number of buckets, positions, number of runs (2), runs.

use std::hash::Hasher;
use std::iter::repeat_n;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Buf;
use fnv::FnvHasher;

use super::cursors::Cursors;
use super::error::WatchError;
use crate::store::{Epoch, Position};

/// The format of tokens with the positions of several stores.
const FORMAT_OF_STORES: u8 = 4;
const FORMAT: u8 = 3;
/// The format of tokens without masters.
const FORMAT_WITHOUT_MASTERS: u8 = 2;
/// The format of earlier versions, for stores with a single bucket.
const FORMAT_OF_ONE: u8 = 1;
/// Bytes besides the positions and the masters.
const BYTES: usize = 27;
/// Bytes of a run of buckets with one master.
const RUN_BYTES: usize = 10;

/// A position in the changes of one store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StorePoint {
    /// The epoch of the positions.
    pub epoch: Epoch,
    /// Everything up to here is covered.
    pub cursors: Arc<Cursors>,
}

impl StorePoint {
    /// Returns one epoch for several: it differs if one of them does.
    pub(super) fn epoch_of(epochs: impl IntoIterator<Item = Epoch>) -> Epoch {
        let mut epochs: Vec<Epoch> = epochs.into_iter().collect();
        epochs.sort();
        if let [epoch] = epochs[..] {
            return epoch;
        }
        let mut hash = FnvHasher::default();
        epochs.iter().for_each(|epoch| hash.write(&epoch.store_id.to_be_bytes()));
        let losses = epochs.iter().fold(0, |sum: u32, epoch| sum.wrapping_add(epoch.losses));
        Epoch { store_id: hash.finish(), losses }
    }
}

/// The position of a reader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// All changes up to here were sent: one store, or those of a relay with several upstreams,
    /// ascending by their ids.
    pub stores: Vec<StorePoint>,
    /// [`Filter::fingerprint`](super::Filter::fingerprint) of the watch.
    pub filter: u64,
}

impl Token {
    /// Returns the token of a reader of one store.
    pub fn of(epoch: Epoch, cursors: Arc<Cursors>, filter: u64) -> Token {
        Token { stores: vec![StorePoint { epoch, cursors }], filter }
    }

    /// Returns the position in the only store.
    pub fn only(&self) -> Option<&StorePoint> {
        match &self.stores[..] {
            [store] => Some(store),
            _ => None,
        }
    }

    /// Returns the epoch of all positions.
    pub fn epoch(&self) -> Epoch {
        StorePoint::epoch_of(self.stores.iter().map(|store| store.epoch))
    }

    /// Returns the text for the reader.
    pub fn encode(&self) -> String {
        let mut bytes = Vec::with_capacity(BYTES);
        if let Some(StorePoint { epoch, cursors }) = self.only() {
            let has_masters = !cursors.floors().is_empty();
            bytes.push(if has_masters { FORMAT } else { FORMAT_WITHOUT_MASTERS });
            bytes.extend(epoch.store_id.to_be_bytes());
            bytes.extend(epoch.losses.to_be_bytes());
            bytes.extend(self.filter.to_be_bytes());
            write_positions(&mut bytes, cursors);
            write_runs(&mut bytes, &runs(cursors));
        } else {
            bytes.push(FORMAT_OF_STORES);
            bytes.extend(self.filter.to_be_bytes());
            bytes.extend((self.stores.len() as u16).to_be_bytes());
            for StorePoint { epoch, cursors } in &self.stores {
                bytes.extend(epoch.store_id.to_be_bytes());
                bytes.extend(epoch.losses.to_be_bytes());
                write_positions(&mut bytes, cursors);
                let runs = runs(cursors);
                bytes.extend((runs.len() as u16).to_be_bytes());
                write_runs(&mut bytes, &runs);
            }
        }
        bytes.extend(check(&bytes));
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// Parses a text from a reader. Returns [`WatchError::Malformed`] if it is not a valid token.
    pub fn decode(text: &str) -> Result<Token, WatchError> {
        Token::read(text).ok_or(WatchError::Malformed)
    }

    fn read(text: &str) -> Option<Token> {
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        let (body, found) = bytes.split_last_chunk::<4>()?;
        if *found != check(body) {
            return None;
        }
        let mut rest = body;
        let token = match rest.try_get_u8().ok()? {
            FORMAT_OF_STORES => read_stores(&mut rest)?,
            format => {
                let epoch = read_epoch(&mut rest)?;
                let (filter, cursors) = match format {
                    FORMAT_OF_ONE => {
                        let position = Position(rest.try_get_u64().ok()?);
                        (rest.try_get_u64().ok()?, Cursors::from_iter([position]))
                    }
                    FORMAT | FORMAT_WITHOUT_MASTERS => {
                        let filter = rest.try_get_u64().ok()?;
                        let cursors = read_positions(&mut rest)?;
                        let floors = match format {
                            FORMAT => read_floors(&mut rest, cursors.buckets())?,
                            _ => Vec::new(),
                        };
                        (filter, cursors.with_floors(floors.into()))
                    }
                    _ => return None,
                };
                Token::of(epoch, Arc::new(cursors), filter)
            }
        };
        rest.is_empty().then_some(token)
    }
}

/// Returns the runs of buckets with one master: their number, and the epoch floor.
fn runs(cursors: &Cursors) -> Vec<(u16, u64)> {
    let runs = cursors.floors().chunk_by(|a, b| a == b);
    runs.map(|run| (run.len() as u16, run.first().copied().unwrap_or_default())).collect()
}

fn write_positions(bytes: &mut Vec<u8>, cursors: &Cursors) {
    bytes.extend(cursors.buckets().to_be_bytes());
    let positions = cursors.iter().map(|(_, position)| position.0.to_be_bytes());
    bytes.extend(positions.flatten());
}

fn write_runs(bytes: &mut Vec<u8>, runs: &[(u16, u64)]) {
    for (count, floor) in runs {
        bytes.extend(count.to_be_bytes());
        bytes.extend(floor.to_be_bytes());
    }
}

fn read_epoch(rest: &mut &[u8]) -> Option<Epoch> {
    let store_id = rest.try_get_u64().ok()?;
    Some(Epoch { store_id, losses: rest.try_get_u32().ok()? })
}

fn read_positions(rest: &mut &[u8]) -> Option<Cursors> {
    let buckets = rest.try_get_u16().ok()?;
    (0..buckets).map(|_| rest.try_get_u64().ok().map(Position)).collect()
}

/// Reads the positions of several stores, each once.
fn read_stores(rest: &mut &[u8]) -> Option<Token> {
    let filter = rest.try_get_u64().ok()?;
    let count = rest.try_get_u16().ok()?;
    let mut stores: Vec<StorePoint> = Vec::new();
    for _ in 0..count {
        let epoch = read_epoch(rest)?;
        let cursors = read_positions(rest)?;
        let floors = match rest.try_get_u16().ok()? {
            0 => Vec::new(),
            runs => {
                let before = rest.len();
                let floors = read_floors(rest, cursors.buckets())?;
                let read = before - rest.len();
                (read == usize::from(runs) * RUN_BYTES).then_some(floors)?
            }
        };
        let is_next = stores.last().is_none_or(|last| last.epoch.store_id < epoch.store_id);
        let cursors = Arc::new(cursors.with_floors(floors.into()));
        stores.push(is_next.then_some(StorePoint { epoch, cursors })?);
    }
    (1 < stores.len()).then_some(Token { stores, filter })
}

/// Reads the epoch floor of the master of each bucket.
fn read_floors(rest: &mut &[u8], buckets: u16) -> Option<Vec<u64>> {
    let mut floors = Vec::with_capacity(buckets.into());
    while floors.len() < buckets.into() {
        let count = rest.try_get_u16().ok().filter(|count| *count != 0)?;
        floors.extend(repeat_n(rest.try_get_u64().ok()?, count.into()));
    }
    (floors.len() == usize::from(buckets)).then_some(floors)
}

/// Detects truncated or mistyped texts, not forgery: a position is not secret and grants nothing.
fn check(body: &[u8]) -> [u8; 4] {
    let mut hash = FnvHasher::default();
    hash.write(body);
    (hash.finish() as u32).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_token(positions: &[u64]) -> Token {
        let epoch = Epoch { store_id: 0x0123_4567_89ab_cdef, losses: 3 };
        Token::of(epoch, mk_cursors(positions, &[]), u64::MAX - 1)
    }

    fn mk_cursors(positions: &[u64], floors: &[u64]) -> Arc<Cursors> {
        let cursors: Cursors = positions.iter().copied().map(Position).collect();
        Arc::new(cursors.with_floors(floors.into()))
    }

    fn mk_point(store_id: u64, positions: &[u64], floors: &[u64]) -> StorePoint {
        let epoch = Epoch { store_id, losses: 1 };
        StorePoint { epoch, cursors: mk_cursors(positions, floors) }
    }

    #[test]
    fn a_token_of_several_stores_survives_encoding() {
        let one = mk_point(5, &[1, 2], &[7, 7]);
        let other = mk_point(9, &[u64::MAX], &[]);
        let third = mk_point(10, &[3, 4, 5], &[1, 2, 2]);
        let token = Token { stores: vec![one.clone(), other.clone(), third], filter: 3 };
        let text = token.encode();
        assert_eq!(Token::decode(&text), Ok(token.clone()));
        let swapped = Token { stores: vec![other.clone(), one.clone()], filter: 3 };
        assert_eq!(Token::decode(&swapped.encode()), Err(WatchError::Malformed));
        let none = Token { stores: Vec::new(), filter: 3 };
        assert_eq!(Token::decode(&none.encode()), Err(WatchError::Malformed));
        let pair = Token { stores: vec![one.clone(), other], filter: 3 };
        assert_ne!(pair.epoch(), token.epoch());
        assert_eq!(Token { stores: vec![one.clone()], filter: 3 }.epoch(), one.epoch);
    }

    #[test]
    fn a_token_survives_encoding() {
        for positions in [&[1 << 40][..], &[0, 7, u64::MAX], &[5; 64]] {
            let token = mk_token(positions);
            let text = token.encode();
            assert_eq!(text.len(), ((BYTES + 8 * positions.len()) * 4).div_ceil(3));
            assert!(text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b)));
            assert_eq!(Token::decode(&text), Ok(token));
        }
    }

    #[test]
    fn a_token_names_the_masters_it_was_read_from() {
        for floors in [&[0; 4][..], &[5, 5, 7, 7], &[1, 2, 3, u64::MAX]] {
            let epoch = mk_token(&[]).epoch();
            let token = Token::of(epoch, mk_cursors(&[1, 2, 3, 4], floors), 1);
            assert_eq!(Token::decode(&token.encode()), Ok(token));
        }
    }

    #[test]
    fn masters_that_do_not_fit_the_buckets_are_refused() {
        let runs = |counts: &[u16]| -> Vec<u8> {
            let run = |count: &u16| [&count.to_be_bytes()[..], &7_u64.to_be_bytes()].concat();
            counts.iter().flat_map(run).collect()
        };
        let read = |runs: &[u8]| read_floors(&mut &*runs, 3);
        assert_eq!(read(&runs(&[1, 2])), Some(vec![7; 3]));
        for counts in [&[][..], &[2], &[4], &[0, 3], &[1, 3]] {
            assert_eq!(read(&runs(counts)), None, "{counts:?}");
        }
    }

    #[test]
    fn a_token_of_the_first_format_is_read() {
        let text = "AQEjRWeJq83vAAAAAwAAAQAAAAAA__________5huIP3";
        assert_eq!(Token::decode(text), Ok(mk_token(&[1 << 40])));
    }

    #[test]
    fn another_text_is_refused() {
        let text = mk_token(&[1 << 40, 3]).encode();
        for at in 0..text.len() {
            let other = if &text[at..=at] == "A" { "B" } else { "A" };
            let changed = format!("{}{other}{}", &text[..at], &text[at + 1..]);
            assert_eq!(Token::decode(&changed), Err(WatchError::Malformed), "{changed}");
        }
        for text in ["", "x", "not a token", &text[4..], &format!("{text}AAAA")] {
            assert_eq!(Token::decode(text), Err(WatchError::Malformed), "{text}");
        }
    }
}
