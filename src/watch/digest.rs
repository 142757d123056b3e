//! The digest by which a reader verifies its copy: a sum of hashes, so that order does not matter
//! and one change costs one subtraction and one addition.

use std::fmt::{self, Write};
use std::hash::Hasher;

use crate::domain::level::Level;
use crate::domain::name::AppName;
use crate::domain::revision::Revision;
use fnv::FnvHasher;

/// Hashes what is written to it.
#[derive(Default)]
struct TextHasher(FnvHasher);

impl Write for TextHasher {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.write(text.as_bytes());
        Ok(())
    }
}

/// Returns the share of one application in the digest: the 64-bit FNV-1a hash of
/// `namespace/name@revision=level`. It detects mistakes, not attacks, and takes ten lines in any
/// language.
pub fn mark(app: &AppName, revision: Revision, level: Level) -> u64 {
    let mut hash = TextHasher::default();
    write!(hash, "{app}@{revision}={}", level.word()).expect("hashing writes nowhere");
    hash.0.finish()
}

/// The sum of marks modulo 2^64.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Digest(u64);

impl Digest {
    /// Adds an application.
    pub fn add(&mut self, mark: u64) {
        self.0 = self.0.wrapping_add(mark);
    }

    /// Removes an application that was added before.
    pub fn remove(&mut self, mark: u64) {
        self.0 = self.0.wrapping_sub(mark);
    }

    /// Returns the number that bookmarks contain.
    pub fn value(self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Computed by an independent program.
    const WEB: u64 = 0x826a_0965_8255_2cd7;
    const DB: u64 = 0x2af9_b3f5_0ff2_9e35;
    const API: u64 = 0xa3c0_ced2_3214_a40f;
    const WEB_AND_DB: u64 = 0xad63_bd5a_9247_cb0c;

    fn mark_of(namespace: &str, name: &str, revision: u64, level: Level) -> u64 {
        let app = AppName::new(namespace, name).unwrap();
        mark(&app, Revision(revision), level)
    }

    #[test]
    fn marks_are_what_other_languages_compute() {
        assert_eq!(mark_of("", "web", 12, Level::Blocked), WEB);
        assert_eq!(mark_of("default", "db", 3, Level::Active), DB);
        assert_eq!(mark_of("prod", "api.v2", u64::MAX, Level::Unknown), API);
    }

    #[test]
    fn order_does_not_matter() {
        let mut digest = Digest::default();
        digest.add(DB);
        digest.add(API);
        digest.add(WEB);
        digest.remove(API);
        assert_eq!(digest.value(), WEB_AND_DB);
        digest.remove(WEB);
        digest.remove(DB);
        assert_eq!(digest, Digest::default());
    }
}
