//! A body that ends when the caller is not known any more.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Frame, SizeHint};
use tonic::Status;
use tonic::body::Body;

use super::Access;

/// The body of a request or a response.
pub(super) struct Guarded {
    inner: Body,
    /// `None` after it has resolved.
    ended: Option<Pin<Box<dyn Future<Output = Status> + Send>>>,
    is_request: bool,
}

impl Guarded {
    /// Guards the body of a request: when the caller is not known any more, reading it fails.
    pub(super) fn request(inner: Body, access: &Access) -> Guarded {
        Guarded::new(inner, access, true)
    }

    /// Guards the body of a response: when the caller is not known any more, its trailers say so.
    pub(super) fn response(inner: Body, access: &Access) -> Guarded {
        Guarded::new(inner, access, false)
    }

    fn new(inner: Body, access: &Access, is_request: bool) -> Guarded {
        let access = access.clone();
        let ended = Box::pin(async move { Status::from(access.ended().await) });
        Guarded { inner, ended: Some(ended), is_request }
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
        if let Poll::Ready(status) = ended.as_mut().poll(context) {
            self.ended = None;
            // What the handler still holds ends with the body.
            self.inner = Body::empty();
            if self.is_request {
                return Poll::Ready(Some(Err(status)));
            }
            let mut trailers = HeaderMap::new();
            let added = status.add_header(&mut trailers);
            return Poll::Ready(Some(added.map(|()| Frame::trailers(trailers))));
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
