//! The size limit of an error. Its details travel in trailers. Clients on gRPC's C core refuse
//! trailers above 8 KiB at random and show another error instead, so the limit is well below that.

use std::borrow::Cow;

use http::HeaderMap;
use tonic::Code;
use tonic_types::{ErrorDetails, StatusExt};

use super::{ApiError, DOMAIN, Reason, Violation, refused};
use crate::domain::message::cut_bytes as cut;

/// Maximum bytes of a whole error: all of its trailers, as HPACK counts them.
pub const ERROR_BYTES_MAX: usize = 4 << 10;
/// Maximum bytes of its message.
pub const MESSAGE_BYTES_MAX: usize = 1 << 10;
/// Maximum bytes of a text of the request that an error quotes.
pub const QUOTED_BYTES_MAX: usize = 64;
/// Maximum bytes of one description: enough for every sentence of the server with two names in it.
const DESCRIPTION_BYTES_MAX: usize = 640;
/// Maximum bytes of one fact: a name is never cut.
const FACT_BYTES_MAX: usize = 256;
/// Bytes that are reserved for the other trailers of an error: status, content type and date.
const OTHER_BYTES: usize = 256;
/// Bytes that HTTP/2 counts for each header besides its name and value.
const HEADER_OVERHEAD: usize = 32;

/// Quotes a text of the request, cut to [`QUOTED_BYTES_MAX`].
pub fn quoted(text: &str) -> String {
    format!("{:?}", cut(text, QUOTED_BYTES_MAX))
}

/// Returns the bytes of an error's trailers, as a client counts them.
pub fn wire_bytes(status: &tonic::Status) -> usize {
    let mut headers = HeaderMap::new();
    if status.add_header(&mut headers).is_err() {
        return usize::MAX;
    }
    let bytes = headers.iter().map(|(name, value)| name.as_str().len() + value.len());
    bytes.map(|bytes| bytes + HEADER_OVERHEAD).sum()
}

impl From<ApiError> for tonic::Status {
    /// Converts a problem to a status, with as many of its violations as fit.
    fn from(problem: ApiError) -> tonic::Status {
        refused::note(&problem);
        fit(problem.violations.len(), |shown, text_max| build(&problem, shown, text_max))
    }
}

/// Builds an error with fewer violations, then with a shorter text, until it fits.
fn fit(mut shown: usize, build: impl Fn(usize, usize) -> tonic::Status) -> tonic::Status {
    let mut text_max = MESSAGE_BYTES_MAX;
    loop {
        let status = build(shown, text_max);
        let is_least = shown <= 1 && text_max <= MESSAGE_BYTES_MAX / 8;
        if is_least || wire_bytes(&status) <= ERROR_BYTES_MAX - OTHER_BYTES {
            return status;
        }
        match shown {
            0 | 1 => text_max /= 2,
            // Several at a time: each attempt costs microseconds.
            _ => shown -= shown.div_ceil(4).min(shown - 1),
        }
    }
}

fn build(problem: &ApiError, shown: usize, text_max: usize) -> tonic::Status {
    let (code, reason) = problem.reason.wire();
    let facts = problem.metadata.iter();
    let facts = facts.map(|(k, v)| ((*k).to_string(), cut(v, FACT_BYTES_MAX).into_owned()));
    let retry_after = problem.retry_after.map(|after| after.as_millis().to_string());
    let facts = facts.chain(retry_after.map(|after| ("retry_after_ms".to_string(), after)));
    let mut details = ErrorDetails::with_error_info(reason, DOMAIN, facts.collect::<Facts>());
    let message = match problem.violations.is_empty() {
        true => cut(&problem.message, text_max).into_owned(),
        false => {
            let (shown, message) = tell(problem, shown, text_max);
            for violation in &problem.violations[..shown] {
                let field = cut(&violation.field, FACT_BYTES_MAX);
                details.add_bad_request_violation(field, describe(violation));
            }
            message
        }
    };
    if let Some(after) = problem.retry_after {
        details.set_retry_info(Some(after));
    }
    add_subject(problem, reason, &message, &mut details);
    tonic::Status::with_error_details(code, message, details)
}

type Facts = std::collections::HashMap<String, String>;

