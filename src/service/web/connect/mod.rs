//! The Connect protocol (connectrpc.com/docs/protocol): a call as an ordinary request of HTTP, with
//! JSON or binary proto.
//!
//! ```text
//!  POST, GET --> call --> RequestBody --> gRPC request --> inner service
//!                  |        JSON --> proto, prefix                |
//!                  '--> Form::answer <-- messages, status <-------'
//! ```

mod error;
mod request;
mod response;

use bytes::BytesMut;
use http::header::{
    ACCEPT_ENCODING, ALLOW, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, HeaderName,
};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method as Verb, Request, Response, StatusCode, Version};
use prost_reflect::MessageDescriptor;
use tonic::Status;
use tonic::body::Body;

pub use error::{json, named};
pub use response::failed;

use request::RequestBody;

use super::body::WebBody;
use super::codec::Codec;
use super::method::WebMethod;
use super::query::{self, Query};
use super::{GrpcService, WebAnswer, gzip, metadata, plain};
use crate::service::call::intake::{Intake, refusal};
use crate::service::caller::Caller;
use crate::service::code::{ApiError, Reason};

/// Maximum digits of a timeout, by the protocol.
const TIMEOUT_DIGITS_MAX: usize = 10;

/// The media types of a method with one request and one answer, and of a stream. A browser sends
/// none of them to another origin before it has asked.
const WHOLE: &str = "application/json, application/proto";
const PREFIXED: &str = "application/connect+json, application/connect+proto";

/// Flag of a message that is compressed.
const COMPRESSED: u8 = 1;

/// How messages lie in a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// The body is the message.
    Whole,
    /// Each message has a prefix.
    Prefixed,
}

/// How the messages of a body are written.
#[derive(Debug, Clone)]
struct Form {
    /// Whether messages have a prefix.
    framing: Framing,
    /// How messages are encoded.
    codec: Codec,
    /// Whether messages may be compressed.
    is_gzip: bool,
    /// The type of the messages.
    message: MessageDescriptor,
}

