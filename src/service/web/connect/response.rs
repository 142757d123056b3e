//! The answer of a gRPC call, as the answer of the Connect protocol.

use bytes::Bytes;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Response};
use prost_reflect::DescriptorPool;
use tonic::{Code, Status};

use super::{COMPRESSED, Form, Framing, error};
use crate::service::edge::GrpcBody;
use crate::service::offload::{LARGE_BYTES, Offload};
use crate::service::web::answer::{AnswerForm, GrpcAnswer};
use crate::service::web::body::WebBody;
use crate::service::web::codec::{Codec, framed};
use crate::service::web::{gzip, metadata, typed};
use crate::telemetry::OffloadedWork;

const GZIP: HeaderValue = HeaderValue::from_static("gzip");

/// Flag of the last message of a stream.
const END: u8 = 2;

impl Form {
    /// Returns the media type of the answer.
    fn content_type(&self) -> &'static str {
        match (self.framing, self.codec) {
            (Framing::Whole, Codec::Json) => "application/json",
            (Framing::Whole, Codec::Proto) => "application/proto",
            (Framing::Prefixed, Codec::Json) => "application/connect+json",
            (Framing::Prefixed, Codec::Proto) => "application/connect+proto",
        }
    }

    /// Translates the response of the inner service, large messages beside the runtime.
    pub async fn answer<B: GrpcBody>(
        self,
        response: Response<B>,
        offload: Offload,
    ) -> Response<WebBody<B>> {
        let (parts, body) = response.into_parts();
        let answer = GrpcAnswer::new(&parts.headers, body);
        let headers = match &answer.early_end {
            // Its headers are the trailers of the call.
            Some(_) => HeaderMap::new(),
            None => metadata::only_metadata(&parts.headers),
        };
        let mut response = match self.framing {
            Framing::Whole => self.whole(answer, offload).await,
            Framing::Prefixed => self.stream(answer, offload),
        };
        let own = std::mem::replace(response.headers_mut(), headers);
        response.headers_mut().extend(own);
        response
    }

    /// Returns the only message of an answer, or its error.
    async fn whole<B: GrpcBody>(
        self,
        mut answer: GrpcAnswer<B>,
        offload: Offload,
    ) -> Response<WebBody<B>> {
        let is_early = answer.early_end.is_some();
        let mut messages = Vec::new();
        let status = loop {
            match answer.next().await {
                Ok(message) => messages.push(message),
                Err(end) => break end,
            }
        };
        let trailers = status.metadata().clone().into_headers();
        let message = match (status.code(), messages.len()) {
            (Code::Ok, 1) => self.rendered(messages.remove(0), offload).await,
            (Code::Ok, 0) => Err(Status::unimplemented("the answer has no message")),
            (Code::Ok, _) => Err(Status::unimplemented("the answer has several messages")),
            _ => Err(status),
        };
        let mut response = match message {
            Ok((message, is_packed)) => self.response(message, is_packed),
            Err(status) => failed(&status, self.message.parent_pool()),
        };
        match is_early {
            // A call that only failed has no other place for its metadata.
            true => response.headers_mut().extend(metadata::only_metadata(&trailers)),
            false => metadata::add_trailers(response.headers_mut(), &trailers),
        }
        response
    }

    /// Renders the message of an answer; returns also whether it is compressed.
    async fn rendered(&self, message: Bytes, offload: Offload) -> Result<gzip::Encoded, Status> {
        let (is_large, form) = (LARGE_BYTES < message.len(), self.clone());
        let render = move || {
            let message = form.codec.encode(&form.message, message)?;
            Ok(gzip::encoded(message, form.is_gzip))
        };
        match is_large {
            true => offload.run(OffloadedWork::Render, render).await,
            false => render(),
        }
    }

    fn response<B>(&self, message: Bytes, is_packed: bool) -> Response<WebBody<B>> {
        let mut response = typed(self.content_type(), message);
        if is_packed {
            response.headers_mut().insert(CONTENT_ENCODING, GZIP);
        }
        response
    }

    fn stream<B: GrpcBody>(self, answer: GrpcAnswer<B>, offload: Offload) -> Response<WebBody<B>> {
        let (content_type, is_gzip) = (self.content_type(), self.is_gzip);
        let mut response = Response::new(WebBody::stream(answer.written(self, offload)));
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        if is_gzip {
            response.headers_mut().insert("connect-content-encoding", GZIP);
        }
        response
    }
}

impl AnswerForm for Form {
    /// Returns a message with its prefix.
    fn message(&self, message: Bytes) -> Result<Bytes, Status> {
        let message = self.codec.encode(&self.message, message)?;
        let packed = self.is_gzip.then(|| gzip::compress(&message)).flatten();
        Ok(packed.map_or_else(|| framed(0, &message), |packed| framed(COMPRESSED, &packed)))
    }

    fn end(&self, status: &Status) -> Bytes {
        framed(END, &error::end_of_stream(status, self.message.parent_pool()))
    }
}

/// Returns an error; details are shown by the types of `pool`.
pub fn failed<B>(status: &Status, pool: &DescriptorPool) -> Response<WebBody<B>> {
    let mut response = typed("application/json", error::json(status, pool).to_string());
    *response.status_mut() = error::named(status.code()).0;
    response
}
