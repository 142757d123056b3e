//! Encoded messages of watches, in parts. A part that many readers receive is encoded once and
//! shared.
//!
//! The application of an event is such a part: the hub's entry keeps it until the next change. A
//! message of a multiplexed stream is the same message, with the numbers of its watches in front.

use std::marker::PhantomData;

use bytes::{BufMut, Bytes, BytesMut};
use prost::Message;
use tonic::Status;
use tonic::codec::{BufferSettings, Codec, EncodeBuf, Encoder};
use tonic_prost::{ProstCodec, ProstDecoder};

use crate::proto::v1;
use crate::proto::v1::watch_applications_response as wire;
use crate::service::convert;
use crate::store::Epoch;
use crate::watch::Entry;

/// An encoded message. Protobuf allows the concatenation of its fields.
#[derive(Debug, Clone, Default)]
pub struct Encoded {
    /// On a multiplexed stream: the numbers of the watches.
    head: Bytes,
    /// The part that most readers share.
    first: Bytes,
    /// The part that may differ for this reader.
    rest: Bytes,
}

/// Tag of `MultiplexWatchesResponse.event`, a field with a length.
const EVENT: u8 = 2 << 3 | 2;
/// Maximum bytes of a field's tag and length.
const FIELD_BYTES_MAX: usize = 11;

impl Encoded {
    /// Encodes a whole message.
    pub fn of(message: &v1::WatchApplicationsResponse) -> Encoded {
        Encoded { rest: message.encode_to_vec().into(), ..Encoded::default() }
    }

    /// Returns the newest state of an application, with the other fields in `rest`.
    pub fn upserted(entry: &Entry, rest: Bytes) -> Encoded {
        Encoded { first: entry.encoded(|| application(entry)), rest, head: Bytes::new() }
    }

    /// Addresses the event to several watches, whose numbers are encoded in `ids`.
    pub fn event_of(self, ids: &[u8]) -> Encoded {
        let mut head = BytesMut::with_capacity(ids.len() + FIELD_BYTES_MAX);
        head.put_slice(ids);
        head.put_u8(EVENT);
        let len = self.first.len() + self.rest.len();
        prost::encode_length_delimiter(len, &mut head).expect("a buffer that grows has room");
        Encoded { head: head.freeze(), ..self }
    }

    /// Encodes the end of several watches.
    pub fn ended(watch_ids: Vec<u64>, status: &Status) -> Encoded {
        use v1::multiplex_watches_response::Response;
        let response = Some(Response::Ended(details(status)));
        let message = v1::MultiplexWatchesResponse { watch_ids, response };
        Encoded { head: message.encode_to_vec().into(), ..Encoded::default() }
    }

    fn all(&self) -> [&Bytes; 3] {
        [&self.head, &self.first, &self.rest]
    }
}

/// Encodes the numbers of watches, which start every message to them.
pub fn ids(watch_ids: &[u64]) -> Bytes {
    let watch_ids = watch_ids.to_vec();
    v1::MultiplexWatchesResponse { watch_ids, response: None }.encode_to_vec().into()
}

/// Encodes the store epoch, which nearly every message contains.
pub fn epoch(epoch: Epoch) -> Bytes {
    let store_epoch = epoch.to_string();
    v1::WatchApplicationsResponse { store_epoch, ..Default::default() }.encode_to_vec().into()
}

fn application(entry: &Entry) -> Bytes {
    let application = convert::shown(entry);
    let event = Some(wire::Event::Upserted(application));
    v1::WatchApplicationsResponse { event, ..Default::default() }.encode_to_vec().into()
}

/// Returns the details of a status, which have the form of a status themselves.
fn details(status: &Status) -> tonic_types::pb::Status {
    match tonic_types::pb::Status::decode(status.details()) {
        Ok(details) if !details.details.is_empty() => details,
        _ => tonic_types::pb::Status {
            code: status.code().into(),
            message: status.message().to_string(),
            details: Vec::new(),
        },
    }
}

/// Buffer sizes of the sending side: no buffer while there is nothing to send, and at most this
/// many bytes at once.
const SENT: (usize, usize) = (0, 32 << 10);
/// Buffer sizes of the receiving side: requests are short.
const TAKEN: (usize, usize) = (256, 32 << 10);

/// Decodes messages of one type and encodes parts.
#[derive(Default)]
pub struct PartsCodec<T>(PhantomData<T>);

impl<T: Message + Default + Send + 'static> Codec for PartsCodec<T> {
    type Encode = Encoded;
    type Decode = T;
    type Encoder = PartsEncoder;
    type Decoder = ProstDecoder<T>;

    fn encoder(&mut self) -> PartsEncoder {
        PartsEncoder
    }

    fn decoder(&mut self) -> ProstDecoder<T> {
        ProstCodec::<T, T>::raw_decoder(BufferSettings::new(TAKEN.0, TAKEN.1))
    }
}

/// Writes the parts one after the other.
pub struct PartsEncoder;

impl Encoder for PartsEncoder {
    type Item = Encoded;
    type Error = Status;

    fn encode(&mut self, parts: Encoded, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        let parts = parts.all();
        buffer.reserve(parts.iter().map(|part| part.len()).sum());
        parts.into_iter().for_each(|part| buffer.put_slice(part));
        Ok(())
    }

    fn buffer_settings(&self) -> BufferSettings {
        BufferSettings::new(SENT.0, SENT.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::code::{ApiError, Reason};
    use v1::multiplex_watches_response::Response;

    fn joined(parts: &Encoded) -> Vec<u8> {
        parts.all().map(|part| part.to_vec()).concat()
    }

    #[test]
    fn parts_are_one_message() {
        let event = v1::WatchApplicationsResponse {
            event: Some(wire::Event::Removed(v1::ApplicationRemoved {
                namespace: "n".repeat(200),
                name: "web".to_string(),
            })),
            ..Default::default()
        };
        let rest = epoch(Epoch { store_id: 7, losses: 1 });
        let parts = Encoded { first: event.encode_to_vec().into(), rest, head: Bytes::new() };
        let expected = v1::WatchApplicationsResponse {
            store_epoch: "0000000000000007-1".to_string(),
            ..event
        };
        let single = v1::WatchApplicationsResponse::decode(&*joined(&parts)).unwrap();
        assert_eq!(single, expected);
        let many = joined(&parts.event_of(&ids(&[1, 300])));
        let many = v1::MultiplexWatchesResponse::decode(&*many).unwrap();
        assert_eq!(many.watch_ids, [1, 300]);
        assert_eq!(many.response, Some(Response::Event(expected)));
    }

    #[test]
    fn an_end_has_the_details_of_its_status() {
        let problem = ApiError::new(Reason::ResumeTokenExpired, "too far behind".to_string());
        let ended = joined(&Encoded::ended(vec![3], &problem.into()));
        let ended = v1::MultiplexWatchesResponse::decode(&*ended).unwrap();
        let Some(Response::Ended(status)) = ended.response else { panic!("{ended:?}") };
        assert_eq!(
            (status.code, &*status.message),
            (tonic::Code::OutOfRange.into(), "too far behind")
        );
        assert_eq!(status.details.len(), 1);
        let plain = details(&Status::cancelled("as asked"));
        assert_eq!((plain.code, &*plain.message), (tonic::Code::Cancelled.into(), "as asked"));
    }
}