/// Calls a method.
pub async fn call<S: GrpcService>(
    inner: S,
    request: Request<Body>,
    method: &WebMethod,
    intake: &Intake,
) -> WebAnswer<S> {
    let is_get = request.method() == Verb::GET;
    let (framing, codec) = match read_form(&request, method) {
        Ok(form) => form,
        Err(refused) => return *refused,
    };
    let accepted = match framing {
        Framing::Whole => request.headers().get(ACCEPT_ENCODING),
        Framing::Prefixed => request.headers().get("connect-accept-encoding"),
    };
    let form = Form {
        framing,
        codec,
        is_gzip: accepted.is_some_and(gzip::is_accepted),
        message: method.descriptor.output(),
    };
    let request = grpc_request(request, method, (framing, codec), intake);
    let offload = intake.offload().clone();
    let mut response = form.answer(super::call(inner, request).await, offload).await;
    if is_get {
        // A cache would show an old status as the present one.
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    response
}

/// Returns the answer to a request that is no call, in plain text: clients derive the code from the
/// status of HTTP.
fn refused<B>(
    status: StatusCode,
    header: Option<(HeaderName, &'static str)>,
    text: &str,
) -> Box<Response<WebBody<B>>> {
    let mut response = plain(status, text);
    let header = header.map(|(name, value)| (name, HeaderValue::from_static(value)));
    response.headers_mut().extend(header);
    Box::new(response)
}

/// Reads how the bodies of a call are encoded.
fn read_form<B>(
    request: &Request<Body>,
    method: &WebMethod,
) -> Result<(Framing, Codec), Box<Response<WebBody<B>>>> {
    let is_readable = method.is_safe() && method.is_unary();
    if is_readable && request.method() == Verb::GET {
        let query = Query(request.uri().query().unwrap_or_default());
        let encoding = query.text("encoding").unwrap_or_else(|| "json".into());
        let codec = Codec::named(&encoding).ok_or_else(|| {
            let text = "the encoding is not known; give json or proto";
            refused(StatusCode::UNSUPPORTED_MEDIA_TYPE, None, text)
        })?;
        return Ok((Framing::Whole, codec));
    }
    if request.method() != Verb::POST {
        let (allowed, text) = match is_readable {
            true => ("GET, POST", "call this method by GET or POST"),
            false => ("POST", "call this method by POST"),
        };
        return Err(refused(StatusCode::METHOD_NOT_ALLOWED, Some((ALLOW, allowed)), text));
    }
    let (framing, accepted) = match method.is_unary() {
        true => (Framing::Whole, WHOLE),
        false => (Framing::Prefixed, PREFIXED),
    };
    let Some(form) = media_type(request.headers()).filter(|form| form.0 == framing) else {
        let header = (HeaderName::from_static("accept-post"), accepted);
        let text = format!("the content type is not accepted here; send {accepted}");
        return Err(refused(StatusCode::UNSUPPORTED_MEDIA_TYPE, Some(header), &text));
    };
    let types = &method.descriptor;
    let is_duplex = types.is_client_streaming() && types.is_server_streaming();
    if is_duplex && request.version() < Version::HTTP_2 {
        let text = "both sides of this method send at the same time, which needs HTTP/2";
        return Err(refused(StatusCode::HTTP_VERSION_NOT_SUPPORTED, None, text));
    }
    Ok(form)
}

/// Returns how the body of a request is encoded, by its content type.
fn media_type(headers: &HeaderMap) -> Option<(Framing, Codec)> {
    let text = headers.get(CONTENT_TYPE)?.to_str().ok()?.to_ascii_lowercase();
    let (kind, parameters) = text.split_once(';').unwrap_or((&text, ""));
    let is_utf8 = |parameter: &str| {
        let value = parameter.trim().strip_prefix("charset=");
        value.is_none_or(|charset| charset.trim_matches('"') == "utf-8")
    };
    if !parameters.split(';').all(is_utf8) {
        return None;
    }
    let kind = kind.trim_end().strip_prefix("application/")?;
    match kind.strip_prefix("connect+") {
        Some(codec) => Some((Framing::Prefixed, Codec::named(codec)?)),
        None => Some((Framing::Whole, Codec::named(kind)?)),
    }
}

/// Translates a request. An error of its headers is the error of the call, so that it is counted
/// as one, and after the checks of identity.
pub fn grpc_request(
    request: Request<Body>,
    method: &WebMethod,
    (framing, codec): (Framing, Codec),
    intake: &Intake,
) -> Request<Body> {
    let (mut parts, body) = request.into_parts();
    let meter = intake.meter(method.takes, parts.extensions.get::<Caller>());
    let (shape, offload) = (intake.shape(method.takes), intake.offload().clone());
    let mut headers = metadata::of_request(&parts.headers);
    let (inner, is_gzip, refused) = match read_options(&parts, framing, &mut headers) {
        Ok((message, is_gzip)) => {
            let given = |message| Body::new(WebBody::<Body>::whole(message));
            (message.map_or(body, given), is_gzip, None)
        }
        Err(status) => (body, false, Some(status)),
    };
    parts.method = Verb::POST;
    parts.version = Version::HTTP_2;
    parts.headers = headers;
    let form = Form { framing, codec, is_gzip, message: method.descriptor.input() };
    let held = BytesMut::new();
    let body = RequestBody { inner, form, meter, shape, offload, held, refused, is_ended: false };
    Request::from_parts(parts, body.into_body())
}

/// Returns the message of a GET, and whether the message is compressed. Adds the timeout of gRPC.
fn read_options(
    parts: &Parts,
    framing: Framing,
    grpc: &mut HeaderMap,
) -> Result<(Option<Vec<u8>>, bool), Status> {
    let (headers, query) = (&parts.headers, Query(parts.uri.query().unwrap_or_default()));
    let is_get = parts.method == Verb::GET;
    check_version(headers, query, is_get)?;
    if let Some(timeout) = headers.get("connect-timeout-ms") {
        grpc.insert("grpc-timeout", grpc_timeout(timeout)?);
    }
    if is_get {
        let is_gzip = is_gzip(query.text("compression").as_deref())?;
        return Ok((Some(query::message(query)?), is_gzip));
    }
    let name = match framing {
        Framing::Whole => CONTENT_ENCODING,
        Framing::Prefixed => HeaderName::from_static("connect-content-encoding"),
    };
    let compression = headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()));
    Ok((None, is_gzip(compression.as_deref())?))
}

