//! The conformance service over gRPC: it answers what each request asks for. The layer under test
//! is in front of it.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use http_body::Frame;
use prost::Message;
use prost_types::Any;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tonic::body::Body;
use tonic::{Code, Status};

use crate::wire::{
    BidiStreamRequest, Error, Header, Payload, Reply, RequestInfo, ServerStreamRequest,
    StreamDefinition, UnaryDefinition, UnaryRequest,
};

const PACKAGE: &str = "connectrpc.conformance.v1";

#[derive(Clone)]
pub struct Conformance;

impl tower::Service<Request<Body>> for Conformance {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(async move {
            let answered = answer(request).await;
            Ok(answered.unwrap_or_else(|status| status.into_http()))
        })
    }
}

/// The messages of a request, and what is known of it.
struct Call {
    body: Body,
    held: BytesMut,
    type_url: String,
    info: RequestInfo,
}

impl Call {
    fn new(request: Request<Body>, method: &str) -> Call {
        let (parts, body) = request.into_parts();
        let names = parts.headers.keys();
        let value = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        let header = |name: &HeaderName| Header {
            name: name.to_string(),
            value: parts.headers.get_all(name).iter().map(value).collect(),
        };
        let timeout = parts.headers.get("grpc-timeout").and_then(|t| t.to_str().ok());
        let timeout_ms = timeout.and_then(|text| {
            let (amount, unit) = text.split_at(text.len() - 1);
            let amount: i64 = amount.parse().ok()?;
            Some(match unit {
                "H" => amount * 3_600_000,
                "M" => amount * 60_000,
                "S" => amount * 1000,
                "m" => amount,
                "u" => amount / 1000,
                _ => amount / 1_000_000,
            })
        });
        let info = RequestInfo {
            request_headers: names.map(header).collect(),
            timeout_ms,
            requests: vec![],
        };
        let type_url = format!("type.googleapis.com/{PACKAGE}.{method}Request");
        Call { body, held: BytesMut::new(), type_url, info }
    }

    /// Reads the next message, and notes it.
    async fn next<M: Message + Default>(&mut self) -> Result<Option<M>, Status> {
        loop {
            if let Some(length) = self.held.get(1..5) {
                let end = 5 + u32::from_be_bytes(length.try_into().unwrap()) as usize;
                if end <= self.held.len() {
                    let value = self.held.split_to(end).split_off(5).to_vec();
                    let message = M::decode(value.as_slice())
                        .map_err(|error| Status::invalid_argument(error.to_string()))?;
                    self.info.requests.push(Any { type_url: self.type_url.clone(), value });
                    return Ok(Some(message));
                }
            }
            let next = std::future::poll_fn(|context| {
                http_body::Body::poll_frame(Pin::new(&mut self.body), context)
            });
            let Some(frame) = next.await else { return Ok(None) };
            if let Ok(data) = frame?.into_data() {
                self.held.extend_from_slice(&data);
            }
        }
    }
}

async fn answer(request: Request<Body>) -> Result<Response<Body>, Status> {
    let path = request.uri().path().to_string();
    let method = path.rsplit('/').next().unwrap_or_default();
    // As tonic does.
    if request.headers().get("grpc-encoding").is_some_and(|encoding| encoding != "identity") {
        return Err(Status::unimplemented("the compression is not supported"));
    }
    let mut call = Call::new(request, method);
    match method {
        "Unary" | "IdempotentUnary" | "ClientStream" => {
            let mut definition = None;
            let mut is_first = true;
            while let Some(message) = call.next::<UnaryRequest>().await? {
                if std::mem::take(&mut is_first) {
                    definition = message.response_definition;
                }
            }
            Ok(unary(definition.unwrap_or_default(), call.info).await)
        }
        "ServerStream" => {
            let first = call.next::<ServerStreamRequest>().await?.unwrap_or_default();
            while call.next::<ServerStreamRequest>().await?.is_some() {}
            Ok(streamed(first.response_definition.unwrap_or_default(), call, false))
        }
        "BidiStream" => {
            let first = call.next::<BidiStreamRequest>().await?.unwrap_or_default();
            while !first.full_duplex && call.next::<BidiStreamRequest>().await?.is_some() {}
            let definition = first.response_definition.unwrap_or_default();
            Ok(streamed(definition, call, first.full_duplex))
        }
        _ => Err(Status::unimplemented("this method is not implemented")),
    }
}

