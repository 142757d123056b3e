//! The report of a command that failed: a system of the tables of errors, and a code.

use crate::cli::command::run::operation::lines::cut;
use crate::cli::command::run::operation::recipe::Recipe;
use crate::domain::limits::MESSAGE_BYTES_MAX;
use crate::proto::v1::{ErrorOrigin, ErrorReport};

/// The longest code in the error of an operation.
const CODE_BYTES_MAX: usize = 253;
/// The line that Python writes before an exception.
const TRACEBACK: &str = "Traceback (most recent call last)";

/// Returns the error of a command, and whether it may have changed something.
///
/// `code` is its exit code, `lines` the last that it wrote to stderr, or to stdout if there are
/// none.
pub fn report(code: u8, lines: &[String], recipe: &Recipe) -> (ErrorReport, bool) {
    let line = error_line(lines);
    let known = recipe.errors.iter().find(|known| known.is_in(lines));
    let touched = known.is_none_or(|known| known.touched);
    let message = match line {
        "" => format!("exit code {code}"),
        line => cut(line, MESSAGE_BYTES_MAX).to_string(),
    };
    let base = ErrorReport { message, ..ErrorReport::default() };
    if let Some(class) = known.map(|known| known.class) {
        return (ErrorReport { class: class.into(), ..base }, touched);
    }
    let (system, found) = match &recipe.system {
        Some(system) if !line.is_empty() => (system.as_str(), line.to_string()),
        _ => system_of(code, lines, line),
    };
    let origin = match system {
        "exit" => ErrorOrigin::Local,
        _ => ErrorOrigin::Peer,
    };
    let report = ErrorReport {
        system: system.to_string(),
        code: cut(&found, CODE_BYTES_MAX).to_string(),
        origin: origin.into(),
        ..base
    };
    (report, touched)
}

/// Returns the last line that names an error, without that word; else the last line.
fn error_line(lines: &[String]) -> &str {
    let starts = ["Error: ", "error: ", "ERROR: ", "Error:", "fatal: ", "FATAL: "];
    let after = |line: &'_ str| {
        starts.iter().find_map(|start| {
            let (_, rest) = line.split_once(start)?;
            Some(line.len() - rest.len())
        })
    };
    let named = lines.iter().rev().find_map(|line| Some(line[after(line)?..].trim()));
    let last = lines.last().map(String::as_str).unwrap_or_default();
    named.filter(|text| !text.is_empty()).unwrap_or(last)
}

fn system_of(code: u8, lines: &[String], line: &str) -> (&'static str, String) {
    let has_traceback = lines.iter().any(|line| line.starts_with(TRACEBACK));
    if has_traceback && let Some(last) = lines.last() {
        return ("python", last.split(':').next().unwrap_or(last).trim().to_string());
    }
    match http_status(line) {
        Some(status) => ("http", status.to_string()),
        None => ("exit", code.to_string()),
    }
}

/// Finds the status in `HTTP 503`, `HTTP/1.1 503 Service Unavailable` or `status code: 503`.
fn http_status(line: &str) -> Option<u16> {
    let lower = line.to_lowercase();
    let at = ["http ", "http/", "status code", "status: ", "http status"]
        .iter()
        .find_map(|word| lower.find(word))?;
    let numbers = lower[at..].split(|c: char| !c.is_ascii_digit());
    let status = numbers.filter(|text| text.len() == 3).find_map(|text| text.parse().ok());
    status.filter(|status| (400..600).contains(status))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::v1::ErrorClass;

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_string).collect()
    }

    #[test]
    fn the_table_is_that_of_the_last_error() {
        let helm = Recipe { system: Some("helm".into()), ..Recipe::default() };
        let traceback = "Traceback (most recent call last):\n  File\nrequests.Timeout: read: slow";
        for (recipe, code, text, system, found, message) in [
            (&helm, 1, "x\nError: UPGRADE FAILED: y", "helm", "UPGRADE FAILED: y", "UPGRADE"),
            (&helm, 1, "", "exit", "1", "exit code 1"),
            (&Recipe::default(), 1, traceback, "python", "requests.Timeout", "requests.Timeout"),
            (&Recipe::default(), 22, "curl: HTTP 503", "http", "503", "HTTP 503"),
            (&Recipe::default(), 1, "HTTP/1.1 404 Not Found", "http", "404", "404"),
            (&Recipe::default(), 1, "error: status code: 500", "http", "500", "500"),
            (&Recipe::default(), 75, "try later", "exit", "75", "try later"),
            (&Recipe::default(), 137, "HTTP 200 in 500 ms", "exit", "137", "HTTP"),
            (&Recipe::default(), 1, "http 200", "exit", "1", "http 200"),
        ] {
            let (report, touched) = super::report(code, &lines(text), recipe);
            assert_eq!((report.system.as_str(), report.code.as_str()), (system, found), "{text}");
            assert!(report.message.contains(message), "{}", report.message);
            assert!(touched, "an unknown failure may have changed something");
        }
    }

    #[test]
    fn a_recipe_knows_its_errors() {
        let text = "[[errors]]\ntext = \"No Such Chart\"\nclass = \"BLOCKED\"\ntouched = false\n";
        let recipe = Recipe::parse(text).unwrap();
        let (report, touched) = report(1, &lines("Error: no such chart: x\nhint"), &recipe);
        assert_eq!((report.class(), touched), (ErrorClass::Blocked, false));
        assert_eq!((report.system.as_str(), report.message.as_str()), ("", "no such chart: x"));
    }

    #[test]
    fn a_long_line_is_cut() {
        let helm = Recipe { system: Some("helm".into()), ..Recipe::default() };
        let (report, _) = report(1, &["é".repeat(5_000)], &helm);
        assert!(report.code.len() <= CODE_BYTES_MAX && report.message.len() <= MESSAGE_BYTES_MAX);
    }
}