/// A client may leave out its version.
fn check_version(headers: &HeaderMap, query: Query<'_>, is_get: bool) -> Result<(), Status> {
    let (given, known) = match is_get {
        true => (query.get("connect"), "v1"),
        false => (headers.get("connect-protocol-version").map(|v| v.as_bytes().to_vec()), "1"),
    };
    if given.is_none_or(|given| given == known.as_bytes()) {
        return Ok(());
    }
    let text = format!("the version of the protocol is not {known}, the only one there is");
    Err(refusal::malformed(text))
}

/// Returns whether a request is compressed.
fn is_gzip(compression: Option<&str>) -> Result<bool, Status> {
    match compression {
        None | Some("" | "identity") => Ok(false),
        Some("gzip") => Ok(true),
        Some(_) => {
            let text = "the compression is not supported; send gzip, or no compression";
            Err(ApiError::new(Reason::UnsupportedEncoding, text)
                .with("supported", "gzip, identity")
                .into())
        }
    }
}

/// Converts milliseconds to a timeout of gRPC, which has at most eight digits.
fn grpc_timeout(given: &HeaderValue) -> Result<HeaderValue, Status> {
    let text = given.to_str().unwrap_or_default();
    let is_number = text.len() <= TIMEOUT_DIGITS_MAX && text.bytes().all(|b| b.is_ascii_digit());
    let millis = text.parse::<u64>().ok().filter(|_| is_number).ok_or_else(|| {
        refusal::malformed("connect-timeout-ms is not a number of at most ten digits")
    })?;
    let timeout = match millis {
        0..=99_999_999 => format!("{millis}m"),
        _ => format!("{}S", millis / 1000),
    };
    HeaderValue::try_from(timeout).map_err(|_| Status::internal("a number is a header value"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn media_types_are_read_by_their_meaning() {
        let cases = [
            ("application/json", Some((Framing::Whole, Codec::Json))),
            ("Application/JSON; charset=UTF-8", Some((Framing::Whole, Codec::Json))),
            ("application/proto", Some((Framing::Whole, Codec::Proto))),
            ("application/connect+json", Some((Framing::Prefixed, Codec::Json))),
            ("application/connect+proto", Some((Framing::Prefixed, Codec::Proto))),
            ("application/json; charset=latin-1", None),
            ("application/connect+xml", None),
            ("text/plain", None),
            ("application/x-www-form-urlencoded", None),
            ("", None),
        ];
        for (text, expected) in cases {
            let headers = HeaderMap::from_iter([(CONTENT_TYPE, text.parse().unwrap())]);
            assert_eq!(media_type(&headers), expected, "{text}");
        }
    }

    #[test]
    fn timeouts_fit_into_those_of_grpc() {
        let cases = [
            ("0", Some("0m")),
            ("5000", Some("5000m")),
            ("99999999", Some("99999999m")),
            ("9999999999", Some("9999999S")),
            ("10000000000", None),
            ("-1", None),
            ("", None),
        ];
        for (given, expected) in cases {
            let timeout = grpc_timeout(&given.parse().unwrap()).ok();
            assert_eq!(timeout.as_ref().map(|t| t.to_str().unwrap()), expected, "{given}");
        }
    }
}
