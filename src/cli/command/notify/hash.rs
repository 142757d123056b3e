//! Stable hashes of texts: of shards, of ids, of what was sent.

use std::hash::Hasher;

use fnv::FnvHasher;

/// Returns a hash of texts, which depends on where each of them ends.
pub fn hash(texts: &[&str]) -> u64 {
    let mut hasher = FnvHasher::default();
    for text in texts {
        hasher.write(text.as_bytes());
        hasher.write_u8(0xff);
    }
    hasher.finish()
}

/// Returns a hash of 32 bits.
pub fn short_hash(texts: &[&str]) -> u32 {
    let hash = hash(texts);
    (hash ^ (hash >> 32)) as u32
}
