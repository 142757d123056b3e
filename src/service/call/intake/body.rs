//! A request body that passes only whole messages on.
//!
//! tonic reserves the length in a message prefix before the message arrives: 4 GB for a thousand
//! streams that each send five bytes. This body keeps the received part of a message until the
//! message is complete. So a prefix alone takes no memory, and the bytes that are kept count
//! against the budgets. A message that arrives in one piece passes unchanged.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use http_body::{Body as _, Frame};
use tonic::Status;
use tonic::body::Body;

use super::frame::{PREFIX_BYTES, Prefix};
use super::meter::Meter;
use super::refusal;

/// A request body that yields whole messages only, or a typed error.
pub(in crate::service) struct WholeBody {
    inner: Body,
    meter: Meter,
    /// The received part of the next message. Empty and without memory between messages.
    held: BytesMut,
    /// Bytes after the message that was passed on last.
    rest: Bytes,
    /// Whether a message has arrived.
    has_message: bool,
    is_ended: bool,
}

impl WholeBody {
    pub(in crate::service) fn new(inner: Body, meter: Meter) -> WholeBody {
        WholeBody {
            inner,
            meter,
            held: BytesMut::new(),
            rest: Bytes::new(),
            has_message: false,
            is_ended: false,
        }
    }

    /// Returns the messages that are complete with these bytes, without a copy if they arrived
    /// whole. The other bytes stay in `rest` or in `held`.
    fn take(&mut self, mut data: Bytes) -> Result<Option<Bytes>, Status> {
        if !self.held.is_empty() {
            let Some(message) = self.complete(&mut data)? else { return Ok(None) };
            self.rest = data;
            return Ok(Some(message));
        }
        let mut end = 0;
        let mut refused = Ok(());
        while let Some(prefix) = Prefix::read(&data[end..]) {
            refused = self.check(prefix);
            if refused.is_err() || data.len() - end < prefix.frame_bytes() {
                break;
            }
            self.check_whole(&data[end + PREFIX_BYTES..end + prefix.frame_bytes()])?;
            self.has_message = true;
            end += prefix.frame_bytes();
        }
        let begun = data.split_off(end);
        if !begun.is_empty() && refused.is_ok() {
            refused = self.hold(&begun);
        }
        match refused {
            // The complete messages before a refused one are passed on first.
            Err(_) if !data.is_empty() => self.rest = begun,
            refused => refused?,
        }
        Ok((!data.is_empty()).then_some(data))
    }

    /// Adds to the held message; returns the message when it is complete.
    fn complete(&mut self, data: &mut Bytes) -> Result<Option<Bytes>, Status> {
        if self.held.len() < PREFIX_BYTES {
            let lacking = PREFIX_BYTES - self.held.len();
            self.hold(&data.split_to(lacking.min(data.len())))?;
        }
        let Some(prefix) = Prefix::read(&self.held) else { return Ok(None) };
        self.check(prefix)?;
        let lacking = prefix.frame_bytes() - self.held.len();
        self.hold(&data.split_to(lacking.min(data.len())))?;
        if self.held.len() < prefix.frame_bytes() {
            return Ok(None);
        }
        self.check_whole(&self.held[PREFIX_BYTES..])?;
        self.has_message = true;
        match self.meter.takes.one_message {
            // The time of the whole request goes on.
            true => self.meter.share.release(),
            false => self.meter.release(),
        }
        Ok(Some(std::mem::take(&mut self.held).freeze()))
    }

    fn hold(&mut self, bytes: &[u8]) -> Result<(), Status> {
        self.meter.hold(bytes.len())?;
        self.held.extend_from_slice(bytes);
        Ok(())
    }

    fn check(&self, prefix: Prefix) -> Result<(), Status> {
        match prefix.flag {
            0 => self.meter.check(prefix.length),
            // tonic refuses a request that names a compression before it reads the body.
            1 => Err(refusal::unannounced_compression("grpc-encoding")),
            flag => Err(refusal::malformed(format!("the flag of a message is {flag}, not 0"))),
        }
    }

    /// Checks a complete message.
    fn check_whole(&self, message: &[u8]) -> Result<(), Status> {
        if self.has_message && self.meter.takes.one_message {
            return Err(refusal::wrong_count("there is more than one message; send one"));
        }
        self.meter.check_parts(message)
    }

    /// Checks the end of the body: no incomplete message, and no missing one.
    fn end(&self) -> Result<(), Status> {
        if !self.held.is_empty() {
            return Err(refusal::malformed("the request ends within a message"));
        }
        match self.meter.takes.one_message && !self.has_message {
            true => Err(refusal::wrong_count("there is no message; send one")),
            false => Ok(()),
        }
    }

    fn poll_next(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Option<Frame<Bytes>>, Status>> {
        loop {
            if !self.rest.is_empty() {
                let rest = std::mem::take(&mut self.rest);
                if let Some(messages) = self.take(rest)? {
                    return Poll::Ready(Ok(Some(Frame::data(messages))));
                }
            }
            let frame = match Pin::new(&mut self.inner).poll_frame(context) {
                Poll::Ready(Some(frame)) => frame.map_err(refusal::broken_off)?,
                Poll::Ready(None) => {
                    self.end()?;
                    return Poll::Ready(Ok(None));
                }
                Poll::Pending => {
                    let is_due = self.meter.takes.one_message || !self.held.is_empty();
                    self.meter.poll_timeout(context, is_due)?;
                    return Poll::Pending;
                }
            };
            match frame.into_data() {
                Ok(data) => self.rest = data,
                Err(trailers) => {
                    self.end()?;
                    return Poll::Ready(Ok(Some(trailers)));
                }
            }
        }
    }
}

impl http_body::Body for WholeBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if self.is_ended {
            return Poll::Ready(None);
        }
        let polled = self.poll_next(context).map(Result::transpose);
        if let Poll::Ready(None | Some(Err(_))) = &polled {
            self.is_ended = true;
            // Bytes that will not be read are not kept until the call ends.
            self.held = BytesMut::new();
            self.meter.release();
        }
        polled
    }

    /// Returns false until the end was checked: tonic does not read a body that is known to be
    /// empty.
    fn is_end_stream(&self) -> bool {
        self.is_ended
    }
}