fn streamed(definition: StreamDefinition, call: Call, is_full: bool) -> Response<Body> {
    let headers = headers_of(&definition.headers);
    let (sender, receiver) = channel(1);
    tokio::spawn(stream(definition, call, is_full, sender));
    let mut response = Response::new(Body::new(Channel(receiver)));
    *response.headers_mut() = headers;
    response
}

async fn unary(definition: UnaryDefinition, info: RequestInfo) -> Response<Body> {
    let UnaryDefinition { headers, data, error, trailers, delay_ms } = definition;
    tokio::time::sleep(Duration::from_millis(delay_ms.into())).await;
    let (sender, receiver) = channel(2);
    let status = match error {
        Some(error) => failed(error, Some(&info)),
        None => {
            let payload = Payload { data, request_info: Some(info) };
            let _ = sender.send(Ok(Frame::data(framed(payload)))).await;
            Status::ok("")
        }
    };
    let _ = sender.send(Ok(ended(&status, &trailers))).await;
    let mut response = Response::new(Body::new(Channel(receiver)));
    *response.headers_mut() = headers_of(&headers);
    response
}

/// Sends the messages of a stream. In full duplex each answer follows a request.
async fn stream(
    definition: StreamDefinition,
    mut call: Call,
    is_full: bool,
    sender: Sender<Result<Frame<Bytes>, Status>>,
) {
    let delay = Duration::from_millis(definition.delay_ms.into());
    let count = definition.data.len();
    let mut status = Status::ok("");
    for (number, data) in definition.data.into_iter().enumerate() {
        if is_full && 0 < number {
            match call.next::<BidiStreamRequest>().await {
                Ok(_) => {}
                Err(error) => {
                    status = error;
                    break;
                }
            }
        }
        tokio::time::sleep(delay).await;
        let mut info = Some(std::mem::take(&mut call.info));
        if 0 < number && (!is_full || info.as_ref().is_some_and(|info| info.requests.is_empty())) {
            info = None;
        }
        let frame = Frame::data(framed(Payload { data, request_info: info }));
        if sender.send(Ok(frame)).await.is_err() {
            return;
        }
    }
    if let Some(error) = definition.error {
        status = failed(error, (count == 0).then_some(&call.info));
    }
    let _ = sender.send(Ok(ended(&status, &definition.trailers))).await;
}

fn framed(payload: Payload) -> Bytes {
    let message = Reply { payload: Some(payload) }.encode_to_vec();
    let mut frame = BytesMut::with_capacity(5 + message.len());
    frame.put_u8(0);
    frame.put_u32(message.len() as u32);
    frame.put_slice(&message);
    frame.freeze()
}

fn failed(error: Error, info: Option<&RequestInfo>) -> Status {
    let mut details = error.details;
    details.extend(info.map(|info| Any {
        type_url: format!("type.googleapis.com/{PACKAGE}.ConformancePayload.RequestInfo"),
        value: info.encode_to_vec(),
    }));
    let message = error.message.unwrap_or_default();
    let all = tonic_types::pb::Status { code: error.code, message: message.clone(), details };
    let details = all.encode_to_vec().into();
    Status::with_details(Code::from_i32(error.code), message, details)
}

fn ended(status: &Status, trailers: &[Header]) -> Frame<Bytes> {
    let mut headers = headers_of(trailers);
    headers.remove("content-type");
    status.add_header(&mut headers).unwrap();
    Frame::trailers(headers)
}

fn headers_of(given: &[Header]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert("content-type", HeaderValue::from_static("application/grpc"));
    for header in given {
        let name = HeaderName::try_from(header.name.as_str()).unwrap();
        for value in &header.value {
            headers.append(name.clone(), HeaderValue::try_from(value.as_str()).unwrap());
        }
    }
    headers
}

/// A body whose frames another task sends.
struct Channel(Receiver<Result<Frame<Bytes>, Status>>);

impl http_body::Body for Channel {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        self.0.poll_recv(context)
    }
}
