//! The forms of a session: one that starts it with a token, one that ends it.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, LOCATION, SET_COOKIE};
use http::{HeaderValue, Method as Verb, Request, Response, StatusCode};
use tonic::body::Body;
use tonic::{Code, Status};

use super::{BrowserSessions, cookie, sameness};
use crate::proto::v1;
use crate::service::call::intake::Meter;
use crate::service::web::body::{WebBody, next_frame};
use crate::service::web::inner::Inner;
use crate::service::web::origin::Origins;
use crate::service::web::query::Query;
use crate::service::web::{GrpcService, WebAnswer, page, plain};

/// The path that starts a session.
pub const START: &str = "/session";
/// The path that ends it.
pub const END: &str = "/session/end";

/// Any known caller may call it, and nothing else.
const WHO: &str = "/bellwether.v1.ServerService/GetServerInfo";
const FORM: &str = "application/x-www-form-urlencoded";
/// A JWT fits, and the address of a view.
const FORM_BYTES_MAX: usize = 24 << 10;
/// A form is a packet or two.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Answers a form that was sent to [`START`] or [`END`].
pub async fn answer<S: GrpcService>(
    sessions: &BrowserSessions,
    origins: &Origins,
    inner: S,
    mut request: Request<Body>,
    meter: Meter,
) -> WebAnswer<S> {
    if request.method() != Verb::POST {
        return plain(StatusCode::METHOD_NOT_ALLOWED, "send POST");
    }
    let is_tls = sessions.is_tls;
    if !sameness::is_own(&request, origins, is_tls) {
        let text = "a session starts and ends on a page of this server only; behind a proxy, \
                    configure allowed_origins";
        return plain(StatusCode::FORBIDDEN, text);
    }
    let is_secure = sameness::is_secure(&request, is_tls);
    if request.uri().path() == END {
        sessions.end(&request);
        return moved("/", cookie::set("", is_secure));
    }
    let kind = request.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    if kind.is_none_or(|kind| kind.split(';').next() != Some(FORM)) {
        return plain(StatusCode::UNSUPPORTED_MEDIA_TYPE, "send a form");
    }
    let body = std::mem::replace(request.body_mut(), Body::empty());
    let form = match tokio::time::timeout(TIMEOUT, read(body, meter)).await {
        Ok(Ok(form)) => form,
        Err(_) => return plain(StatusCode::REQUEST_TIMEOUT, "the form did not arrive"),
        Ok(Err(status)) if status.code() == Code::ResourceExhausted => {
            return plain(StatusCode::PAYLOAD_TOO_LARGE, status.message());
        }
        Ok(Err(status)) => return plain(StatusCode::BAD_REQUEST, status.message()),
    };
    let form = String::from_utf8_lossy(&form);
    let text = |name| Query(&form).text(name).unwrap_or_default();
    let (token, to) = (text("token"), page::local(&text("to")));
    match started(sessions, inner, request, token.trim()).await {
        Ok(key) => moved(&to, cookie::set(&key, is_secure)),
        Err(status) => page::refused(&to, &status),
    }
}

/// Starts a session if the token is that of a known caller; returns its key.
async fn started<S: GrpcService>(
    sessions: &BrowserSessions,
    inner: S,
    mut request: Request<Body>,
    token: &str,
) -> Result<String, Status> {
    let header = HeaderValue::try_from(format!("Bearer {token}"));
    let mut header = header.map_err(|_| Status::unauthenticated("this is no token"))?;
    header.set_sensitive(true);
    request.headers_mut().insert(AUTHORIZATION, header);
    known(&Inner::new(inner, &request)).await?;
    let principal = sessions.principal(&request)?;
    let key = sessions.start(&principal, token);
    key.ok_or_else(|| Status::unavailable("there is no randomness"))
}

/// Checks that the caller of a request is known.
///
/// # Errors
/// The refusal of a stranger.
pub async fn known<S: GrpcService>(inner: &Inner<S>) -> Result<(), Status> {
    let asked = v1::GetServerInfoRequest::default();
    inner.call::<v1::GetServerInfoResponse>(WHO, &asked).await.map(drop)
}

/// Reads a form, within the limits of requests.
async fn read(mut body: Body, mut meter: Meter) -> Result<Bytes, Status> {
    let mut held = BytesMut::new();
    while let Some(frame) = next_frame(&mut body).await {
        let Ok(data) = frame?.into_data() else { continue };
        if FORM_BYTES_MAX < held.len() + data.len() {
            let text = format!("a form has at most {FORM_BYTES_MAX} bytes");
            return Err(Status::resource_exhausted(text));
        }
        meter.hold(data.len())?;
        held.extend_from_slice(&data);
    }
    Ok(held.freeze())
}

/// Sends a browser to a path, with a cookie.
fn moved<B>(to: &str, cookie: Option<HeaderValue>) -> Response<WebBody<B>> {
    let mut response = plain(StatusCode::SEE_OTHER, "see the page");
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    let to = HeaderValue::try_from(to).unwrap_or(HeaderValue::from_static("/"));
    headers.insert(LOCATION, to);
    headers.extend(cookie.map(|cookie| (SET_COOKIE, cookie)));
    response
}
