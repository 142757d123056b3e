//! The frames of gRPC: a flag, a length of four bytes, and the message.

/// Bytes before each message: the flag and the length.
pub const PREFIX_BYTES: usize = 5;

/// The prefix of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prefix {
    pub flag: u8,
    /// Bytes of the message that follows.
    pub length: usize,
}

impl Prefix {
    /// Reads the first bytes of a frame; `None` if there are too few.
    pub fn read(bytes: &[u8]) -> Option<Prefix> {
        let (flag, rest) = bytes.split_first()?;
        let length = rest.first_chunk::<4>()?;
        Some(Prefix { flag: *flag, length: u32::from_be_bytes(*length) as usize })
    }

    /// Returns the bytes of the whole frame.
    pub fn frame_bytes(self) -> usize {
        PREFIX_BYTES + self.length
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_five_bytes() {
        let prefix = |flag, length| Some(Prefix { flag, length });
        for (bytes, expected) in [
            (&[][..], None),
            (&[0, 0, 0, 1], None),
            (&[0, 0, 0, 0, 0], prefix(0, 0)),
            (&[1, 0, 0, 1, 2, 9, 9], prefix(1, 258)),
            (&[9, 255, 255, 255, 255], prefix(9, 4_294_967_295)),
        ] {
            assert_eq!(Prefix::read(bytes), expected, "{bytes:?}");
        }
    }
}
