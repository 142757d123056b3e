//! Reads the answer of a gRPC call: its messages, and its status at the end.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use tonic::Status;

use super::GrpcBody;
use super::codec::take_frame;

/// The answer of one call.
pub struct GrpcAnswer<B> {
    inner: B,
    /// The received part of the next message.
    held: BytesMut,
    /// The status, if the answer has no messages.
    only: Option<Status>,
}

/// One step of an answer.
#[derive(Debug)]
pub enum Step {
    /// A message, as binary proto.
    Message(Bytes),
    /// The end. Its metadata are the trailers of the call.
    End(Status),
}

impl<B: GrpcBody> GrpcAnswer<B> {
    /// Creates the answer from the headers and the body of a response.
    pub fn new(headers: &HeaderMap, inner: B) -> GrpcAnswer<B> {
        let only = headers.contains_key("grpc-status").then(|| ended(headers));
        GrpcAnswer { inner, held: BytesMut::new(), only }
    }

    /// Returns the status of a call that failed before its first message.
    pub fn early_end(&self) -> Option<&Status> {
        self.only.as_ref()
    }

    /// Returns the next step. It must not be called after the end.
    pub fn poll_step(&mut self, context: &mut Context<'_>) -> Poll<Step> {
        if let Some(status) = self.only.take() {
            return Poll::Ready(Step::End(status));
        }
        loop {
            if let Some((_, message)) = take_frame(&mut self.held) {
                return Poll::Ready(Step::Message(message));
            }
            let frame = match Pin::new(&mut self.inner).poll_frame(context) {
                Poll::Ready(Some(Ok(frame))) => frame,
                Poll::Ready(Some(Err(status))) => return Poll::Ready(Step::End(status)),
                Poll::Ready(None) => {
                    return Poll::Ready(Step::End(Status::unknown("the answer has no status")));
                }
                Poll::Pending => return Poll::Pending,
            };
            match frame.into_data() {
                Ok(data) => self.held.extend_from_slice(&data),
                Err(frame) => {
                    let trailers = frame.into_trailers().unwrap_or_default();
                    return Poll::Ready(Step::End(ended(&trailers)));
                }
            }
        }
    }

    /// Waits for the next step.
    pub async fn step(&mut self) -> Step {
        std::future::poll_fn(|context| self.poll_step(context)).await
    }
}

fn ended(headers: &HeaderMap) -> Status {
    Status::from_header_map(headers)
        .unwrap_or_else(|| Status::unknown("the answer ends without a status"))
}
