//! Opaque bytes that belong to a worker.

use std::fmt;
use std::ops::Deref;

use serde::{Deserialize, Serialize};

/// Bytes that the server never interprets. Clones share the memory; `Debug` prints only the length,
/// so that no log contains the value.
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
    /// Returns the bytes for the wire, without a copy.
    pub fn to_wire(&self) -> bytes::Bytes {
        self.0.clone()
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}
