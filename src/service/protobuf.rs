//! Protobuf without the types of messages: the fields of an encoded one, and times.

use prost::encoding::{WireType, decode_key, decode_varint};

use crate::domain::time::Timestamp;

/// The value of a field on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WireValue<'a> {
    /// A number of variable length.
    Number(u64),
    /// A text, bytes, a message or packed numbers.
    Bytes(&'a [u8]),
    /// A number of four or eight bytes.
    Fixed(&'a [u8]),
}

impl<'a> WireValue<'a> {
    /// Returns a text.
    pub fn text(self) -> Option<&'a str> {
        std::str::from_utf8(self.bytes()?).ok()
    }

    /// Returns what a field with a length holds.
    pub fn bytes(self) -> Option<&'a [u8]> {
        match self {
            WireValue::Bytes(bytes) => Some(bytes),
            WireValue::Number(_) | WireValue::Fixed(_) => None,
        }
    }

    /// Returns a number of variable length.
    pub fn number(self) -> Option<u64> {
        match self {
            WireValue::Number(number) => Some(number),
            WireValue::Bytes(_) | WireValue::Fixed(_) => None,
        }
    }

    /// Returns a `double`.
    pub fn double(self) -> Option<f64> {
        match self {
            WireValue::Fixed(bytes) => Some(f64::from_le_bytes(bytes.try_into().ok()?)),
            WireValue::Number(_) | WireValue::Bytes(_) => None,
        }
    }

    /// Returns an `int32` or an enum: a negative one has ten bytes.
    pub fn int32(self) -> Option<i32> {
        i32::try_from(self.number()? as i64).ok()
    }

    /// Returns an `sint32`: its sign is the lowest bit.
    pub fn sint32(self) -> Option<i32> {
        let number = u32::try_from(self.number()?).ok()?;
        Some((number >> 1) as i32 ^ -((number & 1) as i32))
    }
}

/// Takes the next field off the bytes: its number and its value.
pub fn next_field<'a>(bytes: &mut &'a [u8]) -> Option<(u32, WireValue<'a>)> {
    let (number, wire_type) = decode_key(bytes).ok()?;
    let value = match wire_type {
        WireType::Varint => WireValue::Number(decode_varint(bytes).ok()?),
        WireType::LengthDelimited => {
            let length = usize::try_from(decode_varint(bytes).ok()?).ok()?;
            WireValue::Bytes(bytes.split_off(..length)?)
        }
        WireType::SixtyFourBit => WireValue::Fixed(bytes.split_off(..8)?),
        WireType::ThirtyTwoBit => WireValue::Fixed(bytes.split_off(..4)?),
        // Groups, which proto3 does not have.
        WireType::StartGroup | WireType::EndGroup => return None,
    };
    Some((number, value))
}

/// Takes the next field off the bytes, past groups: proto3 has none, and decoders skip them.
pub fn next_field_past_groups<'a>(bytes: &mut &'a [u8]) -> Option<(u32, WireValue<'a>)> {
    let mut open = 0_usize;
    loop {
        let mut ahead = *bytes;
        let (_, wire_type) = decode_key(&mut ahead).ok()?;
        match wire_type {
            WireType::StartGroup => open += 1,
            WireType::EndGroup => open = open.checked_sub(1)?,
            _ => {
                let field = next_field(bytes)?;
                if open == 0 {
                    return Some(field);
                }
                continue;
            }
        }
        *bytes = ahead;
    }
}

/// Converts a timestamp.
pub fn timestamp(time: Timestamp) -> prost_types::Timestamp {
    prost_types::Timestamp {
        seconds: i64::try_from(time.millis() / 1000).unwrap_or(i64::MAX),
        nanos: (time.millis() % 1000) as i32 * 1_000_000,
    }
}
