//! The output of a plugin: a first line for people, further lines, and performance data behind the
//! first `|` of the first line and behind that of a later one.

use crate::cli::command::run::checks::perfdata::{self, Metric};
use crate::cli::render::one_line;

/// Words of a plugin for its own result.
const STATES: [&str; 6] = ["OK", "WARNING", "WARN", "CRITICAL", "CRIT", "UNKNOWN"];
/// Words before such a word: `LOAD`, `HTTP`, `DISK /var`.
const WORDS_BEFORE_MAX: usize = 3;

/// What a plugin wrote.
#[derive(Debug, PartialEq)]
pub struct Output {
    /// The first line, without the name of the check and its result.
    pub message: String,
    /// The values with their thresholds.
    pub metrics: Vec<Metric>,
}

impl Output {
    /// Reads the output; bytes that are not UTF-8 are replaced.
    pub fn read(bytes: &[u8]) -> Output {
        let text = String::from_utf8_lossy(bytes);
        let (shown, data) = divide(&text);
        let first = shown.lines().map(str::trim).find(|line| !line.is_empty());
        let first = one_line(first.unwrap_or_default());
        let line = first.trim().trim_end_matches([';', ' ']);
        let message = without_prefix(line).to_string();
        Output { message, metrics: perfdata::parse(&data) }
    }
}

/// Separates the text from the performance data.
fn divide(text: &str) -> (String, String) {
    let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
    let (shown, data) = first.split_once('|').unwrap_or((first, ""));
    let (more, later) = rest.split_once('|').unwrap_or((rest, ""));
    (format!("{shown}\n{more}"), format!("{data} {later}"))
}

/// Returns the line without `LOAD OK - `, unless nothing else is there.
fn without_prefix(line: &str) -> &str {
    let mut rest = line;
    for _ in 0..=WORDS_BEFORE_MAX {
        let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
        let word = rest[..end].trim_end_matches([':', '-', ';', ',']);
        rest = rest[end..].trim_start();
        if STATES.contains(&word) {
            let text = rest.trim_start_matches(['-', ':', ';']).trim_start();
            return if text.is_empty() { line } else { text };
        }
        let is_name = |c: char| !c.is_ascii_lowercase();
        if word.is_empty() || !(word.chars().all(is_name) || word.starts_with('/')) {
            return line;
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(text: &str) -> String {
        Output::read(text.as_bytes()).message
    }

    #[test]
    fn the_message_is_the_first_line_without_its_prefix() {
        for (text, expected) in [
            ("LOAD OK - load average: 0.1, 0.2, 0.3|load1=0.1", "load average: 0.1, 0.2, 0.3"),
            ("OK - load average: 0.1|a=1", "load average: 0.1"),
            ("HTTP OK: HTTP/1.1 200 OK - 612 bytes", "HTTP/1.1 200 OK - 612 bytes"),
            ("PROCS CRITICAL: 5 processes | procs=5;1;2;0;", "5 processes"),
            ("DISK WARNING - free space: / 10 MB (1%);", "free space: / 10 MB (1%)"),
            ("DISK /var OK: enough", "enough"),
            ("UNKNOWN: no such host", "no such host"),
            ("TCP OK - 0.000 second response time", "0.000 second response time"),
            ("connect to address 127.0.0.1: Connection refused", ""),
            ("OK", ""),
            ("WARNING -", ""),
            ("Everything is OK - really", ""),
            ("  \n\nfirst words\nmore", "first words"),
        ] {
            let expected = if expected.is_empty() { text } else { expected };
            assert_eq!(message(text), expected, "{text:?}");
        }
        assert_eq!(message(""), "");
        assert_eq!(message("|a=1"), "");
    }

    #[test]
    fn later_lines_have_data_too() {
        let output = Output::read(b"OK - fine | a=1\nlong text\nmore | b=2\nc=3\n");
        let labels: Vec<_> = output.metrics.iter().map(|metric| metric.label.as_str()).collect();
        assert_eq!((output.message.as_str(), labels), ("fine", vec!["a", "b", "c"]));
    }

    #[test]
    fn any_bytes_become_a_line() {
        assert_eq!(message("OK - \u{1b}[31mred\u{7}"), one_line("\u{1b}[31mred\u{7}").trim());
        let output = Output::read(b"OK - caf\xe9 \xff");
        assert_eq!(output.message, "caf\u{fffd} \u{fffd}");
    }
}
