//! A body that ends early: when the caller is not known any more, or its session ends.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::HeaderMap;
use http_body::{Frame, SizeHint};
use tonic::Status;
use tonic::body::Body;

use super::Access;

/// What a body yields instead of its rest.
type Last = Option<Result<Frame<Bytes>, Status>>;

/// A body until a future resolves: to the last frame, or to none.
pub(in crate::service) struct Guarded {
    inner: Body,
    /// `None` after it has resolved.
    ended: Option<BoxFuture<'static, Last>>,
}

impl Guarded {
    /// Guards a body until `ended` resolves.
    pub(in crate::service) fn until(
        inner: Body,
        ended: impl Future<Output = Last> + Send + 'static,
    ) -> Body {
        Body::new(Guarded { inner, ended: Some(Box::pin(ended)) })
    }

    /// Guards the body of a request: when the caller is not known any more, reading it fails.
    pub(in crate::service::call) fn request(inner: Body, access: Access) -> Body {
        Guarded::until(inner, async move { Some(Err(access.ended().await.into())) })
    }

    /// Guards the body of a response: when the caller is not known any more, its trailers say so.
    pub(in crate::service::call) fn response(inner: Body, access: Access) -> Body {
        Guarded::until(inner, async move {
            let mut trailers = HeaderMap::new();
            let added = Status::from(access.ended().await).add_header(&mut trailers);
            Some(added.map(|()| Frame::trailers(trailers)))
        })
    }
}

impl http_body::Body for Guarded {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let Some(ended) = &mut self.ended else { return Poll::Ready(None) };
        if let Poll::Ready(last) = ended.as_mut().poll(context) {
            self.ended = None;
            // What the handler still holds ends with the body.
            self.inner = Body::empty();
            return Poll::Ready(last);
        }
        Pin::new(&mut self.inner).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.ended.is_none() || self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
