//! The body of a stream that was opened in a session.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::Response;
use http_body::Frame;
use tonic::Status;
use tonic::body::Body;

use super::BrowserSession;
use crate::service::web::body::WebBody;

/// Ends the stream of an answer with its session.
pub fn until_end<B>(
    response: Response<WebBody<B>>,
    session: BrowserSession,
) -> Response<WebBody<B>> {
    response.map(|body| match body {
        WebBody::Stream(inner) => {
            let ended = Box::pin(session.end());
            WebBody::Stream(Body::new(SessionBody { inner: Some(inner), ended }))
        }
        other => other,
    })
}

struct SessionBody {
    /// `None` after the end of the session.
    inner: Option<Body>,
    ended: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl http_body::Body for SessionBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if self.inner.is_some() && self.ended.as_mut().poll(context).is_ready() {
            self.inner = None;
        }
        match &mut self.inner {
            Some(inner) => Pin::new(inner).poll_frame(context),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.inner.as_ref().is_none_or(http_body::Body::is_end_stream)
    }
}