/// Adds the violated precondition or the limit, for programs that read it there.
fn add_subject(problem: &ApiError, reason: &str, message: &str, details: &mut ErrorDetails) {
    match problem.reason {
        Reason::LimitExceeded | Reason::RateLimited | Reason::TooManyStreams => {
            let about = |key| problem.metadata.iter().find(|(k, _)| *k == key);
            let subject = about("limit").map_or(Cow::Borrowed("server"), |(_, v)| v.into());
            details.add_quota_failure_violation(subject, message);
        }
        Reason::NotLeader | Reason::LeaseHeld => {
            details.add_precondition_failure_violation(reason, "leadership", message);
        }
        Reason::ResumeFirst | Reason::OperationState => {
            details.add_precondition_failure_violation(reason, "operation", message);
        }
        _ => {}
    }
}

fn describe(violation: &Violation) -> Cow<'_, str> {
    cut(&violation.description, DESCRIPTION_BYTES_MAX)
}

/// Returns the number of violations that the message names, at most `shown`, and the message.
fn tell(problem: &ApiError, shown: usize, text_max: usize) -> (usize, String) {
    let mut message = String::new();
    let mut listed = 0;
    for violation in problem.violations.iter().take(shown) {
        let sentence = format!("{} {}", cut(&violation.field, FACT_BYTES_MAX), describe(violation));
        // Reserves bytes for the count of the others.
        let room = text_max.saturating_sub(message.len() + "; and 1234567 more".len());
        match listed {
            0 => message.push_str(&cut(&sentence, room)),
            _ if room < sentence.len() + 2 => break,
            _ => {
                message.push_str("; ");
                message.push_str(&sentence);
            }
        }
        listed += 1;
    }
    let rest = problem.violations.len() - listed + problem.left_out;
    if 0 < rest {
        message.push_str(&format!("; and {rest} more"));
    }
    (listed, message)
}

/// Returns an error that is not from [`ApiError`], cut and with a reason.
pub fn foreign(code: Code, reason: &str, message: &str) -> tonic::Status {
    let cause = cut(message, QUOTED_BYTES_MAX).into_owned();
    let facts = Facts::from([("cause".to_string(), cause)]);
    let details = ErrorDetails::with_error_info(reason, DOMAIN, facts);
    fit(0, |_, text_max| {
        tonic::Status::with_error_details(code, cut(message, text_max), details.clone())
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn violation(n: usize, description: String) -> Violation {
        Violation::new(format!("statuses[{n}].level"), Reason::InvalidValue, description)
    }

    #[test]
    fn a_quoted_text_is_short() {
        assert_eq!(quoted("a\"b"), r#""a\"b""#);
        assert!(quoted(&"x".repeat(20_000)).len() <= QUOTED_BYTES_MAX + 2);
    }

    #[test]
    fn an_error_fits_with_any_content() {
        let texts = ["x".repeat(20_000), "ä \"{}\u{1}".repeat(4000), "%".repeat(5000)];
        for text in texts {
            let plain = ApiError::new(Reason::LimitExceeded, text.clone())
                .with("limit", "units_max")
                .with("application", &text)
                .retry_after(Duration::from_secs(1));
            let of_fields = |count: usize| {
                ApiError::of_fields((0..count).map(|n| violation(n, text.clone())).collect())
            };
            for problem in [plain, of_fields(1), of_fields(20), of_fields(1000)] {
                let status = tonic::Status::from(problem);
                assert!(wire_bytes(&status) <= ERROR_BYTES_MAX, "{}", wire_bytes(&status));
                assert!(status.message().len() <= MESSAGE_BYTES_MAX);
                assert!(status.get_details_error_info().is_some());
            }
            let status = foreign(Code::NotFound, "NOT_FOUND", &text);
            assert!(wire_bytes(&status) <= ERROR_BYTES_MAX, "{}", wire_bytes(&status));
        }
    }

    #[test]
    fn the_violations_that_do_not_fit_are_counted() {
        let missing = "is required: one of unknown, terminated, active, waiting, maintenance, \
                       blocked, error";
        let many = (0..20).map(|n| violation(n, missing.to_string())).collect();
        let status = tonic::Status::from(ApiError::of_fields(many).and_more(5));
        let named = status.get_details_bad_request().unwrap().field_violations.len();
        assert!((2..20).contains(&named), "{named}");
        let expected = format!("; and {} more", 25 - named);
        assert!(status.message().ends_with(&expected), "{}", status.message());
        assert!(status.message().contains(&format!("statuses[{}].level", named - 1)));
        let few = ApiError::of_fields(vec![violation(0, missing.to_string())]);
        let status = tonic::Status::from(few);
        assert_eq!(status.message(), format!("statuses[0].level {missing}"));
    }
}
