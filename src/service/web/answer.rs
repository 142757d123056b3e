//! Reads the answer of a gRPC call: its messages, and its status at the end.

use bytes::{Bytes, BytesMut};
use futures_util::{Stream, stream};
use http::HeaderMap;
use tonic::Status;

use super::body::next_frame;
use super::codec::take_frame;
use crate::service::edge::GrpcBody;

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

/// How a protocol writes the stream of an answer.
pub trait AnswerForm: Send + 'static {
    /// Writes a message, which is binary proto.
    fn message(&self, message: Bytes) -> Result<Bytes, Status>;

    /// Writes the end.
    fn end(&self, status: &Status) -> Bytes;
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

    /// Waits for the next step. It must not be called after the end.
    pub async fn step(&mut self) -> Step {
        if let Some(status) = self.only.take() {
            return Step::End(status);
        }
        loop {
            if let Some((_, message)) = take_frame(&mut self.held) {
                return Step::Message(message);
            }
            let frame = match next_frame(&mut self.inner).await {
                Some(Ok(frame)) => frame,
                Some(Err(status)) => return Step::End(status),
                None => return Step::End(Status::unknown("the answer has no status")),
            };
            match frame.into_data() {
                Ok(data) => self.held.extend_from_slice(&data),
                Err(frame) => return Step::End(ended(&frame.into_trailers().unwrap_or_default())),
            }
        }
    }

    /// Returns what a protocol sends for this answer. A message that it cannot write is the end.
    pub fn written(self, form: impl AnswerForm) -> impl Stream<Item = Bytes> + Send + 'static {
        stream::unfold(Some((self, form)), |open| async {
            let (mut answer, form) = open?;
            let end = match answer.step().await {
                Step::Message(message) => match form.message(message) {
                    Ok(written) => return Some((written, Some((answer, form)))),
                    Err(status) => status,
                },
                Step::End(status) => status,
            };
            Some((form.end(&end), None))
        })
    }
}

fn ended(headers: &HeaderMap) -> Status {
    Status::from_header_map(headers)
        .unwrap_or_else(|| Status::unknown("the answer ends without a status"))
}
