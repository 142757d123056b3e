//! The choice of the table and its row for an error.

use crate::domain::classify::finding::{Class, DEFAULT, Evidence, Match};
use crate::domain::classify::program::{HELM, REDIS};
use crate::domain::classify::python::{PYTHON, short_name};
use crate::domain::classify::row::Row;
use crate::domain::classify::web::{GRPC, HTTP};

/// Exceptions that carry an HTTP status: `lightkube.ApiError/409` is HTTP 409.
const HTTP_EXCEPTIONS: [&str; 5] = [
    "lightkube.ApiError",
    "httpx.HTTPStatusError",
    "requests.HTTPError",
    "urllib.HTTPError",
    "kubernetes.ApiException",
];

/// The tables that list codes, by their system.
const TABLES: [(&str, &[Row]); 5] =
    [("grpc", GRPC), ("http", HTTP), ("python", PYTHON), ("helm", HELM), ("redis", REDIS)];

/// A line of a table, for people.
#[derive(Debug, Clone, Copy)]
pub struct Listed {
    /// The system of the table.
    pub system: &'static str,
    /// The code.
    pub code: &'static str,
    /// The result of its rule.
    pub found: Match<'static>,
}

/// Returns the lines of the table of a system, or of all tables. A code with several lines depends
/// on further facts; the first line that applies decides.
pub fn list(system: Option<&str>) -> Vec<Listed> {
    let tables = TABLES.into_iter().filter(|(name, _)| system.is_none_or(|s| s == *name));
    let rows = tables.flat_map(|(system, rows)| rows.iter().map(move |row| (system, row)));
    let lines = rows.flat_map(|(system, row)| {
        row.codes.iter().map(move |code| Listed { system, code, found: row.found })
    });
    lines.collect()
}

/// The match of an error whose code no rule and no table has.
pub(in crate::domain) const IN_NO_TABLE: Match<'static> = Match::without_remedy(
    Class::Unclassified,
    DEFAULT,
    "no table has the code, so the error is never final",
);

/// Returns the match from the table of the error's system, if there is one.
pub(in crate::domain) fn find(evidence: &Evidence, is_gone: bool) -> Option<Match<'static>> {
    let code = &*evidence.code;
    let first = |table: &'static [Row], is_it: &dyn Fn(&str) -> bool| {
        let mut rows = table.iter().filter(|row| row.codes.iter().any(|code| is_it(code)));
        rows.find(|row| row.when.holds(evidence, is_gone)).map(|row| row.found)
    };
    match &*evidence.system {
        "grpc" => first(GRPC, &|row| row == code),
        "http" => Some(http(first(HTTP, &|row| row == code), evidence)),
        "redis" => first(REDIS, &|row| row == code),
        "helm" => first(HELM, &|row| helm_message(evidence).contains(row)),
        "io" => Some(Match::without_remedy(
            Class::Transient,
            "io",
            "a connection or file was unavailable for a moment: no evidence about the target",
        )),
        "python" => {
            let (exception, detail) = code.split_once('/').unwrap_or((code, ""));
            let exception = short_name(exception);
            match (&*exception, detail) {
                (name, "") => first(PYTHON, &|row| row == name),
                (name, status) if HTTP_EXCEPTIONS.contains(&name) => {
                    Some(http(first(HTTP, &|row| row == status), evidence))
                }
                (name, detail) => {
                    let detail = match name {
                        "pebble.APIError" => pebble_status(detail),
                        "pebble.ExecError" | "subprocess.CalledProcessError" => exit_status(detail),
                        _ => detail,
                    };
                    first(PYTHON, &|row| row.split_once('/') == Some((name, detail)))
                        .or_else(|| first(PYTHON, &|row| row == name))
                }
            }
        }
        _ => None,
    }
}

/// A peer that requests a delay is alive: an error that would be retried anyway is throttled.
fn http(found: Option<Match<'static>>, evidence: &Evidence) -> Match<'static> {
    let found = found.unwrap_or(IN_NO_TABLE);
    if evidence.retry_after.is_none() || !found.class.counts_as_attempt() {
        return found;
    }
    let why = "the target is alive and says when to retry";
    Match::without_remedy(Class::Throttled, "http.retry-after", why)
}

/// Pebble's statuses are matched by their hundreds.
fn pebble_status(status: &str) -> &str {
    match status.as_bytes() {
        [b'4', b'0'..=b'9', b'0'..=b'9'] => "4xx",
        [b'5', b'0'..=b'9', b'0'..=b'9'] => "5xx",
        _ => status,
    }
}

/// Returns `signal` for the exit status of a command that a signal ended: Python gives the negative
/// signal, a shell 128 and the signal.
fn exit_status(status: &str) -> &str {
    match status.parse::<i32>() {
        Ok(-64..=-1 | 129..=192) => "signal",
        _ => status,
    }
}

/// Helm has no codes: its text is given as the code, or else as the message.
fn helm_message(evidence: &Evidence) -> &str {
    match &*evidence.code {
        "" => &evidence.message,
        code => code,
    }
}
