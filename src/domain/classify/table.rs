//! The choice of the table and its row for an error.

use crate::domain::classify::finding::{Class, DEFAULT, Evidence, Match};
use crate::domain::classify::program::{HELM, PYTHON, REDIS};
use crate::domain::classify::row::Row;
use crate::domain::classify::web::{GRPC, HTTP};

/// Exceptions that carry an HTTP status: `lightkube.ApiError/409` is HTTP 409.
const HTTP_EXCEPTIONS: [&str; 5] = [
    "lightkube.ApiError",
    "httpx.HTTPStatusError",
    "requests.HTTPError",
    "kubernetes.ApiException",
    "kubernetes.client.ApiException",
];

/// Returns the match from the table of the error's system, if there is one.
pub(in crate::domain) fn find(evidence: &Evidence, is_gone: bool) -> Option<Match<'static>> {
    let code = &*evidence.code;
    let first = |table: &'static [Row], is_it: &dyn Fn(&str) -> bool| {
        let mut rows = table.iter().filter(|row| is_it(row.code));
        rows.find(|row| row.when.holds(evidence, is_gone)).map(Row::found)
    };
    match &*evidence.system {
        "grpc" => first(GRPC, &|row| row == code),
        "http" => Some(http(first(HTTP, &|row| row == code), evidence)),
        "redis" => first(REDIS, &|row| row == code),
        "helm" => first(HELM, &|row| helm_message(evidence).contains(row)),
        "io" => Some(Match {
            class: Class::Transient,
            rule: "io",
            why: "a connection or file was unavailable for a moment: no evidence about the target",
            remedy: "",
        }),
        "python" => match code.split_once('/') {
            Some((exception, status)) if HTTP_EXCEPTIONS.contains(&exception) => {
                Some(http(first(HTTP, &|row| row == status), evidence))
            }
            Some(("pebble.APIError", status)) => {
                let kind = pebble_status(status);
                first(PYTHON, &|row| row.strip_prefix("pebble.APIError/") == Some(kind))
            }
            _ => first(PYTHON, &|row| row == code),
        },
        _ => None,
    }
}

/// A peer that requests a delay is alive: an error that would be retried anyway is throttled.
fn http(found: Option<Match<'static>>, evidence: &Evidence) -> Match<'static> {
    let found = found.unwrap_or(Match {
        class: Class::Unclassified,
        rule: DEFAULT,
        why: "it is in no table: retried within bounds, never terminal",
        remedy: "",
    });
    if evidence.retry_after.is_none() || !found.class.counts_as_attempt() {
        return found;
    }
    Match {
        class: Class::Throttled,
        rule: "http.retry-after",
        why: "it is alive and says when to retry",
        remedy: "",
    }
}

/// Pebble's statuses are matched by their hundreds.
fn pebble_status(status: &str) -> &str {
    let is_of = |hundreds: u8| {
        let bytes = status.as_bytes();
        bytes.len() == 3 && bytes[0] == hundreds && bytes.iter().all(u8::is_ascii_digit)
    };
    match status {
        _ if is_of(b'4') => "4xx",
        _ if is_of(b'5') => "5xx",
        other => other,
    }
}

/// Helm has no codes: its text is given as the code, or else as the message.
fn helm_message(evidence: &Evidence) -> &str {
    match &*evidence.code {
        "" => &evidence.message,
        code => code,
    }
}
