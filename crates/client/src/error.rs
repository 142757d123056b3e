//! The errors between a client and a server, decoded once.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use prost::Message;
use tonic::Code;
use tonic_types::StatusExt;

use crate::handshake;
use crate::proto::v1::ErrorReport;

/// The reason why a call failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The address is not valid.
    #[error("`{url}` is not the address of a server: {detail}; write http://HOST:PORT")]
    InvalidServer {
        /// The address as given.
        url: String,
        /// The mistake in it.
        detail: String,
    },
    /// A file of this client cannot be used: a certificate, a key or a token.
    #[error("{what}: {detail}")]
    Unusable {
        /// The mistake.
        what: String,
        /// The innermost cause.
        detail: String,
    },
    /// No connection to the server.
    #[error("cannot reach {url}: {detail}; is `bellwether serve` running there?")]
    Unreachable {
        /// The address.
        url: String,
        /// The innermost cause.
        detail: String,
    },
    /// A program answered, but the two sides could not agree on TLS or on gRPC.
    #[error("cannot connect to {url}: {sentence} ({detail})")]
    Handshake {
        /// The address.
        url: String,
        /// What is wrong, and what to do.
        sentence: String,
        /// The innermost cause.
        detail: String,
    },
    /// The server accepted the connection, but did not answer in time.
    #[error(
        "{url} accepted the connection but did not answer within {} s; \
         the server is stopped or overloaded, or another program listens there",
        .after.as_secs_f64()
    )]
    Silent {
        /// The address.
        url: String,
        /// How long the call waited.
        after: Duration,
    },
    /// The server answered with an error.
    #[error("{0}")]
    Refused(Box<Refusal>),
}

/// An error of a server, with its details.
#[derive(Debug, Clone)]
pub struct Refusal {
    /// gRPC code.
    pub code: Code,
    /// The message.
    pub message: String,
    /// `ErrorInfo.reason`, in UPPER_SNAKE; empty if the server gave none.
    pub reason: String,
    /// `ErrorInfo.metadata`: the facts of the sentence.
    pub metadata: BTreeMap<String, String>,
    /// Each invalid field, and what is wrong with it.
    pub violations: Vec<(String, String)>,
    /// The time after which the server accepts a retry.
    pub retry_after: Option<Duration>,
}

impl Error {
    /// Decodes the status of a call to `url`.
    pub(crate) fn from_status(url: &str, status: tonic::Status) -> Error {
        // A status with a cause was made on this side: no answer arrived.
        if let Some(cause) = std::error::Error::source(&status) {
            return Error::unreachable(url, cause);
        }
        if status.message().starts_with("grpc-status header missing") {
            return Error::away(url, "the program at this address does not use gRPC");
        }
        Error::Refused(Box::new(Refusal::from(status)))
    }

    /// Returns the error of a server that is not there, or does not behave like one.
    pub(crate) fn away(url: &str, detail: &str) -> Error {
        Error::Unreachable { url: url.to_string(), detail: detail.to_string() }
    }

    /// Returns the error of a stream that the server ended.
    pub(crate) fn stream_ended() -> Error {
        let status = tonic::Status::unavailable("the server ended the stream");
        Error::Refused(Box::new(Refusal::from(status)))
    }

    /// Returns whether a watch cannot continue from its resume token at this server.
    pub fn is_expired_token(&self) -> bool {
        self.reason() == Some("RESUME_TOKEN_EXPIRED")
    }

    /// Returns whether that server has not received yet what the token covers.
    pub fn is_behind(&self) -> bool {
        let Error::Refused(refusal) = self else { return false };
        self.is_expired_token() && refusal.metadata.get("cause").is_some_and(|it| it == "behind")
    }

    /// Returns whether a call ended because its own deadline passed on this side.
    pub(crate) fn is_timeout(status: &tonic::Status) -> bool {
        let mut cause = std::error::Error::source(status);
        while let Some(error) = cause {
            if error.is::<tonic::TimeoutExpired>() {
                return true;
            }
            cause = error.source();
        }
        false
    }

    /// Returns the error of a failed connection to `url`.
    pub(crate) fn unreachable(url: &str, cause: &(dyn std::error::Error + 'static)) -> Error {
        let detail = innermost(cause);
        match handshake::sentence(url, &detail) {
            Some(sentence) => {
                let (url, sentence) = (url.to_string(), sentence.to_string());
                Error::Handshake { url, sentence, detail }
            }
            None => Error::Unreachable { url: url.to_string(), detail },
        }
    }

    /// Returns the error of a file that cannot be used.
    pub(crate) fn unusable(what: &str, cause: &(dyn std::error::Error + 'static)) -> Error {
        Error::Unusable { what: what.to_string(), detail: innermost(cause) }
    }

    /// Returns the server's reason, if it sent one.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Error::Refused(refusal) if !refusal.reason.is_empty() => Some(&refusal.reason),
            _ => None,
        }
    }

    /// Returns the code of the server's answer.
    pub fn code(&self) -> Option<Code> {
        match self {
            Error::Refused(refusal) => Some(refusal.code),
            _ => None,
        }
    }

    /// Returns whether the requested object does not exist.
    pub fn is_not_found(&self) -> bool {
        self.code() == Some(Code::NotFound)
    }

    /// Returns whether the answer was larger than this client accepts: 4 MiB.
    pub fn is_too_large(&self) -> bool {
        // tonic gives no other sign of it.
        let is_said = |r: &Refusal| r.message.contains("decoded message length too large");
        matches!(self, Error::Refused(refusal) if is_said(refusal))
    }

