//! Errors of requests that are refused before their handler.

use std::io;
use std::sync::LazyLock;
use std::time::Duration;

use tonic::Status;

use super::parts::TooMany;
use crate::domain::message::cut_bytes;
use crate::service::caller::budget::Budget;
use crate::service::code::{ApiError, QUOTED_BYTES_MAX, Reason};
use crate::service::log_limit::Sparse;

/// How long a client waits after a full budget: within this time other messages are complete or
/// refused.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Malformed requests of this process.
static REFUSED: LazyLock<Sparse> = LazyLock::new(|| Sparse::new(Duration::from_secs(1)));

/// Counts a request that was refused before its handler. The log line has only the count; the level
/// `debug` has each request.
pub(in crate::service) fn note_malformed() {
    if let Some(count) = REFUSED.note() {
        tracing::warn!(
            count,
            "requests were malformed, too large or of an unknown method; level debug has each"
        );
    }
}

/// The request is not a gRPC message.
pub(in crate::service) fn malformed(text: impl Into<String>) -> Status {
    note_malformed();
    let text = text.into();
    let cause = cut_bytes(&text, QUOTED_BYTES_MAX).into_owned();
    ApiError::new(Reason::MalformedRequest, text).with("cause", cause).into()
}

/// The message exceeds the limit of its method.
pub(in crate::service) fn too_large(bytes: usize, max: usize) -> Status {
    note_malformed();
    let text = format!(
        "the message is too large: it has {bytes} bytes, at most {max} are allowed in this method"
    );
    ApiError::new(Reason::RequestTooLarge, text).with("bytes", bytes).with("max", max).into()
}

/// The message has too many parts, or one of its lists is too long.
pub(in crate::service) fn too_many_parts(found: &TooMany) -> Status {
    note_malformed();
    let TooMany { limit, max, field } = found;
    let text = match field {
        Some(field) => format!(
            "{field} has more than {max} entries ({limit}); divide the request into several"
        ),
        None => format!(
            "the lists of the message have more than {max} entries together ({limit}); divide the \
             request into several"
        ),
    };
    let problem = ApiError::of_limit(Reason::RequestTooLarge, text, limit, max);
    match field {
        Some(field) => problem.with("field", field).into(),
        None => problem.into(),
    }
}

/// The compressed message becomes too large for its size.
pub(in crate::service) fn too_compressed(bytes: usize, ratio_max: usize) -> Status {
    note_malformed();
    let limit = "compression_ratio_max";
    let text = format!(
        "the {bytes} bytes of the message become more than {ratio_max} times as many ({limit}); \
         send the message without compression"
    );
    ApiError::of_limit(Reason::RequestTooLarge, text, limit, ratio_max).with("bytes", bytes).into()
}

/// The call has another number of messages than its method.
pub(in crate::service) fn wrong_count(text: &str) -> Status {
    note_malformed();
    ApiError::new(Reason::WrongMessageCount, text).with("expected", 1).into()
}

/// A message is compressed, and the header with this name does not name the compression.
pub(in crate::service) fn unannounced_compression(header: &str) -> Status {
    note_malformed();
    let text = format!("a message is compressed, but {header} names no compression");
    ApiError::new(Reason::UnannouncedCompression, text).with("header", header).into()
}

/// There are too many bytes of incomplete messages.
pub(in crate::service) fn no_room(budget: &Budget) -> Status {
    let text = format!(
        "incomplete messages may have {} bytes together ({}), and {} are in use; try again",
        budget.max,
        budget.limit,
        budget.used()
    );
    let problem = ApiError::of_limit(Reason::RateLimited, text, budget.limit, budget.max);
    problem.retry_after(RETRY_AFTER).into()
}

/// The request cannot be read to its end. If its connection or stream has ended, the client has
/// gone and did not wait for an answer; if its chunks have no form, it is malformed. Neither is a
/// failure of the server.
pub(in crate::service) fn broken_off(status: Status) -> Status {
    let mut cause = std::error::Error::source(&status);
    let mut is_of_connection = false;
    while let Some(error) = cause {
        is_of_connection |= error.is::<hyper::Error>();
        let kind = error.downcast_ref::<io::Error>().map(io::Error::kind);
        if is_of_connection
            && matches!(kind, Some(io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData))
        {
            return malformed(format!("the body of the request has no form of HTTP: {error}"));
        }
        cause = error.source();
    }
    match is_of_connection {
        true => Status::cancelled(BROKEN_OFF),
        false => status,
    }
}

/// What is said about a request whose client has ended it.
pub(in crate::service) const BROKEN_OFF: &str =
    "the client ended the request before it was complete";

/// The rest of the request did not arrive in time.
pub(in crate::service) fn late(timeout: Duration) -> Status {
    let seconds = timeout.as_secs_f64();
    let text = format!(
        "the request was not complete within {seconds} s; end the message and the stream of \
         requests when it is sent"
    );
    ApiError::new(Reason::RequestIncomplete, text).with("max_seconds", seconds).into()
}
