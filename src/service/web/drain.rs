//! Reads the rest of a request that was answered before its end.
//!
//! On a connection of HTTP/1.1 the server cannot refuse the rest of a body, only close the
//! connection. Closing it while the client still sends would reset it, and the client would lose
//! the answer. So a rest of reasonable size is read and dropped.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body as _, Frame, SizeHint};
use tonic::Status;
use tonic::body::Body;

/// How much is read: the largest message by default.
const REST_BYTES_MAX: usize = 4 << 20;
/// How long it is read.
const REST_PATIENCE: Duration = Duration::from_secs(2);

/// The body of a request of HTTP/1.1.
pub struct Drained {
    inner: Option<Body>,
    is_ended: bool,
}

impl Drained {
    /// Wraps a body. Dropping the result reads its rest.
    pub fn new(inner: Body) -> Drained {
        Drained { inner: Some(inner), is_ended: false }
    }
}

impl http_body::Body for Drained {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let Some(inner) = &mut self.inner else { return Poll::Ready(None) };
        let polled = Pin::new(inner).poll_frame(context);
        self.is_ended |= matches!(polled, Poll::Ready(None | Some(Err(_))));
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.inner.as_ref().is_none_or(|inner| inner.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.as_ref().map_or_else(SizeHint::default, |inner| inner.size_hint())
    }
}

impl Drop for Drained {
    fn drop(&mut self) {
        let Some(inner) = self.inner.take() else { return };
        if self.is_ended || inner.is_end_stream() {
            return;
        }
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(tokio::time::timeout(REST_PATIENCE, read(inner)));
        }
    }
}

async fn read(mut body: Body) {
    let mut bytes = 0;
    while bytes <= REST_BYTES_MAX {
        let frame = std::future::poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await;
        let Some(Ok(frame)) = frame else { return };
        bytes += frame.data_ref().map_or(0, Bytes::len);
    }
}
