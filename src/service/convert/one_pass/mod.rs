//! One pass over the common message of a worker: from the bytes on the wire to the status that the
//! session commits.
//!
//! ```text
//!  bytes --wire::Plain::read--> fields, borrowed --PlainReport::read--> a checked status
//!    '------prost, convert::inbound------> every other message, and every violation
//! ```
//!
//! A worker's stream carries hundreds of thousands of reports a second, and nearly all of them have
//! one status with a few texts. For such a message prost allocates a list, a struct of 280 bytes
//! and each text, and the conversion copies what it needs out of them: a third of a report's cost
//! (docs/performance.md). Whatever is not plain goes to prost, so the form that is read here may be
//! as narrow as it is, and there is one place that explains violations. `probe` compares both ways.

#[cfg(any(test, feature = "testing"))]
pub mod probe;
mod wire;

use bytes::{Buf, Bytes};
use prost::Message as _;
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder};
use tonic_prost::{ProstCodec, ProstDecoder, ProstEncoder};

use super::fields::Fields;
use crate::domain::command::NewStatus;
use crate::domain::limits::{MESSAGE_BYTES_MAX, NAME_BYTES_MAX, TTL_MAX, TTL_MIN};
use crate::domain::status::Kind;
use crate::domain::status::report::{Details, Report};
use crate::proto::v1;
use crate::proto::v1::connect_request::Message as Payload;
use crate::service::offload::LARGE_BYTES;

/// A message of a worker, as far as it is decoded.
pub enum Received {
    /// A report of one plain status.
    Plain(PlainReport),
    /// Any other message.
    Other(Option<Payload>),
    /// A large message, which is decoded beside the runtime: see [`Received::decoded`].
    Large(Bytes),
}

impl Received {
    /// Decodes a large message; any other one stays as it is. A large one takes milliseconds.
    ///
    /// # Errors
    /// If the bytes are no message.
    pub fn decoded(self) -> Result<Received, Status> {
        let Received::Large(bytes) = self else { return Ok(self) };
        let request = v1::ConnectRequest::decode(bytes);
        // As tonic says it.
        let request = request.map_err(|error| Status::internal(error.to_string()))?;
        Ok(Received::Other(request.message))
    }
}

/// A report of one status without labels, observation time and end, in which everything is valid.
#[derive(Debug, PartialEq)]
pub struct PlainReport {
    /// Sequence number of the message.
    pub seq: u64,
    /// How the status is updated.
    pub kind: Kind,
    /// The status.
    pub status: NewStatus,
}

impl PlainReport {
    /// Decodes a message, and checks its fields by the same functions as those of every other one.
    /// Returns `None` if it is another message, or is not valid.
    fn read(message: &[u8]) -> Option<PlainReport> {
        let given = wire::Plain::read(message)?;
        let mut fields = Fields::default();
        let report = Report {
            level: fields.level("level", given.level),
            message: fields.text("message", given.message, MESSAGE_BYTES_MAX),
            ttl: fields.duration("ttl", given.ttl, TTL_MIN, TTL_MAX),
            ..Report::default()
        };
        let details = Details {
            short_message: fields.short_message(given.short_message.to_string()),
            reason: fields.text("reason", given.reason, NAME_BYTES_MAX),
            check: fields.text("check", given.check, MESSAGE_BYTES_MAX),
            action: fields.text("action", given.action, MESSAGE_BYTES_MAX),
            priority: fields.weight("priority", given.priority),
            precedence: fields.weight("precedence", given.precedence),
            ..Details::default()
        };
        let status = NewStatus {
            component: fields.part("component", given.component),
            key: fields.part("key", given.key),
            report: report.with(details).into(),
            observe_time: None,
        };
        let kind = fields.kind(given.kind).unwrap_or(Kind::Push);
        let is_valid = given.seq != 0 && !fields.is_wrong();
        is_valid.then_some(PlainReport { seq: given.seq, kind, status })
    }
}

/// The codec of a worker's stream.
#[derive(Default)]
pub struct OnePassCodec(ProstCodec<v1::ConnectResponse, v1::ConnectRequest>);

/// The decoder of [`OnePassCodec`].
pub struct OnePassDecoder(ProstDecoder<v1::ConnectRequest>);

impl Codec for OnePassCodec {
    type Encode = v1::ConnectResponse;
    type Decode = Received;
    type Encoder = ProstEncoder<v1::ConnectResponse>;
    type Decoder = OnePassDecoder;

    fn encoder(&mut self) -> Self::Encoder {
        self.0.encoder()
    }

    fn decoder(&mut self) -> OnePassDecoder {
        OnePassDecoder(self.0.decoder())
    }
}

impl Decoder for OnePassDecoder {
    type Item = Received;
    type Error = Status;

    fn decode(&mut self, message: &mut DecodeBuf<'_>) -> Result<Option<Received>, Status> {
        // A message in several pieces, which tonic does not make, is left to prost.
        let whole = Some(message.chunk()).filter(|piece| piece.len() == message.remaining());
        if let Some(report) = whole.and_then(PlainReport::read) {
            message.advance(message.remaining());
            return Ok(Some(Received::Plain(report)));
        }
        if LARGE_BYTES < message.remaining() {
            return Ok(Some(Received::Large(message.copy_to_bytes(message.remaining()))));
        }
        let request = self.0.decode(message)?;
        Ok(request.map(|request| Received::Other(request.message)))
    }
}

#[cfg(test)]
mod tests;
