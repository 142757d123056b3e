//! The plain form of a report on the wire: known fields only, in the order of their numbers, each
//! at most once, as encoders write them. Any other form is read as `None`.

/// Numbers of the fields, as in the protos.
mod number {
    pub(super) const REQUEST_REPORT: u32 = 2;

    pub(super) const REPORT_SEQ: u32 = 1;
    pub(super) const REPORT_STATUSES: u32 = 2;

    pub(super) const COMPONENT: u32 = 1;
    pub(super) const KEY: u32 = 2;
    pub(super) const KIND: u32 = 3;
    pub(super) const LEVEL: u32 = 4;
    pub(super) const MESSAGE: u32 = 5;
    pub(super) const SHORT_MESSAGE: u32 = 6;
    pub(super) const REASON: u32 = 7;
    pub(super) const CHECK: u32 = 8;
    pub(super) const ACTION: u32 = 9;
    pub(super) const PRIORITY: u32 = 10;
    pub(super) const PRECEDENCE: u32 = 11;
    pub(super) const TTL: u32 = 14;

    pub(super) const DURATION_SECONDS: u32 = 1;
    pub(super) const DURATION_NANOS: u32 = 2;
}

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
        let report = match request.next()? {
            Some((number::REQUEST_REPORT, Value::Bytes(report))) => report,
            _ => return None,
        };
        request.end()?;
        let mut report = Fields::of(report);
        let seq = match report.next()? {
            Some((number::REPORT_SEQ, Value::Number(seq))) => seq,
            _ => return None,
        };
        let status = match report.next()? {
            Some((number::REPORT_STATUSES, Value::Bytes(status))) => status,
            _ => return None,
        };
        report.end()?;
        Plain { seq, ..Plain::default() }.with(status)
    }

    /// Reads the fields of a `StatusReport`.
    fn with(mut self, status: &'a [u8]) -> Option<Plain<'a>> {
        let mut fields = Fields::of(status);
        while let Some((number, value)) = fields.next()? {
            match number {
                number::COMPONENT => self.component = value.text()?,
                number::KEY => self.key = value.text()?,
                number::KIND => self.kind = value.int()?,
                number::LEVEL => self.level = value.int()?,
                number::MESSAGE => self.message = value.text()?,
                number::SHORT_MESSAGE => self.short_message = value.text()?,
                number::REASON => self.reason = value.text()?,
                number::CHECK => self.check = value.text()?,
                number::ACTION => self.action = value.text()?,
                number::PRIORITY => self.priority = value.zigzag()?,
                number::PRECEDENCE => self.precedence = value.zigzag()?,
                number::TTL => self.ttl = Some(value.duration()?),
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

    /// Reads an `int32` or an enum that is not negative; a negative one has ten bytes.
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
                number::DURATION_SECONDS => {
                    duration.seconds = i64::try_from(value.number()?).ok()?
                }
                number::DURATION_NANOS => duration.nanos = value.int()?,
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

/// Numbers and lengths on the wire, as the lowest three bits of a field's tag.
const NUMBER: u64 = 0;
const BYTES: u64 = 2;

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
        let tag = self.varint()?;
        let number = u32::try_from(tag >> 3).ok().filter(|number| self.last < *number)?;
        self.last = number;
        let value = match tag & 7 {
            NUMBER => Value::Number(self.varint()?),
            BYTES => {
                let length = usize::try_from(self.varint()?).ok()?;
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

    /// Reads a number of at most nine bytes.
    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..63).step_by(7) {
            let (byte, rest) = self.rest.split_first()?;
            self.rest = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }
}
