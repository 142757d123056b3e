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
use crate::service::call::intake::frame::Prefix;
use crate::service::call::intake::{Meter, Shape, refusal};
use crate::service::offload::{LARGE_BYTES, Offload};
use crate::service::web::codec::{Codec, framed, take_frame};
use crate::service::web::gzip::Inflation;
use crate::telemetry::OffloadedWork;

/// The body of a gRPC request.
pub struct RequestBody {
    pub(super) inner: Body,
    /// A whole body is compressed if its messages may be.
    pub(super) form: Form,
    pub(super) meter: Meter,
    pub(super) shape: Shape,
    pub(super) offload: Offload,
    /// The received part of the next message.
    pub(super) held: BytesMut,
    /// The error of the headers or the query.
    pub(super) refused: Option<Status>,
    pub(super) is_ended: bool,
}

/// A message as it arrived.
struct Arrived {
    bytes: Bytes,
    is_gzip: bool,
}

impl RequestBody {
    /// Returns how a message is translated.
    fn translation(&self) -> Translation {
        let (form, shape) = (self.form.clone(), self.shape.clone());
        let (bytes_max, ratio_max) = (shape.message_bytes_max(), shape.compression_ratio_max());
        Translation { form, shape, inflation: Inflation { bytes_max, ratio_max } }
    }

    /// Returns the next message if it is complete.
    fn take(&mut self) -> Result<Option<Arrived>, Status> {
        if self.form.framing == Framing::Whole {
            return Ok(None);
        }
        if let Some(prefix) = Prefix::read(&self.held) {
            self.meter.check(prefix.length)?;
        }
        let Some((flags, bytes)) = take_frame(&mut self.held) else { return Ok(None) };
        match flags {
            0 => Ok(Some(Arrived { bytes, is_gzip: false })),
            COMPRESSED if self.form.is_gzip => Ok(Some(Arrived { bytes, is_gzip: true })),
            COMPRESSED => Err(refusal::unannounced_compression("connect-content-encoding")),
            _ => Err(refusal::malformed(format!("the flags of a message are {flags}, not 0 or 1"))),
        }
    }

    /// Returns the message at the end of a whole body.
    fn end(&mut self) -> Result<Option<Arrived>, Status> {
        if self.form.framing == Framing::Whole {
            let bytes = std::mem::take(&mut self.held).freeze();
            return Ok(Some(Arrived { bytes, is_gzip: self.form.is_gzip }));
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

    /// Waits for the next message; `None` at the end. Its bytes count until it is translated.
    async fn next(&mut self) -> Result<Option<Bytes>, Status> {
        let Some(arrived) = self.arrived().await? else {
            self.meter.release();
            return Ok(None);
        };
        let translated = self.translation().run(arrived, self.offload.clone()).await;
        self.meter.release();
        self.meter.hold(self.held.len())?;
        translated.map(Some)
    }

    async fn arrived(&mut self) -> Result<Option<Arrived>, Status> {
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
                    return self.end();
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

/// How a message becomes one of gRPC.
struct Translation {
    form: Form,
    shape: Shape,
    inflation: Inflation,
}

impl Translation {
    /// Translates a message, a large one beside the runtime.
    async fn run(self, arrived: Arrived, offload: Offload) -> Result<Bytes, Status> {
        let bytes = arrived.bytes.len();
        let is_large = match (arrived.is_gzip, self.form.codec) {
            (true, _) => LARGE_BYTES < self.inflation.plain_bytes_max(bytes),
            (false, Codec::Json) => LARGE_BYTES < bytes,
            (false, Codec::Proto) => false,
        };
        match is_large {
            true => offload.run(OffloadedWork::Decode, move || self.of(arrived)).await,
            false => self.of(arrived),
        }
    }

    /// Returns a message in binary proto, with the prefix of gRPC.
    fn of(&self, arrived: Arrived) -> Result<Bytes, Status> {
        let plain = match arrived.is_gzip {
            true => self.inflation.decompress(&arrived.bytes)?,
            false => arrived.bytes,
        };
        let Form { codec, message, .. } = &self.form;
        Ok(framed(0, &codec.decode(message, plain, &self.shape)?))
    }
}
