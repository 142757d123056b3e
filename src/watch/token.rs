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

const FORMAT: u8 = 3;
/// The format of tokens without masters.
const FORMAT_WITHOUT_MASTERS: u8 = 2;
/// The format of earlier versions, for stores with a single bucket.
const FORMAT_OF_ONE: u8 = 1;
/// Bytes besides the positions and the masters.
const BYTES: usize = 27;
/// Bytes of a run of buckets with one master.
const RUN_BYTES: usize = 10;

/// The position of a reader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// The epoch of the positions.
    pub epoch: Epoch,
    /// All changes up to here were sent.
    pub cursors: Arc<Cursors>,
    /// [`Filter::fingerprint`](super::Filter::fingerprint) of the watch.
    pub filter: u64,
}

impl Token {
    /// Returns the text for the reader.
    pub fn encode(&self) -> String {
        let runs: Vec<&[u64]> = self.cursors.floors().chunk_by(|a, b| a == b).collect();
        let capacity = BYTES + 8 * usize::from(self.cursors.buckets()) + RUN_BYTES * runs.len();
        let mut bytes = Vec::with_capacity(capacity);
        bytes.push(if runs.is_empty() { FORMAT_WITHOUT_MASTERS } else { FORMAT });
        bytes.extend(self.epoch.store_id.to_be_bytes());
        bytes.extend(self.epoch.losses.to_be_bytes());
        bytes.extend(self.filter.to_be_bytes());
        bytes.extend(self.cursors.buckets().to_be_bytes());
        let positions = self.cursors.iter().map(|(_, position)| position.0.to_be_bytes());
        bytes.extend(positions.flatten());
        for run in runs {
            let (count, floor) = (run.len() as u16, run.first().copied().unwrap_or_default());
            bytes.extend(count.to_be_bytes());
            bytes.extend(floor.to_be_bytes());
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
        let format = rest.try_get_u8().ok()?;
        let store_id = rest.try_get_u64().ok()?;
        let epoch = Epoch { store_id, losses: rest.try_get_u32().ok()? };
        let (filter, cursors) = match format {
            FORMAT_OF_ONE => {
                let cursors = Cursors::from_iter([Position(rest.try_get_u64().ok()?)]);
                (rest.try_get_u64().ok()?, cursors)
            }
            FORMAT | FORMAT_WITHOUT_MASTERS => {
                let filter = rest.try_get_u64().ok()?;
                let buckets = rest.try_get_u16().ok()?;
                let positions = (0..buckets).map(|_| rest.try_get_u64().ok().map(Position));
                let cursors = positions.collect::<Option<Cursors>>()?;
                let floors = match format {
                    FORMAT => read_floors(&mut rest, buckets)?,
                    _ => Vec::new(),
                };
                (filter, cursors.with_floors(floors.into()))
            }
            _ => return None,
        };
        rest.is_empty().then(|| Token { epoch, cursors: Arc::new(cursors), filter })
    }
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
        Token {
            epoch: Epoch { store_id: 0x0123_4567_89ab_cdef, losses: 3 },
            cursors: Arc::new(positions.iter().copied().map(Position).collect()),
            filter: u64::MAX - 1,
        }
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
            let mut token = mk_token(&[1, 2, 3, 4]);
            let cursors = Cursors::clone(&token.cursors).with_floors(floors.into());
            token.cursors = Arc::new(cursors);
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
