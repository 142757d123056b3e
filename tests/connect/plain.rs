//! A layer that removes the details of this project from errors. Each error of the server has an
//! `ErrorInfo`; the suite expects errors of HTTP and of frames to have no details.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body::Frame;
use tonic::Status;
use tonic::body::Body;
use tonic_types::StatusExt;

const DETAILS: &str = "grpc-status-details-bin";

#[derive(Clone)]
pub struct Plain<S>(pub S);

impl<S, B> tower::Service<Request<Body>> for Plain<S>
where
    S: tower::Service<Request<Body>, Response = Response<B>, Error = Infallible>,
    S::Future: Send + 'static,
    B: http_body::Body<Data = Bytes, Error = Status> + Send + Unpin + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let answered = self.0.call(request);
        Box::pin(async move {
            let Ok(mut response) = answered.await;
            remove(response.headers_mut());
            Ok(response.map(|body| Body::new(PlainBody(body))))
        })
    }
}

fn remove(headers: &mut HeaderMap) {
    let status = Status::from_header_map(headers);
    let info = status.and_then(|status| status.get_details_error_info());
    if info.is_some_and(|info| info.domain == "bellwether") {
        headers.remove(DETAILS);
    }
}

struct PlainBody<B>(B);

impl<B: http_body::Body<Data = Bytes, Error = Status> + Unpin> http_body::Body for PlainBody<B> {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let mut polled = Pin::new(&mut self.0).poll_frame(context);
        if let Poll::Ready(Some(Ok(frame))) = &mut polled {
            frame.trailers_mut().map(remove);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }
}
