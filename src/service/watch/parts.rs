//! Messages of watches as they are sent: in parts, of which those that many readers get are encoded
//! once and shared.
//!
//! Of an event the application is such a part: it is kept with the hub's entry until the next
//! change. The message of a stream of many watches is the same one with the numbers of the watches
//! before it.

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

/// A message, encoded. Protobuf allows that its fields lie one after the other.
#[derive(Debug, Clone, Default)]
pub struct Parts {
    /// Of a stream of many watches: whose it is.
    head: Bytes,
    /// What is shared by most.
    first: Bytes,
    /// What may be this reader's own.
    rest: Bytes,
}

/// `MultiplexWatchesResponse.event`, a field with a length.
const EVENT: u8 = 2 << 3 | 2;
/// Longest length of a field, and its tag.
const FIELD_BYTES_MAX: usize = 11;

impl Parts {
    /// A whole message.
    pub fn of(message: &v1::WatchApplicationsResponse) -> Parts {
        Parts { rest: message.encode_to_vec().into(), ..Parts::default() }
    }

    /// The newest state of an application, and in `rest` the other fields.
    pub fn upserted(entry: &Entry, rest: Bytes) -> Parts {
        Parts { first: entry.encoded(|| application(entry)), rest, head: Bytes::new() }
    }

    /// The same event for many watches, whose numbers are encoded in `ids`.
    pub fn event_of(self, ids: &[u8]) -> Parts {
        let mut head = BytesMut::with_capacity(ids.len() + FIELD_BYTES_MAX);
        head.put_slice(ids);
        head.put_u8(EVENT);
        let len = self.first.len() + self.rest.len();
        prost::encode_length_delimiter(len, &mut head).expect("a buffer that grows has room");
        Parts { head: head.freeze(), ..self }
    }

    /// That many watches have ended.
    pub fn ended(watch_ids: Vec<u64>, status: &Status) -> Parts {
        use v1::multiplex_watches_response::Response;
        let response = Some(Response::Ended(details(status)));
        let message = v1::MultiplexWatchesResponse { watch_ids, response };
        Parts { head: message.encode_to_vec().into(), ..Parts::default() }
    }

    fn all(&self) -> [&Bytes; 3] {
        [&self.head, &self.first, &self.rest]
    }
}

/// The numbers of watches, as every message to them begins.
pub fn ids(watch_ids: &[u64]) -> Bytes {
    let watch_ids = watch_ids.to_vec();
    v1::MultiplexWatchesResponse { watch_ids, response: None }.encode_to_vec().into()
}

/// The name of the history, as nearly every message has it.
pub fn epoch(epoch: Epoch) -> Bytes {
    let store_epoch = epoch.to_string();
    v1::WatchApplicationsResponse { store_epoch, ..Default::default() }.encode_to_vec().into()
}

fn application(entry: &Entry) -> Bytes {
    let application = convert::application(&entry.app, &entry.head);
    let event = Some(wire::Event::Upserted(application));
    v1::WatchApplicationsResponse { event, ..Default::default() }.encode_to_vec().into()
}

/// A status with its details, which are one of these themselves.
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

/// Of what a stream sends: as much as there is at once, or so much. It has no buffer while there is
/// nothing to send.
const SENT: (usize, usize) = (0, 32 << 10);
/// Of what a stream takes: requests are short.
const TAKEN: (usize, usize) = (256, 32 << 10);

/// Takes messages of one kind and sends parts of others.
pub struct PartsCodec<T>(PhantomData<T>);

impl<T> Default for PartsCodec<T> {
    fn default() -> PartsCodec<T> {
        PartsCodec(PhantomData)
    }
}

impl<T: Message + Default + Send + 'static> Codec for PartsCodec<T> {
    type Encode = Parts;
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

/// Copies the parts behind one another.
pub struct PartsEncoder;

impl Encoder for PartsEncoder {
    type Item = Parts;
    type Error = Status;

    fn encode(&mut self, parts: Parts, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
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
    use crate::service::code::{Problem, Reason};
    use v1::multiplex_watches_response::Response;

    fn joined(parts: &Parts) -> Vec<u8> {
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
        let parts = Parts { first: event.encode_to_vec().into(), rest, head: Bytes::new() };
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
        let problem = Problem::new(Reason::ResumeTokenExpired, "too far behind".to_string());
        let ended = joined(&Parts::ended(vec![3], &problem.into()));
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
