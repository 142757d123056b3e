//! The body of a Connect request, as the body of a gRPC request.
//!
//! The body is translated while it is read, so that a call is known, and may be refused, before its
//! first byte. An error of the translation is the error of the call.

use std::future::poll_fn;
use std::pin::Pin;

use bytes::{Bytes, BytesMut};
use futures_util::stream;
use http_body::{Body as _, Frame};
use tonic::Status;
use tonic::body::Body;

use super::{COMPRESSED, Form, Framing};
use crate::service::intake::frame::Prefix;
use crate::service::intake::{Meter, refusal};
use crate::service::web::codec::{framed, take_frame};
use crate::service::web::gzip;

/// The body of a gRPC request.
pub struct RequestBody {
    pub(super) inner: Body,
    /// A whole body is compressed if its messages may be.
    pub(super) form: Form,
    pub(super) meter: Meter,
    /// The received part of the next message.
    pub(super) held: BytesMut,
    /// The error of the headers or the query.
    pub(super) refused: Option<Status>,
    pub(super) is_ended: bool,
}

impl RequestBody {
    /// Translates one message.
    fn translate(&self, bytes: Bytes, is_gzip: bool) -> Result<Bytes, Status> {
        let plain = match is_gzip {
            true => gzip::decompress(&bytes, self.meter.message_bytes_max())?,
            false => bytes,
        };
        Ok(framed(0, &self.form.codec.decode(&self.form.message, plain)?))
    }

    /// Returns the next message if it is complete.
    fn take(&mut self) -> Result<Option<Bytes>, Status> {
        if self.form.framing == Framing::Whole {
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
            COMPRESSED if self.form.is_gzip => self.translate(message, true).map(Some),
            COMPRESSED => Err(refusal::unannounced_compression("connect-content-encoding")),
            _ => Err(refusal::malformed(format!("the flags of a message are {flags}, not 0 or 1"))),
        }
    }

    /// Returns the message at the end of a whole body.
    fn end(&mut self) -> Result<Option<Bytes>, Status> {
        if self.form.framing == Framing::Whole {
            let bytes = std::mem::take(&mut self.held).freeze();
            return self.translate(bytes, self.form.is_gzip).map(Some);
        }
        match self.held.is_empty() {
            true => Ok(None),
            false => Err(refusal::malformed("the request ends within a message")),
        }
    }

    fn hold(&mut self, data: &Bytes) -> Result<(), Status> {
        // The size of a message with a prefix is checked by its prefix.
        if self.form.framing == Framing::Whole {
            self.meter.check(self.held.len() + data.len())?;
        }
        self.meter.hold(data.len())?;
        self.held.extend_from_slice(data);
        Ok(())
    }

    /// Waits for the next message; `None` at the end.
    async fn next(&mut self) -> Result<Option<Bytes>, Status> {
        if let Some(status) = self.refused.take() {
            return Err(status);
        }
        loop {
            if let Some(message) = self.take()? {
                return Ok(Some(message));
            }
            let frame = poll_fn(|context| {
                let polled = Pin::new(&mut self.inner).poll_frame(context);
                if polled.is_pending() {
                    self.meter.poll_timeout(context, !self.held.is_empty())?;
                }
                polled.map(Option::transpose).map_err(refusal::broken_off)
            });
            match frame.await?.map(Frame::into_data) {
                Some(Ok(data)) => self.hold(&data)?,
                Some(Err(_trailers)) => {}
                None => {
                    self.is_ended = true;
                    let last = self.end();
                    self.meter.release();
                    return last;
                }
            }
        }
    }

    /// Returns the body of the call. An error drops what is held.
    pub fn into_body(self) -> Body {
        let messages = stream::try_unfold(self, |mut body| async move {
            match body.is_ended {
                true => Ok::<_, Status>(None),
                false => Ok(body.next().await?.map(|message| (message, body))),
            }
        });
        Body::new(axum::body::Body::from_stream(messages))
    }
}
