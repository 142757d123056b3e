//! Static tokens `bw_ID_SECRET`: the file has a digest of each, so a copy of the file is of no use.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use aws_lc_rs::{constant_time, digest};
use serde::Deserialize;

use super::{Identity, Kind, Principal, Refusal};
use crate::security::Error;
use crate::security::closing::Closing;
use crate::security::reload::{FileSet, text};

/// The start of every static token.
pub const PREFIX: &str = "bw_";

/// Random bytes of a token. A digest of so much randomness needs no slow hash.
const SECRET_BYTES: usize = 32;

/// As long as the digest of a token.
const NO_SHA256: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// The largest id.
const ID_BYTES_MAX: usize = 63;

/// How a file says that it has no token on purpose.
const NONE: &str = "a file that refuses every token has `revoked_all = true` and no token";

/// The file with the tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenFile(pub PathBuf);

/// One token, as the file has it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenEntry {
    /// The id, which is the subject of the principal.
    pub id: String,
    /// SHA-256 of the whole token, in hexadecimal digits.
    pub sha256: String,
    /// When it was made, in seconds since 1970.
    pub created: u64,
    /// When it ends, in seconds since 1970; absent: never.
    pub not_after: Option<u64>,
}

/// All tokens.
#[derive(Debug, Default)]
pub struct Tokens {
    by_id: BTreeMap<String, TokenEntry>,
    /// Whether the file has the table that closes it.
    is_closed: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct File {
    /// Says that the file has no token on purpose.
    revoked_all: bool,
    token: Vec<TokenEntry>,
    end: Option<Closing>,
}

impl FileSet for TokenFile {
    type Value = Tokens;
    const NAME: &'static str = "tokens";

    fn paths(&self) -> Vec<PathBuf> {
        vec![self.0.clone()]
    }

    fn parse(&self, contents: &[Vec<u8>]) -> Result<Tokens, Error> {
        let tokens = Tokens::parse(text(&self.0, contents)?);
        tokens.map_err(|problem| Error::invalid(&self.0, problem))
    }

    fn may_follow(&self, before: &Tokens, later: &Tokens) -> Result<(), Error> {
        let kept = Closing::check_kept(before.is_closed, later.is_closed);
        kept.map_err(|problem| Error::invalid(&self.0, problem))
    }
}

impl Tokens {
    /// Reads the text of a file.
    ///
    /// # Errors
    /// If the text is invalid. The error contains no text of the file.
    pub fn parse(text: &str) -> Result<Tokens, String> {
        let file: File = toml::from_str(text).map_err(|error| error.message().to_string())?;
        match (file.token.len(), file.revoked_all) {
            (0, false) => return Err(format!("it has no token; {NONE}")),
            (1.., true) => return Err(format!("it has tokens and `revoked_all = true`; {NONE}")),
            _ => {}
        }
        let is_closed = Closing::check(file.end, file.token.len())?;
        let mut tokens = Tokens { is_closed, ..Tokens::default() };
        for token in file.token {
            if !is_id(&token.id) {
                return Err(format!("token {:?}: the id needs letters, digits, . or -", token.id));
            }
            if token.sha256.len() != 64 || !token.sha256.bytes().all(|b| b.is_ascii_hexdigit()) {
                return Err(format!("token {}: sha256 needs 64 hexadecimal digits", token.id));
            }
            if let Some(twice) = tokens.by_id.insert(token.id.clone(), token) {
                return Err(format!("token {} is there twice", twice.id));
            }
        }
        Ok(tokens)
    }

    /// Returns the tokens by id.
    pub fn iter(&self) -> impl Iterator<Item = &TokenEntry> {
        self.by_id.values()
    }

    /// Makes a token with an id that is not in use. Returns its text, which is kept nowhere.
    ///
    /// # Errors
    /// If the id is invalid or in use, or there is no randomness.
    pub fn create(
        &mut self,
        id: &str,
        now: SystemTime,
        ttl: Option<Duration>,
    ) -> Result<String, String> {
        if !is_id(id) {
            return Err(format!(
                "{id:?} is no id: 1 to {ID_BYTES_MAX} letters, digits, `.` or `-`"
            ));
        }
        if self.by_id.contains_key(id) {
            return Err(format!("token {id} exists already; revoke it first"));
        }
        let mut secret = [0; SECRET_BYTES];
        getrandom::fill(&mut secret).map_err(|error| format!("no randomness: {error}"))?;
        let text = format!("{PREFIX}{id}_{}", hex(&secret));
        let created = seconds(now);
        let not_after = ttl.map(|ttl| created.saturating_add(ttl.as_secs()));
        let sha256 = sha256(&text);
        let token = TokenEntry { id: id.to_string(), sha256, created, not_after };
        self.by_id.insert(id.to_string(), token);
        Ok(text)
    }

    /// Removes a token. Returns whether it existed.
    pub fn revoke(&mut self, id: &str) -> bool {
        self.by_id.remove(id).is_some()
    }

    /// Returns the text of the file, with the table that closes it.
    pub fn text(&self) -> String {
        let mut text = String::from("# Written by `bellwether token`. Digests, no tokens.\n");
        if self.by_id.is_empty() {
            text.push_str("revoked_all = true\n");
        }
        for TokenEntry { id, sha256, created, not_after } in self.by_id.values() {
            text.push_str(&format!(
                "\n[[token]]\nid = \"{id}\"\nsha256 = \"{sha256}\"\ncreated = {created}\n"
            ));
            if let Some(not_after) = not_after {
                text.push_str(&format!("not_after = {not_after}\n"));
            }
        }
        text.push_str(&Closing::text(self.by_id.len()));
        text
    }

