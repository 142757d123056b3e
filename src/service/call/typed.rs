//! Adds a reason to errors of tonic and of other libraries: every error of this server has one.
//!
//! tonic answers a request that does not decode with `INTERNAL`, as if the server had failed. This
//! module replaces the code of such client errors.

use http::{HeaderMap, HeaderName};
use tonic::{Code, Status};

use super::intake::refusal::{BROKEN_OFF, note_malformed};
use crate::domain::message::cut_bytes;
use crate::service::code::{self, ApiError, Reason};
use crate::telemetry::code_name;

// A name that is a value is not parsed at each call.
static STATUS: HeaderName = HeaderName::from_static("grpc-status");
static MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
static DETAILS: HeaderName = HeaderName::from_static("grpc-status-details-bin");

/// Adds a reason to an error without details, and limits its size. Returns the code that headers or
/// trailers end with; `None` if they have no status.
pub(super) fn complete(headers: &mut HeaderMap) -> Option<Code> {
    let code = Code::from_bytes(headers.get(&STATUS)?.as_bytes());
    if code == Code::Ok || headers.contains_key(&DETAILS) {
        return Some(code);
    }
    let Some(given) = Status::from_header_map(headers) else { return Some(code) };
    let status = complete_status(&given);
    headers.remove(&MESSAGE);
    headers.remove(&STATUS);
    // The headers contain only values of this module, which are within the limits of a header.
    let _ = status.add_header(headers);
    Some(status.code())
}

/// Completes a status.
pub(super) fn complete_status(given: &Status) -> Status {
    let text = given.message();
    if given.code() == Code::Internal && text.starts_with(MISSING) {
        return code::foreign(Code::Cancelled, code_name(Code::Cancelled), BROKEN_OFF);
    }
    let Some((reason, advice)) = blame(given.code(), text) else {
        return code::foreign(given.code(), code_name(given.code()), text);
    };
    note_malformed();
    let cause = if text.is_empty() { code_name(given.code()) } else { text };
    let cause = cut_bytes(cause, code::QUOTED_BYTES_MAX).into_owned();
    let text = format!("{}{advice}", cut_bytes(text, TEXT_BYTES_MAX));
    ApiError::new(reason, text).with("cause", cause).into()
}

/// What tonic says if the body of a request ends with CANCELLED, as one does that its client has
/// broken off. `intake` itself refuses a body that is complete and has no message.
const MISSING: &str = "Missing request message";

/// Maximum bytes of tonic's own text in an error: its longest sentence is shorter.
const TEXT_BYTES_MAX: usize = 512;

/// Returns the reason of a client error, recognized by tonic's text. A test provokes each of them
/// on a real server.
fn blame(code: Code, text: &str) -> Option<(Reason, &'static str)> {
    let begins = |starts: &[&str]| starts.iter().any(|start| text.starts_with(start));
    match code {
        Code::Internal
            if begins(&[
                "failed to decode Protobuf message",
                "protocol error: ",
                "Unexpected EOF decoding stream",
            ]) =>
        {
            Some((Reason::MalformedRequest, "; send one message of the type of this method"))
        }
        Code::OutOfRange if begins(&["Error, decoded message length too large"]) => {
            Some((Reason::RequestTooLarge, "; send less at once"))
        }
        Code::Unimplemented if begins(&["Content is compressed"]) => {
            Some((Reason::UnsupportedEncoding, "; send it uncompressed"))
        }
        Code::Unimplemented => {
            Some((Reason::UnknownMethod, "no such method; reflection and the protos list them"))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use tonic_types::StatusExt;

    use super::*;

    /// Returns code, reason and message of a completed error.
    fn completed(given: Status) -> (Code, String, String) {
        let mut headers = HeaderMap::new();
        given.add_header(&mut headers).unwrap();
        complete(&mut headers);
        let status = Status::from_header_map(&headers).unwrap();
        let info = status.get_details_error_info().unwrap();
        assert!(!info.metadata.is_empty(), "{info:?}");
        (status.code(), info.reason, status.message().to_string())
    }

    #[test]
    fn every_error_has_a_reason() {
        let cases = [
            (Status::internal("failed to decode Protobuf message: buffer underflow"), "MALFORMED"),
            (Status::internal("Missing request message."), "CANCELLED"),
            (Status::out_of_range("Error, decoded message length too large: found 9"), "REQUEST_"),
            (Status::unimplemented("Content is compressed with `gzip` which"), "UNSUPPORTED_"),
            (Status::unimplemented(""), "UNKNOWN_METHOD"),
            (Status::not_found("symbol 'a' not found"), "NOT_FOUND"),
            (Status::internal("the disk is on fire"), "INTERNAL"),
            (Status::deadline_exceeded("the deadline of the call has passed"), "DEADLINE_EXCEEDED"),
        ];
        for (given, expected) in cases {
            let (_, reason, message) = completed(given);
            assert!(reason.starts_with(expected), "{reason} instead of {expected}: {message}");
            assert!(!message.is_empty());
        }
    }

    #[test]
    fn a_long_error_is_cut_and_one_of_ours_stays() {
        let (_, _, message) = completed(Status::not_found("x".repeat(20_000)));
        assert!(message.len() <= code::MESSAGE_BYTES_MAX);
        let ours: Status = ApiError::draining().into();
        let mut headers = HeaderMap::new();
        ours.add_header(&mut headers).unwrap();
        let before = headers.clone();
        complete(&mut headers);
        assert_eq!(headers, before);
        let mut fine = HeaderMap::new();
        Status::ok("").add_header(&mut fine).unwrap();
        let before = fine.clone();
        complete(&mut fine);
        assert_eq!(fine, before);
    }
}
