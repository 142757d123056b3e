//! Errors of calls whose answers have no room.

use std::time::Duration;

use http::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use http::{HeaderMap, Response, StatusCode};

use super::budget::Full;
use crate::service::code::{ApiError, Reason};

/// How long a client waits after a full budget.
const WAIT: Duration = Duration::from_secs(1);

/// There is no room for an answer.
pub fn no_room(Full(budget): &Full) -> ApiError {
    let text = format!(
        "answers that are not taken yet may have {} bytes together ({}), and {} are in use; read \
         the answers to earlier calls, and try again",
        budget.max,
        budget.limit,
        budget.used()
    );
    ApiError::of_limit(Reason::RateLimited, text, budget.limit, budget.max).retry_after(WAIT)
}

/// Returns the refusal of a call for which there is not even room for an error: its headers alone,
/// which the peer takes whatever its window is. They hold the whole error of a gRPC call.
pub fn bare<B>(full: &Full, request: &HeaderMap, body: B) -> Response<B> {
    let status = tonic::Status::from(no_room(full));
    let mut response = Response::new(body);
    let kind = request.get(CONTENT_TYPE).map_or(&b""[..], HeaderValue::as_bytes);
    if kind.starts_with(b"application/grpc") && status.add_header(response.headers_mut()).is_ok() {
        response.headers_mut().extend(request.get(CONTENT_TYPE).map(|t| (CONTENT_TYPE, t.clone())));
        return response;
    }
    *response.status_mut() = StatusCode::TOO_MANY_REQUESTS;
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(WAIT.as_secs()));
    response
}
