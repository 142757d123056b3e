//! Maps keys to slots of a cluster.

/// The number of hash slots of a cluster.
pub const SLOTS: u16 = 16_384;

/// Returns the slot of a key, or of all keys that contain a hash tag. If the braces contain text,
/// only that text counts.
pub fn slot_of(key: &str) -> u16 {
    let opened = key.split_once('{').map(|(_, rest)| rest);
    let inside = opened.and_then(|rest| rest.split_once('}')).map(|(inside, _)| inside);
    let hashed = inside.filter(|inside| !inside.is_empty()).unwrap_or(key);
    crc16(hashed.as_bytes()) % SLOTS
}

/// CRC-16/XMODEM, as the cluster specification defines it. Tags are a few bytes long, so it needs
/// no table.
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
        assert_eq!(slot_of("a:{foo}:{b}"), 12_182);
        assert_eq!(slot_of("{}foo"), crc16(b"{}foo") % SLOTS);
        assert_eq!(slot_of(""), 0);
    }
}
