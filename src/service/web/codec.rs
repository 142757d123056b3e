//! Messages as canonical proto JSON or as binary proto, and their frames of gRPC.

use bytes::{BufMut, Bytes, BytesMut};
use prost::Message;
use prost_reflect::{DeserializeOptions, DynamicMessage, MessageDescriptor};
use tonic::Status;

use super::{plain_json, spelling, unique};
use crate::service::call::intake::frame::{PREFIX_BYTES, Prefix};
use crate::service::call::intake::{Shape, refusal};

/// How the bodies of a call are encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Codec {
    /// Canonical proto JSON.
    Json,
    /// Binary proto.
    Proto,
}

impl Codec {
    /// Returns the codec with this name.
    pub fn named(name: &str) -> Option<Codec> {
        match name {
            "json" => Some(Codec::Json),
            "proto" => Some(Codec::Proto),
            _ => None,
        }
    }

    /// Decodes a request to binary proto. An unknown field is an error that names the field, so
    /// that a typing error does not look like success. Parts are counted before.
    pub fn decode(
        self,
        message: &MessageDescriptor,
        bytes: Bytes,
        shape: &Shape,
    ) -> Result<Bytes, Status> {
        if self == Codec::Proto {
            return Ok(bytes);
        }
        let refused = |error: serde_json::Error| {
            refusal::malformed(format!("the request is no {} in JSON: {error}", message.name()))
        };
        if bytes.iter().all(u8::is_ascii_whitespace) {
            return Err(refusal::malformed(
                "the request is empty; send {} for a message without fields",
            ));
        }
        shape.check_json(&bytes)?;
        unique::check(message, &bytes).map_err(refused)?;
        let options = DeserializeOptions::new().deny_unknown_fields(true);
        let mut json = serde_json::Deserializer::from_slice(&bytes);
        let decoded =
            DynamicMessage::deserialize_with_options(message.clone(), &mut json, &options)
                .and_then(|decoded| json.end().map(|()| decoded));
        let decoded = decoded.or_else(|error| {
            // Most requests spell levels as proto JSON does, and are decoded only once.
            let Ok(mut value) = serde_json::from_slice(&bytes) else { return Err(refused(error)) };
            match spelling::correct(message, &mut value) {
                Ok(true) => {
                    let decoded =
                        DynamicMessage::deserialize_with_options(message.clone(), value, &options);
                    decoded.map_err(refused)
                }
                Ok(false) => Err(refused(error)),
                Err(text) => Err(refusal::malformed(text)),
            }
        })?;
        Ok(decoded.encode_to_vec().into())
    }

    /// Encodes an answer that is binary proto.
    pub fn encode(self, message: &MessageDescriptor, bytes: Bytes) -> Result<Bytes, Status> {
        if self == Codec::Proto {
            return Ok(bytes);
        }
        if let Some(json) = plain_json::of(message, &bytes) {
            return Ok(json.into());
        }
        let failed = |error: &dyn std::fmt::Display| {
            Status::internal(format!("a {} has no form in JSON: {error}", message.name()))
        };
        let decoded = DynamicMessage::decode(message.clone(), bytes).map_err(|e| failed(&e))?;
        let json = serde_json::to_vec(&decoded).map_err(|e| failed(&e))?;
        Ok(json.into())
    }
}

/// Returns a message with its prefix.
pub fn framed(flags: u8, message: &[u8]) -> Bytes {
    let mut frame = BytesMut::with_capacity(PREFIX_BYTES + message.len());
    frame.put_u8(flags);
    frame.put_u32(u32::try_from(message.len()).unwrap_or(u32::MAX));
    frame.put_slice(message);
    frame.freeze()
}

/// Takes the first whole frame out of `bytes`, without its prefix.
pub fn take_frame(bytes: &mut BytesMut) -> Option<(u8, Bytes)> {
    let prefix = Prefix::read(bytes)?;
    if bytes.len() < prefix.frame_bytes() {
        return None;
    }
    let mut frame = bytes.split_to(prefix.frame_bytes()).freeze();
    Some((prefix.flag, frame.split_off(PREFIX_BYTES)))
}
