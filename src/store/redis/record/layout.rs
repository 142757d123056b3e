//! Where a store is among the keys of a Redis, and into how many buckets it is divided.

use std::fmt;

use crate::store::redis::link::Kind;

/// The largest prefix: it is in every key.
const PREFIX_BYTES_MAX: usize = 32;

/// The most buckets of a store. A resume token has eight bytes for each.
pub const BUCKETS_MAX: u16 = 256;

/// The place of one store. Two stores in one Redis differ by the prefix.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Layout {
    /// The start of every key.
    pub prefix: Prefix,
    /// The number of buckets, 1 to [`BUCKETS_MAX`]. A store that exists keeps its number, and is
    /// refused if this is another one. `None`: that of the store; for a new one 64, or 256 in a
    /// Cluster.
    pub buckets: Option<u16>,
}

impl Layout {
    /// Returns the number of buckets of a new store. The more buckets, the more masters of a
    /// Cluster can share the work; each bucket of a Cluster is followed on its own.
    pub(crate) fn buckets_of_new(&self, kind: Kind) -> u16 {
        let default = match kind {
            Kind::Cluster => 256,
            Kind::Standalone | Kind::Sentinel => 64,
        };
        self.buckets.unwrap_or(default).clamp(1, BUCKETS_MAX)
    }
}

/// The start of every key of a store, in front of a `:`. No character of it has a meaning in a
/// pattern of Redis or in a hash tag, and none is `:`, so no prefix covers the keys of another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prefix(String);

impl Prefix {
    /// Parses a prefix; `None` unless it is 1 to 32 of `[A-Za-z0-9._-]`.
    pub fn parse(text: &str) -> Option<Prefix> {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        let fits = (1..=PREFIX_BYTES_MAX).contains(&text.len()) && text.bytes().all(is_allowed);
        fits.then(|| Prefix(text.to_string()))
    }

    /// Returns the pattern of the keys, as a rule of an ACL has it.
    pub(crate) fn pattern(&self) -> String {
        format!("~{self}:*")
    }
}

impl Default for Prefix {
    fn default() -> Prefix {
        Prefix("bw".to_string())
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_a_word_without_patterns() {
        for good in ["bw", "a", "prod-1.eu_west", &"x".repeat(32)] {
            let prefix = Prefix::parse(good).unwrap();
            assert_eq!(prefix.pattern(), format!("~{good}:*"));
        }
        for bad in ["", "a:b", "a*", "a?", "[a]", "{b00}", "a b", "é", "a\n", &"x".repeat(33)] {
            assert_eq!(Prefix::parse(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn a_new_store_has_the_buckets_that_are_asked_for() {
        let of = |buckets, kind| Layout { buckets, ..Layout::default() }.buckets_of_new(kind);
        assert_eq!(of(None, Kind::Standalone), 64);
        assert_eq!(of(None, Kind::Sentinel), 64);
        assert_eq!(of(None, Kind::Cluster), 256);
        assert_eq!(of(Some(7), Kind::Cluster), 7);
    }
}
