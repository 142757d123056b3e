//! Reads the rest of a request that was answered before its end.
//!
//! On a connection of HTTP/1.1 the server cannot refuse the rest of a body, only close the
//! connection. Closing it while the client still sends would reset it, and the client would lose
//! the answer. On HTTP/2 the server would reset the stream after the answer, and some clients, such
//! as curl 7.88, report that as a failure. So a rest of reasonable size is read and dropped.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body as _, Frame, SizeHint};
use tonic::Status;
use tonic::body::Body;

use super::body::next_frame;

/// How much is read: the largest message by default.
const REST_BYTES_MAX: usize = 4 << 20;
/// How long it is read.
const REST_TIMEOUT: Duration = Duration::from_secs(2);

/// The body of a request. Dropping it reads the rest.
pub struct DiscardedRest(pub Body);

impl http_body::Body for DiscardedRest {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let polled = Pin::new(&mut self.0).poll_frame(context);
        if let Poll::Ready(None | Some(Err(_))) = polled {
            // There is no rest.
            self.0 = Body::empty();
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.size_hint()
    }
}

impl Drop for DiscardedRest {
    fn drop(&mut self) {
        let rest = std::mem::take(&mut self.0);
        if rest.is_end_stream() {
            return;
        }
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(tokio::time::timeout(REST_TIMEOUT, discard(rest)));
        }
    }
}

async fn discard(mut body: Body) {
    let mut bytes = 0;
    while bytes <= REST_BYTES_MAX {
        let Some(Ok(frame)) = next_frame(&mut body).await else { return };
        bytes += frame.data_ref().map_or(0, Bytes::len);
    }
}
