//! The bodies of answers: those of gRPC as they are, and all others in one piece or as a stream.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use http_body::{Frame, SizeHint};
use tonic::Status;
use tonic::body::Body;

use crate::service::caller::outgoing::Reserved;
use crate::service::edge::GrpcBody;

/// The body of an answer.
pub enum WebBody<B> {
    /// Of a gRPC call.
    Grpc(B),
    /// In one piece; `None` when it is sent. With the room that a long one has.
    Whole(Option<Bytes>, Option<Reserved>),
    /// Of a call with one answer, by gRPC-Web.
    Call(Body),
    /// Of a stream.
    Stream(Body),
}

impl<B> WebBody<B> {
    /// Returns a body in one piece.
    pub fn whole(bytes: impl Into<Bytes>) -> WebBody<B> {
        WebBody::Whole(Some(bytes.into()).filter(|bytes| !bytes.is_empty()), None)
    }

    /// Returns the body with the room that was reserved for it. A body in one piece is rendered.
    pub fn reserved(self, reserved: Option<Reserved>) -> WebBody<B> {
        let (WebBody::Whole(bytes, _), Some(reserved)) = (&self, reserved) else { return self };
        let bytes = bytes.clone();
        reserved.rendered(bytes.as_ref().map_or(0, Bytes::len));
        WebBody::Whole(bytes, Some(reserved))
    }

    /// Returns the body of a stream.
    pub fn stream(stream: impl Stream<Item = Bytes> + Send + 'static) -> WebBody<B> {
        let stream = stream.map(Ok::<_, Infallible>);
        WebBody::Stream(Body::new(axum::body::Body::from_stream(stream)))
    }
}

/// Waits for the next frame of a body.
pub async fn next_frame<B: http_body::Body + Unpin>(
    body: &mut B,
) -> Option<Result<Frame<B::Data>, B::Error>> {
    std::future::poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await
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
            WebBody::Whole(bytes, _) => {
                Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes))))
            }
            WebBody::Call(body) | WebBody::Stream(body) => Pin::new(body).poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            WebBody::Grpc(body) => body.is_end_stream(),
            WebBody::Whole(bytes, _) => bytes.is_none(),
            WebBody::Call(body) | WebBody::Stream(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            WebBody::Grpc(body) => body.size_hint(),
            WebBody::Whole(bytes, _) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, Bytes::len) as u64)
            }
            WebBody::Call(body) | WebBody::Stream(body) => body.size_hint(),
        }
    }
}

impl<B: GrpcBody> GrpcBody for WebBody<B> {
    fn is_stream(&self) -> bool {
        match self {
            WebBody::Grpc(body) => body.is_stream(),
            WebBody::Whole(..) | WebBody::Call(_) => false,
            WebBody::Stream(_) => true,
        }
    }
}
