//! A body of a response that keeps something open until its end.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Frame, SizeHint};

/// The body `inner`, with what is dropped after its last byte.
pub struct HeldBody<B, T> {
    inner: B,
    _open: T,
}

impl<B, T> HeldBody<B, T> {
    /// Holds `open` until `inner` is dropped.
    pub fn new(inner: B, open: T) -> HeldBody<B, T> {
        HeldBody { inner, _open: open }
    }
}

impl<B, T> http_body::Body for HeldBody<B, T>
where
    B: http_body::Body<Data = Bytes> + Unpin,
    T: Unpin,
{
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        Pin::new(&mut self.inner).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