    /// Returns whether the same request may succeed later.
    pub fn is_passing(&self) -> bool {
        match self {
            Error::InvalidServer { .. } | Error::Unusable { .. } => false,
            Error::Unreachable { .. } | Error::Handshake { .. } | Error::Silent { .. } => true,
            // The files of the token and the certificate may have been replaced.
            Error::Refused(refusal) if refusal.reason == "CREDENTIALS_EXPIRED" => true,
            // UNKNOWN and INTERNAL are the result of a broken HTTP/2 stream.
            Error::Refused(refusal) => matches!(
                refusal.code,
                Code::Unavailable
                    | Code::ResourceExhausted
                    | Code::Aborted
                    | Code::DeadlineExceeded
                    | Code::Cancelled
                    | Code::Unknown
                    | Code::Internal
            ),
        }
    }

    /// Returns the report of an error as an older server takes it, if this is the refusal of its
    /// reason by such a server. See [`Refusal::without_reason`].
    pub fn without_reason(&self, report: &ErrorReport) -> Option<ErrorReport> {
        match self {
            Error::Refused(refusal) => refusal.without_reason(report),
            _ => None,
        }
    }

    /// Returns the time after which the server accepts a retry, if it sent one.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Error::Refused(refusal) => refusal.retry_after,
            _ => None,
        }
    }
}

/// The most bytes of a reason.
const REASON_BYTES_MAX: usize = 253;

impl Refusal {
    /// Returns the report of an error without the service's own code, if this is the refusal of
    /// its reason: a server of 0.1.0 takes UPPER_SNAKE alone. `None` if the refusal is about
    /// something else, or if the reason is one that no server takes.
    pub fn without_reason(&self, report: &ErrorReport) -> Option<ErrorReport> {
        let is_about_it = self.violations.iter().any(|(field, _)| field == "error.reason");
        let given = report.reason.as_bytes();
        let is_valid =
            (1..=REASON_BYTES_MAX).contains(&given.len()) && given.iter().all(u8::is_ascii_graphic);
        let (domain, reason) = (String::new(), String::new());
        let plain = || ErrorReport { domain, reason, ..report.clone() };
        (is_about_it && is_valid).then(plain)
    }
}

impl From<tonic::Status> for Refusal {
    fn from(status: tonic::Status) -> Refusal {
        let details = status.get_error_details();
        let info = details.error_info();
        Refusal {
            code: status.code(),
            message: status.message().to_string(),
            reason: info.map(|i| i.reason.clone()).unwrap_or_default(),
            metadata: info.map(|i| i.metadata.clone().into_iter().collect()).unwrap_or_default(),
            violations: details
                .bad_request()
                .map(|b| b.field_violations.as_slice())
                .unwrap_or_default()
                .iter()
                .map(|v| (v.field.clone(), v.description.clone()))
                .collect(),
            retry_after: details.retry_info().and_then(|r| r.retry_delay),
        }
    }
}

impl From<tonic_types::pb::Status> for Refusal {
    fn from(status: tonic_types::pb::Status) -> Refusal {
        let (code, details) = (Code::from_i32(status.code), status.encode_to_vec());
        Refusal::from(tonic::Status::with_details(code, status.message, details.into()))
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.message.is_empty() {
            write!(f, "the server answered {:?} without a message", self.code)?;
        } else {
            write!(f, "{}", self.message)?;
        }
        for (field, description) in &self.violations {
            // The message often contains the description of the only violation already.
            if !self.message.contains(description.as_str()) {
                write!(f, "; {field}: {description}")?;
            }
        }
        if !self.reason.is_empty() {
            write!(f, " [{}]", self.reason)?;
        }
        Ok(())
    }
}

/// Returns the text of the innermost cause: the outer layers say only `transport error`.
fn innermost(error: &(dyn std::error::Error + 'static)) -> String {
    let mut error = error;
    while let Some(cause) = error.source() {
        error = cause;
    }
    let text = error.to_string();
    // `Connection refused (os error 111)`: the number does not help.
    let text = text.split(" (os error").next().unwrap_or_default();
    let mut chars = text.chars();
    match (chars.next(), chars.clone().next()) {
        (Some(first), Some(second)) if second.is_lowercase() => {
            first.to_lowercase().chain(chars).collect()
        }
        _ => text.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tonic_types::ErrorDetails;

    #[test]
    fn decodes_reason_facts_and_retry() {
        let mut details = ErrorDetails::new();
        details.set_error_info("DRAINING", "bellwether", [("end".into(), "soon".into())]);
        details.set_retry_info(Some(Duration::from_secs(3)));
        let status =
            tonic::Status::with_error_details(Code::Unavailable, "the server is ending", details);
        let error = Error::from_status("http://h:1", status);
        assert_eq!(error.reason(), Some("DRAINING"));
        assert_eq!(error.retry_after(), Some(Duration::from_secs(3)));
        assert!(error.is_passing());
        assert_eq!(error.to_string(), "the server is ending [DRAINING]");
    }

    #[test]
    fn names_each_violated_field() {
        let mut details = ErrorDetails::new();
        details.add_bad_request_violation("unit", "is empty");
        details.add_bad_request_violation("status.level", "is 99");
        let status =
            tonic::Status::with_error_details(Code::InvalidArgument, "unit is empty", details);
        let error = Error::from_status("http://h:1", status);
        assert_eq!(error.to_string(), "unit is empty; status.level: is 99");
        assert!(!error.is_passing());
    }

    #[test]
    fn an_error_names_its_innermost_cause() {
        let refused = std::io::Error::from_raw_os_error(111);
        assert_eq!(
            Error::unreachable("http://h:1", &refused).to_string(),
            "cannot reach http://h:1: connection refused; is `bellwether serve` running there?"
        );
    }
}
