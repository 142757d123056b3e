//! The deadline of the caller, from the header `grpc-timeout`.

use std::time::Duration;

use http::{HeaderMap, HeaderName};
use tokio::time::Instant;

/// The time that a caller waits for its answer.
static TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");

/// The deadline of the caller: an extension of every request with a timeout.
///
/// The layer enforces it until the headers of a response are sent. Watches enforce it themselves.
/// A watch of the health and the session of a worker last until their client ends them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deadline(pub Instant);

impl Deadline {
    /// Reads `grpc-timeout`, relative to `now`; `None` if the header is missing or invalid.
    pub(super) fn from_headers(headers: &HeaderMap, now: Instant) -> Option<Self> {
        let timeout = parse(headers.get(&TIMEOUT)?.to_str().ok()?)?;
        now.checked_add(timeout).map(Self)
    }
}

/// Parses a timeout: at most eight digits and one unit, by the protocol.
fn parse(text: &str) -> Option<Duration> {
    let unit = text.chars().last().filter(char::is_ascii)?;
    let digits = &text[..text.len() - 1];
    let all_digits = digits.bytes().all(|byte| byte.is_ascii_digit());
    if digits.is_empty() || digits.len() > 8 || !all_digits {
        return None;
    }
    let amount: u64 = digits.parse().ok()?;
    match unit {
        'H' => Some(Duration::from_secs(amount * 3600)),
        'M' => Some(Duration::from_secs(amount * 60)),
        'S' => Some(Duration::from_secs(amount)),
        'm' => Some(Duration::from_millis(amount)),
        'u' => Some(Duration::from_micros(amount)),
        'n' => Some(Duration::from_nanos(amount)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_are_read_as_the_protocol_writes_them() {
        let cases = [
            ("2H", Some(Duration::from_secs(7200))),
            ("3M", Some(Duration::from_secs(180))),
            ("4S", Some(Duration::from_secs(4))),
            ("5m", Some(Duration::from_millis(5))),
            ("6u", Some(Duration::from_micros(6))),
            ("99999999n", Some(Duration::from_nanos(99_999_999))),
            ("100000000n", None),
            ("", None),
            ("S", None),
            ("5", None),
            ("+5S", None),
            ("5 S", None),
            ("5\u{20ac}", None),
        ];
        for (text, expected) in cases {
            assert_eq!(parse(text), expected, "{text:?}");
        }
    }
}
