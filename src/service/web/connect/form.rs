//! How a client encodes its messages, or wants those of the answer.

use prost_reflect::MessageDescriptor;

use crate::service::web::codec::Codec;

/// Flag of a message that is compressed.
pub const COMPRESSED: u8 = 1;

/// How messages lie in a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// The body is the message.
    Whole,
    /// Each message has a prefix.
    Prefixed,
}

/// How the messages of a body are written.
#[derive(Debug, Clone)]
pub struct Form {
    /// Whether messages have a prefix.
    pub framing: Framing,
    /// How messages are encoded.
    pub codec: Codec,
    /// Whether messages may be compressed.
    pub is_gzip: bool,
    /// The type of the messages.
    pub message: MessageDescriptor,
}
