//! The plain form of a report on the wire: known fields only, in the order of their numbers, each
//! at most once, as encoders write them. Any other form is read as `None`. The numbers are those of
//! the protos.

use crate::service::protobuf::{WireValue, next_field};

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
        let Some((2, WireValue::Bytes(report))) = request.next()? else { return None };
        request.end()?;
        let mut report = Fields::of(report);
        let Some((1, WireValue::Number(seq))) = report.next()? else { return None };
        let Some((2, WireValue::Bytes(status))) = report.next()? else { return None };
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
                3 => self.kind = value.int32()?,
                4 => self.level = value.int32()?,
                5 => self.message = value.text()?,
                6 => self.short_message = value.text()?,
                7 => self.reason = value.text()?,
                8 => self.check = value.text()?,
                9 => self.action = value.text()?,
                10 => self.priority = value.sint32()?,
                11 => self.precedence = value.sint32()?,
                14 => self.ttl = Some(duration(value.bytes()?)?),
                // Labels, the observation time, the end, and what a later version adds.
                _ => return None,
            }
        }
        Some(self)
    }
}

fn duration(encoded: &[u8]) -> Option<prost_types::Duration> {
    let mut duration = prost_types::Duration::default();
    let mut fields = Fields::of(encoded);
    while let Some((number, value)) = fields.next()? {
        match number {
            1 => duration.seconds = i64::try_from(value.number()?).ok()?,
            2 => duration.nanos = value.int32()?,
            _ => return None,
        }
    }
    Some(duration)
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
    fn next(&mut self) -> Option<Option<(u32, WireValue<'a>)>> {
        if self.rest.is_empty() {
            return Some(None);
        }
        let (number, value) = next_field(&mut self.rest)?;
        let is_in_order = std::mem::replace(&mut self.last, number) < number;
        is_in_order.then_some(Some((number, value)))
    }

    fn end(&self) -> Option<()> {
        self.rest.is_empty().then_some(())
    }
}
