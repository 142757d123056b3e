//! Resume tokens: where a reader stands, in a text that is opaque to it.
//!
//! Base64url without padding of: format (1 byte), store id (8), losses (4), position (8),
//! fingerprint of the filter (8), check (4: the low half of FNV-1a of the bytes before it).
//! Big-endian.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::digest::Fnv;
use super::error::WatchError;
use crate::store::{Epoch, Position};

const FORMAT: u8 = 1;
const BYTES: usize = 33;

/// Where a reader stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token {
    /// The history that the position belongs to.
    pub epoch: Epoch,
    /// All changes up to here have been told.
    pub position: Position,
    /// [`Filter::fingerprint`](super::Filter::fingerprint) of the watch.
    pub filter: u64,
}

impl Token {
    /// As a text for the reader.
    pub fn encode(&self) -> String {
        let mut bytes = Vec::with_capacity(BYTES);
        bytes.push(FORMAT);
        bytes.extend(self.epoch.store_id.to_be_bytes());
        bytes.extend(self.epoch.losses.to_be_bytes());
        bytes.extend(self.position.0.to_be_bytes());
        bytes.extend(self.filter.to_be_bytes());
        bytes.extend(check(&bytes));
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// From a text that a reader gives back. [`WatchError::Malformed`] if it is not one of ours.
    pub fn decode(text: &str) -> Result<Token, WatchError> {
        Token::read(text).ok_or(WatchError::Malformed)
    }

    fn read(text: &str) -> Option<Token> {
        let bytes: [u8; BYTES] = URL_SAFE_NO_PAD.decode(text).ok()?.try_into().ok()?;
        let (body, found) = bytes.split_last_chunk::<4>()?;
        if body[0] != FORMAT || *found != check(body) {
            return None;
        }
        let number = |at: usize| body[at..].first_chunk().map(|b| u64::from_be_bytes(*b));
        Some(Token {
            epoch: Epoch {
                store_id: number(1)?,
                losses: u32::from_be_bytes(*body[9..].first_chunk()?),
            },
            position: Position(number(13)?),
            filter: number(21)?,
        })
    }

    /// Whether it belongs to this history and this filter.
    pub fn verify(&self, epoch: Epoch, filter: u64) -> Result<(), WatchError> {
        if self.epoch.store_id != epoch.store_id {
            return Err(WatchError::OtherStore);
        }
        if self.epoch.losses != epoch.losses {
            return Err(WatchError::OtherEpoch);
        }
        if self.filter != filter {
            return Err(WatchError::OtherFilters);
        }
        Ok(())
    }
}

/// Against a text cut or mistyped, not against forgery: a position is no secret and gives no right.
fn check(body: &[u8]) -> [u8; 4] {
    let mut hash = Fnv::new();
    hash.bytes(body);
    (hash.finish() as u32).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: Token = Token {
        epoch: Epoch { store_id: 0x0123_4567_89ab_cdef, losses: 3 },
        position: Position(1 << 40),
        filter: u64::MAX - 1,
    };

    #[test]
    fn a_token_comes_back_as_it_was() {
        let text = TOKEN.encode();
        assert_eq!(text.len(), 44);
        assert!(text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b)));
        assert_eq!(Token::decode(&text), Ok(TOKEN));
    }

    #[test]
    fn another_text_is_refused() {
        let text = TOKEN.encode();
        for at in 0..text.len() {
            let other = if &text[at..=at] == "A" { "B" } else { "A" };
            let changed = format!("{}{other}{}", &text[..at], &text[at + 1..]);
            assert_eq!(Token::decode(&changed), Err(WatchError::Malformed), "{changed}");
        }
        for text in ["", "x", "not a token", &text[..43], &format!("{text}AAAA")] {
            assert_eq!(Token::decode(text), Err(WatchError::Malformed), "{text}");
        }
    }

    #[test]
    fn a_token_belongs_to_a_history_and_a_filter() {
        let Token { epoch, filter, .. } = TOKEN;
        let elsewhere = Epoch { store_id: 1, ..epoch };
        let later = Epoch { losses: 4, ..epoch };
        assert_eq!(TOKEN.verify(epoch, filter), Ok(()));
        assert_eq!(TOKEN.verify(elsewhere, filter), Err(WatchError::OtherStore));
        assert_eq!(TOKEN.verify(later, filter), Err(WatchError::OtherEpoch));
        assert_eq!(TOKEN.verify(epoch, 0), Err(WatchError::OtherFilters));
    }
}
