//! Reads the answer of a gRPC call: its messages, and its status at the end.

use bytes::{Bytes, BytesMut};
use futures_util::{Stream, stream};
use http::HeaderMap;
use tonic::Status;

use super::body::next_frame;
use super::codec::take_frame;
use crate::service::edge::GrpcBody;
use crate::service::offload::{LARGE_BYTES, Offload};
use crate::telemetry::OffloadedWork;

/// The answer of one call.
pub struct GrpcAnswer<B> {
    inner: B,
    /// The received part of the next message.
    held: BytesMut,
    /// The status of a call that failed before its first message.
    pub early_end: Option<Status>,
}

/// How a protocol writes the stream of an answer.
pub trait AnswerForm: Clone + Send + Sync + 'static {
    /// Writes a message, which is binary proto.
    fn message(&self, message: Bytes) -> Result<Bytes, Status>;

    /// Writes the end.
    fn end(&self, status: &Status) -> Bytes;
}

impl<B: GrpcBody> GrpcAnswer<B> {
    /// Creates the answer from the headers and the body of a response.
    pub fn new(headers: &HeaderMap, inner: B) -> GrpcAnswer<B> {
        let early_end = headers.contains_key("grpc-status").then(|| ended(headers));
        GrpcAnswer { inner, held: BytesMut::new(), early_end }
    }

    /// Waits for the next message, which is binary proto. It must not be called after the end.
    ///
    /// # Errors
    /// The status at the end, also that of success. Its metadata are the trailers of the call.
    pub async fn next(&mut self) -> Result<Bytes, Status> {
        if let Some(status) = self.early_end.take() {
            return Err(status);
        }
        loop {
            if let Some((_, message)) = take_frame(&mut self.held) {
                return Ok(message);
            }
            let frame = next_frame(&mut self.inner).await;
            let frame = frame.ok_or_else(|| Status::unknown("the answer has no status"))??;
            match frame.into_data() {
                Ok(data) => self.held.extend_from_slice(&data),
                Err(frame) => return Err(ended(&frame.into_trailers().unwrap_or_default())),
            }
        }
    }

    /// Returns what a protocol sends for this answer. A message that it cannot write is the end.
    /// Large messages are written beside the runtime.
    pub fn written(
        self,
        form: impl AnswerForm,
        offload: Offload,
    ) -> impl Stream<Item = Bytes> + Send + 'static {
        stream::unfold(Some((self, form, offload)), |open| async {
            let (mut answer, form, offload) = open?;
            let written = match answer.next().await {
                Ok(message) => write(&form, message, &offload).await,
                Err(end) => Err(end),
            };
            Some(match written {
                Ok(written) => (written, Some((answer, form, offload))),
                Err(end) => (form.end(&end), None),
            })
        })
    }
}

async fn write<F: AnswerForm>(
    form: &F,
    message: Bytes,
    offload: &Offload,
) -> Result<Bytes, Status> {
    if message.len() <= LARGE_BYTES {
        return form.message(message);
    }
    let form = form.clone();
    offload.run(OffloadedWork::Render, move || form.message(message)).await
}

fn ended(headers: &HeaderMap) -> Status {
    Status::from_header_map(headers)
        .unwrap_or_else(|| Status::unknown("the answer ends without a status"))
}