    /// Identifies the bearer of a token.
    pub(in crate::security) fn identify(
        &self,
        given: &str,
        now: SystemTime,
    ) -> Result<Identity, Refusal> {
        let id = given.strip_prefix(PREFIX).and_then(|rest| rest.rsplit_once('_'));
        let id = id.map(|(id, _)| id).unwrap_or_default();
        let token = self.by_id.get(id);
        // An unknown id is compared too, so that the time does not show which ids exist.
        let expected = token.map_or(NO_SHA256, |token| &token.sha256).to_ascii_lowercase();
        let (sum, expected) = (sha256(given), expected.as_bytes());
        let is_equal = constant_time::verify_slices_are_equal(sum.as_bytes(), expected).is_ok();
        let token = token.filter(|_| is_equal).ok_or(Refusal::UnknownToken)?;
        let ends = token.not_after.map(|at| SystemTime::UNIX_EPOCH + Duration::from_secs(at));
        match ends {
            Some(ends) if ends <= now => Err(Refusal::ExpiredToken),
            ends => Ok(Identity { principal: Principal::new(Kind::Token, id), ends }),
        }
    }
}

fn is_id(id: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b".-".contains(&byte);
    (1..=ID_BYTES_MAX).contains(&id.len()) && id.bytes().all(is_allowed)
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn sha256(text: &str) -> String {
    hex(digest::digest(&digest::SHA256, text.as_bytes()).as_ref())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: SystemTime = SystemTime::UNIX_EPOCH;

    #[test]
    fn a_token_identifies_its_bearer_until_it_ends() {
        let mut tokens = Tokens::default();
        let day = Duration::from_secs(86_400);
        let text = tokens.create("web-0", NOW, Some(day)).unwrap();
        assert_eq!(text.len(), "bw_web-0_".len() + 64);
        assert!(!tokens.text().contains(&text[9..]), "the file has no secret");
        let read = Tokens::parse(&tokens.text()).unwrap();
        let identity = read.identify(&text, NOW).unwrap();
        assert_eq!(identity.principal.to_string(), "token:web-0");
        assert_eq!(read.identify(&text, NOW + day), Err(Refusal::ExpiredToken));
        tokens.revoke("web-0");
        assert_eq!(tokens.identify(&text, NOW), Err(Refusal::UnknownToken));
    }

    #[test]
    fn an_incomplete_token_is_refused() {
        let mut tokens = Tokens::default();
        let text = tokens.create("a", NOW, None).unwrap();
        let other = tokens.create("b", NOW, None).unwrap();
        let swapped = text.replace("bw_a_", "bw_b_");
        let upper = text.to_uppercase().replace("BW_A", "bw_a");
        let cut = &text[..text.len() - 1];
        for given in [&*swapped, &upper, cut, "bw_", "bw_a_", "bw__", &format!("{text} "), "bw_é_"]
        {
            assert_eq!(tokens.identify(given, NOW), Err(Refusal::UnknownToken), "{given}");
        }
        assert!(tokens.identify(&other, NOW).is_ok());
        assert!(tokens.create("a", NOW, None).unwrap_err().contains("exists already"));
        for id in ["", "a_b", "a b", "é", &"a".repeat(64)] {
            assert!(tokens.create(id, NOW, None).is_err(), "{id}");
        }
    }

    #[test]
    fn mistakes_in_the_file_are_reported_without_its_text() {
        let sum = "0".repeat(64);
        let entry = format!("[[token]]\nid = 'a'\nsha256 = '{sum}'\ncreated = 0\n");
        for (text, expected) in [
            ("x = 1", "unknown field"),
            ("[[token]]\nid = 'a b'\nsha256 = ''\ncreated = 0", "needs letters"),
            ("[[token]]\nid = 'a'\nsha256 = 'ab'\ncreated = 0", "64 hexadecimal digits"),
            (&format!("{entry}{entry}"), "twice"),
            ("", "it has no token"),
            (" \n# a comment\n", "it has no token"),
            ("revoked_all = false\n[end]\nentries = 0", "it has no token"),
            (&format!("revoked_all = true\n{entry}"), "it has tokens and"),
            (&format!("{entry}[end]"), "missing field"),
            (&format!("{entry}[end]\nentries = 12"), "[end] says 12"),
            (&format!("{entry}[end]\nentries = 1\nx = 1"), "unknown field"),
        ] {
            let error = Tokens::parse(text).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
        assert!(Tokens::parse(&entry).is_ok(), "a file of earlier versions");
        assert!(Tokens::parse("revoked_all = true").is_ok());
    }

    #[test]
    fn no_part_of_a_file_takes_the_place_of_the_whole() {
        let mut tokens = Tokens::default();
        for id in ["a", "b", "c"] {
            tokens.create(id, NOW, None).unwrap();
        }
        let file = TokenFile("tokens.toml".into());
        let text = tokens.text();
        let whole = Tokens::parse(&text).unwrap();
        let taken = |part: &str| {
            let later = Tokens::parse(part).map_err(|_| ());
            later.and_then(|later| file.may_follow(&whole, &later).map_err(|_| ()))
        };
        assert_eq!(taken(&text), Ok(()));
        for end in 0..text.len() - 1 {
            assert_eq!(taken(&text[..end]), Err(()), "{}", &text[..end]);
        }
        let entries: Vec<&str> = text.split("\n[").collect();
        let without_one = [entries[0], entries[1], entries[3], entries[4]].join("\n[");
        assert_eq!(taken(&without_one), Err(()), "a part in the middle is missing");
        for id in ["a", "b", "c"] {
            tokens.revoke(id);
            assert_eq!(taken(&tokens.text()), Ok(()), "revoked by the command line");
        }
        assert!(Tokens::parse(&tokens.text()).unwrap().iter().next().is_none());
    }
}
