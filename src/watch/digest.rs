//! The digest by which a reader verifies its copy: a sum of hashes, so that order does not matter
//! and one change costs one subtraction and one addition.

use std::fmt::{self, Write};

use crate::domain::level::Level;
use crate::domain::name::AppName;
use crate::domain::revision::Revision;

/// The 64-bit FNV-1a hash. It detects mistakes, not attacks, and takes ten lines in any language.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fnv(u64);

impl Fnv {
    pub(super) fn new() -> Fnv {
        Fnv(0xcbf2_9ce4_8422_2325)
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    pub(super) fn finish(self) -> u64 {
        self.0
    }
}

impl Write for Fnv {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.bytes(text.as_bytes());
        Ok(())
    }
}

/// Returns the share of one application in the digest: FNV-1a of `namespace/name@revision=level`.
pub fn mark(app: &AppName, revision: Revision, level: Level) -> u64 {
    let mut hash = Fnv::new();
    write!(hash, "{app}@{revision}={}", level.word()).expect("hashing writes nowhere");
    hash.finish()
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
    const FNV_EMPTY: u64 = 0xcbf2_9ce4_8422_2325;
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
        assert_eq!(Fnv::new().finish(), FNV_EMPTY);
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
