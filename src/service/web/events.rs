//! Server-Sent Events: a stream of answers as the form that `EventSource` of browsers and `curl -N`
//! read. `GET` with `Accept: text/event-stream` on a method without side effects that streams.
//!
//! The data of an event is one answer in JSON, and its `id` is the resume token of the answer. A
//! browser that reconnects sends the last one as `Last-Event-ID`, and the call continues there.

use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};
use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, Method as Verb, Request, Response, StatusCode};
use prost_reflect::{DynamicMessage, MessageDescriptor, Value as Field};
use serde_json::Value;
use tonic::body::Body;
use tonic::{Code, Status};
use tonic_types::StatusExt;

use super::answer::{AnswerForm, GrpcAnswer};
use super::body::WebBody;
use super::codec::Codec;
use super::connect::{self, Framing};
use super::method::WebMethod;
use super::query::{self, Query};
use super::{GrpcService, WebAnswer};
use crate::service::call::intake::Intake;
use crate::service::code::Reason;

const EVENTS: &str = "text/event-stream";
const LAST_ID: &str = "last-event-id";
/// The field of a request that continues a stream, and that of an answer to continue from.
const TOKEN: &str = "resume_token";

/// The time without an event after which a comment is sent: less than the silence after which
/// proxies close a connection.
const PING_EVERY: Duration = Duration::from_secs(15);
const PING: Bytes = Bytes::from_static(b":\n\n");
/// The first bytes: how many milliseconds a browser waits before it connects again.
const START: Bytes = Bytes::from_static(b"retry: 700\n\n");

/// Returns whether a request can only be one for events.
pub fn is_asked<T>(request: &Request<T>, method: &WebMethod) -> bool {
    let types = &method.descriptor;
    let is_stream = types.is_server_streaming() && !types.is_client_streaming();
    request.method() == Verb::GET && method.is_safe() && is_stream
}

/// Calls a method.
pub async fn call<S: GrpcService>(
    inner: S,
    request: Request<Body>,
    method: &WebMethod,
    intake: &Intake,
) -> WebAnswer<S> {
    if !request.headers().get_all(ACCEPT).iter().any(accepts_events) {
        let text = "this method streams; send Accept: text/event-stream";
        return super::plain(StatusCode::NOT_ACCEPTABLE, text);
    }
    let is_resumed = request.headers().contains_key(LAST_ID);
    let request = resumed(request, &method.descriptor.input());
    let request = connect::grpc_request(request, method, (Framing::Whole, Codec::Json), intake);
    let (parts, body) = super::call(inner, request).await.into_parts();
    let answer = GrpcAnswer::new(&parts.headers, body);
    if let Some(status) = &answer.early_end {
        // A browser never connects again after another status than 200.
        let is_passing = status.code() == Code::Unavailable;
        let is_forgotten = is_resumed && is_expired(status);
        if !is_passing && !is_forgotten {
            return connect::failed(status, method.descriptor.parent_pool());
        }
    }
    let events =
        answer.written(Events { message: method.descriptor.output() }, intake.offload().clone());
    let mut response = Response::new(WebBody::stream(pinged(events)));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(EVENTS));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // A proxy must not collect events.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

fn accepts_events(accepted: &HeaderValue) -> bool {
    let kinds = accepted.to_str().unwrap_or_default().split(',');
    kinds.map(|kind| kind.split(';').next().unwrap_or_default().trim()).any(|kind| kind == EVENTS)
}

/// Returns the request with the position after the last event that the client received.
fn resumed(request: Request<Body>, input: &MessageDescriptor) -> Request<Body> {
    let last = request.headers().get(LAST_ID).and_then(|id| id.to_str().ok());
    let query = Query(request.uri().query().unwrap_or_default());
    let (Some(last), Some(field), Ok(message)) =
        (last.filter(|id| !id.is_empty()), input.get_field_by_name(TOKEN), query::message(query))
    else {
        return request;
    };
    // A message that is no object is refused when it is decoded.
    let Ok(Value::Object(mut fields)) = serde_json::from_slice::<Value>(&message) else {
        return request;
    };
    fields.remove(field.name());
    fields.insert(field.json_name().to_string(), last.into());
    let message = Value::Object(fields).to_string();
    let (mut parts, _) = request.into_parts();
    parts.method = Verb::POST;
    Request::from_parts(parts, Body::new(WebBody::<Body>::whole(message)))
}

fn is_expired(status: &Status) -> bool {
    let info = status.get_details_error_info();
    info.is_some_and(|info| info.reason == Reason::ResumeTokenExpired.wire().1)
}

/// How answers are events.
#[derive(Clone)]
struct Events {
    message: MessageDescriptor,
}

impl AnswerForm for Events {
    fn message(&self, message: Bytes) -> Result<Bytes, Status> {
        let id = DynamicMessage::decode(self.message.clone(), message.clone()).ok();
        let id = id.and_then(|message| match message.get_field_by_name(TOKEN).as_deref() {
            Some(Field::String(token)) if !token.is_empty() => Some(format!("id: {token}\n")),
            _ => None,
        });
        let data = Codec::Json.encode(&self.message, message)?;
        // JSON on one line has no line end inside.
        let parts = [id.unwrap_or_default().as_bytes(), b"data: ", &data, b"\n\n"].concat();
        Ok(parts.into())
    }

    /// Returns the last event. After an expired token the browser must forget it: an empty id does
    /// that.
    fn end(&self, status: &Status) -> Bytes {
        let id = if is_expired(status) { "id\n" } else { "" };
        let data = match status.code() {
            Code::Ok => "{}".to_string(),
            _ => connect::json(status, self.message.parent_pool()).to_string(),
        };
        format!("event: end\n{id}data: {data}\n\n").into()
    }
}

/// Adds the first bytes, and a comment after each silence.
fn pinged(events: impl Stream<Item = Bytes> + Send + 'static) -> impl Stream<Item = Bytes> + Send {
    let pinged = stream::unfold(Box::pin(events), |mut events| async {
        match tokio::time::timeout(PING_EVERY, events.next()).await {
            Ok(event) => event.map(|event| (event, events)),
            Err(_) => Some((PING, events)),
        }
    });
    stream::once(std::future::ready(START)).chain(pinged)
}
