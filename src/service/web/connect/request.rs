//! The body of a Connect request, as the body of a gRPC request.
//!
//! The body is translated while it is read, so that a call is known, and may be refused, before its
//! first byte. An error of the translation is the error of the call.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use http_body::{Body as _, Frame};
use prost_reflect::MessageDescriptor;
use tonic::Status;
use tonic::body::Body;

use crate::service::intake::frame::Prefix;
use crate::service::intake::{Meter, refusal};
use crate::service::web::codec::{Codec, framed, take_frame};
use crate::service::web::gzip;

/// Flag of a message that is compressed.
const COMPRESSED: u8 = 1;

/// How messages lie in a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// The body is the message.
    Whole,
    /// Each message has a prefix.
    Prefixed,
}

/// The body of a gRPC request.
pub struct RequestBody {
    inner: Body,
    framing: Framing,
    codec: Codec,
    /// Whether messages may be compressed; a whole body is then compressed.
    is_gzip: bool,
    message: MessageDescriptor,
    meter: Meter,
    /// The received part of the next message.
    held: BytesMut,
    /// The error of the headers or the query.
    refused: Option<Status>,
    is_ended: bool,
}

impl RequestBody {
    /// Translates `inner`, which holds messages of this type.
    pub fn new(
        inner: Body,
        (framing, codec, is_gzip): (Framing, Codec, bool),
        message: MessageDescriptor,
        meter: Meter,
    ) -> RequestBody {
        RequestBody {
            inner,
            framing,
            codec,
            is_gzip,
            message,
            meter,
            held: BytesMut::new(),
            refused: None,
            is_ended: false,
        }
    }

    /// Makes this the error of the call.
    pub fn refuse(mut self, status: Option<Status>) -> RequestBody {
        self.refused = status;
        self
    }

    /// Translates one message.
    fn translate(&self, bytes: Bytes, is_gzip: bool) -> Result<Bytes, Status> {
        let plain = match is_gzip {
            true => gzip::decompress(&bytes, self.meter.message_bytes_max())?,
            false => bytes,
        };
        Ok(framed(0, &self.codec.decode(&self.message, plain)?))
    }

    /// Returns the next message if it is complete.
    fn take(&mut self) -> Result<Option<Bytes>, Status> {
        if self.framing == Framing::Whole {
            return Ok(None);
        }
        if let Some(prefix) = Prefix::read(&self.held) {
            self.meter.check(prefix.length)?;
        }
        let Some((flags, message)) = take_frame(&mut self.held) else { return Ok(None) };
        self.meter.release();
        self.meter.hold(self.held.len())?;
        match flags {
            0 => self.translate(message, false).map(Some),
            COMPRESSED if self.is_gzip => self.translate(message, true).map(Some),
            COMPRESSED => Err(refusal::unannounced_compression("connect-content-encoding")),
            _ => Err(refusal::malformed(format!("the flags of a message are {flags}, not 0 or 1"))),
        }
    }

    /// Returns the message at the end of a whole body.
    fn end(&mut self) -> Result<Option<Bytes>, Status> {
        if self.framing == Framing::Whole {
            let bytes = std::mem::take(&mut self.held).freeze();
            return self.translate(bytes, self.is_gzip).map(Some);
        }
        match self.held.is_empty() {
            true => Ok(None),
            false => Err(refusal::malformed("the request ends within a message")),
        }
    }

    fn hold(&mut self, data: &Bytes) -> Result<(), Status> {
        // The size of a message with a prefix is checked by its prefix.
        if self.framing == Framing::Whole {
            self.meter.check(self.held.len() + data.len())?;
        }
        self.meter.hold(data.len())?;
        self.held.extend_from_slice(data);
        Ok(())
    }

    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Bytes>, Status>> {
        if let Some(status) = self.refused.take() {
            return Poll::Ready(Err(status));
        }
        loop {
            if let Some(message) = self.take()? {
                return Poll::Ready(Ok(Some(message)));
            }
            match Pin::new(&mut self.inner).poll_frame(context) {
                Poll::Ready(Some(frame)) => {
                    if let Ok(data) = frame?.into_data() {
                        self.hold(&data)?;
                    }
                }
                Poll::Ready(None) => {
                    self.is_ended = true;
                    return Poll::Ready(self.end());
                }
                Poll::Pending => {
                    self.meter.poll_patience(context, !self.held.is_empty())?;
                    return Poll::Pending;
                }
            }
        }
    }
}

impl http_body::Body for RequestBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if self.is_ended {
            return Poll::Ready(None);
        }
        let polled = self.poll_next(context);
        if let Poll::Ready(Err(_)) = &polled {
            self.is_ended = true;
        }
        if self.is_ended {
            self.held = BytesMut::new();
            self.meter.release();
        }
        polled.map(|next| next.transpose().map(|next| next.map(Frame::data)))
    }
}
