//! The plain form of a report on the wire: known fields only, in the order of their numbers, each
//! at most once, as encoders write them. Any other form is read as `None`. The numbers are those of
//! the protos.

use prost::encoding::{WireType, decode_key, decode_varint};

/// The fields of a plain report, as they are in the message.
#[derive(Debug, Default)]
pub(super) struct Plain<'a> {
    pub(super) seq: u64,
    pub(super) component: &'a str,
    pub(super) key: &'a str,
    pub(super) kind: i32,
    pub(super) level: i32,
    pub(super) message: &'a str,
    pub(super) short_message: &'a str,
    pub(super) reason: &'a str,
    pub(super) check: &'a str,
    pub(super) action: &'a str,
    pub(super) priority: i32,
    pub(super) precedence: i32,
    pub(super) ttl: Option<prost_types::Duration>,
}

impl<'a> Plain<'a> {
    /// Reads a `ConnectRequest` that is a report of one status.
    pub(super) fn read(message: &'a [u8]) -> Option<Plain<'a>> {
        let mut request = Fields::of(message);
        let Some((2, Value::Bytes(report))) = request.next()? else { return None };
        request.end()?;
        let mut report = Fields::of(report);
        let Some((1, Value::Number(seq))) = report.next()? else { return None };
        let Some((2, Value::Bytes(status))) = report.next()? else { return None };
        report.end()?;
        Plain { seq, ..Plain::default() }.with(status)
    }

    /// Reads the fields of a `StatusReport`.
    fn with(mut self, status: &'a [u8]) -> Option<Plain<'a>> {
        let mut fields = Fields::of(status);
        while let Some((number, value)) = fields.next()? {
            match number {
                1 => self.component = value.text()?,
                2 => self.key = value.text()?,
                3 => self.kind = value.int()?,
                4 => self.level = value.int()?,
                5 => self.message = value.text()?,
                6 => self.short_message = value.text()?,
                7 => self.reason = value.text()?,
                8 => self.check = value.text()?,
                9 => self.action = value.text()?,
                10 => self.priority = value.zigzag()?,
                11 => self.precedence = value.zigzag()?,
                14 => self.ttl = Some(value.duration()?),
                // Labels, the observation time, and what a later version adds.
                _ => return None,
            }
        }
        Some(self)
    }
}

/// The value of a field.
#[derive(Clone, Copy)]
enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

impl<'a> Value<'a> {
    fn text(self) -> Option<&'a str> {
        match self {
            Value::Bytes(bytes) => std::str::from_utf8(bytes).ok(),
            Value::Number(_) => None,
        }
    }

    fn number(self) -> Option<u64> {
        match self {
            Value::Number(number) => Some(number),
            Value::Bytes(_) => None,
        }
    }

    /// Reads an `int32` or an enum that is not negative; a negative one is beyond 32 bits.
    fn int(self) -> Option<i32> {
        i32::try_from(self.number()?).ok()
    }

    /// Reads an `sint32`: its sign is the lowest bit.
    fn zigzag(self) -> Option<i32> {
        let number = u32::try_from(self.number()?).ok()?;
        Some((number >> 1) as i32 ^ -((number & 1) as i32))
    }

    fn duration(self) -> Option<prost_types::Duration> {
        let Value::Bytes(bytes) = self else { return None };
        let mut duration = prost_types::Duration::default();
        let mut fields = Fields::of(bytes);
        while let Some((number, value)) = fields.next()? {
            match number {
                1 => duration.seconds = i64::try_from(value.number()?).ok()?,
                2 => duration.nanos = value.int()?,
                _ => return None,
            }
        }
        Some(duration)
    }
}

/// The fields of a message, in the order of their numbers.
struct Fields<'a> {
    rest: &'a [u8],
    last: u32,
}

impl<'a> Fields<'a> {
    fn of(message: &'a [u8]) -> Fields<'a> {
        Fields { rest: message, last: 0 }
    }

    /// Reads the next field; `Some(None)` at the end of the message.
    #[allow(clippy::option_option)]
    fn next(&mut self) -> Option<Option<(u32, Value<'a>)>> {
        if self.rest.is_empty() {
            return Some(None);
        }
        let (number, form) = decode_key(&mut self.rest).ok()?;
        if number <= self.last {
            return None;
        }
        self.last = number;
        let value = match form {
            WireType::Varint => Value::Number(decode_varint(&mut self.rest).ok()?),
            WireType::LengthDelimited => {
                let length = usize::try_from(decode_varint(&mut self.rest).ok()?).ok()?;
                let (bytes, rest) = self.rest.split_at_checked(length)?;
                self.rest = rest;
                Value::Bytes(bytes)
            }
            _ => return None,
        };
        Some(Some((number, value)))
    }

    fn end(&self) -> Option<()> {
        self.rest.is_empty().then_some(())
    }
}
