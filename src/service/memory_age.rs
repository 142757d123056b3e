//! The metadata of an answer from memory, while the store or the upstreams are away.

/// Since when that is so, as RFC 3339.
pub(super) const AS_OF: &str = "bellwether-as-of";
/// In a relay: the addresses of the upstreams that are away.
pub(super) const AS_OF_UPSTREAM: &str = "bellwether-as-of-upstream";
