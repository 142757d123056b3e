//! The bodies of answers: those of gRPC as they are, and all others in one piece or as a stream.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tonic::Status;
use tonic::body::Body;

use super::GrpcBody;

/// The body of an answer.
pub enum WebBody<B> {
    /// Of a gRPC call.
    Grpc(B),
    /// In one piece; `None` when it is sent.
    Whole(Option<Bytes>),
    /// Of a stream.
    Stream(Body),
}

impl<B> WebBody<B> {
    /// Returns a body in one piece.
    pub fn whole(bytes: impl Into<Bytes>) -> WebBody<B> {
        WebBody::Whole(Some(bytes.into()).filter(|bytes| !bytes.is_empty()))
    }
}

impl<B: GrpcBody> http_body::Body for WebBody<B> {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        match self.get_mut() {
            WebBody::Grpc(body) => Pin::new(body).poll_frame(context),
            WebBody::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            WebBody::Stream(body) => Pin::new(body).poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            WebBody::Grpc(body) => body.is_end_stream(),
            WebBody::Whole(bytes) => bytes.is_none(),
            WebBody::Stream(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            WebBody::Grpc(body) => body.size_hint(),
            WebBody::Whole(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, Bytes::len) as u64)
            }
            WebBody::Stream(body) => body.size_hint(),
        }
    }
}
