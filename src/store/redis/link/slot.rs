//! Which slot of a cluster a key belongs to.

/// Hash slots of any cluster.
pub(super) const SLOTS: u16 = 16_384;

/// The slot of all keys that contain this hash tag, given with or without braces.
pub(super) fn slot_of(tag: &str) -> u16 {
    let inside = tag.strip_prefix('{').and_then(|tag| tag.strip_suffix('}')).unwrap_or(tag);
    crc16(inside.as_bytes()) % SLOTS
}

/// CRC-16/XMODEM, as the cluster specification says. Tags are a few bytes: no table is needed.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(*byte) << 8), |crc: u16, _bit| match crc & 0x8000 {
            0 => crc << 1,
            _ => (crc << 1) ^ 0x1021,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_the_specification() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        assert_eq!(slot_of("{foo}"), 12_182);
        assert_eq!(slot_of("foo"), 12_182);
        assert_eq!(slot_of(""), 0);
    }
}
