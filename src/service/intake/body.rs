//! A request body that passes only whole messages on.
//!
//! tonic reserves the length in a message prefix before the message arrives: 4 GB for a thousand
//! streams that each send five bytes. This body keeps the received part of a message until the
//! message is complete. So a prefix alone takes no memory, and the bytes that are kept count
//! against the budgets. A message that arrives in one piece passes unchanged.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body::{Body as _, Frame};
use tokio::time::{Sleep, sleep};
use tonic::Status;
use tonic::body::Body;

use super::budget::{Budgets, Share};
use super::frame::{PREFIX_BYTES, Prefix};
use super::parts::{TypeId, Types};
use super::refusal;

/// The requests that a method accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Takes {
    /// Whether a call has exactly one message.
    pub(super) one_message: bool,
    /// Maximum bytes of one message.
    pub(super) message_bytes_max: usize,
    /// How long the only message of a call, or a message that has started, may take to be complete.
    pub(super) patience: Duration,
    /// The type of a message.
    pub(super) input: TypeId,
}

/// A request body that yields whole messages only, or a typed error.
pub(super) struct WholeBody {
    inner: Body,
    takes: Takes,
    /// The received part of the next message. Empty and without memory between messages.
    held: BytesMut,
    share: Share,
    types: Arc<Types>,
    /// Bytes after the message that was passed on last.
    rest: Bytes,
    /// Whether a message has arrived.
    has_message: bool,
    timer: Option<Pin<Box<Sleep>>>,
    is_ended: bool,
}

impl WholeBody {
    pub(super) fn new(inner: Body, takes: Takes, budgets: Budgets, types: Arc<Types>) -> WholeBody {
        WholeBody {
            inner,
            takes,
            held: BytesMut::new(),
            share: Share::new(budgets),
            types,
            rest: Bytes::new(),
            has_message: false,
            timer: None,
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
        self.share.release();
        if !self.takes.one_message {
            self.timer = None;
        }
        Ok(Some(std::mem::take(&mut self.held).freeze()))
    }

    fn hold(&mut self, bytes: &[u8]) -> Result<(), Status> {
        self.share.grow(bytes.len()).map_err(|budget| refusal::no_room(&budget))?;
        self.held.extend_from_slice(bytes);
        Ok(())
    }

    fn check(&self, prefix: Prefix) -> Result<(), Status> {
        let max = self.takes.message_bytes_max;
        match prefix.flag {
            0 if prefix.length <= max => Ok(()),
            0 => Err(refusal::too_large(prefix.length, max)),
            // tonic refuses a request that names a compression before it reads the body.
            1 => Err(refusal::unannounced_compression("grpc-encoding")),
            flag => Err(refusal::malformed(format!("the flag of a message is {flag}, not 0"))),
        }
    }

    /// Checks a complete message.
    fn check_whole(&self, message: &[u8]) -> Result<(), Status> {
        if self.has_message && self.takes.one_message {
            return Err(refusal::wrong_count("there is more than one message; send one"));
        }
        match self.types.has_too_many(self.takes.input, message) {
            true => Err(refusal::too_many_parts()),
            false => Ok(()),
        }
    }

    /// Checks the end of the body: no incomplete message, and no missing one.
    fn end(&self) -> Result<(), Status> {
        if !self.held.is_empty() {
            return Err(refusal::malformed("the request ends within a message"));
        }
        match self.takes.one_message && !self.has_message {
            true => Err(refusal::wrong_count("there is no message; send one")),
            false => Ok(()),
        }
    }

    /// Returns whether the client must send more, and has taken too long.
    fn is_late(&mut self, context: &mut Context<'_>) -> bool {
        if !self.takes.one_message && self.held.is_empty() {
            return false;
        }
        let patience = self.takes.patience;
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(patience)));
        timer.as_mut().poll(context).is_ready()
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
                Poll::Pending if self.is_late(context) => {
                    return Poll::Ready(Err(refusal::late(self.takes.patience)));
                }
                Poll::Pending => return Poll::Pending,
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
            self.share.release();
            self.timer = None;
        }
        polled
    }

    /// Returns false until the end was checked: tonic does not read a body that is known to be
    /// empty.
    fn is_end_stream(&self) -> bool {
        self.is_ended
    }
}
