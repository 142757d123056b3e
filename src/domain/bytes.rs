//! Bytes of a worker's own.

use std::fmt;
use std::ops::Deref;

use serde::{Deserialize, Serialize};

/// Bytes that nobody here reads: stored as bytes, shared when copied, and shown by their number
/// only, so that no log has them.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Bytes(bytes::Bytes);

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl<T: Into<bytes::Bytes>> From<T> for Bytes {
    fn from(bytes: T) -> Bytes {
        Bytes(bytes.into())
    }
}

impl Bytes {
    /// The same as they go on the wire, not copied.
    pub fn to_wire(&self) -> bytes::Bytes {
        self.0.clone()
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}
