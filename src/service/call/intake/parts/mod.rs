//! The parts of a message: the messages inside it, and the entries of its lists and maps. A part
//! takes one to four bytes on the wire and up to hundreds in memory, so parts are counted before
//! the message is decoded.

mod json;
mod schema;

pub(super) use schema::TypeId;
pub use schema::{LIST_MAX, Types};

use schema::{Field, LISTS_MAX, Packing};

use crate::service::protobuf::{WireValue, next_field_past_groups};

/// Maximum parts of a message: 4,096 statuses with 31 labels each.
pub const PARTS_MAX: usize = 1 << 17;

/// The name of that limit.
const PARTS_LIMIT: &str = "request_parts_max";

/// Messages inside messages are decoded up to this depth by prost.
const DEPTH_MAX: u32 = 100;

/// A limit that a message exceeds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TooMany {
    /// The name of the limit.
    pub limit: &'static str,
    /// The limit.
    pub max: usize,
    /// The list that is too long; `None`: all lists together are.
    pub field: Option<Box<str>>,
}

/// The parts that a message may still have.
struct Left(usize);

impl Left {
    fn take(&mut self, count: usize) -> Result<(), TooMany> {
        match self.0.checked_sub(count) {
            Some(left) => {
                self.0 = left;
                Ok(())
            }
            None => Err(TooMany { limit: PARTS_LIMIT, max: PARTS_MAX, field: None }),
        }
    }
}

impl Types {
    /// Counts the parts of a message in binary proto. What cannot be decoded ends the count: the
    /// decoder refuses it.
    ///
    /// # Errors
    /// The first limit that the message exceeds.
    pub(super) fn check(&self, message: TypeId, bytes: &[u8]) -> Result<(), TooMany> {
        // An entry takes a byte at least.
        match bytes.len() <= LIST_MAX {
            true => Ok(()),
            false => self.count(message, bytes, &mut Left(PARTS_MAX), DEPTH_MAX),
        }
    }

    fn count(
        &self,
        of: TypeId,
        mut bytes: &[u8],
        left: &mut Left,
        depth: u32,
    ) -> Result<(), TooMany> {
        let mut counts = [0; LISTS_MAX];
        while let Some((number, value)) = next_field_past_groups(&mut bytes) {
            let Some(field) = self.field(of, number) else { continue };
            left.take(entries(field, value, &mut counts)?)?;
            if let (Some(part), WireValue::Bytes(value)) = (field.message, value)
                && 0 < depth
            {
                self.count(part, value, left, depth - 1)?;
            }
        }
        Ok(())
    }
}

/// Returns how many parts a value adds to a field.
fn entries(
    field: &Field,
    value: WireValue<'_>,
    counts: &mut [usize; LISTS_MAX],
) -> Result<usize, TooMany> {
    let Some(list) = &field.list else { return Ok(1) };
    let more = match (list.packing, value) {
        (Packing::Variable, WireValue::Bytes(packed)) => {
            // The last byte of each number has no highest bit.
            packed.iter().filter(|byte| **byte < 0x80).count()
        }
        (Packing::Fixed(bytes), WireValue::Bytes(packed)) => packed.len() / bytes,
        _ => 1,
    };
    let count = &mut counts[list.slot];
    *count += more;
    field.check(*count)?;
    Ok(more)
}

#[cfg(test)]
mod tests;
